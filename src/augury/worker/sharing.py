"""Flexible tasks: which of them are a worker's own, and how it shares them with others."""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet


class Gathering:
    """Counts the inputs of flexible tasks that finished here or were done before we began.

    If all of them did, the task is ours; and since the last one is never reported for it, nobody else's.
    """

    def __init__(self, deps: Sequence[Sequence[int]]) -> None:
        self._deps = deps
        self._done: AbstractSet[int] = frozenset()
        self._inputs: dict[int, int] = {}

    def begin(self, done: AbstractSet[int]) -> None:
        """What storage had counted when we began."""
        self._done = done

    def add(self, consumer: int, task: int, storing: Collection[int]) -> bool:
        """One more input of a flexible task has finished here; whether the task is ours by that.

        Args:
            consumer: The flexible task.
            task: The input.
            storing: Outputs that are being written.
        """
        if task in self._done:  # run again: others were told of it, and may have gone on
            return False
        deps = self._deps[consumer]
        if consumer not in self._inputs:
            self._inputs[consumer] = sum(dep in self._done for dep in deps) if self._done else 0
        self._inputs[consumer] += 1
        if storing and self.is_complete(consumer) and any(dep in storing for dep in deps):
            # An input of it is being written for it. If we went on at once, the run might be over before, and
            # the object left behind.
            self._inputs[consumer] = 0
        return self.is_complete(consumer)

    def is_complete(self, consumer: int) -> bool:
        """Whether a flexible task is ours."""
        return self._inputs.get(consumer) == len(self._deps[consumer])


class Pace:
    """How long tasks take here, for a guess how long those take that are queued."""

    def __init__(self) -> None:
        self._tasks = 0
        self._total_s = 0.0
        self.running_s = 0.0
        """How long the present ones run, as far as we know."""

    def add(self, duration_s: float) -> None:
        """A task ran so long."""
        self._tasks += 1
        self._total_s += duration_s
        self.running_s = 0.0

    @property
    def task_s(self) -> float:
        """How long a task takes."""
        return max(self.running_s, self._total_s / self._tasks if self._tasks else 0.0)


def handed_on(tasks: int, slots: int, room: int) -> tuple[int, int]:
    """How many queued tasks a worker keeps whose slots are all taken, and to how many others it gives the rest.

    To no more than can be kept busy: a worker with several slots that gets one task has room that others lack.

    Args:
        tasks: How many are queued.
        slots: How many tasks a worker runs at once.
        room: How many more workers the platform would run.
    """
    others = min(room, -(-tasks // slots))
    each = -(-(tasks + slots) // (others + 1))
    return max(0, each - slots), others


def shares(tasks: int, room: int, concurrency: int) -> int:
    """Into how many shares, ours included, so many ready tasks are split.

    As many as the platform has room for. If it has none, few tasks stay with us rather than queue for a worker
    each; many are split all the same, for whoever ends first.

    Args:
        tasks: How many.
        room: How many more workers the platform would run.
        concurrency: How many it runs at most.
    """
    if room > 0:
        return min(tasks, room + 1)
    return max(1, min(tasks // concurrency, concurrency))
