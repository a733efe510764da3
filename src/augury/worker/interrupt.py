"""Stopping a task that runs: when its time is up, and when the run is over.

A task in the main thread is interrupted by a signal, which also ends a blocking system call. One in another
thread gets an asynchronous exception, which it sees at its next Python instruction.
"""

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """Raised inside a task that must stop. Not an Exception: user code that catches those lets it pass."""


class TimeIsUp(Interrupted):
    """The task's own time limit."""


def _raise_time_is_up(_signum: int, _frame: FrameType | None) -> None:
    raise TimeIsUp


def _raise_interrupted(_signum: int, _frame: FrameType | None) -> None:
    raise Interrupted


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def time_limit(timeout_s: float | None) -> Iterator[None]:
    """Raise `TimeIsUp` in the block if it takes longer."""
    if timeout_s is None:
        yield
    elif _in_main_thread():
        signal.signal(signal.SIGALRM, _raise_time_is_up)
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    else:
        with _thread_limit(timeout_s):
            yield


@contextmanager
def _thread_limit(timeout_s: float) -> Iterator[None]:
    target = threading.get_ident()
    lock = threading.Lock()
    finished = False

    def expire() -> None:
        with lock:
            if not finished:
                _raise_in(target, TimeIsUp)

    timer = threading.Timer(timeout_s, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            finished = True
        timer.cancel()


def allow_interruption() -> None:
    """Let `interrupt` reach the main thread; called there once per invocation."""
    if _in_main_thread():
        signal.signal(signal.SIGUSR1, _raise_interrupted)


def interrupt(thread_id: int) -> None:
    """Raise `Interrupted` in a thread that runs a task."""
    main = threading.main_thread().ident
    if thread_id == main and signal.getsignal(signal.SIGUSR1) is _raise_interrupted:
        signal.pthread_kill(thread_id, signal.SIGUSR1)
    else:
        _raise_in(thread_id, Interrupted)


def _raise_in(thread_id: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))
