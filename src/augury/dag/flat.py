"""Numbers, and rows of numbers, as bytes that are read in place.

A graph has a row of numbers for each task: those that it takes something from, and those that take something from it. A
worker that runs a few of 10,000 tasks looks at a few rows. So rows stand one after another, with a table of where each
begins, and become tuples when they are asked for:

    rows    (), (0,), (0,), (1, 2)            starts   0 0 1 2 4            flat   0 0 1 2

Each sequence is written with the fewest bytes for its largest number, and a letter in front that says how many.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

_CODES = (("B", 0xFF), ("H", 0xFFFF), ("I", 0xFFFFFFFF), ("Q", 0xFFFFFFFFFFFFFFFF))
_IS_BIG_ENDIAN = sys.byteorder == "big"


def pack(numbers: Sequence[int]) -> bytes:
    """Numbers that are not negative, as bytes.

    Raises:
        ValueError: One has more than 64 bits.
    """
    most = max(numbers, default=0)
    code = next((code for code, largest in _CODES if most <= largest), "")
    if not code:
        raise ValueError(f"{most:,} is too large a number")
    packed = array(code, numbers)
    if _IS_BIG_ENDIAN:
        packed.byteswap()
    return code.encode() + packed.tobytes()


def unpack(data: bytes) -> Sequence[int]:
    """What `pack` was given, to be read where it is.

    Raises:
        ValueError: It made something else.
    """
    code = chr(data[0]) if data else ""
    if code not in dict(_CODES) or (len(data) - 1) % array(code).itemsize:
        raise ValueError("these are not the bytes of numbers")
    if _IS_BIG_ENDIAN:
        packed = array(code, data[1:])
        packed.byteswap()
        return packed
    return memoryview(data)[1:].cast(code)  # type: ignore[call-overload, no-any-return]


def pack_times(times_s: Sequence[float]) -> bytes:
    """Times as bytes."""
    packed = array("d", times_s)
    if _IS_BIG_ENDIAN:
        packed.byteswap()
    return packed.tobytes()


def unpack_times(data: bytes) -> Sequence[float]:
    """What `pack_times` was given, to be read where it is.

    Raises:
        ValueError: It made something else.
    """
    if len(data) % array("d").itemsize:
        raise ValueError("these are not the bytes of times")
    if _IS_BIG_ENDIAN:
        packed = array("d", data)
        packed.byteswap()
        return packed
    return memoryview(data).cast("d")


def pack_rows(rows: Sequence[Sequence[int]]) -> tuple[bytes, bytes]:
    """Rows of numbers, as bytes: where each starts, and all of them."""
    return pack(list(accumulate(map(len, rows), initial=0))), pack(list(chain.from_iterable(rows)))


def unpack_rows(packed: tuple[bytes, bytes]) -> "Rows":
    """What `pack_rows` was given.

    Raises:
        ValueError: It made something else.
    """
    starts, flat = unpack(packed[0]), unpack(packed[1])
    if not len(starts) or starts[0] or starts[-1] != len(flat):
        raise ValueError("these are not the bytes of rows")
    return Rows(starts, flat)


class Rows(dict[int, tuple[int, ...]]):
    """Rows by their number, made when they are first asked for; a sequence, but for slices.

    It is a `dict` of those that are known, so that to look at one again takes no longer than in a list.

    Args:
        starts: Where each row begins, and, at the end, where the last one ends.
        flat: All rows, one after another.
    """

    __slots__ = ("_flat", "_starts")

    def __init__(self, starts: Sequence[int], flat: Sequence[int]) -> None:
        super().__init__()
        self._starts = starts
        self._flat = flat

    def __missing__(self, row: int) -> tuple[int, ...]:
        if not 0 <= row < len(self):
            raise IndexError(f"there is no row {row}")
        found = self[row] = tuple(self._flat[self._starts[row] : self._starts[row + 1]])
        return found

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[tuple[int, ...]]:  # type: ignore[override]
        return map(self.__getitem__, range(len(self)))
