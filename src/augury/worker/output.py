"""`print` in a task reaches the user: standard output and error of tasks, caught and labelled.

The streams of a worker process are replaced once. What a thread writes while it runs a task belongs to
that task, and so does what threads of the task's own write, while it is the only one that runs; anything else
goes where it went before.
"""

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from augury.storage.protocols import Printed

_FLUSH_CHARS = 32 * 1024


class Outlet:
    """Where the tasks of one invocation write: collected until the runner takes it.

    Args:
        overflow: Called, in the thread that writes, when a lot has collected.
    """

    def __init__(self, overflow: Callable[[], None]) -> None:
        self._overflow = overflow
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
        """Have everything delivered now."""
        if self._pending:
            self._overflow()

    def drain(self) -> list[Printed]:
        """What was written since the last call."""
        if not self._pending:
            return []
        with self._lock:
            pending, self._pending, self._chars = self._pending, [], 0
        return [Printed(task, stream, "".join(parts)) for task, stream, parts in pending]


class _Writing(threading.local):
    """What the current thread writes for."""

    task: int = -1
    outlet: Outlet | None = None


_writing = _Writing()
_running: list[tuple[int, Outlet]] = []
"""The tasks that run in this process, for what threads of their own write."""


def _author() -> tuple[int, Outlet] | None:
    """The task that the current thread writes for: its own, or the only one that it can be."""
    if _writing.outlet is not None:
        return _writing.task, _writing.outlet
    return _running[0] if len(_running) == 1 else None


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
        author = _author()
        if author is None:
            self._original.write(text)
        elif text:
            task, outlet = author
            outlet.write(task, self._name, text)
        return len(text)

    def flush(self) -> None:
        author = _author()
        if author is None:
            self._original.flush()
        else:
            author[1].flush()


def catch_streams() -> None:
    """Replace the streams of this process, once."""
    if not isinstance(sys.stdout, _TaskStream):
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
