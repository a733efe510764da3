"""Virtual time: a heap of what will happen, and a clock that jumps from one happening to the next.

    12.0 s ── 12.5 s ── 12.5 s ──────────── 40.0 s
      ▲         └─── order by seed ───┘
     now

Nothing sleeps and nothing runs beside anything else, so a run is the same every time. Things that happen at
the same moment happen in the order in which they were asked for; or, given a `Random`, in an order drawn
from it, so that one test goes through many interleavings.
"""

import heapq
import itertools
from collections.abc import Callable
from random import Random

Action = Callable[[], None]


class VirtualClock:
    """A clock that moves only when there is nothing left to do at its time.

    Called, it tells the time in seconds; so it stands in wherever a clock is asked for.

    Args:
        rng: Draws the order of what happens at the same moment; without it, first asked is first done.

    Example:
        >>> clock = VirtualClock()
        >>> clock.after(3600.0, lambda: print("an hour later:", clock()))
        >>> clock.run()
        an hour later: 3600.0
    """

    def __init__(self, rng: Random | None = None) -> None:
        self._rng = rng
        self._now_s = 0.0
        self._numbers = itertools.count()
        self._heap: list[tuple[float, float, int, bool, Action]] = []
        self._watches = 0  # of those in the heap, how many only look whether something changed

    def __call__(self) -> float:
        """The time, in seconds since the start."""
        return self._now_s

    def after(self, delay_s: float, action: Action, *, watch: bool = False) -> None:
        """Have something done later.

        Args:
            delay_s: How much later.
            action: What.
            watch: It only looks whether something else has changed: by itself it does not bring anything
                forward, and when nothing but watches is left, time comes to an end.
        """
        order = self._rng.random() if self._rng else 0.0
        heapq.heappush(self._heap, (self._now_s + delay_s, order, next(self._numbers), watch, action))
        self._watches += watch

    def run(self) -> None:
        """Let time pass until nothing will happen any more.

        Watches may set things in motion again, so each gets a few turns after everything else has ended.
        """
        turns = 0
        while self._heap:
            self._now_s, _, _, watch, action = heapq.heappop(self._heap)
            self._watches -= watch
            action()
            turns = turns + 1 if watch else 0
            if self._watches == len(self._heap) and turns > _TURNS * (self._watches + 1):
                return


_TURNS = 8
