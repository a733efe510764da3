"""The policies of a run: which there are, who watches what by them, and those of one worker.

The built-in ones are there if the plan has hints for them, the user's own if the plan carries them. All follows from
the graph and the plan alone, so that every worker works out the same; and is worked out when it is first asked for,
since a worker needs to know it of few tasks.
"""

import logging
from collections.abc import Mapping
from functools import cached_property

from augury import serde
from augury.errors import PlanError
from augury.plan.hints import Hint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.worker.policies.policy import Policy, PolicyKind
from augury.worker.policies.preload import PreLoadPolicy
from augury.worker.policies.prewarm import PreWarmPolicy
from augury.worker.policies.taskdup import TaskDupPolicy
from augury.worker.view import RunView

_log = logging.getLogger(__name__)

BUILT_IN: Mapping[type[Hint], PolicyKind] = {
    PreWarmHint: PreWarmPolicy,
    PreLoadHint: PreLoadPolicy,
    TaskDupHint: TaskDupPolicy,
}


class Policies:
    """What optimizations have workers of a run do. The same for all of them; the workers of a process share it."""

    def __init__(self, view: RunView) -> None:
        self._view = view
        self._watchers: dict[int, tuple[str, ...]] = {}
        self._duplicable: dict[int, bool] = {}

    def __bool__(self) -> bool:
        return bool(self.kinds)

    @cached_property
    def kinds(self) -> dict[str, PolicyKind]:
        """By name."""
        kinds: dict[str, PolicyKind] = {str(kind.__struct_config__.tag): BUILT_IN[kind] for kind in self._used()}
        for name, data in sorted(self._view.plan.policies.items()):
            try:
                if name in kinds:
                    raise PlanError("there is a built-in one of that name; choose another")  # noqa: TRY301 - told below
                kinds[name] = serde.loads(data)
            except Exception as error:  # noqa: BLE001 - it is the user's code, and the run goes on without it
                _log.warning("the policy %r cannot be used: %r", name, error, exc_info=error)
        return kinds

    @property
    def has_own(self) -> bool:
        """Whether there are some of the user's."""
        return bool(self._view.plan.policies)

    def watchers(self, task: int) -> tuple[str, ...]:
        """The workers that are told of a task's completion; ascending."""
        known = self._watchers.get(task)
        if known is None:
            kinds = list(self.kinds.items())
            workers = {worker for name, kind in kinds for worker in self._watchers_by(name, kind, task)}
            known = self._watchers[task] = tuple(sorted(workers))
        return known

    def is_duplicable(self, task: int) -> bool:
        """Whether other workers may run a task too: its own watches it, and others have tasks that take its output.

        A task with flexible consumers is one only if it has a `TaskDupHint`. Its worker must not go on with them by
        itself, and whether it knows that must not depend on the user's code.
        """
        known = self._duplicable.get(task)
        if known is None:
            view = self._view
            consumers = view.graph.dependents[task]
            known = self._duplicable[task] = (
                view.worker_of[task] in self.watchers(task)
                and bool(view.takers(task))
                and (bool(view.hints_of(task, TaskDupHint)) or all(view.worker_of[consumer] for consumer in consumers))
            )
        return known

    def is_kept_apart(self, task: int) -> bool:
        """Whether a task's output may be on its way to storage while another task takes it, and may change it."""
        if not self.kinds:
            return False
        return bool(self.watchers(task)) or any(map(self.is_duplicable, self._view.graph.dependents[task]))

    def of(self, worker: str) -> dict[str, Policy]:
        """The policies of one worker, by name."""
        policies = {}
        for name, kind in list(self.kinds.items()):
            try:
                policies[name] = kind(self._view, worker)
            except Exception as error:  # noqa: BLE001 - it is the user's code, and the run goes on without it
                _log.warning("worker %s goes without the policy %r: %r", worker, name, error, exc_info=error)
        return policies

    def _used(self) -> list[type[Hint]]:
        """The kinds of hints in the plan that have a built-in policy."""
        found: set[type[Hint]] = set()
        for hints in self._view.plan.hints.values():
            found.update(map(type, hints))
            if found.issuperset(BUILT_IN):
                break
        return [kind for kind in BUILT_IN if kind in found]

    def _watchers_by(self, name: str, kind: PolicyKind, task: int) -> list[str]:
        """Whom one policy wants told; it is dropped if that makes no sense."""
        try:
            workers = list(kind.watches(self._view, task))
            for worker in workers:
                if worker not in self._view.tasks_of:
                    raise PlanError(f"its `watches` names {worker!r}, which is no worker of the plan")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - it is the user's code, and the run goes on without it
            _log.warning("the policy %r cannot be used: %r", name, error, exc_info=error)
            self.kinds.pop(name, None)
            return []
        return workers
