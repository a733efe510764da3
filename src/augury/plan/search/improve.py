"""Small changes to a plan, kept if they make it better, until none does or time is up.

`quicken` looks at the critical path, where alone the makespan can be shortened:

    … ──▶ a ─ ─ ▶ b ──▶ …    b waits for a's output from another worker: put one where the other is
    … ──▶ a ──▶ c             b is ready and waits for its turn behind a: put it elsewhere
          b

`cheapen` takes what is not on it: workers that could be smaller, or whose tasks others have time for. Each change is
tried with `Trials`, which simulates only what it reaches.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from augury.config import Resources
from augury.plan.search.objective import Objective, Outcome
from augury.plan.simulate.trials import Trial, Trials

_SHORT_PATH = 200
"""How many tasks of the critical path are looked at in one round; those that lose most time come first."""


class Search:
    """Improves one plan.

    Args:
        trials: The plan.
        objective: What is wanted.
        configurations: What workers may have, weaker ones first.
        least_memory_mb: For each task what it needs.
        go_on: Whether there is time left.
        most_workers: How many workers there may be.
    """

    def __init__(
        self,
        trials: Trials,
        objective: Objective,
        configurations: Sequence[Resources],
        least_memory_mb: Sequence[int],
        go_on: Callable[[], bool],
        most_workers: int,
    ) -> None:
        self.trials = trials
        self._objective = objective
        self._configurations = configurations
        self._least_memory_mb = least_memory_mb
        self._go_on = go_on
        self._most_workers = most_workers

    @property
    def outcome(self) -> Outcome:
        """What the plan as it stands comes to."""
        trials = self.trials
        return Outcome(trials.makespan_s, trials.cost_usd, len(trials.workers))

    def _limit_s(self) -> float:
        """A makespan beyond which no change is of interest."""
        objective = self._objective
        if objective.weight >= 1 and not objective.excess(self.outcome):
            return self.trials.makespan_s * (1 + 1e-9)
        return objective.deadline_s * (1 + 1e-9) if objective.deadline_s is not None else float("inf")

    def _keep_if_better(self, trial: Trial, workers: int, before: Outcome) -> bool:
        after = Outcome(trial.makespan_s, trial.cost_usd, workers)
        if not self._objective.is_better(after, before):
            return False
        self.trials.accept(trial)
        return True

    def _keep_if_cheaper(self, trial: Trial, workers: int, before: Outcome, limit_s: float) -> bool:
        after = Outcome(trial.makespan_s, trial.cost_usd, workers)
        objective = self._objective
        if 0 < objective.weight < 1 or objective.excess(before):
            return self._keep_if_better(trial, workers, before)
        is_cheaper = after.cost_usd < before.cost_usd * (1 - 1e-9) and after.makespan_s <= limit_s
        if not is_cheaper or objective.excess(after):
            return False
        self.trials.accept(trial)
        return True

    def quicken(self) -> None:
        """Shorten the critical path, as long as that makes the plan better."""
        failed: set[tuple[int, int]] = set()
        while self._go_on():
            if not self._shorten(failed):
                return

    def _shorten(self, failed: set[tuple[int, int]]) -> bool:
        trials = self.trials
        path = trials.critical_tasks
        for tasks, worker in self._moves(path):
            if not self._go_on():
                return False
            mark = (tasks[0], worker)
            if mark in failed:
                continue
            workers = trials.workers
            new = worker not in workers
            if new and len(workers) >= self._most_workers:
                continue
            if not self._fits(tasks, worker, workers):
                continue
            emptied = sum(set(trials.tasks_on(one)) <= set(tasks) for one in {trials.worker_with(t) for t in tasks})
            before = self.outcome
            trial = trials.move(tasks, worker, self._limit_s())
            if self._keep_if_better(trial, len(workers) + new - emptied, before):
                failed.clear()
                return True
            failed.add(mark)
        return False

    def _fits(self, tasks: Sequence[int], worker: int, workers: Mapping[int, Resources]) -> bool:
        resources = workers.get(worker)
        return resources is None or all(self._least_memory_mb[task] <= resources.memory_mb for task in tasks)

    def _moves(self, path: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """Changes along the critical path; where most time is lost first."""
        trials = self.trials
        losses = []
        for before, task in pairwise(path):
            lost_s = trials.execute_s[task] - trials.executed_s[before]
            losses.append((lost_s, before, task))
        losses.sort(key=lambda loss: -loss[0])
        fresh = max(trials.workers, default=-1) + 1
        deps, with_ = trials.graph.deps, trials.worker_with
        for lost_s, before, task in losses[:_SHORT_PATH]:
            if before in deps[task]:
                if with_(before) != with_(task):
                    yield [task], with_(before)
                    yield [before], with_(task)
                    yield self._tail(task), with_(before)
            else:
                yield [task], fresh
                for dep in sorted(deps[task], key=lambda one: -trials.size[one])[:3]:
                    if with_(dep) != with_(task):
                        yield [task], with_(dep)
                yield [before], fresh
            if lost_s <= 0:
                break
        critical = set(path)
        for worker in dict.fromkeys(
            with_(task) for _, _, task in losses[:_SHORT_PATH]
        ):  # make room for what is critical
            neighbours = [other for other in trials.tasks_on(worker) if other not in critical]
            for other in heapq.nlargest(2, neighbours, key=trials.execution_of):
                yield [other], fresh

    def _tail(self, task: int) -> list[int]:
        """A task with those after it on its worker that need nothing else."""
        trials = self.trials
        worker = trials.worker_with(task)
        tail = [task]
        inside = {task}
        for other in trials.tasks_on(worker):
            if other > task and any(dep in inside for dep in trials.graph.deps[other]):
                inside.add(other)
                tail.append(other)
        return tail

    def cheapen(self, limit_s: float) -> None:
        """Make workers smaller or do without them where the run ends no later than `limit_s`."""
        changed = True
        while changed and self._go_on():
            changed = self._shrink(limit_s) | self._merge(limit_s)

    def _by_price(self) -> list[int]:
        trials = self.trials
        return sorted(trials.workers, key=lambda worker: -trials.gb_s_of(worker))

    def _shrink(self, limit_s: float) -> bool:
        trials = self.trials
        changed = False
        for worker in self._by_price():
            now = trials.workers[worker]
            need_mb = max(self._least_memory_mb[task] for task in trials.tasks_on(worker))
            for resources in self._configurations:
                if resources.memory_mb < need_mb or resources.memory_mb >= now.memory_mb:
                    continue
                if not self._go_on():
                    return changed
                before = self.outcome
                trial = trials.resize(worker, resources, limit_s)
                if self._keep_if_cheaper(trial, before.workers, before, limit_s):
                    changed = True
                    break
        return changed

    def _merge(self, limit_s: float) -> bool:
        """Give all tasks of a worker to one that it has most to do with."""
        trials = self.trials
        changed = False
        for worker in reversed(self._by_price()):
            if not self._go_on():
                return changed
            workers = trials.workers
            if worker not in workers or len(workers) < 2:
                continue
            tasks = list(trials.tasks_on(worker))
            for other in self._friends(worker, tasks):
                if not self._fits(tasks, other, workers):
                    continue
                before = self.outcome
                trial = trials.move(tasks, other, limit_s)
                if self._keep_if_cheaper(trial, len(workers) - 1, before, limit_s):
                    changed = True
                    break
        return changed

    def _friends(self, worker: int, tasks: Sequence[int]) -> list[int]:
        trials = self.trials
        shared: dict[int, float] = {}
        for task in tasks[:_SHORT_PATH]:
            for dep in trials.graph.deps[task][:_SHORT_PATH]:
                other = trials.worker_with(dep)
                if other != worker:
                    shared[other] = shared.get(other, 0.0) + trials.size[dep] + 1
            for consumer in trials.graph.dependents[task][:_SHORT_PATH]:
                other = trials.worker_with(consumer)
                if other != worker:
                    shared[other] = shared.get(other, 0.0) + trials.size[task] + 1
        return sorted(shared, key=lambda other: -shared[other])[:2]
