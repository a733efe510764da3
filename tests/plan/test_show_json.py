"""A plan as JSON keeps everything that can be written, and nothing else."""

import json
import math
from typing import Any

import msgspec
import pytest

from augury import PlanError
from augury.plan.hints import OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.plan import Plan
from tests.plan.showing import LARGE, SMALL, fan, from_text, named_graph, planned

GRAPH = named_graph(("load", ()), ("total", [0]))


def rich(data: dict[str, Any] | None = None) -> Plan:
    """A plan with something in every field."""
    return planned(
        GRAPH,
        [0, None],
        hints={
            0: (PreWarmHint(LARGE, 2, 0.25), TaskDupHint(0.5, 1.5)),
            1: (PreLoadHint(), OwnHint("mine", data or {"x": [1, "two", None, 2.5]})),
        },
        launch=(PreWarmHint(SMALL, 3),),
        ranks=(1, 0),
        policies={"mine": b"\x00\xff"},
    )


def test_everything_comes_back_with_what_was_predicted() -> None:
    plan = rich()
    again = from_text(plan)
    assert again == plan
    assert (again.hints, again.launch, again.ranks, again.policies) == (
        *(plan.hints, plan.launch, plan.ranks, plan.policies),
    )
    assert again.predicted == plan.predicted
    assert again.predicted is not None


def test_the_workflow_and_the_outlook_stay_at_home() -> None:
    again = from_text(rich())
    assert (again.graph, again.outlook) == (None, None)
    assert "outlook" not in rich().to_json()


def test_infinite_times_come_back() -> None:
    plan = rich()
    assert plan.predicted is not None
    timeline = msgspec.structs.replace(plan.predicted.timeline, end_s=[math.inf, 1.0], ready_s=[-math.inf, 0.0])
    predicted = msgspec.structs.replace(plan.predicted, makespan_s=math.inf, timeline=timeline)
    endless = msgspec.structs.replace(plan, predicted=predicted)
    assert from_text(endless) == endless
    assert json.loads(endless.to_json())["predicted"]["makespan_s"] == "inf"


def test_nan_comes_back() -> None:
    plan = rich()
    assert plan.predicted is not None
    unknown = msgspec.structs.replace(plan, predicted=msgspec.structs.replace(plan.predicted, cost_usd=math.nan))
    again = from_text(unknown).predicted
    assert again is not None
    assert math.isnan(again.cost_usd)


@pytest.mark.parametrize(
    "data",
    [
        {"x": math.inf, "deep": [{"y": -math.inf}, [math.inf, 1]]},
        {"x": "inf"},
        {"float": "inf"},
        {"float": math.inf},
        {"float": {"float": "inf"}},
        {"float": 1.5},
        {"float": [math.inf], "other": "nan"},
    ],
)
def test_what_users_put_into_hints_comes_back(data: dict[str, Any]) -> None:
    assert from_text(rich(data)) == rich(data)


def test_it_is_json_that_others_can_read() -> None:
    def refuse(name: str) -> None:
        pytest.fail(f"{name} is not JSON")

    json.loads(rich({"x": math.inf}).to_json(), parse_constant=refuse)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"worker":0', '"worker":"0"'), ('"planner":"by hand"', '"planner":7'), ('"ranks":[1,0]', '"ranks":["inf"]')],
)
def test_a_plan_with_something_else_in_a_field_is_refused(old: str, new: str) -> None:
    text = rich().to_json()
    assert old in text
    with pytest.raises(PlanError, match="this is not a plan"):
        Plan.from_json(text.replace(old, new))


def test_a_plan_from_text_can_be_printed_and_drawn_as_before() -> None:
    plan = fan(5)
    assert str(from_text(plan)).splitlines()[0] == str(plan).splitlines()[0]
    assert from_text(plan).timeline().height == plan.timeline().height
