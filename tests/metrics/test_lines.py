"""Lines of JSON give back what they were made of, and adding them twice adds nothing."""

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.errors import DefinitionError, StorageError
from augury.metrics.history.history import History
from augury.metrics.history.lines import added, lines_of, merged, parse_lines
from augury.metrics.history.memory import MemoryStore
from augury.metrics.records import SERIES_ROWS, Record, Records, series_of
from tests.metrics.building import excess, numbers, startup, task_run, tasks, transfer

EVERYTHING = Records(workflow="etl", label="nightly").with_run(
    "r1",
    series_of([task_run(1.5), startup(2.0), transfer(3.0), task_run(4.0, "f2"), task_run(1.5), excess(2.5)]),
    1_700_000_000.25,
)

NUMBERS = st.one_of(st.just(math.nan), st.floats(min_value=0, max_value=1e18))
MIXED: st.SearchStrategy[list[Record]] = st.lists(
    st.one_of(
        st.builds(task_run, NUMBERS, st.sampled_from(["f1", "f2"])),
        st.builds(startup, NUMBERS),
        st.builds(transfer, NUMBERS),
    ),
    max_size=30,
)


def filled(*workflows: Records) -> History:
    store = MemoryStore()
    for records in workflows:
        store.update(records.workflow, lambda _, records=records: records)  # type: ignore[misc]
    return History(store)


def exported(history: History, workflow: str | None = None) -> str:
    file = io.StringIO()
    history.export(file, workflow)
    return file.getvalue()


# ── what lines look like ───────────────────────────────────────────────────────────────────────────────────────


def test_a_workflow_begins_with_a_line_of_its_own() -> None:
    assert json.loads(next(lines_of(EVERYTHING))) == {
        "record": "workflow",
        "workflow": "etl",
        "label": "nightly",
        "runs": 1,
        "updated_s": 1_700_000_000.25,
        "schema": 1,
    }


def test_a_record_is_a_line_with_its_fields_and_null_for_what_is_not_known() -> None:
    line = json.loads(list(lines_of(EVERYTHING))[1])
    assert (line["record"], line["function"], line["name"]) == ("task", "f1", "name of f1")
    assert line["resources"] == {"cpus": 1.0, "memory_mb": 512}
    assert (line["execution_s"], line["queue_s"]) == (1.5, None)


def test_export_tells_how_many_records_it_wrote(tmp_path: Path) -> None:
    history = filled(EVERYTHING, Records(workflow="other", updated_s=1.0))
    assert history.export(tmp_path / "lines") == 6
    assert len((tmp_path / "lines").read_text().splitlines()) == 2 + 6


def test_one_workflow_may_be_exported_alone() -> None:
    history = filled(EVERYTHING, Records(workflow="other").with_run("r1", tasks(3), 1.0))
    assert exported(history, "other").count("\n") == 1 + 3
    with pytest.raises(DefinitionError, match="no workflow 'unknown' in memory; there is nightly, other"):
        exported(history, "unknown")


# ── back again ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(MIXED, st.text(max_size=5))
def test_lines_come_back_as_they_were(records: list[Record], label: str) -> None:
    history = filled(
        Records(workflow="w", label=label).with_run("r1", series_of(records), 7.5),
        Records(workflow="empty", runs=3, updated_s=1.0),
    )
    lines = exported(history)
    empty = filled()
    assert empty.import_lines(io.StringIO(lines)) == len(history.load("w"))
    assert exported(empty) == lines


@given(MIXED, MIXED)
def test_importing_twice_adds_nothing_the_second_time(here: list[Record], there: list[Record]) -> None:
    history = filled(Records(workflow="w").with_run("r1", series_of(here), 1.0))
    lines = exported(filled(Records(workflow="w").with_run("r2", series_of(there), 2.0)))
    history.import_lines(io.StringIO(lines))
    once = exported(history)
    assert history.import_lines(io.StringIO(lines)) == 0
    assert exported(history) == once


def test_lines_that_are_in_a_file_twice_count_once() -> None:
    lines = exported(filled(EVERYTHING))
    history = filled()
    assert history.import_lines(io.StringIO(lines + lines)) == 6
    assert exported(history) == lines


def test_two_measurements_that_are_equal_stay_two() -> None:
    history = filled(Records(workflow="w").with_series(series_of([task_run(1.0)])))
    lines = exported(filled(Records(workflow="w").with_series(series_of([task_run(1.0), task_run(1.0)]))))
    assert history.import_lines(io.StringIO(lines)) == 1
    assert len(history.load("w")) == 2


def test_null_and_what_is_left_out_are_not_known() -> None:
    header = '{"record":"workflow","workflow":"w","schema":1}\n'
    line = '{"record":"startup","state":"warm","resources":{"memory_mb":512},"duration_s":null}\n'
    (records,) = parse_lines([header, "\n", line], "lines")
    (record,) = records.series[0].records()
    assert math.isnan(record.ended_s)


# ── together with what is there ────────────────────────────────────────────────────────────────────────────────


def test_rows_are_merged_in_the_order_of_time() -> None:
    here = Records(workflow="w").with_series(series_of([task_run(2.0), task_run(5.0)]))
    there = Records(workflow="w").with_series(series_of([task_run(1.0), task_run(3.0), task_run(9.0)]))
    assert numbers(merged(here, there).series[0]) == [1.0, 2.0, 3.0, 5.0, 9.0]


def test_rows_without_a_time_stay_behind_those_they_followed() -> None:
    here = Records(workflow="w").with_series(series_of([task_run(2.0), task_run(5.0)]))
    there = Records(workflow="w").with_series(series_of([task_run(3.0), task_run(math.nan), task_run(1.0)]))
    assert str(numbers(merged(here, there).series[0])) == "[2.0, 3.0, nan, 1.0, 5.0]"


def test_old_rows_do_not_push_newer_ones_out() -> None:
    here = Records(workflow="w").with_series(tasks(SERIES_ROWS, first=1000))
    there = Records(workflow="w").with_series(tasks(10))
    assert merged(here, there) is here


def test_counts_and_times_are_the_larger_ones() -> None:
    here = Records(workflow="w", label="here", runs=5, updated_s=3.0)
    together = merged(here, Records(workflow="w", label="there", runs=2, updated_s=9.0))
    assert (together.label, together.runs, together.updated_s) == ("here", 5, 9.0)


def test_only_what_was_not_there_is_counted() -> None:
    here = Records(workflow="w").with_series(tasks(SERIES_ROWS))
    together = merged(here, Records(workflow="w").with_series(tasks(4, first=SERIES_ROWS - 2)))
    assert added(here, together) == 2


def test_what_an_import_taught_is_found_by_others_unless_somebody_knows_it_better() -> None:
    history = filled()
    history.add("local", "r1", tasks(1, "f1"), now_s=1.0)
    history.import_lines(io.StringIO(exported(filled(EVERYTHING))))
    found = history.load("new", ["f1", "f2"])
    assert {series.of.function: len(series) for series in found.series} == {"f1": 1, "f2": 1}


# ── what is wrong ──────────────────────────────────────────────────────────────────────────────────────────────

HEADER = '{"record":"workflow","workflow":"w","label":"","runs":0,"updated_s":0.0,"schema":1}'
TASK = '{"record":"task","function":"f","name":"n","resources":{"cpus":1.0,"memory_mb":1},"execution_s":%s}'


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([HEADER, "{"], "line 2: .*truncated"),
        ([HEADER, "[1]"], "line 2: this is no record"),
        ([TASK % 1], r"line 1: no line \{\"record\":\"workflow\",…\} stands before"),
        ([HEADER, TASK % 1, TASK % '"x"'], "line 3: Expected `float`, got `str`"),
        ([HEADER, TASK % "1e999"], "line 2: .*out of range"),
        ([HEADER, '{"record":"poem"}'], "line 2: Invalid value 'poem'"),
        ([HEADER, '{"execution_s":1}'], "line 2: .*missing required field `record`"),
        ([HEADER, '{"record":"task","resources":{}}'], "line 2: .*missing required field `function`"),
        ([HEADER, "", (TASK % 1).replace('"memory_mb":1', '"memory_mb":0')], "line 3: Resources.memory_mb must be"),
        ([HEADER.replace('"schema":1', '"schema":2')], "line 1: these records are of version 2; .* reads version 1"),
        ([HEADER.replace(',"schema":1', "")], "line 1: these records are of version None"),
        ([HEADER.replace('"runs":0', '"runs":-1')], "line 1: Expected `int` >= 0"),
        ([HEADER.replace('"runs":0', f'"runs":{10**30}')], "line 1: "),
        ([HEADER.replace('"updated_s":0.0', '"updated_s":1e300')], "line 1: Expected `float` <= "),
        ([HEADER, TASK % "-1.5"], "line 2: execution_s cannot be -1.5"),
        ([HEADER, TASK % "1e300"], "line 2: execution_s cannot be 1e.300"),
        ([HEADER, "[" * 100_000], "line 2: "),
        ([HEADER, b"\xff\xfe"], "line 2: "),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_imported(lines: list[Any], text: str, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    history = filled()
    with pytest.raises(DefinitionError, match=rf"lines\.jsonl, {text}"):
        history.import_lines(path)
    assert history.workflows() == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"lines\.jsonl.*No such file"):
        filled().import_lines(tmp_path / "lines.jsonl")
    with pytest.raises(StorageError, match=r"none/lines\.jsonl.*No such file"):
        filled().export(tmp_path / "none" / "lines.jsonl")


@pytest.mark.parametrize("target", [None, 5, b"bytes"])
def test_what_is_no_file_is_refused(target: Any) -> None:
    with pytest.raises(DefinitionError, match="a path or an open file"):
        filled().export(target)
    with pytest.raises(DefinitionError, match="a path or an open file"):
        filled().import_lines(target)


def test_an_export_that_fails_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.jsonl"
    history = filled(EVERYTHING)
    history.export(path)
    before = path.read_text()

    def refuse(*_: Any) -> Any:
        raise StorageError("gone")

    monkeypatch.setattr(MemoryStore, "load", refuse)
    with pytest.raises(StorageError, match="gone"):
        history.export(path)
    assert path.read_text() == before
    assert [file.name for file in tmp_path.iterdir()] == ["lines.jsonl"]
