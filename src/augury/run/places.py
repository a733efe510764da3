"""Where detached runs of this user's embedded platforms are, so that another process can attach to them.

A small file for each, in the folder `runs` of the state folder, which only the user may read: it holds the address of
the platform and what to show there. It goes with the run; what a killed client left is swept by the next one.
"""

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Final

import msgspec

from augury.errors import RunLost, StorageError
from augury.invoke.embedded.folders import is_abandoned
from augury.trust.folders import check_private, make_private, state_folder

KEPT_S: Final = 30 * 24 * 3600.0
"""For how long a file is kept whose platform has ended: longer than its runs went on, and are in storage after."""

_MAKING_S: Final = 3600.0
_RUN_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run is.

    Attributes:
        run_id: The run.
        redis: The address of its Redis; `owns_storage`: whether that ends with the platform.
        gateway: Where workers are started; `token`: what to show there.
        platform: How records call the platform.
        folder: Of the platform; it is there as long as the platform is. Empty if a user told where the run is.
        made_s: When, in seconds since the epoch.
    """

    run_id: str
    redis: str
    owns_storage: bool
    gateway: str
    token: str
    platform: str
    folder: str
    made_s: float

    def __repr__(self) -> str:
        return f"Place({self.run_id})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("run_id", self.run_id)]  # msgspec's own shows every field

    @property
    def is_noted(self) -> bool:
        """Whether it was written down by the client that started the run."""
        return bool(self.folder)

    @property
    def is_over(self) -> bool:
        """Whether nothing of the run can be there any more. While its platform lives it may, however old it is."""
        if not _is_abandoned(self.folder):
            return False
        return self.owns_storage or not -KEPT_S < time.time() - self.made_s < KEPT_S


def note_place(place: Place) -> None:
    """Write down where a run is.

    Raises:
        StorageError: The state folder is not the user's own.
        OSError: It cannot be written to.
    """
    folder = _folder()
    make_private(folder)
    temporary = folder / f".{place.run_id}.{os.getpid()}"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(file, msgspec.json.encode(place))
    finally:
        os.close(file)
    os.rename(temporary, folder / place.run_id)


def find_place(run_id: str) -> Place | None:
    """Where a run is; None if that is not known here.

    Raises:
        RunLost: That is not the id of a run, or the run cannot be there any more.
        StorageError: The state folder is not the user's own.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise RunLost(f"{run_id!r} is not the id of a run: use `run.run_id`, such as '6c1f0a9e5b7d4e21'")
    folder = _folder()
    place = _read(folder / run_id) if folder.exists() else None
    if place is None:
        return None
    check_private(folder, folder.stat())
    if place.is_over:
        forget_place(run_id)
        raise RunLost(
            f"run {run_id} is lost: the embedded platform that it ran on has ended, which keeps results for some time "
            "after its client, Embedded(linger_s=…)"
        )
    return place


def forget_place(run_id: str) -> None:
    """The run is over, and its result was fetched by all who wanted it."""
    with contextlib.suppress(OSError, StorageError):  # where there is no state folder, nothing was written down
        (_folder() / run_id).unlink(missing_ok=True)


def sweep_places() -> None:
    """Remove what tells of runs that cannot be there any more."""
    paths: list[Path] = []
    with contextlib.suppress(OSError, StorageError):  # nothing was written down yet
        paths += _folder().iterdir()
    for path in paths:
        with contextlib.suppress(OSError):  # others sweep, too
            _sweep(path)


def _sweep(path: Path) -> None:
    place = _read(path)
    age_s = time.time() - path.lstat().st_mtime
    # What cannot be read is in the making, or broken.
    if age_s > _MAKING_S if place is None else place.is_over:
        path.unlink(missing_ok=True)


def _folder() -> Path:
    return state_folder() / "runs"


def _read(path: Path) -> Place | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Place)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _is_abandoned(folder: str) -> bool:
    """Whether nobody has a folder any more, such as one whose name nobody can look up."""
    try:
        return is_abandoned(Path(folder))
    except OSError:
        return True
