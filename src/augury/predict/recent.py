"""Predictions at a glance: what was measured last, and no law. Needs no NumPy.

For workflows that are over in a moment: to fit laws would take longer than any plan could save. A task is expected to
take as long, and to return as much, as the last ones of its function did at the median, whatever its input; a transfer
takes the usual latency, and its bytes the usual pace.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import Literal

from augury.config import Resources
from augury.dag.graph import FunctionInfo
from augury.metrics.records import COLUMNS, Kind, Records, Series
from augury.predict.estimate import Estimate
from augury.predict.excess import OUT_OF_MEMORY, Excesses
from augury.predict.priors import (
    prior_execution,
    prior_output,
    prior_peak,
    prior_startup,
    prior_transfer,
    whole_bytes,
)
from augury.predict.sla import SLA, Percentile
from augury.wording import count

_RECENT = 32
_SMALL_BYTES = 64 * 1024.0

_Rows = list[tuple[float, ...]]


class Recent:
    """Predicts from the last measurements. Percentiles are theirs, so none is beyond the most that was seen.

    Args:
        records: The history.
        platform: Where the workflow is to run; if history knows nothing of it, what was measured elsewhere counts.

    Example:
        >>> from augury.dag.graph import FunctionInfo
        >>> from augury.metrics.records import Records, TaskRun, series_of
        >>> runs = [TaskRun(function="5c1e", name="f", resources=Resources(), execution_s=s) for s in (1.0, 9.0, 2.0)]
        >>> recent = Recent(Records(workflow="w").with_series(series_of(runs)))
        >>> recent.predict_execution_time(FunctionInfo("f", "5c1e"), 0.0, Resources(), "median")
        Estimate(2 ± 4; median of the last 3 runs)
    """

    def __init__(self, records: Records, platform: str = "") -> None:
        self._series: dict[tuple[Kind, str], list[Series]] = {}
        for one in records.series:
            self._series.setdefault((one.of.kind, one.of.function), []).append(one)
        self._excesses = Excesses(records.series)
        self._platform = platform

    def predict_execution_time(
        self, task_name: FunctionInfo, input_size: float, resource_config: Resources, sla: SLA
    ) -> Estimate:
        """How many seconds a task runs."""
        prior = prior_execution(input_size, resource_config, sla)
        return self._task(task_name, "execution_s", resource_config, sla, prior)

    def predict_execution_times(
        self, task_name: FunctionInfo, input_sizes: Sequence[float], resource_config: Resources, sla: SLA
    ) -> list[float]:
        """What `predict_execution_time` predicts for many input sizes."""
        return [float(self.predict_execution_time(task_name, size, resource_config, sla)) for size in input_sizes]

    def predict_output_sizes(self, function_name: FunctionInfo, input_sizes: Sequence[float], sla: SLA) -> list[float]:
        """How many bytes tasks return, for many input sizes."""
        return list(map(self.output_law(function_name, sla), input_sizes))

    def output_law(self, function_name: FunctionInfo, sla: SLA) -> Callable[[float], float]:
        """How many bytes a task returns, as a function of input size."""
        usual = self._task(function_name, "output_bytes", None, sla, prior_output(0.0, sla))
        if usual.is_prior:
            return lambda size: float(whole_bytes(prior_output(size, sla)))
        return lambda size: float(whole_bytes(usual))

    def predict_peak_memory(self, function_name: FunctionInfo, input_size: float) -> Estimate:
        """How many MiB a task needs: the most that any of the last ones had, and more than was too little before."""
        rows = self._rows(Kind.TASK, function_name.version, None)
        known = _column(rows, Kind.TASK, "peak_mb")
        usual_mb = known[-1] * (1 + 0.5 / len(known)) if known else 0.0
        least_mb = self._excesses.least_mb(function_name.version, input_size)
        if least_mb > usual_mb:
            return Estimate(least_mb, n=len(known) + 1, basis=OUT_OF_MEMORY)
        if not known:
            return prior_peak(input_size)
        return Estimate(usual_mb, n=len(known), basis=f"most of {count(len(known), 'run')}")

    def predict_peak_memories(self, function_name: FunctionInfo, input_sizes: Sequence[float]) -> list[float]:
        """What `predict_peak_memory` predicts for many input sizes."""
        return [float(self.predict_peak_memory(function_name, size)) for size in input_sizes]

    def predict_worker_startup_time(
        self, resource_config: Resources, state: Literal["cold", "warm"], sla: SLA, *, starting: int = 1
    ) -> Estimate:
        """How many seconds a worker takes to start, however many others do."""
        rows = self._rows(Kind(state), "", resource_config)
        known = _column(rows, Kind(state), "duration_s")
        return _estimate(known, sla, "start") if known else prior_startup(state, sla)

    def most_starting(self, state: Literal["cold", "warm"]) -> float:
        """One: start-ups are predicted alike, however many there are."""
        return 1.0

    def predict_data_transfer_time(
        self,
        type: Literal["upload", "download"],  # noqa: A002 - the paper's name
        data_size_bytes: float,
        resource_config: Resources,
        sla: SLA,
    ) -> Estimate:
        """How many seconds it takes to move bytes to storage or from it; a prior, if no such size is known."""
        kind = Kind(type)
        rows = [row for row in self._rows(kind, "", resource_config) if all(map(math.isfinite, row[-2:]))]
        small = _column([row for row in rows if row[-2] <= _SMALL_BYTES], kind, "duration_s")
        large = [row for row in rows if row[-2] > _SMALL_BYTES]
        if data_size_bytes <= _SMALL_BYTES and small:
            return _estimate(small, sla, type)
        if not large:
            return prior_transfer(data_size_bytes, resource_config, sla)
        latency_s = _centre(small, sla) if small else 0.0
        paces = sorted(max(0.0, duration_s - latency_s) / size for *_, size, duration_s in large)
        return Estimate(
            latency_s + data_size_bytes * _centre(paces, sla),
            n=len(large),
            basis=f"{_word(sla)} of the last {count(len(large), type)}",
        )

    def _task(
        self, function: FunctionInfo, column: str, resources: Resources | None, sla: SLA, prior: Estimate
    ) -> Estimate:
        known = _column(self._rows(Kind.TASK, function.version, resources), Kind.TASK, column)
        return _estimate(known, sla, "run") if known else prior

    def _rows(self, kind: Kind, function: str, resources: Resources | None) -> _Rows:
        """The last measurements: of this platform, if there are any, and with the most similar memory."""
        series = self._series.get((kind, function), [])
        series = [one for one in series if one.of.platform == self._platform] or series
        if resources is not None and series:
            nearest = min(abs(math.log(one.of.resources.memory_mb / resources.memory_mb)) for one in series)
            series = [
                one for one in series if abs(math.log(one.of.resources.memory_mb / resources.memory_mb)) <= nearest
            ]
        rows: _Rows = []
        for one in series:
            rows += struct.iter_unpack(f"<{len(COLUMNS[kind])}d", one.rows[-_RECENT * one.row_bytes :])
        return rows


def _column(rows: _Rows, kind: Kind, name: str) -> list[float]:
    """What is known in a column, in order of size."""
    place = COLUMNS[kind].index(name)
    return sorted(row[place] for row in rows if 0 <= row[place] < math.inf)


def _estimate(ordered: list[float], sla: SLA, unit: str) -> Estimate:
    low, high = (ordered[round(part * (len(ordered) - 1))] for part in (0.1, 0.9))
    return Estimate(
        _centre(ordered, sla),
        spread=0.5 * (high - low),
        n=len(ordered),
        basis=f"{_word(sla)} of the last {count(len(ordered), unit)}",
    )


def _centre(ordered: list[float], sla: SLA) -> float:
    if sla == "average":
        return math.fsum(ordered) / len(ordered)
    fraction = sla.p / 100 if isinstance(sla, Percentile) else 0.5
    place = min(max((len(ordered) + 1) * fraction - 1, 0.0), len(ordered) - 1.0)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (place - math.floor(place)) * (above - below)


def _word(sla: SLA) -> str:
    return f"{sla.p:g} %" if isinstance(sla, Percentile) else "mean" if sla == "average" else "median"
