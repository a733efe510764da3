"""How long the platform lets an invocation go on, and when it must think of its end.

began ── a tenth ────────────── soft ───────── hard ── deadline
       │ tasks are started       │  those that  │  the rest is put into storage,
       │ with their inputs apart │  run may end;│  and a successor goes on
                                 │  outputs that a successor needs are put into storage already

What still runs shortly before the deadline is cut. If it began at the very start, no successor has more time for it:
that is an error. If it began later, its successor begins with it, given the inputs as they were. They are put apart
before the task starts, since it may change them; in a first attempt only if history does not say that it ends in time.
So each later attempt does at least one task for good, and a chain gets past any number of limits if each of its tasks
fits into one.
"""

import math

import msgspec

_SOFT_SHARE, _SOFT_S = 0.2, 60.0
_HARD_SHARE, _HARD_S = 0.08, 10.0
_FROM_THE_START_SHARE = 0.1
_LOOK_SHARE = 0.01


class Patience(msgspec.Struct, frozen=True):
    """The times of one invocation, on one clock.

    Attributes:
        began_s: When it began; `deadline_s`: when the platform ends it, or infinity.
    """

    began_s: float
    deadline_s: float = math.inf

    @property
    def soft_s(self) -> float:
        """From when on it starts no more tasks, and begins to put into storage what a successor needs."""
        return self._before_deadline(_SOFT_SHARE, _SOFT_S)

    @property
    def hard_s(self) -> float:
        """From when on it must put everything into storage, whatever still runs."""
        return self._before_deadline(_HARD_SHARE, _HARD_S)

    @property
    def limit_s(self) -> float:
        """How long the platform lets it go on."""
        return self.deadline_s - self.began_s

    @property
    def look_s(self) -> float:
        """How often it should look at the clock."""
        return _LOOK_SHARE * self.limit_s

    def had_it_all(self, since_s: float) -> bool:
        """Whether what runs since then has nearly all of the time that the platform gives: no successor has more.

        Where there is no limit, everything has.
        """
        return since_s - self.began_s <= _FROM_THE_START_SHARE * self.limit_s

    def _before_deadline(self, share: float, most_s: float) -> float:
        if self.deadline_s == math.inf:
            return math.inf
        return self.deadline_s - min(most_s, share * self.limit_s)
