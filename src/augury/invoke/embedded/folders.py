"""Private folders that outlive nobody: locked while their owner lives, swept when it is gone.

The lock is an advisory one (`flock`) on the folder itself, held through an open descriptor; the kernel lets it
go when the last process that holds it dies, however it dies. A folder that holds our marker and can be
locked is therefore a leftover, and whoever finds it removes it. The marker is written after the lock was
taken, so that a folder in the making is never mistaken for a leftover.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from augury.errors import PlatformError
from augury.invoke.embedded.mounts import mount_memory, unmount

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - that folder is meant
_PREFIX: Final = "augury-"
_MARKER: Final = ".augury-platform"


def lock_folder(folder: Path) -> int | None:
    """Lock a folder and return the descriptor that holds the lock; None if someone holds it, or it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def make_folder(parent: Path, prefix: str = _PREFIX, *, in_memory: bool = False) -> tuple[Path, int]:
    """Make a folder that only this user can enter, and lock it; the descriptor holds the lock.

    One that is to be in memory has large pages, if we may mount file systems.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    if in_memory:
        mount_memory(folder)  # first: what is locked is what is seen under its name
    lock = lock_folder(folder)
    if lock is None:
        remove_folder(folder)
        raise PlatformError(f"cannot lock the folder {folder}: another process has taken it")
    (folder / _MARKER).touch()
    return folder, lock


def make_platform_folder() -> tuple[Path, int]:
    """The folder for the socket of Redis and the log; its path is short, as socket paths must be."""
    return make_folder(Path(tempfile.gettempdir()))


def make_object_folder(platform_folder: Path) -> tuple[Path, int]:
    """The folder for large objects: in shared memory, or below the platform's own where there is none."""
    if os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        return make_folder(SHARED_MEMORY, f"{_PREFIX}{os.getuid()}-", in_memory=True)
    return make_folder(platform_folder, "objects-")


def remove_folder(folder: Path) -> None:
    """Remove what `make_folder` made, with all that is in it."""
    unmount(folder)
    shutil.rmtree(folder, ignore_errors=True)


def is_abandoned(folder: Path) -> bool:
    """Whether the platform that made a folder has ended, in whatever way."""
    if not folder.exists():
        return True
    lock = lock_folder(folder) if _is_ours(folder) else None
    if lock is None:
        return False
    os.close(lock)
    return True


def sweep_folders() -> None:
    """Remove the folders of this user's platforms that died without removing them."""
    for parent in (Path(tempfile.gettempdir()), SHARED_MEMORY):
        for folder in _ours(parent):
            lock = lock_folder(folder)
            if lock is not None:
                remove_folder(folder)
                os.close(lock)


def _ours(parent: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False) and _is_ours(Path(entry.path)):
                yield Path(entry.path)


def _is_ours(folder: Path) -> bool:
    try:
        marker = (folder / _MARKER).lstat()
    except OSError:
        return False
    return marker.st_uid == folder.lstat().st_uid == os.getuid()
