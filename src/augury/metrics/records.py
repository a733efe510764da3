"""Records: what was measured of runs, as values.

Four kinds of things are measured: task runs, transfers, start-ups, and tasks that there was not enough memory for.
One measurement is a *record* (`TaskRun`, `Transfer`, `Startup`, `MemoryExcess`); that is what people see, and what a
line of an export holds.

Inside, measurements of one kind that were made under the same circumstances are one *series*: a table of 64-bit
floats, row by row, oldest first. A thousand of them are one bytes object that is read without being decoded, and
dropping the oldest is cutting its front off.

    Records (one workflow)
    └── Series (function resize, 2048 MB, embedded platform, planner uniform)
        └── row   ended_s  queue_s  dependency_s  execution_s  …
        └── row   …

Everything is bounded: a run adds at most `RUN_ROWS` rows to a series (spread evenly over the run), a series keeps the
last `SERIES_ROWS`, or fewer in a workflow of very many functions, so that a workflow keeps about `TOTAL_ROWS`
whatever it consists of.

What is not known is NaN. Measurements that cannot be true (a negative time after a clock was set) become NaN when they
are made, so that everything stored is either a fact or marked as missing.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from augury.config import Resources
from augury.errors import DefinitionError

SCHEMA = 1
"""The version of what is stored. Records of another version are not read: history starts anew."""

SERIES_ROWS = 256
"""How many measurements a series keeps at most."""
RUN_ROWS = 64
"""How many measurements one run adds to a series at most."""
TOTAL_ROWS = 65_536
"""About how many measurements a workflow keeps, all series together; the least recently used series give way."""
WORKER_SPANS = 2_000
"""How many spans of tasks a worker sends at once, at most."""
LEAST_ROWS = 16
"""How many measurements a series keeps at least, as long as it is kept."""
_RUNS_REMEMBERED = 64
_FLOAT_BYTES = 8


class Kind(StrEnum):
    """What a series measures."""

    TASK = "task"
    UPLOAD = "upload"
    DOWNLOAD = "download"
    COLD = "cold"
    WARM = "warm"
    EXCESS = "excess"

    @property
    def is_of_functions(self) -> bool:
        """Whether it tells of functions, rather than of platforms."""
        return self in (Kind.TASK, Kind.EXCESS)


_TASK_COLUMNS = (
    *("ended_s", "queue_s", "dependency_s", "execution_s", "upload_s", "cpu_s"),
    *("peak_mb", "input_bytes", "output_bytes", "load_s"),
)
_TRANSFER_COLUMNS = ("ended_s", "size_bytes", "duration_s")
_STARTUP_COLUMNS = ("ended_s", "duration_s", "starting", "waited_s")
_EXCESS_COLUMNS = ("ended_s", "used_mb", "input_bytes")

COLUMNS: Mapping[Kind, tuple[str, ...]] = {
    Kind.TASK: _TASK_COLUMNS,
    Kind.UPLOAD: _TRANSFER_COLUMNS,
    Kind.DOWNLOAD: _TRANSFER_COLUMNS,
    Kind.COLD: _STARTUP_COLUMNS,
    Kind.WARM: _STARTUP_COLUMNS,
    Kind.EXCESS: _EXCESS_COLUMNS,
}
"""What the numbers of a row mean, by kind. The fields of the records say it in words."""


class TaskRun(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="task"):
    """One task that ran to its end.

    Attributes:
        function: The version of the function's code.
        name: The function's name.
        resources: What the worker had.
        platform: Where it ran.
        planner: What made the plan.
        ended_s: When it ended, in seconds since the epoch.
        queue_s: How long it waited for its turn after its inputs were there.
        dependency_s: How long it waited for inputs to come from storage.
        execution_s: How long it ran, from decoding its arguments to its result; without waiting for inputs.
        upload_s: How long its output took to be encoded and stored.
        cpu_s: Processor time, of the whole worker if that runs one task at a time.
        peak_mb: The most memory that the worker's process had meanwhile, in MiB.
        input_bytes: The size of its arguments, outputs of other tasks included.
        output_bytes: The size of its output.
        load_s: How long its function took to be imported before; next to nothing once a process has it.
    """

    function: str
    name: str
    resources: Resources
    platform: str = ""
    planner: str = ""
    ended_s: float = math.nan
    queue_s: float = math.nan
    dependency_s: float = math.nan
    execution_s: float = math.nan
    upload_s: float = math.nan
    cpu_s: float = math.nan
    peak_mb: float = math.nan
    input_bytes: float = math.nan
    output_bytes: float = math.nan
    load_s: float = math.nan


class Transfer(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="transfer"):
    """Bytes that a worker moved to or from storage in one go.

    Attributes:
        direction: `upload` to storage, or `download` from it.
        size_bytes: How many.
        duration_s: How long it took, the round trip included.
        ended_s: When it ended, in seconds since the epoch.
        resources: What the worker had; `platform`, `planner`: as in `TaskRun`.
    """

    direction: Literal["upload", "download"]
    resources: Resources
    platform: str = ""
    planner: str = ""
    ended_s: float = math.nan
    size_bytes: float = math.nan
    duration_s: float = math.nan


class Startup(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="startup"):
    """One start of a worker.

    Attributes:
        state: `cold` if the platform had to make an environment, `warm` if one was there.
        duration_s: From the moment the platform began to start it to its first instruction.
        starting: How many workers of the run were starting at that moment, this one included.
        waited_s: How long the invocation had waited for a slot before.
        ended_s: When it was up, in seconds since the epoch.
        resources: What the worker had; `platform`, `planner`: as in `TaskRun`.
    """

    state: Literal["cold", "warm"]
    resources: Resources
    platform: str = ""
    planner: str = ""
    ended_s: float = math.nan
    duration_s: float = math.nan
    starting: float = math.nan
    waited_s: float = math.nan


class MemoryExcess(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="excess"):
    """One task that did not come to its end because its worker ran out of memory.

    Attributes:
        used_mb: How much the worker used at the least, in MiB; the task would have needed more.
        input_bytes: The size of the task's arguments.
        ended_s: When that was, in seconds since the epoch.
        function: As in `TaskRun`; likewise `name`, `resources`, `platform`, `planner`.
    """

    function: str
    name: str
    resources: Resources
    platform: str = ""
    planner: str = ""
    ended_s: float = math.nan
    used_mb: float = math.nan
    input_bytes: float = math.nan


Record = TaskRun | Transfer | Startup | MemoryExcess


class Circumstances(msgspec.Struct, frozen=True, array_like=True):
    """What the measurements of one series have in common.

    Attributes:
        kind: What was measured.
        function: The version of the function's code; empty if the kind is not of functions.
        resources: What the worker had.
        platform: Where it ran.
        planner: What made the plan.
    """

    kind: Kind
    function: str
    resources: Resources
    platform: str = ""
    planner: str = ""


class Series(msgspec.Struct, frozen=True, array_like=True):
    """Measurements made under the same circumstances.

    Attributes:
        of: The circumstances.
        name: The function's name; empty if the kind is not of functions.
        rows: The measurements, oldest first: for each one a 64-bit float (little endian) per column.
    """

    of: Circumstances
    name: str
    rows: bytes

    def __len__(self) -> int:
        return len(self.rows) // self.row_bytes

    @property
    def row_bytes(self) -> int:
        """How long a row is."""
        return row_bytes(self.of.kind)

    def records(self) -> Iterator[Record]:
        """The measurements, one by one."""
        of = self.of
        for row in struct.iter_unpack(f"<{len(COLUMNS[of.kind])}d", self.rows):
            fields: dict[str, Any] = dict(zip(COLUMNS[of.kind], row, strict=True))
            fields |= {"resources": of.resources, "platform": of.platform, "planner": of.planner}
            if of.kind is Kind.TASK:
                yield TaskRun(function=of.function, name=self.name, **fields)
            elif of.kind is Kind.EXCESS:
                yield MemoryExcess(function=of.function, name=self.name, **fields)
            elif of.kind in (Kind.UPLOAD, Kind.DOWNLOAD):
                yield Transfer(**fields | {"direction": of.kind.value})
            else:
                yield Startup(**fields | {"state": of.kind.value})


def row_bytes(kind: Kind) -> int:
    """How long a row of a kind is."""
    return _FLOAT_BYTES * len(COLUMNS[kind])


def pack_row(values: Sequence[float]) -> bytes:
    """A row as bytes."""
    return struct.pack(f"<{len(values)}d", *values)


def series_of(records: Iterable[Record]) -> list[Series]:
    """Records sorted into series; those of one series stay in their order."""
    rows: dict[Circumstances, list[bytes]] = {}
    names: dict[Circumstances, str] = {}
    for record in records:
        of = _circumstances(record)
        rows.setdefault(of, []).append(pack_row([float(getattr(record, column)) for column in COLUMNS[of.kind]]))
        names[of] = record.name if isinstance(record, TaskRun | MemoryExcess) else ""
    return [Series(of, names[of], b"".join(packed)) for of, packed in rows.items()]


def _circumstances(record: Record) -> Circumstances:
    if isinstance(record, TaskRun | MemoryExcess):
        kind = Kind.TASK if isinstance(record, TaskRun) else Kind.EXCESS
        return Circumstances(kind, record.function, record.resources, record.platform, record.planner)
    kind = Kind(record.direction) if isinstance(record, Transfer) else Kind(record.state)
    return Circumstances(kind, "", record.resources, record.platform, record.planner)


class Span(NamedTuple):
    """When a task ran. Not a record: it is compared with the plan of its run, and then forgotten.

    Attributes:
        task: The task.
        start_s: When its function was called, in seconds since the epoch, by the clock of its worker.
        execution_s: How long it ran, as in `TaskRun`.
    """

    task: int
    start_s: float
    execution_s: float


_SPAN: Final = struct.Struct("<Idd")


def pack_spans(spans: Iterable[Span]) -> bytes:
    """Spans as bytes, for a `Batch`."""
    return b"".join([_SPAN.pack(*span) for span in spans])


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """What one worker measured, on its way to whoever keeps it; platform and planner are left for them to fill in.

    Attributes:
        schema: The version of all this.
        series: What is kept.
        packed_spans: Beside it, when tasks ran.
    """

    schema: int
    series: tuple[Series, ...]
    packed_spans: bytes = b""

    @property
    def spans(self) -> list[Span]:
        """When tasks ran."""
        return [Span(*fields) for fields in _SPAN.iter_unpack(self.packed_spans)]

    def encode(self) -> bytes:
        """The batch as bytes; `decode` reads it back."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes, *, platform: str = "", planner: str = "") -> "Batch":
        """A batch that `encode` wrote, with the circumstances that the worker did not know.

        Raises:
            DefinitionError: It is none, or is of another version.
        """
        try:
            batch = msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, DefinitionError) as error:
            raise DefinitionError(f"these are not the bytes of a batch of records: {error}") from error
        halved = len(batch.packed_spans) % _SPAN.size or any(len(one.rows) % one.row_bytes for one in batch.series)
        if batch.schema != SCHEMA or halved:
            raise DefinitionError(
                f"this batch of records is damaged, or of version {batch.schema} rather than {SCHEMA}"
            )
        replace = msgspec.structs.replace
        series = [replace(one, of=replace(one.of, platform=platform, planner=planner)) for one in batch.series]
        return replace(batch, series=tuple(series))


_Item = TypeVar("_Item")


class Spread(Generic[_Item]):
    """Members of a sequence of unknown length, evenly spread over it and so many at most.

    When it is full every second one goes, and from then on only every second one is taken, and so on.
    """

    def __init__(self, most: int) -> None:
        self.items: list[_Item] = []
        self._most = most
        self._stride = 1
        self._offered = 0

    def add(self, item: _Item) -> bool:
        """Take an item, or leave it out; whether it was taken."""
        self._offered += 1
        if (self._offered - 1) % self._stride:
            return False
        self.items.append(item)
        if len(self.items) > self._most:
            del self.items[1::2]
            self._stride *= 2
        return True


class Gathered:
    """What the workers of one run measured, as it comes in; bounded."""

    def __init__(self) -> None:
        self._rows: dict[Circumstances, Spread[bytes]] = {}
        self._names: dict[Circumstances, str] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, series: Iterable[Series]) -> None:
        """Add the measurements of a worker."""
        for one in series:
            rows = self._rows.get(one.of)
            if rows is None:
                rows = self._rows[one.of] = Spread(2 * RUN_ROWS)
                self._names[one.of] = one.name
            width = one.row_bytes
            for start in range(0, len(one.rows), width):
                rows.add(one.rows[start : start + width])

    def take(self) -> list[Series]:
        """What was added since the last time."""
        rows, self._rows = self._rows, {}
        return [Series(of, self._names[of], b"".join(spread.items)) for of, spread in rows.items()]


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one workflow; the history of a workflow.

    Attributes:
        workflow: The name that the user gave it, or else its fingerprint.
        label: How to call it: its name, or the name of its last function.
        series: The measurements; the series that was added to last stands last.
        runs: How many runs were recorded in all.
        recent: The ids of the last ones, so that none counts twice; with the number of the part for runs that came in
            parts.
        updated_s: When the last one was added, in seconds since the epoch.
        schema: The version of all this.
    """

    workflow: str
    label: str = ""
    series: tuple[Series, ...] = ()
    runs: int = 0
    recent: tuple[str, ...] = ()
    updated_s: float = 0.0
    schema: int = SCHEMA

    def __len__(self) -> int:
        return sum(map(len, self.series))

    @property
    def functions(self) -> dict[str, str]:
        """The functions that something is known of: version → name."""
        return {series.of.function: series.name for series in self.series if series.of.kind.is_of_functions}

    @property
    def platforms(self) -> frozenset[str]:
        """The platforms that start-ups or transfers are known of."""
        return frozenset(series.of.platform for series in self.series if not series.of.kind.is_of_functions)

    def with_run(self, run_id: str, series: Iterable[Series], now_s: float, part: int = 0) -> "Records":
        """These records and those of one more run, or of a part of it; what was added before changes nothing."""
        if part_of_run(run_id, part) in self.recent:
            return self
        parts = {entry.partition(_PART)[0] for entry in self.recent}
        return msgspec.structs.replace(
            self.with_series([_thinned(one, RUN_ROWS) for one in _joined(series)]),
            runs=self.runs + (run_id not in parts),
            recent=(*self.recent, part_of_run(run_id, part))[-_RUNS_REMEMBERED:],
            updated_s=max(self.updated_s, now_s),
        )

    def with_series(self, series: Iterable[Series]) -> "Records":
        """These records and more measurements, within the bounds."""
        return msgspec.structs.replace(self, series=_bounded(_joined([*self.series, *series])))

    def inheriting(self, other: "Records", functions: Iterable[str], platforms: Iterable[str]) -> "Records":
        """These records, and what another workflow knows of these functions and of these platforms."""
        wanted, places = set(functions), set(platforms)
        heirlooms = [
            series
            for series in other.series
            if (series.of.function in wanted if series.of.kind.is_of_functions else series.of.platform in places)
        ]
        return msgspec.structs.replace(self, series=_bounded(_joined([*heirlooms, *self.series])))

    def encode(self) -> bytes:
        """The records as bytes; `decode` reads them back."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> "Records":
        """Read records that `encode` wrote.

        Raises:
            DefinitionError: They are none, are damaged, or are of another version.
        """
        try:
            version = msgspec.msgpack.decode(data, type=_Versioned).schema
            records = _decoder.decode(data) if version == SCHEMA else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, DefinitionError) as error:
            raise DefinitionError(f"these are not the bytes of records: {error}") from error
        if records is None:
            raise DefinitionError(f"these records are of version {version}; this program reads version {SCHEMA}")
        for series in records.series:
            if len(series.rows) % series.row_bytes:
                raise DefinitionError(f"these records are damaged: half a row of {series.of.kind}")
        return records


_PART = "#"


def part_of_run(run_id: str, part: int) -> str:
    """How a part of a run is remembered."""
    return f"{run_id}{_PART}{part}" if part else run_id


class _Versioned(msgspec.Struct):
    schema: int


_decoder = msgspec.msgpack.Decoder(Records)


def _joined(series: Iterable[Series]) -> list[Series]:
    """Series with the same circumstances as one, in the order of the last of them."""
    # Parts are collected and joined once: a thousand workers may each have measured a little of the same.
    parts: dict[Circumstances, list[bytes]] = {}
    last: dict[Circumstances, Series] = {}
    for one in series:
        if one.rows:
            parts.setdefault(one.of, []).append(one.rows)
            last.pop(one.of, None)
            last[one.of] = one
    return [
        one if len(parts[of]) == 1 else msgspec.structs.replace(one, rows=b"".join(parts[of]))
        for of, one in last.items()
    ]


def _thinned(series: Series, most: int) -> Series:
    """Evenly spread rows of a series, so many at most."""
    count = len(series)
    if count <= most:
        return series
    width = series.row_bytes
    chosen = [(2 * index + 1) * count // (2 * most) for index in range(most)]
    return msgspec.structs.replace(
        series, rows=b"".join(series.rows[place * width : (place + 1) * width] for place in chosen)
    )


def _bounded(series: Sequence[Series]) -> tuple[Series, ...]:
    """The last rows of the last series."""
    kept = series[-(TOTAL_ROWS // LEAST_ROWS) :]
    most = max(LEAST_ROWS, min(SERIES_ROWS, TOTAL_ROWS // max(1, len(kept))))
    return tuple(
        one if len(one) <= most else msgspec.structs.replace(one, rows=one.rows[-most * one.row_bytes :])
        for one in kept
    )
