"""Waiting without taking time: a clock that only sleeping moves."""

from collections.abc import Callable

from augury.backoff import Backoff

SLEEPLESS_S = 1.01
"""What a question may wait for an answer, all pauses together."""


class Waiting:
    """A clock, and what was slept on it; pauses are not shortened by chance."""

    def __init__(self) -> None:
        self.pauses_s: list[float] = []
        self._now_s = 0.0
        self._actions: dict[int, Callable[[], object]] = {}

    def backoff(self, *, patience_s: float) -> Backoff:
        """A backoff that waits here."""
        return Backoff(patience_s=patience_s, clock=lambda: self._now_s, sleep=self._sleep, chance=lambda: 0.0)

    def after(self, pauses: int, action: Callable[[], object]) -> None:
        """Have something happen in so many pauses' time."""
        self._actions[pauses] = action

    def _sleep(self, pause_s: float) -> None:
        self.pauses_s.append(pause_s)
        self._now_s += pause_s
        self._actions.pop(len(self.pauses_s), lambda: None)()
