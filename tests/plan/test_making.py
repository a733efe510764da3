"""From an outlook to a plan: the planner, the optimizations, the forecast."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from augury import task
from augury.config import Resources
from augury.dag.graph import Graph, build_workflow
from augury.errors import DefinitionError, PlanError
from augury.plan.hints import Hint, PreLoadHint, PreWarmHint
from augury.plan.making import forced_optimizations, instance_of, make_plan
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Optimization, Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner
from augury.plan.predictions import FixedPredictions
from augury.plan.timeline import Simulation
from tests.plan.graphs import graph_of

FREE = PlatformModel(timing=Timing(cold_start_s=0.0, warm_start_s=0.0, latency_s=0.0), flush_s=0.0)
LARGE = Resources(memory_mb=4096)


class Marking:
    """Hints for all tasks, or for those of some ids; remembers what it was told to force."""

    def __init__(self, name: str = "mark", tasks: Sequence[int] | None = None, hint: Hint | None = None) -> None:
        self.name = name
        self.tasks = tasks
        self.hint = PreLoadHint() if hint is None else hint
        self.forced: list[Sequence[int]] = []

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        self.forced.append(forced)
        tasks = range(len(plan.assignments)) if self.tasks is None else self.tasks
        hints = {task: (*plan.hints.get(task, ()), self.hint) for task in {*tasks, *forced}}
        return msgspec.structs.replace(plan, hints={**plan.hints, **hints})


class PreLoading(Marking):
    """One that can be given as its class."""


class Idle:
    name = "idle"

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        return plan


class Planning:
    """A planner of the user's, with a forecast of its own."""

    name = "own"

    def __init__(self, optimizations: Sequence[Any] = (), memory_mb: int = 2048) -> None:
        self.optimizations = optimizations
        self.memory_mb = memory_mb

    def plan(self, graph: Graph, outlook: Outlook) -> Plan:
        one = Assignment(worker=0, resources=Resources(memory_mb=self.memory_mb))
        plan = Plan(fingerprint=graph.fingerprint, planner=self.name, assignments=(one,) * len(graph))
        return msgspec.structs.replace(plan, predicted=outlook.simulate(plan))


class OnlyGraph:
    """One that knows of no outlook."""

    name = "only graph"

    def plan(self, graph: Graph) -> Plan:
        return WukongPlanner().plan(graph)


#     0
#    ┌┴┐
#    1 2         1 was declared to need 700 MB
#    └┬┘
#     3
DIAMOND = graph_of((), (0,), (0,), (1, 2), memory_mb={1: 700})


def outlook(forced: dict[int, Sequence[Optimization]] | None = None) -> Outlook:
    """Of the diamond; its function 1 is that of task 1 alone."""
    return Outlook(DIAMOND, FixedPredictions(1.0), FREE, forced=forced)


def hinted(plan: Plan) -> list[int]:
    return sorted(plan.hints)


# The planner


def test_a_plan_comes_with_its_forecast_graph_and_outlook() -> None:
    seen = outlook()
    plan = make_plan(UniformPlanner(), seen)
    assert plan.predicted is not None
    assert plan.predicted.makespan_s == pytest.approx(4.0, abs=0.01)
    assert plan.graph is DIAMOND
    assert plan.outlook is seen


def test_a_planner_that_takes_only_the_graph_still_works() -> None:
    plan = make_plan(OnlyGraph(), outlook())  # type: ignore[arg-type]
    assert plan.planner == "wukong"
    assert plan.predicted is not None


def test_a_forecast_that_the_planner_made_is_kept() -> None:
    made: list[Plan] = []

    class Remembering(Planning):
        def plan(self, graph: Graph, outlook: Outlook) -> Plan:
            made.append(super().plan(graph, outlook))
            return made[-1]

    assert make_plan(Remembering(), outlook()).predicted is made[0].predicted


def test_what_is_no_plan_is_refused() -> None:
    class Lazy(Planning):
        def plan(self, graph: Graph, outlook: Outlook) -> Any:
            return None

    with pytest.raises(PlanError, match="the planner own gave None, which is not a Plan"):
        make_plan(Lazy(), outlook())


@pytest.mark.parametrize("planner", [Planning(memory_mb=512), type("Bare", (Planning,), {})(memory_mb=512)])
def test_a_plan_that_does_not_fit_is_refused(planner: Planning) -> None:
    with pytest.raises(PlanError, match="needs at least 700 MB"):
        make_plan(planner, outlook())


# Optimizations of the planner


def test_optimizations_are_applied_in_their_order() -> None:
    first, second = Marking("first", [0, 1]), Marking("second", [1], PreWarmHint(LARGE))
    plan = make_plan(UniformPlanner(optimizations=[first, second]), outlook())
    assert plan.hints == {0: (PreLoadHint(),), 1: (PreLoadHint(), PreWarmHint(LARGE))}
    assert first.forced == second.forced == [[]]


def test_optimizations_may_be_given_as_classes() -> None:
    assert hinted(make_plan(Planning([PreLoading]), outlook())) == [0, 1, 2, 3]


class Watching(Outlook):
    """Remembers which plans were simulated."""

    def __init__(self) -> None:
        super().__init__(DIAMOND, FixedPredictions(1.0), FREE)
        self.simulated: list[Plan] = []

    def simulate(self, plan: Plan) -> Simulation:
        self.simulated.append(plan)
        return super().simulate(plan)


def test_a_forecast_without_the_optimization_counts_no_more() -> None:
    idle, marked = Watching(), Watching()
    make_plan(Planning([Idle()]), idle)
    make_plan(Planning([Marking(tasks=[2])]), marked)
    assert [hinted(plan) for plan in idle.simulated] == [[]], "that of the planner still holds"
    assert [hinted(plan) for plan in marked.simulated] == [[], [2]]


def test_an_optimization_that_gives_no_plan_is_refused() -> None:
    class Broken(Idle):
        def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Any:
            return [plan]

    with pytest.raises(PlanError, match=r"the optimization idle gave .*, which is not a Plan"):
        make_plan(Planning([Broken()]), outlook())


@pytest.mark.parametrize("given", [5, "pre-load", object, Resources()])
def test_what_is_no_optimization_is_refused(given: Any) -> None:
    with pytest.raises(DefinitionError, match=r"here: each of optimizations must have a name and an assign\("):
        instance_of(given, "here")


def test_a_class_that_needs_settings_is_refused_without() -> None:
    class Demanding(Idle):
        def __init__(self, threshold: int) -> None:
            self.threshold = threshold

    with pytest.raises(DefinitionError, match="here: Demanding must be given with its settings"):
        instance_of(Demanding, "here")


# Optimizations that tasks demand


def test_tasks_that_demand_an_optimization_of_the_planner_are_forced() -> None:
    chosen = Marking("mark", [0])
    plan = make_plan(UniformPlanner(optimizations=[chosen]), outlook({1: [Marking("mark")]}))
    assert chosen.forced == [[1]]
    assert hinted(plan) == [0, 1]


def test_what_only_tasks_demand_is_for_them_alone() -> None:
    demanded = Marking("mark")
    plan = make_plan(UniformPlanner(), outlook({1: [demanded]}))
    assert demanded.forced == [[1]]
    assert hinted(plan) == [1]


def test_hints_of_others_stay() -> None:
    plan = make_plan(UniformPlanner(optimizations=[Marking("other", [0, 3])]), outlook({1: [Marking("mark")]}))
    assert hinted(plan) == [0, 1, 3]


def test_pre_warming_that_a_task_demands_stands_elsewhere() -> None:
    # 0 has the environments made that 1 needs; those are like all others here. Larger ones nobody asked for.
    own = make_plan(UniformPlanner(), outlook()).assignments[1].resources
    useful, useless = Marking("warm", [0], PreWarmHint(own)), Marking("warm", [0], PreWarmHint(LARGE))
    assert hinted(make_plan(UniformPlanner(), outlook({1: [useful]}))) == [0, 1]
    assert hinted(make_plan(UniformPlanner(), outlook({1: [useless]}))) == [1]


def test_functions_tell_what_their_tasks_demand() -> None:
    idle = Idle()

    @task(optimizations=[idle, PreLoading])
    def one(x: int) -> int:
        return x

    @task
    def two(x: int) -> int:
        return x

    forced = forced_optimizations(build_workflow(one(two(1))).functions)
    assert list(forced) == [1]
    assert forced[1][0] is idle
    assert isinstance(forced[1][1], PreLoading)


def test_a_function_that_demands_something_else_is_named() -> None:
    @task(optimizations=["fast"])
    def odd(x: int) -> int:
        return x

    with pytest.raises(DefinitionError, match="@task on odd: each of optimizations must have a name"):
        forced_optimizations(build_workflow(odd(1)).functions)
