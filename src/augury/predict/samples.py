"""Samples: the measurements of one quantity as columns, ready for statistics.

Here stored records become clean numbers, for every estimator alike: what is not known or cannot be true is left out.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from augury.config import Resources
from augury.metrics.records import COLUMNS, Kind, Series

Floats: TypeAlias = npt.NDArray[np.float64]

_USUAL = Resources()

MOST_SECONDS = 7 * 24 * 3600.0
"""No function runs for longer than a week: such a duration shows a clock that was set."""
MOST_BYTES = 1e18
MOST_MB = 1e9


class Quantity(StrEnum):
    """What is predicted."""

    EXECUTION = "execution"
    OUTPUT = "output"
    PEAK = "peak"
    UPLOAD = "upload"
    DOWNLOAD = "download"
    COLD = "cold"
    WARM = "warm"


_TASK = Kind.TASK
_SOURCES: dict[Quantity, tuple[Kind, str, str, float]] = {
    Quantity.EXECUTION: (_TASK, "execution_s", "input_bytes", MOST_SECONDS),
    Quantity.OUTPUT: (_TASK, "output_bytes", "input_bytes", MOST_BYTES),
    Quantity.PEAK: (_TASK, "peak_mb", "input_bytes", MOST_MB),
    Quantity.UPLOAD: (Kind.UPLOAD, "duration_s", "size_bytes", MOST_SECONDS),
    Quantity.DOWNLOAD: (Kind.DOWNLOAD, "duration_s", "size_bytes", MOST_SECONDS),
    Quantity.COLD: (Kind.COLD, "duration_s", "starting", MOST_SECONDS),
    Quantity.WARM: (Kind.WARM, "duration_s", "starting", MOST_SECONDS),
}
"""Where a quantity is recorded: kind, column of the value, column of what it depends on, the most that can be true."""


def column_of(quantity: Quantity) -> tuple[Kind, str]:
    """Where a quantity is recorded: in which kind of series, and in which of their columns."""
    return _SOURCES[quantity][:2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Measurements of one quantity, oldest first; columns of the same length.

    Attributes:
        values: What was measured: seconds, bytes or MiB; finite and not negative.
        sizes: What it depends on: bytes of input, bytes moved, or workers starting at once; finite, not negative.
        memory_mb: The memory of the worker.
        cpus: Its virtual CPUs.
        cpu_share: Processor time by run time; NaN if not known.
        sized: Whether any of the sizes was recorded; if not, they are 0.
        subject: What these are, in words: `same function`.
        unit: What one of them is called: `run`.
    """

    values: Floats
    sizes: Floats
    memory_mb: Floats
    cpus: Floats
    cpu_share: Floats
    sized: bool = True
    subject: str = "same function"
    unit: str = "run"

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(
        cls,
        values: Sequence[float] | Floats,
        *,
        sizes: Sequence[float] | Floats | float = 0.0,
        memory_mb: Sequence[float] | Floats | float = float(_USUAL.memory_mb),
        cpus: Sequence[float] | Floats | float = _USUAL.cpus,
        cpu_share: Sequence[float] | Floats | float = math.nan,
        subject: str = "same function",
        unit: str = "run",
    ) -> "Samples":
        """Make samples from plain numbers; a single number stands for a column of it."""
        count = len(values)
        columns = {"values": values, "sizes": sizes, "memory_mb": memory_mb, "cpus": cpus, "cpu_share": cpu_share}
        arrays: dict[str, Any] = {
            name: np.ascontiguousarray(np.broadcast_to(np.asarray(column, dtype=np.float64), count))
            for name, column in columns.items()
        }
        return cls(**arrays, subject=subject, unit=unit).cleaned()

    def cleaned(self, most: float = math.inf) -> "Samples":
        """Without values that cannot be true; sizes that are not known become the median of those that are."""
        known = np.isfinite(self.values) & (self.values >= 0) & (self.values <= most)
        kept = self.where(known)
        sized = np.isfinite(kept.sizes) & (kept.sizes >= 0)
        if sized.all():
            return kept
        usual = float(np.median(kept.sizes[sized])) if sized.any() else 0.0
        return replace(kept, sizes=np.where(sized, kept.sizes, usual), sized=bool(sized.any()))

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "Samples":
        """Some of them: those that a mask or indices choose."""
        return self.with_columns(**{name: getattr(self, name)[chosen] for name in _COLUMN_NAMES})

    def with_columns(self, **columns: Floats) -> "Samples":
        """With other columns in place of some."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        return Samples(**{**kept, **columns})


_COLUMN_NAMES = ("values", "sizes", "memory_mb", "cpus", "cpu_share")


def samples_of(series: Iterable[Series], quantity: Quantity, *, subject: str, unit: str) -> Samples:
    """The samples of one quantity in some series, by the time at which they were measured."""
    kind, value, size, most = _SOURCES[quantity]
    tables = [(one, _columns(one)) for one in series if one.of.kind is kind and one.rows]
    if not tables:
        return Samples.of([], subject=subject, unit=unit)
    samples = Samples(
        values=np.concatenate([table[value] for _, table in tables]),
        sizes=np.concatenate([table[size] for _, table in tables]),
        memory_mb=np.concatenate([np.full(len(one), float(one.of.resources.memory_mb)) for one, _ in tables]),
        cpus=np.concatenate([np.full(len(one), one.of.resources.cpus) for one, _ in tables]),
        cpu_share=np.concatenate([_cpu_share(table) for _, table in tables]),
        subject=subject,
        unit=unit,
    )
    if kind in (Kind.COLD, Kind.WARM):  # a start that was not counted was at least one
        samples = samples.with_columns(sizes=np.fmax(samples.sizes, 1.0))
    return samples.where(_oldest_first([table["ended_s"] for _, table in tables])).cleaned(most)


def _columns(series: Series) -> dict[str, Floats]:
    names = COLUMNS[series.of.kind]
    table = np.frombuffer(series.rows, dtype="<f8").reshape(-1, len(names)).astype(np.float64)
    return {name: table[:, index] for index, name in enumerate(names)}


def _cpu_share(table: dict[str, Floats]) -> Floats:
    if "cpu_s" not in table:
        return np.full(len(table["ended_s"]), math.nan)
    cpu_s, execution_s = table["cpu_s"], table["execution_s"]
    possible = np.isfinite(cpu_s) & np.isfinite(execution_s) & (cpu_s >= 0) & (execution_s > 0)
    with np.errstate(over="ignore"):
        shares = np.where(possible, cpu_s, math.nan) / np.where(possible, execution_s, 1.0)
    return np.where(np.isfinite(shares), shares, math.nan)


def _oldest_first(ended_s: Sequence[Floats]) -> npt.NDArray[np.intp]:
    """The order in which to read rows of several series.

    A time that is missing lies between those of its neighbours in the series. If times tell nothing, series are read
    abreast: each is in order by itself.
    """
    known = np.concatenate([one[np.isfinite(one)] for one in ended_s])
    if not len(known) or known.min() == known.max():
        times = [(np.arange(len(one)) + 0.5) / len(one) for one in ended_s]
    else:
        times = [_completed(one, float(known.min()), float(known.max())) for one in ended_s]
    return np.argsort(np.concatenate(times), kind="stable")


def _completed(times: Floats, first: float, last: float) -> Floats:
    """Times of one series without gaps; if none is known, evenly spread."""
    known, places = np.isfinite(times), np.arange(len(times))
    if not known.any():
        return first + (last - first) * (places + 0.5) / len(times)
    return np.interp(places, places[known], times[known])
