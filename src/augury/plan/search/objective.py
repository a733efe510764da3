"""What a planner is after: how plans are compared."""

from typing import NamedTuple

from augury.config import is_whole
from augury.errors import PlanError


class Outcome(NamedTuple):
    """What a plan comes to."""

    makespan_s: float
    cost_usd: float
    workers: int


class Objective:
    """Compares plans: first by how far they are from meeting the constraints, then by what is wanted.

    Args:
        wanted: `"makespan"`, `"cost"`, or a weight between 0 (cost alone) and 1 (makespan alone).
        deadline_s: How long the run may take.
        budget_usd: What it may cost.
        max_workers: How many workers it may have.
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
            raise PlanError(f"AutoPlanner: max_workers must be a whole number of at least 1, not {max_workers!r}")
        self.max_workers = max_workers

    def excess(self, outcome: Outcome) -> float:
        """By which share a plan is beyond its constraints; 0 if it meets them."""
        beyond = 0.0
        if self.deadline_s is not None:
            beyond += max(0.0, outcome.makespan_s / self.deadline_s - 1)
        if self.budget_usd is not None:
            beyond += max(0.0, outcome.cost_usd / self.budget_usd - 1)
        if self.max_workers is not None:
            beyond += max(0.0, outcome.workers / self.max_workers - 1)
        return beyond

    def key(self, outcome: Outcome) -> tuple[float, float, float]:
        """Lower is better: constraints first, then what is wanted, then the other one of makespan and cost."""
        if self.weight >= 1:
            wanted, other = outcome.makespan_s, outcome.cost_usd
        elif self.weight <= 0:
            wanted, other = outcome.cost_usd, outcome.makespan_s
        else:  # a product rather than a sum: it does not depend on units
            wanted = outcome.makespan_s**self.weight * outcome.cost_usd ** (1 - self.weight)
            other = outcome.makespan_s
        return self.excess(outcome), wanted, other

    def is_better(self, outcome: Outcome, than: Outcome) -> bool:
        """Whether a plan is better by more than sums of floats in another order could make it."""
        mine, others = self.key(outcome), self.key(than)
        for one, other in zip(mine, others, strict=True):
            if one < other * (1 - _SAME):
                return True
            if one > other * (1 + _SAME):
                return False
        return False


_SAME = 1e-9


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


def _positive(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise PlanError(f"AutoPlanner: {name} must be a positive number, not {value!r}")
