"""How much later tasks could end; each DAG is drawn, with the seconds that tasks take."""

import math
from collections.abc import Sequence

import pytest

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.planners.slack import slack_s
from augury.plan.predictions import FixedPredictions
from tests.plan.graphs import graph_of

ONE_SLOT = Resources(cpus=1, memory_mb=1024)
TWO_SLOTS = Resources(cpus=2, memory_mb=1024)


def spare_s(
    graph: Graph,
    workers: Sequence[int],
    seconds: Sequence[float],
    *,
    resources: Resources = ONE_SLOT,
    cold_start_s: float = 0.0,
    concurrency: int = 100,
    deadline_s: float | None = None,
    keep_slots: bool = False,
) -> list[float]:
    """The slack of each task, on a platform where only starts and tasks take time."""
    timing = Timing(cold_start_s=cold_start_s, warm_start_s=0, latency_s=0, bandwidth_bytes_s=math.inf)
    platform = PlatformModel(timing=timing, concurrency=concurrency, flush_s=0, keep_alive_s=0)
    outlook = Outlook(graph, FixedPredictions(dict(enumerate(seconds))), platform)
    assignments = tuple(Assignment(worker, resources) for worker in workers)
    run = outlook.simulate(Plan(fingerprint=graph.fingerprint, planner="test", assignments=assignments))
    return slack_s(graph, run, run.makespan_s if deadline_s is None else deadline_s, keep_slots=keep_slots)


def test_what_decides_has_none_and_the_other_branch_has_the_difference() -> None:
    #   0 (10) ──┐
    #   1 (4) ───┴▶ 2 (1)
    assert spare_s(graph_of((), (), (0, 1)), [0, 1, 0], [10, 4, 1]) == [0, 6, 0]


def test_tasks_in_a_row_share_it() -> None:
    #   0 (10) ───────────┐
    #   1 (2) ──▶ 2 (3) ──┴▶ 3 (1)
    assert spare_s(graph_of((), (), (1,), (0, 2)), [0, 1, 2, 0], [10, 2, 3, 1]) == [0, 5, 5, 0]


def test_of_several_consumers_the_most_urgent_counts() -> None:
    #   0 (1) ──┬▶ 1 (9)
    #           └▶ 2 (4)
    assert spare_s(graph_of((), (0,), (0,)), [0, 0, 1], [1, 9, 4]) == [0, 0, 5]


def test_a_task_whose_place_another_one_takes_has_no_more_than_that_one() -> None:
    #   0 (2)   1 (3)        one worker, one after the other
    #   2 (6)                another
    assert spare_s(graph_of((), (), ()), [0, 0, 1], [2, 3, 6]) == [1, 1, 0]


def test_with_two_slots_a_task_takes_the_place_that_is_free_first() -> None:
    #   0 (2)   1 (5)   2 (2)        one worker with two slots: 2 takes the place of 0
    assert spare_s(graph_of((), (), ()), [0, 0, 0], [2, 5, 2], resources=TWO_SLOTS) == [1, 0, 1]


def test_a_start_is_no_time_to_spare() -> None:
    #   0 (1) ──▶ 1 (1)      another worker, which takes 5 s to start: 5 to 6 s, and 11 to 12 s
    #   2 (10)               5 to 15 s
    assert spare_s(graph_of((), (0,), ()), [0, 1, 2], [1, 1, 10], cold_start_s=5) == [3, 3, 0]


def test_an_input_that_comes_while_its_worker_starts_has_until_it_has_started() -> None:
    #   0 (1) ──▶ 1 (9)      worker 1, asked for after 6 s, starts until 11 s
    #   2 (2) ──▶ 3 (1)      3 is on worker 1, too; 2 ends after 7 s, and is fetched from 11 s on, while 1 runs
    found = spare_s(graph_of((), (0,), (), (2,)), [0, 1, 2, 1], [1, 9, 2, 1], cold_start_s=5)
    assert found == [0, 0, 4, 0]


def test_whoever_gets_the_slot_of_a_worker_waits_for_it() -> None:
    #   0 (2)   1 (3)        on two workers; with one slot, worker 1 gets it when worker 0 has left
    assert spare_s(graph_of((), ()), [0, 1], [2, 3], concurrency=1) == [0, 0]
    assert spare_s(graph_of((), ()), [0, 1], [2, 3], concurrency=2) == [1, 0]


def test_a_slot_that_another_worker_waits_for_may_be_kept_for_as_long_as_that_one_has_time() -> None:
    #   0 (2)   1 (9)   2 (3)        on three workers with two slots: worker 2 gets that of worker 0, and has 4 s
    graph = graph_of((), (), ())
    assert spare_s(graph, [0, 1, 2], [2, 9, 3], concurrency=2) == [4, 0, 4]
    assert spare_s(graph, [0, 1, 2], [2, 9, 3], concurrency=2, keep_slots=True) == [0, 0, 4]


def test_a_later_deadline_is_time_to_spare_for_all() -> None:
    graph = graph_of((), (), (0, 1))
    assert spare_s(graph, [0, 1, 0], [10, 4, 1], deadline_s=13) == [2, 8, 2]


def test_what_is_too_late_has_less_than_none() -> None:
    graph = graph_of((), (), (0, 1))
    assert spare_s(graph, [0, 1, 0], [10, 4, 1], deadline_s=8) == [-3, 3, -3]


def test_a_long_chain_takes_no_recursion() -> None:
    count = 20_000
    chain = graph_of((), *[(task,) for task in range(count - 1)])
    assert spare_s(chain, [0] * count, [1] * count) == [pytest.approx(0)] * count
