"""How long planning may take, and whether the next step still fits.

A tenth of the time that the run is expected to take, at least 20 ms and at most 5 s; or what the user says. How long a
step takes is known from the last one of its kind, for each task and each edge of the graph that it went through:

    simulate 1,000 tasks, 12 ms ──▶ simulating 10,000 will take 120 ms: is that left?

Before the first one of a kind there is a guess. A clock that stands still, as in tests, leaves time for a number of
steps, so that what is found does not depend on the machine.
"""

from collections.abc import Callable
from typing import Literal, TypeVar

_SHARE, _LEAST_S, _MOST_S = 0.1, 0.02, 5.0
_STEPS = 400
_GUESSES_S = {"simulate": 8e-6, "schedule": 6e-6, "coarsen": 6e-6}

Step = Literal["simulate", "schedule", "coarsen"]
T = TypeVar("T")


class Budget:
    """The time that there is for one plan.

    Args:
        clock: Tells the time in seconds.
        given_s: How much there is; None: a share of the run.
        steps: How often `is_left` says yes if the clock stands still.
    """

    def __init__(self, clock: Callable[[], float], given_s: float | None = None, steps: int = _STEPS) -> None:
        self._clock = clock
        self._began_s = clock()
        self._given_s = given_s
        self._allowed_s = _LEAST_S if given_s is None else given_s
        self._steps = steps
        self._rates_s: dict[str, float] = dict(_GUESSES_S)

    @property
    def allowed_s(self) -> float:
        """How much there is in all."""
        return self._allowed_s

    def expect(self, makespan_s: float) -> None:
        """The run is expected to take so long."""
        if self._given_s is None:
            self._allowed_s = min(_MOST_S, max(_LEAST_S, _SHARE * makespan_s))

    def is_left(self, for_s: float = 0.0, share: float = 1.0) -> bool:
        """Whether there is time for something that takes so long.

        Args:
            for_s: How long it takes.
            share: Of the time in all, the part that it may use up.
        """
        self._steps -= 1
        passed_s = self._clock() - self._began_s
        if not passed_s and self._allowed_s:  # a clock that stands still
            return self._steps > 0
        return passed_s + for_s < share * self._allowed_s

    def cost_s(self, step: Step, size: int) -> float:
        """How long a step takes on a graph of so many tasks and edges."""
        return self._rates_s[step] * size

    def timed(self, step: Step, size: int, act: Callable[[], T]) -> T:
        """Take a step, and remember how long it took."""
        began_s = self._clock()
        made = act()
        self._rates_s[step] = (self._clock() - began_s) / max(1, size)
        return made
