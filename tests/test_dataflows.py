"""The names of the Serverless Dataflows paper, and what they stand for."""

from typing import Any, cast

import pytest

from augury import (
    DefinitionError,
    FixedPredictions,
    Percentile,
    PlanError,
    PlatformModel,
    PreLoad,
    PreLoadHint,
    PreWarm,
    Resources,
    TaskDup,
    dataflows,
)
from augury.dag.graph import build_workflow
from augury.plan.making import forced_optimizations
from augury.plan.planners.nonuniform import NonUniformPlanner
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner

SMALL, LARGE = Resources(1, 512), Resources(2, 4096)


@dataflows.DAGTask
def add(x: int) -> int:
    return x + 1


def test_optimizations_are_augurys_own() -> None:
    assert dataflows.PreLoadOptimization is PreLoad
    assert dataflows.PreWarmOptimization is PreWarm
    assert dataflows.TaskDupOptimization is TaskDup


def test_a_uniform_planner_has_what_its_config_says() -> None:
    chosen = [dataflows.PreLoadOptimization, dataflows.TaskDupOptimization()]
    planner = dataflows.UniformPlanner.Config(worker_resource_configuration=SMALL, optimizations=chosen).planner()
    assert isinstance(planner, UniformPlanner)
    assert planner.resources == SMALL
    assert [type(one) for one in planner.optimizations] == [PreLoad, TaskDup]


def test_a_wukong_planner_has_what_its_config_says() -> None:
    planner = dataflows.WukongPlanner.Config("median", LARGE, [dataflows.PreWarmOptimization]).planner()
    assert isinstance(planner, WukongPlanner)
    assert planner.resources == LARGE
    assert [type(one) for one in planner.optimizations] == [PreWarm]


def test_a_non_uniform_planner_has_several_configurations() -> None:
    planner = dataflows.NonUniformPlanner.Config("median", [LARGE, SMALL], [dataflows.PreLoadOptimization]).planner()
    assert isinstance(planner, NonUniformPlanner)
    assert planner.configurations == (SMALL, LARGE)
    assert [type(one) for one in planner.optimizations] == [PreLoad]


def test_optimizations_can_be_demanded_for_tasks() -> None:
    @dataflows.DAGTask(forced_optimizations=[dataflows.PreLoadOptimization()])
    def one(x: int) -> int:
        return x

    @dataflows.DAGTask
    def two(x: int) -> int:
        return x

    forced = forced_optimizations(build_workflow(two(one(1))).functions)
    assert {index: [type(one) for one in demanded] for index, demanded in forced.items()} == {0: [PreLoad]}


@dataflows.DAGTask(forced_optimizations=[dataflows.PreLoadOptimization()])
def gather(*parts: int) -> int:
    return sum(parts)


@dataflows.DAGTask
def total(*parts: int) -> int:
    return sum(parts)


def planned(outputs: Any, config: Any) -> dict[int, Any]:
    """The hints of a plan for what is known by hand."""
    plan = outputs.plan(config.planner(), predictions=FixedPredictions(1.0, 1e6), platform=PlatformModel())
    return dict(plan.hints)


def test_the_optimizations_of_a_config_are_applied() -> None:
    #   add × 16, four on each worker ──▶ total: twelve inputs come from other workers
    parts = [add(index) for index in range(16)]
    assert planned(total(*parts), dataflows.UniformPlanner.Config()) == {}
    config = dataflows.UniformPlanner.Config(optimizations=[dataflows.PreLoadOptimization])
    assert planned(total(*parts), config) == {16: (PreLoadHint(),)}


def test_optimizations_that_tasks_demand_are_applied() -> None:
    #   add × 8, four on each worker ──▶ gather, which demands to be pre-loaded ──▶ add
    parts = [add(index) for index in range(8)]
    assert planned(add(gather(*parts)), dataflows.UniformPlanner.Config()) == {8: (PreLoadHint(),)}
    assert planned(add(total(*parts)), dataflows.UniformPlanner.Config()) == {}


class Recording:
    """A client that plans and runs nothing."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def plan(self, outputs: Any, planner: Any, **options: Any) -> Any:
        self.asked.append({"planner": planner.name, **options})

    def compute(self, outputs: Any, **options: Any) -> int:
        return 7


def test_the_sla_and_the_name_reach_the_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Recording()
    monkeypatch.setattr(dataflows, "current_client", lambda: client)
    config = dataflows.Worker.Config(planner_config=dataflows.UniformPlanner.Config(sla=Percentile(95)))
    assert add(1).compute(dag_name="nightly", config=config) == 7
    assert client.asked == [{"planner": "uniform", "sla": Percentile(95), "name": "nightly"}]


@pytest.mark.parametrize(
    ("config", "error", "text"),
    [
        (5, DefinitionError, r"Worker.Config\(planner_config=…\) must be the Config of a planner.* not 5"),
        (dataflows.UniformPlanner.Config, DefinitionError, r"Worker.Config\(planner_config=…\)"),
        (dataflows.UniformPlanner.Config(optimizations=cast("Any", "fast")), DefinitionError, "optimizations=…"),
        (dataflows.WukongPlanner.Config(optimizations=[5]), DefinitionError, r"WukongPlanner.Config: each of"),
        (dataflows.UniformPlanner.Config("median", cast("Any", 512)), PlanError, "resources must be Resources"),
        (dataflows.NonUniformPlanner.Config("median", []), PlanError, "configurations must be a list"),
        (dataflows.UniformPlanner.Config(sla="p95"), DefinitionError, "unknown SLA 'p95'"),
    ],
)
def test_a_wrong_configuration_is_named(config: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        add(1).compute(config=dataflows.Worker.Config(planner_config=config))
