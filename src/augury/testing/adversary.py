"""A seeded adversary: what can go wrong on a platform goes wrong, and with the same seed in the same way again.

    platform = VirtualPlatform(slots=4, latency_s=0.01, adversary=Adversary(seed=7))
    run = platform.run_workflow(total, duration_s=lambda task: 2.0)
    assert run.result == 42
    print(run.faults)  # {"crash, seen": 1, "freeze": 2, …}

Everything that an invocation does is a *step*: a request that it sends, an answer that it takes in, a task that ends, a
timer. Between any two of them it may be struck. Requests are apart from that: what was sent before a crash may
still take effect, and its answer finds nobody.

| kind | what happens |
|---|---|
| crash, seen | the invocation is gone, and the gateway tells the run of it, a little later |
| crash, unseen | the invocation is gone, and nobody knows |
| out of memory | as a crash that is seen, if there are workers with more memory |
| freeze | for a time nothing happens in the invocation, for less than its lease or for much more; then it goes on |
| delay | a request, or its answer, takes longer |
| repeat | a request that may be sent again takes effect twice |
| drop, duplicate, late | what the gateway is asked to start never starts, starts twice, or later than others |
| absent | the client does not look after the run for a while |
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from augury.config import Resources
from augury.storage.protocols import Care, Cause, Claim


class Mishap(StrEnum):
    """What the adversary may do."""

    CRASH_SEEN = "crash, seen"
    CRASH_UNSEEN = "crash, unseen"
    MEMORY = "out of memory"
    FREEZE = "freeze"
    DELAY = "delay"
    REPEAT = "repeat"
    DROP = "drop"
    DUPLICATE = "duplicate"
    LATE = "late"
    ABSENT = "absent"


_CARE = Care(lease_s=2.0, larger=(Resources(8, 4096), Resources(8, 8192)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversary:
    """What goes wrong in a run on the virtual platform.

    Args:
        seed: Draws what happens, and when. The order of what happens at the same moment is the platform's.
        rate: The chance of a fault at each step of an invocation, and at each request and each start.
        most: How many faults there are in a run at most.
        most_losses: How often one worker is crashed or frozen at most. If that is more than `care.restarts`, the
            run may end with `WorkerLost`.
        kinds: What may happen.
        care: How the run looks after its workers.
        late_s: After how long a second worker tries a task that still runs.
        limit_s: How long the platform lets an invocation go on.

    Example:
        >>> from augury.testing import VirtualPlatform
        >>> from augury import task
        >>> @task
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> crash = Adversary(seed=1, rate=0.5, most=1, kinds=frozenset({Mishap.CRASH_SEEN}))
        >>> run = VirtualPlatform(slots=2, adversary=crash).run_workflow(double(double(3)), duration_s=60.0)
        >>> run.result, dict(run.faults)
        (12, {'crash, seen': 1})
    """

    seed: int
    rate: float = 0.02
    most: int = 6
    most_losses: int = 3
    kinds: frozenset[Mishap] = frozenset(Mishap)
    care: Care = _CARE
    late_s: float = math.inf
    limit_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Crash:
    """The end of an invocation.

    Attributes:
        told_s: How much later the gateway tells of it; infinite if never.
        cause: What it tells.
        unsent: Requests that are under way do not arrive.
    """

    told_s: float
    cause: Cause
    unsent: bool


@dataclass(frozen=True, slots=True)
class Freeze:
    """A time in which nothing happens in an invocation."""

    for_s: float


@dataclass(frozen=True, slots=True)
class Passage:
    """How a request fares.

    Attributes:
        there_s: How much later it takes effect.
        back_s: How much later its answer comes.
    """

    there_s: float = 0.0
    back_s: float = 0.0


_SMOOTH = Passage()
_MOST_STEPS = 100_000


class Mischief:
    """The adversary at work in one run.

    Attributes:
        faults: What it did, by kind.
        losses: Worker → how often it was crashed, frozen or kept from being heard.
        setbacks: Worker → how often it was struck, or its start was.
        inflicted_s: How much time it took in all, waiting for leases aside.
    """

    def __init__(self, adversary: Adversary) -> None:
        self._adversary = adversary
        self._rng = Random(adversary.seed)  # noqa: S311 - no secrets
        self._lease_s = adversary.care.lease_s
        self._strikes = sorted(
            adversary.kinds & {Mishap.CRASH_SEEN, Mishap.CRASH_UNSEEN, Mishap.MEMORY, Mishap.FREEZE},
            key=list(Mishap).index,
        )
        self.faults: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()
        self.setbacks: Counter[str] = Counter()
        self.inflicted_s = 0.0
        self._steps = 0

    @property
    def count(self) -> int:
        """How many faults there were."""
        return self.faults.total()

    def strike(self, claim: Claim, *, running: bool) -> Crash | Freeze | None:
        """What happens to an invocation at a step.

        Raises:
            AssertionError: There are so many steps that the run cannot be going on.

        Args:
            claim: Which it is.
            running: Whether tasks run in it.
        """
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise AssertionError(f"{claim.worker} takes step after step, and nothing comes of it")
        if not self._strikes or not self._has_chance() or self._is_spared(claim.worker):
            return None
        kind = self._rng.choice(self._strikes)
        if kind is Mishap.MEMORY and not (running and self._can_have_more(claim.resources)):
            return None
        self._note(kind, claim.worker)
        if kind is Mishap.FREEZE:
            return Freeze(self._time(0.3, 0.9, 1.5, 6.0))
        seen = kind is not Mishap.CRASH_UNSEEN
        told_s = self._time(0.0, 0.0, 0.1, 1.5) if seen else float("inf")
        cause = Cause.MEMORY if kind is Mishap.MEMORY else Cause.LOST
        return Crash(told_s, cause, unsent=self._rng.random() < 0.5)

    def passage(self, worker: str) -> Passage:
        """How a request fares."""
        if Mishap.DELAY in self._adversary.kinds and self._has_chance() and not self._is_spared(worker):
            self._note(Mishap.DELAY, worker)
            delay_s = self._time(0.01, 0.1, 0.5, 2.0)
            return Passage(there_s=delay_s) if self._rng.random() < 0.5 else Passage(back_s=delay_s)
        return _SMOOTH

    def repeats(self) -> bool:
        """Whether a request is sent again that storage does not recognise, since that must be harmless."""
        if Mishap.REPEAT in self._adversary.kinds and self._has_chance():
            self._note(Mishap.REPEAT)
            return True
        return False

    def starts(self, worker: str) -> list[float]:
        """How a start fares: when each invocation that comes of it begins; none, if it is dropped."""
        kinds = self._adversary.kinds
        if Mishap.DROP in kinds and self._has_chance():
            self._note(Mishap.DROP)
            self.setbacks[worker] += 1
            return []
        if Mishap.DUPLICATE in kinds and self._has_chance():
            self._note(Mishap.DUPLICATE)
            return [0.0, self._time(0.0, 0.01, 0.5, 3.0)]
        if Mishap.LATE in kinds and self._has_chance():
            self._note(Mishap.LATE)
            self.setbacks[worker] += 1
            return [self._time(0.01, 0.1, 0.5, 3.0)]
        return [0.0]

    def absence_s(self) -> float:
        """For how long the client does not look after the run."""
        if Mishap.ABSENT in self._adversary.kinds and self._has_chance():
            self._note(Mishap.ABSENT)
            return self._time(0.5, 1.0, 2.0, 8.0)
        return 0.0

    def outlasted(self, worker: str) -> None:
        """The platform ends an invocation at its limit, since what happened to it kept it from handing over.

        Raises:
            AssertionError: Nothing had happened to it.
        """
        if not self.losses[worker]:
            raise AssertionError(f"{worker} has not handed over in time")
        self.losses[worker] += 1

    def told_twice(self) -> bool:
        """Whether a loss is told twice."""
        return self._rng.random() < 0.2

    def _has_chance(self) -> bool:
        adversary = self._adversary
        return self.count < adversary.most and self._rng.random() < adversary.rate

    def _is_spared(self, worker: str) -> bool:
        return self.losses[worker] >= self._adversary.most_losses

    def _can_have_more(self, had: Resources) -> bool:
        return any(one.memory_mb > had.memory_mb and one.covers(had) for one in self._adversary.care.larger)

    def _note(self, kind: Mishap, worker: str = "") -> None:
        self.faults[str(kind)] += 1
        if worker:
            self.losses[worker] += 1
            self.setbacks[worker] += 1

    def _time(self, *leases: float) -> float:
        """A time, somewhere between two neighbours of some shares of a lease."""
        place = self._rng.randrange(len(leases) - 1)
        time_s = self._rng.uniform(leases[place], leases[place + 1]) * self._lease_s
        self.inflicted_s += time_s
        return time_s


Unheard = Callable[[Claim, Cause], None]
"""Told of an invocation that is lost, and why."""
