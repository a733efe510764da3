"""One search for a plan: from what is known at once to what takes longer, for as long as there is time.

    estimate          everything on one worker; flexible; one quick schedule         nothing is simulated yet
       │   large: the same search on a coarser graph
       ▼
    try seeds         those that promise most first; simulate each                   a third of the time
       ▼
    lighten           depth first, and by parts that lie together                    if outputs are large
       ▼
    quicken           shorten the critical path of the best one                      if time is wanted
       ▼
    economize         schedules that use up the time that there is to save money,
                      and small changes that do
       ▼
    hint              optimizations, for the best few

Whatever it ends with is at least as good, as far as the simulator can tell, as every plan that it tried; but for the
last thousandth, if that saves money, and the last hundredths, if that saves many bytes.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import msgspec

from augury.config import Resources
from augury.plan.outlook import Optimization, Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.search.budget import Budget, Part
from augury.plan.search.clusters import expanded, outlook_on
from augury.plan.search.coarsen import coarsen
from augury.plan.search.dealing import Dealing
from augury.plan.search.improve import Search
from augury.plan.search.objective import Objective, Outcome, outcome_of
from augury.plan.search.schedule import (
    Costs,
    Schedule,
    costs_of,
    least_run_s,
    longest_path_s,
    spread,
    thrift,
    upward_ranks,
)
from augury.plan.search.seeds import Seeds
from augury.plan.search.volume import WORTHWHILE_BYTES, bytes_of, depth_first, parts

_MANY = 3000
"""From how many tasks on the search runs on a coarser graph; and into how many clusters it is made."""
_CLUSTERS = 1500
_LITTLE = 1.001
"""How much slower a run may be if that makes it cheaper, and time is what is wanted."""
_UNTIL_SEEDS, _UNTIL_QUICKEN, _UNTIL_THRIFT, _UNTIL_CHEAPEN, _UNTIL_END = 0.25, 0.45, 0.65, 0.75, 0.95
_UNTIL_CLUSTERS = 0.5
"""Until which share of the time each part goes on."""
_ATTEMPTS = 6
"""How many schedules are made for one end, since they end later than they should."""
_EARLIER = 0.005
"""By how much earlier, at least."""
_SWEEP = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""How many times the least makespan schedules are made for, if both time and money count."""
_STARTS = 4
"""From how many plans small changes start; and how many are tried with hints."""
_HINTED = 1.15
"""How much of the makespan hints may bring."""
_HINTING = 2.5
"""About how long an optimization takes, in simulations; those with hints take longer."""
_LIGHTER = 1.02
"""How much slower a run may be, and dearer, if that makes it move and hold many fewer bytes. What is predicted is
seldom as exact, and what is not moved cannot take longer than expected."""
_MANY_FEWER = 0.9
"""So many of them are many fewer."""
_LIGHTENING = 1.5
"""About how long it takes to find out how many bytes a plan moves and holds, in simulations; one is a part of it."""
_NEAR = 1.0005
"""A makespan of so many times what it is at least is not worth the time that shortening it takes."""


class Candidate(NamedTuple):
    """A plan, and what it comes to: as simulated, if something is predicted for the plan, or else as estimated."""

    outcome: Outcome
    plan: Plan


class Exploration:
    """One search.

    Args:
        outlook: What is expected.
        objective: What is wanted.
        configurations: What workers may have; one of them has the memory that any task needs.
        budget: How long it may take.
        name: What plans say that made them.
        optimizations: What is tried on the best plans.

    Attributes:
        tried: The plans that were simulated.
    """

    def __init__(
        self,
        outlook: Outlook,
        objective: Objective,
        configurations: Sequence[Resources],
        budget: Budget,
        *,
        name: str,
        optimizations: Sequence[Optimization] = (),
    ) -> None:
        self._outlook = outlook
        self._objective = objective
        self._configurations = configurations
        self._budget = budget
        self._name = name
        self._optimizations = optimizations
        self._graph = outlook.graph
        self._size = len(self._graph) + sum(map(len, self._graph.deps))
        concurrency, wanted = outlook.platform.concurrency, objective.max_workers
        most_workers = concurrency if wanted is None else min(concurrency, wanted)
        self._costs: Costs = costs_of(outlook, configurations, most_workers)
        self._seeds = Seeds(outlook, self._costs, name)
        self._dealing = Dealing(outlook)
        self._sketches: list[Candidate] = []
        self._reference: Sequence[int] = ()
        self._simple: list[Outcome] = []
        self._volumes: dict[int, float] = {}
        self.tried: list[Candidate] = []

    # The way to a plan

    def run(self) -> None:
        """Search."""
        self._sketch()
        if len(self._graph) > _MANY:
            self._sketch_by_clusters()
        self._try_seeds()
        if self.tried:
            self._lighten()
            self._quicken()
            self._economize()
            self._hint()

    def best(self) -> Candidate:
        """The best plan; of those that are as good as each other, or almost, the one that is better otherwise."""
        objective, found = self._objective, self.tried or self._sketches
        first = min(found, key=lambda one: objective.key(one.outcome))
        excess = objective.excess(first.outcome) * (1 + 1e-9)
        close = self._close(found, excess, self._limit(first.outcome))
        best = min(close, key=lambda one: (*objective.key(one.outcome)[::2], objective.wanted_of(one.outcome)))
        if not self.tried:
            return best._replace(plan=self._dealing.dealt(best.plan))
        if not self._is_heavy:
            return best
        other = _LIGHTER * objective.key(best.outcome)[2]
        close = self._close(found, excess, self._limit(first.outcome, _LIGHTER))
        lightest = min([one for one in close if objective.key(one.outcome)[2] <= other], key=self._bytes_of)
        return lightest if self._bytes_of(lightest) <= _MANY_FEWER * self._bytes_of(best) else best

    def _close(self, found: Sequence[Candidate], excess: float, limit: float) -> list[Candidate]:
        """Those that are no farther beyond the constraints, nor beyond a limit in what is wanted."""
        objective = self._objective
        return [
            one
            for one in found
            if objective.excess(one.outcome) <= excess and objective.wanted_of(one.outcome) <= limit
        ]

    def _limit(self, best: Outcome, little: float = _LITTLE) -> float:
        """Up to where what is wanted counts as equal: a little beyond the best, not beyond what is simple to have."""
        objective = self._objective
        wanted = objective.wanted_of(best)
        if objective.weight < 1:
            return wanted * (1 + 1e-9)
        excess = objective.excess(best) * (1 + 1e-9)
        seeds = [objective.wanted_of(one) for one in self._simple if objective.excess(one) <= excess]
        return max(wanted, min([little * wanted, *seeds])) * (1 + 1e-9)

    # Estimates

    def _sketch(self) -> None:
        """What may be had at once, and quick schedules, with what they should come to."""
        at_once = self._seeds.at_once(flexible=self._may_be_flexible)
        first = min(at_once, key=lambda seed: self._objective.key(seed.promise))
        self._sketches.append(Candidate(first.promise, first.make()))
        self._expect(min(seed.promise.makespan_s for seed in at_once))
        if self._is_left_for_schedule():
            costs = self._costs
            enough = min(costs.most_workers, costs.processors.enough_workers)
            schedule = self._schedule(partial(spread, costs._replace(most_workers=int(enough)), self._rank_s))
            self._reference = schedule.worker_of
            self._expect(min(one.outcome.makespan_s for one in self._sketches))
        if self._is_left_for_schedule():
            limit_s = self._limit_s(self._sketches)
            end_s = 1.5 * schedule.end_s if limit_s is None else limit_s
            self._schedule(partial(thrift, self._costs, end_s, schedule.worker_of, self._rank_s))

    def _is_left_for_schedule(self) -> bool:
        return self._budget.part(_UNTIL_END).is_left(self._budget.cost_s("schedule", self._size))

    def _schedule(self, make: Callable[[], Schedule]) -> Schedule:
        schedule = self._budget.timed("schedule", self._size, make)
        plan = schedule.plan(self._graph, self._name)
        outcome = Outcome(schedule.end_s, schedule.cost_usd, len(schedule.kinds))
        self._sketches.append(Candidate(self._shared(outcome, plan), plan))
        return schedule

    @cached_property
    def _rank_s(self) -> list[float]:
        return upward_ranks(self._costs)

    @property
    def _may_be_flexible(self) -> bool:
        return self._objective.max_workers is None  # nothing would hold flexible workers to a number

    def _sketch_by_clusters(self) -> None:
        """Search on a coarser graph, and lay the result out on this one."""
        budget = self._budget
        if not budget.part(_UNTIL_CLUSTERS).is_left(budget.cost_s("coarsen", self._size)):
            return
        run_s = self._outlook.execution_s(self._configurations[-1])
        coarse = budget.timed("coarsen", self._size, partial(coarsen, self._graph, run_s, _CLUSTERS))
        if len(coarse.graph) > len(self._graph) // 2:  # it does not get much smaller
            return
        outlook = outlook_on(coarse, self._outlook)
        nested = budget.nested(_UNTIL_CLUSTERS)
        inner = Exploration(outlook, self._objective, self._configurations, nested, name=self._name)
        inner.run()
        found = inner.best()
        plan = expanded(found.plan, coarse, self._graph)
        self._sketches.append(Candidate(self._shared(found.outcome, plan), plan))

    # Seeds

    def _try_seeds(self) -> None:
        """Simulate what was estimated, then further seeds; those that promise most come first."""
        key, budget = self._objective.key, self._budget
        for sketch in sorted(self._sketches, key=lambda one: key(one.outcome)):
            if not budget.part(_UNTIL_THRIFT if self.tried else _UNTIL_END).is_left(self._simulate_s):
                return
            self._try(sketch.plan)
        part = budget.part(_UNTIL_SEEDS)
        seeds = self._seeds.others(flexible=self._may_be_flexible)
        for seed in sorted(seeds, key=lambda seed: (key(seed.promise), seed.effort)):
            if not self._is_hopeless(seed.promise) and part.is_left(seed.effort * self._simulate_s):
                found = self._try(seed.make())
                if seed.is_simple:
                    self._simple.append(found.outcome)

    def _is_hopeless(self, promise: Outcome) -> bool:
        """Whether what something comes to at best is worse than what there is."""
        best = min([one.outcome for one in self.tried], key=self._objective.key)
        return not self._objective.excess(best) and not self._objective.is_better(promise, best)

    @property
    def _simulate_s(self) -> float:
        return self._budget.cost_s("simulate", self._size)

    def _try(self, plan: Plan) -> Candidate:
        """Simulate a plan, and remember what it comes to."""
        plan = self._dealing.dealt(plan)
        predicted = plan.predicted
        if predicted is None:
            predicted = self._budget.timed("simulate", self._size, partial(self._outlook.simulate, plan))
        outcome = self._shared(outcome_of(predicted), plan)
        candidate = Candidate(outcome, msgspec.structs.replace(plan, predicted=predicted))
        self.tried.append(candidate)
        self._expect(min(one.outcome.makespan_s for one in self.tried))
        return candidate

    def _shared(self, outcome: Outcome, plan: Plan) -> Outcome:
        """What a plan comes to if workers share processors."""
        costs = self._costs
        return costs.processors.shared(outcome, self._graph, plan.assignments, costs.joined_s)

    def _expect(self, makespan_s: float) -> None:
        """The best plan so far takes so long: how much time is it worth to look for a better one?"""
        wants_time = self._objective.weight >= 1 and self._objective.deadline_s is None
        self._budget.expect(makespan_s, max(0.0, makespan_s - self._bound_s) if wants_time else math.inf)

    # Bytes

    @cached_property
    def _is_heavy(self) -> bool:
        """Whether it matters how many bytes are moved, and held at a time."""
        return math.fsum(self._outlook.output_bytes) >= WORTHWHILE_BYTES

    def _bytes_of(self, candidate: Candidate) -> float:
        simulated = candidate.plan.predicted
        if simulated is None:
            return math.inf
        if id(simulated) not in self._volumes:  # it is in `tried`, and so nothing else has its id
            self._volumes[id(simulated)] = bytes_of(self._graph, self._outlook.output_bytes, simulated)
        return self._volumes[id(simulated)]

    def _lighten(self) -> None:
        """Go through the graph depth first: with every task where it is in the best plan, and by parts."""
        best = self.best()
        if not self._is_heavy or not _names_workers(best.plan):
            return
        with self._budget.beyond(best.outcome.makespan_s) as time:
            if not time.is_left(_LIGHTENING * self._simulate_s):
                return
            ranks = depth_first(self._graph)
            self._try(msgspec.structs.replace(best.plan, ranks=ranks, predicted=None))
            used = Counter(assignment.resources for assignment in best.plan.assignments)
            resources = used.most_common(1)[0][0]
            is_roomy = resources.memory_mb >= max(self._costs.need_mb)
            if best.outcome.workers < 2 or not is_roomy or not time.is_left(_LIGHTENING * self._simulate_s):
                return
            cut = parts(self._graph, ranks, self._outlook.execution_s(resources), best.outcome.workers)
            if len(set(cut.part_of)) > 1:
                workers = [Assignment(worker=number, resources=resources) for number in range(best.outcome.workers)]
                there = tuple([workers[part] for part in cut.part_of])
                self._try(msgspec.structs.replace(best.plan, assignments=there, ranks=cut.ranks, predicted=None))

    # Small changes

    def _quicken(self) -> None:
        """Shorten the critical paths of the best plans."""
        part = self._budget.part(_UNTIL_QUICKEN)
        for start in self._named(self._objective)[:_STARTS]:
            is_late = self._objective.excess(start.outcome) > 0
            is_short = self._objective.weight <= 0 or start.outcome.makespan_s <= _NEAR * self._bound_s
            if (is_short and not is_late) or not part.is_left(2 * self._simulate_s):
                return
            search = self._search(start.plan, self._objective, part)
            search.quicken()
            self._try_changed(search)

    @cached_property
    def _bound_s(self) -> float:
        """How long the run takes at least, whatever the plan: every task where it is fastest.

        It is as long as its longest path, and keeps all processors that workers share busy for some time.
        """
        costs = self._costs
        path_s = longest_path_s(self._graph, least_run_s(costs))
        return costs.joined_s + max(path_s, costs.processors.least_s())

    def _named(self, objective: Objective) -> list[Candidate]:
        """The plans that small changes can be made to, the best first; of those that come to the same there is one.

        They name a worker for each task, and no more workers than there are slots.
        """
        slots = self._outlook.platform.concurrency
        named = {one.outcome: one for one in self.tried if one.outcome.workers <= slots and _names_workers(one.plan)}
        return sorted(named.values(), key=lambda one: objective.key(one.outcome))

    def _search(self, plan: Plan, objective: Objective, part: Part) -> Search:
        costs = self._costs
        return Search(
            self._outlook.trials(plan),
            objective,
            self._configurations,
            costs.need_mb,
            costs.most_workers,
            lambda: part.is_left(2 * self._simulate_s),  # for a change that reaches everything, and for the whole
        )

    def _try_changed(self, search: Search) -> None:
        if search.changes:
            self._try(search.trials.plan_now())

    # Saving

    def _economize(self) -> None:
        """Schedules that use up the time that there is, and small changes that save money."""
        part = self._budget.part(_UNTIL_THRIFT)
        limit_s = self._limit_s(self.tried)
        for end_s in self._ends_s(limit_s):
            self._thrift(end_s, limit_s, part)
        wanted = self._objective if limit_s is None else self._objective.cheapest_within(limit_s)
        part = self._budget.part(_UNTIL_CHEAPEN)
        for start in self._named(wanted)[:1]:
            if not part.is_left(2 * self._simulate_s):
                return
            search = self._search(start.plan, wanted, part)
            if wanted.excess(start.outcome):
                search.quicken()
            search.cheapen()
            self._try_changed(search)

    def _limit_s(self, found: Sequence[Candidate]) -> float | None:
        """Until when a run must end that is to be as cheap as possible; None if both count."""
        objective = self._objective
        if objective.weight >= 1 and objective.budget_usd is None:
            return self._limit(min([one.outcome for one in found], key=objective.key))
        if objective.weight <= 0:
            return math.inf if objective.deadline_s is None else objective.deadline_s
        return None

    def _ends_s(self, limit_s: float | None) -> list[float]:
        """For which ends schedules are made."""
        if limit_s is not None and limit_s < math.inf:
            return [limit_s]
        least_s = min(one.outcome.makespan_s for one in self.tried)
        return [math.inf, *(factor * least_s for factor in _SWEEP)]

    def _thrift(self, end_s: float, limit_s: float | None, part: Part) -> None:
        """Schedules that are as cheap as can be and end in time: for an earlier end if they do not, then by halves."""
        aim_s, late_s = end_s, end_s
        early_s: float | None = None
        for _ in range(_ATTEMPTS):
            if not part.is_left(self._budget.cost_s("schedule", self._size) + self._simulate_s):
                return
            make = partial(thrift, self._costs, aim_s, self._placed(), self._rank_s)
            schedule = self._budget.timed("schedule", self._size, make)
            found = self._try(schedule.plan(self._graph, self._name)).outcome
            if limit_s is None or math.isinf(limit_s):
                return
            over_s = found.makespan_s - limit_s
            if over_s <= 0:
                early_s = aim_s
            else:
                late_s = aim_s
            if early_s is None:
                aim_s -= max(1.5 * over_s, _EARLIER * limit_s)
            elif late_s - early_s <= _EARLIER * limit_s:
                return
            else:
                aim_s = (early_s + late_s) / 2

    # Hints

    def _hint(self) -> None:
        """Try optimizations on the best plans; what they bring counts like any other plan."""
        part = self._budget.part(_UNTIL_END)
        starts = self._named(self._objective)
        close = self._limit_s(self.tried)
        if close is not None:  # what is a little late may be in time with hints, and cheaper
            nearly = [one for one in starts if one.outcome.makespan_s <= _HINTED * close]
            starts = [*starts[:1], *sorted(nearly, key=lambda one: one.outcome.cost_usd)]
        for start in list({id(one): one for one in starts}.values())[:_STARTS]:
            plan = start.plan
            for optimization in self._optimizations:
                if not part.is_left(_HINTING * self._simulate_s):
                    return
                hinted = optimization.assign(plan, self._outlook, ())
                if hinted.hints is not plan.hints or hinted.launch is not plan.launch:
                    plan = self._try(hinted).plan

    def _placed(self) -> Sequence[int]:
        """For each task its worker in a quick schedule."""
        if not self._reference:
            self._reference = spread(self._costs, self._rank_s).worker_of
        return self._reference


def _names_workers(plan: Plan) -> bool:
    return not plan.hints and all(assignment.worker is not None for assignment in plan.assignments)
