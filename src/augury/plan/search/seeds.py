"""Plans that a search starts from, and what each of them comes to at best.

That is told without making it: from how long all tasks take together and along the longest path, with workers of one
configuration.

    one worker          all tasks, one after the other                            one start
    apart, on n         the longest path, or an n-th of all if that is longer     up to n starts

So seeds that promise most can be tried first, and those not at all that cannot be better than what is there.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from augury.config import Resources
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.planners.nonuniform import NonUniformPlanner
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner
from augury.plan.search.objective import Outcome
from augury.plan.search.processors import passed_on
from augury.plan.search.schedule import Costs, Kind, apart_s, longest_path_s, spread

_MANY = 3000
"""From how many tasks on longest paths are looked for with one configuration only."""
_LESS_SURE = 1.2
"""How much longer a run of flexible tasks may take than it seems."""
_FLEXIBLE, _NON_UNIFORM, _SCHEDULE = 4.0, 20.0, 3.0
"""About how long these take to make and to simulate, in simulations of a plan that names workers."""


class Seed(NamedTuple):
    """A plan to be made.

    Attributes:
        promise: What it comes to at best.
        effort: How long it takes to make and to simulate, in simulations.
        make: Makes it.
        is_simple: Whether somebody could have it without a search; a search must not come to less.
    """

    promise: Outcome
    effort: float
    make: Callable[[], Plan]
    is_simple: bool = True


class _Load(NamedTuple):
    """How long the tasks of a workflow run with one configuration: all together, and along the longest path."""

    kind: Kind
    work_s: float
    path_s: float


class Seeds:
    """The seeds for one workflow.

    Args:
        outlook: What is expected.
        costs: The same, with the configurations that workers may have.
        name: What plans say that made them.
    """

    def __init__(self, outlook: Outlook, costs: Costs, name: str) -> None:
        self._outlook = outlook
        self._graph = outlook.graph
        self._costs = costs
        self._name = name
        self._need_mb = max(costs.need_mb, default=0)
        self._loads = self._measured()

    def _measured(self) -> list[_Load]:
        kinds = self._costs.kinds
        works_s = [math.fsum(kind.run_s) for kind in kinds]
        if len(self._graph) <= _MANY:
            paths_s = [longest_path_s(self._graph, kind.run_s) for kind in kinds]
        else:  # about the same part of all the work, whatever the configuration
            least = min(range(len(kinds)), key=works_s.__getitem__)
            path_s = longest_path_s(self._graph, kinds[least].run_s)
            paths_s = [path_s * work_s / works_s[least] if work_s else 0.0 for work_s in works_s]
        return [_Load(*load) for load in zip(kinds, works_s, paths_s, strict=True)]

    # What may be had at once

    def at_once(self, *, flexible: bool) -> list[Seed]:
        """What takes no time to make, with what it should come to: everything on one worker, or no worker named."""
        return [*self.alone(), *(self._likely_flexible() if flexible else ())]

    def alone(self) -> list[Seed]:
        """Everything on one worker."""
        return [
            Seed(self._at_best(load, 1), 1.0, partial(self.one_worker, load.kind.resources))
            for load in self._loads
            if load.kind.memory_mb >= self._need_mb
        ]

    def one_worker(self, resources: Resources) -> Plan:
        """Everything on one worker with these resources."""
        return Plan(
            fingerprint=self._graph.fingerprint,
            planner=self._name,
            assignments=(Assignment(worker=0, resources=resources),) * len(self._graph),
        )

    def _likely_flexible(self) -> list[Seed]:
        fastest = min(self._loads, key=lambda load: load.path_s)
        between_s = apart_s(self._costs, fastest.kind) - fastest.path_s
        graph, most_workers = self._graph, self._costs.most_workers
        workers = min(most_workers, max(len(graph.roots), *map(len, graph.dependents)))
        shared_s = self._shared_s()
        found = []
        for load in self._loads:
            best = self._at_best(load, most_workers)
            each_s = max(load.work_s / load.kind.slots / most_workers, shared_s)
            makespan_s = load.kind.joined_s + load.path_s + between_s + each_s  # as no greedy schedule is worse
            start_usd = load.kind.cold_s * load.kind.usd_per_s + load.kind.usd_per_request
            likely = Outcome(_LESS_SURE * makespan_s, best.cost_usd + (workers - 1) * start_usd, workers)
            found.append(Seed(likely, _FLEXIBLE, partial(self._of_wukong, load.kind.resources)))
        return found

    def _shared_s(self) -> float:
        """How long flexible workers need the processors that they share."""
        processors = self._costs.processors
        if math.isinf(processors.number):
            return 0.0
        nowhere = Assignment(worker=None, resources=self._loads[0].kind.resources)
        return processors.least_s(passed_on(self._graph, (nowhere,) * len(self._graph)))

    # What takes longer

    def others(self, *, flexible: bool) -> list[Seed]:
        """Further ones: one worker, schedules with less, and what other planners make."""
        found = self.alone()
        most = self._costs.most_workers
        at_best = self._at_best_with_any(most)
        for load in self._loads:
            is_roomy = load.kind.memory_mb >= self._need_mb  # else some workers have more, and may be faster
            promise = self._at_best(load, most) if is_roomy else at_best
            resources = load.kind.resources
            found.append(Seed(promise, 1.0, partial(self._of_uniform, resources)))
            if flexible:
                found.append(Seed(promise, _FLEXIBLE, partial(self._of_wukong, resources)))
            if len(self._loads) > 1:
                found.append(Seed(promise, _SCHEDULE, partial(self._spread, [load.kind], most), is_simple=False))
        if len(self._loads) > 1:
            found.append(Seed(at_best, _NON_UNIFORM, self._of_nonuniform))
        near = partial(self._spread, self._costs.kinds, most, looks_ahead=False)
        found.append(Seed(at_best, _SCHEDULE, near, is_simple=False))
        return found + self._with_fewer_workers()

    def _with_fewer_workers(self) -> list[Seed]:
        found = []
        count = 2
        while count < min(self._costs.most_workers, len(self._graph)):
            fewer = partial(self._spread, self._costs.kinds, count)
            found.append(Seed(self._at_best_with_any(count), _SCHEDULE, fewer, is_simple=False))
            count *= 2
        return found

    def _at_best_with_any(self, most_workers: int) -> Outcome:
        found = [self._at_best(load, most_workers) for load in self._loads]
        return Outcome(min(one.makespan_s for one in found), min(one.cost_usd for one in found), 1)

    def _at_best(self, load: _Load, most_workers: int) -> Outcome:
        """What a plan for at most so many workers of one kind cannot beat."""
        kind, work_s = load.kind, load.work_s / load.kind.slots
        makespan_s = kind.joined_s + max(load.path_s, work_s / most_workers, self._costs.processors.least_s())
        paid_s = work_s + (1.5 * kind.latency_s if kind.warm or not kind.start_billed else kind.joined_s)
        useful = math.ceil(work_s / load.path_s) if load.path_s else 1
        return Outcome(makespan_s, paid_s * kind.usd_per_s + kind.usd_per_request, max(1, min(most_workers, useful)))

    def _spread(self, kinds: Sequence[Kind], most_workers: int, *, looks_ahead: bool = True) -> Plan:
        roomy = [kind for kind in self._costs.kinds if kind.memory_mb >= self._need_mb]
        usable = [*kinds, *(kind for kind in roomy[:1] if kind not in kinds)]
        costs = self._costs.restricted(usable, most_workers)
        return spread(costs, looks_ahead=looks_ahead).plan(self._graph, self._name)

    def _of_uniform(self, resources: Resources) -> Plan:
        return UniformPlanner(resources).plan(self._graph, self._outlook)

    def _of_wukong(self, resources: Resources) -> Plan:
        return WukongPlanner(resources).plan(self._graph, self._outlook)

    def _of_nonuniform(self) -> Plan:
        return NonUniformPlanner([kind.resources for kind in self._costs.kinds]).plan(self._graph, self._outlook)
