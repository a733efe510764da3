"""A gateway in virtual time: slots, a queue in front of them, and environments that are cold or warm.

    claims ──▶ queue (first in, first out) ──▶ slots ──▶ cold or warm start ──▶ the worker joins
                                                 ▲                                   │
                                                 └────── freed, kept warm ◀── leaves ┘

An environment is reused only for a worker with the same resources, the one that became free last first.

Pre-warming makes environments that run nothing. Each takes a free slot for the time of a cold start and is warm and
free from then on; where no slot is free, nothing is made. A worker that is asked for meanwhile does not wait for
one that is being made: it finds a warm environment, or gets a new one of its own, as on the embedded platform.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from augury.config import Resources
from augury.plan.model import PlatformModel
from augury.storage.protocols import Claim
from augury.testing.clock import VirtualClock
from augury.testing.spans import PrewarmSpan


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


class VirtualGateway:
    """Starts invocations, never more than it has slots for.

    Args:
        clock: The virtual time.
        model: How many slots there are, how long starts take and how long environments stay warm.
        start: Called when an environment is up, with the worker to be run in it.
    """

    def __init__(self, clock: VirtualClock, model: PlatformModel, start: Callable[[Claim, Startup], None]) -> None:
        self._clock = clock
        self._model = model
        self._free = model.concurrency
        self._start = start
        self._starting = 0  # environments that are being made, and workers that have not joined yet
        self._queue: deque[tuple[Claim, float]] = deque()
        # When each free environment became free; those that are warm before the run did so at its start, and more
        # than there are slots for are never needed at once.
        self._warm: dict[Resources, list[float]] = {
            resources: [0.0] * int(min(count, model.concurrency)) for resources, count in model.warm.items()
        }
        self.cold_starts = 0
        self.max_concurrent = 0
        self.prewarms: list[PrewarmSpan] = []

    @property
    def queued(self) -> list[str]:
        """The workers that wait for a slot."""
        return [claim.worker for claim, _ in self._queue]

    def invoke(self, claims: Sequence[Claim]) -> None:
        """Start workers, in this order; what finds no slot waits for one."""
        self._queue.extend((claim, self._clock()) for claim in claims)
        self._fill()

    def prewarm(self, resources: Resources, count: int) -> None:
        """Make as many environments as are missing to have `count` warm and free, as far as there are free slots."""
        for _ in range(min(count - len(self._still_warm(resources)), self._free)):
            self._occupy()
            cold_s = self._cold_s(resources)
            self._starting += 1
            self._clock.after(cold_s, partial(self._prewarmed, resources, self._clock()))

    def joined(self) -> None:
        """A worker that was started has joined its run: from now on it crowds no others that start."""
        self._starting -= 1

    def release(self, resources: Resources, *, keeps_warm: bool = True) -> None:
        """An invocation has ended: its environment stays warm for a while, its slot goes to the next in line."""
        self._free += 1
        if keeps_warm:
            self._warm.setdefault(resources, []).append(self._clock())
        self._fill()

    def _fill(self) -> None:
        while self._queue and self._free:
            claim, asked_s = self._queue.popleft()
            self._occupy()
            cold = not self._take_warm(claim.resources)
            self.cold_starts += cold
            startup = Startup(cold=cold, asked_s=asked_s, granted_s=self._clock())
            warm_s = self._model.timing_of(claim.resources).warm_start_s
            delay_s = self._cold_s(claim.resources) if cold else warm_s
            self._starting += 1
            self._clock.after(delay_s, partial(self._start, claim, startup))

    def _occupy(self) -> None:
        self._free -= 1
        self.max_concurrent = max(self.max_concurrent, self._model.concurrency - self._free)

    def _cold_s(self, resources: Resources) -> float:
        timing = self._model.timing_of(resources)
        return timing.cold_start_s + timing.crowd_s * self._starting

    def _prewarmed(self, resources: Resources, began_s: float) -> None:
        self._starting -= 1
        self.prewarms.append(PrewarmSpan(resources=resources, start_s=began_s, end_s=self._clock()))
        self.release(resources)

    def _take_warm(self, resources: Resources) -> bool:
        """Take the environment that became free last, as platforms do; the others grow cold meanwhile."""
        warm = self._still_warm(resources)
        if warm:
            warm.pop()
            return True
        return False

    def _still_warm(self, resources: Resources) -> list[float]:
        """The free environments that have not grown cold: when each became free, the last one last."""
        warm = self._warm.setdefault(resources, [])
        del warm[: bisect_left(warm, self._clock() - self._model.keep_alive_s)]
        return warm
