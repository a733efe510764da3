"""A table of predictions over size and resources, monotone by construction.

The laws are monotone, but corrections by what was measured nearby need not be. So a model is written down as a table
at a few dozen sizes and resources; the table is made monotone; and predictions interpolate in it (linearly, between
logarithms), which keeps what holds for the table. Looking up takes two bisections.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from augury.predict.samples import Floats


class Surface:
    """A function of size and resources, both as logarithms: never falls with size, never rises with resources."""

    __slots__ = ("_rows", "resources", "sizes", "table")

    def __init__(self, sizes: Floats, resources: Floats, table: Floats) -> None:
        """Take a table of values by size (rows) and resources (columns), and make it monotone."""
        self.sizes: list[float] = sizes.tolist()
        self.resources: list[float] = resources.tolist()
        self.table = monotone(table)
        self._rows: list[list[float]] = self.table.tolist()

    def __call__(self, size: float, resources: float) -> float:
        """The value at one point; outside of the table, that of its nearest edge."""
        row, down = _place(self.sizes, size)
        column, right = _place(self.resources, resources)
        upper, lower = self._rows[row], self._rows[min(row + 1, len(self.sizes) - 1)]
        beside = min(column + 1, len(self.resources) - 1)
        above = upper[column] + right * (upper[beside] - upper[column])
        below = lower[column] + right * (lower[beside] - lower[column])
        return above + down * (below - above)

    def along(self, resources: float) -> Callable[[float], float]:
        """The values that a call gives for fixed resources, as a function of size: faster, for those who ask often."""
        column, right = _place(self.resources, resources)
        beside = min(column + 1, len(self.resources) - 1)
        values = [row[column] + right * (row[beside] - row[column]) for row in self._rows]
        knots, last = self.sizes, len(self.sizes) - 1

        def value(size: float) -> float:
            if size <= knots[0]:
                return values[0]
            if size >= knots[last]:
                return values[last]
            index = bisect_right(knots, size) - 1
            above, low = values[index], knots[index]
            return above + (size - low) / (knots[index + 1] - low) * (values[index + 1] - above)

        return value

    def at(self, sizes: Floats, resources: Floats) -> Floats:
        """The values at many points."""
        rows, down = _places(np.array(self.sizes), sizes)
        columns, right = _places(np.array(self.resources), resources)
        next_rows = np.minimum(rows + 1, len(self.sizes) - 1)
        beside = np.minimum(columns + 1, len(self.resources) - 1)
        above = self.table[rows, columns] * (1 - right) + self.table[rows, beside] * right
        below = self.table[next_rows, columns] * (1 - right) + self.table[next_rows, beside] * right
        return above * (1 - down) + below * down


def _place(knots: Sequence[float], at: float) -> tuple[int, float]:
    """The knot before a point, and how far the point is on the way to the next one."""
    if at <= knots[0]:
        return 0, 0.0
    if at >= knots[-1]:
        return len(knots) - 1, 0.0
    index = bisect_right(knots, at) - 1
    return index, (at - knots[index]) / (knots[index + 1] - knots[index])


def _places(knots: Floats, at: Floats) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], Floats]:
    if len(knots) == 1:
        return np.zeros(len(at), dtype=np.intp), np.zeros(len(at))
    inside = np.clip(at, knots[0], knots[-1])
    index = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
    return index, (inside - knots[index]) / (knots[index + 1] - knots[index])


def monotone(table: Floats) -> Floats:
    """The table, raised and lowered in equal parts until it rises down the rows and falls along the columns."""
    rising = 0.5 * (_raised(table, 0) + _lowered(table, 0))
    falling = np.flip(rising, axis=1)
    settled = 0.5 * (_raised(falling, 1) + _lowered(falling, 1))
    return np.ascontiguousarray(np.flip(settled, axis=1))


def _raised(table: Floats, axis: int) -> Floats:
    return np.maximum.accumulate(table, axis=axis)


def _lowered(table: Floats, axis: int) -> Floats:
    return np.flip(np.minimum.accumulate(np.flip(table, axis=axis), axis=axis), axis=axis)
