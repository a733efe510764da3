"""Quick schedules: one pass over the tasks, each put where it ends first, or where there is time for it anyway.

Tasks come in the order of their upward rank: the longest way from their start to the end of the run, with what lies
between two workers. For each, few places are weighed: the workers that hold its inputs, the one that is free first,
and a new one, which has to be started first. So many short tasks end up together, and long ones apart:

    short, short, short, …   the worker that is there is free before a new one would be up
    long,  long,  long,  …   a new one is up long before the one that is there is free

`spread` puts each task where it ends first. `pack` knows how long the run may take, and puts a task on a worker
that exists if it ends there early enough for all that follows; fewer workers, and as fast as long as estimates hold.

Close to what `augury.plan.simulate` says, and much quicker: reports wait for nothing here, and what is fetched is
fetched at once. Linear in edges, times the few places.
"""

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.model import PlatformModel

_FEW_PLACES = 4
"""How many of the workers that hold inputs are weighed for a task."""


class Costs(NamedTuple):
    """What is known of the tasks of a graph on workers of one configuration."""

    graph: Graph
    run_s: Sequence[float]
    size: Sequence[float]
    platform: PlatformModel
    resources: Resources


class Schedule(NamedTuple):
    """Where each task goes, and when it would start.

    Attributes:
        worker_of: For each task its worker, numbered from 0.
        ranks: For each task its place in the order of starts.
        end_s: When the last task would end.
        workers: How many there are.
        busy_s: How long they would be there, all together.
    """

    worker_of: list[int]
    ranks: tuple[int, ...]
    end_s: float
    workers: int
    busy_s: float


def upward_ranks(costs: Costs) -> list[float]:
    """For each task the longest way from its start to the end, if each next task is on another worker."""
    graph, run_s = costs.graph, costs.run_s
    between_s = _between_s(costs)
    rank_s = [0.0] * len(graph)
    dependents = graph.dependents
    for task in range(len(graph) - 1, -1, -1):
        consumers = dependents[task]
        after_s = max([rank_s[consumer] for consumer in consumers]) + between_s[task] if consumers else 0.0
        rank_s[task] = run_s[task] + after_s
    return rank_s


def _between_s(costs: Costs) -> list[float]:
    """For each task what lies between its end and the start of a consumer on another worker."""
    timing = costs.platform.timing_of(costs.resources)
    latency_s, bandwidth = timing.latency_s, timing.bandwidth_bytes_s
    inline_bytes, flush_s = costs.platform.inline_bytes, costs.platform.flush_s
    small_s = flush_s + latency_s
    return [
        small_s if size <= inline_bytes else small_s + 2.5 * latency_s + 2 * size / bandwidth for size in costs.size
    ]


class _Inputs(NamedTuple):
    """The inputs of a task.

    Attributes:
        by_worker: For each worker its last end, its last count and its bytes.
        first_s: The last count of all; `second_s`: that of the other workers than `last_worker`, whose it is.
        total: All bytes.
    """

    by_worker: dict[int, list[float]]
    first_s: float
    second_s: float
    last_worker: int
    total: float


class _Scheduler:
    """One pass."""

    def __init__(self, costs: Costs, most_workers: int, starts: Sequence[float] | None = None) -> None:
        graph = costs.graph
        timing = costs.platform.timing_of(costs.resources)
        self.costs = costs
        self.most = max(1, most_workers)
        self.slots = costs.resources.task_slots
        self.latency_s = timing.latency_s
        self.bandwidth = timing.bandwidth_bytes_s
        self.cold_s, self.warm_s = timing.cold_start_s, timing.warm_start_s
        self.warm = costs.platform.warm.get(costs.resources, 0)
        inline, flush_s = costs.platform.inline_bytes, costs.platform.flush_s
        told_s = flush_s + self.latency_s / 2
        self.counted_after_s = [
            told_s if size <= inline else told_s + self.latency_s + size / self.bandwidth for size in costs.size
        ]
        self.worker_of = [-1] * len(graph)
        self.start_s = [0.0] * len(graph)
        self.end_s = [0.0] * len(graph)
        self.free: list[list[float]] = []  # for each worker when its slots are free; a heap
        self.has: list[set[int]] = []  # for each worker the foreign outputs that it has fetched
        self._idle: list[tuple[float, int]] = []  # workers by when they were last known to be free; a heap

    def start_up_s(self) -> float:
        """How long one more worker takes from being asked for until it runs its first task."""
        return (self.warm_s if len(self.free) < self.warm else self.cold_s) + self.latency_s

    def put(self, task: int, worker: int, start_s: float) -> None:
        """Fix the place of a task."""
        costs = self.costs
        if worker == len(self.free):
            self.free.append([0.0] * self.slots)
            self.has.append(set())
        end_s = start_s + costs.run_s[task]
        heapq.heapreplace(self.free[worker], end_s)
        heapq.heappush(self._idle, (self.free[worker][0], worker))
        self.worker_of[task] = worker
        self.start_s[task] = start_s
        self.end_s[task] = end_s
        has = self.has[worker]
        for dep in costs.graph.deps[task]:
            if self.worker_of[dep] != worker:
                has.add(dep)

    def first_free(self) -> int:
        """The worker that is free first; -1 if there is none."""
        idle = self._idle
        while idle and idle[0][0] < self.free[idle[0][1]][0]:
            heapq.heappop(idle)
        return idle[0][1] if idle else -1

    def places(self, task: int) -> list[tuple[float, int, float]]:
        """Where a task could go: when it would start there, the worker, and the bytes of its inputs there."""
        deps = self.costs.graph.deps[task]
        if not deps:
            return self._places_of_root()
        inputs = self._inputs(deps)
        found = [self._beside(deps, worker, inputs) for worker in self._holders(inputs)]
        known_s = inputs.first_s + self.latency_s / 2
        idle = self.first_free()
        if idle >= 0 and idle not in inputs.by_worker:
            fetch_s = self._fetch_s(deps, idle, inputs.total)
            found.append((max(known_s, self.free[idle][0]) + fetch_s, idle, 0.0))
        if len(self.free) < self.most:
            fetch_s = self._fetch_s(deps, -1, inputs.total)
            found.append((known_s + self.start_up_s() + fetch_s, len(self.free), 0.0))
        return found

    def _inputs(self, deps: Sequence[int]) -> "_Inputs":
        """Where the inputs of a task are, and when each worker's last one is there for others."""
        by_worker: dict[int, list[float]] = {}  # worker → its last end, its last count, its bytes
        worker_of, end_s, after_s, size = self.worker_of, self.end_s, self.counted_after_s, self.costs.size
        first_s = second_s = -1.0  # the last counts of all inputs, by the two workers that are last
        first_worker = -1
        total = 0.0
        for dep in deps:
            worker = worker_of[dep]
            ended_s = end_s[dep]
            counted_s = ended_s + after_s[dep]
            total += size[dep]
            known = by_worker.get(worker)
            if known is None:
                by_worker[worker] = [ended_s, counted_s, size[dep]]
            else:
                if ended_s > known[0]:
                    known[0] = ended_s
                if counted_s > known[1]:
                    known[1] = counted_s
                known[2] += size[dep]
            if worker == first_worker:
                first_s = max(first_s, counted_s)
            elif counted_s > first_s:
                first_s, second_s, first_worker = counted_s, first_s, worker
            elif counted_s > second_s:
                second_s = counted_s
        return _Inputs(by_worker, first_s, second_s, first_worker, total)

    def _holders(self, inputs: "_Inputs") -> list[int]:
        """The workers with most of the input, and the one that is last."""
        holders = list(inputs.by_worker)
        if len(holders) > _FEW_PLACES:
            holders = heapq.nlargest(_FEW_PLACES, holders, key=lambda worker: inputs.by_worker[worker][2])
            if inputs.last_worker not in holders:
                holders.append(inputs.last_worker)
        return holders

    def _beside(self, deps: Sequence[int], worker: int, inputs: "_Inputs") -> tuple[float, int, float]:
        """When a task would start on a worker that holds some of its inputs."""
        ended_s, _, held = inputs.by_worker[worker]
        if len(inputs.by_worker) == 1:
            return max(ended_s, self.free[worker][0]), worker, held
        foreign_s = inputs.second_s if worker == inputs.last_worker else inputs.first_s
        ready_s = max(ended_s, foreign_s + self.latency_s / 2, self.free[worker][0])
        return ready_s + self._fetch_s(deps, worker, inputs.total - held), worker, held

    def _places_of_root(self) -> list[tuple[float, int, float]]:
        found = []
        idle = self.first_free()
        if idle >= 0:
            found.append((self.free[idle][0] or self.start_up_s(), idle, 0.0))
        if len(self.free) < self.most:
            found.append((self.start_up_s(), len(self.free), 0.0))
        return found

    def _fetch_s(self, deps: Sequence[int], worker: int, foreign_bytes: float) -> float:
        inline = self.costs.platform.inline_bytes
        if worker >= 0 and len(deps) <= _SHORT:
            has, worker_of, size = self.has[worker], self.worker_of, self.costs.size
            missing = [size[dep] for dep in deps if worker_of[dep] != worker and dep not in has]
            if not missing:
                return 0.0
            foreign_bytes = sum(missing)
        if foreign_bytes <= inline:
            return self.latency_s
        return 1.5 * self.latency_s + foreign_bytes / self.bandwidth

    def schedule(self) -> Schedule:
        """What came of it."""
        order = sorted(range(len(self.start_s)), key=lambda task: (self.start_s[task], task))
        ranks = [0] * len(order)
        for place, task in enumerate(order):
            ranks[task] = place
        first_s = [math.inf] * len(self.free)
        for worker, start_s in zip(self.worker_of, self.start_s, strict=True):
            if start_s < first_s[worker]:
                first_s[worker] = start_s
        start_up_s = self.cold_s + self.latency_s
        busy_s = sum([max(free) - since_s + start_up_s for free, since_s in zip(self.free, first_s, strict=True)])
        return Schedule(self.worker_of, tuple(ranks), max(self.end_s, default=0.0), len(self.free), busy_s)


_SHORT = 64
"""Up to how many inputs of a task each is looked at to see if a worker has it already."""


def spread(costs: Costs, most_workers: int, rank_s: Sequence[float] | None = None) -> Schedule:
    """Put each task where it ends first; among equals where most of its input is."""
    rank_s = upward_ranks(costs) if rank_s is None else rank_s
    scheduler = _Scheduler(costs, most_workers)
    for task in sorted(range(len(rank_s)), key=lambda one: (-rank_s[one], one)):
        start_s, worker, _ = min(scheduler.places(task), key=lambda place: (place[0], -place[2], place[1]))
        scheduler.put(task, worker, start_s)
    return scheduler.schedule()


def pack(costs: Costs, most_workers: int, end_s: float, rank_s: Sequence[float] | None = None) -> Schedule:
    """Put each task on a worker that exists if it ends there in time for the whole to end at `end_s`."""
    rank_s = upward_ranks(costs) if rank_s is None else rank_s
    scheduler = _Scheduler(costs, most_workers)
    for task in sorted(range(len(rank_s)), key=lambda one: (-rank_s[one], one)):
        places = scheduler.places(task)
        latest_s = end_s - rank_s[task]
        new = len(scheduler.free)
        in_time = [place for place in places if place[0] <= latest_s and place[1] != new]
        if in_time:  # the fullest that is in time, or the one that holds most
            start_s, worker, _ = max(in_time, key=lambda place: (place[2], place[0], -place[1]))
        else:
            start_s, worker, _ = min(places, key=lambda place: (place[0], -place[2], place[1]))
        scheduler.put(task, worker, start_s)
    return scheduler.schedule()


def lower_bound_s(costs: Costs) -> float:
    """How long the run takes at least: its longest path, on workers of this configuration."""
    longest_s = [0.0] * len(costs.graph)
    for task, deps in enumerate(costs.graph.deps):
        longest_s[task] = costs.run_s[task] + max([longest_s[dep] for dep in deps], default=0.0)
    return max(longest_s, default=math.nan)
