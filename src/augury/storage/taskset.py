"""A set of tasks as Redis keeps it: a bit for each.

A worker that starts is told which tasks of the run are done, of perhaps 100,000, and asks for a few. To make a
`frozenset` of them would take longer than the rest of its start.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

_BITS = tuple(tuple(bit for bit in range(8) if byte & (128 >> bit)) for byte in range(256))


class TaskSet(AbstractSet[int]):
    """A set of task ids; equal to any other set of the same ids.

    Args:
        bitmap: The ones are the members, counted from the highest bit of the first byte.

    Example:
        >>> tasks = TaskSet(bytes([0b10000001, 0b01000000]))
        >>> 7 in tasks, 8 in tasks, sorted(tasks)
        (True, False, [0, 7, 9])
    """

    __slots__ = ("_bitmap",)

    def __init__(self, bitmap: bytes = b"") -> None:
        self._bitmap = bitmap

    def __contains__(self, task: object) -> bool:
        if not isinstance(task, int) or task < 0:
            return False
        byte = task >> 3
        return byte < len(self._bitmap) and self._bitmap[byte] & (128 >> (task & 7)) != 0

    def __iter__(self) -> Iterator[int]:
        return (8 * index + bit for index, byte in enumerate(self._bitmap) if byte for bit in _BITS[byte])

    def __len__(self) -> int:
        return int.from_bytes(self._bitmap).bit_count()

    def __bool__(self) -> bool:
        return any(self._bitmap)

    @classmethod
    def _from_iterable(cls, tasks: Iterable[int]) -> AbstractSet[int]:  # type: ignore[override]
        """What operators give."""
        return frozenset(tasks)

    def __repr__(self) -> str:
        return f"<set of {len(self):,} tasks>"
