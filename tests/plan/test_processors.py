"""Workers that share processors: what plans for them come to, and how many workers the default planner takes."""

import math

import pytest

from augury import AutoPlanner
from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.predictions import FixedPredictions
from augury.plan.search.objective import Outcome
from augury.plan.search.processors import Processors, passed_on
from tests.plan.graphs import graph_of

WARM = Timing(cold_start_s=0.02, warm_start_s=0.001, latency_s=0.0003, bandwidth_bytes_s=1e9)


def fan(count: int) -> Graph:
    """0 … count-1 ──▶ count"""
    return graph_of(*[()] * count, tuple(range(count)))


def layers(width: int, depth: int) -> Graph:
    """Each task takes two neighbours of the row before:  0  1  2 … ──▶ (0 1)  (1 2)  (2 3) … ──▶ … ──▶ the last"""
    deps: list[tuple[int, ...]] = [()] * width
    for row in range(1, depth):
        first = (row - 1) * width
        deps += [tuple(sorted((first + place, first + (place + 1) % width))) for place in range(width)]
    return graph_of(*deps, tuple(range((depth - 1) * width, depth * width)))


def planned(
    graph: Graph, seconds: float, cpu_share: float, *, processors: float = 2, slots: int = 8, **settings: float
) -> Plan:
    platform = PlatformModel(
        timing=WARM, concurrency=slots, processors=processors, warm={Resources(): math.inf}, flush_s=0.001
    )
    last = len(graph) - 1
    given = FixedPredictions(lambda task, _: 0.0 if task == last else seconds, 50.0, cpu_share=cpu_share)
    outlook = Outlook(graph, given, platform)
    return AutoPlanner(**settings).plan(graph, outlook)  # type: ignore[arg-type]


def workers_of(plan: Plan) -> set[int | None]:
    return {assignment.worker for assignment in plan.assignments}


def on(*workers: int | None) -> list[Assignment]:
    return [Assignment(worker, Resources()) for worker in workers]


# How many workers


def test_tasks_that_compute_get_as_many_workers_as_there_are_processors() -> None:
    assert len(workers_of(planned(fan(64), 0.5, 1.0))) == 2


def test_tasks_that_wait_get_as_many_workers_as_there_are_slots() -> None:
    assert len(workers_of(planned(fan(64), 0.5, 0.01))) == 8
    assert len(workers_of(planned(fan(512), 1.0, 0.001, slots=1000))) == 512


def test_workers_with_processors_of_their_own_are_as_many_as_slots_whatever_tasks_do() -> None:
    assert len(workers_of(planned(fan(64), 0.5, 1.0, processors=math.inf))) == 8


@pytest.mark.parametrize("slots", [2, 8])
def test_many_tasks_of_microseconds_stay_on_one_worker(slots: int) -> None:
    """With as little time to plan as there is for a run of a tenth of a second."""
    assert workers_of(planned(layers(500, 10), 10e-6, 1.0, slots=slots, time_s=0.0)) == {0}
    assert workers_of(planned(fan(5000), 10e-6, 1.0, slots=slots, time_s=0.0)) == {0}


@pytest.mark.parametrize("slots", [2, 8])
def test_many_tasks_that_are_worth_it_are_left_to_flexible_workers_if_there_is_no_time(slots: int) -> None:
    assert workers_of(planned(fan(5000), 200e-6, 1.0, slots=slots, time_s=0.0)) == {None}


def test_tasks_of_a_prediction_that_says_nothing_of_processors_need_none() -> None:
    class Silent:
        def __init__(self) -> None:
            said = FixedPredictions(0.5, 50.0)
            self.execution_s, self.output_bytes, self.peak_mb = said.execution_s, said.output_bytes, said.peak_mb
            self.evidence = said.evidence

        def at(self, sla: object) -> "Silent":
            return self

    graph = fan(64)
    outlook = Outlook(graph, Silent(), PlatformModel(timing=WARM, concurrency=8, processors=2))
    assert list(outlook.cpu_share) == [0.0] * 65
    assert len(workers_of(AutoPlanner().plan(graph, outlook))) == 8


# What plans come to


def test_a_run_is_no_shorter_than_its_processor_time_on_all_processors() -> None:
    graph, plan = fan(8), on(0, 1, 2, 3, 4, 5, 6, 7, 0)
    found = Processors(2, 16.0, 16.0).shared(Outcome(2.5, 1.0, 8), graph, plan, joined_s=0.5)
    assert found.makespan_s == pytest.approx(8.5, abs=1e-3)
    assert found.cost_usd == pytest.approx(8.5 / 2.5, abs=1e-3)
    assert found.workers == 8


def test_what_is_long_enough_anyway_comes_to_what_it_did() -> None:
    graph, plan, alone = fan(8), on(0, 1, 2, 3, 4, 5, 6, 7, 0), Outcome(2.5, 1.0, 8)
    assert Processors(2, 16.0, 1.6).shared(alone, graph, plan, joined_s=0.5) == alone
    assert Processors(math.inf, 0.0, 0.0).shared(alone, graph, plan, joined_s=0.5) == alone


def test_outputs_that_leave_their_worker_need_processors_too() -> None:
    shared = Processors(2, 1.0, 1.0)
    assert shared.least_s(1000) > shared.least_s() == 0.5


def test_enough_workers_keep_all_processors_busy() -> None:
    assert Processors(2, 10.0, 10.0).enough_workers == 2
    assert Processors(2, 10.0, 3.0).enough_workers == 7
    assert Processors(2, 10.0, 0.0).enough_workers == math.inf
    assert Processors(math.inf, 10.0, 10.0).enough_workers == math.inf


def test_outputs_are_passed_on_to_other_workers_and_between_flexible_tasks_that_may_part() -> None:
    graph = graph_of((), (0,), (0,), (1, 2), (3,))
    #        ┌─▶ 1 ──┐
    #     0 ─┤       ├──▶ 3 ──▶ 4
    #        └─▶ 2 ──┘
    assert passed_on(graph, on(0, 0, 0, 0, 0)) == 0
    assert passed_on(graph, on(0, 0, 1, 0, 0)) == 2
    assert passed_on(graph, on(None, None, None, None, None)) == 3
