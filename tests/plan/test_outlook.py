"""What a planner sees."""

from collections.abc import Sequence

import pytest

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.predictions import FixedPredictions
from augury.predict.sla import SLA, Percentile
from augury.predict.unlearned import Priors
from augury.predict.workflow import WorkflowPredictions
from tests.plan.graphs import graph_of

HERE = Resources(1, 1024)
#   0 ──▶ 1 ──▶ 2        1 was declared to need 700 MB
CHAIN = graph_of((), (0,), (1,), memory_mb={1: 700})


class Short(FixedPredictions):
    """Leaves tasks out."""

    def execution_s(self, graph: Graph, resources: Resources) -> Sequence[float]:
        return [1.0]

    def output_bytes(self, graph: Graph) -> Sequence[float]:
        return [1.0]


class Counting(FixedPredictions):
    asked = 0

    def execution_s(self, graph: Graph, resources: Resources) -> Sequence[float]:
        self.asked += 1
        return super().execution_s(graph, resources)


def test_a_task_needs_what_was_declared_or_is_expected_whichever_is_more() -> None:
    assert Outlook(CHAIN, FixedPredictions(peak_mb=600.5)).least_memory_mb == [601, 700, 601]
    assert Outlook(CHAIN, FixedPredictions(peak_mb=900)).least_memory_mb == [900, 900, 900]
    assert Outlook(CHAIN, FixedPredictions()).least_memory_mb == [0, 700, 0]


def test_the_same_is_asked_once() -> None:
    predictions = Counting(1.0)
    outlook = Outlook(CHAIN, predictions)
    for _ in range(3):
        outlook.execution_s(HERE)
        outlook.execution_s(Resources(2, 2048))
    assert predictions.asked == 2


def test_predictions_that_leave_tasks_out_are_refused() -> None:
    outlook = Outlook(CHAIN, Short())
    with pytest.raises(PlanError, match=r"Short\.execution_s gave 1 numbers for 3 tasks"):
        outlook.execution_s(HERE)
    with pytest.raises(PlanError, match=r"Short\.output_bytes gave 1 numbers for 3 tasks"):
        _ = outlook.output_bytes


def test_more_caution_holds_for_tasks_and_platform() -> None:
    def platform(sla: SLA) -> PlatformModel:
        return PlatformModel.measured(Priors(), sla=sla)

    usual = Outlook(CHAIN, WorkflowPredictions(Priors()), platform)
    careful = usual.at(Percentile(95))
    assert careful.sla == Percentile(95)
    assert careful.execution_s(HERE)[0] > usual.execution_s(HERE)[0]
    assert careful.platform.timing.cold_start_s > usual.platform.timing.cold_start_s == 0.25
    assert careful.at("median").execution_s(HERE) == usual.execution_s(HERE)


def test_a_platform_by_hand_is_the_same_for_all() -> None:
    model = PlatformModel(timing=Timing(cold_start_s=3.0))
    assert Outlook(CHAIN, platform=model).at(Percentile(95)).platform is model


def test_a_plan_is_simulated_with_what_is_expected() -> None:
    free = PlatformModel(timing=Timing(cold_start_s=5.0, latency_s=0.0))
    outlook = Outlook(CHAIN, FixedPredictions({0: 1.0, 1: 2.0, 2: 4.0}), free)
    predicted = outlook.simulate(UniformPlanner().plan(CHAIN, outlook))
    assert predicted.makespan_s == pytest.approx(12.0, abs=0.01)
    assert predicted.critical_path == (0, 1, 2)


def test_without_a_clock_no_time_passes() -> None:
    assert Outlook(CHAIN).clock() == Outlook(CHAIN).clock()
    assert Outlook(CHAIN, clock=lambda: 5.0).at("average").clock() == 5.0
