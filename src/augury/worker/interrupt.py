"""Stopping a task that runs: when its time is up, when the run is over, and when another worker was faster.

A task in the main thread is interrupted by a signal, which also ends a blocking system call. One in another
thread gets an asynchronous exception, which it sees at its next Python instruction. Both come when they come; a
`Section` sees to it that they reach the task that was meant, or nobody.

Two things must not be broken off at any instruction, and are told to stop instead: an event loop, which loses what it
was about to do, or swallows the exception; and an import (`shelter_imports`). One that is broken off leaves behind a
lock of the import system, for which every later import of the module waits for ever, or half a package, which cannot be
imported again: in a process that is kept warm, that would be the trouble of whoever comes next.

Nor is a task interrupted at a *delicate* place, but right after it: in a function that takes or gives back a lock,
which nobody would ever open again, or in a `__del__`, where Python drops exceptions. In the main thread that is
certain. In others it is looked up before the exception is raised there, so that a few instructions may lie in between.

An interruption that was swallowed all the same comes again after a while, as long as its reason lasts.
"""

import asyncio
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import update_wrapper
from types import FrameType, TracebackType
from typing import Any

_import_system = sys.modules["_frozen_importlib"]
_FIND, _WAIT = "_find_and_load", "_lock_unlock_module"


class Interrupted(KeyboardInterrupt):
    """Raised inside a task that must stop.

    Not an Exception: user code that catches those lets it pass. Event loops and others that catch everything let a
    `KeyboardInterrupt` pass, too.
    """


class TimeIsUp(Interrupted):
    """The task's own time limit."""


_told: dict[int, Callable[[type[Interrupted]], None]] = {}
"""Threads in which nothing may be raised at present, and what to tell instead."""

_raising = threading.Lock()
"""Held while another thread is told, or something is raised there: who takes it and lets it go knows that all who
had looked at `_told` before are done."""


_importing: set[int] = set()
"""Threads that are in the middle of an import."""

_TAKE_LOCKS = frozenset(
    {
        *("__enter__", "__exit__", "__aenter__", "__aexit__", "acquire", "release", "notify", "notify_all"),
        *("_acquire_restore", "_release_save", "_acquireLock", "_releaseLock"),
    }
)
"""Functions that take locks or give them back are called so, here and elsewhere."""

_POLL_S = 0.001
"""After how long it is seen again whether a thread is at a delicate place."""
_AGAIN_S = 0.4
"""After how long a task is interrupted again that goes on all the same."""

_WAITS_S = 0.2
"""How long a function that takes a lock is at one place before it counts as waiting for that lock."""

_LOOKS = 20
"""And how often it must have been seen there: of a process that had no processor meanwhile, time says nothing."""

_postponed: tuple[FrameType, int] | None = None
_postponed_s = 0.0
_postponed_looks = 0
"""At which place the main thread was when an interruption of it was put off, since when, and how often it was seen."""


def is_importing(thread_id: int) -> bool:
    """Whether a thread is in the middle of an import, so that it cannot be interrupted."""
    return thread_id in _importing


def _is_delicate(frame: FrameType | None) -> bool:
    """Whether nothing may be raised at the place where a thread is."""
    return frame is not None and (frame.f_code.co_name in _TAKE_LOCKS or _is_in_finalizer(frame))


def _is_in_finalizer(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _is_put_off(frame: FrameType | None) -> bool:
    """Whether the main thread, to which a signal came at a place, is to be interrupted later.

    Where a function that takes a lock stays at one place, it waits for the lock, and does not have it.
    """
    global _postponed, _postponed_s, _postponed_looks  # noqa: PLW0603 - a process has one main thread
    before, _postponed = _postponed, None
    if frame is None or threading.get_ident() in _told or not _is_delicate(frame):
        return False
    place, now_s = (frame, frame.f_lasti), time.monotonic()
    if place != before:
        _postponed_s, _postponed_looks = now_s, 0
    _postponed_looks += 1
    if now_s - _postponed_s > _WAITS_S and _postponed_looks > _LOOKS and not _is_in_finalizer(frame):
        return False
    _postponed = place
    return True


def _raise_interrupted(_signum: int, frame: FrameType | None) -> None:
    if _main is not None and _main.takes_signal(frame):
        _stop_here(Interrupted)


def _stop_here(kind: type[Interrupted]) -> None:
    tell = _told.get(threading.get_ident())
    if tell is None:
        raise kind
    tell(kind)


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

            _told[me] = stop
            value = loop.run_until_complete(task)
    except asyncio.CancelledError:
        if not ordered:
            raise
    finally:
        _told.pop(me, None)  # not before the loop is closed
    if ordered:
        raise ordered[-1]
    return value


def shelter_imports() -> None:
    """From now on, have an import in this process come to its end before it is interrupted; and packages go first.

    What C and Python code calls to import a module that is not there yet, or that another thread is importing, is
    replaced: there is no hook round it.
    """
    find, wait = getattr(_import_system, _FIND), getattr(_import_system, _WAIT)
    if not hasattr(find, "__wrapped__"):
        setattr(_import_system, _FIND, _sheltered(_packages_first(find)))
        setattr(_import_system, _WAIT, _sheltered(wait))


def _packages_first(find_and_load: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, for threads that import parts of one package at a time.

        thread 1: import a            has a, wants a.b ┐ each waits for the other one: Python notices, and lets
        thread 2: import a.b          has a.b, wants a ┘ both go on with half a package

    Python takes the lock of `a.b` and then, if it has to, that of `a`. Here whoever imports `a.b` first waits until it
    has `a`: whole, unless that is what this very thread is importing.
    """

    @_seen_as(find_and_load)
    def load(name: str, import_: Any) -> Any:
        package = name.rpartition(".")[0]
        if package and name not in sys.modules:
            load(package, import_)
        return find_and_load(name, import_)

    return load


def _sheltered(import_: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, to whose end an interruption of this thread waits."""

    @_seen_as(import_)
    def whole(*arguments: Any) -> Any:
        me = threading.get_ident()
        if me in _told:  # as a part of another import, or in an event loop
            return import_(*arguments)
        ordered: list[type[Interrupted]] = []
        try:
            _told[me] = ordered.append
            _importing.add(me)
            with _raising:
                pass  # what was raised here before comes now
            return import_(*arguments)
        finally:
            _importing.discard(me)
            _told.pop(me, None)
            with _raising:
                pass  # what was told has come
            if ordered:
                raise ordered[-1]

    return whole


def _seen_as(function: Any) -> Callable[[Any], Callable[..., Any]]:
    """Have tracebacks leave out what replaces a function of the import system, as they do with that: by its file."""

    def apply(replacement: Any) -> Callable[..., Any]:
        replacement.__code__ = replacement.__code__.replace(co_filename=function.__code__.co_filename)
        wrapper: Callable[..., Any] = update_wrapper(replacement, function)
        return wrapper

    return apply


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def time_limit(timeout_s: float | None) -> AbstractContextManager[None]:
    """Raise `TimeIsUp` in the block if it takes longer; and at its end, if it was told so and went on."""
    return _UNLIMITED if timeout_s is None else _Limit(timeout_s)


_UNLIMITED = nullcontext()


class _Limit:
    """The time of a block; what it gives after it was told that this is up does not count."""

    def __init__(self, timeout_s: float) -> None:
        self._told: list[type[Interrupted]] = []
        remind = _signal_after if _in_main_thread() else _raise_after
        self._reminder = remind(timeout_s, self._told)

    def __enter__(self) -> None:
        try:
            next(self._reminder)
        except BaseException:  # the time was up before the block began
            self._reminder.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reminder.close()
        if self._told and not isinstance(error, Interrupted):
            raise TimeIsUp().with_traceback(trace) from error


def _signal_after(timeout_s: float, told: list[type[Interrupted]]) -> Generator[None, None, None]:
    """Raise it in the main thread from when this has yielded, or a little earlier, until it is closed."""
    finished = False

    def expire(_signum: int, frame: FrameType | None) -> None:
        if finished:
            return
        if _is_put_off(frame):
            signal.setitimer(signal.ITIMER_REAL, _POLL_S, _AGAIN_S)
            return
        told.append(TimeIsUp)
        _stop_here(TimeIsUp)

    before = signal.signal(signal.SIGALRM, expire)
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout_s, _AGAIN_S)
        yield
    finally:
        finished = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)
        _forget_place()


def _raise_after(timeout_s: float, told: list[type[Interrupted]]) -> Generator[None, None, None]:
    """Raise it in this thread from when this has yielded, or a little earlier, until it is closed."""
    target = threading.get_ident()
    lock = threading.Lock()
    finished = False

    def expire() -> None:
        while True:
            with lock:
                if finished:
                    return
                delicate = _is_delicate_in(target)
                if not delicate:
                    told.append(TimeIsUp)
                    _raise_in(target, TimeIsUp)
            time.sleep(_POLL_S if delicate else _AGAIN_S)

    timer = threading.Timer(timeout_s, expire)
    timer.daemon = True
    try:
        timer.start()
        yield
    finally:
        with lock:
            finished = True
        timer.cancel()
        if told:
            _take_back(target)  # it may not have seen it yet; whoever opened the block does now


def allow_interruption() -> None:
    """Let sections of the main thread be interrupted; called there once per invocation."""
    if _in_main_thread():
        signal.signal(signal.SIGUSR1, _raise_interrupted)


class _Order:
    """That what a thread does in a section must stop.

    Attributes:
        again_s: Before that it is not raised in the main thread again.
        under_way: Whether another thread may be raising it at this moment.
        over: Locked until the section is closed.
    """

    __slots__ = ("again_s", "over", "under_way")

    def __init__(self) -> None:
        self.again_s = 0.0
        self.under_way = False
        self.over = threading.Lock()
        self.over.acquire()


class Section:
    """A thread's tasks, one after the other: while it is open, `interrupt` reaches the present one.

    Made by the thread itself. It is opened and closed without waiting for locks, since an exception may come anywhere:
    one in the wrong place would leave a lock behind that nobody opens any more.

        thread      open ──────── task ──────── close ─▶ (waits until nothing is being raised; takes back what was)
        others         order ─▶ is it open? ─▶ raise it there ─▶ after a while: is it still open? ─▶ …

    Example:
        >>> section = Section()
        >>> with section:
        ...     pass  # may be interrupted
    """

    __slots__ = ("_is_main", "_open", "_order", "_thread_id")

    def __init__(self) -> None:
        global _main  # noqa: PLW0603 - a process has one main thread
        self._thread_id = threading.get_ident()
        self._is_main = _in_main_thread()
        self._open = False
        self._order: _Order | None = None
        if self._is_main:
            _main = self

    def __enter__(self) -> None:
        self._order = None
        self._open = True

    def __exit__(self, *_: object) -> None:
        self._open = False
        if self._order is not None:
            self.close()

    def interrupt(self) -> None:
        """Raise `Interrupted` in the thread, if the section is open, until it is closed; once until it is opened again.

        If no thread can be had that sees to that, it is raised once.
        """
        if self._order is not None:
            return
        order = self._order = _Order()
        if self._open:
            pause_s = self._strike(order)
            with suppress(RuntimeError):
                threading.Thread(
                    target=self._insist, args=(order, pause_s), name="augury-interrupt", daemon=True
                ).start()

    def _insist(self, order: _Order, pause_s: float) -> None:
        """Raise it again while the section is open; the life of a thread."""
        while not order.over.acquire(timeout=pause_s) and self._is_meant(order):
            pause_s = self._strike(order)

    def _strike(self, order: _Order) -> float:
        """Raise it, if the thread is at a place for that; after how long to try again."""
        if self._is_main and signal.getsignal(signal.SIGUSR1) is _raise_interrupted:
            rest_s = order.again_s - time.monotonic()
            if rest_s > 0:
                return rest_s
            signal.pthread_kill(self._thread_id, signal.SIGUSR1)
            return _POLL_S
        if _is_delicate_in(self._thread_id):
            return _POLL_S
        order.under_way = True  # before it is seen whether the section is open: who closes it looks the other way round
        if self._is_meant(order):
            _raise_in(self._thread_id, Interrupted)
        order.under_way = False
        return _AGAIN_S

    def _is_meant(self, order: _Order) -> bool:
        """Whether what the thread does now is what was to stop; in this order, since it may open the section anew."""
        return self._open and self._order is order

    def close(self) -> None:
        """What comes from now on does not reach the thread; to be called again if it was interrupted in this."""
        self._open = False
        order = self._order
        if order is not None:
            while order.under_way:
                time.sleep(0)
            _take_back(self._thread_id)
            if order.over.locked():
                order.over.release()
            if self._is_main:
                _forget_place()

    def takes_signal(self, frame: FrameType | None) -> bool:
        """Whether a signal that has come at a place is meant for what the main thread does there, and not too early."""
        order = self._order
        if not self._open or order is None or time.monotonic() < order.again_s or _is_put_off(frame):
            return False
        order.again_s = time.monotonic() + _AGAIN_S
        return True


_main: Section | None = None
"""The section that the main thread made last."""


def _raise_in(thread_id: int, error: type[Interrupted]) -> None:
    with _raising:
        tell = _told.get(thread_id)
        if tell is not None:
            tell(error)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))


def _forget_place() -> None:
    """What ran in the main thread is over; to keep the place would keep what its function holds."""
    global _postponed  # noqa: PLW0603 - a process has one main thread
    _postponed = None


def _renew_lock() -> None:
    """In a fork: a thread that there is no more of may have held it, and every import takes it."""
    global _raising  # noqa: PLW0603 - a process has one
    _raising = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _is_delicate_in(thread_id: int) -> bool:
    return thread_id not in _told and _is_delicate(sys._current_frames().get(thread_id))  # noqa: SLF001 - there is no other way to see it


def _take_back(thread_id: int) -> None:
    """Forget an exception that was raised in a thread and that it has not seen yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), None)
