"""Has what is predicted moved? Decided from records by a glance, without fitting anything.

A fit takes milliseconds for each function and quantity, and planning a large workflow takes longer than that. Both are
done again only if history says something new. What history says of one quantity of one function with some resources
is summed up as a *level*: how many measurements there are, and the median of the last ones with its uncertainty.

    level when it was fitted    n = 40     1.00 s ± 0.03 s
    level now                   n = 64     1.05 s ± 0.03 s      not moved: within a tenth
                                n = 64     1.30 s ± 0.03 s      moved
                                n = 80     1.01 s ± 0.02 s      moved: twice as much is known

Levels are compared with those of the time when something was fitted or planned, not with the last ones seen, so nothing
creeps away unnoticed. What this does not see: a law that changes while the median of recent measurements stays.
"""

import math
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from augury.config import Resources
from augury.metrics.records import COLUMNS, Kind, Series

_RECENT = 32
"""How many of the last measurements of a series are looked at."""
_TOLERANCE = 0.1
"""A level that differs by this part has not moved."""
_CERTAIN = 2.0
"""Nor has one that differs by so many standard errors."""
_KNOWN_WELL = 64
"""Once there are so many measurements, more of the same tell nothing new."""
_MEDIAN_ERROR = 1.2533  # the standard error of a median, by that of a mean
_MAD = 1.4826  # from the median of absolute deviations to a standard deviation

_WATCHED: Mapping[Kind, tuple[tuple[str, float], ...]] = {
    Kind.TASK: (("execution_s", 1e-4), ("output_bytes", 1024.0), ("peak_mb", 8.0)),
    Kind.UPLOAD: (("duration_s", 1e-3),),
    Kind.DOWNLOAD: (("duration_s", 1e-3),),
    Kind.COLD: (("duration_s", 5e-3),),
    Kind.WARM: (("duration_s", 5e-3),),
    Kind.EXCESS: (("used_mb", 8.0),),
}
"""The columns that are looked at, each with a difference that is too small to matter for any plan."""


class Level(NamedTuple):
    """What is known of one quantity under the same circumstances.

    Attributes:
        n: How many measurements there are; 0 if none of the last ones tells it.
        centre: The median of the last ones; NaN if none tells it.
        error: How uncertain that is: a standard error.
        unfelt: A difference that is too small to matter.
    """

    n: int
    centre: float
    error: float
    unfelt: float

    def moved_from(self, before: "Level") -> bool:
        """Whether this says something else than an earlier level."""
        if not self.n:
            return False
        if before.n < _KNOWN_WELL and self.n >= 2 * before.n:
            return True
        error = math.hypot(self.error, before.error)
        return abs(self.centre - before.centre) > max(_TOLERANCE * before.centre, _CERTAIN * error, self.unfelt)


class Place(NamedTuple):
    """Where a level holds."""

    kind: Kind
    function: str
    resources: Resources
    platform: str
    column: str


Levels = Mapping[Place, Level]


def levels_of(series: Iterable[Series], column: str | None = None) -> dict[Place, Level]:
    """The levels of what is watched in some series; those of different planners count together.

    Args:
        series: What was measured.
        column: The only column to look at; by default all that matter.
    """
    together: dict[tuple[Kind, str, Resources, str], list[Series]] = {}
    for one in series:
        of = one.of
        together.setdefault((of.kind, of.function, of.resources, of.platform), []).append(one)
    found: dict[Place, Level] = {}
    for (kind, function, resources, platform), parts in together.items():
        width = len(COLUMNS[kind])
        total = sum(map(len, parts))
        recent = b"".join(part.rows[-_RECENT * part.row_bytes :] for part in parts)
        numbers = struct.unpack(f"<{len(recent) // 8}d", recent)
        for name, unfelt in _WATCHED[kind]:
            if column is None or name == column:
                values = numbers[COLUMNS[kind].index(name) :: width]
                found[Place(kind, function, resources, platform, name)] = _level(values, total, unfelt)
    return found


def moved(before: Levels, now: Levels) -> bool:
    """Whether anything is known now that was not, or differs from what was known."""
    return any(place not in before or level.moved_from(before[place]) for place, level in now.items())


def _level(values: Iterable[float], n: int, unfelt: float) -> Level:
    known = sorted(value for value in values if 0 <= value < math.inf)  # without NaN, which is what is not known
    if not known:
        return Level(0, math.nan, 0.0, unfelt)
    centre = _median(known)
    deviation = _MAD * _median(sorted(abs(value - centre) for value in known))
    return Level(n, centre, _MEDIAN_ERROR * deviation / math.sqrt(len(known)), unfelt)


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])
