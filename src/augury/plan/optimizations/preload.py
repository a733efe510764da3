"""Pre-load: which tasks have their inputs fetched as these are completed, while their worker runs other tasks.

First all tasks with many inputs from other workers. Then along the critical path, as long as that shortens it:

    the tasks on the critical path that wait for other workers ──▶ hint them ──▶ simulate
          ▲                                                                        │
          └────────────── shorter, and another path is critical now ◀──────────────┤
                              not shorter: take the hints of this round back ◀─────┘

It helps a worker that is there before the task's last input is. One that is only started for the task fetches all of
them at once anyway. And it keeps the order of tasks: a task whose turn it is and that has yet to fetch its inputs gives
its turn to the next one that is ready, however long that takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from augury.plan.hints import PreLoadHint
from augury.plan.optimizations.hinting import (
    BETTER,
    MANY_TASKS,
    check_count,
    has_hint,
    names_workers,
    predicted,
    with_hints,
)
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan

_FEW_ROUNDS = 3
"""How often the critical path of a large workflow is looked at."""


@dataclass(frozen=True, slots=True)
class PreLoad:
    """Fetch inputs as they are completed instead of when the last one is.

    Args:
        min_inputs: Tasks with at least so many inputs from other workers get the hint without further ado, unless
            that makes the run longer.
        max_rounds: How often the critical path is looked at; of large workflows less often.

    Example:
        >>> from augury import FixedPredictions, PlatformModel, PreLoad, UniformPlanner, task
        >>> @task
        ... def part(x: int) -> bytes:
        ...     return bytes(x)
        >>> @task
        ... def total(*parts: bytes) -> int:
        ...     return sum(map(len, parts))
        >>> planner = UniformPlanner(max_clustering=1, optimizations=[PreLoad(min_inputs=3)])
        >>> workflow = total(*[part(i) for i in range(4)])
        >>> plan = workflow.plan(planner, predictions=FixedPredictions(1.0, 1e6), platform=PlatformModel())
        >>> dict(plan.hints)
        {4: (PreLoadHint(),)}
    """

    name: ClassVar[str] = "pre-load"

    min_inputs: int = 5
    max_rounds: int = 8

    def __post_init__(self) -> None:
        check_count("PreLoad", "min_inputs", self.min_inputs, least=1)
        check_count("PreLoad", "max_rounds", self.max_rounds)

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        """Hint tasks with many inputs, then those on the critical path.

        Args:
            plan: The plan so far.
            outlook: Predictions and simulator.
            forced: Tasks that get the hint if any of their inputs come from another worker.
        """
        if not names_workers(plan):
            return plan
        plan = _hinted(plan, outlook, forced)
        many = [task for task in range(len(plan.assignments)) if _foreign(plan, outlook, task) >= self.min_inputs]
        return self._along_the_path(self._with_many(plan, outlook, many), outlook)

    def _with_many(self, plan: Plan, outlook: Outlook, tasks: Sequence[int]) -> Plan:
        hinted = _hinted(plan, outlook, tasks)
        if hinted is plan:
            return plan
        plan, before = predicted(plan, outlook)
        hinted, after = predicted(hinted, outlook)
        return hinted if after.makespan_s <= before.makespan_s / BETTER else plan

    def _along_the_path(self, plan: Plan, outlook: Outlook) -> Plan:
        rounds = self.max_rounds if len(plan.assignments) <= MANY_TASKS else min(self.max_rounds, _FEW_ROUNDS)
        for _ in range(rounds):
            plan, before = predicted(plan, outlook)
            better = _hinted(plan, outlook, before.critical_path)
            if better is plan:
                return plan
            better, after = predicted(better, outlook)
            if after.makespan_s >= before.makespan_s * BETTER:
                return plan
            plan = better
            if after.critical_path == before.critical_path:
                return plan
        return plan


def _hinted(plan: Plan, outlook: Outlook, tasks: Sequence[int]) -> Plan:
    """The plan with the hint for those tasks that it can be of use to, and that do not have it."""
    fitting = [task for task in tasks if _foreign(plan, outlook, task) and not has_hint(plan, task, PreLoadHint)]
    return with_hints(plan, {task: (PreLoadHint(),) for task in fitting})


def _foreign(plan: Plan, outlook: Outlook, task: int) -> int:
    """How many inputs of a planned task come from other workers."""
    assignments = plan.assignments
    worker = assignments[task].worker
    if worker is None:
        return 0
    return sum([assignments[dep].worker != worker for dep in outlook.graph.deps[task]])
