"""Trying a task again: which exceptions are worth it, how long to wait, and who waits.

The pause doubles with every try, up to a limit, and each task waits a little less than that, by a fraction of its
own: tasks that failed together, since something that all of them use was overloaded, do not all come back together.

    try 1 ✗ ── backoff_s ── try 2 ✗ ──── 2 · backoff_s ──── try 3 ✗ ──────── 4 · backoff_s ──────── …
               × ½ … 1                   × ½ … 1                             × ½ … 1
"""

import hashlib
import heapq
import math
from collections.abc import Iterator

from augury.dag.graph import FunctionInfo
from augury.dag.task import exception_name

MOST_BACKOFF_S = 60.0
"""How long a pause gets by doubling; a longer `backoff_s` stays as it is."""


def is_worth_retrying(error: BaseException, info: FunctionInfo) -> bool:
    """Whether an exception is one that the user wants tried again; classes are compared by name, as they travel."""
    return any(exception_name(kind) in info.retry_on for kind in type(error).__mro__)


def pause_s(info: FunctionInfo, run_id: str, task: int, tries: int) -> float:
    """How long a task that was tried so often waits for its next try; the same whenever it is asked."""
    doubled_s = info.backoff_s * 2.0 ** min(tries - 1, 64)
    longest_s = min(doubled_s, max(MOST_BACKOFF_S, info.backoff_s))
    digest = hashlib.blake2b(f"{run_id}/{task}/{tries}".encode(), digest_size=4).digest()
    return longest_s * (0.5 + int.from_bytes(digest, "big") / 2**33)


class Pauses:
    """The tasks that wait for their next try. Always true: each is in it once."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[int]:
        return (task for _, task in self._due)

    @property
    def next_s(self) -> float:
        """When the first of them is due; infinite if there is none."""
        return self._due[0][0] if self._due else math.inf

    def due(self) -> Iterator[tuple[float, int]]:
        """When each of them is due."""
        return iter(self._due)

    def add(self, task: int, due_s: float) -> None:
        """A task is to be tried again at a moment."""
        heapq.heappush(self._due, (due_s, task))

    def take_due(self, now_s: float) -> list[int]:
        """The tasks whose moment has come, the first due first; they do not wait any more."""
        due = []
        while self._due and self._due[0][0] <= now_s:
            due.append(heapq.heappop(self._due)[1])
        return due

    def drop(self, task: int) -> bool:
        """Forget a task; whether it was here."""
        kept = [entry for entry in self._due if entry[1] != task]
        found = len(kept) < len(self._due)
        heapq.heapify(kept)
        self._due = kept
        return found
