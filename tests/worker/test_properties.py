"""What holds for every graph, every plan, every number of slots and every order of events.

Each test takes random runs of the real core on the virtual platform. `AUGURY_EXAMPLES=20000` makes a campaign
of them.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.dag.graph import Graph, build_workflow
from augury.plan.plan import Plan
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner
from augury.testing import VirtualPlatform
from tests import strategies
from tests.worker.random_runs import EXAMPLES, Case, cases, evaluate, expected_values, platforms, random_runs
from tests.worker.shapes import graph_of, plan_of


@random_runs
@given(cases())
def test_results_are_those_of_one_task_after_the_other(case: Case) -> None:
    assert case.run.values == expected_values(case.graph)


@settings(random_runs, max_examples=EXAMPLES or 50)
@given(strategies.workflows(), platforms(), st.data())
def test_workflows_of_real_tasks_come_to_what_one_process_would(
    outputs: Any, platform: VirtualPlatform, data: st.DataObject
) -> None:
    plan = data.draw(strategies.plans(build_workflow(outputs).graph))
    run = platform.run_workflow(outputs, plan=plan)
    assert strategies.same(run.result, strategies.evaluate(outputs))


@random_runs
@given(cases())
def test_every_task_runs_exactly_once(case: Case) -> None:
    assert case.run.executions == dict.fromkeys(range(len(case.graph)), 1)


@random_runs
@given(cases())
def test_planned_tasks_run_on_their_worker(case: Case) -> None:
    for task, (worker, _) in case.place_of.items():
        assert case.worker_of(task) is None or worker == f"w{case.worker_of(task)}"


@random_runs
@given(cases())
def test_no_task_starts_before_its_inputs_are_made(case: Case) -> None:
    spans = {span.task: span for span in case.run.timeline}
    for task, deps in enumerate(case.graph.deps):
        assert all(spans[dep].end_s <= spans[task].start_s for dep in deps)


@random_runs
@given(cases())
def test_invocations_never_exceed_the_slots(case: Case) -> None:
    spans = case.run.invocations
    for span in spans:
        beside = [other for other in spans if other.granted_s <= span.granted_s < other.end_s]
        assert len(beside) <= case.platform.slots
    assert case.run.max_concurrent <= case.platform.slots


@random_runs
@given(cases())
def test_a_worker_runs_at_most_as_many_tasks_at_once_as_it_has_slots(case: Case) -> None:
    for place in set(case.place_of.values()):
        spans = [span for span in case.run.timeline if (span.worker, span.attempt) == place]
        for span in spans:
            beside = [other for other in spans if other.start_s <= span.start_s < other.end_s]
            assert len(beside) <= case.resources_of(place[0]).task_slots


@random_runs
@given(cases())
def test_a_task_runs_only_where_there_is_what_it_needs(case: Case) -> None:
    for task, (worker, _) in case.place_of.items():
        assert case.resources_of(worker).covers(case.plan.assignments[task].resources)


@random_runs
@given(cases())
def test_a_planned_worker_fetches_an_input_once_however_many_of_its_tasks_take_it(case: Case) -> None:
    planned_only = all(assignment.worker is not None for assignment in case.plan.assignments)
    for invocation in case.run.invocations if planned_only else ():
        assert len(invocation.fetched) == len(set(invocation.fetched))


@random_runs
@given(cases())
def test_nothing_is_written_twice_by_an_invocation(case: Case) -> None:
    for invocation in case.run.invocations:
        assert len(invocation.stored) == len(set(invocation.stored))


@random_runs
@given(cases())
def test_outputs_are_stored_only_if_someone_else_may_need_them(case: Case) -> None:
    written = {task for invocation in case.run.invocations for task in invocation.stored}
    offered = {(span.worker, span.attempt) for span in case.run.invocations if span.offers}
    for task in written | set(case.run.stored):
        assert task in case.graph.sink_set or case.place_of[task] in offered or _may_be_needed(case, task)


def _may_be_needed(case: Case, task: int) -> bool:
    """Whether a consumer ran elsewhere, or could have: it is another worker's, or has to be counted for."""
    consumers = case.graph.dependents[task]
    if any(case.place_of[consumer] != case.place_of[task] for consumer in consumers):
        return True
    return any(
        case.worker_of(consumer) != case.worker_of(task)
        if case.worker_of(consumer) is not None
        else len(case.graph.deps[consumer]) > 1
        for consumer in consumers
    )


@random_runs
@given(cases())
def test_a_worker_that_has_all_its_consumers_reports_nothing(case: Case) -> None:
    """All tasks on one worker: whatever the graph, only the sinks are told of."""
    alone = replace(case, plan=plan_of(case.graph, dict.fromkeys(range(len(case.graph)), 0)))
    assert set(alone.run.stored) == case.graph.sink_set
    assert len(alone.run.invocations) == 1


@random_runs
@given(cases())
def test_only_sinks_are_left_when_the_last_worker_has_gone(case: Case) -> None:
    assert case.run.leftovers == ()


@random_runs
@given(cases())
def test_a_run_is_the_same_every_time(case: Case) -> None:
    assert replace(case).run == case.run


CHAIN = graph_of([[], *([task] for task in range(9_999))])
FAN_OUT = graph_of([[], *[[0]] * 10_000])
DIAMOND = graph_of([[], *[[0]] * 1_000, range(1, 1_001)])
PLANNERS = [WukongPlanner(), UniformPlanner(max_clustering=100)]


@pytest.mark.parametrize("slots", [1, 2, 7])
@pytest.mark.parametrize("planner", PLANNERS, ids=lambda planner: planner.name)
@pytest.mark.parametrize("graph", [CHAIN, FAN_OUT, DIAMOND], ids=["chain", "fan-out", "diamond"])
def test_large_shapes_finish_on_any_number_of_slots(graph: Graph, planner: WukongPlanner, slots: int) -> None:
    plan: Plan = planner.plan(graph)
    run = VirtualPlatform(slots=slots, latency_s=0.0005).run(graph, plan, evaluate, duration_s=0.001)
    assert run.values == expected_values(graph)
    assert len(run.executions) == sum(run.executions.values()) == len(graph)
    assert run.max_concurrent <= slots


@pytest.mark.parametrize("slots", [1, 2, 7])
def test_a_chain_that_changes_the_worker_at_every_step_finishes(slots: int) -> None:
    """0 → 1 → 2 → …      w0: 0, 5, 10 …      w1: 1, 6, 11 …      …"""
    graph = graph_of([[], *([task] for task in range(299))])
    run = VirtualPlatform(slots=slots).run(graph, plan_of(graph, {task: task % 5 for task in range(300)}), evaluate)
    assert run.values == expected_values(graph)
    assert sum(run.executions.values()) == 300
