"""A plan is used again while what it rests on has not moved."""

from collections.abc import Sequence

import pytest

from augury.dag.graph import FunctionInfo, Graph
from augury.metrics.records import series_of
from augury.plan.plan import Assignment, Plan
from augury.plan.reuse import Basis, KnownPlans, basis_of
from augury.predict.levels import levels_of
from tests.predict.history import run

#   load  load  load        three of one function
#     └─────┼────┘
#         merge
GRAPH = Graph((FunctionInfo("load", "v1"), FunctionInfo("merge", "v2")), (0, 0, 0, 1), ((), (), (), (0, 1, 2)), (3,))


def basis(sizes: Sequence[float] = (10_000, 10_000, 10_000, 0), seconds: float = 1.0, runs: int = 40) -> Basis:
    return basis_of(GRAPH, sizes, levels_of(series_of([run(seconds)] * runs)))


def plan(tasks: int = 4) -> Plan:
    return Plan(fingerprint="f", planner="test", assignments=(Assignment(),) * tasks)


def test_a_basis_sums_arguments_up_by_function() -> None:
    found = basis((1, 5, 3, 7))
    assert found.argument_bytes == ((9.0, 5.0), (7.0, 7.0))
    assert found.tasks == (3, 1)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (basis(), False),
        (basis((10_900, 10_900, 10_900, 0)), False),
        (basis((13_000, 10_000, 10_000, 0)), True),  # the largest is larger by more than a tenth
        (basis((12_000, 12_000, 12_000, 0)), True),
        (basis((10_000, 10_000, 10_000, 900)), False),  # too little to matter
        (basis((10_000, 10_000, 10_000, 2000)), True),
        (basis(seconds=1.05), False),
        (basis(seconds=1.5), True),
        (basis(runs=60), False),
        (basis(runs=80), True),
    ],
)
def test_a_basis_moves_with_arguments_and_with_history(now: Basis, expected: bool) -> None:
    assert basis().moved_to(now) is expected


def test_a_plan_is_found_by_its_key_while_nothing_moved() -> None:
    plans, made = KnownPlans(), plan()
    plans.keep("a", basis(), made)
    assert plans.find("a", basis(seconds=1.05)) is made
    assert plans.find("b", basis()) is None
    assert plans.find("a", basis(seconds=1.5)) is None
    assert plans.find("a", basis()) is None, "a plan that was outlived is forgotten"


def test_what_creeps_away_is_noticed() -> None:
    plans, made = KnownPlans(), plan()
    plans.keep("a", basis(), made)
    found = [plans.find("a", basis(seconds=1.0 + 0.04 * step)) for step in range(4)]
    assert found == [made, made, made, None]


def test_plans_that_were_not_used_for_longest_give_way() -> None:
    plans = KnownPlans(most_plans=2)
    plans.keep("a", basis(), plan())
    plans.keep("b", basis(), plan())
    assert plans.find("a", basis()) is not None
    plans.keep("c", basis(), plan())
    assert [key for key in "abc" if plans.find(key, basis()) is not None] == ["a", "c"]


def test_large_plans_take_more_room() -> None:
    plans = KnownPlans(most_tasks=10)
    for key, tasks in (("a", 4), ("b", 4), ("c", 6)):
        plans.keep(key, basis(), plan(tasks))
    assert [key for key in "abc" if plans.find(key, basis()) is not None] == ["b", "c"]
    plans.keep("d", basis(), plan(1000))
    assert [key for key in "abcd" if plans.find(key, basis()) is not None] == ["d"], "the last one stays"
