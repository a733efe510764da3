"""Outputs kept in a folder of this machine, for all programs of one user.

    results/            0700
    ├── 3f…a1           0600, one output; its expiry, in seconds since the epoch, is behind it
    └── .3f…a1.….new    one that is being written

Files are written under another name and renamed, so a reader sees all of an output or nothing, and nothing is locked. A
file's time of modification is when it was last used. How much there is altogether is counted by looking at all
files: what was put here since the last look is added to what was found then, and before that is much, or long ago, we
look again, since others put something too. So there may be too much for a while, but by no more than a sixteenth for
each who puts.
"""

import errno
import itertools
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from augury.errors import StorageError
from augury.serde import Blob, Buffer
from augury.storage.mapping import read_file
from augury.storage.results.protocol import ENTRY_BYTES
from augury.storage.shm import write_parts
from augury.trust.folders import make_private

_EXPIRY = struct.Struct("<d")
_TEMPORARY = ".new"
_ABANDONED_S = 3600.0
"""After how long a file that nobody renamed is taken for a leftover."""
_LOOK_S = 60.0
"""How long what others put is not known, at most."""
_LOOK_PART = 1 / 16
"""How much of the room is filled without a look at what others put."""
_KEPT_FREE = 0.1
"""Which part of the room is made free at a time, so that it does not have to be done for each output."""
_COUNTER = itertools.count()


class FolderResults:
    """Keeps outputs in a folder that is made when something is first kept; see `Results`. Safe between processes.

    Args:
        path: The folder. It must belong to this user.
        most_bytes: How much room there is.
        clock: Seconds since the epoch.
    """

    def __init__(self, path: str | Path, most_bytes: int, clock: Callable[[], float] = time.time) -> None:
        self._path = Path(path)
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_s = -float("inf")
        self._bytes = 0
        self._put_bytes = 0  # since we looked
        self._checked = False

    def get(self, key: str) -> Buffer | None:
        """See `Results.get`."""
        with self._translated("read"):
            try:
                file = os.open(self._path / key, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            try:
                return self._read(file, key)
            finally:
                os.close(file)

    def put(self, key: str, blob: Blob, expires_s: float) -> None:
        """See `Results.put`."""
        size_bytes = blob.size_bytes + ENTRY_BYTES
        if size_bytes > self._most_bytes:
            return
        with self._translated("write"):
            self._make_folder()
            with self._lock:
                self._make_room(size_bytes)
            self._write(key, Blob([*blob.parts, _EXPIRY.pack(self._clock() + expires_s)]))

    def clear(self) -> int:
        """See `Results.clear`."""
        with self._translated("clear"), self._lock:
            entries = list(self._entries())
            for entry in entries:
                self._forget(entry.key)
            self._bytes = 0
            return len(entries)

    def close(self) -> None:
        """Nothing to let go of."""

    def _read(self, file: int, key: str) -> Buffer | None:
        size = os.fstat(file).st_size
        if size < _EXPIRY.size:
            return None  # what a power failure left of it
        (until_s,) = _EXPIRY.unpack(os.pread(file, _EXPIRY.size, size - _EXPIRY.size))
        if not until_s > self._clock():
            self._forget(key)
            return None
        self._touch(file)
        return memoryview(read_file(file, size))[: -_EXPIRY.size]

    def _write(self, key: str, blob: Blob) -> None:
        temporary = self._path / f".{key}.{os.getpid()}.{threading.get_ident()}.{next(_COUNTER)}{_TEMPORARY}"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                write_parts(file, blob.parts)
                self._touch(file)
            finally:
                os.close(file)
            os.rename(temporary, self._path / key)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _touch(self, file: int) -> None:
        now_ns = int(self._clock() * 1e9)
        os.utime(file, ns=(now_ns, now_ns))

    def _make_folder(self) -> None:
        if not self._checked:
            make_private(self._path)
            self._checked = True

    def _make_room(self, size_bytes: int) -> None:
        """Have the least recently used outputs give way, if there is not enough room; the lock is held."""
        self._bytes += size_bytes
        self._put_bytes += size_bytes
        now_s = self._clock()
        is_known = self._put_bytes <= _LOOK_PART * self._most_bytes and now_s - self._looked_s < _LOOK_S
        if is_known and self._bytes <= self._most_bytes:
            return
        self._looked_s, self._put_bytes = now_s, size_bytes
        entries = sorted(self._entries(), key=lambda entry: entry.used_s, reverse=True)
        room_bytes = self._most_bytes - size_bytes
        if sum(entry.size_bytes for entry in entries) > room_bytes:
            room_bytes -= int(_KEPT_FREE * room_bytes)
        kept_bytes = 0
        for entry in entries:
            if kept_bytes + entry.size_bytes > room_bytes:
                self._forget(entry.key)
            else:
                kept_bytes += entry.size_bytes
        self._bytes = kept_bytes + size_bytes

    def _entries(self) -> Iterator["_Entry"]:
        """What is in the folder; leftovers are removed on the way."""
        try:
            files = os.scandir(self._path)
        except FileNotFoundError:
            return
        with files:
            for file in files:
                with suppress(FileNotFoundError):
                    status = file.stat(follow_symlinks=False)
                    if not file.name.startswith("."):
                        size_bytes = status.st_size - _EXPIRY.size + ENTRY_BYTES
                        yield _Entry(file.name, size_bytes, status.st_mtime_ns / 1e9)
                    elif time.time() - status.st_ctime > _ABANDONED_S:
                        os.unlink(file.path)

    def _forget(self, key: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path / key)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = "the disk is full" if full else error.strerror or str(error)
            raise StorageError(f"cannot {what} results in {self._path}: {reason}") from error


class _Entry(NamedTuple):
    key: str
    size_bytes: int
    used_s: float
