"""How plans are compared: constraints first, then what is wanted, then the rest."""

import math

import pytest

from augury.errors import PlanError
from augury.plan.search.objective import Objective, Outcome, outcome_of
from tests.plan.random_runs import random_case

QUICK = Outcome(makespan_s=1.0, cost_usd=4.0, workers=8)
MIDDLE = Outcome(makespan_s=2.0, cost_usd=1.5, workers=4)
CHEAP = Outcome(makespan_s=8.0, cost_usd=1.0, workers=1)
ALL = (QUICK, MIDDLE, CHEAP)


def best(objective: Objective) -> Outcome:
    return min(ALL, key=objective.key)


@pytest.mark.parametrize(
    ("wanted", "expected"), [("makespan", QUICK), (1, QUICK), ("cost", CHEAP), (0.0, CHEAP), (0.5, MIDDLE)]
)
def test_what_is_wanted_decides(wanted: str | float, expected: Outcome) -> None:
    assert best(Objective(wanted)) == expected


def test_a_weight_does_not_depend_on_units() -> None:
    in_cents = [outcome._replace(cost_usd=100 * outcome.cost_usd) for outcome in ALL]
    for weight in (0.1, 0.3, 0.7, 0.9):
        objective = Objective(weight)
        order = sorted(range(3), key=lambda place: objective.key(ALL[place]))
        assert order == sorted(range(3), key=lambda place: objective.key(in_cents[place]))


def test_constraints_come_first() -> None:
    assert best(Objective("cost", deadline_s=3.0)) == MIDDLE
    assert best(Objective("makespan", budget_usd=2.0)) == MIDDLE
    assert best(Objective("makespan", max_workers=1)) == CHEAP
    assert best(Objective("cost", deadline_s=1.0)) == QUICK


def test_if_none_is_met_the_closest_wins() -> None:
    assert best(Objective("cost", deadline_s=0.5)) == QUICK
    assert best(Objective("makespan", budget_usd=0.1)) == CHEAP


def test_what_is_exactly_at_a_limit_keeps_to_it() -> None:
    objective = Objective(deadline_s=1.0, budget_usd=4.0, max_workers=8)
    assert objective.excess(QUICK) == 0
    assert objective.excess(QUICK._replace(makespan_s=math.nextafter(1.0, 2.0))) == 0
    assert objective.excess(QUICK._replace(makespan_s=1.5)) == pytest.approx(0.5)


def test_missed_constraints_are_told_with_numbers() -> None:
    told = Objective(deadline_s=0.5, budget_usd=1.0, max_workers=100).missed(QUICK)
    assert told == [
        "deadline_s=0.5, and the run is expected to take 1 s",
        "budget_usd=1, and the run is expected to cost $4",
    ]
    assert Objective(max_workers=2).missed(QUICK) == ["max_workers=2, and the run is expected to have 8"]
    assert Objective(deadline_s=1.0).missed(QUICK) == []


def test_of_equals_the_better_in_other_respects_is_better() -> None:
    objective = Objective("makespan")
    assert objective.is_better(QUICK._replace(cost_usd=3.9), QUICK)
    assert not objective.is_better(QUICK, QUICK)
    assert not objective.is_better(QUICK._replace(makespan_s=math.nextafter(1.0, 0.0)), QUICK)
    assert objective.is_better(QUICK._replace(makespan_s=0.99, cost_usd=9.0), QUICK)


def test_as_cheap_as_possible_within_a_time() -> None:
    objective = Objective("makespan", max_workers=6).cheapest_within(3.0)
    assert objective.settings == (0.0, 3.0, None, 6)
    assert best(objective) == MIDDLE
    assert Objective().cheapest_within(math.inf).deadline_s is None


def test_an_outcome_counts_workers_and_not_their_attempts() -> None:
    """On two slots workers give theirs up and come back."""
    case = random_case(3, flexible=0, slots=2)
    simulated = case.outlook.simulate(case.plan)
    named = {assignment.worker for assignment in case.plan.assignments}
    assert outcome_of(simulated) == (simulated.makespan_s, simulated.cost_usd, len(named))


@pytest.mark.parametrize(
    ("wanted", "settings", "named"),
    [
        ("speed", {}, "objective"),
        (-0.1, {}, "objective"),
        (math.nan, {}, "objective"),
        (True, {}, "objective"),
        ("cost", {"deadline_s": 0}, "deadline_s"),
        ("cost", {"deadline_s": math.inf}, "deadline_s"),
        ("cost", {"budget_usd": "much"}, "budget_usd"),
        ("cost", {"max_workers": True}, "max_workers"),
    ],
)
def test_bad_settings_are_refused_by_name(wanted: object, settings: dict[str, object], named: str) -> None:
    with pytest.raises(PlanError, match=rf"^AutoPlanner: {named} must be"):
        Objective(wanted, **settings)  # type: ignore[arg-type]
