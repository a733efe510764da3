"""Small changes to a plan, kept if they make it better, until none does or time is up.

`quicken` looks at the critical path, where alone the makespan can be shortened:

    … ──▶ a ─ ─ ▶ b ──▶ …    b waits for a's output from another worker: put one where the other is
    … ──▶ a ──▶ c            b is ready and waits for its turn behind a: put one of them elsewhere
          b
    … ──▶ a ──▶ b ──▶ …      all on one worker: give it more

`cheapen` takes what is not on it: workers that could have less, or whose tasks others have time for. Each change is
tried with `Trials`, which simulates only what it reaches.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from augury.config import Resources
from augury.plan.search.objective import Objective, Outcome
from augury.plan.simulate.trials import Trial, Trials

_MANY = 200
"""How many tasks of the critical path are looked at in one round: those that lose most time; likewise elsewhere."""
_NEIGHBOURS = 2
"""How many tasks that are in the way are moved out of it, for each worker of the critical path."""


class Move(NamedTuple):
    """Tasks go to another worker; to a new one of the same kind, if there is no number."""

    tasks: Sequence[int]
    worker: int | None


class Resize(NamedTuple):
    """A worker gets other resources."""

    worker: int
    resources: Resources


class Search:
    """Improves one plan.

    Args:
        trials: The plan.
        objective: What is wanted.
        configurations: What workers may have.
        need_mb: For each task the memory that it needs.
        most_workers: How many workers there may be.
        go_on: Whether there is time left.

    Attributes:
        trials: The plan as it stands.
        changes: How many changes were made to it.
    """

    def __init__(
        self,
        trials: Trials,
        objective: Objective,
        configurations: Sequence[Resources],
        need_mb: Sequence[int],
        most_workers: int,
        go_on: Callable[[], bool],
    ) -> None:
        self.trials = trials
        self._objective = objective
        self._configurations = configurations
        self._need_mb = need_mb
        self._most_workers = most_workers
        self._go_on = go_on
        self._workers = dict(trials.workers)
        self._new: dict[Resources, int] = {}
        self._next = max(self._workers, default=-1) + 1
        self.changes = 0

    @property
    def outcome(self) -> Outcome:
        """What the plan as it stands comes to."""
        return Outcome(self.trials.makespan_s, self.trials.cost_usd, len(self._workers))

    # Trying

    def _try(self, change: Move | Resize) -> bool:
        """Make a change if that makes the plan better."""
        if isinstance(change, Move):
            return self._try_move(change.tasks, change.worker)
        before = self.outcome
        trial = self.trials.resize(change.worker, change.resources, self._limit_s())
        if not self._is_better(trial, before.workers, before):
            return False
        self._accept(trial)
        self._workers[change.worker] = change.resources
        return True

    def _try_move(self, tasks: Sequence[int], worker: int | None) -> bool:
        trials, workers = self.trials, self._workers
        sources = Counter(trials.worker_with(task) for task in tasks)
        emptied = [source for source, count in sources.items() if count == len(trials.tasks_on(source))]
        resources = workers[trials.worker_with(tasks[0])] if worker is None else workers[worker]
        if max(self._need_mb[task] for task in tasks) > resources.memory_mb:
            return False
        count = len(workers) + (worker is None) - len(emptied)
        if worker is None and (count > self._most_workers or len(emptied) == len(sources)):
            return False  # one more than there may be, or nothing but another number
        target = self._number_for(resources) if worker is None else worker
        before = self.outcome
        trial = trials.move(tasks, target, self._limit_s())
        if not self._is_better(trial, count, before):
            return False
        self._accept(trial)
        for source in emptied:
            del workers[source]
        workers[target] = resources
        self._new.pop(resources, None)
        return True

    def _accept(self, trial: Trial) -> None:
        self.trials.accept(trial)
        self.changes += 1

    def _number_for(self, resources: Resources) -> int:
        """A number for a worker that there is not yet; trials remember what it has, so each kind has its own."""
        if resources not in self._new:
            self._new[resources] = self._next
            self._next += 1
        return self._new[resources]

    def _is_better(self, trial: Trial, workers: int, before: Outcome) -> bool:
        return self._objective.is_better(Outcome(trial.makespan_s, trial.cost_usd, workers), before)

    def _limit_s(self) -> float:
        """A makespan beyond which no change is of interest."""
        objective = self._objective
        if self._objective.excess(self.outcome):
            return math.inf
        limit_s = self.trials.makespan_s if objective.weight >= 1 else objective.deadline_s
        return math.inf if limit_s is None else limit_s * (1 + 1e-9)

    # Shortening the critical path

    def quicken(self) -> None:
        """Shorten the critical path, as long as that makes the plan better."""
        failed: set[tuple[object, ...]] = set()
        while self._go_on() and self._shorten(failed):
            pass

    def _shorten(self, failed: set[tuple[object, ...]]) -> bool:
        for change in self._changes(self.trials.critical_tasks):
            mark = (change.tasks[0], len(change.tasks), change.worker) if isinstance(change, Move) else tuple(change)
            if mark in failed:
                continue
            if not self._go_on():
                return False
            if self._try(change):
                failed.clear()
                return True
            failed.add(mark)
        return False

    def _changes(self, path: Sequence[int]) -> Iterator[Move | Resize]:
        """Changes along the critical path; where most time is lost first."""
        trials = self.trials
        losses = [(trials.execute_s[task] - trials.executed_s[before], before, task) for before, task in pairwise(path)]
        losses = heapq.nlargest(_MANY, losses, key=lambda loss: loss[0])
        for lost_s, before, task in losses:
            if lost_s > 0:
                yield from self._closer(before, task)
        yield from self._stronger(path)
        critical = set(path)
        for worker in dict.fromkeys(trials.worker_with(task) for _, _, task in losses):  # what is in the way
            others = [other for other in trials.tasks_on(worker) if other not in critical]
            for other in heapq.nlargest(_NEIGHBOURS, others, key=trials.execution_of):
                yield Move([other], None)

    def _closer(self, before: int, task: int) -> Iterator[Move]:
        """Two tasks of the path between which time is lost: by the way from worker to worker, or in a queue."""
        trials, on = self.trials, self.trials.worker_with
        here, there = on(task), on(before)
        if before in trials.graph.deps[task] and here != there:
            yield Move([task], there)
            yield Move([before], here)
            yield Move(self._tail(task), there)
        elif here == there:
            yield Move([task], None)
            inputs = heapq.nlargest(3, trials.graph.deps[task], key=lambda dep: trials.size[dep])
            for worker in dict.fromkeys(map(on, inputs)):
                if worker != here:
                    yield Move([task], worker)
            yield Move([before], None)

    def _tail(self, task: int) -> list[int]:
        """A task with those after it on its worker that take its output, or theirs."""
        trials = self.trials
        tail = [task]
        inside = {task}
        for other in trials.tasks_on(trials.worker_with(task)):
            if other > task and not inside.isdisjoint(trials.graph.deps[other]):
                inside.add(other)
                tail.append(other)
        return tail

    def _stronger(self, path: Sequence[int]) -> Iterator[Resize]:
        """Configurations with which workers on the path would be faster, those with most of it first."""
        trials = self.trials
        by_worker: dict[int, list[int]] = {}
        for task in path:
            by_worker.setdefault(trials.worker_with(task), []).append(task)
        spent_s = {worker: self._run_s(tasks, self._workers[worker]) for worker, tasks in by_worker.items()}
        for worker in sorted(by_worker, key=lambda one: -spent_s[one])[:_MANY]:
            faster = [
                (self._run_s(by_worker[worker], resources), resources)
                for resources in self._fitting(worker)
                if resources != self._workers[worker]
            ]
            for run_s, resources in sorted(faster):
                if run_s < spent_s[worker]:
                    yield Resize(worker, resources)

    def _run_s(self, tasks: Sequence[int], resources: Resources) -> float:
        run_s = self.trials.execution_s(resources)
        return math.fsum([run_s[task] for task in tasks])

    def _fitting(self, worker: int) -> list[Resources]:
        need_mb = max(self._need_mb[task] for task in self.trials.tasks_on(worker))
        return [resources for resources in self._configurations if resources.memory_mb >= need_mb]

    # Saving

    def cheapen(self) -> None:
        """Give workers less or do without them, as long as that makes the plan better."""
        changed = True
        while changed and self._go_on():
            changed = self._shrink() | self._merge()

    def _by_price(self) -> list[int]:
        return sorted(self._workers, key=lambda worker: (-self.trials.gb_s_of(worker), worker))

    def _shrink(self) -> bool:
        changed = False
        for worker in self._by_price():
            for resources in self._cheaper(worker):
                if not self._go_on():
                    return changed
                if self._try(Resize(worker, resources)):
                    changed = True
                    break
        return changed

    def _cheaper(self, worker: int) -> list[Resources]:
        """The configurations with which a worker should cost less, as if only its own tasks took longer."""
        trials, now = self.trials, self._workers[worker]
        gb_s, tasks = trials.gb_s_of(worker), trials.tasks_on(worker)
        other_s = gb_s * 1024 / now.memory_mb - self._run_s(tasks, now) / now.task_slots
        costs = {
            resources: resources.memory_mb / 1024 * (other_s + self._run_s(tasks, resources) / resources.task_slots)
            for resources in self._fitting(worker)
            if resources != now
        }
        return sorted([one for one in costs if costs[one] < gb_s], key=lambda one: (costs[one], one))

    def _merge(self) -> bool:
        """Give all tasks of a worker to one that it has most to do with; of those that cost least first."""
        changed = False
        for worker in reversed(self._by_price()):
            if not self._go_on():
                return changed
            if worker not in self._workers or len(self._workers) < 2:
                continue
            tasks = list(self.trials.tasks_on(worker))
            changed = any(self._try(Move(tasks, friend)) for friend in self._friends(worker, tasks)) or changed
        return changed

    def _friends(self, worker: int, tasks: Sequence[int]) -> list[int]:
        """The two workers that take or give most of what a worker gives or takes."""
        trials, graph = self.trials, self.trials.graph
        shared: dict[int, float] = {}
        for task in tasks[:_MANY]:
            for other, size in [
                *((dep, trials.size[dep]) for dep in graph.deps[task][:_MANY]),
                *((consumer, trials.size[task]) for consumer in graph.dependents[task][:_MANY]),
            ]:
                friend = trials.worker_with(other)
                if friend != worker:
                    shared[friend] = shared.get(friend, 0.0) + size + 1
        return heapq.nlargest(2, shared, key=lambda friend: (shared[friend], -friend))
