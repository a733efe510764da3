"""Models that were fitted before, for as long as what they were fitted to has not moved."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from augury.metrics.records import Series
from augury.predict.levels import Levels, levels_of, moved

if TYPE_CHECKING:
    from augury.predict.estimator import Model  # needs NumPy, which takes long to load

_MOST = 4096


class Fits:
    """Remembers models. May be shared by threads: at worst, something is fitted twice.

    Args:
        most: How many it remembers; those that were not asked for longest give way.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, ...], tuple[Levels, Model | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def model(
        self, key: tuple[str, ...], series: Sequence[Series], column: str, fit: "Callable[[], Model | None]"
    ) -> "Model | None":
        """The model that was fitted for this key, if its samples have not moved since; or else a new one.

        Args:
            key: What it is a model of.
            series: What it is fitted to.
            column: Which column of it.
            fit: Makes a new one.
        """
        now = levels_of(series, column)
        known = self._known.pop(key, None)
        if known is None or moved(known[0], now):
            known = (now, fit())
        self._known[key] = known  # as the last one
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return known[1]
