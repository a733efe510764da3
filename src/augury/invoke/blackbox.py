"""The black box of a worker process: what it was doing, for whoever finds it dead.

A worker that is killed says nothing any more. So it keeps a small file up to date in which each task slot has a
line; the platform reads it when the worker is gone.

    slot 0    task + 1, or 0    since (monotonic s)    time limit (s)    input (bytes, or NaN)
    slot 1    …
    last words: their length, and then UTF-8

The file is mapped into the worker's memory: to note that a task begins is to write a few numbers there, without a
system call, and what was written survives the process. Numbers are 64-bit floats, each of which is written at once. A
line is free while its task is 0, and the task is written last, so that a line is never read with the facts of another.
"""

import math
import mmap
import os
import struct
from contextlib import suppress
from typing import Final

import msgspec

_FIELDS: Final = 4
_FLOAT_BYTES: Final = 8
_WORDS_BYTES: Final = 1024
_LENGTH: Final = struct.Struct("<I")


class Line:
    """What one task slot is doing. Used by one thread."""

    __slots__ = ("_base", "_cells", "_has_limit")

    def __init__(self, cells: "memoryview[float]", slot: int) -> None:
        self._cells = cells
        self._base = slot * _FIELDS
        self._has_limit = True  # until it is written
        self.end()

    def begin(self, task: int, now_s: float, timeout_s: float | None = None) -> None:
        """A task begins, at this moment of the monotonic clock."""
        cells, base = self._cells, self._base
        cells[base + 1] = now_s
        if timeout_s is not None or self._has_limit:
            self._has_limit = timeout_s is not None
            cells[base + 2] = timeout_s or 0.0
        cells[base + 3] = math.nan
        cells[base] = task + 1

    def measured(self, input_bytes: float) -> None:
        """How large the input of the task is that runs now."""
        self._cells[self._base + 3] = input_bytes

    def limit(self, now_s: float, timeout_s: float) -> None:
        """The function of the task is called, and may take so long."""
        self._has_limit = True
        self._cells[self._base + 1] = now_s
        self._cells[self._base + 2] = timeout_s

    def lift_limit(self) -> None:
        """The task has returned in time; what is left is to keep its output."""
        self._cells[self._base + 2] = 0.0

    def end(self) -> None:
        """The task has ended, however it did."""
        self._cells[self._base] = 0.0


class BlackBox:
    """The worker's side of its black box.

    Args:
        path: The file; empty where the platform wants none: then all of it is written to memory that nobody reads.
        slots: How many tasks run at once.
    """

    def __init__(self, path: str, slots: int) -> None:
        cell_bytes = slots * _FIELDS * _FLOAT_BYTES
        memory = _mapped(path, cell_bytes + _LENGTH.size + _WORDS_BYTES)
        self._cells = memory[:cell_bytes].cast("d")
        self._words = memory[cell_bytes:]
        self._slots = slots

    def line(self, slot: int) -> Line:
        """The line of a task slot, free."""
        return Line(self._cells, slot)

    def say(self, words: str) -> None:
        """Leave last words."""
        told = words.encode("utf-8", "replace")[:_WORDS_BYTES]
        self._words[_LENGTH.size : _LENGTH.size + len(told)] = told
        _LENGTH.pack_into(self._words, 0, len(told))

    def clear(self) -> None:
        """Forget everything: another invocation begins."""
        for slot in range(self._slots):
            self.line(slot)
        _LENGTH.pack_into(self._words, 0, 0)


class RunningTask(msgspec.Struct, frozen=True):
    """A task that a worker was running.

    Attributes:
        task: Which.
        since_s: Since when, on the monotonic clock of the machine.
        timeout_s: How long it may take; 0 if it has no limit.
        input_bytes: The size of its input; NaN if it was not measured.
    """

    task: int
    since_s: float = 0.0
    timeout_s: float = 0.0
    input_bytes: float = math.nan


class Found(msgspec.Struct, frozen=True):
    """What was in a black box: the tasks that ran, the one that began first first, and last words."""

    tasks: tuple[RunningTask, ...] = ()
    words: str = ""

    def overdue(self, now_s: float, patience_s: float) -> RunningTask | None:
        """A task that runs longer than it may, by more than some patience."""
        late = (one for one in self.tasks if one.timeout_s and now_s - one.since_s > one.timeout_s + patience_s)
        return next(late, None)


def read_black_box(path: str) -> Found:
    """What a worker did when it last did anything; nothing if there is no file, or none that makes sense."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return Found()
    cells = (len(data) - _LENGTH.size - _WORDS_BYTES) // _FLOAT_BYTES // _FIELDS * _FIELDS
    if cells <= 0:
        return Found()
    lines = struct.iter_unpack(f"={_FIELDS}d", data[: cells * _FLOAT_BYTES])
    running = [
        RunningTask(int(task) - 1, since_s, timeout_s, input_bytes)
        for task, since_s, timeout_s, input_bytes in lines
        if 1 <= task < math.inf
    ]
    rest = data[cells * _FLOAT_BYTES :]
    length = min(_LENGTH.unpack_from(rest)[0], _WORDS_BYTES)
    words = rest[_LENGTH.size : _LENGTH.size + length].decode("utf-8", "replace")
    return Found(tuple(sorted(running, key=lambda one: one.since_s)), words)


def _mapped(path: str, size_bytes: int) -> memoryview:
    """The file's memory. Where none is to be had (a full disk) the box stays empty: tasks run all the same."""
    if path:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # Written once in the usual way: a page that the disk has no room for would kill the worker later.
                if os.write(descriptor, bytes(size_bytes)) == size_bytes:
                    return memoryview(mmap.mmap(descriptor, size_bytes))
            finally:
                os.close(descriptor)
    return memoryview(bytearray(size_bytes))
