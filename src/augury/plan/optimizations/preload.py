"""Pre-load: which tasks have their inputs fetched as these are completed, while their worker runs other tasks.

First all tasks with many inputs from other workers. Then along the critical path, as long as that shortens it:

    the tasks on the critical path that wait for other workers ──▶ hint them ──▶ simulate
          ▲                                                                        │
          └────────────── shorter, and another path is critical now ◀──────────────┤
                              not shorter: take the hints of this round back ◀─────┘

It helps a worker that is there before the task's last input is; one that is only started for the task fetches all of
them at once anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from augury.plan.hints import PreLoadHint
from augury.plan.optimizations.hinting import BETTER, checked_number, has_hint, with_hints
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan

_MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class PreLoad:
    """Fetch inputs as they are completed instead of when the last one is.

    Args:
        min_inputs: Tasks with at least so many inputs from other workers get the hint without further ado, unless
            that makes the run longer.
        max_rounds: How often the critical path is looked at.

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

    min_inputs: int = 5
    max_rounds: int = _MOST_ROUNDS

    name: ClassVar[str] = "pre-load"

    def __post_init__(self) -> None:
        checked_number("PreLoad", "min_inputs", self.min_inputs, least=1)
        checked_number("PreLoad", "max_rounds", self.max_rounds)

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        """Hint tasks with many inputs, then those on the critical path."""
        plan = self._hinted(plan, outlook, forced)
        many = [task for task in range(len(plan.assignments)) if self._foreign(plan, outlook, task) >= self.min_inputs]
        if plan.predicted is None and not many and not self.max_rounds:
            return plan
        makespan_s = outlook.simulate(plan).makespan_s
        with_many = self._hinted(plan, outlook, many)
        if with_many is not plan:
            simulated = outlook.simulate(with_many)
            if simulated.makespan_s <= makespan_s / BETTER:
                plan, makespan_s = with_many, simulated.makespan_s
        return self._along_the_path(plan, outlook, makespan_s)

    def _along_the_path(self, plan: Plan, outlook: Outlook, makespan_s: float) -> Plan:
        for _ in range(self.max_rounds):
            path = outlook.simulate(plan).critical_path
            better = self._hinted(plan, outlook, path)
            if better is plan:
                return plan
            simulated = outlook.simulate(better)
            if simulated.makespan_s >= makespan_s * BETTER:
                return plan
            same_path = simulated.critical_path == path
            plan, makespan_s = better, simulated.makespan_s
            if same_path:
                return plan
        return plan

    def _hinted(self, plan: Plan, outlook: Outlook, tasks: Sequence[int]) -> Plan:
        fitting = [
            task for task in tasks if self._foreign(plan, outlook, task) and not has_hint(plan, task, PreLoadHint)
        ]
        return with_hints(plan, {task: (PreLoadHint(),) for task in fitting})

    def _foreign(self, plan: Plan, outlook: Outlook, task: int) -> int:
        """How many inputs of a planned task come from other workers."""
        worker = plan.assignments[task].worker
        if worker is None:
            return 0
        return sum(plan.assignments[dep].worker != worker for dep in outlook.graph.deps[task])
