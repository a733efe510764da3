"""The default planner: says what it wants, searches with the simulator as judge, and stops before that costs too much.

    seeds                                                search
      everything on one worker        ┐                    small changes along    ┐
      quick schedules                 ┼──▶ the best ──▶    and off the critical   ┼──▶ hints ──▶ the best of all
      Uniform, Non-Uniform, WUKONG    ┘    of them         path; schedules that   ┘
                                                           save money

Whatever it ends with is at least as good, as far as the simulator can tell, as each of the seeds. If time is what is
wanted, a run may be up to a thousandth slower than the fastest that was found if that makes it cheaper; and up to a
fiftieth if that saves a tenth of the bytes that it moves and holds, and these are many.

Of a workflow whose functions were mostly never measured nothing is known but its shape. Its tasks are left to flexible
workers, few of them to begin with: as it shows how long tasks take, they share work among themselves.

The search may take a tenth of the time that the run is expected to take, at least 20 ms and at most 5 s; less if the
best plan so far takes hardly longer than any run must. How it goes
about it: `augury.plan.search`.
"""

import logging
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from augury.config import Resources, but_not, is_number
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.making import optimized
from augury.plan.optimizations.preload import PreLoad
from augury.plan.optimizations.prewarm import PreWarm
from augury.plan.optimizations.taskdup import TaskDup
from augury.plan.outlook import Optimization, Outlook
from augury.plan.plan import Plan
from augury.plan.planners.checks import checked_optimizations
from augury.plan.planners.wukong import WukongPlanner
from augury.plan.search.budget import Budget
from augury.plan.search.explore import Candidate, Exploration
from augury.plan.search.objective import Objective, Outcome, outcome_of

_log = logging.getLogger(__name__)

_USUAL: tuple[Optimization, ...] = (PreLoad(min_inputs=1, max_rounds=0), PreWarm(), TaskDup())
"""What is tried if the user names no optimizations."""
_WORTHWHILE = 4
"""How many times as long as it takes to start a worker should have to do, if nothing is known of its tasks."""
_LEAST_S = 0.02
"""What a worker should have to do at least."""
_MOSTLY = 0.5
"""Which part of the work must be guessed for the whole to count as unknown."""
_FRONT = (1.0, 0.75, 0.5, 0.25, 0.0)
"""For which weights a front is searched."""


class AutoPlanner:
    """Looks for the plan that comes closest to what is wanted.

    Args:
        objective: `"makespan"`, `"cost"`, or a weight between 0 (cost alone) and 1 (makespan alone).
        deadline_s: How long the run may take. Among plans that keep to it the best one is chosen; if none does, the
            one that comes closest, and a warning is logged.
        budget_usd: What the run may cost, likewise.
        max_workers: How many workers it may have, likewise. No task is flexible then: nothing would hold flexible
            workers to a number.
        configurations: What workers may have; by default what the platform offers. If a task needs more memory than
            any of them has, its worker gets the strongest with that much.
        time_s: How long planning may take; by default a tenth of the expected makespan, between 20 ms and 5 s, and less
            once there is little to gain.
        optimizations: What is applied to its plans. By default those that come with Augury are tried within the time
            that there is, and used where they bring something; `()` is none.

    Raises:
        PlanError: One of these makes no sense.

    Example:
        >>> from augury import AutoPlanner, FixedPredictions, PlatformModel, task
        >>> @task
        ... def part(x: int) -> int:
        ...     return x
        >>> @task
        ... def total(parts: list[int]) -> int:
        ...     return sum(parts)
        >>> workflow = total([part(i) for i in range(4)])
        >>> long = FixedPredictions(10.0)
        >>> quick = workflow.plan(AutoPlanner(), predictions=long, platform=PlatformModel())
        >>> cheap = workflow.plan(AutoPlanner("cost"), predictions=long, platform=PlatformModel())
        >>> len(quick.predicted.workers), len(cheap.predicted.workers)
        (4, 1)
    """

    name = "auto"

    def __init__(
        self,
        objective: str | float = "makespan",
        *,
        deadline_s: float | None = None,
        budget_usd: float | None = None,
        max_workers: int | None = None,
        configurations: Sequence[Resources] | None = None,
        time_s: float | None = None,
        optimizations: Sequence[Optimization] | None = None,
    ) -> None:
        self.objective = Objective(objective, deadline_s=deadline_s, budget_usd=budget_usd, max_workers=max_workers)
        self.configurations = None if configurations is None else _checked_configurations(configurations)
        self.time_s = _checked_time_s(time_s)
        self.optimizations = () if optimizations is None else checked_optimizations("AutoPlanner", optimizations)
        self._tries = _USUAL if optimizations is None else ()

    @property
    def settings(self) -> tuple[Any, ...]:
        """All that its plans depend on: planners with equal settings make equal plans."""
        return (*self.objective.settings, self.configurations, self.time_s, self.optimizations, len(self._tries))

    def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
        """Look for a good plan.

        Args:
            graph: The workflow.
            outlook: What is expected of its tasks. Without one, all take equally long.
        """
        outlook = Outlook(graph) if outlook is None else outlook
        if not len(graph):
            return Plan(fingerprint=graph.fingerprint, planner=self.name, assignments=())
        configurations = _usable(self.configurations or outlook.platform.configurations, outlook.least_memory_mb)
        if self.objective.max_workers is None and _is_unknown(outlook, configurations[-1]):
            return msgspec.structs.replace(_flexible(outlook, configurations[-1]), planner=self.name)
        budget = Budget(outlook.clock, self.time_s)
        search = Exploration(outlook, self.objective, configurations, budget, name=self.name, optimizations=self._tries)
        search.run()
        best = search.best()
        for missed in self.objective.missed(best.outcome):
            _log.warning("no plan was found that keeps to %s", missed)
        return msgspec.structs.replace(best.plan, planner=self.name)


def _checked_configurations(configurations: object) -> tuple[Resources, ...]:
    listed = isinstance(configurations, Sequence) and not isinstance(configurations, str)
    if isinstance(configurations, Sequence) and listed and configurations:
        found = tuple(one for one in configurations if isinstance(one, Resources))
        if len(found) == len(configurations):
            return found
    raise PlanError(
        "AutoPlanner: configurations must be a list of Resources(cpus=…, memory_mb=…) with at least one, "
        f"not {configurations!r}"
    )


def _checked_time_s(time_s: object) -> float | None:
    if time_s is None:
        return None
    if isinstance(time_s, int | float) and is_number(time_s):
        return float(time_s)
    raise PlanError(f"AutoPlanner: time_s must be a number of seconds that is not negative, {but_not(time_s)}")


def _usable(offered: Sequence[Resources], need_mb: Sequence[int]) -> list[Resources]:
    """The distinct configurations, weaker ones first; with one more if none has the memory that some task needs."""
    usable = sorted(set(offered), key=lambda one: (one.memory_mb, one.cpus))
    most_mb = max(need_mb, default=0)
    if most_mb > usable[-1].memory_mb:
        usable.append(Resources(cpus=usable[-1].cpus, memory_mb=most_mb))
    return usable


# Without history


def _is_unknown(outlook: Outlook, resources: Resources) -> bool:
    """Whether most of the expected work is that of functions that were never measured."""
    unknown = [bool(getattr(one, "is_prior", False)) for one in outlook.evidence]
    if not any(unknown):
        return False
    run_s = outlook.execution_s(resources)
    guessed_s = [seconds for seconds, of in zip(run_s, outlook.graph.function_of, strict=True) if unknown[of]]
    return math.fsum(guessed_s) >= _MOSTLY * math.fsum(run_s)


def _flexible(outlook: Outlook, resources: Resources) -> Plan:
    """Nothing is known: workers find out, few of them at first."""
    plan = WukongPlanner(resources).plan(outlook.graph, outlook)
    timing = outlook.platform.timing_of(resources)
    worthwhile_s = max(_LEAST_S, _WORTHWHILE * (timing.cold_start_s + timing.latency_s))
    workers = math.ceil(math.fsum(outlook.execution_s(resources)) / worthwhile_s)
    return msgspec.structs.replace(plan, spread=max(1, min(workers, outlook.platform.concurrency)))


# Fast or cheap


def pareto_front(outlook: Outlook, plan: Plan | None = None) -> tuple[Plan, ...]:
    """Plans of which none is both slower and dearer than another; the fastest first, the cheapest last.

    Args:
        outlook: What is expected.
        plan: One that takes part, such as the one that was chosen.

    Returns:
        The plans, each with what is predicted for it.
    """
    found: list[Candidate] = []
    if len(outlook.graph):
        configurations = _usable(outlook.platform.configurations, outlook.least_memory_mb)
        for weight in _FRONT:
            budget = Budget(outlook.clock)
            search = Exploration(outlook, Objective(weight), configurations, budget, name=AutoPlanner.name)
            search.run()
            found += search.tried or [search.best()]
    if plan is not None:
        found.append(Candidate(Outcome(0.0, 0.0, 0), plan))
    front = _undominated([_simulated(one.plan, outlook) for one in found])
    demanded = [optimized(one.plan, AutoPlanner(optimizations=()), outlook) for one in front]
    return tuple(one.plan for one in _undominated([_simulated(plan, outlook) for plan in demanded]))


def _simulated(plan: Plan, outlook: Outlook) -> Candidate:
    predicted = plan.predicted or outlook.simulate(plan)
    return Candidate(outcome_of(predicted), msgspec.structs.replace(plan, predicted=predicted))


def _undominated(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other one beats in both, by makespan."""
    front: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (one.outcome.makespan_s, one.outcome.cost_usd)):
        if not front or one.outcome.cost_usd < front[-1].outcome.cost_usd * (1 - 1e-9):
            front.append(one)
    return front
