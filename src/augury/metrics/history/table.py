"""What is known, as plain text."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Protocol

from augury.metrics.history.store import Entry
from augury.metrics.records import Records
from augury.wording import NOTHING, aligned, duration, plain, size

_MOST_SHOWN = 10
_VERSION_DIGITS = 8


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
            plain(summary.name) + (f" {summary.version[:_VERSION_DIGITS]}" if names[summary.name] > 1 else ""),
            f"{summary.samples:,}",
            duration(summary.median_s),
            duration(summary.spread_s),
            f"{summary.error_percent:.0f}%" if isfinite(summary.error_percent) else NOTHING,
            summary.model or NOTHING,
        )
        for summary in summaries
    ]
    runs = f"{records.runs:,} run{'' if records.runs == 1 else 's'}"
    title = f"{_called(records.workflow, records.label)}: {runs}, last {_moment(records.updated_s)}"
    return "\n".join([title, *aligned([head, *rows], left=(0, 5))]) if rows else f"{title}, no task measured"


def overview(address: str, entries: Sequence[Entry]) -> str:
    """What a store holds, in a few lines."""
    total = size(sum(entry.size_bytes for entry in entries))
    title = f"{len(entries):,} workflow{'' if len(entries) == 1 else 's'} in {address} ({total})"
    rows = [
        (_called(entry.workflow, entry.label), f"{entry.runs:,}", _moment(entry.updated_s))
        for entry in entries[:_MOST_SHOWN]
    ]
    more = [f"  and {len(entries) - _MOST_SHOWN:,} more"] if len(entries) > _MOST_SHOWN else []
    return "\n".join([title, *(aligned([("workflow", "runs", "last run"), *rows], left=(0, 2)) if rows else []), *more])


def _called(workflow: str, label: str) -> str:
    return plain(workflow) if label in ("", workflow) else f"{plain(label)} ({plain(workflow)})"


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return NOTHING  # a clock that was very wrong
