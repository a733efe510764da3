"""The default planner: says what it wants, searches with the simulator as judge, and stops before that costs too much.

    seeds                                                    search
      everything on one worker        ┐
      quick schedules on 2, 4, 8, … ──┼──▶ the best of them ──▶ small changes along ──▶ the best of all
      Uniform, Non-Uniform, WUKONG    ┘                          and off the critical path

Whatever it ends with is at least as good, as far as the simulator can tell, as each of the seeds.

Large workflows are made small first (`augury.plan.search.coarsen`): the search runs on clusters of tasks, and what it
finds is laid out on the tasks. Of a workflow whose functions were never measured nothing is known but its shape:
its tasks are left to flexible workers, which share work among themselves as its length shows; few of them to begin
with. And if all the work is less than what it takes to start a second worker, it stays on one.

The search may take a tenth of the time that the run is expected to take, at least 20 ms and at most 5 s.
"""

import logging
import math
from collections.abc import Callable, Hashable, Iterator, Sequence

import msgspec

from augury.config import Resources, is_positive
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.making import optimized
from augury.plan.optimizations.preload import PreLoad
from augury.plan.optimizations.prewarm import PreWarm
from augury.plan.outlook import Optimization, Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.planners.checks import checked_optimizations
from augury.plan.planners.nonuniform import NonUniformPlanner
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner
from augury.plan.predictions import Evidence
from augury.plan.search.coarsen import Coarse, coarsen
from augury.plan.search.improve import Search
from augury.plan.search.objective import Objective, Outcome
from augury.plan.search.schedule import Costs, Schedule, lower_bound_s, pack, spread, upward_ranks
from augury.plan.simulate.engine import outline
from augury.plan.simulate.run import Run
from augury.predict.sla import SLA

_log = logging.getLogger(__name__)

_SHARE, _LEAST_S, _MOST_S = 0.1, 0.02, 5.0
"""Which part of the expected makespan planning may take, and how long at least and at most."""
_FEW = 250
"""Up to how many tasks the first seeds are tried whatever the time."""
_FIRST = 4
"""How many seeds these are."""
_SCHEDULE_S, _COARSEN_S, _SIMULATE_S = 10e-6, 20e-6, 25e-6
"""About how long it takes to schedule, to merge and to simulate a task."""
_MANY = 3000
"""From how many tasks on the search runs on a coarser graph; and into how many clusters it is made."""
_CLUSTERS = 1500
_LITTLE = 1.001
"""How much slower a run may be if that makes it cheaper, and time is what is wanted."""
_WORTHWHILE = 4
"""How many times as long as it takes to start a worker should have to do, if nothing is known of its tasks."""
_MOSTLY = 0.5
"""Which part of the work must be guessed for the whole to count as unknown."""
_STEPS = 400
"""How many times the search may ask for more time when there is no clock."""


class AutoPlanner:
    """Looks for the plan that comes closest to what is wanted.

    Args:
        objective: `"makespan"`, `"cost"`, or a weight between 0 (cost alone) and 1 (makespan alone).
        deadline_s: How long the run may take. Among plans that keep to it the best one is chosen; if none does, the
            one that comes closest.
        budget_usd: What the run may cost, likewise.
        max_workers: How many workers it may have, likewise.
        configurations: What workers may have; by default what the platform offers.
        time_s: How long planning may take; by default a tenth of the expected makespan, between 20 ms and 5 s.
        optimizations: What is applied to its plans; by default pre-loading and pre-warming where they are
            expected to pay, if there is time to find that out.

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
        given: object = configurations
        listed = isinstance(given, Sequence) and bool(given) and all(isinstance(one, Resources) for one in given)
        if given is not None and not listed:
            raise PlanError(
                f"AutoPlanner: configurations must be a list of Resources(cpus=…, memory_mb=…), not {configurations!r}"
            )
        if time_s is not None and not (is_positive(time_s) or time_s == 0):
            raise PlanError(f"AutoPlanner: time_s must be a number of seconds that is not negative, not {time_s!r}")
        self.configurations = None if configurations is None else tuple(configurations)
        self.time_s = time_s
        self.chooses_optimizations = optimizations is None
        self.optimizations = checked_optimizations("AutoPlanner", () if optimizations is None else optimizations)

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """What must be equal for a plan to be used again."""
        wanted = self.objective
        constraints = (wanted.weight, wanted.deadline_s, wanted.budget_usd, wanted.max_workers)
        return (*constraints, self.configurations, self.time_s, self.chooses_optimizations, self.optimizations)

    def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
        """Look for a good plan."""
        outlook = Outlook(graph) if outlook is None else outlook
        if not len(graph):
            return Plan(fingerprint=graph.fingerprint, planner=self.name, assignments=())
        search = _Planning(self, outlook, _Time(outlook.clock, self.time_s))
        return msgspec.structs.replace(search.best_plan(), planner=self.name)


class _Time:
    """How much of it is left."""

    def __init__(self, clock: Callable[[], float], given_s: float | None) -> None:
        self._clock = clock
        self._began_s = clock()
        self._given_s = given_s
        self._allowed_s = _LEAST_S if given_s is None else given_s
        self._steps = _STEPS

    def expect(self, makespan_s: float) -> None:
        """The run is expected to take so long."""
        if self._given_s is None:
            self._allowed_s = min(_MOST_S, max(_LEAST_S, _SHARE * makespan_s))

    def is_left(self, for_s: float = 0.0) -> bool:
        """Whether there is time for another step, which takes so long."""
        self._steps -= 1
        passed_s = self._clock() - self._began_s
        if not passed_s:  # a clock that stands still
            return self._steps > 0
        return passed_s + for_s < self._allowed_s


class _Planning:
    """One search."""

    def __init__(self, planner: AutoPlanner, outlook: Outlook, time: _Time) -> None:
        self._planner = planner
        self._objective = planner.objective
        self._outlook = outlook
        self._graph = outlook.graph
        self._time = time
        offered = planner.configurations or outlook.platform.configurations
        self._configurations = sorted(offered, key=lambda one: (one.memory_mb, one.cpus))
        self._need_mb = outlook.least_memory_mb
        most = outlook.platform.concurrency
        wanted = self._objective.max_workers
        self._most_workers = most if wanted is None else min(most, wanted)
        self._candidates: list[tuple[Outcome, Plan]] = []
        self._chosen: tuple[Outcome, Plan] | None = None
        self._tried_s: float | None = None  # how long the last simulation took

    # The way to a plan

    def best_plan(self) -> Plan:
        """Go through seeds and search."""
        if self._objective.max_workers is None and _is_unknown(self._outlook, self._configurations[-1]):
            return self._flexible()
        if len(self._graph) > _MANY:
            self._search_large()
        else:
            self.search()
        self._note_excess()
        return self._hinted(*self._best())

    def _hinted(self, outcome: Outcome, plan: Plan) -> Plan:
        """The plan with those optimizations that make it better, if there is time to find that out."""
        if self._planner.chooses_optimizations:
            for optimization in (PreLoad(max_rounds=2), PreWarm(max_rounds=4)):
                if not self._time.is_left(4 * self._simulation_s()):
                    break
                hinted = optimization.assign(plan, self._outlook, ())
                if hinted is plan:
                    continue
                after = self._try(hinted)
                if self._objective.is_better(after, outcome):
                    outcome, plan = after, hinted
        return plan

    def _note_excess(self) -> None:
        """Say so if nothing that was found keeps to the constraints."""
        outcome = self._best()[0]
        if self._objective.excess(outcome):
            _log.warning(
                "no plan was found that keeps to the constraints; the closest takes %.3g s and $%.3g on %d workers",
                *outcome,
            )

    def _simulation_s(self) -> float:
        """About how long it takes to simulate a plan: as long as it took last time."""
        return self._tried_s if self._tried_s is not None else len(self._graph) * _SIMULATE_S

    def _best(self) -> tuple[Outcome, Plan]:
        if self._chosen is not None:
            return self._chosen
        return min(self._candidates, key=lambda candidate: self._objective.key(candidate[0]))

    def candidates(self) -> list[tuple[Outcome, Plan]]:
        """Every plan that was tried, with what it comes to."""
        return self._candidates

    def search(self) -> None:
        """Try seeds while there is time, then improve the best of them."""
        for place, seed in enumerate(self._seeds()):
            if self._candidates:
                self._time.expect(min(outcome.makespan_s for outcome, _ in self._candidates))
                is_needed = len(self._graph) <= _FEW and place < _FIRST
                if not is_needed and not self._time.is_left(1.5 * self._simulation_s()):
                    break
            self._try(seed())
        self._improve()

    def _try(self, plan: Plan) -> Outcome:
        """Simulate a plan, and remember what it comes to."""
        began_s = self._outlook.clock()
        outlook = self._outlook
        run = Run(self._graph, plan, outlook.execution_s, outlook.output_bytes, outlook.platform)
        outcome = Outcome(*outline(run.go()))
        self._candidates.append((outcome, plan))
        self._tried_s = outlook.clock() - began_s
        return outcome

    # Seeds

    def _seeds(self) -> Iterator[Callable[[], Plan]]:
        """Plans to start from; those that promise most come first."""
        ordered = self._configurations if self._objective.weight < _MOSTLY else list(reversed(self._configurations))
        strongest, *weaker = ordered
        yield lambda: self._one_worker(strongest)
        yield lambda: self._spread(strongest, self._most_workers)
        yield lambda: UniformPlanner(strongest).plan(self._graph, self._outlook)
        yield lambda: WukongPlanner(strongest).plan(self._graph, self._outlook)
        yield lambda: self._packed(strongest, self._most_workers)
        if weaker:
            yield lambda: self._spread(weaker[0], self._most_workers)
        for resources in weaker:
            yield lambda resources=resources: self._one_worker(resources)  # type: ignore[misc]
        if weaker:
            yield lambda: NonUniformPlanner(self._configurations).plan(self._graph, self._outlook)
        for resources in weaker:
            yield lambda resources=resources: self._packed(resources, self._most_workers)  # type: ignore[misc]
            yield lambda resources=resources: UniformPlanner(resources).plan(self._graph, self._outlook)  # type: ignore[misc]
            yield lambda resources=resources: WukongPlanner(resources).plan(self._graph, self._outlook)  # type: ignore[misc]
        count = 2
        while count < min(self._most_workers, len(self._graph)):
            yield lambda count=count: self._spread(strongest, count)  # type: ignore[misc]
            count *= 2

    def _one_worker(self, resources: Resources) -> Plan:
        one = Assignment(worker=0, resources=self._roomy(resources, max(self._need_mb)))
        return self._made((one,) * len(self._graph))

    def _flexible(self) -> Plan:
        """Nothing is known: workers find out, few of them at first."""
        strongest = self._configurations[-1]
        plan = WukongPlanner(strongest).plan(self._graph, self._outlook)
        timing = self._outlook.platform.timing_of(strongest)
        worthwhile_s = _WORTHWHILE * (timing.cold_start_s + timing.latency_s)
        workers = math.ceil(math.fsum(self._outlook.execution_s(strongest)) / max(worthwhile_s, _LEAST_S))
        return msgspec.structs.replace(plan, spread=max(1, min(workers, self._most_workers)))

    def _costs(self, resources: Resources) -> Costs:
        outlook = self._outlook
        run_s = outlook.execution_s(resources)
        return Costs(self._graph, run_s, outlook.output_bytes, outlook.platform, resources)

    def _spread(self, resources: Resources, most_workers: int) -> Plan:
        return self._laid_out(spread(self._costs(resources), most_workers), resources)

    def _packed(self, resources: Resources, most_workers: int) -> Plan:
        """As few workers as keep to what the quickest schedule takes, or to the deadline."""
        costs = self._costs(resources)
        rank_s = upward_ranks(costs)
        end_s = spread(costs, most_workers, rank_s).end_s
        if self._objective.deadline_s is not None and self._objective.weight < 1:
            end_s = max(end_s, self._objective.deadline_s)
        return self._laid_out(pack(costs, most_workers, end_s, rank_s), resources)

    def _laid_out(self, schedule: Schedule, resources: Resources) -> Plan:
        need_mb = [0] * schedule.workers
        for worker, mb in zip(schedule.worker_of, self._need_mb, strict=True):
            if mb > need_mb[worker]:
                need_mb[worker] = mb
        distinct = [
            Assignment(worker=worker, resources=self._roomy(resources, mb)) for worker, mb in enumerate(need_mb)
        ]
        return self._made(tuple([distinct[worker] for worker in schedule.worker_of]), schedule.ranks)

    def _roomy(self, resources: Resources, need_mb: int) -> Resources:
        """A configuration with the memory that is needed: the next larger one, or else one of that size."""
        if need_mb <= resources.memory_mb:
            return resources
        larger = [one for one in self._configurations if one.memory_mb >= need_mb]
        return larger[0] if larger else Resources(cpus=self._configurations[-1].cpus, memory_mb=need_mb)

    def _made(self, assignments: tuple[Assignment, ...], ranks: tuple[int, ...] = ()) -> Plan:
        return Plan(
            fingerprint=self._graph.fingerprint, planner=self._planner.name, assignments=assignments, ranks=ranks
        )

    # Search

    def _improve(self) -> None:
        """Change the best plan step by step; one that names workers for all tasks."""
        slots = self._outlook.platform.concurrency
        planned = [candidate for candidate in self._candidates if _names_workers(candidate[1], slots)]
        if not planned or not self._time.is_left():
            return
        objective = self._objective
        best_s = self._best()[0].makespan_s
        search = Search(
            self._outlook.trials(min(planned, key=lambda candidate: objective.key(candidate[0]))[1]),
            objective,
            self._configurations,
            self._need_mb,
            self._time.is_left,
            self._most_workers,
        )
        if objective.weight > 0:
            search.quicken()
        limit_s = math.inf if objective.deadline_s is None else objective.deadline_s
        if objective.weight >= 1:  # a little slower for much cheaper, but not slower than any seed
            limit_s = max(search.trials.makespan_s, min(best_s, search.trials.makespan_s * _LITTLE))
        search.cheapen(limit_s * (1 + 1e-9))
        plan = search.trials.plan_now()
        outcome = self._try(plan)
        is_quick = outcome.makespan_s <= min(limit_s, best_s) * (1 + 1e-9)
        if objective.weight >= 1 and is_quick and not objective.excess(outcome):
            self._chosen = (outcome, plan)

    def _search_large(self) -> None:
        """Of a large workflow: estimate first, then look closer while there is time.

        What is known of the time that there is: the run takes no longer than on one worker.
        """
        strongest = self._configurations[-1]
        tasks = len(self._graph)
        alone = self._alone(strongest)
        self._candidates.append((alone, self._one_worker(strongest)))
        self._time.expect(alone.makespan_s)
        if not self._time.is_left(tasks * _SCHEDULE_S):
            return
        self._estimate(spread(self._costs(strongest), self._most_workers), strongest)
        self._time.expect(self._best()[0].makespan_s)
        if self._time.is_left(tasks * (_COARSEN_S + _SIMULATE_S)):
            self._search_coarse(strongest)
        if self._time.is_left(2 * tasks * _SIMULATE_S):
            self._compare()

    def _alone(self, resources: Resources) -> Outcome:
        """What one worker would come to; it has nobody to wait for."""
        platform = self._outlook.platform
        timing = platform.timing_of(resources)
        costs = self._costs(resources)
        work_s = max(lower_bound_s(costs), math.fsum(costs.run_s) / resources.task_slots)
        start_s = timing.warm_start_s if platform.warm.get(resources) else timing.cold_start_s
        makespan_s = start_s + 1.5 * timing.latency_s + work_s
        price = platform.price
        usd = makespan_s * resources.memory_mb / 1024 * price.usd_per_gb_s + price.usd_per_request
        return Outcome(makespan_s, usd, 1)

    def _estimate(self, schedule: Schedule, resources: Resources) -> None:
        """Remember a schedule with what it should come to."""
        price = self._outlook.platform.price
        gb = resources.memory_mb / 1024
        usd = schedule.busy_s * gb * price.usd_per_gb_s + schedule.workers * price.usd_per_request
        self._candidates.append((Outcome(schedule.end_s, usd, schedule.workers), self._laid_out(schedule, resources)))

    def _compare(self) -> None:
        """Simulate what was estimated, best first, and further seeds."""
        ranked = sorted(self._candidates, key=lambda candidate: self._objective.key(candidate[0]))
        self._candidates = []
        seeds = [*[lambda plan=plan: plan for _, plan in ranked[:3]], *self._seeds()]
        for seed in seeds:
            if self._candidates:
                self._time.expect(min(outcome.makespan_s for outcome, _ in self._candidates))
                if not self._time.is_left(1.5 * self._simulation_s()):
                    return
            self._try(seed())
        self._improve()

    def _search_coarse(self, strongest: Resources) -> None:
        """Search on a coarser graph, and lay the result out on this one."""
        coarse = coarsen(self._graph, self._outlook.execution_s(strongest), _CLUSTERS)
        if len(coarse.graph) > len(self._graph) // 2:  # it does not get much smaller
            return
        outlook = Outlook(
            coarse.graph,
            _OfClusters(self._outlook, coarse),
            self._outlook.platform,
            sla=self._outlook.sla,
            clock=self._outlook.clock,
        )
        inner = _Planning(self._planner, outlook, self._time)
        inner.search()
        found = sorted(inner.candidates(), key=lambda candidate: self._objective.key(candidate[0]))
        self._candidates += [(outcome, self._expanded(plan, coarse)) for outcome, plan in found[:2]]

    def _expanded(self, plan: Plan, coarse: Coarse) -> Plan:
        """The plan of clusters as a plan of the tasks in them."""
        cluster_of = coarse.cluster_of
        assignments = tuple([plan.assignments[cluster] for cluster in cluster_of])
        ranks: tuple[int, ...] = ()
        if plan.ranks:
            order = sorted(range(len(cluster_of)), key=lambda task: (plan.ranks[cluster_of[task]], task))
            places = [0] * len(order)
            for place, task in enumerate(order):
                places[task] = place
            ranks = tuple(places)
        return self._made(assignments, ranks)


class _OfClusters:
    """What is expected of clusters, from what is expected of the tasks in them."""

    def __init__(self, outlook: Outlook, coarse: Coarse) -> None:
        self._outlook = outlook
        self._coarse = coarse

    def execution_s(self, graph: Graph, resources: Resources) -> Sequence[float]:
        """For each cluster, how long its tasks take together: one after another, or beside each other on slots."""
        run_s = self._outlook.execution_s(resources)
        slots = resources.task_slots
        if slots == 1:
            return [sum([run_s[task] for task in tasks]) for tasks in self._coarse.members]
        return [self._beside(tasks, run_s, slots) for tasks in self._coarse.members]

    def _beside(self, tasks: Sequence[int], run_s: Sequence[float], slots: int) -> float:
        longest_s: dict[int, float] = {}
        deps = self._outlook.graph.deps
        for task in tasks:
            longest_s[task] = run_s[task] + max([longest_s.get(dep, 0.0) for dep in deps[task]], default=0.0)
        return max(*longest_s.values(), sum([run_s[task] for task in tasks]) / slots)

    def output_bytes(self, graph: Graph) -> Sequence[float]:
        """For each cluster, what its tasks give to others."""
        size, cluster_of = self._outlook.output_bytes, self._coarse.cluster_of
        whole = self._outlook.graph
        leaves = [0.0] * len(graph)
        for task, consumers in enumerate(whole.dependents):
            mine = cluster_of[task]
            if task in whole.sink_set or any(cluster_of[consumer] != mine for consumer in consumers):
                leaves[mine] += size[task]
        return leaves

    def peak_mb(self, graph: Graph) -> Sequence[float]:
        """For each cluster, what its neediest task needs."""
        need_mb = self._outlook.least_memory_mb
        return [max([need_mb[task] for task in tasks]) for tasks in self._coarse.members]

    def evidence(self, graph: Graph) -> Sequence[Evidence]:
        """As of the tasks."""
        return self._outlook.evidence

    def at(self, sla: SLA) -> "_OfClusters":
        """The same with another degree of caution."""
        return _OfClusters(self._outlook.at(sla), self._coarse)


def _is_unknown(outlook: Outlook, resources: Resources) -> bool:
    """Whether most of the expected work is that of functions that were never measured."""
    unknown = [bool(getattr(one, "is_prior", False)) for one in outlook.evidence]
    if not any(unknown):
        return False
    run_s = outlook.execution_s(resources)
    guessed_s = math.fsum(
        seconds for seconds, function in zip(run_s, outlook.graph.function_of, strict=True) if unknown[function]
    )
    return guessed_s >= _MOSTLY * math.fsum(run_s)


def _names_workers(plan: Plan, concurrency: int) -> bool:
    """Whether a plan names a worker for each task, and the platform has a slot for each worker."""
    workers = {assignment.worker for assignment in plan.assignments}
    return None not in workers and len(workers) <= concurrency


def pareto_front(outlook: Outlook, plan: Plan | None = None) -> tuple[Plan, ...]:
    """Plans of which none is both slower and dearer than another; the quickest first.

    Args:
        outlook: What is expected.
        plan: One that takes part, such as the one that was chosen.
    """
    found: list[tuple[Outcome, Plan]] = []
    for objective in ("makespan", 0.5, "cost"):
        planner = AutoPlanner(objective)
        search = _Planning(planner, outlook, _Time(outlook.clock, None))
        search.best_plan()
        found += search.candidates()
    if plan is not None:
        simulation = outlook.simulate(plan)
        found.append((Outcome(simulation.makespan_s, simulation.cost_usd, simulation.requests), plan))
    found.sort(key=lambda candidate: (candidate[0].makespan_s, candidate[0].cost_usd))
    front: list[Plan] = []
    least_usd = math.inf
    for outcome, candidate in found:
        if outcome.cost_usd < least_usd * (1 - 1e-9):
            least_usd = outcome.cost_usd
            with_demanded = optimized(candidate, AutoPlanner(optimizations=()), outlook)
            front.append(msgspec.structs.replace(with_demanded, predicted=outlook.simulate(with_demanded)))
    return tuple(front)


def bound_s(outlook: Outlook) -> float:
    """How long a run takes at least, whatever the plan: its longest path on the best configuration for it."""
    platform = outlook.platform
    return min(
        lower_bound_s(Costs(outlook.graph, outlook.execution_s(one), outlook.output_bytes, platform, one))
        for one in platform.configurations
    )
