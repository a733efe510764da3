"""The heartbeat of an invocation: so long as it is heard, nobody else takes its place.

Beats come from a thread of their own, since every other one may be busy for longer than a lease. With each of them the
invocation also sees to others: storage tells who was not heard of for too long, and it starts them again.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from augury.storage.protocols import Beat, Claim, Coordination, Hopeless, Status
from augury.worker.faults import Faults
from augury.worker.helpers import HelperThread

_log = logging.getLogger(__name__)

BEATS = 4
"""How many beats there are to a lease."""


class Heart:
    """Beats for an invocation until it is stopped.

    Args:
        coordination: The run's shared state.
        worker: The worker; `attempt`: which start of it.
        lease_s: How long it may be silent.
        start: Starts workers again; see `Restarts`.
        end: Ends the run, for which there is no hope.
        stop: Told that the run is over, or that another invocation has the place of this one.
        faults: What is to go wrong, if anything is.

    Attributes:
        pause_s: How long it may be silent before it begins, and between beats.
    """

    def __init__(
        self,
        coordination: Coordination,
        worker: str,
        attempt: int,
        lease_s: float,
        *,
        start: Callable[[Sequence[Claim]], None],
        end: Callable[[Hopeless], None],
        stop: Callable[[Status], None],
        faults: Faults | None = None,
    ) -> None:
        self._coordination = coordination
        self._worker = worker
        self._attempt = attempt
        self._start = start
        self._end = end
        self._stop = stop
        self._faults = faults
        self._over = threading.Event()
        self._thread: HelperThread | None = None
        self.pause_s = lease_s / BEATS

    def begin_after(self, lasted_s: float) -> None:
        """Beat from now on, if the invocation has lasted for as long as it may without a beat."""
        if lasted_s > self.pause_s:
            self.begin()

    def begin(self) -> None:
        """Beat from now on; again and again does no harm."""
        if self._thread is None:
            self._thread = HelperThread(self._run)

    def end(self) -> None:
        """Stop beating; does not wait for a beat that is under way."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self.pause_s):
            try:
                self._beat()
            except Exception as error:  # noqa: BLE001 - whatever it is, who is not heard is taken for dead
                _log.warning("worker %s cannot be heard: %s", self._worker, error)

    def _beat(self) -> None:
        if self._faults is not None:
            self._faults.reach("heartbeat")
        beat = self._coordination.beat(self._worker, self._attempt)
        if beat.start or beat.hopeless:  # also if this came to an end meanwhile: nobody else was told
            see_to_beside(beat, self._start, self._end)
        if beat.status is not Status.RUNNING and not self._over.is_set():
            self._over.set()
            self._stop(beat.status)


def see_to_beside(beat: Beat, start: Callable[[Sequence[Claim]], None], end: Callable[[Hopeless], None]) -> None:
    """As `see_to`, in another thread: a gateway may take long, and nobody must lose its lease by waiting for it."""
    threading.Thread(target=see_to, args=(beat, start, end), name="augury-restart", daemon=True).start()


def see_to(beat: Beat, start: Callable[[Sequence[Claim]], None], end: Callable[[Hopeless], None]) -> None:
    """Do what a beat was answered with.

    Args:
        beat: The answer.
        start: Starts workers; it need not succeed, since others will be told again.
        end: Ends the run, for which there is no hope.
    """
    for hopeless in beat.hopeless[:1]:
        end(hopeless)
    if beat.start:  # even if there is no hope for another one: that may prove wrong
        names = ", ".join(f"{claim.worker} (attempt {claim.attempt})" for claim in beat.start)
        _log.info("started again: %s", names)
        start(beat.start)
