"""How many bytes plans move and hold, and plans that do with few."""

import math
from collections.abc import Sequence
from random import Random

import pytest

from augury import AutoPlanner
from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.predictions import FixedPredictions
from augury.plan.search.volume import bytes_of, depth_first, most_held, parts
from tests.plan.graphs import graph_of
from tests.plan.random_runs import random_graph

MB = 1e6
ONE = Resources(cpus=1, memory_mb=2048)
TWO_PAIRS = graph_of((), (), (), (), (0, 1), (2, 3), (4, 5))
"""0 1 ──▶ 4, 2 3 ──▶ 5, 4 5 ──▶ 6: the one that the module draws."""


def product(blocks: int) -> Graph:
    """Blocks of two matrices; for each block of their product a task that takes a row and a column, and one that sums
    its squares; all of these."""
    left = [[row * blocks + column for column in range(blocks)] for row in range(blocks)]
    right = [[blocks**2 + one for one in row] for row in left]
    deps: list[tuple[int, ...]] = [()] * (2 * blocks**2)
    for row in range(blocks):
        for column in range(blocks):
            deps += [(*left[row], *(one[column] for one in right)), (len(deps),)]
    return graph_of(*deps, tuple(range(2 * blocks**2 + 1, 4 * blocks**2, 2)))


def outlook_of(graph: Graph, size: float) -> Outlook:
    """Two workers; sources and what adds up are quick, and sums are small."""
    timing = Timing(cold_start_s=0.02, warm_start_s=0.001, latency_s=0.0003, bandwidth_bytes_s=1e10)
    platform = PlatformModel(timing=timing, configurations=(ONE,), concurrency=2, warm={ONE: math.inf})
    given = FixedPredictions(
        lambda task, _: 0.04 if len(graph.deps[task]) == 16 else 0.002,
        lambda task: 8.0 if is_sum(graph, task) else size,
    )
    return Outlook(graph, given, platform)


def is_sum(graph: Graph, task: int) -> bool:
    """Whether a task adds up what is in one block, or all sums; those of a product only."""
    return (len(graph.deps[task]) == 1 and len(graph) > 200) or not graph.dependents[task]


def planned(outlook: Outlook, workers: Sequence[int], ranks: Sequence[int] = ()) -> Plan:
    assignments = tuple(Assignment(worker, ONE) for worker in workers)
    return Plan(fingerprint=outlook.graph.fingerprint, planner="test", assignments=assignments, ranks=tuple(ranks))


def held(outlook: Outlook, plan: Plan) -> float:
    return most_held(outlook.graph, outlook.output_bytes, outlook.simulate(plan))


# The order


def test_what_belongs_together_is_next_to_each_other() -> None:
    assert depth_first(TWO_PAIRS) == (0, 1, 3, 4, 2, 5, 6)


@pytest.mark.parametrize("seed", range(20))
def test_the_order_has_each_task_once_and_inputs_first(seed: int) -> None:
    graph = random_graph(Random(seed), most=60)
    places = depth_first(graph)
    assert sorted(places) == list(range(len(graph)))
    assert all(places[dep] < places[task] for task, deps in enumerate(graph.deps) for dep in deps)


def test_a_chain_may_be_longer_than_any_stack() -> None:
    length = 50_000
    assert depth_first(graph_of((), *((task,) for task in range(length)))) == tuple(range(length + 1))


# Parts


def test_parts_lie_together_and_do_equal_work() -> None:
    found = parts(TWO_PAIRS, depth_first(TWO_PAIRS), [1.0] * 7, 2)
    assert found.part_of == [0, 0, 1, 1, 0, 1, 1]


def test_sources_that_several_parts_need_are_dealt_out() -> None:
    graph = product(4)
    found = parts(graph, depth_first(graph), [1.0] * len(graph), 2)
    rows, left, right = found.part_of[32:64:2], found.part_of[:16], found.part_of[16:32]
    assert rows == [0] * 8 + [1] * 8
    assert left == [0] * 8 + [1] * 8, "a row is where it is needed"
    assert sorted(right) == [0] * 8 + [1] * 8, "and every column is needed by both"


@pytest.mark.parametrize("seed", range(20))
def test_ranks_are_an_order_with_inputs_first_on_each_worker(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, most=60)
    count = rng.randint(1, 5)
    found = parts(graph, depth_first(graph), [rng.random() for _ in range(len(graph))], count)
    assert sorted(found.ranks) == list(range(len(graph)))
    assert set(found.part_of) <= set(range(count))
    for task, deps in enumerate(graph.deps):
        for dep in deps:
            if found.part_of[dep] == found.part_of[task]:
                assert found.ranks[dep] < found.ranks[task]


def test_tasks_that_take_no_time_are_counted() -> None:
    assert parts(TWO_PAIRS, depth_first(TWO_PAIRS), [0.0] * 7, 2).part_of == [0, 0, 1, 1, 0, 1, 1]


def test_sources_of_one_task_are_cut_if_they_are_most_of_the_work() -> None:
    fan_in = graph_of(*[()] * 8, tuple(range(8)))
    found = parts(fan_in, depth_first(fan_in), [1.0] * 9, 4)
    assert sorted(list(found.part_of).count(part) for part in range(4)) == [2, 2, 2, 3]


# Bytes


def test_an_output_is_held_until_its_last_consumer_has_returned() -> None:
    outlook = outlook_of(TWO_PAIRS, 1 * MB)
    one_worker = [0] * 7
    assert held(outlook, planned(outlook, one_worker)) == 5 * MB, "all sources, and the first that takes two"
    assert held(outlook, planned(outlook, one_worker, depth_first(TWO_PAIRS))) == 4 * MB


def test_what_is_stored_is_held_to_the_end() -> None:
    chain = graph_of((), (0,), (1,), (2,), (3,))
    outlook = outlook_of(chain, 1 * MB)
    assert held(outlook, planned(outlook, [0] * 5)) == 2 * MB
    assert held(outlook, planned(outlook, [0, 1, 1, 1, 1])) == 3 * MB


def test_bytes_that_are_moved_count_as_well() -> None:
    chain = graph_of((), (0,))
    outlook = outlook_of(chain, 1 * MB)
    for workers, moved in (([0, 0], 0.0), ([0, 1], 2 * MB)):  # one upload, one download
        simulation = outlook.simulate(planned(outlook, workers))
        assert bytes_of(chain, outlook.output_bytes, simulation) == pytest.approx(moved + 1 * MB, abs=100)


# The default planner


def test_a_product_of_large_blocks_is_made_by_rows() -> None:
    outlook = outlook_of(product(8), 2 * MB)
    plan = AutoPlanner().plan(outlook.graph, outlook)
    assert plan.predicted is not None
    assert plan.predicted.makespan_s < 1.05 * (64 * 0.04 + 192 * 0.002) / 2
    blocks = 2 * 64 * 2 * MB
    assert held(outlook, plan) < 0.75 * blocks, "one of the matrices, and some rows of the other"


def test_small_outputs_are_not_looked_at() -> None:
    outlook = outlook_of(product(4), 1000.0)
    plan = AutoPlanner().plan(outlook.graph, outlook)
    assert plan.ranks != depth_first(outlook.graph)


def test_they_are_not_looked_for_beyond_the_time_that_the_user_gives() -> None:
    outlook = outlook_of(product(8), 2 * MB)
    ticks = iter(range(10**6))
    outlook.clock = lambda: 1.0 * next(ticks)
    plan = AutoPlanner(time_s=1.5).plan(outlook.graph, outlook)
    assert plan.ranks != depth_first(outlook.graph)


def test_fewer_bytes_are_not_worth_a_deadline() -> None:
    outlook = outlook_of(product(8), 2 * MB)
    usual = AutoPlanner().plan(outlook.graph, outlook).predicted
    assert usual is not None
    strict = AutoPlanner(deadline_s=usual.makespan_s).plan(outlook.graph, outlook).predicted
    assert strict is not None
    assert strict.makespan_s <= usual.makespan_s * (1 + 1e-9)
