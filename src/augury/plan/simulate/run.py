"""One simulated run: a heap of what will happen, the counters in storage, and the platform's slots and environments.

    claims ──▶ queue ──▶ slot ──▶ cold or warm start ──▶ join ──▶ tasks … reports ──▶ leave ──▶ environment kept warm

Everything happens in the order of time, so whether a worker starts cold or warm is decided when it starts, by what
is warm then. Costs about as many steps as there are tasks, reports and fetches: 10,000 tasks take a tenth of a second.
"""

import gc
import heapq
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.hints import PreWarmHint
from augury.plan.model import PlatformModel
from augury.plan.plan import Plan
from augury.plan.simulate.hinted import HintedWorker, Hints, Ping
from augury.plan.simulate.worker import CONSUMERS, IS_STORED, JOIN, KEEP, PINGED, SIZE, Worker

_Outcome = tuple[Sequence[int], "list[Worker]", set[int], int, bool]
"""Flexible tasks that became ready, workers to start, outputs to store first, live invocations, the run is over."""


class Abilities(NamedTuple):
    """What workers of one configuration can do.

    Attributes:
        slots: How many tasks one runs at once.
        latency_s: One round trip to storage.
        download_bytes_s: How fast it reads large outputs.
        upload_bytes_s: How fast it writes them.
        execution_s: For each task how long it runs.
    """

    slots: int
    latency_s: float
    download_bytes_s: float
    upload_bytes_s: float
    execution_s: Sequence[float]


class Run:
    """The state of one simulation, and its loop.

    Attributes:
        worker_of: For each task the index of its planned worker, -1 if it is flexible.
        size: For each task the size of its output.
        needs: For each task how many completions are counted for it in storage.
        counted_s: For each task when storage counted its completion; infinite until then.
        ready_at_s: For each task when the last completion that it needs was counted.
        waits: For each planned task how many local inputs are to come, plus one for all foreign ones.
        awaits: For each planned task whether its worker waits for foreign inputs.
        place: For each task the worker that ran it.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        execution_s: Callable[[Resources], Sequence[float]],
        output_bytes: Sequence[float],
        platform: PlatformModel,
    ) -> None:
        count = len(graph)
        self.graph = graph
        self.plan = plan
        self.ranks = plan.ranks
        self.platform = platform
        self.execution_s = execution_s
        self.size = output_bytes
        self.inline_bytes = platform.inline_bytes
        self.flush_s = platform.flush_s
        self.spread = min(plan.spread or platform.concurrency, platform.concurrency)
        self.patience_s = platform.start_s  # how long a start takes while there is room
        self.resources_of = [assignment.resources for assignment in plan.assignments]
        self._number_workers(plan)
        self.hints = Hints(plan, graph, self.worker_of) if plan.hints else None
        self._kind: Callable[..., Worker] = HintedWorker if plan.hints else Worker
        self.duplicated: dict[int, None] = {}
        self.pings: list[Ping] = []
        self.has_flexible = -1 in self.worker_of
        self.is_tight = self.has_flexible or bool(plan.hints) or len(self.tasks_of) > platform.concurrency
        self.may_lack_slots = self.has_flexible or len(self.tasks_of) + _pre_warmed(plan) > platform.concurrency
        self.tracks_uses = self.is_tight
        self.needs = self._count_needs()
        self.is_sink = bytearray(count)
        for sink in graph.sinks:
            self.is_sink[sink] = 1
        self.sinks_left = len(graph.sinks)
        self.counts = [0] * count
        self.counted_s = [math.inf] * count
        self.count_times: dict[int, list[float]] = {}  # flexible task → when each completion was counted for it
        self.ready_at_s = [math.inf] * count
        self.waits = [0] * count
        self.awaits = bytearray(count)
        self.place: list[Worker | None] = [None] * count
        self.ready_s = [0.0] * count
        self.start_s = [-1.0] * count
        self.execute_s = [0.0] * count
        self.executed_s = [math.inf] * count
        self.makespan_s = math.inf
        self.now = 0.0
        self.invocations: list[Worker] = []
        self._heap: list[tuple[float, int, int, Any, Any]] = []
        self._number = 0
        self._watches = 0
        self._workers: list[Worker | None] = [None] * len(self.tasks_of)
        self._suspended: dict[int, int] = {}  # planned worker → its attempt that gave its slot up
        self._inboxes: dict[int, list[tuple[int, Sequence[int]]]] = {}  # of workers that are not there yet
        self.progress_s, self.busy_progress_s = self._pauses()
        self.live = 0
        self.starting: dict[Worker, float] = {}
        self._free = platform.concurrency
        self._queue: deque[Worker] = deque()
        self._known_resources: list[Resources] = []
        self._abilities: dict[int, Abilities] = {}
        self._warm: dict[Resources, list[float]] = {}
        self._starts_under_way = 0
        self.cold_starts = 0

    def _pauses(self) -> tuple[float, float]:
        """How often busy workers look round: as the platform says, but not so often that it takes for ever."""
        platform = self.platform
        often_s = min(platform.progress_s, self.patience_s)
        if not self.has_flexible:
            return platform.progress_s, often_s
        first = {id(resources): resources for resources in self.resources_of}
        work_s = max([math.fsum(self.execution_s(resources)) for resources in first.values()])
        least_s = work_s / (_MOST_LOOKS + 4 * len(self.graph))
        return max(platform.progress_s, least_s), max(often_s, least_s)

    def _number_workers(self, plan: Plan) -> None:
        """Workers by dense indices in the order of their first task, whatever ids the plan gives them."""
        indices: dict[int, int] = {}
        self.worker_ids: list[int] = []
        self.tasks_of: list[list[int]] = []
        self.worker_of = worker_of = [-1] * len(plan.assignments)
        for task, assignment in enumerate(plan.assignments):
            worker = assignment.worker
            if worker is None:
                continue
            index = indices.get(worker)
            if index is None:
                index = indices[worker] = len(self.tasks_of)
                self.worker_ids.append(worker)
                self.tasks_of.append([task])
            else:
                self.tasks_of[index].append(task)
            worker_of[task] = index

    def _count_needs(self) -> list[int]:
        worker_of = self.worker_of
        needs = []
        for worker, deps in zip(worker_of, self.graph.deps, strict=True):
            if worker < 0:
                needs.append(len(deps))
            else:
                foreign = 0
                for dep in deps:
                    if worker_of[dep] != worker:
                        foreign += 1
                needs.append(foreign)
        return needs

    # The loop

    def after(self, delay_s: float, kind: int, worker: Worker, what: Any = None) -> None:
        """Have something happen to a worker later."""
        self._number = number = self._number + 1
        heapq.heappush(self._heap, (self.now + delay_s, number, kind, worker, what))

    def at(self, time_s: float, kind: int, worker: Worker | Ping, what: Any = None) -> None:
        """Have something happen to a worker at a moment."""
        self._number = number = self._number + 1
        heapq.heappush(self._heap, (time_s, number, kind, worker, what))

    def watch(self, delay_s: float, kind: int, worker: Worker) -> None:
        """Have a worker look later whether something has changed; by itself that brings nothing forward."""
        self._watches += 1
        self.after(delay_s, kind, worker, True)

    def go(self) -> "Run":
        """Let the run happen."""
        was_enabled = gc.isenabled()
        gc.disable()  # much is made and nothing of it is garbage yet: looking for some takes a third of the time
        try:
            self.invoke([worker for _, worker in sorted(self._initial_workers(), key=lambda entry: entry[0])], 0.0)
            for hint in self.plan.launch:
                self.prewarm(hint.resources, hint.count, 0.0)
            self._loop()
        finally:
            if was_enabled:
                gc.enable()
        if self.sinks_left:
            raise PlanError("the simulated run makes no progress: its workers wait for each other")
        return self

    def _loop(self) -> None:
        heap, pop, handlers = self._heap, heapq.heappop, HINTED if self.hints is not None else PLAIN
        idle_turns = 0
        while heap:
            self.now, _, kind, worker, what = pop(heap)
            if worker.over:
                self._watches -= what is True
                continue
            if self.now > worker.tick_s:
                worker.catch_up(self.now)
            if what is None:
                handlers[kind](worker, self.now)
            elif what is not True:
                handlers[kind](worker, self.now, what)
            else:
                self._watches -= 1
                handlers[kind](worker, self.now)
                idle_turns += 1
                if self._watches == len(heap) and idle_turns > _IDLE_TURNS * (self._watches + 1):
                    return
                continue
            idle_turns = 0

    def _initial_workers(self) -> list[tuple[int, Worker]]:
        """The workers that the client starts, each with its first task."""
        roots = self.graph.roots
        first: dict[int, int] = {}
        for root in roots:
            if self.worker_of[root] >= 0:
                first.setdefault(self.worker_of[root], root)
        workers = [(root, self._planned(index)) for index, root in first.items()]
        flexible = [root for root in roots if self.worker_of[root] < 0]
        workers += [(group[0], self._flexible(group, 0)) for group in self.group(flexible, self.spread)]
        for _, worker in workers:
            self._claim(worker, -1)
        return workers

    def _planned(self, index: int) -> Worker:
        tasks = self.tasks_of[index]
        attempt = self._suspended.pop(index, 0) + 1
        worker = self._kind(self, index, tasks, self.resources_of[tasks[0]], attempt)
        worker.inbox = self._inboxes.pop(index, [])
        self._workers[index] = worker
        return worker

    def _flexible(self, tasks: list[int], generation: int) -> Worker:
        worker = self._kind(self, -1, tasks, self.resources_of[tasks[0]])
        worker.generation = generation
        return worker

    def _claim(self, worker: Worker, cause: int) -> Worker:
        worker.cause = cause
        self.live += 1
        self.starting[worker] = self.now
        return worker

    def group(self, tasks: Sequence[int], groups: int) -> list[list[int]]:
        """Split tasks into about so many groups of neighbours, each of tasks that need the same resources."""
        by_resources: dict[Resources, list[int]] = {}
        resources_of = self.resources_of
        for task in tasks:
            by_resources.setdefault(resources_of[task], []).append(task)
        result = []
        for same in by_resources.values():
            share = max(1, min(len(same), round(groups * len(same) / len(tasks))))
            bounds = [len(same) * part // share for part in range(share + 1)]
            result += [same[start:end] for start, end in pairwise(bounds)]
        return result

    # The platform

    def abilities(self, resources: Resources) -> Abilities:
        """What workers with some resources can do."""
        known = self._abilities.get(id(resources))
        if known is None:
            timing = self.platform.timing_of(resources)
            run_s = self.execution_s(resources)
            link = (timing.latency_s, timing.bandwidth_bytes_s, timing.storing_bytes_s)
            known = Abilities(resources.task_slots, *link, run_s)
            # By identity: plans share these values, and hashing them is slow. Kept, so that no other gets the same.
            self._abilities[id(resources)] = known
            self._known_resources.append(resources)
        return known

    def invoke(self, workers: Sequence[Worker], now: float) -> None:
        """Start workers, in this order; what finds no slot waits for one."""
        for worker in workers:
            worker.asked_s = now
            self._queue.append(worker)
        self._fill(now)

    def _fill(self, now: float) -> None:
        while self._queue and self._free > 0:
            worker = self._queue.popleft()
            self._free -= 1
            worker.granted_s = now
            worker.cold = not self._take_warm(worker.resources, now)
            timing = self.platform.timing_of(worker.resources)
            if worker.cold:
                self.cold_starts += 1
                delay_s = timing.cold_start_s + timing.crowd_s * self._starts_under_way
            else:
                delay_s = timing.warm_start_s
            self._starts_under_way += 1
            worker.start_s = now + delay_s
            self.invocations.append(worker)
            self.at(worker.start_s + timing.latency_s / 2, JOIN, worker)

    def _take_warm(self, resources: Resources, now: float) -> bool:
        """Take the environment that became free last, as platforms do; the others grow cold meanwhile."""
        warm = self._still_warm(resources, now)
        if warm:
            warm.pop()
            return True
        return False

    def _still_warm(self, resources: Resources, now: float) -> list[float]:
        """The free environments that have not grown cold: when each became free, the last one last."""
        warm = self._warm.get(resources)
        if warm is None:
            given = self.platform.warm.get(resources, 0)
            warm = self._warm[resources] = [0.0] * int(min(given, self.platform.concurrency))
        if warm and now - warm[0] > self.platform.keep_alive_s:
            del warm[: bisect_left(warm, now - self.platform.keep_alive_s)]
        return warm

    def prewarm(self, resources: Resources, count: int, now: float) -> None:
        """Make as many environments as are missing to have `count` warm and free, as far as there are free slots."""
        timing = self.platform.timing_of(resources)
        for _ in range(min(count - len(self._still_warm(resources, now)), self._free)):
            self._free -= 1
            ping = Ping(self, resources, now)
            self.pings.append(ping)
            cold_s = timing.cold_start_s + timing.crowd_s * self._starts_under_way
            self._starts_under_way += 1
            self.at(now + cold_s, PINGED, ping)

    def prewarmed(self, ping: Ping, now: float) -> None:
        """An environment is ready: it is kept warm, and its slot is free again."""
        self._starts_under_way -= 1
        self._release(ping.resources, now)

    def _release(self, resources: Resources, now: float) -> None:
        self._free += 1
        self._still_warm(resources, now).append(now)
        self._fill(now)

    def joined(self, worker: Worker) -> int:
        """A worker joins; it no longer counts as starting. Returns how many invocations there are."""
        self.starting.pop(worker, None)
        self._starts_under_way -= 1
        return self.live

    def left(self, worker: Worker, now: float, suspended: bool) -> None:
        """An invocation has ended: its environment stays warm for a while, its slot goes to the next in line."""
        self.live -= 1
        if suspended:
            self._suspended[worker.index] = worker.attempt
            self._workers[worker.index] = None
        self._release(worker.resources, now)

    def somebody_waits(self, now: float) -> bool:
        """Whether some worker has been starting for so long that it must be waiting for a slot."""
        grace_s = self.patience_s
        return any(since_s <= now - grace_s for since_s in self.starting.values())

    # Storage

    def apply(
        self,
        worker: Worker,
        completions: Sequence[tuple[int, list[Any]]],
        published: dict[int, float],
        claims: Sequence[tuple[list[int], int]],
        now: float,
    ) -> _Outcome:
        """A report reaches storage: count, wake, claim; as `augury.storage.run_state` does."""
        if self.has_flexible:
            return self._apply_among_flexible(worker, completions, published, claims, now)
        counts, needs, inline_bytes = self.counts, self.needs, self.inline_bytes
        ready: list[int] = []
        for task, pending in completions:
            if self.counted_s[task] <= now:
                continue
            self.counted_s[task] = now
            if pending[SIZE] <= inline_bytes:
                worker.stored_bytes += pending[SIZE]
            if self.is_sink[task]:
                self.sinks_left -= 1
            for consumer in pending[CONSUMERS]:
                counts[consumer] += 1
                if counts[consumer] == needs[consumer]:
                    ready.append(consumer)
        if self.hints is not None:
            self._announce(worker, [entry for entry in completions if self.counted_s[entry[0]] == now], now)
        started = self._wake(ready, completions, now) if ready else []
        return (), started, set(), self.live, self._ended(now)

    def _announce(self, worker: Worker, counted: Sequence[tuple[int, list[Any]]], now: float) -> None:
        """Tell those who watch them of completions."""
        hints = self.hints
        if hints is None:
            return
        for task, pending in counted:
            if self.worker_of[task] >= 0 and self.worker_of[task] != worker.index:  # a duplicate was first
                self.place[task] = worker
                self.executed_s[task] = min(self.executed_s[task], now)
            small = (task,) if pending[SIZE] <= self.inline_bytes else ()
            for index in hints.others_watching(task, worker.index):
                there = self._workers[index]
                if there is None:
                    self._inboxes.setdefault(index, []).append((-1 - task, small))
                else:
                    there.inbox.append((-1 - task, small))
                    there.wake()

    def _ended(self, now: float) -> bool:
        if self.sinks_left:
            return False
        self.makespan_s = min(self.makespan_s, now)
        return True

    def _wake(self, ready: Sequence[int], completions: Sequence[tuple[int, list[Any]]], now: float) -> list[Worker]:
        """Tell workers which tasks of theirs are ready; claims those that do not run."""
        received: dict[int, list[int]] = {consumer: [] for consumer in ready}
        last: dict[int, int] = {}
        for task, pending in completions:
            small = pending[SIZE] <= self.inline_bytes
            for consumer in pending[CONSUMERS]:
                mine = received.get(consumer)
                if mine is not None:
                    last[consumer] = task
                    if small:
                        mine.append(task)
        started = []
        for consumer in ready:
            self.ready_at_s[consumer] = now
            index = self.worker_of[consumer]
            there = self._workers[index]
            if there is None:
                self._inboxes.setdefault(index, []).append((consumer, received[consumer]))
                started.append(self._claim(self._planned(index), last[consumer]))
            else:
                there.inbox.append((consumer, received[consumer]))
                there.wake()
        return started

    def _apply_among_flexible(
        self,
        worker: Worker,
        completions: Sequence[tuple[int, list[Any]]],
        published: dict[int, float],
        claims: Sequence[tuple[list[int], int]],
        now: float,
    ) -> _Outcome:
        ready: list[int] = []
        counted = [entry for entry in completions if not self._is_held(entry) and self._count(entry, ready, now)]
        refused: set[int] = set()
        for entry in completions:
            task, pending = entry
            if not self._is_held(entry) or self.counted_s[task] <= now or task in refused:
                continue
            if self._may_be_held(task, pending):
                self._count(entry, ready, now)
            else:
                refused.add(task)
        mine = [task for task in ready if self.worker_of[task] < 0]
        for task in mine:
            self.ready_at_s[task] = now
        kept = set(mine)
        for _task, pending in counted:
            small = pending[SIZE] <= self.inline_bytes
            if small and not (not pending[KEEP] and pending[CONSUMERS] and kept.issuperset(pending[CONSUMERS])):
                worker.stored_bytes += pending[SIZE]
        self._announce(worker, counted, now)
        woken = [task for task in ready if self.worker_of[task] >= 0]
        started = self._wake(woken, counted, now) if woken else []
        over = self._ended(now)
        if not over:
            cause = completions[-1][0] if completions else -1
            started += [self._claim(self._flexible(group, generation), cause) for group, generation in claims]
        worker.stored_bytes += sum(size for size in published.values() if size <= self.inline_bytes)
        return mine, started, refused, self.live, over

    def _is_held(self, entry: tuple[int, list[Any]]) -> bool:
        task, pending = entry
        wanted = pending[KEEP] or pending[CONSUMERS] or self.is_sink[task]
        return bool(wanted and pending[SIZE] > self.inline_bytes and not pending[IS_STORED])

    def _may_be_held(self, task: int, pending: list[Any]) -> bool:
        return not (pending[KEEP] or self.is_sink[task]) and all(
            self.worker_of[consumer] < 0 and self.counts[consumer] + 1 == self.needs[consumer]
            for consumer in pending[CONSUMERS]
        )

    def _count(self, entry: tuple[int, list[Any]], ready: list[int], now: float) -> bool:
        task, pending = entry
        if self.counted_s[task] <= now:
            return False
        self.counted_s[task] = now
        if self.is_sink[task]:
            self.sinks_left -= 1
        for consumer in pending[CONSUMERS]:
            self.counts[consumer] += 1
            if self.worker_of[consumer] < 0:
                self.count_times.setdefault(consumer, []).append(now)
            if self.counts[consumer] == self.needs[consumer]:
                ready.append(consumer)
        return True


def _pre_warmed(plan: Plan) -> int:
    """How many environments a plan has made ready, at most."""
    hints = [hint for hints in plan.hints.values() for hint in hints if isinstance(hint, PreWarmHint)]
    return sum(hint.count for hint in (*hints, *plan.launch))


def _handlers(kind: type[Worker]) -> tuple[Callable[..., None], ...]:
    """What is called for each kind of happening, in the order of their numbers."""
    return (
        kind.join,
        kind.began,
        kind.finished,
        kind.fetched,
        kind.stored,
        kind.applied,
        kind.reported,
        kind.flush_due,
        kind.read,
        kind.tick,
        kind.look,
        kind.ask,
        kind.arrived,
        HintedWorker.prewarm,
        Ping.pinged,
        HintedWorker.alarm,
        HintedWorker.abandoned,
    )


PLAIN, HINTED = _handlers(Worker), _handlers(HintedWorker)

_MOST_LOOKS = 20_000
"""How often workers look round in one run, about; and four times for each task."""

_IDLE_TURNS = 8
"""How often workers may look round in vain, after everything else has ended, before the run counts as stuck."""
