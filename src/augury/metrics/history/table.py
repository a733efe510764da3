"""What is known, as plain text."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Protocol

from augury.metrics.history.store import Entry
from augury.metrics.records import Records
from augury.observation import size

_MOST_SHOWN = 10
_LONGEST_NAME = 100
_VERSION_DIGITS = 8
_NOTHING = "-"
_UNITS = (("h", 3600.0, 7200.0), ("min", 60.0, 120.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("µs", 1e-6, 0.0))
"""What a time is told in: the unit, its seconds, and from how many seconds on."""


class Summary(Protocol):
    """What a row tells of a function."""

    @property
    def name(self) -> str:
        """The function's name."""

    @property
    def version(self) -> str:
        """The version of its code."""

    @property
    def samples(self) -> int:
        """How many measurements there are."""

    @property
    def median_s(self) -> float:
        """How long it takes."""

    @property
    def spread_s(self) -> float:
        """How much that varies."""

    @property
    def model(self) -> str:
        """How it is predicted."""

    @property
    def error_percent(self) -> float:
        """How wrong that would have been; NaN if it is not known."""


def summary_table(records: Records, summaries: Sequence[Summary]) -> str:
    """A table of the functions of one workflow."""
    head = ("function", "samples", "median", "spread", "error", "model")
    names = Counter(summary.name for summary in summaries)
    rows = [
        (
            # Two versions of a function, or two functions of one name, are told apart.
            _plain(summary.name) + (f" {summary.version[:_VERSION_DIGITS]}" if names[summary.name] > 1 else ""),
            f"{summary.samples:,}",
            duration(summary.median_s),
            duration(summary.spread_s),
            f"{summary.error_percent:.0f}%" if isfinite(summary.error_percent) else _NOTHING,
            summary.model or _NOTHING,
        )
        for summary in summaries
    ]
    runs = f"{records.runs:,} run{'' if records.runs == 1 else 's'}"
    title = f"{_called(records.workflow, records.label)}: {runs}, last {_moment(records.updated_s)}"
    return "\n".join([title, *_aligned([head, *rows], left=(0, 5))]) if rows else f"{title}, no task measured"


def overview(address: str, entries: Sequence[Entry]) -> str:
    """What a store holds, in a few lines."""
    total = size(sum(entry.size_bytes for entry in entries))
    title = f"{len(entries):,} workflow{'' if len(entries) == 1 else 's'} in {address} ({total})"
    rows = [
        (_called(entry.workflow, entry.label), f"{entry.runs:,}", _moment(entry.updated_s))
        for entry in entries[:_MOST_SHOWN]
    ]
    more = [f"  and {len(entries) - _MOST_SHOWN:,} more"] if len(entries) > _MOST_SHOWN else []
    return "\n".join(
        [title, *(_aligned([("workflow", "runs", "last run"), *rows], left=(0, 2)) if rows else []), *more]
    )


def duration(seconds: float) -> str:
    """A time with three digits and a unit that fits.

    Example:
        >>> duration(0.0123), duration(75), duration(float("nan"))
        ('12.3 ms', '75.0 s', '-')
    """
    if not 0 <= seconds < float("inf"):
        return _NOTHING
    unit, unit_s = next((unit, unit_s) for unit, unit_s, least_s in _UNITS if seconds >= least_s)
    value = seconds / unit_s
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"


def _called(workflow: str, label: str) -> str:
    return _plain(workflow) if label in ("", workflow) else f"{_plain(label)} ({_plain(workflow)})"


def _plain(name: str) -> str:
    """A name that neither moves the cursor nor fills the screen."""
    shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name[:_LONGEST_NAME])
    return shown if len(name) <= _LONGEST_NAME else f"{shown}…"


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return _NOTHING  # a clock that was very wrong


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
