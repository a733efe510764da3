"""What becomes of what workers measured: history keeps a part, and the report compares the rest with the plan.

    Recorded, WorkerLeft ──▶ Harvest ──▶ history, in threads of its own: now and then, and at the end
                                └──────▶ spans and cold starts, for the report

Everything is bounded, whatever workers send. Several clients may follow one run, and each that sees its end brings in
what was measured: history takes it once, by parts. Where a part ends is settled by the events alone, so that
everybody's parts are the same.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, wait

from msgspec.structs import replace

from augury.dag.graph import Graph
from augury.errors import DefinitionError
from augury.metrics.history.history import History
from augury.metrics.records import Batch, Gathered, Kind, MemoryExcess, Series, Span, Spread, Startup, series_of
from augury.plan.plan import Plan
from augury.run.beside import do_beside
from augury.storage.protocols import WorkerSummary

_log = logging.getLogger(__name__)

RUN_SPANS = 20_000
"""How many spans of tasks are kept for the report of a run, at most; they are spread evenly over what comes in."""
_RECORD_S = 20.0  # after how long what was measured so far is kept; then after twice that, …
_RECORD_PATIENCE_S = 1.0
_FIRST_PART = 64  # after so many events with measurements the first part ends; after twice as many the second, …
_MB_PER_GB = 1024
_troubled: set[str] = set()  # addresses of histories that could not be written to


class Harvest:
    """What the workers of one run measured. Used by the thread that watches the run, and by those that keep it.

    Args:
        run_id: The run.
        label: The workflow's name for people; `kept_as`: the one that its history is kept under.
        inherit: Whether its history takes over what others know of its functions.
        history: Where what is measured goes; None: nothing is measured.
        platform: How records call the platform.
        started_s: When the run began, on the clock of `keep_now_and_then`.

    Attributes:
        planner: What made the plan; set before anything is gathered.
        cold_gb_seconds: How long workers took to start cold, times their memory.
    """

    def __init__(
        self,
        run_id: str,
        label: str,
        *,
        kept_as: str,
        inherit: bool,
        history: History | None,
        platform: str,
        started_s: float,
    ) -> None:
        self.planner = ""
        self.cold_gb_seconds = 0.0
        self._run_id = run_id
        self._label = label
        self._kept_as = kept_as
        self._inherit = inherit
        self._history = history
        self._platform = platform
        self._started_s = started_s
        self._recorded_s = started_s
        self._spans: Spread[Span] = Spread(RUN_SPANS)
        self._gathered = Gathered()
        self._gathering = threading.Lock()
        self._events = 0
        self._parts: list[tuple[int, list[Series]]] = []  # that are at their end and not kept yet
        self._next_part = 0
        self._recording: Future[None] = Future()

    def gather(self, records: bytes) -> None:
        """Take what a worker sent; what cannot be read is lost, and the run is none the worse."""
        if not records or self._history is None:
            return
        try:
            batch = Batch.decode(records, platform=self._platform, planner=self.planner)
        except DefinitionError as error:
            _log.warning("what a worker of run %s measured is lost: %s", self._run_id, error)
            return
        for span in batch.spans:
            self._spans.add(span)
        self.cold_gb_seconds += sum(map(_cold_gb_seconds, batch.series))
        self._add(batch.series)

    def outgrown(self, graph: Graph, plan: Plan, summary: WorkerSummary) -> None:
        """Take that a worker ran out of memory, and what it was running then."""
        if self._history is None:
            return
        excesses = [
            MemoryExcess(
                function=graph.info(one.task).version,
                name=graph.info(one.task).name,
                # As planned, but for the memory: it may have been started again with more.
                resources=replace(plan.assignments[one.task].resources, memory_mb=summary.memory_mb),
                platform=self._platform,
                planner=self.planner,
                ended_s=time.time(),
                used_mb=one.used_mb,
                input_bytes=one.input_bytes,
            )
            for one in summary.outgrown
            if 0 <= one.task < len(graph)
        ]
        if excesses:
            self._add(series_of(excesses))

    def _add(self, series: Iterable[Series]) -> None:
        """Take the measurements of one event."""
        with self._gathering:
            self._gathered.add(series)
            self._events += 1
            if self._events == _FIRST_PART << self._next_part:
                self._end_part()

    def _end_part(self) -> None:
        """What was gathered is a part; the lock is held."""
        self._parts.append((self._next_part, list(self._gathered.take())))
        self._next_part += 1

    def spans(self) -> list[Span]:
        """When tasks ran: one span for each task that was measured, that of its first end."""
        first: dict[int, Span] = {}
        for span in self._spans.items:
            known = first.get(span.task)
            if known is None or span.start_s + span.execution_s < known.start_s + known.execution_s:
                first[span.task] = span
        return [first[task] for task in sorted(first)]

    def keep_now_and_then(self, now_s: float) -> None:
        """Keep the parts that are at their end, in another thread, in case nobody sees the end of the run."""
        if now_s - self._recorded_s >= max(_RECORD_S, self._recorded_s - self._started_s):
            self._recorded_s = now_s
            self._start_keeping()

    def keep(self) -> None:
        """Keep what was measured: who reads the history next should find it there, but nobody waits long for it."""
        with self._gathering:
            self._end_part()
        self._start_keeping()
        wait([self._recording], _RECORD_PATIENCE_S)

    def _start_keeping(self) -> None:
        self._recording = do_beside(self._keep, f"augury-record-{self._run_id}")

    def _keep(self) -> None:
        """Add what the workers measured to the workflow's history; without that, the run was none the worse."""
        with self._gathering:
            parts, self._parts = self._parts, []
        for number, series in parts:
            if self._history is not None and series:
                self._keep_part(self._history, number, series)

    def _keep_part(self, history: History, part: int, series: list[Series]) -> None:
        try:
            history.add(self._kept_as, self._run_id, series, label=self._label, part=part, inherit=self._inherit)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with history, the user has the result
            # Once per process and history: it will not be another reason the next time.
            level = logging.DEBUG if history.address in _troubled else logging.WARNING
            _troubled.add(history.address)
            _log.log(level, "what run %s taught could not be kept: %s", self._run_id, error)


def _cold_gb_seconds(series: Series) -> float:
    if series.of.kind is not Kind.COLD:
        return 0.0
    starts_s = [record.duration_s for record in series.records() if isinstance(record, Startup)]
    return sum(start_s for start_s in starts_s if math.isfinite(start_s)) * series.of.resources.memory_mb / _MB_PER_GB
