"""What is known from earlier runs: of a workflow itself, and of its functions elsewhere."""

import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from augury.errors import DefinitionError, StorageError
from augury.metrics.history.folder import FolderStore
from augury.metrics.history.history import MOST_SOURCES, History, open_history
from augury.metrics.history.memory import MemoryStore
from augury.metrics.history.store import HistoryStore
from augury.metrics.history.table import overview, summary_table
from augury.metrics.records import Records, series_of
from augury.wording import duration
from tests.metrics.building import numbers, startup, task_run, tasks


class WatchedStore(MemoryStore):
    """Remembers what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, int]] = []

    def load(self, workflows: Sequence[str]) -> dict[str, Records]:
        self.asked.append(("load", len(workflows)))
        return super().load(workflows)

    def recall(self, subjects: Sequence[str]) -> dict[str, str]:
        self.asked.append(("recall", len(subjects)))
        return super().recall(subjects)


@pytest.fixture
def watched() -> WatchedStore:
    return WatchedStore()


@pytest.fixture
def history(watched: WatchedStore) -> History:
    return History(watched)


def samples(records: Records) -> dict[str, int]:
    """How many measurements there are of each function, and of start-ups."""
    return {series.of.function or series.of.kind.value: len(series) for series in records.series}


# ── loading ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_known_of_a_new_workflow(history: History) -> None:
    assert history.load("w", ["f1"], "here") == Records(workflow="w")


def test_a_run_that_was_added_is_known(store: HistoryStore) -> None:
    history = History(store)
    history.add("w", "r1", tasks(2), label="etl", now_s=5.0)
    records = history.load("w")
    assert (records.runs, records.label, records.updated_s, samples(records)) == (1, "etl", 5.0, {"f1": 2})


def test_what_a_workflow_knows_itself_is_one_look(history: History, watched: WatchedStore) -> None:
    history.add("w", "r1", [*tasks(2), *series_of([startup(1.0)])])
    watched.asked.clear()
    history.load("w", ["f1"], "here")
    assert watched.asked == [("load", 1)]


def test_what_it_does_not_know_is_two_looks_more(history: History, watched: WatchedStore) -> None:
    history.add("a", "r1", tasks(2, "f1"))
    history.add("b", "r1", tasks(3, "f2"))
    watched.asked.clear()
    assert samples(history.load("w", ["f1", "f2", "f3", "f1"], "here")) == {"f1": 2, "f2": 3}
    assert watched.asked == [("load", 1), ("recall", 4), ("load", 2)]


def test_a_function_that_others_know_is_looked_up_there_and_only_it(store: HistoryStore) -> None:
    history = History(store)
    history.add("other", "r1", [*tasks(2, "f1"), *tasks(3, "f2"), *series_of([startup(1.0)])])
    history.add("w", "r1", tasks(1, "f9"))
    assert samples(history.load("w", ["f9", "f2"])) == {"f2": 3, "f9": 1}


def test_start_ups_of_a_platform_are_looked_up_in_other_workflows(store: HistoryStore) -> None:
    history = History(store)
    history.add("other", "r1", [*tasks(2, "f1"), *series_of([startup(1.0, "here"), startup(1.0, "there")])])
    assert history.load("w", [], "there").platforms == {"there"}
    assert history.load("w", [], "nowhere").platforms == frozenset()
    assert history.load("w").platforms == frozenset()


def test_loading_changes_nothing(history: History) -> None:
    history.add("other", "r1", tasks(2))
    history.load("w", ["f1"])
    assert [entry.workflow for entry in history.workflows()] == ["other"]


def test_at_most_so_many_others_are_asked_those_that_know_most_and_the_platform_first(
    history: History, watched: WatchedStore
) -> None:
    history.add("platform", "r1", series_of([startup(1.0)]))
    for number in range(MOST_SOURCES + 4):
        history.add(f"w{number}", "r1", tasks(1, f"single{number}"))
    history.add("rich", "r1", [*tasks(1, "a"), *tasks(1, "b")])
    watched.asked.clear()
    wanted = [*(f"single{number}" for number in range(MOST_SOURCES + 4)), "a", "b"]
    found = history.load("w", wanted, "here")
    assert watched.asked[-1] == ("load", MOST_SOURCES)
    assert {"a", "b"} <= set(found.functions)
    assert found.platforms == {"here"}


def test_an_index_that_names_a_workflow_that_is_gone_is_no_harm(store: HistoryStore) -> None:
    history = History(store)
    history.add("gone", "r1", tasks(2))
    history.forget("gone")
    assert samples(history.load("w", ["f1"])) == {}
    history.add("w", "r1", tasks(1))
    assert samples(history.load("v", ["f1"])) == {"f1": 1}


def test_an_index_that_names_the_workflow_itself_is_no_harm(history: History, watched: WatchedStore) -> None:
    watched.update("w", lambda _: Records(workflow="w"), ["f:f1"])
    assert samples(history.load("w", ["f1"])) == {}
    assert watched.asked == [("load", 1), ("recall", 1)]


# ── adding ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_is_added_twice_counts_once(store: HistoryStore) -> None:
    history = History(store)
    for _ in range(2):
        history.add("w", "r1", tasks(2))
    assert (history.load("w").runs, len(history.load("w"))) == (1, 2)


def test_a_new_workflow_starts_with_what_others_know_of_its_functions_and_platform(store: HistoryStore) -> None:
    history = History(store)
    history.add("old", "r1", [*tasks(5, "f1"), *tasks(5, "f2"), *series_of([startup(1.0)])])
    history.add("new", "r2", [*tasks(1, "f1"), *series_of([startup(2.0)])])
    assert samples(history.load("new")) == {"f1": 6, "cold": 2}
    assert history.load("new").runs == 1


def test_a_workflow_whose_structure_changes_with_each_run_keeps_what_its_functions_know(store: HistoryStore) -> None:
    history = History(store)
    for number in range(10):
        history.add(f"fingerprint{number}", f"r{number}", tasks(2, first=2 * number), now_s=float(number))
    (series,) = history.load("fingerprint9").series
    assert numbers(series) == [float(number) for number in range(20)]


def test_a_workflow_that_gets_a_function_of_another_learns_what_that_knew(history: History) -> None:
    history.add("w", "r1", tasks(1, "f1"))
    history.add("other", "r1", tasks(5, "f2"))
    history.add("w", "r2", tasks(1, "f2"))
    assert samples(history.load("w")) == {"f1": 1, "f2": 6}


def test_a_workflow_that_knows_its_functions_gets_nothing_twice(history: History) -> None:
    history.add("a", "r1", tasks(2))
    history.add("b", "r2", tasks(2))
    history.add("a", "r3", tasks(2))
    history.add("b", "r4", tasks(2))
    assert samples(history.load("a")) == {"f1": 4}
    assert samples(history.load("b")) == {"f1": 6}


def test_a_clock_that_was_set_back_does_not_make_a_workflow_older(history: History) -> None:
    history.add("w", "r1", tasks(1), now_s=10.0)
    history.add("w", "r2", tasks(1), now_s=5.0)
    assert history.workflows()[0].updated_s == 10.0


def test_a_label_stays_until_another_is_given(history: History) -> None:
    history.add("w", "r1", [])
    assert history.load("w").label == "w"
    history.add("w", "r2", [], label="etl")
    history.add("w", "r3", [])
    assert history.load("w").label == "etl"


def test_damaged_measurements_are_refused_and_spoil_nothing(history: History) -> None:
    history.add("w", "r1", tasks(1))
    half = [msgspec.structs.replace(series, rows=series.rows[:-1]) for series in tasks(1)]
    with pytest.raises(DefinitionError, match="run r2 measured half a row of task"):
        history.add("w", "r2", half)
    assert history.load("w").runs == 1


# ── forgetting ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_forgetting_tells_whether_there_was_something(history: History) -> None:
    history.add("w", "r1", tasks(1))
    assert history.forget("w")
    assert not history.forget("w")


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ({"keep": 2}, ["c", "b"]),
        ({"keep": 0}, []),
        ({"keep": 9}, ["c", "b", "a"]),
        ({"older_than_s": 15.0}, ["c"]),
        ({"older_than_s": 25}, ["c", "b"]),
        ({"older_than_s": 0}, []),
        ({"older_than_s": 25, "keep": 1}, ["c"]),
    ],
)
def test_pruning_keeps_what_ran_last(history: History, how: dict[str, Any], left: list[str]) -> None:
    for name, now_s in (("a", 70.0), ("b", 80.0), ("c", 90.0)):
        history.add(name, "r1", tasks(1), now_s=now_s)
    assert history.prune(**how, now_s=100.0) == 3 - len(left)
    assert [entry.workflow for entry in history.workflows()] == left


@pytest.mark.parametrize("how", [{}, {"keep": -1}, {"keep": 1.5}, {"older_than_s": -1}, {"older_than_s": math.nan}])
def test_pruning_without_saying_what_is_refused(history: History, how: dict[str, Any]) -> None:
    history.add("a", "r1", tasks(1))
    with pytest.raises(DefinitionError, match="prune"):
        history.prune(**how)
    assert len(history.workflows()) == 1


# ── opening ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_opened_by_its_path(tmp_path: Path) -> None:
    with open_history(tmp_path / "a") as history:
        history.add("w", "r1", tasks(1))
    assert open_history(str(tmp_path / "a")).load("w").runs == 1


def test_by_default_the_folder_of_the_user_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path))
    assert open_history(None).address == str(tmp_path / "history")


@pytest.mark.parametrize("where", ["", 5, "s3://bucket/history", "http://me:s3cret@host/"])
def test_what_is_no_place_is_refused_without_showing_passwords(where: Any) -> None:
    with pytest.raises(DefinitionError, match="history must be a folder") as caught:
        open_history(where)
    assert "s3cret" not in str(caught.value)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(StorageError, match="is not an address of Redis"):
        open_history("redis://host:port/0")


def test_importing_loads_neither_numpy_nor_redis() -> None:
    code = "import sys, augury.metrics.history.history as h; h.open_history('x'); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert {"numpy", "redis", "rich"}.isdisjoint(ran.stdout.split())


# ── showing ────────────────────────────────────────────────────────────────────────────────────────────────────


class FunctionRow(msgspec.Struct):
    name: str
    version: str
    samples: int
    median_s: float
    spread_s: float
    model: str
    error_percent: float


def test_a_table_aligns_what_is_known_of_functions() -> None:
    rows = [
        FunctionRow("extract", "5c1e", 1200, 1.25, 0.5, "2 s·size", 8.1),
        FunctionRow("f", "77aa", 1, 0.00025, math.nan, "", math.nan),
    ]
    assert summary_table(Records(workflow="w", label="etl", runs=3, updated_s=0.0), rows).splitlines() == [
        "etl (w): 3 runs, last 1970-01-01 00:00 UTC",
        "  function  samples  median  spread  error  model",
        "  extract     1,200  1.25 s  500 ms     8%  2 s·size",
        "  f               1  250 µs       -      -  -",
    ]


def test_two_versions_of_a_function_are_told_apart() -> None:
    rows = [FunctionRow("f", f"{version}{'0' * 24}", 1, 1.0, 0.0, "", 0.0) for version in ("12345678", "87654321")]
    shown = summary_table(Records(workflow="w"), rows)
    assert "f 12345678  " in shown
    assert "f 87654321  " in shown


def test_a_workflow_of_which_no_task_was_measured_has_no_table() -> None:
    assert summary_table(Records(workflow="w", runs=1), []) == "w: 1 run, last 1970-01-01 00:00 UTC, no task measured"


def test_the_table_of_a_history_shows_every_workflow(history: History) -> None:
    for workflow in ("first", "second"):
        history.add(workflow, "r1", series_of([task_run(float(number)) for number in range(1, 9)]), now_s=1.0)
    shown = history.table()
    assert "first: 1 run" in shown
    assert "second: 1 run" in shown
    assert "name of f1" in history.table("first")
    assert "second" not in history.table("first")


def test_an_empty_history_says_so(history: History) -> None:
    assert history.table() == "no records in memory"
    assert str(history) == "0 workflows in memory (0 B)"


def test_an_overview_names_the_workflows_that_ran_last(history: History) -> None:
    for number in range(12):
        history.add(f"w{number}", "r1", tasks(1), now_s=60.0 * number)
    shown = overview("memory", history.workflows()).splitlines()
    assert shown[0].startswith("12 workflows in memory")
    assert shown[2] == "  w11          1  1970-01-01 00:11 UTC"
    assert shown[-1] == "  and 2 more"


def test_a_history_that_cannot_be_read_is_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = History(FolderStore(tmp_path / "file"))
    assert repr(history) == f"History('{tmp_path}/file')"
    assert "it is not a folder" in str(history)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.0009999, "1,000 µs"),
        (0.9999, "1,000 ms"),
        (12.34, "12.3 s"),
        (119.0, "119 s"),
        (600.0, "10.0 min"),
        (9000.0, "2.50 h"),
        (math.inf, "-"),
        (math.nan, "-"),
    ],
)
def test_times_have_about_three_digits_and_a_unit_that_fits(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_time_that_no_calendar_has_is_left_out() -> None:
    assert "last -" in summary_table(Records(workflow="w", updated_s=1e300), [])


def test_a_workflow_with_a_name_of_its_own_keeps_to_what_it_measured(history: History) -> None:
    history.add("first", "run-1", tasks(2))
    history.add("second", "run-2", tasks(1), inherit=False)
    assert len(history.load("second")) == 1
    assert len(history.load("third", functions=["f1"])) == 1  # what is asked for is still found


# ── by label ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_workflow_may_be_called_by_its_label(history: History) -> None:
    history.add("5c1e", "run-1", tasks(1), label="nightly")
    assert history.table("nightly") == history.table("5c1e")
    assert history.forget("nightly")
    assert not history.forget("nightly")


def test_a_label_that_several_workflows_have_is_refused(history: History) -> None:
    history.add("5c1e", "run-1", tasks(1), label="nightly")
    history.add("77ab", "run-2", tasks(1), label="nightly")
    with pytest.raises(DefinitionError, match="2 workflows are labelled 'nightly'; give the fingerprint of one: "):
        history.table("nightly")


@pytest.mark.parametrize("name", [None, 5, b"w"])
def test_a_name_that_is_none_is_refused(history: History, name: Any) -> None:
    with pytest.raises(DefinitionError, match="named by a str"):
        history.forget(name)


def test_names_do_not_move_the_cursor(history: History) -> None:
    history.add("a\nb\x1b[2J", "run-1", tasks(1))
    assert "a\\nb\\x1b[2J" in str(history)
    assert "\x1b" not in history.table()
