"""What is known of functions whose tasks ran out of memory: their next tasks must have more.

How much memory a task needs is predicted from what tasks used that came to their end. A task that did not says only
that it needed more than it had, and it may be one among hundreds that needed little. So it counts apart, as a bound
from below: a function that once ran out of memory gets more than it had then, and no less than any later run used.

    runs that ended     90  95  92  310   MiB        predicted by a percentile of them: 100 MiB
    ran out of memory              256    MiB        so at least 256 x 1.25 = 320 MiB, and 310 x 1.1 = 341 MiB

The bound holds for inputs as large as the one that it comes from, or larger; for all of them if that is not known.
"""

import math
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from augury.metrics.records import COLUMNS, Kind, Series

BEYOND: Final = 1.25
"""What a task is given that ran out of memory, by what it had."""
OUT_OF_MEMORY: Final = "more than when it ran out of memory"
"""What a prediction rests on that is such a bound."""
_SPARE: Final = 1.1
"""What it is given, by what it used when it had enough."""
_ALIKE: Final = 0.8
"""Inputs smaller by less than this are as large: their sizes are predicted, too."""


class Bound(NamedTuple):
    """From which input on tasks need how much memory, at least."""

    input_bytes: float
    memory_mb: float


class Excesses:
    """The functions of a history that ran out of memory.

    Args:
        series: What was measured.

    Example:
        >>> from augury import Resources
        >>> from augury.metrics.records import MemoryExcess, series_of
        >>> killed = MemoryExcess(function="5c1e", name="resize", resources=Resources(memory_mb=512), used_mb=512)
        >>> Excesses(series_of([killed])).least_mb("5c1e", input_bytes=1e6)
        640.0
    """

    def __init__(self, series: Iterable[Series]) -> None:
        known = list(series)
        self._bounds: dict[str, list[Bound]] = {}
        for one in known:
            if one.of.kind is Kind.EXCESS:
                self._bounds.setdefault(one.of.function, []).extend(_bounds(one, "used_mb", BEYOND))
        for one in known if self._bounds else ():
            bounds = self._bounds.get(one.of.function)
            if bounds is not None and one.of.kind is Kind.TASK:
                least_mb = min((bound.memory_mb for bound in bounds), default=math.inf) / BEYOND
                bounds.extend(bound for bound in _bounds(one, "peak_mb", _SPARE) if bound.memory_mb > least_mb * _SPARE)

    def least_mb(self, function: str, input_bytes: float) -> float:
        """The least memory in MiB for a task of a function, given by its version; 0 if it never ran out of it."""
        bounds = self._bounds.get(function)
        if bounds is None:
            return 0.0
        return max((bound.memory_mb for bound in bounds if input_bytes >= _ALIKE * bound.input_bytes), default=0.0)

    def least_mbs(self, function: str, input_bytes: Iterable[float]) -> list[float]:
        """`least_mb` for many inputs."""
        return [self.least_mb(function, size) for size in input_bytes]


def _bounds(series: Series, column: str, factor: float) -> Iterable[Bound]:
    names = COLUMNS[series.of.kind]
    amount, size = names.index(column), names.index("input_bytes")
    for row in struct.iter_unpack(f"<{len(names)}d", series.rows):
        if 0 < row[amount] < math.inf:
            yield Bound(row[size] if row[size] > 0 else 0.0, row[amount] * factor)
