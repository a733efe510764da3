"""The planners, case by case; each DAG is drawn, with the workers that its tasks get."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.config import Resources
from augury.dag.graph import Graph, build_workflow
from augury.errors import PlanError
from augury.plan.planners.uniform import UniformPlanner, cluster
from augury.plan.planners.wukong import WukongPlanner
from tests.plan.graphs import graph_of
from tests.strategies import workflows

SMALL = Resources(cpus=1, memory_mb=128)


def workers(graph: Graph, max_clustering: int = 2) -> list[int | None]:
    plan = UniformPlanner(SMALL, max_clustering).plan(graph)
    plan.validate(graph)
    return [assignment.worker for assignment in plan.assignments]


# ── WUKONG ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_wukong_leaves_every_task_flexible() -> None:
    plan = WukongPlanner(SMALL).plan(graph_of((), (0,), (0,), (1, 2)))
    assert [assignment.worker for assignment in plan.assignments] == [None] * 4
    assert {assignment.resources for assignment in plan.assignments} == {SMALL}
    assert plan.planner == "wukong"


def test_wukong_gives_more_memory_only_to_those_that_need_it() -> None:
    plan = WukongPlanner(SMALL).plan(graph_of((), (0,), (0,), memory_mb={1: 512}))
    assert [assignment.resources.memory_mb for assignment in plan.assignments] == [128, 512, 128]


# ── algorithm 1: roots ─────────────────────────────────────────────────────────────────────────────────────────


def test_roots_are_grouped_on_new_workers() -> None:
    #   0   1   2   3   4        tasks
    #   └─0─┘   └─1─┘   2        workers
    assert workers(graph_of((), (), (), (), ())) == [0, 0, 1, 1, 2]


def test_later_roots_belong_to_the_same_grouping() -> None:
    #   0 ──▶ 1     2     3          tasks; 2 and 3 are roots that were written after 1
    #   0     0     0     1          workers
    assert workers(graph_of((), (0,), (), ())) == [0, 0, 0, 1]


# ── 1 → 1 ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_chain_stays_on_one_worker() -> None:
    #   0 ──▶ 1 ──▶ 2 ──▶ 3 ──▶ 4
    assert workers(graph_of((), (0,), (1,), (2,), (3,))) == [0] * 5


# ── 1 → N ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fan_out_keeps_the_first_on_its_worker_and_groups_the_others() -> None:
    #          0                      worker 0
    #    ┌──┬──┼──┬──┐
    #    1  2  3  4  5                workers 0 0 1 1 2
    assert workers(graph_of((), (0,), (0,), (0,), (0,), (0,))) == [0, 0, 0, 1, 1, 2]


def test_a_small_fan_out_stays_on_one_worker() -> None:
    #     0
    #    ┌┴┐
    #    1 2
    assert workers(graph_of((), (0,), (0,))) == [0, 0, 0]


def test_a_task_of_a_fan_out_that_also_takes_another_input_belongs_to_the_group() -> None:
    #     0     1          workers 0 0
    #    ┌┼──┐  │
    #    2 3 4◀─┘          4 takes 0 and 1; workers 0 0 1: it is in the group of 0's dependents
    assert workers(graph_of((), (), (0,), (0,), (0, 1))) == [0, 0, 0, 0, 1]


def test_a_fan_in_that_was_visited_first_is_not_assigned_again() -> None:
    #   0     1             workers 0 1
    #   └──┬──┤
    #      2  3             2 takes 0 and 1 and is visited first; 3 is then alone in the group of 1
    assert workers(graph_of((), (), (0, 1), (1,)), max_clustering=1) == [0, 1, 0, 1]


# ── N → 1 ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fan_in_goes_to_the_worker_that_holds_most_of_its_input() -> None:
    #   0  1  2             workers 0 0 1, in groups of two
    #   └──┼──┘
    #      3                worker 0 holds two of three
    assert workers(graph_of((), (), (), (0, 1, 2))) == [0, 0, 1, 0]
    #   0  1  2  3          workers 0 0 1 1
    #      └──┼──┘
    #         4             worker 1 holds two of three
    assert workers(graph_of((), (), (), (), (1, 2, 3))) == [0, 0, 1, 1, 1]


def test_of_equals_a_fan_in_goes_to_the_first() -> None:
    #   0  1                workers 0 1
    #   └┬─┘
    #    2
    assert workers(graph_of((), (), (0, 1)), max_clustering=1) == [0, 1, 0]


def test_a_diamond_stays_together() -> None:
    #     0
    #    ┌┴┐
    #    1 2
    #    └┬┘
    #     3
    assert workers(graph_of((), (0,), (0,), (1, 2))) == [0] * 4


def test_a_tree_reduction_moves_little() -> None:
    #   0 1 2 3 4 5 6 7     workers 0 0 1 1 2 2 3 3
    #   └8┘ └9┘ └10 └11     workers 0   1   2   3
    #    └12─┘   └13─┘      workers   0       2
    #       └──14──┘        worker        0
    deps = [(), (), (), (), (), (), (), (), (0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13)]
    assert workers(graph_of(*deps)) == [0, 0, 1, 1, 2, 2, 3, 3, 0, 1, 2, 3, 0, 2, 0]


# ── with predictions ───────────────────────────────────────────────────────────────────────────────────────────

FAN_OUT_OF_SIX = graph_of((), *[(0,)] * 6)
#          0
#   ┌──┬──┬┴─┬──┬──┐
#   1  2  3  4  5  6


@pytest.mark.parametrize(
    ("most", "runtimes_s", "outputs_bytes", "expected"),
    [
        # Above the median of 2 are 4, 5 and 6. Two short ones stay, the last goes with the first long one, and
        # the other long ones are grouped by half of two: one each.
        (2, [0, 1, 2, 2, 9, 9, 9], None, [0, 0, 0, 1, 1, 2, 3]),
        # As before, but room for four: all short ones stay, the long ones are grouped by two.
        (4, [0, 1, 2, 2, 9, 9, 9], None, [0, 0, 0, 0, 1, 1, 2]),
        # The short ones with the largest outputs stay: 3 and 2, not 1.
        (2, [0, 1, 2, 2, 9, 9, 9], [0, 10, 20, 30, 0, 0, 0], [0, 1, 0, 0, 1, 2, 3]),
        # One is long; each group has one long task or none.
        (2, [0, 1, 1, 1, 1, 1, 5], None, [0, 0, 0, 1, 2, 2, 1]),
        # One a worker: a long task has no company.
        (1, [0, 1, 1, 1, 1, 1, 5], None, [0, 0, 2, 3, 4, 5, 1]),
        # All alike: all are short.
        (3, [7] * 7, [3] * 7, [0, 0, 0, 0, 1, 1, 1]),
    ],
)
def test_long_tasks_of_a_fan_out_are_spread(
    most: int, runtimes_s: Sequence[float], outputs_bytes: Sequence[float] | None, expected: list[int]
) -> None:
    assert cluster(FAN_OUT_OF_SIX, most, runtimes_s, outputs_bytes) == expected


def test_roots_have_no_worker_to_stay_on() -> None:
    #   0  1  2  3          2 is long
    roots = graph_of((), (), (), ())
    assert cluster(roots, 2, [1, 1, 9, 1]) == [0, 1, 0, 1]


def test_a_fan_in_goes_where_the_most_bytes_are() -> None:
    #   0  1  2  3          workers 0 0 1 1
    #   └─────┼──┘
    #         4             40 bytes are on worker 0; on worker 1 are two outputs, but only 30 bytes
    fan_in = graph_of((), (), (), (), (0, 2, 3))
    assert cluster(fan_in, 2, None, [40, 30, 20, 10, 0]) == [0, 0, 1, 1, 0]
    assert cluster(fan_in, 2) == [0, 0, 1, 1, 1]


# ── configuration ──────────────────────────────────────────────────────────────────────────────────────────────


def test_all_workers_have_the_same_resources() -> None:
    plan = UniformPlanner(SMALL).plan(graph_of((), (), (), (), (), memory_mb={3: 700}))
    assert {assignment.resources for assignment in plan.assignments} == {Resources(cpus=1, memory_mb=700)}
    assert plan.planner == "uniform"


@pytest.mark.parametrize("most", [0, -1, 1.5, True, "4", None])
def test_the_size_of_clusters_must_be_a_positive_whole_number(most: Any) -> None:
    with pytest.raises(PlanError, match="max_clustering must be a whole number of at least 1"):
        UniformPlanner(max_clustering=most)


@settings(max_examples=50, deadline=None)
@given(workflows(max_tasks=10), st.sampled_from([WukongPlanner(), UniformPlanner(), UniformPlanner(max_clustering=1)]))
def test_planners_make_plans_that_fit_any_workflow(outputs: Any, planner: WukongPlanner | UniformPlanner) -> None:
    graph = build_workflow(outputs).graph
    plan = planner.plan(graph)
    plan.validate(graph)
    assert plan == planner.plan(graph)
    used = {assignment.worker for assignment in plan.assignments} - {None}
    assert used == set(range(len(used)))


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), min_size=7, max_size=7), st.integers(1, 5))
def test_no_new_worker_gets_more_than_a_group(runtimes_s: list[float], most: int) -> None:
    assigned = cluster(FAN_OUT_OF_SIX, most, runtimes_s)
    sizes = [assigned.count(worker) for worker in set(assigned)]
    assert assigned.count(0) <= most + 1, "the input's own worker has that too"
    assert max(sizes) <= most + 1


MANY = 100_000


@pytest.mark.parametrize(
    "deps",
    [
        [()] * MANY,
        [(), *[(task,) for task in range(MANY - 1)]],
        [(), *[(0,)] * (MANY - 1)],
        [*[()] * (MANY - 1), tuple(range(MANY - 1))],
        [*[()] * (MANY // 2), *[(task,) for task in range(MANY // 2)]],
    ],
    ids=["roots", "chain", "fan-out", "fan-in", "pairs"],
)
@pytest.mark.parametrize("planner", [WukongPlanner(), UniformPlanner()], ids=["wukong", "uniform"])
def test_a_hundred_thousand_tasks_are_planned_in_linear_time(
    planner: WukongPlanner | UniformPlanner, deps: list[tuple[int, ...]]
) -> None:
    graph = graph_of(*deps)
    began = time.process_time()
    plan = planner.plan(graph)
    plan.validate(graph)
    assert time.process_time() - began < 3, "a tenth of it when the machine is idle; a quadratic step takes minutes"
