"""Auto: what it is asked for, it finds at least as well as the others."""

import logging
import time
from random import Random

import pytest

from augury import AutoPlanner, NonUniformPlanner, UniformPlanner, WukongPlanner
from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook, Planner
from augury.plan.plan import Assignment, Plan
from augury.plan.planners.auto import pareto_front
from augury.plan.predictions import FixedPredictions
from augury.predict.estimate import Estimate
from tests.plan.graphs import graph_of
from tests.plan.random_runs import random_graph

CONFIGURATIONS = (
    Resources(cpus=1, memory_mb=512),
    Resources(cpus=1, memory_mb=2048),
    Resources(cpus=2, memory_mb=4096),
)


def platform(**settings: object) -> PlatformModel:
    timing = Timing(cold_start_s=0.2, warm_start_s=0.01, latency_s=0.002, bandwidth_bytes_s=1e8)
    return PlatformModel(timing=timing, configurations=CONFIGURATIONS, **settings)  # type: ignore[arg-type]


def outlook_of(graph: Graph, seconds: float, size: float = 1000.0, **settings: object) -> Outlook:
    return Outlook(graph, FixedPredictions(seconds, size), platform(**settings))


def random_outlook(seed: int) -> Outlook:
    rng = Random(seed)
    graph = random_graph(rng, most=30)
    scale_s = rng.choice([0.01, 0.3, 5.0])
    run_s = [scale_s * rng.expovariate(1) for _ in range(len(graph))]
    size = [rng.choice([100, 1e5, 1e7]) * rng.random() for _ in range(len(graph))]
    given = FixedPredictions(
        lambda task, one: run_s[task] * (0.3 + 0.7 * 2048 / one.memory_mb), lambda task: size[task]
    )
    return Outlook(graph, given, platform(concurrency=rng.choice([3, 100])))


def fan(count: int) -> Graph:
    """0 … count-1 ──▶ count"""
    return graph_of(*[()] * count, tuple(range(count)))


def others(outlook: Outlook) -> list[Plan]:
    planners: list[Planner] = [NonUniformPlanner(CONFIGURATIONS)]
    for one in CONFIGURATIONS:
        planners += [UniformPlanner(one), WukongPlanner(one)]
    plans = [planner.plan(outlook.graph, outlook) for planner in planners]
    for one in CONFIGURATIONS:
        assignments = (Assignment(0, one),) * len(outlook.graph)
        plans.append(Plan(fingerprint=outlook.graph.fingerprint, planner="one", assignments=assignments))
    return plans


@pytest.mark.parametrize("seed", range(25))
def test_it_is_never_predicted_worse_than_any_other_planner(seed: int) -> None:
    outlook = random_outlook(seed)
    rivals = [outlook.simulate(plan) for plan in others(outlook)]
    quick = outlook.simulate(AutoPlanner("makespan").plan(outlook.graph, outlook))
    cheap = outlook.simulate(AutoPlanner("cost").plan(outlook.graph, outlook))
    assert quick.makespan_s <= min(rival.makespan_s for rival in rivals) * (1 + 1e-6)
    assert cheap.cost_usd <= min(rival.cost_usd for rival in rivals) * (1 + 1e-6)


def test_tiny_tasks_end_up_together_and_long_ones_apart() -> None:
    tiny, long = outlook_of(fan(20), 0.0001), outlook_of(fan(20), 30.0)
    assert len(tiny.simulate(AutoPlanner("cost").plan(tiny.graph, tiny)).workers) == 1
    assert len(tiny.simulate(AutoPlanner().plan(tiny.graph, tiny)).workers) <= 6
    assert len(long.simulate(AutoPlanner().plan(long.graph, long)).workers) >= 10


def test_a_deadline_is_kept_as_cheaply_as_it_can_be() -> None:
    outlook = outlook_of(fan(12), 10.0)
    cheap = outlook.simulate(AutoPlanner("cost").plan(outlook.graph, outlook))
    kept = outlook.simulate(AutoPlanner("cost", deadline_s=60.0).plan(outlook.graph, outlook))
    quick = outlook.simulate(AutoPlanner().plan(outlook.graph, outlook))
    assert cheap.makespan_s > 60.0
    assert kept.makespan_s <= 60.0
    assert cheap.cost_usd <= kept.cost_usd <= quick.cost_usd


def test_a_budget_is_kept_as_fast_as_it_can_be() -> None:
    outlook = outlook_of(fan(12), 10.0)
    quick = outlook.simulate(AutoPlanner().plan(outlook.graph, outlook))
    cheap = outlook.simulate(AutoPlanner("cost").plan(outlook.graph, outlook))
    budget_usd = (quick.cost_usd + cheap.cost_usd) / 2
    kept = outlook.simulate(AutoPlanner(budget_usd=budget_usd).plan(outlook.graph, outlook))
    assert kept.cost_usd <= budget_usd
    assert quick.makespan_s <= kept.makespan_s <= cheap.makespan_s


@pytest.mark.parametrize("most", [1, 2, 5])
def test_there_are_no_more_workers_than_allowed(most: int) -> None:
    outlook = outlook_of(fan(12), 10.0)
    assert len(outlook.simulate(AutoPlanner(max_workers=most).plan(outlook.graph, outlook)).workers) <= most


def test_memory_is_never_below_what_is_declared_or_predicted() -> None:
    """0 needs 3,000 MB by declaration, 1 needs 6,000 MB by prediction"""
    graph = graph_of((), (0,), (1,), memory_mb={0: 3000})
    outlook = Outlook(graph, FixedPredictions(1.0, 10.0, {1: 6000.0}), platform())
    for objective in ("makespan", "cost", 0.5):
        plan = AutoPlanner(objective).plan(graph, outlook)
        plan.validate(graph)
        for task, need_mb in enumerate((3000, 6000, 0)):
            assert plan.assignments[task].resources.memory_mb >= need_mb


class Unmeasured(FixedPredictions):
    """Guesses that nothing backs."""

    def evidence(self, graph: Graph) -> list[Estimate]:
        return [Estimate(1.0, basis="prior: nothing known")] * len(graph.functions)


def test_without_history_tasks_are_left_to_few_flexible_workers() -> None:
    graph = fan(1000)
    outlook = Outlook(graph, Unmeasured(0.1, 1000.0), platform(concurrency=1000))
    plan = AutoPlanner().plan(graph, outlook)
    assert {assignment.worker for assignment in plan.assignments} == {None}
    assert 10 <= plan.spread <= 300


def test_the_same_question_gets_the_same_answer() -> None:
    outlook = random_outlook(5)
    assert AutoPlanner().plan(outlook.graph, outlook) == AutoPlanner().plan(outlook.graph, outlook)


def test_planning_stops_when_its_time_is_up() -> None:
    graph = fan(600)
    ticks = iter(range(10**9))
    outlook = Outlook(graph, FixedPredictions(10.0, 1e6), platform(), clock=lambda: next(ticks) * 10.0)
    plan = AutoPlanner().plan(graph, outlook)  # every look at the clock is ten seconds later
    plan.validate(graph)
    assert next(ticks) < 50


def test_a_large_workflow_of_tiny_tasks_is_planned_in_no_time() -> None:
    graph = fan(20_000)
    outlook = Outlook(graph, FixedPredictions(1e-6, 10.0), platform(), clock=time.perf_counter)
    plan = AutoPlanner().plan(graph, outlook)
    assert {assignment.worker for assignment in plan.assignments} == {0}


def test_the_front_runs_from_fast_to_cheap() -> None:
    outlook = outlook_of(fan(16), 20.0)
    front = pareto_front(outlook)
    found = [(plan.predicted.makespan_s, plan.predicted.cost_usd) for plan in front if plan.predicted is not None]
    assert len(found) == len(front) >= 3
    assert found == sorted(found)
    assert [usd for _, usd in found] == sorted((usd for _, usd in found), reverse=True)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"objective": "speed"}, "objective"),
        ({"objective": 1.5}, "objective"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"budget_usd": -1.0}, "budget_usd"),
        ({"max_workers": 0}, "max_workers"),
        ({"max_workers": 2.5}, "max_workers"),
        ({"configurations": []}, "configurations"),
        ({"configurations": [512]}, "configurations"),
        ({"time_s": -1}, "time_s"),
        ({"optimizations": "pre-load"}, "optimizations"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, object], named: str) -> None:
    with pytest.raises(PlanError, match=rf"AutoPlanner.*{named}"):
        AutoPlanner(**settings)  # type: ignore[arg-type]


def test_a_deadline_that_nothing_keeps_gives_the_closest_plan(caplog: pytest.LogCaptureFixture) -> None:
    outlook = outlook_of(fan(4), 10.0)
    with caplog.at_level(logging.WARNING):
        plan = AutoPlanner("cost", deadline_s=1.0).plan(outlook.graph, outlook)
    quick = outlook.simulate(AutoPlanner().plan(outlook.graph, outlook))
    assert outlook.simulate(plan).makespan_s <= quick.makespan_s * 1.01
    assert "keeps to deadline_s=1, and the run is expected to take" in caplog.text
