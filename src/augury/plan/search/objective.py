"""What a planner is after: how plans are compared."""

import math
from typing import NamedTuple

from augury.config import but_not, is_positive, is_whole
from augury.errors import PlanError
from augury.plan.timeline import Simulation

_SAME = 1e-9
"""Sums of floats in another order differ by less than this part."""


class Outcome(NamedTuple):
    """What a plan comes to."""

    makespan_s: float
    cost_usd: float
    workers: int


def outcome_of(simulation: Simulation) -> Outcome:
    """What a simulated run comes to; a worker that gave its slot up and came back is one."""
    return Outcome(simulation.makespan_s, simulation.cost_usd, len({worker.name for worker in simulation.workers}))


class Objective:
    """Compares plans: first by how far they are from meeting the constraints, then by what is wanted.

    Args:
        wanted: `"makespan"`, `"cost"`, or a weight between 0 (cost alone) and 1 (makespan alone).
        deadline_s: How long the run may take.
        budget_usd: What it may cost.
        max_workers: How many workers it may have.

    Raises:
        PlanError: One of these makes no sense.
    """

    def __init__(
        self,
        wanted: str | float = "makespan",
        *,
        deadline_s: float | None = None,
        budget_usd: float | None = None,
        max_workers: int | None = None,
    ) -> None:
        self.weight = _weight_of(wanted)
        self.deadline_s = _positive("deadline_s", deadline_s)
        self.budget_usd = _positive("budget_usd", budget_usd)
        if max_workers is not None and not is_whole(max_workers, least=1):
            raise PlanError(f"AutoPlanner: max_workers must be a whole number of at least 1, {but_not(max_workers)}")
        self.max_workers = max_workers

    @property
    def settings(self) -> tuple[float | None, ...]:
        """All of it, to be compared."""
        return (self.weight, self.deadline_s, self.budget_usd, self.max_workers)

    def cheapest_within(self, limit_s: float) -> "Objective":
        """To cost as little as possible, and to end no later than at a moment; the other constraints stay."""
        deadline_s = None if math.isinf(limit_s) else limit_s
        return Objective("cost", deadline_s=deadline_s, budget_usd=self.budget_usd, max_workers=self.max_workers)

    def excess(self, outcome: Outcome) -> float:
        """By which share a plan is beyond its constraints; 0 if it meets them."""
        beyond = 0.0
        if self.deadline_s is not None:
            beyond += _beyond(outcome.makespan_s, self.deadline_s)
        if self.budget_usd is not None:
            beyond += _beyond(outcome.cost_usd, self.budget_usd)
        if self.max_workers is not None:
            beyond += _beyond(outcome.workers, self.max_workers)
        return beyond

    def missed(self, outcome: Outcome) -> list[str]:
        """The constraints that a plan does not meet, in words."""
        found = []
        if self.deadline_s is not None and _beyond(outcome.makespan_s, self.deadline_s):
            found.append(f"deadline_s={self.deadline_s:g}, and the run is expected to take {outcome.makespan_s:.4g} s")
        if self.budget_usd is not None and _beyond(outcome.cost_usd, self.budget_usd):
            found.append(f"budget_usd={self.budget_usd:g}, and the run is expected to cost ${outcome.cost_usd:.4g}")
        if self.max_workers is not None and _beyond(outcome.workers, self.max_workers):
            found.append(f"max_workers={self.max_workers}, and the run is expected to have {outcome.workers}")
        return found

    def wanted_of(self, outcome: Outcome) -> float:
        """What is to be small."""
        if self.weight >= 1:
            return outcome.makespan_s
        if self.weight <= 0:
            return outcome.cost_usd
        # A product rather than a sum: it does not depend on units.
        return math.pow(outcome.makespan_s, self.weight) * math.pow(outcome.cost_usd, 1 - self.weight)

    def key(self, outcome: Outcome) -> tuple[float, float, float]:
        """Lower is better: constraints first, then what is wanted, then the other one of makespan and cost."""
        other = outcome.cost_usd if self.weight >= 1 else outcome.makespan_s
        return self.excess(outcome), self.wanted_of(outcome), other

    def is_better(self, outcome: Outcome, than: Outcome) -> bool:
        """Whether a plan is better by more than sums of floats in another order could make it."""
        for one, other in zip(self.key(outcome), self.key(than), strict=True):
            if one < other * (1 - _SAME):
                return True
            if one > other * (1 + _SAME):
                return False
        return False


def _beyond(value: float, limit: float) -> float:
    return max(0.0, value / limit - 1 - _SAME)


def _weight_of(wanted: object) -> float:
    if wanted == "makespan":
        return 1.0
    if wanted == "cost":
        return 0.0
    if isinstance(wanted, int | float) and not isinstance(wanted, bool) and 0 <= wanted <= 1:
        return float(wanted)
    raise PlanError(
        'AutoPlanner: objective must be "makespan", "cost" or a weight between 0 (cost) and 1 (makespan), '
        f"not {wanted!r}"
    )


def _positive(name: str, value: float | None) -> float | None:
    if value is None or is_positive(value):
        return value
    raise PlanError(f"AutoPlanner: {name} must be a positive number, {but_not(value)}")
