"""Valid inputs that were damaged: most of what random bytes find is the first check, these come further."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

TIMES = max(1, int(os.environ.get("AUGURY_FUZZ", "1")))
CASES = 300 * TIMES

_Test = TypeVar("_Test", bound=Callable[..., Any])

_NUMBERS = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\x7f\xff\xff\xff")
"""Bytes that mean much where lengths and kinds stand: MessagePack's longest lists and strings among them."""


def fuzzed(test: _Test) -> _Test:
    """As many cases as this run is for; the same ones each time."""
    chosen = settings(
        max_examples=CASES,
        deadline=None,
        derandomize=TIMES == 1,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    return chosen(test)


@st.composite
def damaged(draw: st.DrawFn, valid: Sequence[bytes]) -> bytes:
    """One of some valid inputs, changed in up to four places; now and then random bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = bytearray(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(1, 4))):
        _damage(draw, data)
    return bytes(data)


@st.composite
def misfilled(draw: st.DrawFn, valid: Sequence[Any]) -> Any:
    """One of some nestings of lists and dicts in which up to three values were exchanged for others."""
    value = msgspec.msgpack.decode(msgspec.msgpack.encode(draw(st.sampled_from(valid))), strict=False)
    for _ in range(draw(st.integers(1, 3))):
        value = _exchanged(draw, value)
    return value


_STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, -1, 0, 1, 999, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, -1e308, float("nan"), float("inf")),
        *("", "x", "__class__", "RunError", "\u20ac" * 50, b"", b"\xff", [], {}, [[]], {"a": {"b": []}}, {1: 2}),
    ]
)


def _exchanged(draw: st.DrawFn, value: Any) -> Any:
    """A value with one exchanged somewhere in it."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(list(value)))
        return {**value, key: _exchanged(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _exchanged(draw, value[place]), *value[place + 1 :]]
    return draw(_STRANGE)


def _damage(draw: st.DrawFn, data: bytearray) -> None:
    place = draw(st.integers(0, max(0, len(data) - 1)))
    length = draw(st.integers(1, 12))
    match draw(st.integers(0, 5)):
        case 0:
            del data[place:]
        case 1:
            del data[place : place + length]
        case 2:
            data[place : place + 1] = bytes([draw(st.integers(0, 255))])
        case 3:
            data[place:place] = draw(st.binary(min_size=1, max_size=12))
        case 4:
            data[place : place + 1] = draw(st.sampled_from(_NUMBERS))
        case _:
            data[place:place] = data[place : place + length] * draw(st.integers(1, 20))
