"""Telling a run of the loss of its worker."""

import pytest

from augury.config import StorageConfig
from augury.errors import StorageError
from augury.invoke.embedded.losses import report
from augury.invoke.embedded.pool import Loss
from augury.storage.memory import MemoryCoordination, MemoryStorage
from augury.storage.protocols import CLIENT, Coordination, RunEnded, RunSpec, Status, WorkerLeft
from tests.invoke.stage import invocation

CONFIG = StorageConfig(redis="unix:///nowhere")
ON_LOSS = "tests.invoke.test_losses:describe"


def describe(lost: object, reason: str) -> bytes:
    return reason.encode()


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


def a_run(storage: MemoryStorage) -> Coordination:
    run = storage.coordination("run")
    run.create(RunSpec(name="n", graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=0), [0], [])
    return run


def a_loss(reason: str) -> Loss:
    return Loss(invocation=invocation("w"), cold=True, duration_s=1.5, reason=reason)


def test_the_account_comes_first_and_then_the_failure() -> None:
    storage = MemoryStorage()
    run = a_run(storage)
    report([a_loss("it died")], CONFIG, ON_LOSS, lambda config: storage)
    _, (left, ended) = run.read(CLIENT, "0", 0.0)
    assert isinstance(left, WorkerLeft)
    assert left.summary.duration_s == 1.5
    assert ended == RunEnded(Status.FAILED, b"it died")


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
