"""Pre-warm: a task that starts has environments made ready for workers that will start later.

    task ──start──▶ ·······(after_s)·······▶ environments are being made ──▶ warm ──▶ the next workers start in them

So a cold start happens beside the work instead of before it. It is asked for by whoever is free, never by the
thread that runs the task; and if it fails, the next worker starts cold, that is all.
"""

from collections.abc import Iterable

from augury.plan.hints import PreWarmHint
from augury.worker.policies.policy import Action, Policy, PreWarm
from augury.worker.view import RunView


class PreWarmPolicy(Policy):
    """Asks for environments when a task with a `PreWarmHint` starts."""

    def __init__(self, view: RunView, worker: str) -> None:
        self._view = view

    def started(self, task: int, now_s: float) -> Iterable[Action]:
        """A task starts: its hints say what to have made ready, and when."""
        hints = self._view.hints_of(task, PreWarmHint)
        return [PreWarm(hint.resources, hint.count, now_s + hint.after_s) for hint in hints]
