"""Algorithm 1 with predictions, branch by branch: each DAG is drawn, with the workers that its tasks get.

`test_planners.py` has the same without predictions: there only the shape of the graph counts.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.config import Resources
from augury.dag.graph import Graph, build_workflow
from augury.errors import PlanError
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.planners.uniform import UniformPlanner, cluster
from augury.plan.predictions import FixedPredictions
from tests.plan.graphs import graph_of
from tests.strategies import workflows

SMALL = Resources(cpus=1, memory_mb=128)


def workers(
    graph: Graph,
    seconds: Sequence[float] | float = 1.0,
    sizes: Sequence[float] | float = 100.0,
    *,
    most: int = 2,
) -> list[int | None]:
    """The worker of each task, for these predictions."""
    by_hand = FixedPredictions(_by_task(seconds), _by_task(sizes))
    plan = UniformPlanner(SMALL, most).plan(graph, Outlook(graph, by_hand))
    plan.validate(graph)
    return [assignment.worker for assignment in plan.assignments]


def _by_task(values: Sequence[float] | float) -> Any:
    return dict(enumerate(values)) if isinstance(values, Sequence) else values


class Steps:
    """An optimization that only has a name."""

    name = "steps"

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        return plan


# ── roots ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_single_root_gets_a_worker() -> None:
    assert workers(graph_of(())) == [0]


def test_roots_that_take_equally_long_are_grouped() -> None:
    #   0   1   2   3   4        tasks
    #   └─0─┘   └─1─┘   2        workers
    assert workers(graph_of((), (), (), (), ())) == [0, 0, 1, 1, 2]


def test_each_long_root_goes_with_short_ones_on_a_new_worker() -> None:
    #   0   1   2   3   4   5    seconds 1 9 1 9 1 9; the median is 5
    #   0   0   1   1   2   2    workers: one long and one short each
    assert workers(graph_of(*[()] * 6), [1, 9, 1, 9, 1, 9]) == [0, 0, 1, 1, 2, 2]


def test_short_roots_that_are_left_over_are_grouped() -> None:
    #   0   1   2   3   4   5    seconds 9 1 1 1 1 1
    #   0   0   1   1   2   2
    assert workers(graph_of(*[()] * 6), [9, 1, 1, 1, 1, 1]) == [0, 0, 1, 1, 2, 2]


def test_long_roots_that_are_left_over_are_grouped_by_half() -> None:
    #   0   1   2   3   4   5   6   7    seconds 1 1 1 1 9 9 9 9, groups of four
    #   0   0   0   1   0   1   2   2    4 goes with three short ones, 5 with the last; 6 and 7 make half a group
    assert workers(graph_of(*[()] * 8), [1, 1, 1, 1, 9, 9, 9, 9], most=4) == [0, 0, 0, 1, 0, 1, 2, 2]


def test_roots_with_larger_outputs_come_first() -> None:
    #   0   1   2   3            bytes 1 4 2 3
    #   1   0   1   0            workers: 1 and 3, then 2 and 0
    assert workers(graph_of(*[()] * 4), sizes=[1, 4, 2, 3]) == [1, 0, 1, 0]


# ── 1 → 1 ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_chain_stays_on_one_worker_however_long_its_tasks_take() -> None:
    #   0 ──▶ 1 ──▶ 2 ──▶ 3      seconds 1 100 1 100
    assert workers(graph_of((), (0,), (1,), (2,)), [1, 100, 1, 100], [0, 9e9, 0, 0]) == [0] * 4


def test_a_chain_after_a_fan_out_stays_where_its_first_task_is() -> None:
    #       0                    worker 0, one task per worker beside the input's own
    #    ┌──┴──┐
    #    1     2                 seconds 1 9: workers 0 1
    #    │     │
    #    3     4                 workers 0 1
    assert workers(graph_of((), (0,), (0,), (1,), (2,)), [0, 1, 9, 9, 1], most=1) == [0, 0, 1, 0, 1]


# ── 1 → N ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_short_tasks_of_a_fan_out_stay_and_the_long_ones_leave() -> None:
    #          0                 worker 0
    #    ┌──┬──┴┬──┐
    #    1  2   3  4             seconds 9 1 9 1: workers 1 0 2 0
    assert workers(graph_of((), (0,), (0,), (0,), (0,)), [0, 9, 1, 9, 1]) == [0, 1, 0, 2, 0]


def test_of_the_short_tasks_of_a_fan_out_those_with_the_largest_outputs_stay() -> None:
    #          0                 worker 0
    #    ┌──┬──┴┬──┐
    #    1  2   3  4             bytes 10 40 20 30: workers 1 0 1 0
    assert workers(graph_of((), (0,), (0,), (0,), (0,)), sizes=[0, 10, 40, 20, 30]) == [0, 1, 0, 1, 0]


def test_a_long_task_does_not_stay_however_large_its_output_is() -> None:
    #        0                   worker 0
    #    ┌───┼───┐
    #    1   2   3               seconds 1 1 9, bytes 0 0 9e9: workers 0 0 1
    assert workers(graph_of((), (0,), (0,), (0,)), [0, 1, 1, 9], [0, 0, 0, 9e9]) == [0, 0, 0, 1]


def test_short_tasks_that_found_no_room_go_with_the_long_ones() -> None:
    #              0             worker 0
    #    ┌──┬──┬───┼──┬──┐
    #    1  2  3   4  5  6       seconds 1 1 1 9 9 9: workers 0 0 1 1 2 3
    assert workers(graph_of((), *[(0,)] * 6), [0, 1, 1, 1, 9, 9, 9]) == [0, 0, 0, 1, 1, 2, 3]


def test_short_tasks_that_outnumber_the_long_ones_are_grouped_among_themselves() -> None:
    #               0               worker 0
    #    ┌──┬──┬──┬─┴┬──┬──┐
    #    1  2  3  4  5  6  7        seconds 9 1 1 1 1 1 1: workers 1 0 0 1 2 2 3
    assert workers(graph_of((), *[(0,)] * 7), [0, 9, 1, 1, 1, 1, 1, 1]) == [0, 1, 0, 0, 1, 2, 2, 3]


def test_long_tasks_of_a_fan_out_that_are_left_over_are_grouped_by_half() -> None:
    #               0                        worker 0, groups of four
    #    ┌──┬──┬──┬─┴┬──┬──┬──┐
    #    1  2  3  4  5  6  7  8              seconds 1 1 1 1 9 9 9 9: the short ones all stay
    #    0  0  0  0  1  1  2  2
    assert workers(graph_of((), *[(0,)] * 8), [0, 1, 1, 1, 1, 9, 9, 9, 9], most=4) == [0, 0, 0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("most", "half"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3)])
def test_half_a_group_is_rounded_down_and_never_empty(most: int, half: int) -> None:
    #          0               worker 0
    #     ┌─┬──┴──┬─┐
    #     … short … long …     as many short ones as stay with their input, and as many long ones
    graph = graph_of((), *[(0,)] * (2 * most))
    found = workers(graph, [0, *[1] * most, *[9] * most], most=most)
    assert found == [0, *[0] * most, *[1 + place // half for place in range(most)]]


# ── N → 1 ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fan_in_goes_to_the_worker_that_holds_the_most_bytes() -> None:
    #   0  1  2  3          workers 0 0 1 1; bytes 40 30 20 10
    #   └─────┼──┘
    #         4             worker 0 holds 40 of its bytes, worker 1 holds 30 in two outputs
    assert workers(graph_of((), (), (), (), (0, 2, 3)), sizes=[40, 30, 20, 10, 0]) == [0, 0, 1, 1, 0]


def test_the_outputs_that_a_worker_holds_count_together() -> None:
    #   0  1  2  3          workers 0 0 1 1; bytes 50 40 30 30
    #   └─────┼──┘
    #         4             worker 1 holds 60 bytes in two outputs, worker 0 holds 50 in the largest of all
    assert workers(graph_of((), (), (), (), (0, 2, 3)), sizes=[50, 40, 30, 30, 0]) == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("sizes", [0.0, 7.0])
def test_with_as_many_bytes_a_fan_in_goes_where_more_outputs_are(sizes: float) -> None:
    #   0  1  2  3          workers 0 0 1 1
    #      └──┼──┘
    #         4
    assert workers(graph_of((), (), (), (), (1, 2, 3)), sizes=sizes) == [0, 0, 1, 1, 1]


def test_with_as_many_outputs_a_fan_in_goes_to_the_first() -> None:
    #   0  1                workers 0 1
    #   └┬─┘
    #    2
    assert workers(graph_of((), (), (0, 1)), sizes=0.0, most=1) == [0, 1, 0]


def test_a_fan_in_starts_no_worker_however_long_it_takes() -> None:
    #   0  1  2  3          workers 0 0 1 1
    #   └──┴┬─┴──┘
    #       4               100 seconds
    assert workers(graph_of((), (), (), (), (0, 1, 2, 3)), [1, 1, 1, 1, 100]) == [0, 0, 1, 1, 0]


# ── N → M, mixed ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_layer_that_takes_all_of_the_one_before_follows_its_bytes() -> None:
    #   0   1   2           bytes 10 20 30, one task a worker: workers 2 1 0
    #   ╞═══╪═══╡
    #     3   4             each takes all three: worker 0 holds the most
    layers = graph_of((), (), (), (0, 1, 2), (0, 1, 2))
    assert workers(layers, sizes=[10, 20, 30, 0, 0], most=1) == [2, 1, 0, 0, 0]
    # The same by twos: workers 1 0 0, and worker 0 holds 50 of 60 bytes
    assert workers(layers, sizes=[10, 20, 30, 0, 0], most=2) == [1, 0, 0, 0, 0]


def test_a_task_with_several_inputs_that_is_reached_by_a_fan_out_belongs_to_its_group() -> None:
    #   0        1          roots: workers 0 0
    #  ┌┴──┬──┐  │
    #  2   3  4◀─┘          seconds 1 1 9: 4 is the long one of the group of 0, although it also takes 1
    assert workers(graph_of((), (), (0,), (0,), (0, 1)), [1, 1, 1, 1, 9]) == [0, 0, 0, 0, 1]


def test_a_task_that_was_assigned_before_its_fan_out_is_left_where_it_is() -> None:
    #   0     1             bytes 20 10, one task a worker: workers 0 1
    #   └──┬──┤
    #      2  ├──┐          2 takes both and is visited first: worker 0 holds more of its input
    #         3  4          then 3 and 4 are the group of 1: 4, with the larger output, stays
    graph = graph_of((), (), (0, 1), (1,), (1,))
    assert workers(graph, sizes=[20, 10, 0, 5, 6], most=1) == [0, 1, 0, 2, 1]


def test_a_workflow_with_every_case() -> None:
    #   0      1      2              roots, seconds 1 1 9, bytes 10 20 0: 2 goes with 1, 0 is left over
    #   │      └──┬───┤              workers 1 0 0
    #   3         4   ├──┬──┐        3 follows 0; 4 takes 1 and 2; 5, 6 and 7 take 2
    #   │         │   5  6  7        seconds 1 1 9: 5 and 6 stay on worker 0, 7 gets worker 2
    #   └────┬────┘   └──┼──┘
    #        8           9           8 takes 3 (30 bytes) and 4 (10); 9 takes 5, 6 and 7 (10, 10, 30)
    #        └─────┬─────┘
    #             10                 takes 8 (1 byte) and 9 (2)
    graph = graph_of((), (), (), (0,), (1, 2), (2,), (2,), (2,), (3, 4), (5, 6, 7), (8, 9))
    seconds = [1, 1, 9, 1, 1, 1, 1, 9, 1, 1, 1]
    sizes = [10, 20, 0, 30, 10, 10, 10, 30, 1, 2, 0]
    assert workers(graph, seconds, sizes) == [1, 0, 0, 1, 0, 0, 0, 2, 1, 2, 2]


# ── what the planner asks of its outlook ───────────────────────────────────────────────────────────────────────


def test_run_times_are_those_of_the_configuration() -> None:
    #     0                 worker 0
    #   ┌─┼─┐
    #   1 2 3               with 128 MB task 1 is the long one, with 1024 MB task 3 is
    graph = graph_of((), (0,), (0,), (0,))
    by_hand = FixedPredictions({1: {128: 9.0, 1024: 1.0}, 2: 2.0, 3: {128: 1.0, 1024: 9.0}})

    def planned(resources: Resources) -> list[int | None]:
        plan = UniformPlanner(resources, 2).plan(graph, Outlook(graph, by_hand))
        return [assignment.worker for assignment in plan.assignments]

    assert planned(SMALL) == [0, 1, 0, 0]
    assert planned(Resources(cpus=1, memory_mb=1024)) == [0, 0, 0, 1]


def test_all_workers_get_the_memory_that_the_most_demanding_task_is_expected_to_need() -> None:
    graph = graph_of((), (), (), memory_mb={1: 300})
    plan = UniformPlanner(SMALL).plan(graph, Outlook(graph, FixedPredictions(peak_mb={2: 700.5})))
    plan.validate(graph)
    assert {assignment.resources for assignment in plan.assignments} == {Resources(cpus=1, memory_mb=701)}


def test_declared_memory_counts_where_less_is_expected() -> None:
    graph = graph_of((), (), (), memory_mb={1: 300})
    plan = UniformPlanner(SMALL).plan(graph, Outlook(graph, FixedPredictions(peak_mb=10)))
    assert {assignment.resources for assignment in plan.assignments} == {Resources(cpus=1, memory_mb=300)}


def test_run_times_are_those_of_the_raised_memory() -> None:
    #     0                 worker 0; task 0 needs 512 MB, so all have that
    #   ┌─┼─┐
    #   1 2 3               with 512 MB task 3 is the long one, with 128 MB task 1 would be
    graph = graph_of((), (0,), (0,), (0,))
    by_hand = FixedPredictions({1: {128: 9.0, 512: 1.0}, 2: 2.0, 3: {128: 1.0, 512: 9.0}}, peak_mb={0: 512})
    plan = UniformPlanner(SMALL, 2).plan(graph, Outlook(graph, by_hand))
    assert [assignment.worker for assignment in plan.assignments] == [0, 0, 0, 1]


class Arrays:
    """Predictions as arrays, which have no truth value."""

    def __init__(self, by_hand: FixedPredictions) -> None:
        self._by_hand = by_hand

    def execution_s(self, graph: Graph, resources: Resources) -> Any:
        return np.array(self._by_hand.execution_s(graph, resources))

    def output_bytes(self, graph: Graph) -> Any:
        return np.array(self._by_hand.output_bytes(graph))

    def peak_mb(self, graph: Graph) -> Any:
        return np.array(self._by_hand.peak_mb(graph))

    def evidence(self, graph: Graph) -> Any:
        return self._by_hand.evidence(graph)

    def at(self, sla: Any) -> "Arrays":
        return self


def test_predictions_may_be_arrays() -> None:
    graph = graph_of((), *[(0,)] * 6, (1, 2, 3))
    seconds: Mapping[int | str, float] = dict(enumerate([0, 1, 2, 2, 9, 9, 9, 1]))
    by_hand = FixedPredictions(seconds, lambda task: 10.0 * task, peak_mb=200)
    plan = UniformPlanner(SMALL).plan(graph, Outlook(graph, Arrays(by_hand)))
    assert plan == UniformPlanner(SMALL).plan(graph, Outlook(graph, by_hand))
    assert plan.assignments[0].resources.memory_mb == 200


@settings(max_examples=50, deadline=None)
@given(workflows(max_tasks=10), st.integers(1, 3))
def test_equal_predictions_plan_as_none_do(outputs: Any, most: int) -> None:
    graph = build_workflow(outputs).graph
    planner = UniformPlanner(max_clustering=most)
    assert planner.plan(graph, Outlook(graph, FixedPredictions(3.0, 50.0))) == planner.plan(graph)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=20), st.integers(1, 5))
def test_new_workers_have_at_most_one_long_task_with_short_company(pairs: list[tuple[float, float]], most: int) -> None:
    graph = graph_of(*[()] * len(pairs))
    seconds = [second for second, _ in pairs]
    found = cluster(graph, most, seconds, [size for _, size in pairs])
    middle = float(np.median(seconds))
    groups = [[seconds[task] > middle for task, own in enumerate(found) if own == worker] for worker in set(found)]
    assert all(len(group) <= most for group in groups)
    assert all(sum(group) <= 1 or (all(group) and len(group) <= max(1, most // 2)) for group in groups)


# ── settings ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_optimizations_are_kept_for_whoever_applies_them() -> None:
    wanted = Steps()
    assert UniformPlanner(optimizations=(wanted,)).optimizations == (wanted,)
    assert UniformPlanner().optimizations == ()


@pytest.mark.parametrize("optimizations", [Steps, Steps(), "steps", [Steps]])
def test_what_is_no_optimization_is_refused(optimizations: Any) -> None:
    with pytest.raises(PlanError, match=r"UniformPlanner: .*optimizations must be"):
        UniformPlanner(optimizations=optimizations)


# ── speed ──────────────────────────────────────────────────────────────────────────────────────────────────────

MANY = 100_000


@pytest.mark.parametrize(
    "deps",
    [
        [()] * MANY,
        [(), *[(0,)] * (MANY - 1)],
        [*[()] * (MANY - 1), tuple(range(MANY - 1))],
        [(), *[((task - 1) // 4,) for task in range(1, MANY)]],
    ],
    ids=["roots", "fan-out", "fan-in", "tree"],
)
def test_a_hundred_thousand_tasks_are_planned_quickly_with_predictions(deps: list[tuple[int, ...]]) -> None:
    graph = graph_of(*deps)
    by_hand = FixedPredictions(lambda task, _: task * 7 % 11, lambda task: task * 7 % 13)
    began = time.process_time()
    plan = UniformPlanner().plan(graph, Outlook(graph, by_hand))
    plan.validate(graph)
    assert time.process_time() - began < 3, "a fifth of it when the machine is idle; a quadratic step takes minutes"
