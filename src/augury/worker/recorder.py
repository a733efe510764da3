"""What one invocation measures, kept in memory until it is sent: at the invocation's end, and now and then before.

Measuring must cost next to nothing, however short tasks are, so not every run of a function is measured:

- the first few runs of each function are, of all functions together so many at most;
- runs of a function that takes long enough for it not to matter (`_WORTH_S`) always are;
- of the others, as many as a small share of the worker's processor time pays for (not of its time: many workers may
  share a processor, and each second of theirs would pay). Chance decides before a task begins, so that short ones and
  long ones are equally likely to be measured, in whatever pattern they come: how many tasks are passed over until the
  next one is drawn beforehand. If meanwhile tasks have become long, they are not all passed over: after some time
  the next one is measured in any case.

What waits to be sent is bounded, too: see `Spread`. Beside what history keeps goes when each task ran (`Span`), for
who compares the run with its plan.
"""

import ctypes
import math
import os
import random
import resource
import threading
import time
from collections.abc import Callable
from typing import Final

from augury.config import Resources
from augury.dag.graph import Graph
from augury.metrics.records import (
    COLUMNS,
    RUN_ROWS,
    SCHEMA,
    WORKER_SPANS,
    Batch,
    Circumstances,
    Kind,
    Series,
    Span,
    Spread,
    pack_row,
    pack_spans,
)

_SHARE: Final = 0.001
"""Which part of the processor time may go into measuring."""
_COST_S: Final = 40e-6
"""What it takes to measure one task, as rarely as it is done."""
_WORTH_S: Final = _COST_S / _SHARE
"""From how long on a task is worth measuring every time."""
_PATIENCE_S: Final = 1.0
"""After how long the next task is measured, however many were to be passed over."""
_FIRST_IN_ALL: Final = 64
"""How many tasks are measured whatever they take, all functions together."""
_ALWAYS: Final = 1 << 60
_FARTHEST: Final = 1000
_UPLOAD: Final = COLUMNS[Kind.TASK].index("upload_s")
_ENOUGH = 16
"""How many workers of a run measure what each of them could."""
_LONGEST_S: Final = 900.0
"""No start-up takes longer: a clock was set meanwhile."""


class Measurement:
    """The run of one task while it is being measured; made by `Recorder.begin`.

    Attributes:
        queue_s: As in `TaskRun`; likewise `dependency_s`, `load_s` and `input_bytes`.
        waited_s: How long its thread had waited for constants before it began.
        resets_peak: Whether the peak of memory is measured anew from its beginning.
        used: What the worker had used when it began; None before that.
    """

    __slots__ = ("_used", "dependency_s", "input_bytes", "load_s", "queue_s", "resets_peak", "used", "waited_s")

    def __init__(self, queue_s: float, dependency_s: float, used: "Callable[[], _Used]", *, resets_peak: bool) -> None:
        self.queue_s = queue_s
        self.dependency_s = dependency_s
        self.load_s = 0.0
        self.input_bytes = math.nan
        self.waited_s = 0.0
        self.resets_peak = resets_peak
        self.used: _Used | None = None
        self._used = used

    def loaded(self, load_s: float) -> None:
        """The task's function is there, after so long: now it begins."""
        self.load_s = load_s
        self.used = self._used()


class Recorder:
    """The measurements of one invocation. Used by all threads of a runner.

    Args:
        graph: The workflow.
        resources: What the worker has.
        enabled: Whether anything is measured at all.
        first: How many runs of each function are measured whatever they take.
        wall_clock: What tells when something happened.
        cpu_clock: How much processor time this process has used.
        chance: Gives numbers from 0 to 1.
    """

    def __init__(
        self,
        graph: Graph,
        resources: Resources,
        *,
        enabled: bool = True,
        first: int = 16,
        wall_clock: Callable[[], float] = time.time,
        cpu_clock: Callable[[], float] = time.process_time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._graph = graph
        self._function_of = graph.function_of
        self._resources = resources
        self._enabled = enabled
        self._wall_clock = wall_clock
        self._used = _used_by_process if resources.task_slots == 1 else _used_by_thread
        self._to_measure = [first if enabled else 0] * len(graph.functions)  # runs of each function yet to be measured
        self._first = first
        self._first_in_all = max(first, _FIRST_IN_ALL)
        self._took = [(0, 0.0)] * len(graph.functions)  # runs of each function that were measured, and their time
        self._to_pass_over = int(chance() * _FARTHEST)
        self._due_s = math.inf
        self._count: Callable[[], int] = int
        self._cpu_clock = cpu_clock
        self._began_cpu_s = cpu_clock()
        self._chance = chance
        self._lock = threading.Lock()
        self._tables: dict[tuple[Kind, int], Spread[list[float]]] = {}  # by kind and, for tasks, function
        self._spans: Spread[Span] = Spread(WORKER_SPANS)
        self._to_be_stored: dict[int, list[float]] = {}  # task whose output may be stored later → its row
        self._under_way = 0

    # Tasks

    def follow(self, count: Callable[[], int]) -> None:
        """From now on ask this how many tasks ran here."""
        self._count = count

    def begin(self, task: int, now_s: float, ready_s: float, fetch_s: float) -> Measurement | None:
        """A task is about to run: measure it, or None if this one is not to be measured.

        Args:
            task: The task.
            now_s: What time it is, on the clock of the core.
            ready_s: When it became ready.
            fetch_s: How long it has waited since then for inputs to come from storage.
        """
        function = self._function_of[task]
        if self._to_measure[function]:
            self._to_measure[function] -= 1
        elif self._to_pass_over and now_s < self._due_s:
            self._to_pass_over -= 1
            return None
        else:
            self._to_pass_over = self._draw_distance()
            self._due_s = now_s + _PATIENCE_S
            if not self._enabled:
                self._due_s = math.inf
                return None
        with self._lock:
            self._under_way += 1
            alone = self._under_way == 1
            if alone:
                _begin_peak()
        return Measurement(max(0.0, now_s - ready_s - fetch_s), max(0.0, fetch_s), self._used, resets_peak=alone)

    def _draw_distance(self) -> int:
        """How many tasks to pass over until the next one is measured, if each is measured with the same chance."""
        chance = (self._cpu_clock() - self._began_cpu_s) / max(1, self._count()) / _WORTH_S
        if chance >= 1:
            return 0
        if chance <= 1 / _FARTHEST:
            return 1 + int(2 * self._chance() * _FARTHEST)
        return int(math.log(1 - self._chance()) / math.log(1 - chance))

    def end(
        self,
        task: int,
        measurement: Measurement,
        *,
        execution_s: float,
        upload_s: float,
        output_bytes: float,
        leaves: bool = False,
    ) -> None:
        """A task that is being measured has returned; `leaves`: its output may be stored later."""
        used = self._used()
        before = measurement.used or used
        # With children that were waited for meanwhile counts the largest that there ever was: one cannot tell.
        children_mb = used.children_mb if used.children_s > before.children_s else 0.0
        now_s = self._wall_clock()
        row = [
            now_s,
            measurement.queue_s,
            measurement.dependency_s,
            execution_s,
            upload_s,
            used.cpu_s - before.cpu_s + used.children_s - before.children_s,
            used.peak_mb + children_mb if measurement.resets_peak else math.nan,
            measurement.input_bytes,
            output_bytes,
            measurement.load_s,
        ]
        function = self._function_of[task]
        with self._lock:
            self._under_way -= 1
            self._learn(function, execution_s)
            self._spans.add(Span(task, now_s - upload_s - execution_s, execution_s))
            if self._table(Kind.TASK, function).add(row) and leaves:
                self._to_be_stored[task] = row

    def _learn(self, function: int, execution_s: float) -> None:
        """Settle whether further runs of a function are measured whatever chance says; the lock is held."""
        count, total_s = self._took[function]
        count, total_s = count + 1, total_s + execution_s
        self._took[function] = (count, total_s)
        if total_s >= count * _WORTH_S:
            self._to_measure[function] = _ALWAYS
        elif self._to_measure[function] > self._first:
            self._to_measure[function] = 0
        if count <= self._first:
            self._first_in_all -= 1
            if self._first_in_all == 0:
                self._to_measure = [left if left > self._first else 0 for left in self._to_measure]

    def abandon(self) -> None:
        """A task that is being measured raised."""
        with self._lock:
            self._under_way -= 1

    # Transfers and start-ups

    def stored(self, task: int, size_bytes: int, duration_s: float) -> None:
        """A large output went to storage."""
        self.uploaded(size_bytes, duration_s)
        row = self._to_be_stored.pop(task, None)
        if row is not None:
            row[_UPLOAD] += duration_s

    def uploaded(self, size_bytes: int, duration_s: float) -> None:
        """Bytes went to storage."""
        self._add(Kind.UPLOAD, [self._wall_clock(), size_bytes, duration_s])

    def downloaded(self, size_bytes: int, duration_s: float) -> None:
        """Bytes came from storage."""
        self._add(Kind.DOWNLOAD, [self._wall_clock(), size_bytes, duration_s])

    def started(self, *, cold: bool, received_s: float, granted_s: float, began_s: float, starting: int) -> None:
        """The invocation came up; times are in seconds since the epoch.

        Args:
            cold: Whether the platform had to make an environment.
            received_s: When the platform took the invocation.
            granted_s: When it began to start it.
            began_s: When the first instruction ran.
            starting: How many workers of the run were starting, this one included.
        """
        duration_s, waited_s = began_s - granted_s, granted_s - received_s
        if 0 <= duration_s <= _LONGEST_S:
            kept_s = waited_s if waited_s >= 0 else math.nan
            self._add(Kind.COLD if cold else Kind.WARM, [began_s, duration_s, starting, kept_s])

    # Sending

    def take(self) -> bytes:
        """What was measured since the last time, as bytes; empty if there is nothing."""
        with self._lock:
            taken = self._batch()
            self._tables = {}
            self._spans = Spread(WORKER_SPANS)
            self._to_be_stored.clear()
        return taken

    def can_miss_one_of(self, workers: int) -> bool:
        """Whether it does without one measurement that each of so many workers could make: enough others make it."""
        return not self._enabled or self._chance() * workers > _ENOUGH

    def look(self) -> bytes:
        """What `take` would take, and can take afterwards."""
        with self._lock:
            return self._batch()

    def _batch(self) -> bytes:
        series = [self._series(kind, function, table.items) for (kind, function), table in self._tables.items()]
        return Batch(SCHEMA, tuple(series), pack_spans(self._spans.items)).encode() if series else b""

    def _series(self, kind: Kind, function: int, rows: list[list[float]]) -> Series:
        info = self._graph.functions[function] if kind is Kind.TASK else None
        version, name = (info.version, info.name) if info is not None else ("", "")
        return Series(Circumstances(kind, version, self._resources), name, b"".join(map(pack_row, rows)))

    def _add(self, kind: Kind, row: list[float]) -> None:
        if self._enabled:
            with self._lock:
                self._table(kind, -1).add(row)

    def _table(self, kind: Kind, function: int) -> Spread[list[float]]:
        table = self._tables.get((kind, function))
        if table is None:
            table = self._tables[kind, function] = Spread(RUN_ROWS)
        return table


class _Used:
    """What a process has used so far: processor time, its own and that of its children, and memory at its peak."""

    __slots__ = ("children_mb", "children_s", "cpu_s", "peak_mb")

    def __init__(self, cpu_s: float) -> None:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_s = cpu_s
        self.children_s = children.ru_utime + children.ru_stime
        self.children_mb = children.ru_maxrss / 1024
        self.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _used_by_process() -> _Used:
    return _Used(time.process_time())


def _used_by_thread() -> _Used:
    return _Used(time.thread_time())


# Not `os.open`: it lets other threads of the worker run, and the task would have to wait for its turn again.
_libc = ctypes.PyDLL(None)


def _begin_peak() -> None:
    """Have the peak of this process's memory measured anew, where that can be done.

    Linux forgets it when a 5 is written to `clear_refs`. Where that is refused, it is that of the process's whole
    life, which is still an upper bound. The file is opened each time: a descriptor that is kept may be closed by
    a careless task, and be that of another file then.
    """
    descriptor = _libc.open(b"/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
    if descriptor >= 0:
        _libc.write(descriptor, b"5", 1)
        _libc.close(descriptor)
