"""Records in a folder of this machine: a file for each workflow, and one for the index.

    history/                  0700
    ├── 3f…a1.records         0600, the records of one workflow; named by a hash of its name
    ├── index                 which workflow learned last of each function and platform
    └── lock                  held by whoever writes

Files are written under another name and renamed, so a reader sees the old one or the new one and needs no lock.
Writers hold the lock (`flock`, which the kernel lets go when its holder dies) from reading to renaming, so none undoes
what another did. Whoever holds it may therefore remove every temporary file: its writer is dead. Nothing waits for the
disk: after a power failure a file may be lost or empty, and then counts as absent.
"""

import errno
import fcntl
import itertools
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from augury.errors import StorageError
from augury.metrics.history.store import (
    MOST_WORKFLOWS,
    Change,
    Entry,
    Index,
    Reader,
    document_key,
    encode_document,
    in_order,
)
from augury.metrics.records import Records
from augury.trust.folders import STATE_VARIABLE, absolute, check_private, make_private, state_folder

_MOST_BYTES = 256 * 1024**2
_DOCUMENT, _TEMPORARY = ".records", ".new"
_INDEX, _LOCK = "index", "lock"
_UPDATES_BETWEEN_TIDYING = 64
_PAUSES_S = (0.0005, 0.001, 0.002, 0.005, 0.01)


def default_folder() -> Path:
    """Where records are kept unless told otherwise.

    Raises:
        StorageError: There is no such place, because this user has no home.
    """
    return state_folder() / "history"


class FolderStore:
    """Keeps records in a folder that is made when something is first kept. Thread-safe, and safe between processes.

    Args:
        path: The folder. It must belong to this user.
        most_workflows: How many workflows it keeps; those that were not updated for longest give way.
        most_bytes: How much room it takes, about.
        patience_s: How long to wait for others that write at the same time.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        most_workflows: int = MOST_WORKFLOWS,
        most_bytes: int = _MOST_BYTES,
        patience_s: float = 3.0,
    ) -> None:
        self.path = absolute(path)
        self._most_workflows = most_workflows
        self._most_bytes = most_bytes
        self._patience_s = patience_s
        self._reader = Reader(self.address)
        self._updates = itertools.count()

    @property
    def address(self) -> str:
        """Where it is."""
        return str(self.path)

    def load(self, workflows: Sequence[str]) -> dict[str, Records]:
        """The records of those of these workflows that have any."""
        with self._translated("read"), self._opened() as folder:
            if folder is None:
                return {}
            found = {workflow: self._read(folder, workflow) for workflow in workflows}
        return {workflow: records for workflow, records in found.items() if records is not None}

    def update(self, workflow: str, change: Change, subjects: Sequence[str] = ()) -> None:
        """Change the records of a workflow."""
        with self._translated("write"), self._locked() as folder:
            before = self._read(folder, workflow)
            after = change(before)
            if after is None:
                return
            name = _file_name(workflow)
            _replace(folder, name, encode_document(after))
            _learn(folder, subjects, workflow)
            # Only what is new adds to the number of files; sizes and leftovers are looked at now and then.
            if before is None or next(self._updates) % _UPDATES_BETWEEN_TIDYING == 0:
                self._tidy(folder, name)

    def recall(self, subjects: Sequence[str]) -> dict[str, str]:
        """The workflow that learned last of each of these subjects."""
        with self._translated("read"), self._opened() as folder:
            return {} if folder is None else _index(folder).recall(subjects)

    def list(self) -> list[Entry]:
        """All workflows, the one updated last first."""
        with self._translated("read"), self._opened() as folder:
            return [] if folder is None else in_order(self._entries(folder))

    def remove(self, workflows: Iterable[str]) -> int:
        """Forget workflows; how many of them there were."""
        with self._translated("write"):
            if not self.path.exists():
                return 0
            with self._locked() as folder:
                return sum(_unlink(folder, _file_name(workflow)) for workflow in workflows)

    def close(self) -> None:
        """Nothing to let go of."""

    def _read(self, folder: int, workflow: str) -> Records | None:
        data = self._contents(folder, _file_name(workflow))
        return None if data is None else self._reader.read(workflow, data)

    def _contents(self, folder: int, name: str) -> bytes | None:
        """What is in a document; None if there is none, or something else is in its place."""
        try:
            return _contents(folder, name)
        except OSError as error:
            self._reader.tell(name, error.strerror or str(error))
            return None

    def _entries(self, folder: int) -> Iterator[Entry]:
        for name in os.listdir(folder):
            if name.endswith(_DOCUMENT):
                data = self._contents(folder, name)
                entry = None if data is None else self._reader.head(name, data)
                if entry is not None and _file_name(entry.workflow) == name:
                    yield entry

    def _tidy(self, folder: int, latest: str) -> None:
        """Remove what crashed writers left, and the oldest documents if there are too many; never the latest."""
        documents = []
        for name in os.listdir(folder):
            if name.endswith(_TEMPORARY):
                _unlink(folder, name)
            elif name.endswith(_DOCUMENT):
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    # Not by age alone: the clock may have been set back since the others were written.
                    documents.append((name != latest, -status.st_mtime_ns, status.st_size, name))
        documents.sort()
        total_bytes = 0
        for rank, (spare, _, size_bytes, name) in enumerate(documents):
            total_bytes += size_bytes
            if spare and (rank >= self._most_workflows or total_bytes > self._most_bytes):
                _unlink(folder, name)

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """A descriptor of the folder; None if there is none."""
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            check_private(self.path, os.fstat(folder))
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """A descriptor of the folder, which is made if need be, while nobody else writes there."""
        make_private(self.path)
        with self._opened() as folder:
            if folder is None:
                raise StorageError(f"the folder {self.path} was removed while it was in use")
            lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
            try:
                self._acquire(lock)
                yield folder
            finally:
                # Closing would not do if a child was forked meanwhile: it holds the descriptor too.
                with suppress(OSError):  # a file system that knows no locks: the first error tells it
                    fcntl.flock(lock, fcntl.LOCK_UN)
                os.close(lock)

    def _acquire(self, lock: int) -> None:
        deadline_s = time.monotonic() + self._patience_s
        for attempt in itertools.count():
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    waited = f"{self._patience_s:g} s"
                    raise StorageError(
                        f"cannot write records in {self.path}: others held its lock for {waited}"
                    ) from None
            time.sleep(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])
        return None

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"cannot {what} records in {self.path}: {_explain(error)}") from error
        except ValueError as error:  # a name that no file can have
            raise StorageError(f"cannot {what} records in {str(self.path)!r}: {error}") from error


def _explain(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full; free some room, or choose another folder with {STATE_VARIABLE}"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"{error.strerror}; choose a folder that you may write to with {STATE_VARIABLE}"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "it is not a folder"
    return error.strerror or str(error)


def _file_name(workflow: str) -> str:
    return f"{document_key(workflow)}{_DOCUMENT}"


def _index(folder: int) -> Index:
    try:
        data = _contents(folder, _INDEX)
    except OSError:  # something else in its place
        return Index()
    return Index() if data is None else Index.decode(data)


def _learn(folder: int, subjects: Sequence[str], workflow: str) -> None:
    """Note in the index that a workflow knows these subjects best, if it does not say so already."""
    if not subjects:
        return
    index = _index(folder)
    learned = index.with_known(subjects, workflow)
    if learned is not index:
        with suppress(IsADirectoryError):  # somebody put it there; without an index only other workflows go unasked
            _replace(folder, _INDEX, learned.encode())


def _contents(folder: int, name: str) -> bytes | None:
    """What is in a file; None if there is none."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a file")
    with open(file, "rb", buffering=0) as opened:
        return opened.readall()


def _replace(folder: int, name: str, data: bytes) -> None:
    """Put data in the place of a file, all of it or nothing."""
    temporary = f"{os.urandom(8).hex()}{_TEMPORARY}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(file, "wb", buffering=0) as opened:
            rest = memoryview(data)
            while rest:
                rest = rest[opened.write(rest) :]
            # The clock of file systems stands still for milliseconds, in which several files may be written.
            now_ns = time.time_ns()
            os.utime(file, ns=(now_ns, now_ns))
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _unlink(folder, temporary)
        raise


def _unlink(folder: int, name: str) -> bool:
    """Remove a file; whether it was there."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
