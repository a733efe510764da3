"""When a pre-loaded parent is to be killed, and when it makes no sense to start another one.

Nobody else starts, ends and buries workers. So one that is stopped, or leaves a fork unanswered, has to go:

    started ─── imports ───▶ ready ─── forks ───▶ …
      as long as a start        `_SILENT_S`
      may take

What it imports is the user's, and may take any time; while it does, forks wait. How long that may take, the user has
said for the start of the platform, and the parents before it have shown.
"""

import math
from typing import Final

_MOST_REPLACED: Final = 3
"""How often another one is started within `_REPLACED_S`, or without any of them getting ready: then all is in vain."""
_REPLACED_S: Final = 60.0
_FROZEN_S: Final = 2.0
"""How long one may be stopped while there is work."""
_SILENT_S: Final = 120.0
"""How long one that has all its imports may leave a fork unanswered; longer than any load of the machine lasts."""
_SLOWER: Final = 4.0
"""How many times as long as another one it may take to import: that may have been on an idle machine."""


class Parents:
    """What is known of a pre-loaded parent, and of those that were in its place before; times are those of one clock.

    Args:
        start_timeout_s: How long the platform may take to start, and so the imports.
        now_s: When the first one was started.
    """

    def __init__(self, start_timeout_s: float, now_s: float) -> None:
        self._imports_s = start_timeout_s  # how long they may take
        self._started_s = now_s
        self._ready_s = -math.inf  # when one was ready, this one or the last one that was
        self._heard_s = now_s  # when this one was started, or last said something
        self._stopped_s = math.inf  # since when it has been found stopped
        self._replaced_s: list[float] = []  # when another one was started, as far as it counts

    def hear(self, now_s: float) -> None:
        """It says something."""
        self._heard_s = now_s

    def note_ready(self, now_s: float) -> None:
        """It has all its imports."""
        self._ready_s = now_s
        self._imports_s = max(self._imports_s, _SLOWER * (now_s - self._started_s))

    def replace(self, now_s: float) -> bool:
        """Another one is to take its place now; false if that makes no sense."""
        counts_s = min(now_s - _REPLACED_S, self._ready_s)
        self._replaced_s = [at_s for at_s in self._replaced_s if at_s > counts_s]
        if len(self._replaced_s) >= _MOST_REPLACED:
            return False
        self._replaced_s.append(now_s)
        self._started_s = self._heard_s = now_s
        self._stopped_s = math.inf
        return True

    def fault(self, now_s: float, asked_s: float, stopped: bool) -> str:
        """Why it is to be killed; empty if it is not.

        Args:
            now_s: The time.
            asked_s: When it was asked for the first fork that it has not answered; infinite if there is none.
            stopped: Whether its process is stopped.
        """
        self._stopped_s = min(self._stopped_s, now_s) if stopped else math.inf
        if now_s - self._stopped_s >= _FROZEN_S:
            return "is stopped"
        imports = self._ready_s < self._started_s
        longest_s = max(_SILENT_S, self._imports_s) if imports else _SILENT_S
        return "does not answer" if now_s - max(self._heard_s, asked_s) >= longest_s else ""
