"""What happens in a moment, unless that is called off."""

import os
import threading

import pytest

from augury.worker import waker as module
from augury.worker.waker import TICK_S, Waker

PATIENCE_S = 10.0


class Clock:
    """A clock that a test moves, tick by tick: whoever sleeps waits for that."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._may_go_on = threading.Semaphore(0)
        self._sleeps = threading.Semaphore(0)

    def sleep(self, _: float) -> None:
        self._sleeps.release()
        assert self._may_go_on.acquire(timeout=PATIENCE_S)

    def wait_for_sleep(self) -> None:
        """Until somebody sleeps."""
        assert self._sleeps.acquire(timeout=PATIENCE_S)

    def tick(self) -> None:
        """Let a tick pass for whoever sleeps."""
        self.wait_for_sleep()
        self.now_s += TICK_S
        self._may_go_on.release()

    @property
    def somebody_sleeps(self) -> bool:
        if self._sleeps.acquire(timeout=0.05):
            self._sleeps.release()
            return True
        return False


def started(clock: Clock) -> Waker:
    return Waker(lambda: clock.now_s, clock.sleep)


def test_it_happens_when_it_is_due_and_not_before() -> None:
    clock, called = Clock(), threading.Event()
    started(clock).wake(2.5 * TICK_S, called.set)
    clock.tick()
    clock.tick()
    clock.wait_for_sleep()  # so it has looked
    assert not called.is_set()
    clock._sleeps.release()
    clock.tick()
    assert called.wait(PATIENCE_S)


def test_what_is_called_off_does_not_happen() -> None:
    clock, called = Clock(), threading.Event()
    waker = started(clock)
    waker.wake(0.5 * TICK_S, called.set)
    waker.call_off()
    for _ in range(module._PATIENCE):
        clock.tick()
    assert not clock.somebody_sleeps
    assert not called.is_set()


def test_one_thread_serves_one_after_another() -> None:
    clock, called = Clock(), threading.Event()
    waker = started(clock)
    for _ in range(20):
        waker.wake(1000.0, called.set)
        clock.tick()
        waker.call_off()
    waker.wake(0.5 * TICK_S, called.set)
    clock.tick()
    assert called.wait(PATIENCE_S)
    assert not clock.somebody_sleeps, "there was one, and it has ended with what it did"


def test_after_that_it_can_be_asked_again() -> None:
    clock = Clock()
    waker = started(clock)
    for _ in range(3):
        called = threading.Event()
        waker.wake(0.5 * TICK_S, called.set)
        clock.tick()
        assert called.wait(PATIENCE_S)


def test_it_can_be_asked_again_after_it_has_given_up() -> None:
    clock, called = Clock(), threading.Event()
    waker = started(clock)
    waker.wake(0.5 * TICK_S, called.set)
    waker.call_off()
    for _ in range(module._PATIENCE):
        clock.tick()
    waker.wake(0.5 * TICK_S, called.set)
    clock.tick()
    assert called.wait(PATIENCE_S)


def test_it_can_be_asked_again_if_there_was_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    clock, called = Clock(), threading.Event()
    waker = started(clock)
    with monkeypatch.context() as patch:
        patch.setattr(module, "HelperThread", refuse)
        with pytest.raises(RuntimeError, match="thread"):
            waker.wake(0.0, called.set)
    waker.wake(0.5 * TICK_S, called.set)
    clock.tick()
    assert called.wait(PATIENCE_S)


def test_it_can_be_asked_again_where_a_process_has_forked() -> None:
    """Threads stay behind."""
    waker = Waker()
    waker.wake(1000.0, int)
    child = os.fork()
    if child == 0:
        called = threading.Event()
        waker.wake(0.0, called.set)
        os._exit(0 if called.wait(PATIENCE_S) else 1)
    waker.call_off()
    assert os.waitpid(child, 0)[1] == 0
