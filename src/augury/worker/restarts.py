"""Starting workers again: who beats is told whom, and a gateway that is gone for good ends the run.

What could not be started stays due, and whoever beats next may be told of it and succeed. So nobody gives a run up
because of its own way to the gateway alone: only if its starts have failed for as long as patience lasts, and storage
still waits for one of those workers by then.

Failures that are far apart are several short outages, and none of them is a reason to give up. How far is far? Storage
has a worker that does not come up started again after 1, 1, 2, 4, 8, … leases, and others may be told in between:

    told, and failed   ×  ×     ×           ×                       ×        one outage: all of it counts
    told, and failed   ×                                        ×            two: patience begins anew
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from augury.errors import GatewayError
from augury.storage.protocols import Claim, Coordination, Missing

_log = logging.getLogger(__name__)

_NAMED: Final = 3
_APART: Final = 4
"""How many times as long as patience, or as a lease, there is between the failures of two outages."""


@dataclass(frozen=True, slots=True)
class _Outage:
    """For how long a worker could not be started; as far as the one who tried knows."""

    since_s: float
    until_s: float


class Restarts:
    """Starts workers again, for one who beats, and knows since when that has been failing. Thread-safe.

    Args:
        coordination: The run's shared state.
        invoke: Hands workers to the gateway; may raise anything.
        give_up: Ends the run, with what went wrong.
        patience_s: For how long starts may fail; the run ends with the first failure after that.
        lease_s: How soon somebody is told again of a worker that has not come up; at first.
        clock: Tells the time.
    """

    def __init__(
        self,
        coordination: Coordination,
        *,
        invoke: Callable[[Sequence[Claim]], None],
        give_up: Callable[[GatewayError], None],
        patience_s: float,
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._coordination = coordination
        self._invoke = invoke
        self._give_up = give_up
        self._patience_s = patience_s
        self._apart_s = _APART * max(patience_s, lease_s)
        self._clock = clock
        self._lock = Lock()
        self._failing: dict[Missing, _Outage] = {}  # none that was seen to be up, and empty after a success

    def start(self, claims: Sequence[Claim]) -> None:
        """Start workers, if that is possible now; raises nothing."""
        began_s = self._clock()
        try:
            self._invoke(claims)
        except Exception as error:  # noqa: BLE001 - the duty stays: when their leases run out, somebody is told again
            _log.warning("could not start again %s: %s", _named(claims), error)
            self._note_failure([Missing(claim.worker, claim.attempt) for claim in claims], began_s, error)
        else:
            with self._lock:
                self._failing.clear()

    def _note_failure(self, claimed: Sequence[Missing], began_s: float, error: Exception) -> None:
        now_s = self._clock()
        with self._lock:
            self._failing |= {one: _Outage(self._failing_since_s(one, began_s), now_s) for one in claimed}
            failing_s = now_s - min(self._failing[one].since_s for one in claimed)
        if failing_s < self._patience_s:
            return
        try:
            self._forget_all_but(self._coordination.starting())
        except Exception as away:  # noqa: BLE001 - without storage, nobody can say who is missing
            _log.warning("cannot say who is still to be started: %s", away)
            return
        with self._lock:
            waiting = any(one in self._failing for one in claimed)
        if waiting:
            self._give_up(_gone(failing_s, error))

    def _failing_since_s(self, one: Missing, began_s: float) -> float:
        """When the outage began that a start at this time fell into."""
        outage = self._failing.get(one)
        return began_s if outage is None or began_s - outage.until_s > self._apart_s else outage.since_s

    def _forget_all_but(self, starting: Sequence[Missing]) -> None:
        """Those who are not waited for have been started by others."""
        with self._lock:
            for one in self._failing.keys() - set(starting):
                del self._failing[one]


def _gone(failing_s: float, error: Exception) -> GatewayError:
    gone = GatewayError(f"lost workers could not be started again for {failing_s:.3g} s: {error}")
    gone.__cause__ = error
    return gone


def _named(claims: Sequence[Claim]) -> str:
    names = [f"{claim.worker} (attempt {claim.attempt})" for claim in claims[:_NAMED]]
    return ", ".join(names) + (f" and {len(claims) - _NAMED} more" if len(claims) > _NAMED else "")
