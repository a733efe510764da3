"""Tasks that look alike change places."""

import pytest

from augury import AutoPlanner
from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.hints import PreLoadHint
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.predictions import FixedPredictions
from augury.plan.search.dealing import Dealing
from tests.plan.graphs import graph_of

WIDE, NARROW = Resources(), Resources(memory_mb=512)


def fan(count: int) -> Graph:
    """0 … count-1 ──▶ count"""
    return graph_of(*[()] * count, tuple(range(count)))


def outlook_of(graph: Graph, seconds: object = 1.0) -> Outlook:
    platform = PlatformModel(timing=Timing(cold_start_s=0.1, latency_s=0.001), concurrency=2)
    return Outlook(graph, FixedPredictions(seconds, 100.0), platform)  # type: ignore[arg-type]


def plan_of(graph: Graph, workers: str, ranks: tuple[int, ...] = ()) -> Plan:
    places = {name: Assignment(None if name == "-" else int(name), WIDE) for name in set(workers)}
    return Plan(
        fingerprint=graph.fingerprint, planner="p", assignments=tuple(places[name] for name in workers), ranks=ranks
    )


def dealt(graph: Graph, workers: str, seconds: object = 1.0) -> str:
    plan = Dealing(outlook_of(graph, seconds)).dealt(plan_of(graph, workers))
    return "".join("-" if one.worker is None else str(one.worker) for one in plan.assignments)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("000011110", "011001100"),
        ("001122000", "012002100"),
        ("000000110", "001001000"),
        ("00001111-", "01100110-"),
    ],
)
def test_they_are_dealt_out_to_and_fro_and_each_worker_has_as_many_as_before(before: str, after: str) -> None:
    assert dealt(fan(8), before) == after
    assert dealt(fan(8), after) == after


def test_each_long_half_every_second_one_and_a_trend_come_out_even() -> None:
    graph = fan(32)
    workers = dealt(graph, "0" * 16 + "1" * 16 + "0")[:32]
    for long_s in ([1.0] * 16 + [0.0] * 16, [1.0, 0.0] * 16, [float(task) for task in range(32)]):
        shares = [sum(s for s, name in zip(long_s, workers, strict=True) if name == worker) for worker in "01"]
        assert shares[0] == shares[1]


def test_what_looks_different_stays_where_it_is() -> None:
    graph = graph_of((), (), (0,), (1,), (2, 3))
    #    0 ──▶ 2 ──┐
    #    1 ──▶ 3 ──┴──▶ 4
    assert dealt(graph, "00110") == "00110"
    assert dealt(fan(4), "00110", lambda task, _: 1.0 + task) == "00110"


def test_a_thousandth_looks_alike() -> None:
    assert dealt(fan(4), "00110", lambda task, _: 1.0 + 1e-5 * task) == "01100"


def test_siblings_in_a_tree_keep_their_branch() -> None:
    graph = graph_of((), (), (), (), (0, 1), (2, 3), (4, 5))
    #    0 1   2 3
    #     4     5
    #        6
    assert dealt(graph, "0011010") == "0011010"


def test_ranks_go_with_places_and_the_run_takes_as_long() -> None:
    graph = fan(4)
    outlook = outlook_of(graph)
    before = plan_of(graph, "00110", ranks=(3, 1, 0, 2, 4))
    after = Dealing(outlook).dealt(before)
    assert [one.worker for one in after.assignments] == [0, 1, 1, 0, 0]
    assert after.ranks == (1, 0, 2, 3, 4)
    assert outlook.simulate(after).makespan_s == outlook.simulate(before).makespan_s


def test_plans_with_hints_one_worker_or_none_named_stay_as_they_are() -> None:
    graph = fan(4)
    dealing = Dealing(outlook_of(graph))
    hinted = plan_of(graph, "00110")
    hinted = Plan(
        fingerprint=graph.fingerprint, planner="p", assignments=hinted.assignments, hints={4: (PreLoadHint(),)}
    )
    for plan in (hinted, plan_of(graph, "00000"), plan_of(graph, "-----")):
        assert Dealing(outlook_of(graph)).dealt(plan) is plan
        assert dealing.dealt(plan) is plan


def test_workers_of_another_kind_take_as_many_as_they_did() -> None:
    graph = fan(6)
    strong, weak = Assignment(0, WIDE), Assignment(1, NARROW)
    plan = Plan(fingerprint=graph.fingerprint, planner="p", assignments=(*[strong] * 4, weak, weak, strong))
    after = Dealing(outlook_of(graph)).dealt(plan)
    assert [one.worker for one in after.assignments] == [0, 1, 0, 0, 1, 0, 0]
    assert set(after.assignments) == {strong, weak}


def test_the_default_planner_deals_out_what_it_divides() -> None:
    graph = fan(400)
    plan = AutoPlanner().plan(graph, outlook_of(graph, 0.01))
    first = [one.worker for one in plan.assignments[:200]]
    assert set(first) == {0, 1}
    assert abs(first.count(0) - first.count(1)) <= 2
