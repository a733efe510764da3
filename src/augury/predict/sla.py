"""How careful a prediction has to be.

A service-level agreement (SLA) says which run a prediction speaks of: the average one, the median one, or one that only
few are worse than. Percentiles are always those of *time* (or of size), never of speed: a higher one is never faster.
"""

import math
from numbers import Real
from typing import Literal

import msgspec

from augury.errors import DefinitionError


class Percentile(msgspec.Struct, frozen=True, order=True):
    """An SLA: so many percent of the runs are expected to take no longer than predicted.

    Args:
        p: The percentage; above 0 and below 100.

    Raises:
        DefinitionError: It is no number between 0 and 100.

    Example:
        >>> Percentile(95) > Percentile(50)
        True
    """

    p: float

    def __post_init__(self) -> None:
        if not _is_percentage(self.p):
            raise DefinitionError(f"Percentile takes a number above 0 and below 100, not {self.p!r}")


def _is_percentage(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, Real) and 0 < float(value) < 100


SLA = Literal["average", "median"] | Percentile
"""The average run, the median run, or a percentile."""


def fraction_of(sla: SLA) -> float:
    """The fraction of runs that a prediction is to cover; NaN if the average is asked for.

    Raises:
        DefinitionError: It is no SLA.

    Example:
        >>> fraction_of(Percentile(90))
        0.9
    """
    if isinstance(sla, Percentile):
        return sla.p / 100
    if sla == "median":
        return 0.5
    if sla == "average":
        return math.nan
    raise DefinitionError(f'unknown SLA {sla!r}: choose "average", "median" or Percentile(p) with 0 < p < 100')
