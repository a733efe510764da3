"""Faults that are asked for."""

import json
from pathlib import Path

import pytest

from augury import Client, DefinitionError, Embedded, PlatformError, Resources, WorkerLost, WukongPlanner, task
from augury.invoke.gateway import Invocation
from augury.testing.faults import FAULT_POINTS, Fault, injected, parse_faults
from augury.worker.faults import faults_of

KILL = Fault(point="before-report", action="kill")


def invocation(worker: str = "p0", attempt: int = 1) -> Invocation:
    return Invocation("run", worker, attempt, Resources())


@task
def double(x: int) -> int:
    return 2 * x


@task
def add(xs: list[int]) -> int:
    return sum(xs)


# As text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("before-report:kill", KILL),
        ("after-store:stop@3", Fault(point="after-store", action="stop", nth=3)),
        ("joined:exit?worker=p%2A&attempt=0", Fault(point="joined", action="exit", worker="p*", attempt=0)),
        ("heartbeat:wait?s=2.5", Fault(point="heartbeat", action="wait", wait_s=2.5)),
        ("task-begun:raise?once=%2Ftmp%2Fa%2Cb", Fault(point="task-begun", action="raise", once="/tmp/a,b")),
    ],
)
def test_faults_are_written_as_they_are_read(text: str, fault: Fault) -> None:
    assert parse_faults(text) == (fault,)
    assert parse_faults(str(fault)) == (fault,)


def test_several_faults_are_separated_by_commas() -> None:
    assert parse_faults(" before-report:kill , after-store:stop,") == (KILL, Fault(point="after-store", action="stop"))
    assert parse_faults("") == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lunch:kill", "no fault point 'lunch'; there are joined, task-begun"),
        ("joined:explode", "Invalid enum value 'explode'"),
        ("joined", "Invalid enum value ''"),
        ("joined:kill@often", "Expected `int`, got `str`"),
        ("joined:kill@0", "@0"),
        ("joined:kill?worker=p0&when=now", "no option 'when'"),
        ("joined:wait?s=inf", "s=inf"),
    ],
)
def test_what_is_no_fault_is_named_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(DefinitionError, match="is no fault") as caught:
        parse_faults(f"before-report:kill,{text}")
    assert repr(text) in str(caught.value)
    assert reason in str(caught.value)


# When they strike


def test_without_faults_there_is_nothing_to_ask() -> None:
    assert faults_of((), invocation()) is None
    assert faults_of([Fault(point="joined", action="kill", worker="f*")], invocation("p0")) is None
    assert faults_of([KILL], invocation(attempt=2)) is None, "a second attempt is spared"


def test_a_fault_strikes_at_its_point_the_nth_time() -> None:
    faults = faults_of([Fault(point="before-report", action="raise", nth=2)], invocation())
    assert faults is not None
    faults.reach("before-report")
    faults.reach("after-report")
    with pytest.raises(PlatformError, match="before-report:raise@2"):
        faults.reach("before-report")
    faults.reach("before-report")


def test_of_several_workers_one_is_struck(tmp_path: Path) -> None:
    once = tmp_path / "once"
    fault = Fault(point="joined", action="raise", once=str(once))
    first, second = (faults_of([fault], invocation(name)) for name in ("p0", "p1"))
    assert first is not None
    assert second is not None
    with pytest.raises(PlatformError):
        first.reach("joined")
    second.reach("joined")
    assert json.loads(once.read_text())["worker"] == "p0"


# In real workers


def test_a_worker_is_killed_at_the_point_that_was_named() -> None:
    with injected(Fault(point="task-begun", action="kill", nth=3, attempt=0)):
        client = Client(platform=Embedded(slots=1), planner=WukongPlanner(), observers=[])
        with client, pytest.raises(WorkerLost, match=r"SIGKILL after .* s while it ran double\[2\]"):
            client.compute(add([double(x) for x in range(5)]))


@pytest.mark.parametrize("point", ["before-report", "before-leave", "joined", "task-ended", "after-fetch"])
def test_a_wait_changes_nothing_but_the_time(point: str) -> None:
    with (
        injected(Fault(point=point, action="wait", wait_s=0.01)),
        Client(platform=Embedded(slots=2), planner=WukongPlanner(), observers=[]) as client,
    ):
        assert client.compute(add([double(x) for x in range(4)])) == 12


def test_faults_end_with_the_block() -> None:
    with injected(KILL), injected():
        pass
    with Client(platform=Embedded(slots=1), observers=[]) as client:
        assert client.compute(double(2)) == 4


def test_a_platform_with_faults_that_cannot_be_read_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_FAULTS", "lunch:kill")
    client = Client(platform=Embedded(slots=1), observers=[])
    with client, pytest.raises(PlatformError, match="'lunch:kill' is no fault"):
        client.compute(double(2))


def test_each_point_says_what_the_moment_means() -> None:
    assert len(FAULT_POINTS) == len(set(FAULT_POINTS.values()))
