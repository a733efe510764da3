"""The tasks of a worker that can run: first in, first out, or by their rank in the plan."""

import heapq
import itertools
from collections import deque
from collections.abc import Collection, Iterator, Sequence


class ReadyQueue(deque[int]):
    """First in, first out; what is next up goes to the front."""

    def put_back(self, task: int) -> None:
        """Take back a task whose turn it was: it is next up."""
        self.appendleft(task)

    def drop(self, tasks: Collection[int]) -> None:
        """Forget tasks."""
        kept = [task for task in self if task not in tasks]
        self.clear()
        self.extend(kept)


class RankedQueue:
    """What is next up first; then the lowest rank first, and among equals the first in.

    Args:
        ranks: For each task its rank.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = ranks
        self._front: deque[int] = deque()
        self._heap: list[tuple[int, int, int]] = []
        self._numbers = itertools.count()
        self._number_of: dict[int, int] = {}  # in which order tasks came first

    def __len__(self) -> int:
        return len(self._front) + len(self._heap)

    def __iter__(self) -> Iterator[int]:
        yield from self._front
        yield from (task for _, _, task in sorted(self._heap))

    def append(self, task: int) -> None:
        """Add a task in the order of ranks."""
        number = self._number_of.get(task)
        if number is None:
            number = self._number_of[task] = next(self._numbers)
        heapq.heappush(self._heap, (self._ranks[task], number, task))

    def appendleft(self, task: int) -> None:
        """Add a task before all others."""
        self._front.appendleft(task)

    def popleft(self) -> int:
        """Take the next task."""
        return self._front.popleft() if self._front else heapq.heappop(self._heap)[2]

    def put_back(self, task: int) -> None:
        """Take back a task whose turn it was: one of lower rank may have become ready since."""
        self.append(task)

    def drop(self, tasks: Collection[int]) -> None:
        """Forget tasks."""
        self._front = deque(task for task in self._front if task not in tasks)
        self._heap = [entry for entry in self._heap if entry[2] not in tasks]
        heapq.heapify(self._heap)
