"""Pre-warm: who has environments made ready for workers that would start cold, and when.

A worker is asked for when its first task becomes ready; if its environment is new, everything waits for that. So
somebody asks for the environment earlier: not so late that it is not ready, nor so early that it grows cold again.

    ask ◀──────── keep alive ────────▶◀─ cold start ─▶ the worker is asked for
     ▲────────────── window ─────────▲
     a task that executes in it, or starts in it, gets the hint; at the end of the window, if possible

If the window begins before any task runs, the client asks when it submits the run. Only cold starts on the critical
path are worth it, and each hint stays only if the simulated run gets shorter by it: pre-warming costs as much as the
start that it hides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from augury.config import Resources
from augury.plan.hints import PreWarmHint
from augury.plan.optimizations.hinting import BETTER, checked_number, with_hints
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.timeline import Simulation, WorkerTimes

_MOST_ROUNDS = 16


class _Ask(NamedTuple):
    """Somebody asks for an environment: a task, so long after its start; or the client, if there is no task."""

    task: int | None
    after_s: float


@dataclass(frozen=True, slots=True)
class PreWarm:
    """Have environments started before the workers that will need them.

    Args:
        margin_s: How much earlier than necessary, since predictions err.
        max_rounds: For how many workers, at most, this is tried.

    Example:
        >>> from augury import PreWarm
        >>> PreWarm(margin_s=0.1).name
        'pre-warm'
    """

    margin_s: float = 0.05
    max_rounds: int = _MOST_ROUNDS

    name: ClassVar[str] = "pre-warm"

    def __post_init__(self) -> None:
        checked_number("PreWarm", "margin_s", self.margin_s)
        checked_number("PreWarm", "max_rounds", self.max_rounds)

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        """Pre-warm for the workers of forced tasks, then for cold starts on the critical path."""
        simulated = outlook.simulate(plan)
        places = {simulated.timeline.worker[task] for task in forced}
        for worker in [simulated.workers[place] for place in sorted(places)]:
            plan = self._asked_for(plan, outlook, simulated, [worker]) or plan
        if places:
            simulated = outlook.simulate(plan)
        tried: set[str] = set()
        for _ in range(self.max_rounds):
            late = self._late(simulated, tried)
            if not late:
                break
            tried.update(worker.name for worker in late)
            better = self._asked_for(plan, outlook, simulated, late)
            if better is None:
                continue
            after = outlook.simulate(better)
            if after.makespan_s < simulated.makespan_s * BETTER:
                plan, simulated = better, after
        return plan

    def _late(self, simulated: Simulation, tried: set[str]) -> list[WorkerTimes]:
        """The cold starts on the critical path, with those that go with them: of the same kind, at the same time."""
        for task in simulated.critical_path:
            worker = simulated.workers[simulated.timeline.worker[task]]
            if worker.cold and worker.asked_s > 0 and worker.name not in tried:
                return [
                    other
                    for other in simulated.workers
                    if other.cold
                    and other.resources == worker.resources
                    and other.name not in tried
                    and abs(other.asked_s - worker.asked_s) <= self.margin_s
                ]
        return []

    def _asked_for(
        self, plan: Plan, outlook: Outlook, simulated: Simulation, workers: Sequence[WorkerTimes]
    ) -> Plan | None:
        """The plan with somebody who asks for the environments of these workers in time; None if nobody can."""
        first = min(workers, key=lambda worker: worker.asked_s)
        ask = self._ask(outlook, simulated, first)
        if ask is None:
            return None
        moment_s = 0.0 if ask.task is None else simulated.timeline.execute_s[ask.task] + ask.after_s
        count = len(workers) + _waiting(plan, simulated, first.resources, moment_s, first.asked_s)
        if ask.task is None:
            return with_hints(plan, {}, [PreWarmHint(first.resources, count)])
        return with_hints(plan, {ask.task: [PreWarmHint(first.resources, count, ask.after_s)]})

    def _ask(self, outlook: Outlook, simulated: Simulation, worker: WorkerTimes) -> _Ask | None:
        platform = outlook.platform
        ready_s = worker.asked_s - self.margin_s
        latest_s = ready_s - platform.timing_of(worker.resources).cold_start_s
        earliest_s = latest_s - platform.keep_alive_s + 2 * self.margin_s
        if latest_s < 0:
            return None
        timeline = simulated.timeline
        best: _Ask | None = None
        best_s = -1.0
        for task, (start_s, end_s) in enumerate(zip(timeline.execute_s, timeline.executed_s, strict=True)):
            moment_s = min(latest_s, end_s)
            if start_s <= latest_s and moment_s >= earliest_s and moment_s > best_s:
                best, best_s = _Ask(task, moment_s - start_s), moment_s
        if best is None and earliest_s <= 0:
            best = _Ask(None, 0.0)
        return best


def _waiting(plan: Plan, simulated: Simulation, resources: Resources, from_s: float, to_s: float) -> int:
    """How many environments that were asked for before are still free when one more is asked for.

    Asking is for a number of free ones, so these count too.
    """
    before = 0
    timeline = simulated.timeline
    for task, hints in plan.hints.items():
        for hint in hints:
            if isinstance(hint, PreWarmHint) and hint.resources == resources:
                before += hint.count if timeline.execute_s[task] + hint.after_s <= from_s else 0
    before += sum(hint.count for hint in plan.launch if hint.resources == resources)
    taken = sum(
        worker.resources == resources and not worker.cold and worker.asked_s <= from_s for worker in simulated.workers
    )
    return max(0, before - taken) if to_s >= from_s else 0
