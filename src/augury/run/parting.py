"""When a client needs a run no more, and what becomes of the run then.

    the user has taken the value ─┐                                            others follow it ─▶ it stays
                                  ├─ both ─▶ this client follows it no more ─▶ │
    the workers have left ────────┘                                            nobody does ─────▶ it is removed

A run that ends with its client is of no use to others: nobody has to take its value. Neither has anybody that of a run
that was cancelled. A client that is closed before its user has asked for the value of a detached run, or that could
not get it, leaves the run for others: it stays in storage until somebody has had its value, or it expires.
"""

import logging
import threading
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress

from augury.run.beside import do_beside
from augury.run.platform import Platform
from augury.storage.protocols import Coordination, Objects

_log = logging.getLogger(__name__)


class Parting:
    """The way of one client from following a run to not following it any more. Thread-safe.

    Args:
        run_id: The run.
        platform: Where it is.
        coordination: Its shared state; `objects`: its large values.
        detached: Whether it goes on without this client.

    Attributes:
        done: Done once nothing more is wanted of storage and platform.
    """

    def __init__(
        self, run_id: str, platform: Platform, coordination: Coordination, objects: Objects, *, detached: bool
    ) -> None:
        self.done: Future[None] = Future()
        self.done.set_running_or_notify_cancel()
        self._run_id = run_id
        self._platform = platform
        self._coordination = coordination
        self._objects = objects
        self._lock = threading.Lock()
        self._detached = detached
        self._is_creator = True
        self._is_arrived = not detached  # what the run is there for, or nobody but this client wants it
        self._is_taken = not detached
        self._is_tidy = False
        self._has_parted = False

    def follows_another(self) -> None:
        """The run was created by another client."""
        self._is_creator = False

    def binds(self) -> None:
        """The run ends with this client after all."""
        self._detached, self._is_arrived, self._is_taken = False, True, True

    def arrive(self, *, cancelled: bool) -> None:
        """What the run was there for has come here; if it was cancelled, that is nothing."""
        self._is_arrived = True
        self._is_taken |= cancelled

    def take(self) -> None:
        """The user has the value, or what went wrong."""
        if self._takes():
            self._try_to_part()

    def take_beside(self) -> None:
        """The same, for who must not be held up."""
        if self._takes():
            do_beside(self._try_to_part, f"augury-part-{self._run_id}")

    def _takes(self) -> bool:
        """Whether nothing else is to be waited for."""
        with self._lock:
            is_last = self._is_tidy and not self._is_taken
            self._is_taken = True
        return is_last

    def tidy(self) -> None:
        """The run is over, and its workers have left."""
        with self._lock:
            self._is_tidy = True
            is_last = self._is_taken
        if is_last:
            self._try_to_part()

    def leave(self) -> None:
        """The client is closed: if the user has not taken the value by now, others may. May block."""
        with self._lock:
            leaves = not self._is_taken
            parts = self._is_taken and self._is_tidy
            self._is_taken = True
            self._is_arrived &= not leaves
        if leaves and self._platform.alive:
            self._try_to_part()
        elif parts:
            wait([self.done])  # another thread is about it

    def lose(self) -> None:
        """The run went with the platform, and everything in it."""
        self._platform.release(self._run_id)
        self._end()

    def part(self) -> None:
        """Follow the run no more, which can be said once; it is removed if nobody needs it."""
        with self._lock:
            if self._has_parted:
                return
            self._has_parted = True
        try:
            if self._coordination.unfollow(creator=self._is_creator, keep=not self._is_arrived):
                self._objects.remove()
                if self._detached:
                    self._platform.release(self._run_id)
        finally:
            self._end()

    def _try_to_part(self) -> None:
        try:
            self.part()
        except Exception as error:  # noqa: BLE001 - the value is out; nobody waits for this
            _log.warning("run %s could not be tidied up, and will expire: %s", self._run_id, error)

    def _end(self) -> None:
        with suppress(InvalidStateError):
            self.done.set_result(None)
