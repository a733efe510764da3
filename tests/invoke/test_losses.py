"""Telling a run of the loss of its worker."""

from collections.abc import Sequence

import msgspec
import pytest

from augury.config import StorageConfig
from augury.errors import StorageError
from augury.invoke.embedded.losses import Caretaker, report
from augury.invoke.gateway import Invocation, Loss, LossKind
from augury.storage.memory import MemoryCoordination, MemoryStorage
from augury.storage.protocols import (
    CLIENT,
    Beat,
    Care,
    Claim,
    Completion,
    Consumer,
    Coordination,
    Missing,
    Report,
    RunEnded,
    RunSpec,
    Status,
    WorkerLeft,
)
from tests.invoke.stage import invocation

CONFIG = StorageConfig(redis="unix:///nowhere")
ON_LOSS = "tests.invoke.test_losses:describe"


def describe(loss: Loss) -> bytes:
    return loss.reason.encode()


class ShakyStorage(MemoryStorage):
    """Storage that fails to answer a few times."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def coordination(self, run_id: str) -> MemoryCoordination:
        if self.failures:
            self.failures -= 1
            raise StorageError("not now")
        return super().coordination(run_id)


def a_run(storage: MemoryStorage, restarts: int = 0) -> Coordination:
    run = storage.coordination("run")
    spec = RunSpec(
        name="n", graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=0, care=Care(restarts=restarts)
    )
    claims = [Claim(one.worker, one.tasks, one.resources) for one in (invocation("w"), invocation("x"))]
    run.create(spec, [0], claims[:1], claims)
    return run


def a_loss(reason: str) -> Loss:
    kind = LossKind.CRASH if reason else LossKind.STOPPED
    return Loss(invocation=invocation("w"), cold=True, duration_s=1.5, kind=kind, reason=reason)


def test_the_account_comes_first_and_then_the_failure() -> None:
    storage = MemoryStorage()
    run = a_run(storage)
    report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage)
    _, (left, ended) = run.read(CLIENT, "0", 0.0)
    assert isinstance(left, WorkerLeft)
    assert left.summary.duration_s == 1.5
    assert ended == RunEnded(Status.FAILED, b"it died")


def test_the_worker_is_to_be_started_again_and_the_run_goes_on() -> None:
    storage = MemoryStorage()
    run = a_run(storage, restarts=1)
    again = report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage)
    assert again == [msgspec.structs.replace(invocation("w"), attempt=2)]
    assert run.status() is Status.RUNNING


def test_so_are_those_that_the_lost_one_may_have_had_to_start() -> None:
    storage = MemoryStorage()
    run = a_run(storage, restarts=1)
    run.join("w", 1)
    run.report(Report("w", completions=(Completion(1, consumers=(Consumer(2, 1, "x"),)),)))
    again = report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage)
    assert again == [msgspec.structs.replace(invocation("w"), attempt=2), invocation("x")]


def test_a_loss_of_an_earlier_attempt_starts_nothing() -> None:
    storage = MemoryStorage()
    run = a_run(storage, restarts=5)
    report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage)
    run.join("w", 2)
    assert report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage) == []


def test_what_was_stopped_on_purpose_is_no_failure() -> None:
    storage = MemoryStorage()
    run = a_run(storage)
    report([a_loss("")], CONFIG, ON_LOSS, lambda config: storage)
    assert run.status() is Status.RUNNING
    _, events = run.read(CLIENT, "0", 0.0)
    assert [type(event) for event in events] == [WorkerLeft]


def test_a_storage_that_does_not_answer_is_asked_again() -> None:
    storage = ShakyStorage(failures=0)
    run = a_run(storage)
    storage.failures = 2
    slept: list[float] = []
    report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage, slept.append)
    assert run.status() is Status.FAILED
    assert len(slept) == 2


def test_what_cannot_be_told_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    storage = ShakyStorage(failures=99)
    report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage, lambda seconds: None)
    assert "run run was not told of the loss of w" in caplog.text


class DeafStorage(MemoryStorage):
    """Storage that takes no beats, like a full one, for as long as it is told to."""

    is_deaf = True

    def coordination(self, run_id: str) -> MemoryCoordination:
        run = super().coordination(run_id)
        if self.is_deaf:
            run.beat = self.refuse  # type: ignore[method-assign]
        return run

    def refuse(self, worker: str = "", attempt: int = 0, lost: Sequence[Missing] = ()) -> Beat:
        raise StorageError("out of memory")


def test_a_worker_whose_loss_cannot_be_told_keeps_its_lease_which_runs_out() -> None:
    clock = [0.0]
    storage = DeafStorage(clock=lambda: clock[0])
    run = a_run(storage, restarts=1)
    run.join("w", 1)
    assert report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage, lambda seconds: None) == []
    storage.is_deaf = False
    started: list[Claim] = []
    while not started and clock[0] <= 2 * Care().lease_s:
        clock[0] += 1.0
        started.extend(storage.coordination("run").beat().start)
    assert [(claim.worker, claim.attempt) for claim in started] == [("w", 2)]


def speechless(loss: Loss) -> bytes:
    raise OSError("too many open files")


def test_a_loss_that_nobody_can_put_into_words_does_not_take_others_with_it(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    run = a_run(storage, restarts=1)
    run.report(Report("w", claims=(Claim("x", (), invocation("x").resources),)))
    late = msgspec.structs.replace(a_loss("it is late"), kind=LossKind.TIMEOUT)
    died = msgspec.structs.replace(a_loss("it died"), invocation=invocation("x"))
    words = "tests.invoke.test_losses:speechless"
    again = report([late, died], CONFIG, words, lambda config: storage, lambda seconds: None)
    assert again == [msgspec.structs.replace(invocation("x"), attempt=2)]
    assert "run run was not told of the loss of w" in caplog.text


def caretaker(storage: MemoryStorage) -> Caretaker:
    return Caretaker(CONFIG, ON_LOSS, lambda _: storage)


class TestVouching:
    """A run whose workers `w` and `x` have joined, and are silent."""

    def run(self, restarts: int) -> tuple[MemoryStorage, Coordination, list[float]]:
        clock = [0.0]
        storage = MemoryStorage(clock=lambda: clock[0])
        run = a_run(storage, restarts)
        run.join("w", 1)
        return storage, run, clock

    def test_a_worker_that_is_vouched_for_keeps_its_place(self) -> None:
        storage, run, clock = self.run(restarts=3)
        for _ in range(10):
            clock[0] += 0.9 * Care().lease_s
            assert caretaker(storage).vouch([invocation("w")]) == []
        assert run.beat("w", 1).status is Status.RUNNING

    def test_others_that_are_silent_are_to_be_started(self) -> None:
        storage, run, clock = self.run(restarts=3)
        run.report(Report("w", claims=(Claim("y", (1,), invocation("y").resources),)))
        run.join("y", 1)
        for _ in range(3):
            clock[0] += 0.4 * Care().lease_s  # after half a lease without any beat, all leases would begin anew
            started = caretaker(storage).vouch([invocation("y")])
        assert [(one.worker, one.attempt, one.run_id) for one in started] == [("w", 2, "run")]

    def test_a_run_without_hope_ends(self) -> None:
        storage, run, clock = self.run(restarts=0)
        run.report(Report("w", claims=(Claim("y", (1,), invocation("y").resources),)))
        run.join("y", 1)
        for _ in range(2):
            clock[0] += 0.4 * Care().lease_s
            run.beat("y", 1)
        clock[0] += 0.4 * Care().lease_s
        assert caretaker(storage).vouch([invocation("y")]) == []
        assert run.status() is Status.FAILED
        _, events = run.read(CLIENT, "0", 0.0)
        assert any(isinstance(event, RunEnded) and b"in a row" in event.failure for event in events)


def test_runs_without_a_client_are_looked_after() -> None:
    clock = [0.0]
    storage = MemoryStorage(clock=lambda: clock[0])
    run = a_run(storage, restarts=3)
    run.join("w", 1)
    kept, started = caretaker(storage), list[Invocation]()
    while not started and clock[0] <= 2 * Care().lease_s:
        clock[0] += 1.0
        started = kept.look_after([invocation("w")])
    assert [(one.worker, one.attempt) for one in started] == [("w", 2)]
    assert clock[0] <= Care().lease_s + 1.0
