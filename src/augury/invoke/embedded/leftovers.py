"""What runs that are gone left in the shared memory of a platform that lives on.

The objects of a run go when the last client that follows it has the result. If that client dies in between, or vanished
before, the run's keys expire in Redis, and nobody is left to remove its files: the supervisor looks now and then.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from augury.config import StorageConfig
from augury.errors import StorageError
from augury.invoke.embedded.lingering import statuses_of
from augury.storage.protocols import Status

logger = logging.getLogger(__name__)

OLD_S: Final = 3600.0
"""How long nothing was added to the files of a run before it is looked for; one in the making is not in Redis yet."""


def sweep_objects(folder: Path, config: StorageConfig, now_s: float) -> list[str]:
    """Remove the files of runs that are gone; blocks.

    Args:
        folder: Where the objects of all runs are.
        config: Where their state is.
        now_s: The time, in seconds since the epoch.

    Returns:
        The runs whose files were removed.
    """
    old = list(_old(folder, now_s))
    statuses = _statuses([name for name in old if not name.startswith(".")], config)
    # A name with a dot is that of a folder whose removal was broken off.
    gone = [name for name in old if name.startswith(".") or statuses.get(name) == Status.GONE]
    for name in gone:
        shutil.rmtree(folder / name, ignore_errors=True)
    return gone


def _statuses(run_ids: list[str], config: StorageConfig) -> dict[str, str]:
    """Where runs stand, as far as storage says so."""
    try:
        return statuses_of(run_ids, config) if run_ids else {}
    except StorageError:
        logger.exception("nobody knows which runs are gone")
        return {}


def _old(folder: Path, now_s: float) -> Iterator[str]:
    with suppress(OSError):
        for entry in os.scandir(folder):
            with suppress(OSError):  # it goes while we look
                age_s = now_s - entry.stat(follow_symlinks=False).st_mtime
                if entry.is_dir(follow_symlinks=False) and age_s > OLD_S:
                    yield entry.name
