"""Large values as files in shared memory: written once, mapped by every reader on the host.

A value is written under a temporary name and renamed, so readers see all of it or nothing. The run's folder
is made by `create` alone: once `remove` has taken it away, a late `put` fails and leaves nothing behind.
"""

import errno
import itertools
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from augury.errors import StorageError
from augury.serde import Blob, Buffer
from augury.storage.mapping import read_file, share_file

_MAX_PARTS = 1024
"""How many parts one `writev` takes (IOV_MAX)."""

_COUNTER = itertools.count()


class SharedMemoryObjects:
    """Large values of a run, as files that all its workers and the client see.

    Args:
        folder: Of all runs; in shared memory.
        run_id: The run.
    """

    def __init__(self, folder: Path, run_id: str) -> None:
        self._root = folder
        self._folder = folder / run_id

    def create(self) -> None:
        """Make room for the run; `put` fails before, and after `remove`."""
        with self._translated("make room"):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)

    def put(self, key: str, blob: Blob) -> Buffer | None:
        """Store a value; its parts are written one after another, and never joined."""
        with self._translated(f"store {key}, {_mb(blob.size_bytes)}"):
            # Not a name that another process, thread or repetition may use at the same time.
            temporary = self._folder / f".{key}.{os.getpid()}.{threading.get_ident()}.{next(_COUNTER)}"
            file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                try:
                    os.ftruncate(file, blob.size_bytes)  # large pages are for files that are known to be large
                    write_parts(file, blob.parts)
                    os.link(temporary, self._folder / key)
                    return share_file(file, blob.size_bytes)
                except FileExistsError:
                    return None  # the first value stays
                finally:
                    os.close(file)
            finally:
                with suppress(OSError):
                    os.unlink(temporary)

    def get(self, keys: Sequence[str]) -> dict[str, Buffer]:
        """Values by key, mapped; keys that are not there are left out."""
        found = {}
        for key in keys:
            with self._translated(f"read {key}"), suppress(FileNotFoundError):
                found[key] = self._read(self._folder / key)
        return found

    def delete(self, keys: Iterable[str]) -> None:
        """Forget values; what is mapped stays readable."""
        for key in keys:
            with self._translated(f"delete {key}"), suppress(FileNotFoundError):
                os.unlink(self._folder / key)

    def remove(self) -> None:
        """Forget everything of the run."""
        # Under another name first: whoever is about to store something no longer finds the folder.
        doomed = self._root / f".{self._folder.name}.{os.getpid()}.{next(_COUNTER)}"
        with self._translated("remove the run"), suppress(FileNotFoundError):
            os.rename(self._folder, doomed)
            shutil.rmtree(doomed)

    def _read(self, path: Path) -> Buffer:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return read_file(file, os.fstat(file).st_size)
        finally:
            os.close(file)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(f"cannot {what}: this process may have no more memory") from error
            raise StorageError(f"cannot {what}: {self._explain(error)}") from error

    def _explain(self, error: OSError) -> str:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"shared memory is full ({self._free()}): remove old runs, return smaller values, or make it larger"
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return "too many files are open: raise the limit (ulimit -n)"
        if error.errno == errno.ENOENT:
            return f"run {self._folder.name} is gone from {self._root}"
        return f"{error.strerror or error} ({self._folder})"

    def _free(self) -> str:
        space = os.statvfs(self._root)
        return f"{_mb(space.f_bavail * space.f_frsize)} free of {_mb(space.f_blocks * space.f_frsize)} in {self._root}"


def write_parts(file: int, parts: Sequence[Buffer]) -> None:
    """Write all parts, however few bytes the system takes at a time."""
    pending = [memoryview(part) for part in parts if len(part)]
    first = 0
    while first < len(pending):
        written = os.writev(file, pending[first : first + _MAX_PARTS])
        while first < len(pending) and written >= len(pending[first]):
            written -= len(pending[first])
            first += 1
        if written:
            pending[first] = pending[first][written:]


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:,.1f} MiB"
