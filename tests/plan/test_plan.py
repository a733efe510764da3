"""Plans are values: they fit a workflow or say why not, and survive being written down."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from augury.config import Resources
from augury.dag.flat import pack
from augury.dag.graph import build_workflow
from augury.errors import PlanError
from augury.plan.hints import OwnHint
from augury.plan.plan import Assignment, Plan, fit_memory
from tests.plan.graphs import graph_of
from tests.strategies import plans, workflows

SMALL = Resources(cpus=1, memory_mb=128)
LARGE = Resources(cpus=2, memory_mb=1024)
GRAPH = graph_of((), (), (0, 1), memory_mb={1: 256})


def plan_of(*assignments: Assignment, fingerprint: str = GRAPH.fingerprint) -> Plan:
    return Plan(fingerprint=fingerprint, planner="test", assignments=assignments)


# ── validation ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_with_planned_and_flexible_tasks_fits() -> None:
    plan_of(Assignment(0, SMALL), Assignment(None, LARGE), Assignment(0, SMALL)).validate(GRAPH)


def test_flexible_tasks_may_have_resources_of_their_own() -> None:
    plan_of(Assignment(None, SMALL), Assignment(None, LARGE), Assignment(None, Resources())).validate(GRAPH)


def test_worker_ids_may_have_gaps() -> None:
    plan_of(Assignment(7, SMALL), Assignment(99, LARGE), Assignment(7, SMALL)).validate(GRAPH)


def test_a_plan_for_another_workflow_is_refused() -> None:
    plan = plan_of(*[Assignment()] * 3, fingerprint="0123456789abcdef")
    with pytest.raises(PlanError, match=rf"made for another workflow \(01234567, not {GRAPH.fingerprint[:8]}\)"):
        plan.validate(GRAPH)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_plan_with_another_number_of_tasks_is_refused(count: int) -> None:
    with pytest.raises(PlanError, match=f"the plan has {count} assignments for 3 tasks"):
        plan_of(*[Assignment(None, LARGE)] * count).validate(GRAPH)


@pytest.mark.parametrize("worker", [None, 1])
def test_less_memory_than_a_task_needs_is_refused(worker: int | None) -> None:
    with pytest.raises(PlanError, match=r"g1\[0\] needs at least 256 MB and the plan gives it 128 MB"):
        plan_of(Assignment(0, SMALL), Assignment(worker, SMALL), Assignment(0, SMALL)).validate(GRAPH)


def test_negative_workers_are_refused() -> None:
    with pytest.raises(PlanError, match=r"f\[0\] is on worker -1; worker ids are not negative"):
        plan_of(Assignment(-1, SMALL), Assignment(1, LARGE), Assignment(0, SMALL)).validate(GRAPH)


def test_a_worker_with_two_configurations_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"worker 4 has Resources\(.*\) and, for f\[1\], Resources\(.*one configuration"
    ):
        plan_of(Assignment(4, SMALL), Assignment(1, LARGE), Assignment(4, LARGE)).validate(GRAPH)


@settings(max_examples=50, deadline=None)
@given(workflows(max_tasks=8), st.data())
def test_random_plans_fit_their_workflow(outputs: Any, data: st.DataObject) -> None:
    graph = build_workflow(outputs).graph
    data.draw(plans(graph)).validate(graph)


# ── writing down ───────────────────────────────────────────────────────────────────────────────────────────────

resources = st.builds(Resources, cpus=st.floats(0.01, 64), memory_mb=st.integers(1, 10_240))
assignments = st.builds(Assignment, worker=st.none() | st.integers(0, 5) | st.integers(0, 2**40), resources=resources)
any_plan = st.builds(
    Plan,
    fingerprint=st.text(),
    planner=st.text(),
    assignments=st.lists(assignments, max_size=4).flatmap(
        lambda few: st.lists(st.sampled_from(few), max_size=20).map(tuple) if few else st.just(())
    ),
)


@settings(deadline=None)
@given(any_plan)
def test_a_plan_survives_json(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json(plan.to_json().encode()) == plan


@settings(deadline=None)
@given(any_plan)
def test_a_plan_survives_encoding(plan: Plan) -> None:
    assert Plan.decode(plan.encode()) == plan


def test_plans_of_equal_content_are_equal_and_written_alike() -> None:
    one = plan_of(Assignment(0, Resources(1, 128)), Assignment(0, Resources(1, 128)))
    same = Assignment(0, SMALL)
    other = plan_of(same, same)
    assert one == other
    assert one.to_json() == other.to_json()
    assert one.encode() == other.encode()


def test_each_assignment_is_written_once() -> None:
    plan = plan_of(Assignment(0, SMALL), Assignment(1, LARGE), Assignment(0, SMALL))
    written = json.loads(plan.to_json())
    assert written["assignments"] == [
        {"worker": 0, "resources": {"cpus": 1, "memory_mb": 128}},
        {"worker": 1, "resources": {"cpus": 2, "memory_mb": 1024}},
    ]
    assert written["tasks"] == [0, 1, 0]


def test_a_hundred_thousand_flexible_tasks_take_two_bytes_each() -> None:
    plan = plan_of(*[Assignment()] * 100_000)
    assert len(plan.to_json()) < 201_000
    assert len(plan.encode()) < 101_000


WRITTEN: dict[str, Any] = {
    "fingerprint": "f",
    "planner": "p",
    "assignments": [{"worker": 0, "resources": {"cpus": 1, "memory_mb": 128}}],
    "tasks": [0],
}


@pytest.mark.parametrize(
    "change",
    [
        {"tasks": [1]},
        {"tasks": [-1]},
        {"tasks": ["0"]},
        {"tasks": None},
        {"assignments": []},
        {"assignments": [{"worker": "x"}]},
        {"assignments": [{"resources": {"cpus": -1}}]},
        {"assignments": [{"resources": {"memory_mb": 0}}]},
        {"fingerprint": 3},
        {"unknown": 1},
    ],
)
def test_what_is_not_a_plan_is_refused(change: dict[str, Any]) -> None:
    assert Plan.from_json(json.dumps(WRITTEN)).assignments == (Assignment(0, SMALL),)
    with pytest.raises(PlanError):
        Plan.from_json(json.dumps({**WRITTEN, **change}))


FOR_WORKERS: list[Any] = [
    *("f", "p", [{"cpus": 1, "memory_mb": 128}]),
    *(pack([1, 0]), pack([0, 0]), pack([0, 1])),
]
"""Fingerprint, planner, resources; of distinct assignments worker (plus 1) and resources; which one each task has."""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (0, 3),
        (2, [{"cpus": -1}]),
        (2, [{"memory_mb": 0}]),
        (2, []),
        (3, pack([1])),
        (3, b"Hxyz"),
        (3, b"x"),
        (3, b""),
        (3, [1, 0]),
        (4, pack([0, 1])),
        (4, pack([])),
        (5, pack([2, 0])),
        (5, None),
    ],
)
def test_what_workers_cannot_read_as_a_plan_is_refused(field: int, value: Any) -> None:
    read = Plan.decode(msgspec.msgpack.encode(FOR_WORKERS))
    assert list(read.assignments) == [Assignment(0, SMALL), Assignment(None, SMALL)]
    with pytest.raises(PlanError):
        Plan.decode(msgspec.msgpack.encode([*FOR_WORKERS[:field], value, *FOR_WORKERS[field + 1 :]]))


@pytest.mark.parametrize("text", ["", "garbage", "[]", "3", b"\xff\xfe", "\ud800", "{}"])
def test_what_is_not_even_json_of_a_plan_is_refused(text: str | bytes) -> None:
    with pytest.raises(PlanError, match="this is not a plan"):
        Plan.from_json(text)


DEEP = 100_000


def test_a_hint_that_is_nested_too_deeply_is_refused() -> None:
    hinted = msgspec.structs.replace(plan_of(Assignment()), hints={0: (OwnHint("warm", {"x": 7}),)})
    with pytest.raises(PlanError, match="this is not a plan"):
        Plan.from_json(hinted.to_json().replace(":7}", ":" + "[" * DEEP + "]" * DEEP + "}"))
    with pytest.raises(PlanError, match="not the bytes of a plan"):
        Plan.decode(hinted.encode().replace(b"\xa1x\x07", b"\xa1x" + b"\x91" * DEEP + b"\x07"))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100))
@example(b"\x81\xa8\x00\x00\x00\x00\x00\x00\x00\x80")  # a key that is not UTF-8
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(PlanError, match="not the bytes of a plan"):
        Plan.decode(data)
    with pytest.raises(PlanError, match="this is not a plan"):
        Plan.from_json(data)


# ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tasks", "memory_mb"), [([], 128), ([0], 128), ([1], 256), ([0, 1, 2], 256)], ids=["none", "small", "one", "all"]
)
def test_memory_is_raised_to_what_the_tasks_need(tasks: list[int], memory_mb: int) -> None:
    assert fit_memory(SMALL, GRAPH, tasks) == Resources(cpus=1, memory_mb=memory_mb)


def test_memory_that_is_enough_is_left_alone() -> None:
    assert fit_memory(LARGE, GRAPH, [0, 1, 2]) is LARGE
