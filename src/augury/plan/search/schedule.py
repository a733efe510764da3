"""Quick schedules: one pass over the tasks, each put where it ends first, or where it costs least and is in time.

Tasks come in the order of their upward rank: the longest way from their start to the end of the run, with what lies
between two workers. For each, few places are weighed: the workers that hold its inputs, those that have time for it,
and new ones of each configuration, which have to be started first. So short tasks end up together, and long ones apart:

    short, short, short, …   the worker that is there is free before a new one would be up
    long,  long,  long,  …   a new one is up long before the one that is there is free

`spread` puts each task where it ends first. `thrift` knows how long the run may take, and with it how late each
task may end; among the places that are in time it takes the cheapest, by what the worker is there longer for it:

    worker 0  ▓▓▓▓▓▓▓▓▓·····▓▓▓▓▓▓▓▓▓        in the gap: costs nothing
    worker 1  ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓┊▓▓▓▓▓          behind: what it runs, and no start
    worker 2                ▒▒▓▓▓▓▓▓▓▓▓▓     a weaker one, just for it: slow, but there is time

Large outputs draw tasks together: if another input of a task that will need it lies on some worker already, an output
has to get there, and until it does its task does not count as ended.

A worker never waits for a task while it could run another one. So a task must not be put behind one that starts later
than itself could: it would not stay there.

Close to what `augury.plan.simulate` says, and quicker: reports wait for nothing here, and what is fetched is fetched at
once. Linear in edges, times the few places.
"""

import heapq
import math
import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.search.processors import Processors

_FEW_HOLDERS = 4
"""How many of the workers that hold inputs are weighed for a task."""
_FEW_WORKERS = 32
"""Up to how many workers all are weighed."""
_FEW_INPUTS = 64
"""Up to how many inputs of a task each is looked at to see if a worker has it already."""
_ABOUT = 0.9
"""To which part it is known how long inputs take to be fetched."""
_SOON_S = 1e-6
"""What is shorter than this is no gap."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Workers of one configuration: how fast they are, and what they cost."""

    index: int
    resources: Resources
    run_s: Sequence[float]
    slots: int
    memory_mb: int
    latency_s: float
    bandwidth_bytes_s: float
    upload_bytes_s: float
    cold_s: float
    warm_s: float
    warm: float
    usd_per_s: float
    usd_per_request: float
    start_billed: bool

    @property
    def joined_s(self) -> float:
        """After which time one is there, at best."""
        return (self.warm_s if self.warm else self.cold_s) + 1.5 * self.latency_s


class Costs(NamedTuple):
    """What is known of the tasks of a graph, and of the workers that there may be.

    Attributes:
        graph: The workflow.
        stored_bytes: For each task the size of its output if it is stored as an object; 0 if it rides inside reports.
        need_mb: For each task the memory that it needs.
        kinds: The configurations that workers may have; one of them has the memory that any task needs.
        flush_s: How long a finished task may go unreported.
        most_workers: How many workers there may be.
        processors: Those that they share.
    """

    graph: Graph
    stored_bytes: Sequence[float]
    need_mb: Sequence[int]
    kinds: Sequence[Kind]
    flush_s: float
    most_workers: int
    processors: Processors

    @property
    def joined_s(self) -> float:
        """After which time the first worker is there, at best."""
        return min(kind.joined_s for kind in self.kinds)

    def restricted(self, kinds: Sequence[Kind], most_workers: int) -> "Costs":
        """The same with fewer kinds of workers, or fewer workers."""
        numbered = [replace(kind, index=index) for index, kind in enumerate(kinds)]
        return self._replace(kinds=numbered, most_workers=most_workers)


def costs_of(outlook: Outlook, configurations: Sequence[Resources], most_workers: int) -> Costs:
    """What an outlook says of workers with these configurations."""
    platform = outlook.platform
    kinds = [_kind(index, outlook, resources) for index, resources in enumerate(configurations)]
    return Costs(
        outlook.graph,
        [size if size > platform.inline_bytes else 0.0 for size in outlook.output_bytes],
        outlook.least_memory_mb,
        kinds,
        platform.flush_s,
        most_workers,
        _processors(outlook, kinds),
    )


def _processors(outlook: Outlook, kinds: Sequence[Kind]) -> Processors:
    """The processors that workers share, and how long tasks need them where they are fastest."""
    number = outlook.platform.processors
    if math.isinf(number):
        return Processors(number, 0.0, 0.0)
    share = outlook.cpu_share
    needed_s = [(math.fsum(map(operator.mul, kind.run_s, share)), math.fsum(kind.run_s)) for kind in kinds]
    busy_s, work_s = min(needed_s)
    return Processors(number, work_s, busy_s)


def _kind(index: int, outlook: Outlook, resources: Resources) -> Kind:
    platform = outlook.platform
    timing, price = platform.timing_of(resources), platform.price
    return Kind(
        index=index,
        resources=resources,
        run_s=outlook.execution_s(resources),
        slots=resources.task_slots,
        memory_mb=resources.memory_mb,
        latency_s=timing.latency_s,
        bandwidth_bytes_s=timing.bandwidth_bytes_s,
        upload_bytes_s=timing.storing_bytes_s,
        cold_s=timing.cold_start_s,
        warm_s=timing.warm_start_s,
        warm=platform.warm.get(resources, 0),
        usd_per_s=resources.memory_mb / 1024 * price.usd_per_gb_s,
        usd_per_request=price.usd_per_request,
        start_billed=price.start_billed,
    )


class Schedule(NamedTuple):
    """Where each task goes, and when it would start.

    Attributes:
        worker_of: For each task its worker, numbered from 0.
        kinds: For each worker what it has.
        ranks: For each task its place in the order of starts.
        end_s: When the last task would end.
        cost_usd: What the workers would cost.
    """

    worker_of: list[int]
    kinds: list[Resources]
    ranks: tuple[int, ...]
    end_s: float
    cost_usd: float

    def plan(self, graph: Graph, planner: str) -> Plan:
        """The same as a plan."""
        distinct = [Assignment(worker=number, resources=resources) for number, resources in enumerate(self.kinds)]
        return Plan(
            fingerprint=graph.fingerprint,
            planner=planner,
            assignments=tuple([distinct[number] for number in self.worker_of]),
            ranks=self.ranks,
        )


def spread(costs: Costs, rank_s: Sequence[float] | None = None, *, looks_ahead: bool = True) -> Schedule:
    """Put each task where it ends first; among equals where that costs least.

    Args:
        costs: What is known.
        rank_s: The upward ranks, if they are at hand.
        looks_ahead: Whether a task counts as ended when its output is where it will be needed.
    """
    rank_s = upward_ranks(costs) if rank_s is None else rank_s
    scheduler = _Scheduler(costs, rank_s, looks_ahead=looks_ahead)
    for task in _by_rank(rank_s):
        scheduler.put(task, -math.inf)
    return scheduler.schedule()


def thrift(costs: Costs, end_s: float, placed: Sequence[int], rank_s: Sequence[float] | None = None) -> Schedule:
    """Put each task where it costs least and still ends in time for the whole to end at `end_s`.

    Args:
        costs: What is known.
        end_s: When the run should end; infinite: no matter when.
        placed: For each task its worker in a schedule that ends about then: it tells what lies between two tasks.
        rank_s: The upward ranks, if they are at hand.
    """
    rank_s = upward_ranks(costs) if rank_s is None else rank_s
    after_s = _ways_on(costs, placed)
    scheduler = _Scheduler(costs, rank_s)
    for task in _by_rank(rank_s):
        scheduler.put(task, end_s - after_s[task])
    return scheduler.schedule()


def _by_rank(rank_s: Sequence[float]) -> list[int]:
    """The tasks with the longest way to go first; inputs before those that take them, since ids are topological."""
    return sorted(range(len(rank_s)), key=lambda task: (-rank_s[task], task))


def least_run_s(costs: Costs) -> list[float]:
    """For each task how long it runs where it is fastest."""
    columns = [kind.run_s for kind in costs.kinds]
    return list(columns[0]) if len(columns) == 1 else list(map(min, *columns))


def upward_ranks(costs: Costs) -> list[float]:
    """For each task the longest way from its start to the end, if each next task is on another worker."""
    latency_s, bandwidth = _best_link(costs)
    run_s, told_s = least_run_s(costs), _told_s(costs)
    size = costs.stored_bytes
    rank_s = [0.0] * len(run_s)
    for task in range(len(run_s) - 1, -1, -1):
        rank_s[task] = run_s[task]
        consumers = costs.graph.dependents[task]
        if consumers:
            fetch_s = 1.5 * latency_s + size[task] / bandwidth if size[task] else 0.0
            rank_s[task] += told_s[task] + fetch_s + max([rank_s[consumer] for consumer in consumers])
    return rank_s


def _ways_on(costs: Costs, placed: Sequence[int]) -> list[float]:
    """For each task the longest way from its end to the end of the run, with tasks placed as they are."""
    run_s, told_s = least_run_s(costs), _told_s(costs)
    begin_s = [run + fetch for run, fetch in zip(run_s, _fetches_s(costs, placed), strict=True)]
    after_s = [0.0] * len(run_s)
    for task in range(len(run_s) - 1, -1, -1):
        worker, longest_s = placed[task], 0.0
        for consumer in costs.graph.dependents[task]:
            way_s = begin_s[consumer] + after_s[consumer]
            if placed[consumer] != worker:
                way_s += told_s[task]
            if way_s > longest_s:
                longest_s = way_s
        after_s[task] = longest_s
    return after_s


def _told_s(costs: Costs) -> list[float]:
    """For each task how long after its end another worker knows of it, at least."""
    latency_s = min(kind.latency_s for kind in costs.kinds)
    upload_bytes_s = max(kind.upload_bytes_s for kind in costs.kinds)
    small_s = costs.flush_s + latency_s
    return [small_s + (latency_s + size / upload_bytes_s if size else 0.0) for size in costs.stored_bytes]


def _fetches_s(costs: Costs, placed: Sequence[int]) -> list[float]:
    """For each task how long it fetches inputs, placed as they are."""
    latency_s, bandwidth = _best_link(costs)
    size = costs.stored_bytes
    fetches_s = [0.0] * len(size)
    for task, deps in enumerate(costs.graph.deps):
        worker = placed[task]
        foreign_bytes = sum([size[dep] for dep in deps if placed[dep] != worker])
        if foreign_bytes:
            fetches_s[task] = 1.5 * latency_s + foreign_bytes / bandwidth
    return fetches_s


def _best_link(costs: Costs) -> tuple[float, float]:
    """The least latency and the largest bandwidth that a worker may have for reading."""
    return min(kind.latency_s for kind in costs.kinds), max(kind.bandwidth_bytes_s for kind in costs.kinds)


def longest_path_s(graph: Graph, run_s: Sequence[float]) -> float:
    """How long the tasks take at least, one after the other along the longest path."""
    longest_s = [0.0] * len(graph)
    for task, deps in enumerate(graph.deps):
        longest_s[task] = run_s[task] + max([longest_s[dep] for dep in deps]) if deps else run_s[task]
    return max(longest_s, default=0.0)


def apart_s(costs: Costs, kind: Kind) -> float:
    """About how long the run takes if tasks are far apart: each on a worker of its own that is there in time."""
    size = costs.stored_bytes
    told_s = costs.flush_s + 1.5 * kind.latency_s
    end_s = [0.0] * len(size)
    counted_s = [0.0] * len(size)
    for task, deps in enumerate(costs.graph.deps):
        start_s = 0.0
        if deps:
            start_s = max([counted_s[dep] for dep in deps])
            if len(deps) > 1:  # it is where most of its input is
                sizes = [size[dep] for dep in deps]
                start_s += (sum(sizes) - max(sizes)) / kind.bandwidth_bytes_s
        end_s[task] = start_s + kind.run_s[task]
        counted_s[task] = end_s[task] + told_s + size[task] / kind.upload_bytes_s
    return max(end_s, default=0.0)


_Gap = tuple[float, float]
"""From when to when a slot of a worker has nothing to do."""


class _Worker:
    """A worker in the making.

    Attributes:
        asked_s: When it is asked for.
        slot_ends_s: For each of its slots, when the last task there ends.
        gaps: When slots have nothing to do before that; ascending.
        end_s: When its last task ends.
        has: The outputs of others that it fetches, and when they are there.
    """

    __slots__ = ("asked_s", "end_s", "gaps", "has", "kind", "number", "slot_ends_s")

    def __init__(self, number: int, kind: Kind, asked_s: float, up_s: float) -> None:
        self.number = number
        self.kind = kind
        self.asked_s = asked_s
        self.slot_ends_s = [up_s] * kind.slots
        self.gaps: list[_Gap] = []
        self.end_s = up_s
        self.has: dict[int, float] = {}


class _Inputs(NamedTuple):
    """The inputs of a task, by the workers that hold them.

    Attributes:
        held: By worker: when the last of its own ends, when the last of them is counted in storage, and their bytes.
        last_s: When the last of all is counted, and `last`: by which worker.
        before_s: When the last one of all other workers is counted.
        total_bytes: How large all are.
    """

    held: dict[int, list[float]]
    last_s: float
    last: int
    before_s: float
    total_bytes: float


_NO_INPUTS = _Inputs({}, 0.0, -1, 0.0, 0.0)


class _Place(NamedTuple):
    """Where a task could go.

    Attributes:
        key: Lower is better.
        worker: The worker; None: a new one.
        kind: Its kind.
        start_s: When the task would start.
        end_s: When it would end.
        usd: What it would cost there.
        gap: The gap that it would fill.
        asked_s: When a new worker is asked for, and `up_s`: when it is up.
    """

    key: tuple[float, float, float, int]
    worker: _Worker | None
    kind: Kind
    start_s: float
    end_s: float
    usd: float
    gap: _Gap | None = None
    asked_s: float = 0.0
    up_s: float = 0.0


class _Scheduler:
    """One pass: `put` task after task, each after its inputs."""

    def __init__(self, costs: Costs, rank_s: Sequence[float], *, looks_ahead: bool = True) -> None:
        count = len(costs.graph)
        self._costs = costs
        self._rank_s = rank_s
        self._looks_ahead = looks_ahead
        self._deps = costs.graph.deps
        self._size = costs.stored_bytes
        self._most = max(1, costs.most_workers)
        self._largest_need_mb = max(costs.need_mb, default=0)
        self._has_roomy = False
        self._workers: list[_Worker] = []
        self._idle: list[list[tuple[float, int]]] = [[] for _ in costs.kinds]  # (end of a slot, worker), ascending
        self._made = [0] * len(costs.kinds)
        self._worker_of = [-1] * count
        self._start_s = [0.0] * count
        self._end_s = [0.0] * count
        self._counted_s = [0.0] * count
        self._usd = 0.0
        self._latest_s = 0.0
        self._home, self._away_s = -1, 0.0
        self._homes: dict[int, tuple[int, float]] = {}  # task → the worker with the largest of its inputs, and its size

    def put(self, task: int, latest_s: float) -> None:
        """Find the place of a task: the cheapest where it ends in time, or else the one where it ends first."""
        self._latest_s = latest_s
        inputs = self._inputs(task)
        self._look_ahead(task)
        may_grow = len(self._workers) < self._most
        best = self._best_holder(task, inputs)
        for worker in self._others(task, inputs, latest_s):
            ready_s = inputs.last_s + worker.kind.latency_s / 2 if inputs.held else 0.0
            if may_grow and ready_s < worker.asked_s:
                continue  # it would have to be asked for earlier, and be there for all that time
            fetch_s = 0.0
            if inputs.held:
                ready_s, fetch_s = self._fetch(task, worker, ready_s, inputs.total_bytes)
            place = self._weigh(task, worker, ready_s, fetch_s)
            if best is None or place.key < best.key:
                best = place
        if may_grow:
            best = self._best_new(task, inputs, best)
        if best is None:
            raise RuntimeError("a task found no worker with the memory that it needs")
        self._settle(task, best)

    def _look_ahead(self, task: int) -> None:
        """Where the output of a task will be needed, if that is known, and how long it takes to get there."""
        self._home, self._away_s = -1, 0.0
        size, consumers = self._size[task], self._costs.graph.dependents[task]
        if not size or not consumers or not self._looks_ahead:
            return
        heir = max(consumers, key=self._rank_s.__getitem__) if len(consumers) > 1 else consumers[0]
        home = self._homes.get(heir)
        if home is not None:
            kind = self._workers[home[0]].kind
            self._home = home[0]
            moved_s = size / kind.upload_bytes_s + size / kind.bandwidth_bytes_s
            self._away_s = 2.5 * kind.latency_s + moved_s

    # What is there

    def _inputs(self, task: int) -> _Inputs:
        deps = self._deps[task]
        if not deps:
            return _NO_INPUTS
        held: dict[int, list[float]] = {}
        worker_of, end_s, counted_s, size = self._worker_of, self._end_s, self._counted_s, self._size
        last_s = before_s = -1.0
        last = -1
        total = 0.0
        for dep in deps:
            worker, told_s, own = worker_of[dep], counted_s[dep], size[dep]
            total += own
            known = held.get(worker)
            if known is None:
                held[worker] = [end_s[dep], told_s, own]
            else:
                known[0] = max(known[0], end_s[dep])
                known[1] = max(known[1], told_s)
                known[2] += own
            if worker == last:
                last_s = max(last_s, told_s)
            elif told_s > last_s:
                last_s, before_s, last = told_s, last_s, worker
            elif told_s > before_s:
                before_s = told_s
        return _Inputs(held, last_s, last, before_s, total)

    def _best_holder(self, task: int, inputs: _Inputs) -> _Place | None:
        """The best of the workers that hold inputs; of many, those that hold most, and the one that has the last."""
        held = inputs.held
        numbers = list(held)
        if len(numbers) > _FEW_HOLDERS:
            numbers = heapq.nlargest(_FEW_HOLDERS, numbers, key=lambda number: held[number][2])
            if inputs.last not in numbers:
                numbers.append(inputs.last)
        best: _Place | None = None
        for number in numbers:
            worker, (own_s, _, own_bytes) = self._workers[number], held[number]
            if worker.kind.memory_mb < self._costs.need_mb[task]:
                continue
            ready_s, fetch_s = own_s, 0.0
            if len(held) > 1:
                foreign_s = inputs.before_s if number == inputs.last else inputs.last_s
                ready_s = max(own_s, foreign_s + worker.kind.latency_s / 2)
                ready_s, fetch_s = self._fetch(task, worker, ready_s, inputs.total_bytes - own_bytes)
            place = self._weigh(task, worker, ready_s, fetch_s)
            if best is None or place.key < best.key:
                best = place
        return best

    def _others(self, task: int, inputs: _Inputs, latest_s: float) -> list[_Worker]:
        """Further workers that are worth a look: all of a few; of many, those of each kind that are free in time."""
        need_mb, workers = self._costs.need_mb[task], self._workers
        if len(workers) <= _FEW_WORKERS:
            return [one for one in workers if one.kind.memory_mb >= need_mb and one.number not in inputs.held]
        found: list[_Worker] = []
        for kind, idle in zip(self._costs.kinds, self._idle, strict=True):
            if kind.memory_mb < need_mb or not idle:
                continue
            ready_s = inputs.last_s + kind.latency_s / 2 if inputs.held else 0.0
            before = bisect_right(idle, (ready_s, math.inf))  # those that wait least for the task, …
            soon = idle[before - 1 if before else 0][1]
            late = bisect_right(idle, (latest_s - kind.run_s[task] - kind.latency_s, math.inf))
            full = idle[late - 1][1] if late else soon  # … and those that the task waits longest for
            found += [workers[number] for number in {soon, full} if number not in inputs.held]
        if self._home >= 0 and self._home not in inputs.held and workers[self._home].kind.memory_mb >= need_mb:
            found.append(workers[self._home])
        return found

    def _fetch(self, task: int, worker: _Worker, ready_s: float, foreign_bytes: float) -> tuple[float, float]:
        """When a worker can fetch the inputs of a task that it does not have, and how long that takes."""
        deps = self._deps[task]
        if len(deps) > _FEW_INPUTS:
            return ready_s, self._fetch_s(worker.kind, foreign_bytes)
        has, number, worker_of = worker.has, worker.number, self._worker_of
        missing_bytes = -1.0
        for dep in deps:
            if worker_of[dep] == number:
                continue
            there_s = has.get(dep)
            if there_s is None:
                missing_bytes = max(0.0, missing_bytes) + self._size[dep]
            elif there_s > ready_s:
                ready_s = there_s
        return ready_s, 0.0 if missing_bytes < 0 else self._fetch_s(worker.kind, missing_bytes)

    def _fetch_s(self, kind: Kind, size_bytes: float) -> float:
        if not size_bytes:
            return kind.latency_s
        return 1.5 * kind.latency_s + size_bytes / kind.bandwidth_bytes_s

    # What it would come to

    def _key(self, end_s: float, behind_s: float, usd: float, number: int) -> tuple[float, float, float, int]:
        """In time: by cost. Too late, or before what would have to wait for it: by time.

        What counts is when the output is where it will be needed.
        """
        there_s = end_s if number == self._home else end_s + self._away_s
        if there_s <= self._latest_s and not behind_s:
            return (0.0, usd, there_s, number)
        return (1.0, there_s + behind_s, usd, number)

    def _weigh(self, task: int, worker: _Worker, ready_s: float, fetch_s: float) -> _Place:
        kind = worker.kind
        run_s = kind.run_s[task]
        free_s = worker.slot_ends_s[0] if kind.slots == 1 else min(worker.slot_ends_s)
        start_s = max(ready_s, free_s) + fetch_s
        filled: _Gap | None = None
        behind_s = 0.0
        if worker.gaps and worker.gaps[-1][1] > ready_s + _ABOUT * fetch_s + _SOON_S:
            filled, behind_s = self._gap(worker, ready_s, fetch_s, run_s)
            if filled is not None:
                start_s = max(filled[0], ready_s) + fetch_s
        end_s = start_s + run_s
        usd = kind.usd_per_s * (end_s - worker.end_s) if end_s > worker.end_s else 0.0
        return _Place(self._key(end_s, behind_s, usd, worker.number), worker, kind, start_s, end_s, usd, filled)

    def _gap(self, worker: _Worker, ready_s: float, fetch_s: float, run_s: float) -> tuple[_Gap | None, float]:
        """The first gap that is long enough, or by how much a task would run over into what comes after one.

        It may have been fetched by the time that the gap begins; and of two that are fetched at about the same time,
        either may be first.
        """
        soon_s = ready_s + _ABOUT * fetch_s
        first = bisect_left(worker.gaps, (ready_s, -math.inf)) if len(worker.gaps) > 1 else 0
        for gap in worker.gaps[max(0, first - 1) :]:
            start_s = max(gap[0], ready_s) + fetch_s
            if start_s + run_s <= gap[1]:
                return gap, 0.0
            if max(gap[0], soon_s) < gap[1] - _SOON_S and worker.kind.slots == 1:
                return None, max(gap[0], soon_s) + run_s - gap[1]
        return None, 0.0

    def _best_new(self, task: int, inputs: _Inputs, best: _Place | None) -> _Place | None:
        """The best of new workers, if it is better than what is there."""
        number = len(self._workers)
        is_last = number + 1 == self._most and not self._has_roomy
        need_mb = self._largest_need_mb if is_last else self._costs.need_mb[task]
        for kind in self._costs.kinds:
            if kind.memory_mb < need_mb:
                continue
            asked_s = fetch_s = 0.0
            if inputs.held:
                asked_s = inputs.last_s + kind.latency_s / 2
                fetch_s = self._fetch_s(kind, inputs.total_bytes)
            is_warm = self._made[kind.index] < kind.warm
            up_s = asked_s + (kind.warm_s if is_warm else kind.cold_s) + kind.latency_s
            start_s = up_s + fetch_s
            end_s = start_s + kind.run_s[task]
            paid_from_s = asked_s if kind.start_billed and not is_warm else up_s - kind.latency_s
            usd = kind.usd_per_s * (end_s - paid_from_s) + kind.usd_per_request
            key = self._key(end_s, 0.0, usd, number)
            if best is None or key < best.key:
                best = _Place(key, None, kind, start_s, end_s, usd, None, asked_s, up_s)
        return best

    # Deciding

    def _settle(self, task: int, place: _Place) -> None:
        worker, kind, start_s, end_s = place.worker, place.kind, place.start_s, place.end_s
        if worker is None:
            worker = self._start(kind, place.asked_s, place.up_s)
        if place.gap is None:
            self._append(worker, start_s, end_s)
        else:
            self._fill(worker, place.gap, start_s, end_s)
        self._usd += place.usd
        number = worker.number
        self._worker_of[task], self._start_s[task], self._end_s[task] = number, start_s, end_s
        told_s = end_s + self._costs.flush_s + kind.latency_s / 2
        size = self._size[task]
        if size:
            told_s += kind.latency_s + size / kind.upload_bytes_s
        self._counted_s[task] = told_s
        if size and self._looks_ahead:
            homes = self._homes
            for consumer in self._costs.graph.dependents[task]:
                if consumer not in homes or homes[consumer][1] < size:
                    homes[consumer] = (number, size)
        worker_of = self._worker_of
        for dep in self._deps[task]:
            if worker_of[dep] != number:
                worker.has.setdefault(dep, start_s)

    def _start(self, kind: Kind, asked_s: float, up_s: float) -> _Worker:
        worker = _Worker(len(self._workers), kind, asked_s, up_s)
        self._workers.append(worker)
        self._made[kind.index] += 1
        self._has_roomy = self._has_roomy or kind.memory_mb >= self._largest_need_mb
        for _ in range(kind.slots):
            insort(self._idle[kind.index], (up_s, worker.number))
        return worker

    def _append(self, worker: _Worker, start_s: float, end_s: float) -> None:
        ends_s = worker.slot_ends_s
        before_s = min(ends_s)
        ends_s[ends_s.index(before_s)] = end_s
        if start_s > before_s + _SOON_S:
            insort(worker.gaps, (before_s, start_s))
        idle = self._idle[worker.kind.index]
        del idle[bisect_left(idle, (before_s, worker.number))]
        insort(idle, (end_s, worker.number))
        worker.end_s = max(worker.end_s, end_s)

    def _fill(self, worker: _Worker, gap: _Gap, start_s: float, end_s: float) -> None:
        worker.gaps.remove(gap)
        for rest in ((gap[0], start_s), (end_s, gap[1])):
            if rest[1] > rest[0] + _SOON_S:
                insort(worker.gaps, rest)

    def schedule(self) -> Schedule:
        """What came of it."""
        start_s = self._start_s
        ranks = [0] * len(start_s)
        for place, task in enumerate(sorted(range(len(start_s)), key=lambda task: (start_s[task], task))):
            ranks[task] = place
        kinds = [worker.kind.resources for worker in self._workers]
        return Schedule(self._worker_of, kinds, tuple(ranks), max(self._end_s, default=0.0), self._usd)
