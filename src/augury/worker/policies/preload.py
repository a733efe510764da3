"""Pre-load: a worker fetches the inputs of a task as each is completed, while it runs other tasks.

    0 ─┐                  w1 waits for 0, 1 and 2: without this it fetches all three when the last is there;
    1 ─┼─ 3 on w1         with it, only the last one is still missing then
    2 ─┘

Small inputs come with the news of their completion. The worker does not start any sooner for it: what was
completed before it started, it fetches when it does.
"""

from collections.abc import Iterable

from augury.plan.hints import PreLoadHint
from augury.worker.policies.policy import Action, FetchEarly, Policy
from augury.worker.view import RunView


class PreLoadPolicy(Policy):
    """Fetches what tasks with a `PreLoadHint` take."""

    def __init__(self, view: RunView, worker: str) -> None:
        hinted = [task for task in view.tasks_of.get(worker, ()) if view.hints_of(task, PreLoadHint)]
        inputs = {dep for task in hinted for dep in view.graph.deps[task]}
        self._wanted = {dep for dep in inputs if view.worker_of[dep] != worker}

    @staticmethod
    def watches(view: RunView, task: int) -> Iterable[str]:
        """The workers of tasks that take its output and have the hint hear of a task, but for its own."""
        hinted = [consumer for consumer in view.graph.dependents[task] if view.hints_of(consumer, PreLoadHint)]
        workers = {view.worker_of[consumer] for consumer in hinted}
        return workers - {"", view.worker_of[task]}

    def began(self, done: frozenset[int], now_s: float) -> Iterable[Action]:
        """What is there already comes together."""
        return [FetchEarly(tuple(sorted(self._wanted & done)))]

    def completed(self, task: int, now_s: float) -> Iterable[Action]:
        """An input is there."""
        return [FetchEarly((task,))] if task in self._wanted else ()
