"""Flexible workers of one configuration, with as much memory as each function needs."""

from typing import Any

import pytest

from augury.config import Resources
from augury.errors import PlanError
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.planners.wukong import WukongPlanner
from augury.plan.predictions import FixedPredictions
from tests.plan.graphs import graph_of

SMALL = Resources(cpus=2, memory_mb=128)


class DoNothing:
    name = "nothing"

    def assign(self, plan: Plan, outlook: Outlook, forced: Any) -> Plan:
        return plan


def test_predictions_leave_every_task_flexible() -> None:
    #   0 ──▶ 1 ──▶ 2
    graph = graph_of((), (0,), (1,))
    outlook = Outlook(graph, FixedPredictions(lambda task, _: 1.0 + task, 1e9))
    plan = WukongPlanner(SMALL).plan(graph, outlook)
    plan.validate(graph)
    assert plan.assignments == (Assignment(None, SMALL),) * 3


def test_a_function_gets_the_memory_that_the_most_demanding_of_its_tasks_is_expected_to_need() -> None:
    #   0 f(50 MB)    1 g(300 MB, declared 200)    2 f(200.5 MB)    3 h(declared 400)
    graph = graph_of((), (), (), (), memory_mb={1: 200, 3: 400})
    outlook = Outlook(graph, FixedPredictions(peak_mb={0: 50, 1: 300, 2: 200.5, 3: 10}))
    plan = WukongPlanner(SMALL).plan(graph, outlook)
    plan.validate(graph)
    assert [a.resources for a in plan.assignments] == [Resources(cpus=2, memory_mb=mb) for mb in (201, 300, 201, 400)]


def test_tasks_of_one_function_share_one_assignment() -> None:
    graph = graph_of((), (), ())
    plan = WukongPlanner(SMALL).plan(graph, Outlook(graph))
    assert len(set(map(id, plan.assignments))) == 1


def test_optimizations_are_kept_for_whoever_applies_them() -> None:
    wanted = DoNothing()
    assert WukongPlanner(optimizations=[wanted]).optimizations == (wanted,)
    assert WukongPlanner().optimizations == ()


@pytest.mark.parametrize("optimizations", [DoNothing, "pre-load", 3, [DoNothing], [DoNothing(), "pre-load"], [None]])
def test_what_is_no_optimization_is_refused(optimizations: Any) -> None:
    with pytest.raises(PlanError, match=r"WukongPlanner: .*optimizations must be"):
        WukongPlanner(optimizations=optimizations)


@pytest.mark.parametrize("resources", [128, "small", Resources, [SMALL]])
def test_what_are_no_resources_is_refused(resources: Any) -> None:
    with pytest.raises(PlanError, match=r"WukongPlanner: resources must be Resources\("):
        WukongPlanner(resources)
