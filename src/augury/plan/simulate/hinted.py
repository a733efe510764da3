"""What hints have simulated workers do: pre-warm, pre-load, and run tasks of others too.

As `worker` mirrors the worker core, this mirrors what the core does on the advice of its policies
(`augury.worker.policies`). Plans without hints never come here.
"""

import math
from collections.abc import Sequence
from typing import Any

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.hints import Hint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.plan import Plan
from augury.plan.simulate.worker import ABANDONED, ALARM, FINISHED, PREWARM, Run, Worker


class Hints:
    """The hints of a plan, as workers look at them.

    Attributes:
        pre_warm: By task, what is pre-warmed when it starts.
        watchers: By task, the workers that are told of its completion; an ordered set each.
        watched_by: By worker, the tasks whose completions it is told of.
        pre_load: By worker, the outputs that it fetches as soon as it hears of them.
        duplicable: By worker, the tasks of others that it may run too.
        owners_watch: The tasks whose own worker hears if another was faster.
    """

    def __init__(self, plan: Plan, graph: Graph, worker_of: Sequence[int]) -> None:
        self.pre_warm: dict[int, list[PreWarmHint]] = {}
        self.watchers: dict[int, dict[int, None]] = {}
        self.pre_load: dict[int, set[int]] = {}
        self.duplicable: dict[int, dict[int, TaskDupHint]] = {}
        self.owners_watch: set[int] = set()
        self._graph = graph
        self._worker_of = worker_of
        for kind in (PreWarmHint, PreLoadHint, TaskDupHint):  # as workers go through them
            for task in sorted(plan.hints):
                self._read(task, [hint for hint in plan.hints[task] if isinstance(hint, kind)])
        self.watched_by: dict[int, list[int]] = {}
        for task, workers in self.watchers.items():
            for worker in workers:
                self.watched_by.setdefault(worker, []).append(task)

    def _read(self, task: int, hints: Sequence[Hint]) -> None:
        for hint in hints:
            if isinstance(hint, PreWarmHint):
                self.pre_warm.setdefault(task, []).append(hint)
            elif isinstance(hint, PreLoadHint):
                self._read_pre_load(task)
            elif isinstance(hint, TaskDupHint) and hint is hints[0]:
                self._read_task_dup(task, hint)

    def _read_pre_load(self, task: int) -> None:
        worker = self._worker_of[task]
        if worker < 0:
            return
        for dep in self._graph.deps[task]:
            if self._worker_of[dep] != worker:
                self.watchers.setdefault(dep, {})[worker] = None
                self.pre_load.setdefault(worker, set()).add(dep)

    def _read_task_dup(self, task: int, hint: TaskDupHint) -> None:
        owner = self._worker_of[task]
        if owner < 0:
            return
        consumers = dict.fromkeys(self._worker_of[consumer] for consumer in self._graph.dependents[task])
        takers = [worker for worker in consumers if worker not in (-1, owner)]
        for worker in takers:
            self.watchers.setdefault(task, {})[worker] = None
            self.duplicable.setdefault(worker, {})[task] = hint
            for dep in self._graph.deps[task]:
                if self._worker_of[dep] != worker:
                    self.watchers.setdefault(dep, {})[worker] = None
        if takers:
            self.watchers.setdefault(task, {})[owner] = None
            self.owners_watch.add(task)

    def others_watching(self, task: int, worker: int) -> list[int]:
        """The workers that are told of a completion by a worker."""
        return [other for other in self.watchers.get(task, ()) if other != worker]


class HintedWorker(Worker):
    """An invocation that heeds hints."""

    def __init__(self, run: Run, index: int, *arguments: Any) -> None:
        super().__init__(run, index, *arguments)
        hints = run.hints
        if hints is None:
            raise TypeError("a worker heeds hints in a run that has some")
        self._hints = hints
        self._watched = hints.watched_by.get(index, [])
        self._pre_load = hints.pre_load.get(index, set())
        self._heard: set[int] = set()
        self._later: list[PreWarmHint] = []
        # Tasks of others: whose inputs are missing, whose inputs are complete and since when, and where they stand
        self._dup_hints = hints.duplicable.get(index, {})
        self._missing = {task: set(run.graph.deps[task]) for task in self._dup_hints}
        self._ready_since: dict[int, float] = {}
        self._dup_fetching: dict[int, set[int]] = {}
        self._dup_ready: list[int] = []
        self._dup_running: set[int] = set()
        self._abandoned: set[int] = set()
        self._settled: set[int] = set()  # planned tasks that finished here, or that another was faster with
        self.since_of: dict[int, float] = {}  # what runs here, and since when
        self._alarms: set[float] = set()

    # What happens

    def _has_to_listen(self) -> bool:
        counted_s, join_s = self.run.counted_s, self.join_s
        return bool(self.foreign) or any(counted_s[task] > join_s for task in self._watched)

    def _note_began(self, now: float) -> None:
        counted_s, join_s = self.run.counted_s, self.join_s
        for task in [task for task in self._missing if counted_s[task] <= join_s]:
            del self._missing[task]
        for task in list(self._missing):
            self._missing[task] = {dep for dep in self._missing[task] if counted_s[dep] > join_s}
            self._check(task, now)

    def _check(self, task: int, now: float) -> None:
        if not self._missing[task]:
            del self._missing[task]
            self._ready_since[task] = now

    def _note_completion(self, task: int, now: float) -> None:
        """A task was completed, here or elsewhere: it may be one that is duplicated, or an input of one."""
        self._missing.pop(task, None)
        self._ready_since.pop(task, None)
        for taker in [taker for taker, missing in self._missing.items() if task in missing]:
            self._missing[taker].discard(task)
            self._check(taker, now)

    def _is_watched(self, task: int) -> bool:
        return bool(self._hints.others_watching(task, self.index))

    def finished(self, now: float, task: int) -> None:
        """A task returned, unless it was abandoned before."""
        if task in self._abandoned:
            return
        began_s = self.since_of.pop(task)
        self._settled.add(task)
        self.busy_s += (now - began_s) if self.run.worker_of[task] != self.index else 0.0
        super().finished(now, task)

    def _note_finished(self, task: int, now: float) -> None:
        if task in self._dup_running:
            self._dup_running.discard(task)
            self._heard.add(task)
        self._note_completion(task, now)

    def fetched(self, now: float, arrived: Sequence[int]) -> None:
        """Outputs of other workers are in memory now."""
        for task, lacking in list(self._dup_fetching.items()):
            lacking.difference_update(arrived)
            if not lacking:
                del self._dup_fetching[task]
                self._dup_ready.append(task)
        super().fetched(now, arrived)

    def read(self, now: float) -> None:
        """What is in the inbox arrives; completions that stand together are heard together."""
        self.reading = False
        inbox, self.inbox = self.inbox, []
        together: list[tuple[int, Sequence[int]]] = []
        for event in inbox:
            if event[0] < 0:
                together.append(event)
                continue
            self._hear(together, now)
            together = []
            if self.over:
                return
            self._ready(*event, now)
            self.advance(now)
        self._hear(together, now)

    def _hear(self, events: Sequence[tuple[int, Sequence[int]]], now: float) -> None:
        """Others have completed tasks: some may be inputs here, some our own, and some duplicates."""
        if not events or self.over:
            return
        run = self.run
        received = [dep for _, small in events for dep in small if dep in self.uses and dep not in self.values]
        self.values.update(received)
        self.fetched_bytes += sum(run.size[dep] for dep in received)
        tasks = [-1 - event[0] for event in events]
        fresh = [task for task in tasks if task not in self._heard and run.counted_s[task] > self.join_s]
        for task in fresh:
            self._heard.add(task)
            if task in self._dup_running or task in self._dup_fetching or task in self._dup_ready:
                self._drop_duplicate(task)
            elif run.worker_of[task] == self.index and task not in self._settled:
                self._leave_to_others(task, now)
        for task in fresh:
            self._note_completion(task, now)
            if task in self._pre_load and task in self.uses:
                self._fetch_early(task)
        self.advance(now)

    def _fetch_early(self, task: int) -> None:
        if task not in self.values and task not in self.fetching:
            self.fetching.add(task)
            self.fetch([task])

    def _leave_to_others(self, task: int, now: float) -> None:
        """Another worker has done a planned task of ours."""
        run = self.run
        self.remaining -= 1
        self.counted.add(task)
        self._settled.add(task)
        if task in self.since_of:
            self._abandon(task)
        else:
            self._take_out(task)
            self._release(run.graph.deps[task])
        for consumer in run.graph.dependents[task]:
            if run.worker_of[consumer] == self.index and run.waits[consumer]:
                self._count_down(consumer, now)

    def _take_out(self, task: int) -> None:
        run = self.run
        if run.waits[task]:
            run.waits[task] = 0
            if run.awaits[task]:
                run.awaits[task] = 0
                self.foreign -= 1
        elif self.blocked.pop(task, None) is None:
            self._forget({task})

    def _abandon(self, task: int) -> None:
        if task in self._abandoned:
            return
        self._abandoned.add(task)
        self.run.after(0.0, ABANDONED, self, (task,))

    def abandoned(self, now: float, what: tuple[int]) -> None:
        """A task that ran in vain was stopped."""
        task = what[0]
        self.running -= 1
        self._dup_running.discard(task)
        self.since_of.pop(task, None)
        if self.run.has_flexible:
            self.since.pop(task, None)
        self._release(self.run.graph.deps[task])
        self.advance(now)

    # Starting

    def _note_started(self, task: int, now: float) -> None:
        self.since_of[task] = now
        for hint in self._hints.pre_warm.get(task, ()):
            if hint.after_s > 0:
                self._later.append(hint)
                self.run.after(hint.after_s, PREWARM, self, (hint,))
            else:
                self.run.prewarm(hint.resources, hint.count, now)

    def prewarm(self, now: float, what: tuple[PreWarmHint]) -> None:
        """The moment has come that a hint names."""
        self._later.remove(what[0])
        self.run.prewarm(what[0].resources, what[0].count, now)

    def _leave(self, now: float, *, suspended: bool = False) -> None:
        if not self.run.makespan_s <= now:
            for hint in self._later:
                self.run.prewarm(hint.resources, hint.count, now)
        super()._leave(now, suspended=suspended)

    # Duplicates

    def _look_for_more(self, now: float) -> None:
        if not self._dup_hints:
            return
        for task in [*self._dup_fetching, *self._dup_ready, *self._dup_running]:
            if task not in self.uses and task not in self._abandoned:
                self._drop_duplicate(task)
        if not self.queue and self._room() > 0:
            for task, since_s in list(self._ready_since.items()):
                self._weigh(task, since_s, now)
        while self._dup_ready and not self.queue and self.running < self.slots:
            self._start_duplicate(self._dup_ready.pop(0), now)

    def _room(self) -> int:
        return self.slots - self.running - len(self.blocked) - len(self._dup_fetching) - len(self._dup_ready)

    def _weigh(self, task: int, since_s: float, now: float) -> None:
        hint = self._dup_hints[task]
        expected_s = since_s + hint.arrives_s
        late_s = expected_s + hint.produce_s
        if now + hint.produce_s < expected_s or now >= late_s:
            self._duplicate(task)
        elif late_s not in self._alarms:
            self._alarms.add(late_s)
            self.run.at(late_s, ALARM, self)

    def alarm(self, now: float) -> None:
        """Something may be late by now."""
        self.advance(now)

    def _duplicate(self, task: int) -> None:
        if not self._may_duplicate(task):
            return
        deps = self.run.graph.deps[task]
        self._use(deps)
        lacking = {dep for dep in deps if dep not in self.values}
        if not lacking:
            self._dup_ready.append(task)
            return
        self._dup_fetching[task] = lacking
        missing = sorted(lacking - self.fetching)
        if missing:
            self.fetching.update(missing)
            self.fetch(missing)

    def _may_duplicate(self, task: int) -> bool:
        run = self.run
        if task in self._heard or run.counted_s[task] <= self.join_s:
            return False
        if task in self._dup_fetching or task in self._dup_ready or task in self._dup_running:
            return False
        if self.queue or self._room() <= 0 or task in self.values or task in self.fetching:
            return False
        consumers = run.graph.dependents[task]
        if not any(run.worker_of[consumer] == self.index and run.waits[consumer] for consumer in consumers):
            return False
        least_mb = run.graph.info(task).memory_mb or 0
        return least_mb <= self.resources.memory_mb and all(self._is_at_hand(dep, task) for dep in run.graph.deps[task])

    def _is_at_hand(self, dep: int, task: int) -> bool:
        run = self.run
        if dep in self.values or dep in self._heard:
            return True
        crossed = run.worker_of[dep] != run.worker_of[task]
        return crossed and (run.counted_s[dep] <= self.join_s or dep in self.counted)

    def _start_duplicate(self, task: int, now: float) -> None:
        run = self.run
        self._dup_running.add(task)
        self.running += 1
        self.since_of[task] = now
        if run.has_flexible:
            self.since[task] = now
        duration_s = self.execution_s[task]
        run.duplicated[task] = None
        run.after(duration_s, FINISHED, self, task)

    def _drop_duplicate(self, task: int) -> None:
        if task in self._dup_running:
            self._abandon(task)
            return
        if self._dup_fetching.pop(task, None) is None:
            self._dup_ready.remove(task)
        self._release(self.run.graph.deps[task])

    def _is_idle(self) -> bool:
        return not (self._dup_fetching or self._dup_ready or self._dup_running) and super()._is_idle()


class Ping:
    """An environment that is made ready beforehand."""

    __slots__ = ("end_s", "over", "resources", "run", "start_s")
    tick_s = math.inf  # it looks at nothing meanwhile

    def __init__(self, run: Run, resources: Resources, now: float) -> None:
        self.run = run
        self.resources = resources
        self.start_s = now
        self.end_s = now
        self.over = False

    def pinged(self, now: float) -> None:
        """It is ready."""
        self.over = True
        self.end_s = now
        self.run.prewarmed(self, now)
