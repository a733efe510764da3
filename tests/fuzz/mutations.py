"""Inputs that come far: valid ones with little damage, and with each of their parts exchanged for what is strange.

Most of what random bytes find is the first check. So damage is small, and its places are drawn evenly; of formats with
parts, JSON and MessagePack, every part is exchanged, for wrong types, extreme values and endless nesting. And whoever
tries a reader says which share of the inputs it must be able to read: if nearly all are refused, little is tried.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import msgspec

TIMES = max(1, int(os.environ.get("AUGURY_FUZZ", "1")))
CASES = 1000 * TIMES
LEVELS = 100_000

TALLY: Counter[str] = Counter()
"""How many inputs there were, and how many could be read."""

_Input = TypeVar("_Input")
_Path = tuple[Any, ...]
"""Where a part is in a nesting of lists and dicts: an index or a key for each level."""


def try_all(read: Callable[[_Input], bool], inputs: Iterable[_Input], *, least: float) -> None:
    """Have something read many inputs.

    Args:
        read: Reads one, and checks what came of it; whether it could be read. What it raises is a finding.
        inputs: The inputs.
        least: The share of them that it must be able to read.
    """
    count = could = 0
    for given in inputs:
        count += 1
        try:
            could += read(given)
        except BaseException as error:
            error.add_note(f"input {count}: {given!r:.2000}")
            raise
    TALLY.update(inputs=count, read=could)
    assert could >= least * count, f"{could} of {count} inputs could be read: too few to try more than the first checks"


# Damage


def damaged(*valid: bytes) -> Iterator[bytes]:
    """One of some valid inputs, changed in one to three places; now and then random bytes."""
    for seed in range(CASES):
        yield damage(Random(seed), *valid)


def damage(rng: Random, *valid: bytes) -> bytes:
    """One of them."""
    if rng.random() < 0.02:
        return rng.randbytes(rng.randint(0, 200))
    data = bytearray(rng.choice(valid))
    for _ in range(rng.choice((1, 1, 2, 3))):
        place, length = rng.randrange(len(data) + 1), rng.randint(1, 12)
        rng.choices(_DAMAGES, _HOW_OFTEN)[0](rng, data, place, length)
    return bytes(data)


_TELLING = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\x7f\xff\xff\xff")
"""Bytes that mean much where lengths and kinds stand: MessagePack's longest lists and strings among them."""


def _flip(rng: Random, data: bytearray, place: int, _: int) -> None:
    data[place : place + 1] = bytes(one ^ (1 << rng.randrange(8)) for one in data[place : place + 1])


def _exchange(rng: Random, data: bytearray, place: int, _: int) -> None:
    data[place : place + 1] = rng.randbytes(1)


def _exchange_for_telling(rng: Random, data: bytearray, place: int, _: int) -> None:
    data[place : place + 1] = rng.choice(_TELLING)


def _insert(rng: Random, data: bytearray, place: int, length: int) -> None:
    data[place:place] = rng.randbytes(length)


def _repeat(rng: Random, data: bytearray, place: int, length: int) -> None:
    data[place:place] = data[place : place + length] * rng.randint(1, 20)


def _remove(_: Random, data: bytearray, place: int, length: int) -> None:
    del data[place : place + length]


def _cut(_: Random, data: bytearray, place: int, __: int) -> None:
    del data[place:]


_DAMAGES = (_flip, _exchange, _exchange_for_telling, _insert, _repeat, _remove, _cut)
_HOW_OFTEN = (6, 6, 3, 1, 1, 1, 1)


# Exchange


@dataclass(frozen=True)
class Format:
    """How nestings of lists and dicts are written.

    Attributes:
        encode: Writes one; `decode`: reads it.
        raw: Parts as they can be written, but not by encoding any value.
    """

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    raw: tuple[bytes, ...]


JSON = Format(
    msgspec.json.encode,
    msgspec.json.decode,
    (
        *(b'"\xff"', b'"\\ud800"', b"1e999", b"-0", b"9" * 30, b"9" * 400, b"9" * 5000, b"NaN", b""),
        b"[" * LEVELS + b"]" * LEVELS,
        b'{"a":' * LEVELS + b"1" + b"}" * LEVELS,
    ),
)
MSGPACK = Format(
    msgspec.msgpack.encode,
    lambda data: msgspec.msgpack.decode(data, strict=False),
    (
        *(b"\xa1\xff", b"\xd9\x02\xc3\x28", b"\xdb\x7f\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"),
        *(b"\xc1", b"\xc7\x00\x05", b"\xd6\xff\x00\x00\x00\x00", b""),
        b"\x91" * LEVELS + b"\xc0",
        b"\x81\xa1a" * LEVELS + b"\xc0",
    ),
)

STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 999, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, 1e300, -1e308, 1e-320),
    *(float("nan"), float("inf"), float("-inf"), "inf", "nan", "", "x", "0", "__class__", "RunError"),
    *("\u20ac" * 50, "x" * 300),
    *(b"", b"\xff", b"\x80\x05.", [], {}, [[]], [None] * 20, {"a": {"b": []}}, {"float": "inf"}, {1: 2}),
)
_HERE = "here it goes"


def try_parts(read: Callable[[bytes], bool], form: Format, *values: Any, least: float) -> None:
    """Have something read values with one part exchanged, of which it must be able to read a share; then with two."""
    plain = [form.decode(form.encode(value)) for value in values]
    try_all(read, _exchanged(form, plain), least=least)
    try_all(read, _exchanged_twice(form, plain), least=0.0)


def _exchanged(form: Format, plain: Iterable[Any]) -> Iterator[bytes]:
    """Values with each part exchanged for all that is strange, or left out; with more parts; with other keys."""
    strange = (*map(form.encode, STRANGE), *form.raw)
    for value in plain:
        for path in list(_paths(value)):
            before, _, after = form.encode(_put(value, path, _HERE)).partition(form.encode(_HERE))
            for part in strange:
                yield before + part + after
            if path:
                yield form.encode(_without(value, path))
        yield from _lengthened(form, value, strange)


def _exchanged_twice(form: Format, plain: Sequence[Any]) -> Iterator[bytes]:
    for seed in range(CASES):
        rng = Random(seed)
        value = rng.choice(plain)
        for _ in range(2):
            value = _put(value, rng.choice(list(_paths(value))), rng.choice(STRANGE))
        yield form.encode(value)


def _lengthened(form: Format, value: Any, strange: Iterable[bytes]) -> Iterator[bytes]:
    """Every list with another item, every dict with another key, and every key exchanged."""
    for path in list(_paths(value)):
        part = _part(value, path)
        more: list[Any] = []
        if isinstance(part, list):
            more = [[*part, _HERE]]
        elif isinstance(part, dict):
            more = [{**part, "unknown": _HERE}, *(_renamed(part, key) for key in part)]
        for longer in more:
            before, _, after = form.encode(_put(value, path, longer)).partition(form.encode(_HERE))
            for other in strange:
                yield before + other + after


def _renamed(part: dict[Any, Any], key: Any) -> dict[Any, Any]:
    return {_HERE if other == key else other: value for other, value in part.items()}


def _paths(value: Any) -> Iterator[_Path]:
    """Where all parts of it are; the whole of it is the first."""
    yield ()
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from ((key, *path) for path in _paths(part))


def _part(value: Any, path: _Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _put(value: Any, path: _Path, part: Any) -> Any:
    """The same with another part there."""
    if not path:
        return part
    key, inner = path[0], _put(value[path[0]], path[1:], part)
    if isinstance(value, dict):
        return {**value, key: inner}
    return [*value[:key], inner, *value[key + 1 :]]


def _without(value: Any, path: _Path) -> Any:
    """The same without the part there."""
    around = _part(value, path[:-1])
    if isinstance(around, dict):
        return _put(value, path[:-1], {key: part for key, part in around.items() if key != path[-1]})
    return _put(value, path[:-1], [part for index, part in enumerate(around) if index != path[-1]])
