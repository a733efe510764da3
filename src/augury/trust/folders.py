"""Folders and files of one user: where they are, and that nobody else can get at them."""

import itertools
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from augury.errors import StorageError

STATE_VARIABLE: Final = "AUGURY_STATE_DIR"

_PRIVATE: Final = 0o700
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def state_folder() -> Path:
    """Where what outlives programs is kept: `AUGURY_STATE_DIR`, else where the system keeps such things.

    Raises:
        StorageError: Neither is known, because this user has no home.
    """
    if chosen := os.environ.get(STATE_VARIABLE):
        return absolute(chosen)
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if state.is_absolute():
        return state / "augury"
    try:
        return Path.home() / ".local" / "state" / "augury"
    except RuntimeError as error:
        raise StorageError(f"there is no home to keep records in: name a folder with {STATE_VARIABLE}") from error


def absolute(path: str | Path) -> Path:
    """A path with the user's home in place of `~`.

    Raises:
        StorageError: There is no such home.
    """
    try:
        return Path(path).expanduser().absolute()
    except (RuntimeError, OSError) as error:  # a home that nobody has; a working folder that is gone
        raise StorageError(f"{str(path)!r} is no folder to keep records in: {error}") from error


def make_private(path: Path, setting: str = STATE_VARIABLE) -> None:
    """Make a folder that only this user can enter, with all that is missing on the way to it; or check that there is.

    Args:
        path: Where.
        setting: For the message: what chooses another folder.

    Raises:
        StorageError: There is one that others could change; says what to do.
        OSError: It cannot be made.
    """
    missing = list(itertools.takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            folder.mkdir(mode=_PRIVATE)
    check_private(path, path.stat(), setting)


def check_private(path: Path, status: os.stat_result, setting: str = STATE_VARIABLE) -> None:
    """Refuse a folder that others could change: what is in it could be theirs.

    Args:
        path: For the message, and to see whether it is a link.
        status: Of the folder that was opened.
        setting: For the message: what chooses another folder.

    Raises:
        StorageError: It belongs to another user, or others may write to it; says what to do.
    """
    user = os.geteuid()
    if status.st_uid != user:
        raise StorageError(f"the folder {path} belongs to another user: choose one with {setting}")
    if status.st_mode & _OTHERS_WRITE:
        raise StorageError(f"others may write to the folder {path}: `chmod 700` it, or choose another with {setting}")
    link = os.lstat(path)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (user, 0):
        raise StorageError(f"{path} is a link that another user made: choose a folder with {setting}")
