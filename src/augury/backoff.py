"""Trying again: how long to wait between attempts, and when to stop.

    attempts = Backoff(patience_s=30).attempts()
    while True:
        try:
            return call()
        except Refused as error:
            if not attempts.again():
                raise TooOften(attempts.told()) from error

Pauses double from the first to the longest. Each is shortened by chance, up to its half: callers that were refused
at the same moment do not all come back at the same moment.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from typing import Final

_CHANCE: Final = SystemRandom()
"""Neither the user's random numbers, which may be seeded, nor the same ones after a fork."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How patiently something is tried again.

    Attributes:
        patience_s: How long it is tried, pauses included; an attempt under way is not broken off.
        first_s: The first pause; `longest_s`: what pauses grow to.
        clock: Tells the time; `sleep`: waits; `chance`: a number from 0 to 1.
    """

    patience_s: float
    first_s: float = 0.05
    longest_s: float = 2.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = _CHANCE.random

    def attempts(self, began_s: float | None = None) -> "Attempts":
        """The attempts at one call; the first begins now, unless it began before."""
        return Attempts(self, self.clock() if began_s is None else began_s)


class Attempts:
    """The attempts at one call: counted, and paused between.

    Attributes:
        count: How many there were, with the one under way.
    """

    def __init__(self, backoff: Backoff, began_s: float) -> None:
        self.count = 1
        self._backoff = backoff
        self._began_s = began_s

    def elapsed_s(self) -> float:
        """How long it has been tried."""
        return self._backoff.clock() - self._began_s

    def again(self, *, least_s: float = 0.0, patience_s: float | None = None) -> bool:
        """Wait before another attempt; False, at once, if that would take longer than patience lasts.

        Args:
            least_s: What the other side asks to wait.
            patience_s: How much patience this reason to try again deserves; by default all that there is.
        """
        backoff = self._backoff
        most_s = backoff.patience_s if patience_s is None else min(patience_s, backoff.patience_s)
        # Beyond 2^30 times the first pause every pause is the longest; the power must not overflow.
        pause_s = min(backoff.longest_s, backoff.first_s * 2 ** min(self.count - 1, 30))
        pause_s = max(least_s, pause_s * (1 - backoff.chance() / 2))
        if self.elapsed_s() + pause_s > most_s:
            return False
        backoff.sleep(pause_s)
        self.count += 1
        return True

    def told(self) -> str:
        """How often and how long it was tried, for messages: `3 attempts in 1.2 s`; empty after one attempt."""
        return "" if self.count == 1 else f"{self.count} attempts in {self.elapsed_s():.3g} s"
