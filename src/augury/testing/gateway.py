"""A gateway in virtual time: slots, a queue in front of them, and environments that are cold or warm.

    claims ──▶ queue (first in, first out) ──▶ slots ──▶ cold or warm start ──▶ the worker joins
                                                 ▲                                   │
                                                 └────── freed, kept warm ◀── leaves ┘

An environment is reused only for a worker with the same resources.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from augury.config import Resources
from augury.storage.protocols import Claim
from augury.testing.clock import VirtualClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """What the platform did to get an invocation going.

    Attributes:
        cold: Whether it had to make a new environment.
        asked_s: When the invocation was asked for.
        granted_s: When it got a slot; it runs after the start-up time.
    """

    cold: bool
    asked_s: float
    granted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupTimes:
    """How long starts take, and how long an environment that became free stays warm."""

    cold_s: float = 0.0
    warm_s: float = 0.0
    keep_alive_s: float = float("inf")


class VirtualGateway:
    """Starts invocations, never more than it has slots for.

    Args:
        clock: The virtual time.
        slots: How many invocations run at once; those that are starting up count.
        times: How long starts take.
        start: Called when an environment is up, with the worker to be run in it.
    """

    def __init__(
        self, clock: VirtualClock, slots: int, times: StartupTimes, start: Callable[[Claim, Startup], None]
    ) -> None:
        self._clock = clock
        self._free = slots
        self._slots = slots
        self._times = times
        self._start = start
        self._queue: deque[tuple[Claim, float]] = deque()
        self._warm: dict[Resources, list[float]] = {}  # when each free environment became free
        self.cold_starts = 0
        self.max_concurrent = 0

    @property
    def queued(self) -> list[str]:
        """The workers that wait for a slot."""
        return [claim.worker for claim, _ in self._queue]

    def invoke(self, claims: Sequence[Claim]) -> None:
        """Start workers, in this order; what finds no slot waits for one."""
        self._queue.extend((claim, self._clock()) for claim in claims)
        self._fill()

    def release(self, resources: Resources) -> None:
        """An invocation has ended: its environment stays warm for a while, its slot goes to the next in line."""
        self._free += 1
        self._warm.setdefault(resources, []).append(self._clock())
        self._fill()

    def _fill(self) -> None:
        while self._queue and self._free:
            claim, asked_s = self._queue.popleft()
            self._free -= 1
            self.max_concurrent = max(self.max_concurrent, self._slots - self._free)
            cold = not self._take_warm(claim.resources)
            self.cold_starts += cold
            startup = Startup(cold=cold, asked_s=asked_s, granted_s=self._clock())
            delay_s = self._times.cold_s if cold else self._times.warm_s
            self._clock.after(delay_s, partial(self._start, claim, startup))

    def _take_warm(self, resources: Resources) -> bool:
        """Take the environment that became free last, as platforms do; the others grow cold meanwhile."""
        warm = self._warm.get(resources)
        if not warm:
            return False
        if self._clock() - warm.pop() <= self._times.keep_alive_s:
            return True
        warm.clear()
        return False
