"""Numbers and tables as people read them; everything that is shown as text says them the same way."""

import math
from collections.abc import Sequence

NOTHING = "-"
"""Stands where a number is not known."""

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_TIMES = (("h", 3600.0, 7200.0), ("min", 60.0, 120.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("µs", 1e-6, 0.0))
"""What a time is told in: the unit, its seconds, and from how many seconds on."""
_LONGEST_NAME = 100


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 task`, `2 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def seconds(duration_s: float) -> str:
    """A duration for people, with as many digits as matter: `0.31 s`, `12.4 s`, `3 min 05 s`."""
    if not math.isfinite(duration_s):
        return NOTHING
    if duration_s < 9.995:
        return f"{duration_s:.2f} s"
    if duration_s < 59.95:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def duration(duration_s: float) -> str:
    """A time with three digits and a unit that fits.

    Example:
        >>> duration(0.0123), duration(75), duration(float("nan"))
        ('12.3 ms', '75.0 s', '-')
    """
    if not 0 <= duration_s < math.inf:
        return NOTHING
    if not duration_s:
        return "0 s"
    unit, unit_s = next((unit, unit_s) for unit, unit_s, least_s in _TIMES if duration_s >= least_s)
    value = duration_s / unit_s
    return f"{value:,.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {unit}"


def amount(number: float) -> str:
    """A quantity for people, with two digits that matter: `12`, `3.4`, `0.16`, `0.0034`."""
    if 0 < number < 0.001:
        return "under 0.001"
    return f"{number:.2g}" if number < 10 else f"{number:,.0f}"


def size(size_bytes: float) -> str:
    """A size for people, in powers of 1000: `512 B`, `1.2 kB`, `64 MB`."""
    if not math.isfinite(size_bytes):
        return NOTHING
    unit = 0
    while size_bytes >= 999.5 and unit < len(_SIZES) - 1:
        size_bytes /= 1000
        unit += 1
    return f"{size_bytes:.1f} {_SIZES[unit]}" if unit and size_bytes < 9.95 else f"{size_bytes:.0f} {_SIZES[unit]}"


def dollars(cost_usd: float) -> str:
    """A cost with two digits that matter, at least whole cents from a dollar on.

    Example:
        >>> dollars(0.0000042), dollars(0.126), dollars(1234.5), dollars(0)
        ('$0.0000042', '$0.13', '$1,234.50', '$0')
    """
    if not math.isfinite(cost_usd):
        return NOTHING
    if cost_usd == 0:
        return "$0"
    digits = 2 if cost_usd >= 1 else 1 - math.floor(math.log10(cost_usd))
    return f"${cost_usd:,.{digits}f}"


def signed(number: float, text: str) -> str:
    """What was said of a number without its sign, with its sign; a number that is not known has none.

    Example:
        >>> signed(-0.25, dollars(0.25))
        '-$0.25'
    """
    return f"{'-' if number < 0 else '+'}{text}" if math.isfinite(number) else NOTHING


def percent(part: float, whole: float) -> str:
    """By how much a number differs from what it was to be: `+7%`.

    Example:
        >>> percent(1.5, 1.0), percent(0.5, 1.0), percent(1.0, 0.0)
        ('+50%', '-50%', '-')
    """
    if not whole or not math.isfinite(part / whole):
        return NOTHING
    return f"{(part / whole - 1) * 100:+,.0f}%"


def plain(name: str) -> str:
    """A name that neither moves the cursor nor fills the screen."""
    shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name[:_LONGEST_NAME])
    return shown if len(name) <= _LONGEST_NAME else f"{shown}…"


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """The lines of a table.

    Args:
        rows: Its cells; all rows are equally long.
        left: The columns that are flush left; numbers are flush right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
