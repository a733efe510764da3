"""What measurements find, beside the bars that they are held to: as values, as JSON and as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

Relation = Literal["<=", ">="]
Samples = Mapping[str, Sequence[float]]

MET, MISSED, FAILED, UNJUDGED = "met", "MISSED", "FAILED", "-"

_SIGNS = {"<=": "≤", ">=": "≥"}
_WHOLE = 100.0
"""From here on, digits after the point say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that was measured.

    Attributes:
        what: What it is of, for people.
        value: The number; a ratio, if there is no unit.
        unit: What it counts.
        bar: What it must not exceed, or must reach; None: it is shown, and not judged.
        relation: On which side of the bar it must be.
        samples: All that was measured to get it, by what it is of.
        note: What else a reader should know.
    """

    what: str
    value: float
    unit: str = ""
    bar: float | None = None
    relation: Relation = "<="
    samples: Samples = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None if there is none."""
        if self.bar is None:
            return None
        return self.value <= self.bar if self.relation == "<=" else self.value >= self.bar

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads back, with the verdict beside it."""
        return asdict(self) | {
            "samples": {name: list(values) for name, values in self.samples.items()},
            "met": self.met,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read a figure that `as_json` wrote."""
        return cls(**{name: value for name, value in document.items() if name != "met"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A measurement that came to no end.

    Attributes:
        what: Its name.
        reason: Why, in one line.
        details: The traceback, as far as there is one.
    """

    what: str
    reason: str
    details: str = ""

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


Line = Figure | Failure


def table(lines: Sequence[Line], *, judged: bool) -> str:
    """Aligned columns, and below them a line that counts.

    Args:
        lines: What was found, in order.
        judged: Whether the sizes were those that bars are for.
    """
    rows = [("what", "measured", "bar", "verdict", ""), *(_row(line, judged) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    shown = [
        f"{what:{widths[0]}}  {measured:>{widths[1]}}  {bar:>{widths[2]}}  {verdict:{widths[3]}}  {note}".rstrip()
        for what, measured, bar, verdict, note in rows
    ]
    return "\n".join([shown[0], "-" * max(map(len, shown)), *shown[1:], "", _count(lines, judged)])


def _row(line: Line, judged: bool) -> tuple[str, str, str, str, str]:
    if isinstance(line, Failure):
        return line.what, "failed", "", FAILED, line.reason
    bar = "" if line.bar is None else f"{_SIGNS[line.relation]} {line.bar:g}"
    return line.what, _told(line.value, line.unit), bar, verdict(line, judged=judged), line.note


def verdict(figure: Figure, *, judged: bool) -> str:
    """What the table says of a figure."""
    if figure.met is None or not judged:
        return UNJUDGED
    return MET if figure.met else MISSED


def _told(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def _count(lines: Sequence[Line], judged: bool) -> str:
    failures = sum(isinstance(line, Failure) for line in lines)
    told = f"; {failures} measurement{'s' if failures > 1 else ''} failed" if failures else ""
    if not judged:
        return f"no verdicts: bars are for measurements of full size{told}"
    verdicts = [line.met for line in lines if isinstance(line, Figure) and line.met is not None]
    return f"{sum(verdicts)} of {len(verdicts)} bars met{told}"
