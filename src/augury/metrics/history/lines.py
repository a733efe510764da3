"""Records as lines of JSON, for people and other programs.

    {"record":"workflow","workflow":"etl","label":"etl","runs":12,"updated_s":1700000000.0,"schema":1}
    {"record":"task","function":"5c…","name":"extract","resources":{"cpus":1.0,"memory_mb":2048},…}
    {"record":"startup","state":"cold",…}

A workflow is a line of its own, followed by its records, oldest first. What is not known is null. Reading lines back
gives what was written, and reading them into records that hold some of them already adds only the others.
"""

import heapq
import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec

from augury.errors import DefinitionError
from augury.metrics.records import SCHEMA, MemoryExcess, Record, Records, Series, Startup, TaskRun, Transfer, series_of


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="workflow"):
    """The line in front of a workflow's records; its fields are those of `Records`."""

    workflow: str
    label: str = ""
    runs: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    updated_s: Annotated[float, msgspec.Meta(ge=0, le=1e11)] = 0.0
    schema: int = SCHEMA


_LARGEST = 1e18
_Line = Header | TaskRun | Transfer | Startup | MemoryExcess
_encode = msgspec.json.Encoder().encode


def lines_of(records: Records) -> Iterator[str]:
    """The records of a workflow, line by line, each with its line feed."""
    yield _line(
        Header(
            workflow=records.workflow,
            label=records.label,
            runs=records.runs,
            updated_s=records.updated_s,
        )
    )
    for series in records.series:
        yield from map(_line, series.records())


def _line(value: _Line) -> str:
    return f"{_encode(value).decode()}\n"


def parse_lines(lines: Iterable[str | bytes], source: str) -> list[Records]:
    """The records of workflows from lines that `lines_of` gave.

    Args:
        lines: The lines; empty ones do not matter.
        source: Where they are from, for errors.

    Raises:
        DefinitionError: A line is wrong; names it and says why.
    """
    found: list[tuple[Header, list[Record]]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = _parse(line, first=not found)
        except msgspec.DecodeError as error:
            if isinstance(error, msgspec.ValidationError):
                raise DefinitionError(f"{source}, line {number}: {error}") from error
            raise DefinitionError(
                f"{source}, line {number} is no JSON, as History.export writes it: {error}"
            ) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, DefinitionError) as error:
            raise DefinitionError(f"{source}, line {number}: {error}") from error
        if isinstance(value, Header):
            found.append((value, []))
        else:
            found[-1][1].append(value)
    return [_gathered(header, records) for header, records in found]


def _parse(line: str | bytes, *, first: bool) -> _Line:
    try:
        fields: Any = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise DefinitionError(f"this is not a line of JSON, as History.export writes them: {error}") from error
    if not isinstance(fields, dict):
        raise DefinitionError("this is no record, {…}")
    if fields.get("record") == "workflow" and fields.get("schema") != SCHEMA:
        raise DefinitionError(
            f"these records are of version {fields.get('schema')}; this program reads version {SCHEMA}: "
            f'"schema":{SCHEMA}'
        )
    known = {name: value for name, value in fields.items() if value is not None}
    line_type: Any = _Line  # a union is no type to the checker
    parsed: _Line = msgspec.convert(known, line_type)
    if isinstance(parsed, Header):
        return parsed
    if first:
        raise DefinitionError('no line {"record":"workflow",…} stands before this record')
    for name, value in known.items():
        if isinstance(value, int | float) and not 0 <= value <= _LARGEST:
            raise DefinitionError(f"{name} cannot be {value!r}")
    return parsed


def _gathered(header: Header, records: list[Record]) -> Records:
    return Records(
        workflow=header.workflow,
        label=header.label,
        runs=header.runs,
        updated_s=header.updated_s,
    ).with_series(series_of(records))


def merged(records: Records, more: Records) -> Records:
    """Records with those of `more` that they lack, in the order of time; the same object if they lack none.

    Two equal rows in `more` are two measurements, so both are there afterwards, however often this is done.
    """
    known = {series.of: series for series in records.series}
    grown = [grown for series in more.series if (grown := _grown(known.get(series.of), series)) is not None]
    replaced = {series.of for series in grown}
    kept = tuple(series for series in records.series if series.of not in replaced)
    together = msgspec.structs.replace(
        msgspec.structs.replace(records, series=kept).with_series(grown) if grown else records,
        label=records.label or more.label,
        runs=max(records.runs, more.runs),
        updated_s=max(records.updated_s, more.updated_s),
    )
    return records if together == records else together


def added(before: Records, after: Records) -> int:
    """How many measurements are in `after` and not in `before`."""
    known = {series.of: Counter(_rows(series)) for series in before.series}
    return sum((Counter(_rows(series)) - known.get(series.of, Counter())).total() for series in after.series)


def _grown(known: Series | None, more: Series) -> Series | None:
    """A series with the rows of another that it lacks; None if it lacks none."""
    if known is None:
        return more
    had = Counter(_rows(known))
    missing = []
    for row in _rows(more):
        if had[row]:
            had[row] -= 1
        else:
            missing.append(row)
    if not missing:
        return None
    in_order = heapq.merge(_timed(_rows(known)), _timed(missing), key=lambda timed: timed[0])
    return msgspec.structs.replace(known, rows=b"".join(row for _, row in in_order))


def _rows(series: Series) -> Iterator[bytes]:
    width = series.row_bytes
    return (series.rows[start : start + width] for start in range(0, len(series.rows), width))


def _timed(rows: Iterable[bytes]) -> Iterator[tuple[float, bytes]]:
    """Rows with a time that never falls: one without, or from a clock that was set back, has that of the one before."""
    latest_s = -math.inf
    for row in rows:
        (ended_s,) = struct.unpack_from("<d", row)
        latest_s = ended_s if ended_s > latest_s else latest_s
        yield latest_s, row
