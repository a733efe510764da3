"""`print` in a task reaches the user: standard output and error of tasks, caught and labelled.

The streams of a worker process are replaced once. What a thread writes while it runs a task belongs to
that task, and so does what threads write that the task started, while it runs; anything else goes where it
went before.
"""

import io
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from augury.storage.protocols import Printed

_FLUSH_CHARS = 32 * 1024
_FLUSH_EVERY_S = 0.05


class Outlet:
    """Where the tasks of one invocation write: collected until the runner takes it.

    Args:
        overflow: Called, in the thread that writes, when a lot has collected or a task flushes.
        clock: Seconds.
    """

    def __init__(self, overflow: Callable[[], None], clock: Callable[[], float]) -> None:
        self._overflow = overflow
        self._clock = clock
        self._flush_every_s = _FLUSH_EVERY_S
        self._delivered_s = -_FLUSH_EVERY_S
        self._lock = threading.Lock()
        self._pending: list[tuple[int, str, list[str]]] = []
        self._chars = 0

    def write(self, task: int, stream: str, text: str) -> None:
        """Take text that a task wrote."""
        with self._lock:
            if self._pending and self._pending[-1][:2] == (task, stream):
                self._pending[-1][2].append(text)
            else:
                self._pending.append((task, stream, [text]))
            self._chars += len(text)
            full = self._chars >= _FLUSH_CHARS
        if full:
            self._overflow()

    def flush(self) -> None:
        """Have everything delivered now; or soon, if something was just delivered: loggers flush every line."""
        now_s = self._clock()
        if self._pending and now_s - self._delivered_s >= self._flush_every_s:
            self._delivered_s = now_s
            self._overflow()

    def begin_anew(self) -> None:
        """In a fork: what has collected is the parent's to deliver, and so may be the lock.

        There is no courier here to deliver later, so every flush does.
        """
        self._lock = threading.Lock()
        self._pending, self._chars = [], 0
        self._flush_every_s = 0.0

    def drain(self) -> list[Printed]:
        """What was written since the last call."""
        if not self._pending:
            return []
        with self._lock:
            pending, self._pending, self._chars = self._pending, [], 0
        return [Printed(task, stream, _encodable("".join(parts))) for task, stream, parts in pending]


def _encodable(text: str) -> str:
    """Text without lone surrogates, which no message can hold."""
    return text.encode("utf-8", "backslashreplace").decode()


class _Writing(threading.local):
    """What the current thread writes for."""

    task: int = -1
    outlet: Outlet | None = None


_writing = _Writing()
_running: list[tuple[int, Outlet]] = []
"""The tasks that run in this process."""
_started_by: "weakref.WeakKeyDictionary[threading.Thread, tuple[int, Outlet]]" = weakref.WeakKeyDictionary()
"""Threads that tasks started, and for which task."""
_start_thread = threading.Thread.start


def _author() -> tuple[int, Outlet] | None:
    """The task that the current thread writes for: the one that it runs, or the one that started it and still runs."""
    if _writing.outlet is not None:
        return _writing.task, _writing.outlet
    author = _started_by.get(threading.current_thread())
    return author if author in _running else None


def has_threads_of_tasks() -> bool:
    """Whether a thread goes on that a task has started."""
    threads = [known() for known in _started_by.keyrefs()]  # in one step: threads may be started meanwhile
    return any(thread is not None and thread.is_alive() for thread in threads)


def _start_for_author(thread: threading.Thread) -> None:
    """As `Thread.start`; remembers for which task."""
    author = _author()
    if author is not None:
        _started_by[thread] = author
    _start_thread(thread)


class _TaskStream(io.TextIOBase):
    """Stands in for a standard stream."""

    def __init__(self, name: str, original: TextIO) -> None:
        super().__init__()
        self._name = name
        self._original = original

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._original.fileno()

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        author = _author()
        if author is None:
            self._original.write(text)
        elif text:
            task, outlet = author
            outlet.write(task, self._name, text)
        return len(text)

    @property
    def buffer(self) -> "_TaskBytes":
        """For those who write bytes."""
        return _TaskBytes(self)

    def flush(self) -> None:
        author = _author()
        if author is None:
            self._original.flush()
        else:
            author[1].flush()


class _TaskBytes(io.RawIOBase):
    """The binary side of such a stream."""

    def __init__(self, stream: _TaskStream) -> None:
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def _after_fork() -> None:
    for _, outlet in _running:
        outlet.begin_anew()


os.register_at_fork(after_in_child=_after_fork)


def catch_streams() -> None:
    """Replace the streams of this process, and follow the threads that tasks start; once."""
    if not isinstance(sys.stdout, _TaskStream):
        threading.Thread.start = _start_for_author  # type: ignore[method-assign, assignment]
        sys.stdout = _TaskStream("stdout", sys.stdout)
        sys.stderr = _TaskStream("stderr", sys.stderr)


@contextmanager
def writing_for(task: int, outlet: Outlet) -> Iterator[None]:
    """While it is open, what this thread writes belongs to a task."""
    _writing.task, _writing.outlet = task, outlet
    _running.append((task, outlet))
    try:
        yield
    finally:
        _writing.outlet = None
        _running.remove((task, outlet))
