"""Pre-warm: who has environments made ready for workers that would start cold, and when.

A worker is asked for when its first task becomes ready; if its environment is new, everything waits for that. So
somebody asks for the environment earlier: not so late that it is not ready, nor so early that it grows cold again.

    ask ◀──────── keep alive ────────▶◀─ cold start ─▶ the worker is asked for
     ▲────────────── window ─────────▲
     a task that executes in it, or ends in it, gets the hint; at the end of the window, if possible

If there is no such task, and the window begins before the run does, the client asks when it submits the run. Only cold
starts on the critical path are worth it, and each hint stays only if the simulated run gets shorter by it: pre-warming
costs as much as the start that it hides. Workers of one kind that are asked for at the same time go together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from augury.plan.hints import PreWarmHint
from augury.plan.optimizations.hinting import BETTER, MANY_TASKS, check_count, check_number, predicted, with_hints
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.timeline import Simulation, WorkerTimes

_FEW_ROUNDS = 5
"""For how many workers this is tried in a large workflow."""


class _Ask(NamedTuple):
    """Somebody asks for an environment: a task, so long after its start; or the client, if there is no task."""

    task: int | None
    after_s: float
    moment_s: float


@dataclass(frozen=True, slots=True)
class PreWarm:
    """Have environments started before the workers that will need them.

    Args:
        margin_s: How much earlier than necessary, since predictions err.
        max_rounds: For how many workers, at most, this is tried; of large workflows for fewer.

    Example:
        >>> from augury import FixedPredictions, PlatformModel, PreWarm, UniformPlanner, task
        >>> @task
        ... def load(x: int) -> int:
        ...     return x
        >>> @task
        ... def work(x: int) -> int:
        ...     return x
        >>> planner = UniformPlanner(max_clustering=1, optimizations=[PreWarm()])
        >>> loaded = load(1)
        >>> plan = work(loaded).plan(planner, predictions=FixedPredictions(5.0), platform=PlatformModel())
        >>> dict(plan.hints)  # one worker does both: nothing starts later
        {}
    """

    name: ClassVar[str] = "pre-warm"

    margin_s: float = 0.05
    max_rounds: int = 16

    def __post_init__(self) -> None:
        check_number("PreWarm", "margin_s", self.margin_s)
        check_count("PreWarm", "max_rounds", self.max_rounds)

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        """Pre-warm for the workers of forced tasks, then for cold starts on the critical path.

        Args:
            plan: The plan so far.
            outlook: Predictions and simulator.
            forced: Tasks whose workers are pre-warmed if they start cold, and somebody is there in time to ask.
        """
        plan, simulated = predicted(plan, outlook)
        for worker in _cold_workers(simulated, forced):
            plan = self._asked_for(plan, outlook, simulated, [worker]) or plan
        rounds = self.max_rounds if len(plan.assignments) <= MANY_TASKS else min(self.max_rounds, _FEW_ROUNDS)
        tried: set[str] = set()
        for _ in range(rounds):
            plan, simulated = predicted(plan, outlook)
            better = self._better(plan, outlook, simulated, tried)
            if better is None:
                break
            better, after = predicted(better, outlook)
            if after.makespan_s < simulated.makespan_s * BETTER:
                plan = better
        return plan

    def _better(self, plan: Plan, outlook: Outlook, simulated: Simulation, tried: set[str]) -> Plan | None:
        """The plan with the next cold starts on the critical path pre-warmed; None if there is nothing to be done."""
        for late in self._late(simulated, tried):
            tried.update(worker.name for worker in late)
            better = self._asked_for(plan, outlook, simulated, late)
            if better is not None:
                return better
        return None

    def _late(self, simulated: Simulation, tried: set[str]) -> Iterator[list[WorkerTimes]]:
        """The cold starts on the critical path, each with those that go with it: of the same kind, at the same time."""
        for task in simulated.critical_path:
            worker = simulated.workers[simulated.timeline.worker[task]]
            if worker.cold and worker.asked_s > 0 and worker.name not in tried:
                yield [
                    other
                    for other in simulated.workers
                    if other.cold
                    and other.resources == worker.resources
                    and other.name not in tried
                    and abs(other.asked_s - worker.asked_s) <= self.margin_s
                ]

    def _asked_for(
        self, plan: Plan, outlook: Outlook, simulated: Simulation, workers: Sequence[WorkerTimes]
    ) -> Plan | None:
        """The plan with somebody who asks for the environments of these workers in time; None if nobody can."""
        first = min(workers, key=lambda worker: worker.asked_s)
        ask = self._ask(outlook, simulated, first)
        if ask is None:
            return None
        count = len(workers) + _free_ones(plan, simulated, first, ask.moment_s)
        if ask.task is None:
            return with_hints(plan, {}, [PreWarmHint(first.resources, count)])
        return with_hints(plan, {ask.task: [PreWarmHint(first.resources, count, ask.after_s)]})

    def _ask(self, outlook: Outlook, simulated: Simulation, worker: WorkerTimes) -> _Ask | None:
        """Who asks for the environment of a worker: as late as is early enough."""
        platform = outlook.platform
        latest_s = worker.asked_s - self.margin_s - platform.timing_of(worker.resources).cold_start_s
        earliest_s = latest_s - platform.keep_alive_s + 2 * self.margin_s
        if latest_s < 0:
            return None
        timeline = simulated.timeline
        best: _Ask | None = None
        for task, (start_s, end_s) in enumerate(zip(timeline.execute_s, timeline.executed_s, strict=True)):
            moment_s = min(latest_s, end_s)
            if start_s <= latest_s and moment_s >= earliest_s and (best is None or moment_s > best.moment_s):
                best = _Ask(task, moment_s - start_s, moment_s)
        if best is None and earliest_s <= 0:
            return _Ask(None, 0.0, 0.0)
        return best


def _cold_workers(simulated: Simulation, tasks: Sequence[int]) -> list[WorkerTimes]:
    """The workers that run some tasks and start cold, in the order in which they are asked for."""
    places = {simulated.timeline.worker[task] for task in tasks}
    return [simulated.workers[place] for place in sorted(places) if place >= 0 and simulated.workers[place].cold]


def _free_ones(plan: Plan, simulated: Simulation, worker: WorkerTimes, moment_s: float) -> int:
    """How many environments that were asked for before are still free when one more is.

    Asking is for a number of free ones, so these count too.
    """
    asked = [
        hint
        for task, hints in plan.hints.items()
        for hint in hints
        if isinstance(hint, PreWarmHint) and simulated.timeline.execute_s[task] + hint.after_s <= moment_s
    ]
    made = sum(hint.count for hint in (*asked, *plan.launch) if hint.resources == worker.resources)
    taken = sum(
        one.resources == worker.resources and not one.cold and one.asked_s <= moment_s for one in simulated.workers
    )
    return max(0, made - taken)
