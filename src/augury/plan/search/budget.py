"""How long planning may take, and whether the next step still fits.

A tenth of the time that the run is expected to take, at least 20 ms and at most 5 s; or what the user says. Once
little could be gained by looking further, it is a quarter of that, and a hundredth of the run to save money. How long a
step takes is known from the last one of its kind, for each task and each edge of the graph that it went through:

    simulate 1,000 tasks, 12 ms ──▶ simulating 10,000 will take 120 ms: is that left?

Before the first one of a kind there is a guess. The parts of a search share the time: each may go on until so much
of it has passed. A clock that stands still, as in tests, leaves every part a number of steps, so that what is found
does not depend on the machine.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

_SHARE, _LEAST_S, _MOST_S = 0.1, 0.02, 5.0
_TO_SAVE, _TO_GAIN, _BEYOND = 0.01, 0.25, 0.02
_STEPS = 200
_GUESSES_S = {"simulate": 8e-6, "schedule": 8e-6, "coarsen": 6e-6}

Step = Literal["simulate", "schedule", "coarsen"]
T = TypeVar("T")


class Budget:
    """The time that there is for one plan.

    Args:
        clock: Tells the time in seconds.
        given_s: How much there is; None: a share of the run.
        began_s: When it began; None: now.
        rates_s: How long steps take, for each task and edge; it is kept up to date.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        given_s: float | None = None,
        *,
        began_s: float | None = None,
        rates_s: dict[str, float] | None = None,
    ) -> None:
        self._clock = clock
        self._began_s = clock() if began_s is None else began_s
        self._rates_s = dict(_GUESSES_S) if rates_s is None else rates_s
        self._given_s = given_s
        self.allowed_s = _LEAST_S if given_s is None else given_s

    def expect(self, makespan_s: float, gain_s: float = math.inf) -> None:
        """The run is expected to take so long, and could be so much shorter at best, if that is what is wanted."""
        if self._given_s is None:
            worth_s = min(_SHARE * makespan_s, _TO_SAVE * makespan_s + _TO_GAIN * gain_s)
            self.allowed_s = min(_MOST_S, max(_LEAST_S, worth_s))

    @property
    def passed_s(self) -> float:
        """How much of it is over."""
        return self._clock() - self._began_s

    def part(self, share: float) -> "Part":
        """What may go on until this share of the time is over."""
        return Part(self, share)

    def nested(self, share: float) -> "Budget":
        """The same for a search within this one, which may go on until this share of the time is over."""
        return Budget(self._clock, share * self.allowed_s, began_s=self._began_s, rates_s=self._rates_s)

    def cost_s(self, step: Step, size: int) -> float:
        """How long a step takes on a graph of so many tasks and edges."""
        return self._rates_s[step] * size

    @contextmanager
    def beyond(self, makespan_s: float) -> Iterator["Beyond"]:
        """What is worth some time more than there is: what it takes is not taken from what else the time is for.

        If the user said how long planning may take, that is all there is.
        """
        began_s = self._clock()
        most_s = _BEYOND * makespan_s if self._given_s is None else max(0.0, self.allowed_s - self.passed_s)
        yield Beyond(self._clock, began_s, min(_MOST_S, most_s))
        if self._given_s is None:
            self._began_s += self._clock() - began_s

    def timed(self, step: Step, size: int, act: Callable[[], T]) -> T:
        """Take a step, and remember how long it took."""
        began_s = self._clock()
        made = act()
        self._rates_s[step] = (self._clock() - began_s) / max(1, size)
        return made


class Beyond:
    """Time beyond what there is."""

    def __init__(self, clock: Callable[[], float], began_s: float, most_s: float) -> None:
        self._clock = clock
        self._began_s = began_s
        self._most_s = most_s

    def is_left(self, for_s: float) -> bool:
        """Whether there is time for a step that takes so long."""
        return self._clock() - self._began_s + for_s <= self._most_s


class Part:
    """A part of a search."""

    def __init__(self, budget: Budget, share: float) -> None:
        self._budget = budget
        self._share = share
        self._steps = _STEPS

    def is_left(self, for_s: float = 0.0) -> bool:
        """Whether there is time for another step, which takes so long."""
        self._steps -= 1
        passed_s, allowed_s = self._budget.passed_s, self._budget.allowed_s
        if not passed_s and allowed_s:  # a clock that stands still
            return self._steps > 0
        return passed_s + for_s < self._share * allowed_s
