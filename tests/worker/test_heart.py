"""Heartbeats: what an invocation does with the answers that it gets."""

import threading
from collections.abc import Sequence

import pytest

from augury.config import Resources
from augury.errors import StorageError
from augury.storage.memory import MemoryCoordination, MemoryStorage
from augury.storage.protocols import Beat, Cause, Claim, Hopeless, Status
from augury.worker.heart import Heart, see_to

LOST = Claim("lost", (), Resources(), 2)
GIVEN_UP = Hopeless("given up", 4, 3, Resources(), Cause.LOST)


def test_a_worker_that_ends_starts_whom_it_was_told_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()
    stopped: list[Status] = []

    def start(claims: Sequence[Claim]) -> None:
        assert list(claims) == [LOST]
        started.set()

    def beat_at_the_end(*_: object) -> Beat:
        heart.end()
        return Beat(Status.RUNNING, (LOST,))

    monkeypatch.setattr(MemoryCoordination, "beat", beat_at_the_end)
    run = MemoryStorage().coordination("run")
    heart = Heart(run, "w", 1, 1.0, start=start, end=lambda _: None, stop=stopped.append)
    heart._beat()
    assert started.wait(10)
    assert stopped == []


def test_who_can_be_started_is_even_if_there_is_no_hope_for_another() -> None:
    done: list[object] = []
    see_to(Beat(Status.RUNNING, (LOST,), (GIVEN_UP,)), done.extend, done.append)
    assert done == [GIVEN_UP, LOST]


@pytest.mark.parametrize("error", [StorageError("away"), ValueError("damaged")], ids=repr)
def test_a_heart_beats_on_after_a_beat_that_failed(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    beat_again = threading.Event()
    failing = [error]

    def fail_first(*_: object) -> Beat:
        if failing:
            raise failing.pop()
        beat_again.set()
        return Beat(Status.RUNNING)

    monkeypatch.setattr(MemoryCoordination, "beat", fail_first)
    run = MemoryStorage().coordination("run")
    heart = Heart(run, "w", 1, 0.01, start=lambda _: None, end=lambda _: None, stop=lambda _: None)
    heart.begin()
    assert beat_again.wait(10)
    heart.end()
