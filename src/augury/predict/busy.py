"""Which part of its run time a function computes; the rest it sleeps, or waits for what is not on its machine.

    execution_s   10 µs   12 µs   11 µs   22 ms       median 11.5 µs
    cpu_s         10 µs   11 µs   11 µs   60 µs       median 11 µs         share 0.96

Medians are compared, as run times are predicted at the median. A task that had to wait for a processor takes longer,
and computes no more: where processors are short that hits few of many short tasks (the last one here), and most of
those that are long.
"""

import math
import struct
from collections.abc import Iterable, Sequence
from statistics import median

from augury.dag.graph import FunctionInfo
from augury.metrics.records import COLUMNS, Kind, Series

_RECENT = 32
"""How many of the last measurements of a series are looked at."""
_COLUMNS = COLUMNS[Kind.TASK]
_EXECUTION, _CPU = _COLUMNS.index("execution_s"), _COLUMNS.index("cpu_s")


def cpu_shares(series: Iterable[Series], functions: Sequence[FunctionInfo], platform: str = "") -> list[float]:
    """For each function, which part of its run time it needs a processor; 0 if nothing is known.

    No more than one processor is counted for a task, whatever it has been seen to use.

    Args:
        series: What was measured.
        functions: The functions.
        platform: Where; if nothing was measured there, what was measured elsewhere counts.
    """
    known: dict[str, list[Series]] = {}
    for one in series:
        if one.of.kind is Kind.TASK:
            known.setdefault(one.of.function, []).append(one)
    shares = []
    for function in functions:
        found = known.get(function.version, [])
        shares.append(_share([one for one in found if one.of.platform == platform] or found))
    return shares


def _share(series: Iterable[Series]) -> float:
    rows = [
        row
        for one in series
        for row in struct.iter_unpack(f"<{len(_COLUMNS)}d", one.rows[-_RECENT * one.row_bytes :])
        if 0 <= row[_EXECUTION] < math.inf and 0 <= row[_CPU] < math.inf
    ]
    if not rows:
        return 0.0
    execution_s = median(row[_EXECUTION] for row in rows)
    return min(1.0, median(row[_CPU] for row in rows) / execution_s) if execution_s else 1.0
