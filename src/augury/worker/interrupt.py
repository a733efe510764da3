"""Stopping a task that runs: when its time is up, when the run is over, and when another worker was faster.

A task in the main thread is interrupted by a signal, which also ends a blocking system call. One in another
thread gets an asynchronous exception, which it sees at its next Python instruction. Both come when they come; a
`Section` sees to it that they reach the task that was meant, or nobody.
"""

import asyncio
import ctypes
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
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
    if _main is not None and _main.takes_signal():
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
                with suppress(RuntimeError):  # the loop is closed: it ends anyway
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


def time_limit(timeout_s: float | None) -> AbstractContextManager[None]:
    """Raise `TimeIsUp` in the block if it takes longer."""
    return _UNLIMITED if timeout_s is None else _limit(timeout_s)


_UNLIMITED = nullcontext()


@contextmanager
def _limit(timeout_s: float) -> Iterator[None]:
    if _in_main_thread():
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
    """Let sections of the main thread be interrupted; called there once per invocation."""
    if _in_main_thread():
        signal.signal(signal.SIGUSR1, _raise_interrupted)


class Section:
    """A thread's tasks, one after the other: while it is open, `interrupt` reaches the present one.

    Made by the thread itself. It is opened and closed without locks, since an exception may come anywhere: one in
    the wrong place would leave a lock behind that nobody opens any more.

        thread      open ──────── task ──────── close ─▶ (waits until an order that was given is out; takes it back)
        others         order ─▶ is it open? ─▶ raise it there ─▶ out

    Example:
        >>> section = Section()
        >>> with section:
        ...     pass  # may be interrupted
    """

    __slots__ = ("_is_main", "_open", "_ordered", "_out", "_thread_id")

    def __init__(self) -> None:
        global _main  # noqa: PLW0603 - a process has one main thread
        self._thread_id = threading.get_ident()
        self._is_main = _in_main_thread()
        self._open = False
        self._ordered = False
        self._out = False  # what was ordered was sent, or came too late
        if self._is_main:
            _main = self

    def __enter__(self) -> None:
        if self._ordered:
            self._ordered = self._out = False
        self._open = True

    def __exit__(self, *_: object) -> None:
        self._open = False
        if self._ordered:
            self.close()

    def interrupt(self) -> None:
        """Raise `Interrupted` in the thread, if the section is open; once until it is opened again."""
        if self._ordered:
            return
        self._ordered = True
        if self._open:
            if self._is_main and signal.getsignal(signal.SIGUSR1) is _raise_interrupted:
                signal.pthread_kill(self._thread_id, signal.SIGUSR1)
            else:
                _raise_in(self._thread_id, Interrupted)
        self._out = True

    def close(self) -> None:
        """What comes from now on does not reach the thread; to be called again if it was interrupted in this."""
        self._open = False
        if self._ordered:
            while not self._out:
                time.sleep(0)
            _take_back(self._thread_id)

    def takes_signal(self) -> bool:
        """Whether a signal that has come is meant for what the main thread does now."""
        if self._open and self._ordered:
            self._open = False
            return True
        return False


_main: Section | None = None
"""The section that the main thread made last."""


def _raise_in(thread_id: int, error: type[Interrupted]) -> None:
    stop_loop = _loops.get(thread_id)
    if stop_loop is not None:
        stop_loop(error)
        return
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))


def _take_back(thread_id: int) -> None:
    """Forget an exception that was raised in a thread and that it has not seen yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), None)
