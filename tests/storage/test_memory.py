"""What memory does beyond the protocol: its clock, expiry and subscriptions."""

import pytest

from augury.errors import StorageError
from augury.serde import Blob
from augury.storage.memory import MemoryCoordination, MemoryStorage
from augury.storage.protocols import CLIENT, Completion, Consumer, Report, RunEnded, Status, Stop, TaskReady
from tests.storage.conftest import SPEC, claim


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    return MemoryStorage(clock, ttl_s=100)


@pytest.fixture
def run(storage: MemoryStorage) -> MemoryCoordination:
    run = storage.coordination("run")
    run.create(SPEC, [9], [claim("first", 0)])
    return run


READY = Report("x", completions=(Completion(0, consumers=(Consumer(7, 1, "w"),)),))


def test_a_run_expires_some_time_after_its_last_change(run: MemoryCoordination, clock: Clock) -> None:
    clock.now_s = 99
    run.post(CLIENT, [Stop(Status.FAILED)])
    clock.now_s = 198
    assert run.status() is Status.RUNNING
    clock.now_s = 199
    assert run.status() is Status.GONE
    assert run.read(CLIENT, "0", 60)[1] == [Stop(Status.GONE)]


def test_looking_at_a_run_does_not_keep_it(run: MemoryCoordination, clock: Clock) -> None:
    clock.now_s = 99
    run.progress()
    run.read(CLIENT, "0", 0)
    clock.now_s = 100
    assert run.status() is Status.GONE


def test_objects_expire_too(storage: MemoryStorage, clock: Clock) -> None:
    objects = storage.objects("run")
    objects.create()
    objects.put("o1", Blob([b"x"]))
    clock.now_s = 100
    assert objects.get(["o1"]) == {}
    with pytest.raises(StorageError, match="gone"):
        objects.put("o2", Blob([b"x"]))


def test_objects_of_a_run_that_goes_on_do_not(storage: MemoryStorage, run: MemoryCoordination, clock: Clock) -> None:
    objects = storage.objects("run")
    objects.create()
    objects.put("o1", Blob([b"x"]))
    for clock.now_s in (75, 150, 225):
        run.beat()
    assert objects.get(["o1"]) == {"o1": b"x"}
    run.fail(Status.FAILED, b"")
    clock.now_s = 300
    run.beat()
    clock.now_s = 325
    assert objects.get(["o1"]) == {}


def test_the_grace_is_measured_by_the_clock(run: MemoryCoordination, clock: Clock) -> None:
    run.report(Report("x", claims=(claim("w", 1),)))
    run.join("w", 1)
    clock.now_s = 4.9
    assert not run.suspend("w", 1, "0", 5)
    clock.now_s = 5
    assert run.suspend("w", 1, "0", 5)


def test_a_subscriber_is_told_before_the_call_returns_and_may_call_back(run: MemoryCoordination) -> None:
    heard: list[object] = []
    run.subscribe("w", lambda: heard.extend(run.read("w", "0", 0)[1]))
    run.report(READY)
    assert heard == [TaskReady(7)]


def test_a_subscriber_hears_of_its_own_inbox_only(run: MemoryCoordination) -> None:
    heard: list[str] = []
    run.subscribe("w", lambda: heard.append("w"))
    run.subscribe(CLIENT, lambda: heard.append(CLIENT))
    run.report(Report("x", completions=(Completion(9, 1, b"r", sink=True),)))
    assert heard == [CLIENT]
    assert run.read(CLIENT, "0", 0)[1] == [RunEnded(Status.SUCCEEDED)]


def test_a_subscriber_hears_of_removal(run: MemoryCoordination) -> None:
    heard: list[object] = []
    run.subscribe("w", lambda: heard.extend(run.read("w", "0", 0)[1]))
    run.remove()
    assert heard == [Stop(Status.GONE)]


def test_a_subscription_can_end(run: MemoryCoordination) -> None:
    heard: list[str] = []
    end = run.subscribe("w", lambda: heard.append("w"))
    end()
    end()
    run.report(READY)
    assert heard == []
