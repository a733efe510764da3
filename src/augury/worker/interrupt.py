"""Stopping a task that runs: when its time is up, and when the run is over.

A task in the main thread is interrupted by a signal, which also ends a blocking system call. One in another
thread gets an asynchronous exception, which it sees at its next Python instruction.
"""

import asyncio
import ctypes
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(BaseException):
    """Raised inside a task that must stop. Not an Exception: user code that catches those lets it pass."""


class TimeIsUp(Interrupted):
    """The task's own time limit."""


_loops: dict[int, Callable[[type[Interrupted]], None]] = {}
"""Threads whose task runs an event loop, and how to stop it: an exception that is raised between two steps of a loop
loses what the loop was about to do, or is swallowed by it."""


def _raise_time_is_up(_signum: int, _frame: FrameType | None) -> None:
    _stop_here(TimeIsUp)


def _raise_interrupted(_signum: int, _frame: FrameType | None) -> None:
    _stop_here(Interrupted)


def _stop_here(kind: type[Interrupted]) -> None:
    stop_loop = _loops.get(threading.get_ident())
    if stop_loop is None:
        raise kind
    stop_loop(kind)


def run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """As `asyncio.run`; to be interrupted means that the coroutine is cancelled."""
    me = threading.get_ident()
    ordered: list[type[Interrupted]] = []
    try:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            task = loop.create_task(coroutine)

            def stop(kind: type[Interrupted]) -> None:
                ordered.append(kind)
                loop.call_soon_threadsafe(task.cancel)

            _loops[me] = stop
            value = loop.run_until_complete(task)
    except asyncio.CancelledError:
        if not ordered:
            raise
    finally:
        _loops.pop(me, None)  # not before the loop is closed
    if ordered:
        raise ordered[-1]
    return value


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def time_limit(timeout_s: float | None) -> Iterator[None]:
    """Raise `TimeIsUp` in the block if it takes longer."""
    if timeout_s is None:
        yield
    elif _in_main_thread():
        before = signal.signal(signal.SIGALRM, _raise_time_is_up)
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before or signal.SIG_DFL)
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


def _raise_in(thread_id: int, error: type[Interrupted]) -> None:
    stop_loop = _loops.get(thread_id)
    if stop_loop is not None:
        stop_loop(error)
        return
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))
