"""The tasks of other workers that a worker runs too, and where each stands."""

from collections import deque
from collections.abc import Collection, Iterator


class Duplicates:
    """Always true: a task is in at most one of fetching, ready and running.

    Attributes:
        fetching: Those whose inputs are under way, and which.
        ready: Those that can run.
        running: Those that do.
        spoiled: Those that failed here; they are not tried again.
    """

    def __init__(self) -> None:
        self.fetching: dict[int, set[int]] = {}
        self.ready: deque[int] = deque()
        self.running: set[int] = set()
        self.spoiled: set[int] = set()

    def __contains__(self, task: object) -> bool:
        return task in self.running or task in self.fetching or task in self.ready

    def __len__(self) -> int:
        return len(self.fetching) + len(self.ready) + len(self.running)

    def __iter__(self) -> Iterator[int]:
        yield from self.fetching
        yield from self.ready
        yield from self.running

    @property
    def pending(self) -> int:
        """How many will need a task slot."""
        return len(self.fetching) + len(self.ready)

    def begin(self, task: int, lacking: set[int]) -> None:
        """A task is to be run, once it has what it lacks."""
        if lacking:
            self.fetching[task] = lacking
        else:
            self.ready.append(task)

    def arrived(self, outputs: Collection[int]) -> list[int]:
        """Outputs were fetched; returns the tasks that are ready by that."""
        if not self.fetching:
            return []
        for lacking in self.fetching.values():
            lacking.difference_update(outputs)
        ready = [task for task, lacking in self.fetching.items() if not lacking]
        for task in ready:
            del self.fetching[task]
        self.ready.extend(ready)
        return ready

    def start(self) -> int:
        """The next task that is ready runs now."""
        task = self.ready.popleft()
        self.running.add(task)
        return task

    def discard(self, task: int) -> None:
        """A task has ended, or is not wanted any more."""
        self.running.discard(task)
        if self.fetching.pop(task, None) is None and task in self.ready:
            self.ready.remove(task)
