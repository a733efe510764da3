"""HEFT and CPoP, the classic list schedulers for heterogeneous processors (Topcuoglu, Hariri and Wu, 2002).

Both know how long each task takes on each processor, and how long an output takes to another worker; within a worker
it is there at once. They rank tasks by paths of mean times:

    upward(t)   = mean(t) + max over dependents d of  transfer(t, d) + upward(d)       from t to the end
    downward(t) = max over dependencies d of          downward(d) + mean(d) + transfer(d, t)    from the start to t

HEFT takes the tasks by upward rank, the highest first, and gives each to the processor where it finishes earliest, in
a gap between earlier decisions if there is one. CPoP takes the ready task with the highest sum of both ranks. On the
critical path all have the same sum, the highest of all; these tasks go to the one processor that runs the whole path
fastest, the others where they finish earliest.

A processor is a task slot, and a worker may have several. Of workers that are alike and still empty only one is
tried, and among processors that are alike the search ends at the first where a task need not wait; so as many
workers as tasks are affordable. At worst each task looks for a gap on each processor in use.
"""

import heapq
import math
from bisect import bisect_right, insort
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.plan import Assignment, Plan

DIGITS = 9
"""Ranks that differ in later digits are equal; then the task that was defined earlier comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What the classic schedulers know.

    Attributes:
        graph: The workflow.
        execution_s: For each processor, how long each task takes on it; processors that are alike share the object.
        transfer_s: For each task, how long the output of each of its dependencies takes from another worker.
        worker_of: For each processor, the worker that it belongs to.
    """

    graph: Graph
    execution_s: Sequence[Sequence[float]]
    transfer_s: Sequence[Sequence[float]]
    worker_of: Sequence[int]


def alike(
    graph: Graph, execution_s: Sequence[float], output_s: Sequence[float], *, workers: int, slots: int = 1
) -> Problem:
    """A problem with workers that are all alike.

    Args:
        graph: The workflow.
        execution_s: For each task, how long it takes.
        output_s: For each task, how long its output takes to another worker.
        workers: How many there are.
        slots: How many tasks each of them runs at once.
    """
    if workers < 1 or slots < 1:
        raise PlanError(f"there must be at least 1 worker and 1 slot, not {workers} and {slots}")
    return Problem(
        graph=graph,
        execution_s=[execution_s] * (workers * slots),
        transfer_s=[[output_s[dep] for dep in deps] for deps in graph.deps],
        worker_of=[processor // slots for processor in range(workers * slots)],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When and where each task runs, as the scheduler thinks."""

    processor: tuple[int, ...]
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]

    @property
    def makespan_s(self) -> float:
        """When the last task ends."""
        return max(self.end_s, default=0.0)

    def plan(self, problem: Problem, resources: Resources, planner: str) -> Plan:
        """The same as a plan: tasks on the workers of their processors, each worker in the order of starts."""
        workers = [problem.worker_of[processor] for processor in self.processor]
        numbers = {worker: number for number, worker in enumerate(dict.fromkeys(workers))}
        distinct = [Assignment(worker=number, resources=resources) for number in range(len(numbers))]
        by_start = sorted(range(len(workers)), key=lambda task: (self.start_s[task], task))
        ranks = {task: rank for rank, task in enumerate(by_start)}
        return Plan(
            fingerprint=problem.graph.fingerprint,
            planner=planner,
            assignments=tuple(distinct[numbers[worker]] for worker in workers),
            ranks=tuple(ranks[task] for task in range(len(workers))),
        )


def heft(problem: Problem) -> Schedule:
    """Heterogeneous earliest finish time: by upward rank, each task where it finishes first."""
    ranks = upward_ranks(problem)
    placing = _Placing(problem)
    for task in sorted(range(len(problem.graph)), key=lambda task: (-round(ranks[task], DIGITS), task)):
        placing.put_earliest(task)
    return placing.schedule()


def cpop(problem: Problem) -> Schedule:
    """Critical path on a processor: the critical path stays on one, the others go where they finish first."""
    graph = problem.graph
    upward, downward = upward_ranks(problem), downward_ranks(problem)
    priorities = [up + down for up, down in zip(upward, downward, strict=True)]
    critical = set(critical_path(graph, priorities))
    home = min(
        range(len(problem.execution_s)),
        key=lambda processor: sum(problem.execution_s[processor][task] for task in critical),
    )
    placing = _Placing(problem)
    for task in _by_priority(graph, priorities):
        if task in critical:
            placing.put(task, home)
        else:
            placing.put_earliest(task)
    return placing.schedule()


def upward_ranks(problem: Problem) -> list[float]:
    """For each task, the longest path of mean times from its start to the end of the workflow."""
    graph, mean_s = problem.graph, _mean_s(problem)
    beyond_s = [0.0] * len(graph)
    ranks = [0.0] * len(graph)
    for task in reversed(range(len(graph))):
        ranks[task] = mean_s[task] + beyond_s[task]
        for dep, transfer_s in zip(graph.deps[task], problem.transfer_s[task], strict=True):
            beyond_s[dep] = max(beyond_s[dep], transfer_s + ranks[task])
    return ranks


def downward_ranks(problem: Problem) -> list[float]:
    """For each task, the longest path of mean times from the start of the workflow to its own start."""
    mean_s = _mean_s(problem)
    ranks: list[float] = []
    for deps, transfers_s in zip(problem.graph.deps, problem.transfer_s, strict=True):
        arrivals = (ranks[dep] + mean_s[dep] + took_s for dep, took_s in zip(deps, transfers_s, strict=True))
        ranks.append(max(arrivals, default=0.0))
    return ranks


def critical_path(graph: Graph, priorities: Sequence[float]) -> list[int]:
    """The tasks of highest priority, from a root to a sink: on the longest path all have the same."""
    nexts: Sequence[int] = graph.roots
    path = []
    while nexts:
        path.append(max(nexts, key=priorities.__getitem__))
        nexts = graph.dependents[path[-1]]
    return path


def _mean_s(problem: Problem) -> list[float]:
    """For each task, the mean over processors; those that are alike are summed once."""
    counts: dict[int, int] = {}
    for column in problem.execution_s:
        counts[id(column)] = counts.get(id(column), 0) + 1
    columns = {id(column): column for column in problem.execution_s}
    total = [0.0] * len(problem.graph)
    for key, count in counts.items():
        total = [sum_s + count * seconds for sum_s, seconds in zip(total, columns[key], strict=True)]
    return [sum_s / len(problem.execution_s) for sum_s in total]


def _by_priority(graph: Graph, priorities: Sequence[float]) -> Iterator[int]:
    """Every task after those that it needs; of the ready ones, that of the highest priority."""
    missing = [len(deps) for deps in graph.deps]
    ready = [(-priorities[task], task) for task in graph.roots]
    heapq.heapify(ready)
    while ready:
        _, task = heapq.heappop(ready)
        yield task
        for dependent in graph.dependents[task]:
            missing[dependent] -= 1
            if not missing[dependent]:
                heapq.heappush(ready, (-priorities[dependent], dependent))


class _Busy:
    """When one processor is busy: intervals in order, none over another."""

    __slots__ = ("_intervals",)

    def __init__(self) -> None:
        self._intervals: list[tuple[float, float]] = []

    def earliest_start_s(self, ready_s: float, seconds: float) -> float:
        """The start of the first gap from `ready_s` on that is long enough."""
        intervals = self._intervals
        if not intervals or ready_s >= intervals[-1][1]:
            return ready_s
        start_s = ready_s
        for index in range(bisect_right(intervals, ready_s, key=itemgetter(1)), len(intervals)):
            busy_from_s, busy_to_s = intervals[index]
            if start_s + seconds <= busy_from_s:
                return start_s
            start_s = max(start_s, busy_to_s)
        return start_s

    def add(self, start_s: float, end_s: float) -> None:
        """Be busy in an interval that is free."""
        insort(self._intervals, (start_s, end_s))


@dataclass(frozen=True, slots=True)
class _Arrival:
    """When a task has its inputs: on workers that hold some of them, and on any other."""

    there_s: dict[int, float]
    elsewhere_s: float


class _Placing:
    """One schedule in the making: tasks are put one by one, after those that they need."""

    def __init__(self, problem: Problem) -> None:
        tasks, processors = len(problem.graph), len(problem.execution_s)
        self._problem = problem
        self._processor = [-1] * tasks
        self._start_s = [0.0] * tasks
        self._end_s = [0.0] * tasks
        self._busy = [_Busy() for _ in range(processors)]
        self._all_alike = len({id(column) for column in problem.execution_s}) == 1
        self._slots: dict[int, list[int]] = {}
        for processor, worker in enumerate(problem.worker_of):
            self._slots.setdefault(worker, []).append(processor)
        self._used: list[int] = []
        self._unused = self._by_kind(self._slots)

    def put_earliest(self, task: int) -> None:
        """Where it finishes first; where it finds inputs rather than elsewhere, if that makes no difference."""
        arrival = self._arrival(task)
        first = (math.inf, -1)
        for worker, ready_s in arrival.there_s.items():
            first = self._earliest(task, self._slots[worker], ready_s, first)
        for worker in self._others(arrival.there_s):
            if self._all_alike and first[0] <= arrival.elsewhere_s + self._problem.execution_s[0][task]:
                break  # the others are like this one, and none has the inputs earlier
            first = self._earliest(task, self._slots[worker], arrival.elsewhere_s, first)
        self._put(task, first[1], arrival)

    def put(self, task: int, processor: int) -> None:
        """On this processor, as early as it can be."""
        self._put(task, processor, self._arrival(task))

    def schedule(self) -> Schedule:
        """What came out."""
        return Schedule(processor=tuple(self._processor), start_s=tuple(self._start_s), end_s=tuple(self._end_s))

    def _put(self, task: int, processor: int, arrival: _Arrival) -> None:
        worker = self._problem.worker_of[processor]
        seconds = self._problem.execution_s[processor][task]
        ready_s = arrival.there_s.get(worker, arrival.elsewhere_s)
        start_s = self._busy[processor].earliest_start_s(ready_s, seconds)
        self._busy[processor].add(start_s, start_s + seconds)
        self._processor[task] = processor
        self._start_s[task], self._end_s[task] = start_s, start_s + seconds
        unused = self._unused[self._kind(worker)]
        if worker in unused:
            del unused[worker]
            self._used.append(worker)

    def _earliest(
        self, task: int, processors: Iterable[int], ready_s: float, first: tuple[float, int]
    ) -> tuple[float, int]:
        """The earliest end of a task and where that is, beginning with the best that was found so far."""
        for processor in processors:
            seconds = self._problem.execution_s[processor][task]
            end_s = self._busy[processor].earliest_start_s(ready_s, seconds) + seconds
            if end_s < first[0]:
                first = (end_s, processor)
        return first

    def _others(self, known: Container[int]) -> Iterator[int]:
        """The other workers in use, and of each kind that is not one."""
        untouched = [next(iter(workers)) for workers in self._unused.values() if workers]
        return (worker for worker in (*self._used, *untouched) if worker not in known)

    def _arrival(self, task: int) -> _Arrival:
        problem = self._problem
        local_s: dict[int, float] = {}
        remote_s: dict[int, float] = {}
        for dep, took_s in zip(problem.graph.deps[task], problem.transfer_s[task], strict=True):
            worker, end_s = problem.worker_of[self._processor[dep]], self._end_s[dep]
            local_s[worker] = max(local_s.get(worker, 0.0), end_s)
            remote_s[worker] = max(remote_s.get(worker, 0.0), end_s + took_s)
        latest_s, next_s = _two_largest(remote_s.values())
        return _Arrival(
            {
                worker: max(own_s, next_s if remote_s[worker] == latest_s else latest_s)
                for worker, own_s in local_s.items()
            },
            latest_s,
        )

    def _kind(self, worker: int) -> tuple[int, ...]:
        """The same for workers that are alike."""
        return tuple(id(self._problem.execution_s[processor]) for processor in self._slots[worker])

    def _by_kind(self, workers: Iterable[int]) -> dict[tuple[int, ...], dict[int, None]]:
        found: dict[tuple[int, ...], dict[int, None]] = {}
        for worker in workers:
            found.setdefault(self._kind(worker), {})[worker] = None
        return found


def _two_largest(values: Iterable[float]) -> tuple[float, float]:
    """The largest, and the largest of the others; 0 for those that are missing."""
    first = second = 0.0
    for value in values:
        if value > first:
            first, second = value, first
        elif value > second:
            second = value
    return first, second
