"""Records are bounded, survive the way to bytes and back, and count every run once."""

import math
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.config import Resources
from augury.errors import DefinitionError
from augury.metrics.records import (
    COLUMNS,
    LEAST_ROWS,
    RUN_ROWS,
    SCHEMA,
    SERIES_ROWS,
    TOTAL_ROWS,
    Batch,
    Circumstances,
    Gathered,
    Kind,
    Record,
    Records,
    Series,
    Span,
    Spread,
    Startup,
    TaskRun,
    Transfer,
    pack_row,
    pack_spans,
    series_of,
)
from tests.metrics.building import SMALL, all_of, excess, functions, numbers, startup, task_run, tasks, transfer

EMPTY = Records(workflow="w")
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
RESOURCES = st.builds(
    Resources, cpus=st.floats(min_value=0.1, max_value=64), memory_mb=st.integers(min_value=1, max_value=100_000)
)
WHERE: dict[str, st.SearchStrategy[Any]] = {
    "resources": RESOURCES,
    "platform": st.text(max_size=5),
    "planner": st.text(max_size=5),
}


RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        TaskRun,
        function=st.sampled_from(["f1", "f2"]),
        name=st.just("name"),
        **WHERE,
        **dict.fromkeys(COLUMNS[Kind.TASK], FLOATS),
    ),
    st.builds(
        Transfer,
        direction=st.sampled_from(["upload", "download"]),
        **WHERE,
        **dict.fromkeys(COLUMNS[Kind.UPLOAD], FLOATS),
    ),
    st.builds(Startup, state=st.sampled_from(["cold", "warm"]), **WHERE, **dict.fromkeys(COLUMNS[Kind.COLD], FLOATS)),
)


# ── records and series ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", list(Kind))
def test_the_columns_of_a_kind_are_fields_of_its_records(kind: Kind) -> None:
    row = [float(number) for number in range(len(COLUMNS[kind]))]
    (record,) = Series(Circumstances(kind, "f", SMALL), "", pack_row(row)).records()
    assert [getattr(record, column) for column in COLUMNS[kind]] == row


def test_another_meaning_of_rows_is_another_version() -> None:
    assert SCHEMA == 1, "write down here what the new version holds"
    task = [
        *("ended_s", "queue_s", "dependency_s", "execution_s", "upload_s", "cpu_s"),
        *("peak_mb", "input_bytes", "output_bytes", "load_s"),
    ]
    transfer, startup = ["ended_s", "size_bytes", "duration_s"], ["ended_s", "duration_s", "starting", "waited_s"]
    excess = ["ended_s", "used_mb", "input_bytes"]
    assert [list(COLUMNS[kind]) for kind in Kind] == [task, transfer, transfer, startup, startup, excess]


@given(st.lists(RECORDS, max_size=20))
def test_records_are_sorted_into_series_and_none_is_lost(records: list[Record]) -> None:
    series = series_of(records)
    assert len({one.of for one in series}) == len(series)
    assert sorted(map(repr, (record for one in series for record in one.records()))) == sorted(map(repr, records))


def test_the_records_of_a_series_stay_in_their_order() -> None:
    mixed: list[Record] = [task_run(3.0), startup(1.0), task_run(1.0), task_run(2.0), excess(1.0)]
    assert [numbers(series) for series in series_of(mixed)] == [[3.0, 1.0, 2.0], [1.0], [1.0]]


@given(RECORDS)
def test_a_record_survives_json(record: Record) -> None:
    assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record


def test_a_line_of_json_names_its_kind_and_shows_what_is_missing_as_null() -> None:
    fields = msgspec.json.decode(msgspec.json.encode(startup(1.0)))
    assert fields["record"] == "startup"
    assert fields["waited_s"] is None


def test_what_was_not_measured_is_nan_also_after_packing() -> None:
    (series,) = series_of([TaskRun(function="f", name="n", resources=SMALL, execution_s=2.0)])
    (record,) = series.records()
    assert isinstance(record, TaskRun)
    assert record.execution_s == 2.0
    assert math.isnan(record.queue_s)


def test_rows_are_little_endian_on_every_machine() -> None:
    assert pack_row([1.0]) == b"\x00\x00\x00\x00\x00\x00\xf0\x3f"


# ── batches ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_gets_the_platform_and_planner_that_its_worker_did_not_know() -> None:
    (sent,) = tasks(2)
    (received,) = Batch.decode(Batch(SCHEMA, (sent,)).encode(), platform="there", planner="uniform").series
    assert (received.of.platform, received.of.planner) == ("there", "uniform")
    assert received.rows == sent.rows


def test_spans_travel_beside_the_records() -> None:
    spans = [Span(0, 1.5e9 + 1e-6, 0.25), Span(4_000_000_000, -1.0, math.inf)]
    batch = Batch.decode(Batch(SCHEMA, tuple(tasks(2)), pack_spans(spans)).encode())
    assert batch.spans == spans
    assert [one.rows for one in batch.series] == [one.rows for one in tasks(2)]


def test_what_history_keeps_is_the_same_with_spans_and_without() -> None:
    alone = Batch.decode(Batch(SCHEMA, tuple(tasks(2))).encode())
    along = Batch.decode(Batch(SCHEMA, tuple(tasks(2)), pack_spans([Span(1, 2.0, 3.0)] * 1000)).encode())
    assert EMPTY.with_run("r1", along.series, 1.0).encode() == EMPTY.with_run("r1", alone.series, 1.0).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93",
        Batch(SCHEMA, (), b"half a span").encode(),
        Batch(SCHEMA + 1, ()).encode(),
        Batch(SCHEMA, (msgspec.structs.replace(tasks(1)[0], rows=b"123"),)).encode(),
    ],
)
def test_a_batch_that_is_damaged_or_of_another_version_is_refused(data: bytes) -> None:
    with pytest.raises(DefinitionError, match="batch of records"):
        Batch.decode(data)


# ── runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_counted_and_dated() -> None:
    records = EMPTY.with_run("r1", tasks(2), 10.0)
    assert (records.runs, records.recent, records.updated_s, len(records)) == (1, ("r1",), 10.0, 2)


def test_a_run_that_was_added_before_changes_nothing() -> None:
    records = EMPTY.with_run("r1", tasks(2), 10.0)
    assert records.with_run("r1", tasks(5), 20.0) is records


def test_only_the_last_runs_are_remembered_by_id() -> None:
    records = EMPTY
    for number in range(100):
        records = records.with_run(f"r{number}", [], float(number))
    assert records.runs == 100
    assert records.recent[-1] == "r99"
    assert len(records.recent) == 64


def test_a_clock_that_was_set_back_does_not_make_records_older() -> None:
    assert EMPTY.with_run("r1", [], 10.0).with_run("r2", [], 5.0).updated_s == 10.0


def test_a_run_without_measurements_counts_as_one() -> None:
    records = EMPTY.with_run("r1", [], 1.0)
    assert (records.runs, records.series) == (1, ())


def test_a_long_run_is_thinned_evenly() -> None:
    (series,) = EMPTY.with_run("r1", tasks(10 * RUN_ROWS), 1.0).series
    gaps = {later - earlier for earlier, later in zip(numbers(series), numbers(series)[1:], strict=False)}
    assert len(series) == RUN_ROWS
    assert gaps == {10.0}


@given(st.integers(min_value=1, max_value=5 * RUN_ROWS))
def test_thinning_keeps_order_and_bound_and_repeats_nothing(count: int) -> None:
    (series,) = EMPTY.with_run("r1", tasks(count), 1.0).series
    kept = numbers(series)
    assert len(kept) == min(count, RUN_ROWS)
    assert kept == sorted(set(kept))


def test_what_several_workers_measured_of_one_function_is_thinned_together() -> None:
    (series,) = EMPTY.with_run("r1", [*tasks(RUN_ROWS), *tasks(RUN_ROWS, first=RUN_ROWS)], 1.0).series
    assert len(series) == RUN_ROWS
    assert max(numbers(series)) >= RUN_ROWS


# ── joining and bounds ─────────────────────────────────────────────────────────────────────────────────────────


def test_rows_under_the_same_circumstances_are_joined_the_newest_last() -> None:
    (series,) = EMPTY.with_series(tasks(2)).with_series(tasks(2, first=2)).series
    assert numbers(series) == [0.0, 1.0, 2.0, 3.0]


def test_other_resources_or_another_planner_make_a_series_of_their_own() -> None:
    other = [task_run(1.0, resources=Resources(memory_mb=1024)), task_run(2.0, planner="wukong")]
    assert len(EMPTY.with_series(tasks(1)).with_series(series_of(other)).series) == 3


def test_the_series_added_to_last_stands_last() -> None:
    records = EMPTY.with_series([*tasks(1, "f1"), *tasks(1, "f2")]).with_series(tasks(1, "f1"))
    assert [series.of.function for series in records.series] == ["f2", "f1"]


def test_a_function_that_was_renamed_has_its_new_name() -> None:
    renamed = [msgspec.structs.replace(series, name="new") for series in tasks(1)]
    assert EMPTY.with_series(tasks(1)).with_series(renamed).functions == {"f1": "new"}


def test_empty_series_are_dropped() -> None:
    (series,) = tasks(1)
    assert EMPTY.with_series([msgspec.structs.replace(series, rows=b"")]).series == ()


def test_a_series_keeps_its_newest_rows() -> None:
    (series,) = EMPTY.with_series(tasks(SERIES_ROWS + 3)).series
    assert numbers(series) == [float(number) for number in range(3, SERIES_ROWS + 3)]


def test_many_series_keep_fewer_rows_each() -> None:
    count = TOTAL_ROWS // SERIES_ROWS * 2
    records = EMPTY.with_series(functions(count, rows=SERIES_ROWS))
    assert len(records.series) == count
    assert len(records) == TOTAL_ROWS


def test_too_many_series_lose_those_that_were_used_longest_ago() -> None:
    most = TOTAL_ROWS // LEAST_ROWS
    records = EMPTY.with_series(functions(most + 5, rows=LEAST_ROWS + 1))
    assert len(records.series) == most
    assert records.series[0].of.function == "f5"
    assert len(records) == TOTAL_ROWS


# ── what is known ──────────────────────────────────────────────────────────────────────────────────────────────


def test_functions_and_platforms_are_those_that_something_is_known_of() -> None:
    records = EMPTY.with_series(series_of([task_run(1.0), startup(1.0, "there"), transfer(1.0, "near")]))
    assert records.functions == {"f1": "name of f1"}
    assert records.platforms == {"there", "near"}


def test_another_workflow_gives_what_is_asked_for_and_nothing_else() -> None:
    other = Records(workflow="other", runs=7).with_series(
        [*tasks(2, "f1"), *tasks(2, "f2"), *series_of([startup(1.0, "here"), startup(1.0, "there")])]
    )
    heir = EMPTY.inheriting(other, ["f1", "f9"], ["there"])
    assert set(heir.functions) == {"f1"}
    assert heir.platforms == {"there"}
    assert (heir.workflow, heir.runs) == ("w", 0)


def test_what_is_inherited_is_older_than_what_is_known_already() -> None:
    other = Records(workflow="other").with_series(tasks(2, first=10))
    (series,) = EMPTY.with_series(tasks(2)).inheriting(other, ["f1"], []).series
    assert numbers(series) == [10.0, 11.0, 0.0, 1.0]


# ── bytes ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(RECORDS, max_size=20), st.text(max_size=20))
def test_bytes_give_the_same_records(records: list[Record], label: str) -> None:
    before = Records(workflow="w", label=label).with_run("r1", series_of(records), 3.5)
    after = Records.decode(before.encode())
    assert after == before
    assert list(map(repr, all_of(after.series))) == list(map(repr, all_of(before.series)))


def test_records_of_another_version_are_refused_whatever_they_hold() -> None:
    data = msgspec.msgpack.encode({"schema": SCHEMA + 1, "series": "of another kind", "workflow": 5})
    with pytest.raises(DefinitionError, match=f"version {SCHEMA + 1}; this program reads version {SCHEMA}"):
        Records.decode(data)


def test_half_a_row_is_refused() -> None:
    (series,) = tasks(2)
    cut = Records(workflow="w", series=(msgspec.structs.replace(series, rows=series.rows[:-1]),))
    with pytest.raises(DefinitionError, match="half a row"):
        Records.decode(cut.encode())


GOOD = EMPTY.with_run("r1", [*tasks(2), *series_of([startup(1.0)])], 1.0).encode()


@given(st.integers(min_value=0, max_value=len(GOOD) - 1))
def test_bytes_that_were_cut_off_are_refused(length: int) -> None:
    with pytest.raises(DefinitionError, match="not the bytes of records"):
        Records.decode(GOOD[:length])


@given(st.integers(min_value=0, max_value=len(GOOD) - 1), st.integers(min_value=0, max_value=255))
def test_a_changed_byte_gives_records_that_can_be_used_or_an_error_of_ours(place: int, value: int) -> None:
    data = bytearray(GOOD)
    data[place] = value
    with suppress(DefinitionError):
        records = Records.decode(bytes(data))
        assert len(all_of(records.series)) == len(records)


@given(st.binary(max_size=100))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DefinitionError):
        Records.decode(data)


def test_bytes_that_nest_without_end_are_refused() -> None:
    with pytest.raises(DefinitionError, match="not the bytes of records"):
        Records.decode(b"\x81\xa1x" + b"\x91" * 100_000)


# ── while a run goes on ────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(min_value=0, max_value=5000), st.integers(min_value=2, max_value=64))
def test_a_spread_is_bounded_and_even(count: int, most: int) -> None:
    spread: Spread[int] = Spread(most)
    taken = [number for number in range(count) if spread.add(number)]
    assert len(spread.items) <= most
    assert set(spread.items) <= set(taken)
    if count > most:
        gaps = {after - before for before, after in pairwise(spread.items)}
        assert len(gaps) == 1
        assert spread.items[0] == 0
        assert count - spread.items[-1] <= 2 * gaps.pop()
        assert len(spread.items) >= most // 2
    else:
        assert spread.items == list(range(count))


def test_what_workers_measured_is_gathered_by_circumstances_and_bounded() -> None:
    gathered = Gathered()
    assert not gathered
    for number in range(1000):
        gathered.add(tasks(1, "f1", first=number))
    gathered.add(tasks(1, "rare"))
    found = {series.of.function: numbers(series) for series in gathered.take()}
    assert len(found["f1"]) <= 2 * RUN_ROWS
    assert found["f1"] == sorted(found["f1"])
    assert len(found["rare"]) == 1
    assert gathered.take() == []


def test_a_run_may_come_in_parts_and_counts_once() -> None:
    records = EMPTY.with_run("r1", tasks(2), 1.0).with_run("r1", tasks(3), 2.0, part=1)
    assert (records.runs, len(records)) == (1, 5)
    assert records.with_run("r1", tasks(3), 2.0, part=1) is records
    assert records.with_run("r2", tasks(1), 3.0).runs == 2
