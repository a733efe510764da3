"""What a platform does once its client is gone: detached runs go on, the others end.

    client gone ─▶ cancel the runs that are not detached ─▶ look now and then at those that are
                                                               │ some run      stay
                                                               │ all are over  stay for a while: results may be fetched
                                                               ▼ none is left, or it took too long
                                                             end

A storage that does not answer says nothing of the runs: it may come back with all of them, within an hour.

The supervisor loads this module only when it has to: storage and its client take long to import.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from augury.config import StorageConfig
from augury.errors import StorageError
from augury.storage.opening import open_storage
from augury.storage.protocols import Status

_AWAY_S: Final = 3600.0
"""How long storage may be away."""


class Stay:
    """Whether there is still something to stay for. Does no I/O.

    Args:
        now_s: When the client went.
        linger_s: For how long results are kept once all runs are over.
        most_s: For how long it stays at most.
    """

    def __init__(self, now_s: float, *, linger_s: float, most_s: float) -> None:
        self._began_s = now_s
        self._heard_s = now_s
        self._over_s: float | None = None
        self._linger_s = linger_s
        self._most_s = most_s

    def goes_on(self, statuses: Mapping[str, str] | None, now_s: float) -> bool:
        """Whether to stay, now that the detached runs stand like this; None if storage does not say."""
        if statuses is None:
            return now_s - self._heard_s < _AWAY_S and now_s - self._began_s < self._most_s
        self._heard_s = now_s
        left = [status for status in statuses.values() if status != Status.GONE]
        if not left or now_s - self._began_s >= self._most_s:
            return False
        if Status.RUNNING in left:
            self._over_s = None
            return True
        if self._over_s is None:
            self._over_s = now_s
        return now_s - self._over_s < self._linger_s


def statuses_of(run_ids: Iterable[str], config: StorageConfig) -> dict[str, str]:
    """Where runs stand; blocks.

    Raises:
        StorageError: Storage does not answer. It may have all of them when it does.
    """
    storage = open_storage(config)
    try:
        return {run_id: str(storage.coordination(run_id).status()) for run_id in run_ids}
    finally:
        storage.close()


def part(run_ids: Iterable[str], config: StorageConfig) -> None:
    """The client that created runs is gone: who takes their results now is the last who wants them; blocks."""
    storage = open_storage(config)
    try:
        with suppress(StorageError):  # then they are kept for as long as the platform stays
            for run_id in run_ids:
                storage.coordination(run_id).unfollow(keep=True)
    finally:
        storage.close()


def cancel(run_ids: Iterable[str], config: StorageConfig) -> None:
    """End runs whose client is gone, as far as they are not over; blocks."""
    storage = open_storage(config)
    try:
        with suppress(StorageError):  # then they end with the platform, or their keys expire
            for run_id in run_ids:
                storage.coordination(run_id).fail(Status.CANCELLED, b"")
    finally:
        storage.close()
