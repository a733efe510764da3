"""Small changes to a plan, tried without simulating all of it again.

A planned worker is decided by three things: when it is asked for, what it has, and when the outputs that it needs
from others are counted in storage. So after a change only that worker is simulated again, alone, with what it needs
arriving as before; then those workers for which something now arrives at another time; and so on, in the order of
time, until nothing changes any more:

    resized worker ──▶ its outputs come later ──▶ a worker that waits for one of them ──▶ …
                                             ╲──▶ another that has it long before its last input: nothing changes

Most changes off the critical path die out after a worker or two, whatever the size of the workflow.

What is kept as it was: who starts cold and who starts warm, and that there is a slot for everybody. A planner lets
the whole plan be simulated once more in the end. Plans with flexible tasks, with hints that change who runs what, or
with more workers than slots cannot be tried in this way.
"""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.model import PlatformModel
from augury.plan.plan import Assignment, Plan
from augury.plan.simulate.engine import billed_s, critical_path
from augury.plan.simulate.run import PLAIN, Run
from augury.plan.simulate.worker import ARRIVED, JOIN, Worker

_MB_PER_GB = 1024


class Trial(msgspec.Struct, frozen=True):
    """What a change would come to.

    Attributes:
        makespan_s: Of the changed plan; infinite if it is beyond the limit that was given.
        cost_usd: Of the changed plan.
        gb_seconds: Of the changed plan.
    """

    makespan_s: float
    cost_usd: float
    gb_seconds: float


class Trials(Run):
    """A plan with its simulated run, to be changed step by step.

    A change is tried at once; `accept` keeps it, and any other call takes it back.

    Attributes:
        makespan_s: Of the plan as it stands.
        gb_seconds: Of the plan as it stands; `cost_usd` likewise.
        redone: How many tasks trials have simulated again: what they cost, by a measure that needs no clock.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        execution_s: Callable[[Resources], Sequence[float]],
        output_bytes: Sequence[float],
        platform: PlatformModel,
    ) -> None:
        super().__init__(graph, plan, execution_s, output_bytes, platform)
        if self.is_tight or plan.hints:
            raise PlanError(
                "trials need a plan without hints that names a worker for each task, and a slot for each worker: "
                "simulate the whole plan instead"
            )
        self._replays = False
        super().go()
        self._price = platform.price
        self._resources = [self.resources_of[tasks[0]] for tasks in self.tasks_of]
        count = len(self.tasks_of)
        self._asked_s = [0.0] * count
        self._cold = [True] * count
        self._end_s = [0.0] * count
        self._gb_s = [0.0] * count
        self._cause = [-1] * count
        self._latency = [0.0] * count
        for worker in self.invocations:
            index = worker.index
            self._asked_s[index] = worker.asked_s
            self._cold[index] = worker.cold
            self._cause[index] = worker.cause
            self._latency[index] = worker.latency
            self._gb_s[index] = self._gb_s_of(worker)
        self.gb_seconds = math.fsum(self._gb_s)
        self._requests = count
        self._fresh: dict[int, float] = {}
        self._undo: list[tuple[Any, Any, Any]] = []
        self._totals = (self.makespan_s, self.gb_seconds, self._requests)
        self._ids = list(self.worker_ids)
        self._index_of = {worker: index for index, worker in enumerate(self._ids)}
        self._replays = True
        self._whole: Plan | None = None
        self.redone = 0
        self._latest = self._latest_sink()

    # What planners ask

    @property
    def cost_usd(self) -> float:
        """What the plan as it stands costs."""
        return self.gb_seconds * self._price.usd_per_gb_s + self._requests * self._price.usd_per_request

    @property
    def workers(self) -> Mapping[int, Resources]:
        """The workers of the plan as it stands, and what they have."""
        self._take_back()
        return {self._ids[index]: self._resources[index] for index, tasks in enumerate(self.tasks_of) if tasks}

    def tasks_on(self, worker: int) -> Sequence[int]:
        """The tasks of a worker, ascending."""
        self._take_back()
        return self.tasks_of[self._index_of[worker]]

    def worker_with(self, task: int) -> int:
        """The worker that runs a task."""
        self._take_back()
        return self._ids[self.worker_of[task]]

    def execution_of(self, task: int) -> float:
        """How long a task runs where it is."""
        self._take_back()
        return self.abilities(self._resources[self.worker_of[task]]).execution_s[task]

    def gb_s_of(self, worker: int) -> float:
        """What a worker takes, in GiB-seconds."""
        self._take_back()
        return max(0.0, self._gb_s[self._index_of[worker]])

    @property
    def critical_tasks(self) -> tuple[int, ...]:
        """The tasks that decide when the run ends, from first to last."""
        self._take_back()
        return critical_path(self, [self.worker_of[task] for task in range(len(self.graph))])

    @property
    def critical_workers(self) -> set[int]:
        """The workers that run them."""
        return {self.worker_with(task) for task in self.critical_tasks}

    def plan_now(self) -> Plan:
        """The plan as it stands."""
        self._take_back()
        return self._changed_plan()

    def _changed_plan(self) -> Plan:
        distinct = [
            Assignment(worker=worker, resources=resources)
            for worker, resources in zip(self._ids, self._resources, strict=True)
        ]
        assignments = tuple([distinct[index] for index in self.worker_of])
        return msgspec.structs.replace(self.plan, assignments=assignments, predicted=None)

    def resize(self, worker: int, resources: Resources, limit_s: float = math.inf) -> Trial:
        """What would happen if a worker had other resources.

        Args:
            worker: Its id.
            resources: What it would have.
            limit_s: A makespan beyond which the change is of no interest; it ends the trial early.
        """
        self._take_back()
        index = self._index_of[worker]
        self._set(self._resources, index, resources)
        return self._follow([index], limit_s)

    def move(self, tasks: Sequence[int], worker: int, limit_s: float = math.inf) -> Trial:
        """What would happen if tasks were on another worker, which may be a new one with the same resources.

        Args:
            tasks: The tasks.
            worker: The id of the worker that would run them; one that the plan does not have yet is new.
            limit_s: A makespan beyond which the change is of no interest; it ends the trial early.
        """
        self._take_back()
        target = self._index_of.get(worker)
        if target is None:
            target = self._add(worker, self._resources[self.worker_of[tasks[0]]])
        touched = {target}
        for task in tasks:
            touched.add(self.worker_of[task])
        sources = touched - {target}
        moved = set(tasks)
        for source in sources:
            self._set(self.tasks_of, source, [task for task in self.tasks_of[source] if task not in moved])
        self._set(self.tasks_of, target, sorted({*self.tasks_of[target], *tasks}))
        for task in tasks:
            self._set(self.worker_of, task, target)
        around = {consumer for task in tasks for consumer in self.graph.dependents[task]}
        around |= moved
        for task in around:
            self._recount(task)
            touched.add(self.worker_of[task])
        for task in tasks:
            touched.update(self.worker_of[dep] for dep in self.graph.deps[task])
        for index in touched:
            self._ask_again(index)
        return self._follow(list(touched), limit_s)

    def accept(self, trial: Trial) -> None:
        """Keep the change that was tried last."""
        if self._whole is not None:
            self.__init__(self.graph, self._whole, self.execution_s, self.size, self.platform)  # type: ignore[misc]
            return
        self._undo.clear()
        self.makespan_s = trial.makespan_s
        if self.counted_s[self._latest] != self.makespan_s:
            self._latest = self._latest_sink()
        self._totals = (self.makespan_s, self.gb_seconds, self._requests)

    def _latest_sink(self) -> int:
        return max(self.graph.sinks, key=self.counted_s.__getitem__)

    def verified(self) -> "Trials":
        """The plan as it stands, simulated as a whole again: cold and warm starts decided anew."""
        return Trials(self.graph, self.plan_now(), self.execution_s, self.size, self.platform)

    # Changing and taking back

    def _set(self, values: Any, place: int, value: Any) -> None:
        self._undo.append((values, place, values[place]))
        values[place] = value

    def _take_back(self) -> None:
        if not self._undo:
            return
        self._whole = None
        for values, place, value in reversed(self._undo):
            values[place] = value
        self._undo.clear()
        self.makespan_s, self.gb_seconds, self._requests = self._totals

    def _add(self, worker: int, resources: Resources) -> int:
        index = len(self._ids)
        self._index_of[worker] = index
        self._ids.append(worker)
        self.worker_ids.append(worker)
        self.tasks_of.append([])
        self._resources.append(resources)
        self._asked_s.append(0.0)
        self._cold.append(not self.platform.warm.get(resources))
        self._end_s.append(0.0)
        self._gb_s.append(-1.0)  # it does not run
        self._cause.append(-1)
        self._latency.append(self.abilities(resources).latency_s)
        return index

    def _recount(self, task: int) -> None:
        """The inputs of a task come from other places: how many are foreign, and when the last of these is counted."""
        worker_of, worker = self.worker_of, self.worker_of[task]
        foreign = [dep for dep in self.graph.deps[task] if worker_of[dep] != worker]
        self._set(self.needs, task, len(foreign))
        ready_s = max([self.counted_s[dep] for dep in foreign], default=math.inf)
        if ready_s == math.inf and foreign:  # some were never told of; a worker that is simulated again will tell
            ready_s = max(self.executed_s[dep] for dep in foreign)
        self._set(self.ready_at_s, task, ready_s)

    # Following a change

    def _follow(self, changed: Sequence[int], limit_s: float) -> Trial:
        """Simulate the workers again for which something changed, until nothing does."""
        heap = [(self._asked_s[index], index) for index in changed]
        heapq.heapify(heap)
        pending = set(changed)
        budget = _MOST_REDONE * len(self.graph) + _FEW
        sink_s = 0.0
        while heap:
            _, index = heapq.heappop(heap)
            pending.discard(index)
            budget -= len(self.tasks_of[index])
            self.redone += len(self.tasks_of[index])
            if budget < 0:
                return self._simulate_whole()
            sink_s = max(sink_s, self._redo(index))
            if sink_s > limit_s:
                return Trial(math.inf, math.inf, math.inf)
            changed_from_s = self._spread(index, limit_s)
            if changed_from_s is None:
                return Trial(math.inf, math.inf, math.inf)
            for other, time_s in changed_from_s.items():
                if other not in pending:
                    pending.add(other)
                    heapq.heappush(heap, (time_s, other))
        if sink_s > self.makespan_s or self.counted_s[self._latest] != self.makespan_s:
            self.makespan_s = max([self.counted_s[sink] for sink in self.graph.sinks])
        return Trial(self.makespan_s, self.cost_usd, self.gb_seconds)

    def _simulate_whole(self) -> Trial:
        """Workers answer each other too often for one at a time."""
        self._whole = self._changed_plan()
        self.redone += len(self.graph)
        run = Run(self.graph, self._whole, self.execution_s, self.size, self.platform).go()
        gb_s = math.fsum(self._gb_s_of(worker) for worker in run.invocations)
        cost_usd = gb_s * self._price.usd_per_gb_s + len(run.invocations) * self._price.usd_per_request
        return Trial(run.makespan_s, cost_usd, gb_s)

    def _redo(self, index: int) -> float:
        """Simulate one worker alone, with what it needs from others arriving as it does; returns its last sink."""
        tasks = self.tasks_of[index]
        resources = self._resources[index]
        self._fresh = {}
        if not tasks:
            self._note_cost(index, -1.0)
            return 0.0
        worker = Worker(self, index, tasks, resources)
        timing = self.platform.timing_of(resources)
        asked_s = worker.asked_s = worker.granted_s = self._asked_s[index]
        worker.cold = self._cold[index]
        worker.start_s = asked_s + (timing.cold_start_s if worker.cold else timing.warm_start_s)
        self._set(self._latency, index, worker.latency)
        undo = self._undo.append
        needs, ready_at = self.needs, self.ready_at_s
        self._heap = heap = []
        for task in tasks:
            for values in (self.ready_s, self.start_s, self.execute_s, self.executed_s):
                undo((values, task, values[task]))
            undo((self.place, task, self.place[task]))
            self.start_s[task] = -1.0
            self.executed_s[task] = math.inf
            self.waits[task] = self.awaits[task] = 0
            if needs[task]:
                self._number += 1
                heap.append((ready_at[task], self._number, ARRIVED, worker, (task, self._received(task))))
        heapq.heapify(heap)
        self.at(worker.start_s + worker.latency / 2, JOIN, worker)
        pop, handlers = heapq.heappop, PLAIN
        while heap and not worker.over:
            self.now, _, kind, _, what = pop(heap)
            if self.now > worker.tick_s:
                worker.catch_up(self.now)
            if what is None:
                handlers[kind](worker, self.now)
            else:
                handlers[kind](worker, self.now, what)
        if not worker.over:
            raise PlanError(f"the simulated run makes no progress: worker {self._ids[index]} waits for ever")
        self._note_cost(index, self._gb_s_of(worker))
        return max([self._fresh[task] for task in self._fresh if self.is_sink[task]], default=0.0)

    def _received(self, task: int) -> Sequence[int]:
        """The inputs that come with the news that a task is ready: small ones of the last report."""
        last_s, worker_of = self.ready_at_s[task], self.worker_of
        worker = worker_of[task]
        last = [dep for dep in self.graph.deps[task] if self.counted_s[dep] == last_s and worker_of[dep] != worker]
        # Reports of several workers that arrive at the same moment are still several.
        return [dep for dep in last if worker_of[dep] == worker_of[last[-1]] and self.size[dep] <= self.inline_bytes]

    def _note_cost(self, index: int, gb_s: float) -> None:
        before_s = self._gb_s[index]
        self.gb_seconds += max(0.0, gb_s) - max(0.0, before_s)
        self._requests += (gb_s >= 0) - (before_s >= 0)
        self._set(self._gb_s, index, gb_s)

    def _gb_s_of(self, worker: Worker) -> float:
        return billed_s(worker, self._price) * worker.resources.memory_mb / _MB_PER_GB

    def _spread(self, index: int, limit_s: float) -> dict[int, float] | None:
        """Enter when the outputs of a worker are counted now; the workers that this changes, and from when on.

        None if a task would end beyond the limit, whatever its worker does.
        """
        fresh, counted_s, worker_of = self._fresh, self.counted_s, self.worker_of
        changed: dict[int, float] = {}
        for task in self.tasks_of[index]:
            old_s, new_s = counted_s[task], fresh.get(task, math.inf)
            if new_s == old_s:
                continue
            self._set(counted_s, task, new_s)
            if new_s == math.inf:
                continue
            for consumer in self.graph.dependents[task]:
                other = worker_of[consumer]
                if other != index:
                    time_s = self._enter(consumer, old_s, new_s)
                    if time_s is not None:
                        run_s = self.abilities(self._resources[other]).execution_s[consumer]
                        if self.ready_at_s[consumer] + run_s > limit_s:
                            return None
                        changed[other] = min(time_s, changed.get(other, math.inf))
        for other in changed:
            self._ask_again(other)
        return changed

    def _enter(self, consumer: int, old_s: float, new_s: float) -> float | None:
        """An input of a task is counted at another time; from when on that matters, or None if it does not."""
        ready_s = self.ready_at_s[consumer]
        if new_s > ready_s:
            latest_s = new_s
        elif old_s < ready_s and ready_s != math.inf:
            return None
        else:
            worker, worker_of = self.worker_of[consumer], self.worker_of
            latest_s = max([self.counted_s[dep] for dep in self.graph.deps[consumer] if worker_of[dep] != worker])
            if latest_s == math.inf:
                latest_s = ready_s  # another input has not been told of yet; its worker is simulated later
        if latest_s == ready_s:
            return None
        self._set(self.ready_at_s, consumer, latest_s)
        return min(ready_s, latest_s)

    def _ask_again(self, index: int) -> None:
        """When a worker is asked for: at the start by the client, else by whoever makes its first task ready."""
        first_s, cause = math.inf, -1
        needs, ready_at, deps = self.needs, self.ready_at_s, self.graph.deps
        for task in self.tasks_of[index]:
            if not deps[task]:
                first_s, cause = 0.0, -1
                break
            if needs[task] and ready_at[task] < first_s:
                first_s, cause = ready_at[task], task
        if cause >= 0:
            last = max(
                (dep for dep in deps[cause] if self.worker_of[dep] != index), key=lambda dep: self.counted_s[dep]
            )
            cause = last
            first_s += self._latency[self.worker_of[last]] / 2
        if first_s != self._asked_s[index]:
            self._set(self._asked_s, index, first_s if first_s < math.inf else 0.0)
        self._set(self._cause, index, cause)

    # What a worker that is simulated alone tells the run

    def joined(self, worker: Worker) -> int:
        """A worker joins."""
        return 1 if self._replays else super().joined(worker)

    def left(self, worker: Worker, now: float, suspended: bool) -> None:
        """A worker leaves."""
        if self._replays:
            worker.cause = self._cause[worker.index]
        else:
            super().left(worker, now, suspended)

    def apply(self, worker: Worker, completions: Any, published: Any, claims: Any, now: float) -> Any:
        """A report reaches storage."""
        if not self._replays:
            return super().apply(worker, completions, published, claims, now)
        for task, _pending in completions:
            self._fresh[task] = now
        return (), (), set(), 1, False


_MOST_REDONE = 1
"""How many times as many tasks as there are may be simulated again, worker by worker, for one change; and a few."""
_FEW = 100
