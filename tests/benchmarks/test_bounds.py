"""Bounds by hand: each DAG is drawn, with the seconds that its tasks take."""

import pytest
from bounds import bounds_of, cost_bound_usd, longest_path_s, makespan_bound_s

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.model import PlatformModel, Price
from augury.plan.outlook import Outlook
from augury.plan.predictions import FixedPredictions
from tests.plan.graphs import graph_of

SMALL = Resources(cpus=1, memory_mb=1024)
LARGE = Resources(cpus=2, memory_mb=4096)
PRICE = Price(usd_per_gb_s=1.0)

#  0 (4 s; 1 s) ─┬─▶ 1 (2 s; 2 s) ─┬─▶ 3 (1 s; 1 s)      seconds with SMALL; with LARGE
#                └─▶ 2 (8 s; 3 s) ─┘
DIAMOND = graph_of((), (0,), (0,), (1, 2))
SECONDS: dict[int | str, float | dict[int, float]] = {
    0: {1024: 4.0, 4096: 1.0},
    1: {1024: 2.0, 4096: 2.0},
    2: {1024: 8.0, 4096: 3.0},
    3: 1.0,
}


def outlook(
    graph: Graph = DIAMOND, peak_mb: float = 0.0, concurrency: int = 1000, configurations: tuple[Resources, ...] = ()
) -> Outlook:
    platform = PlatformModel(configurations=configurations or (SMALL, LARGE), price=PRICE, concurrency=concurrency)
    return Outlook(graph, FixedPredictions(SECONDS, 1e9, peak_mb), platform)


def test_the_longest_path_counts_with_the_fastest_configuration() -> None:
    assert longest_path_s(DIAMOND, [4, 2, 8, 1]) == 13
    assert makespan_bound_s(outlook()) == 1 + 3 + 1


def test_work_spread_over_few_slots_may_count_more() -> None:
    # one LARGE worker, two tasks at once: 3.5 s of work, so the path counts; SMALL ones have one slot each
    assert makespan_bound_s(outlook(concurrency=1)) == 5
    assert makespan_bound_s(outlook(concurrency=1, configurations=(SMALL,))) == 4 + 2 + 8 + 1
    assert makespan_bound_s(outlook(concurrency=2, configurations=(SMALL,))) == 4 + 8 + 1


def test_each_task_costs_as_little_as_it_can() -> None:
    # GB-seconds in SMALL: 4, 2, 8, 1; in LARGE, half of them per slot: 2, 4, 6, 2
    assert cost_bound_usd(outlook()) == pytest.approx(2 + 2 + 6 + 1)


def test_configurations_with_too_little_memory_do_not_count() -> None:
    bounds = bounds_of(outlook(peak_mb=2048))
    assert bounds.cost_usd == pytest.approx(2 + 4 + 6 + 2)
    assert bounds.makespan_s == 5
