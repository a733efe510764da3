"""Task duplication: a worker that waits for an output makes it itself, if that is expected to be faster.

    0 ──▶ 1 on w0 ──▶ 2 on w1         w1 waits for 1, and could run it too: 0 is in storage

From the moment that the inputs of the task are complete (`t`), its output is expected from its own worker
`arrives_s` later; by itself the waiting worker would have it `produce_s` from now. So it runs the task too

- now, if now + produce_s < t + arrives_s: it would be faster;
- when the output is late, at t + arrives_s + produce_s: something holds the other worker up.

The moment `t` is when the waiting worker heard of the last input, made it, or began. The first completion counts, and
whoever was slower hears of it and stops. Cost: a step for each input of each such task, and for each of those whose
inputs are complete a look whenever the worker has nothing to do.
"""

from collections.abc import Iterable, Iterator

from augury.plan.hints import TaskDupHint
from augury.worker.policies.policy import Action, Duplicate, Policy, WakeAt
from augury.worker.view import RunView


class TaskDupPolicy(Policy):
    """Decides when to run tasks with a `TaskDupHint` that the planned tasks of this worker wait for.

    Always true: a task is in `_missing` while its inputs are not complete, then in `_ready_s` until its output is.
    """

    def __init__(self, view: RunView, worker: str) -> None:
        inputs = {dep for task in view.tasks_of.get(worker, ()) for dep in view.graph.deps[task]}
        foreign = [dep for dep in sorted(inputs) if view.worker_of[dep] not in ("", worker)]
        self._hints = {dep: hint for dep in foreign for hint in view.hints_of(dep, TaskDupHint)}
        self._missing = {task: set(view.graph.deps[task]) for task in self._hints}
        self._ready_s: dict[int, float] = {}
        self._missed_by: dict[int, list[int]] = {}
        for task, deps in self._missing.items():
            for dep in deps:
                self._missed_by.setdefault(dep, []).append(task)

    @staticmethod
    def watches(view: RunView, task: int) -> Iterable[str]:
        """Those who may run a task too hear of its inputs and of itself; its own worker, of itself."""
        watchers = _others(view, task)
        if watchers:
            watchers.add(view.worker_of[task])
        for consumer in view.graph.dependents[task]:
            watchers |= _others(view, consumer) - {view.worker_of[task]}
        return watchers

    def began(self, done: frozenset[int], now_s: float) -> Iterable[Action]:
        """What is done at the start counts from now."""
        for task in [task for task in self._missing if task in done]:
            self._settle(task)
        for task in list(self._missing):
            self._missing[task] -= done
            self._check(task, now_s)
        return ()

    def finished(self, task: int, now_s: float) -> Iterable[Action]:
        """A task was completed here: it may be one of these, or an input of one."""
        return self.completed(task, now_s)

    def completed(self, task: int, now_s: float) -> Iterable[Action]:
        """A task was completed elsewhere: it may be one of these, or an input of one."""
        self._settle(task)
        for taker in self._missed_by.pop(task, ()):
            if taker in self._missing:
                self._missing[taker].discard(task)
                self._check(taker, now_s)
        return ()

    def waiting(self, now_s: float) -> Iterator[Action]:
        """There is room for a duplicate: is there one worth running?"""
        for task, ready_s in self._ready_s.items():
            hint = self._hints[task]
            expected_s = ready_s + hint.arrives_s
            late_s = expected_s + hint.produce_s
            if now_s + hint.produce_s < expected_s or now_s >= late_s:
                yield Duplicate(task)
            else:
                yield WakeAt(late_s)

    def _check(self, task: int, now_s: float) -> None:
        if not self._missing[task]:
            del self._missing[task]
            self._ready_s[task] = now_s

    def _settle(self, task: int) -> None:
        """The output of a task exists: nobody needs to make it."""
        self._missing.pop(task, None)
        self._ready_s.pop(task, None)


def _others(view: RunView, task: int) -> set[str]:
    """The workers that may run a task too."""
    return set(view.takers(task)) if view.worker_of[task] and view.hints_of(task, TaskDupHint) else set()
