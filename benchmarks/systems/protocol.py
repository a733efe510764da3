"""What every compared system does: the same workloads, each in the way its own documentation recommends."""

from typing import Protocol

SLOW_S = 0.01
"""How long a slow task of the uneven workload takes."""


class System(Protocol):
    """A workflow engine with two worker processes on this machine.

    A workload is timed from its first line to its result, so building the graph counts.
    """

    name: str

    def version(self) -> str:
        """Of the installed package."""
        ...

    def start(self) -> None:
        """Bring the platform up; workloads run on it warm."""
        ...

    def stop(self) -> None:
        """Take the platform down."""
        ...

    def fan_out(self, width: int) -> int:
        """`width` tasks that return their own number, and one task that sums them: `width` + 1 tasks."""
        ...

    def tree(self, leaves: int) -> int:
        """Add the numbers below `leaves` in pairs, and the sums in pairs, to the end: `leaves` - 1 tasks."""
        ...

    def chain(self, length: int) -> int:
        """Start from 0 and add one, `length` times, one task each."""
        ...

    def uneven(self, width: int) -> int:
        """As `fan_out`, but the first half of the tasks take `SLOW_S` each and the others no time."""
        ...


def uneven_delays(width: int) -> list[float]:
    """How long each task of the uneven workload takes."""
    return [SLOW_S if number < width // 2 else 0.0 for number in range(width)]
