"""What happens in a moment, unless that is called off."""

import os
import threading
from collections.abc import Callable

import pytest

from augury.worker import waker as module
from augury.worker.helpers import HelperThread
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


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[HelperThread]:
    """Those that were started. One that nobody lets tick ends with an error, after a while."""
    found = []

    def start(work: Callable[[], object]) -> HelperThread:
        found.append(HelperThread(work))
        return found[-1]

    monkeypatch.setattr(module, "HelperThread", start)
    return found


def started(clock: Clock) -> Waker:
    return Waker(lambda: clock.now_s, clock.sleep)


def give_up(waker: Waker, clock: Clock) -> None:
    """It is asked for something that is called off, and then for nothing until it ends."""
    waker.wake(0.5 * TICK_S, raise_it)
    waker.call_off()
    for _ in range(module._PATIENCE):
        clock.tick()


def raise_it() -> None:
    raise AssertionError("it was called off")


def has_called(waker: Waker, clock: Clock) -> bool:
    """Whether it does what it is asked for, a tick later."""
    called = threading.Event()
    waker.wake(0.5 * TICK_S, called.set)
    clock.tick()
    return called.wait(PATIENCE_S)


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


def test_what_is_called_off_does_not_happen_and_the_thread_ends(threads: list[HelperThread]) -> None:
    clock = Clock()
    give_up(started(clock), clock)
    threads[0].join()
    assert not clock._sleeps.acquire(blocking=False)


def test_one_thread_serves_one_after_another(threads: list[HelperThread]) -> None:
    clock = Clock()
    waker = started(clock)
    for _ in range(20):
        waker.wake(1000.0, raise_it)
        clock.tick()
        waker.call_off()
    assert has_called(waker, clock)
    threads[0].join()
    assert len(threads) == 1


def test_after_that_it_can_be_asked_again() -> None:
    clock = Clock()
    waker = started(clock)
    assert all(has_called(waker, clock) for _ in range(3))


def test_it_can_be_asked_again_after_it_has_given_up(threads: list[HelperThread]) -> None:
    clock = Clock()
    waker = started(clock)
    give_up(waker, clock)
    threads[0].join()
    assert has_called(waker, clock)


def test_it_can_be_asked_again_if_there_was_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    clock = Clock()
    waker = started(clock)
    with monkeypatch.context() as patch:
        patch.setattr(module, "HelperThread", refuse)
        with pytest.raises(RuntimeError, match="thread"):
            waker.wake(0.0, raise_it)
    assert has_called(waker, clock)


def test_it_can_be_asked_again_where_a_process_has_forked() -> None:
    """Threads stay behind."""
    clock = Clock()
    waker = started(clock)
    waker.wake(1000.0, raise_it)
    clock.wait_for_sleep()  # so the thread holds nothing while the process forks
    child = os.fork()
    if child == 0:
        own = Clock()  # the other one has somebody who sleeps, in the other process
        waker._clock, waker._sleep = lambda: own.now_s, own.sleep
        os._exit(0 if has_called(waker, own) else 1)
    clock._sleeps.release()
    give_up(waker, clock)
    assert os.waitpid(child, 0)[1] == 0
