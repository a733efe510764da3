"""Hints on real workers: what they ask for is done, and results stay what they are."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from augury import Client, Embedded, PlanError, Resources, task
from augury.dag.graph import Graph, build_workflow
from augury.invoke.embedded.cloud import Constant, Emulation
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.plan.hints import OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.plan import Assignment, Plan
from augury.worker.policies import Action, Policy, PreWarm, packed
from augury.worker.view import RunView
from tests.embedded.witness import HANDLER, ROOT, value_of
from tests.invoke.stage import settle
from tests.strategies import evaluate, hinted_plans, same, workflows

BIG = Resources(memory_mb=2 * Resources().memory_mb)
AT_ONCE = TaskDupHint(produce_s=0.0, arrives_s=0.0)


@task
def number(value: int) -> int:
    return value


@task
def total(*values: Any) -> int:
    return sum(value if isinstance(value, int) else len(value) for value in values)


@task
def large(size_bytes: int) -> bytes:
    return b"x" * size_bytes


@task
def hangs_once(folder: str) -> int:
    """Whoever comes first hangs, unless it is stopped."""
    try:
        os.close(os.open(Path(folder) / "taken", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return 1
    try:
        time.sleep(600)
    finally:
        (Path(folder) / "stopped").touch()
    return -1


def plan_of(outputs: Any, workers: Mapping[int, int], resources: Resources | None = None, **more: Any) -> Plan:
    graph = build_workflow(outputs).graph
    assignments = tuple(Assignment(workers.get(one), resources or Resources()) for one in range(len(graph)))
    return Plan(fingerprint=graph.fingerprint, planner="by hand", assignments=assignments, **more)


@pytest.fixture(scope="module")
def platform() -> Iterator[EmbeddedPlatform]:
    emulation = Emulation(cold_start=Constant(0.05))
    with Embedded(slots=4, emulation=emulation, handler=HANDLER, sys_path=(ROOT,)).start() as platform:
        yield platform


@pytest.fixture(scope="module")
def client(platform: EmbeddedPlatform) -> Iterator[Client]:
    redis, url, token = platform.storage_config.redis, platform.url, platform.token
    with Client(redis=redis, gateway=url, token=token, observers=[]) as client:
        yield client


class WarmAtTheEnd(Policy):
    """A user's policy: when a task ends, have an environment made ready of the size that its hint names."""

    def __init__(self, view: RunView, worker: str) -> None:
        self._view = view

    def finished(self, task: int, now_s: float) -> Iterator[Action]:
        for hint in self._view.hints_of(task, OwnHint):
            yield PreWarm(Resources(memory_mb=hint.data["memory_mb"]))


class TestPreWarming:
    def test_the_next_worker_of_these_resources_starts_warm(self, platform: EmbeddedPlatform, client: Client) -> None:
        first, second = number(1), number(2)
        hints = {0: (PreWarmHint(BIG, 2),)}
        assert client.submit(first, plan=plan_of(first, {0: 0}, hints=hints)).result(timeout=30) == 1
        before = settle(platform, idle=3)
        assert before["prewarmed"] == 2
        assert client.submit(second, plan=plan_of(second, {0: 0}, BIG)).result(timeout=30) == 2
        after = settle(platform, idle=3)
        assert (after["cold_starts"], after["warm_starts"]) == (before["cold_starts"], before["warm_starts"] + 1)

    def test_a_policy_of_the_user_may_ask_for_it(self, platform: EmbeddedPlatform, client: Client) -> None:
        before = platform.gateway().status()["prewarmed"]
        outputs = number(3)
        hints = {0: (OwnHint("warm", {"memory_mb": 777}),)}
        plan = plan_of(outputs, {0: 0}, hints=hints, policies={"warm": packed(WarmAtTheEnd)})
        assert client.submit(outputs, plan=plan).result(timeout=30) == 3
        assert settle(platform, running=0)["prewarmed"] == before + 1


class TestDuplicates:
    """
    0 ───┐
         ├─ 2      w0: 0, which hangs once      w1: 1, 2
    1 ───┘
    """

    @pytest.mark.parametrize("cpus", [1, 2])
    def test_a_worker_that_hangs_is_overtaken(self, client: Client, tmp_path: Path, cpus: int) -> None:
        outputs = total(hangs_once(str(tmp_path)), number(2))
        plan = plan_of(outputs, {0: 0, 1: 1, 2: 1}, Resources(cpus=cpus), hints={0: (AT_ONCE,)})
        assert client.submit(outputs, plan=plan).result(timeout=60) == 3

    def test_whoever_was_slower_stops_and_leaves(self, client: Client, tmp_path: Path) -> None:
        outputs = total(hangs_once(str(tmp_path)), number(2))
        plan = plan_of(outputs, {0: 0, 1: 1, 2: 1}, hints={0: (AT_ONCE,)})
        run = client.submit(outputs, plan=plan)
        assert run.result(timeout=60) == 3
        assert run.report(timeout=60).tasks == 3
        assert (tmp_path / "stopped").exists()


def test_large_inputs_may_be_loaded_early(client: Client) -> None:
    """0, 1 → 2      w0: 0      w1: 1, 2"""
    outputs = total(large(1_000_000), large(500_000))
    plan = plan_of(outputs, {0: 0, 1: 1, 2: 1}, hints={2: (PreLoadHint(),)})
    assert client.submit(outputs, plan=plan).result(timeout=30) == 1_500_000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"fingerprint": "0" * 32}, "made for another workflow"), ({"ranks": (1, 2, 3, 4)}, "4 ranks for 1 tasks")],
)
def test_workers_refuse_a_plan_that_does_not_fit(
    client: Client, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(Plan, "validate", lambda *_: None)  # for the client, not for workers
    outputs = number(1)
    plan = plan_of(outputs, {0: 0})
    plan = Plan(**{"fingerprint": plan.fingerprint, "planner": "odd", "assignments": plan.assignments, **wrong})
    with pytest.raises(PlanError, match=message):
        client.submit(outputs, plan=plan).result(timeout=30)


@given(data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_results_equal_sequential_evaluation_whatever_is_hinted(
    platform: EmbeddedPlatform, client: Client, data: st.DataObject
) -> None:
    outputs: Any = data.draw(workflows())
    graph: Graph = build_workflow(outputs).graph
    plan = data.draw(hinted_plans(graph))
    assert same(value_of(client.submit(outputs, plan=plan), platform), evaluate(outputs))
