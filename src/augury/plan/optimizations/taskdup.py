"""Task duplication: which tasks may be run by the workers that wait for their output.

Those that are short and take little: to run them twice costs next to nothing. Whether one is run twice is decided at
run time, by the worker that waits, from what the hint says: how long after its inputs are complete the output is
expected, and how long the worker would take to make it itself.

    0 ──▶ 1 on w0, which is still starting ──▶ 2 on w1, which waits       w1 runs 1 itself

One simulation before, one after.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from augury.plan.hints import TaskDupHint
from augury.plan.optimizations.hinting import BETTER, check_number, has_hint, names_workers, predicted, with_hints
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
        >>> TaskDup(max_seconds=0.5)
        TaskDup(max_seconds=0.5, max_input_bytes=1000000.0)
    """

    name: ClassVar[str] = "task-dup"

    max_seconds: float = 0.2
    max_input_bytes: float = 1e6

    def __post_init__(self) -> None:
        check_number("TaskDup", "max_seconds", self.max_seconds)
        check_number("TaskDup", "max_input_bytes", self.max_input_bytes)

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        """Hint short tasks, unless the run is expected to take longer with that.

        Args:
            plan: The plan so far.
            outlook: Predictions and simulator.
            forced: Tasks that get the hint, short or not, if another worker waits for their output.
        """
        if not names_workers(plan):
            return plan
        short = [task for task in range(len(plan.assignments)) if self._is_short(plan, outlook, task)]
        wanted = [task for task in {*forced, *short} if _takers(plan, outlook, task)]
        if all(has_hint(plan, task, TaskDupHint) for task in wanted):
            return plan
        plan, before = predicted(plan, outlook)
        demanded = _hinted(plan, outlook, before, forced)
        hinted = _hinted(demanded, outlook, before, short)
        if hinted is demanded:
            return demanded
        hinted, after = predicted(hinted, outlook)
        return hinted if after.makespan_s <= before.makespan_s / BETTER else demanded

    def _is_short(self, plan: Plan, outlook: Outlook, task: int) -> bool:
        if outlook.execution_s(plan.assignments[task].resources)[task] > self.max_seconds:
            return False
        return sum([outlook.output_bytes[dep] for dep in outlook.graph.deps[task]]) <= self.max_input_bytes


def _hinted(plan: Plan, outlook: Outlook, simulated: Simulation, tasks: Sequence[int]) -> Plan:
    hints = {}
    for task in tasks:
        takers = _takers(plan, outlook, task)
        if takers and not has_hint(plan, task, TaskDupHint):
            hints[task] = (_hint(plan, outlook, simulated, task, takers),)
    return with_hints(plan, hints)


def _hint(plan: Plan, outlook: Outlook, simulated: Simulation, task: int, takers: Sequence[int]) -> TaskDupHint:
    """What those who wait must know: when the output should come, and how long they would take."""
    timeline, deps = simulated.timeline, outlook.graph.deps[task]
    if deps:
        complete_s = max(timeline.end_s[dep] for dep in deps)
    else:
        complete_s = min(simulated.workers[timeline.worker[taker]].start_s for taker in takers)
    return TaskDupHint(
        produce_s=max(_produce_s(plan, outlook, task, taker) for taker in takers),
        arrives_s=max(0.0, timeline.end_s[task] - complete_s),
    )


def _produce_s(plan: Plan, outlook: Outlook, task: int, taker: int) -> float:
    """How long the worker of a task that waits takes to fetch inputs, to run the task itself, and to tell of it."""
    platform, size_bytes = outlook.platform, outlook.output_bytes
    worker, resources = plan.assignments[taker].worker, plan.assignments[taker].resources
    timing = platform.timing_of(resources)
    foreign = [size_bytes[dep] for dep in outlook.graph.deps[task] if plan.assignments[dep].worker != worker]
    fetched_bytes = sum(size for size in foreign if size > platform.inline_bytes)
    stored_bytes = size_bytes[task] if size_bytes[task] > platform.inline_bytes else 0.0
    fetch_s = timing.latency_s + fetched_bytes / timing.bandwidth_bytes_s if foreign else 0.0
    tell_s = timing.latency_s + stored_bytes / timing.storing_bytes_s
    return fetch_s + outlook.execution_s(resources)[task] + tell_s


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
