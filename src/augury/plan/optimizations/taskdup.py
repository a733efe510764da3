"""Task duplication: which tasks may be run by the workers that wait for their output.

Those that are short and take little: to run them twice costs next to nothing. Whether one is run twice is decided at
run time, by the worker that waits, from what the hint says: how long after its inputs are complete the output is
expected, and how long the worker would take to make it itself.

    0 ──▶ 1 on w0, which is still starting ──▶ 2 on w1, which waits       w1 runs 1 itself
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from augury.plan.hints import TaskDupHint
from augury.plan.optimizations.hinting import BETTER, checked_number, has_hint, with_hints
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.timeline import Simulation


@dataclass(frozen=True, slots=True)
class TaskDup:
    """Let workers run a short task themselves rather than wait for it.

    Args:
        max_seconds: How long a task may be expected to run.
        max_input_bytes: How much it may take from other tasks.

    Example:
        >>> from augury import TaskDup
        >>> TaskDup(max_seconds=0.5).name
        'task-dup'
    """

    max_seconds: float = 0.2
    max_input_bytes: float = 1e6

    name: ClassVar[str] = "task-dup"

    def __post_init__(self) -> None:
        checked_number("TaskDup", "max_seconds", self.max_seconds)
        checked_number("TaskDup", "max_input_bytes", self.max_input_bytes)

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        """Hint short tasks, unless the run is expected to take longer with that."""
        simulated = outlook.simulate(plan)
        plan = self._hinted(plan, outlook, simulated, forced)
        short = [task for task in range(len(plan.assignments)) if self._is_short(plan, outlook, task)]
        hinted = self._hinted(plan, outlook, simulated, short)
        if hinted is plan:
            return plan
        return hinted if outlook.simulate(hinted).makespan_s <= simulated.makespan_s / BETTER else plan

    def _is_short(self, plan: Plan, outlook: Outlook, task: int) -> bool:
        if outlook.execution_s(plan.assignments[task].resources)[task] > self.max_seconds:
            return False
        return sum(outlook.output_bytes[dep] for dep in outlook.graph.deps[task]) <= self.max_input_bytes

    def _hinted(self, plan: Plan, outlook: Outlook, simulated: Simulation, tasks: Sequence[int]) -> Plan:
        hints = {}
        for task in tasks:
            takers = _takers(plan, outlook, task)
            if takers and not has_hint(plan, task, TaskDupHint):
                hints[task] = (self._hint(plan, outlook, simulated, task, takers),)
        return with_hints(plan, hints)

    def _hint(
        self, plan: Plan, outlook: Outlook, simulated: Simulation, task: int, takers: Sequence[int]
    ) -> TaskDupHint:
        """What those who wait must know: when the output should come, and how long they would take."""
        timeline, platform = simulated.timeline, outlook.platform
        deps = outlook.graph.deps[task]
        produce_s = 0.0
        for taker in takers:  # a task of each worker that waits
            resources = plan.assignments[taker].resources
            timing = platform.timing_of(resources)
            foreign = [dep for dep in deps if plan.assignments[dep].worker != plan.assignments[taker].worker]
            large = sum(size for dep in foreign if (size := outlook.output_bytes[dep]) > platform.inline_bytes)
            fetch_s = timing.latency_s + large / timing.bandwidth_bytes_s if foreign else 0.0
            run_s = outlook.execution_s(resources)[task]
            size = outlook.output_bytes[task]
            tell_s = timing.latency_s + (size / timing.bandwidth_bytes_s if size > platform.inline_bytes else 0.0)
            produce_s = max(produce_s, fetch_s + run_s + tell_s)
        if deps:
            complete_s = max(timeline.end_s[dep] for dep in deps)
        else:
            complete_s = min(simulated.workers[timeline.worker[taker]].start_s for taker in takers)
        arrives_s = max(0.0, timeline.end_s[task] - complete_s)
        return TaskDupHint(produce_s=produce_s, arrives_s=arrives_s)


def _takers(plan: Plan, outlook: Outlook, task: int) -> list[int]:
    """For each other worker that takes the output of a planned task, one task that does."""
    own = plan.assignments[task].worker
    if own is None:
        return []
    found: dict[int, int] = {}
    for consumer in outlook.graph.dependents[task]:
        worker = plan.assignments[consumer].worker
        if worker is not None and worker != own:
            found.setdefault(worker, consumer)
    return list(found.values())
