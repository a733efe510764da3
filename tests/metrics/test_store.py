"""What every store of records promises, whether in memory, in a folder or in Redis."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from augury.errors import StorageError
from augury.metrics.history.store import MOST_SUBJECTS, HistoryStore, Index
from augury.metrics.records import Records
from tests.metrics.building import tasks
from tests.metrics.conftest import OpenStore

ROOT = Path(__file__).parents[2]
ODD_NAMES = ["a/b/../c", "..", ".", "naïve ⚘ 工作流", "x" * 10_000, "a\nb", "a\0b", "{tag}", "-rf", "lock", "index"]


def written(records: Records) -> Callable[[Records | None], Records]:
    return lambda _: records


def with_run(workflow: str, run_id: str, now_s: float = 1.0) -> Callable[[Records | None], Records | None]:
    def change(records: Records | None) -> Records:
        return (Records(workflow=workflow) if records is None else records).with_run(run_id, tasks(1), now_s)

    return change


def test_an_empty_store_holds_nothing(store: HistoryStore) -> None:
    assert store.load(["w"]) == {}
    assert store.load([]) == {}
    assert store.recall(["f:1"]) == {}
    assert store.recall([]) == {}
    assert store.list() == []
    assert store.remove(["w"]) == 0
    assert store.remove([]) == 0


def test_what_was_kept_is_loaded_by_name(open_store: OpenStore) -> None:
    first = Records(workflow="a").with_run("r1", tasks(3), 5.0)
    second = Records(workflow="b", label="B")
    open_store().update("a", written(first))
    open_store().update("b", written(second))
    assert open_store().load(["b", "c", "a"]) == {"a": first, "b": second}


def test_a_change_gets_what_is_there(store: HistoryStore) -> None:
    seen: list[Records | None] = []

    def change(records: Records | None) -> Records:
        seen.append(records)
        return Records(workflow="w", runs=len(seen))

    store.update("w", change)
    store.update("w", change)
    assert seen == [None, Records(workflow="w", runs=1)]


def test_a_change_to_none_changes_nothing_and_teaches_nothing(store: HistoryStore) -> None:
    store.update("w", written(Records(workflow="w", runs=1)))
    store.update("w", lambda _: None, ["f:1"])
    store.update("v", lambda _: None, ["f:2"])
    assert store.load(["w", "v"]) == {"w": Records(workflow="w", runs=1)}
    assert store.recall(["f:1", "f:2"]) == {}


def test_a_change_that_fails_changes_nothing(store: HistoryStore) -> None:
    store.update("w", written(Records(workflow="w", runs=1)))

    def fail(records: Records | None) -> Records | None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.update("w", fail)
    store.update("w", with_run("w", "r2"))
    assert store.load(["w"])["w"].runs == 2


def test_a_change_may_read_from_the_store(store: HistoryStore) -> None:
    store.update("old", written(Records(workflow="old", runs=4)), ["f:1"])

    def change(_: Records | None) -> Records | None:
        source = store.recall(["f:1"])["f:1"]
        return Records(workflow="new", runs=store.load([source])[source].runs)

    store.update("new", change)
    assert store.load(["new"])["new"].runs == 4


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_a_workflow_may_be_called_anything(store: HistoryStore, name: str) -> None:
    store.update(name, written(Records(workflow=name, runs=1)), ["f:1"])
    assert store.load([name])[name].runs == 1
    assert store.recall(["f:1"]) == {"f:1": name}
    assert [entry.workflow for entry in store.list()] == [name]
    assert store.remove([name]) == 1
    assert store.load([name]) == {}


def test_a_name_that_is_no_text_is_refused(store: HistoryStore) -> None:
    with pytest.raises(StorageError, match="not text"):
        store.update("\ud800", written(Records(workflow="\ud800")))
    assert store.load(["\ud800"]) == {}


# ── the index ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_workflow_that_learned_last_is_recalled(open_store: OpenStore) -> None:
    open_store().update("a", written(Records(workflow="a")), ["f:1", "f:2"])
    open_store().update("b", written(Records(workflow="b")), ["f:2", "p:here"])
    assert open_store().recall(["p:here", "f:1", "f:2", "f:3"]) == {"f:1": "a", "f:2": "b", "p:here": "b"}
    open_store().update("a", written(Records(workflow="a")), ["f:2"])
    assert open_store().recall(["f:2"]) == {"f:2": "a"}


def test_an_index_forgets_what_was_learned_longest_ago() -> None:
    index = (
        Index().with_known(["1", "2"], "a", most=3).with_known(["3", "1"], "b", most=3).with_known(["4"], "c", most=3)
    )
    assert index.subjects == {"3": "b", "1": "b", "4": "c"}


def test_an_index_that_says_so_already_is_the_same() -> None:
    index = Index().with_known(["1", "2"], "a")
    assert index.with_known(["2"], "a") is index
    assert index.with_known([], "b") is index


def test_an_index_of_many_subjects_is_bounded() -> None:
    index = Index().with_known([str(number) for number in range(MOST_SUBJECTS + 10)], "a")
    assert len(index.subjects) == MOST_SUBJECTS


def test_an_index_that_is_damaged_starts_anew() -> None:
    good = Index().with_known(["1"], "a").encode()
    assert Index.decode(good).subjects == {"1": "a"}
    assert Index.decode(good[:-3]) == Index()
    assert Index.decode(Index({"1": "a"}, schema=99).encode()) == Index()


# ── lists and removal ──────────────────────────────────────────────────────────────────────────────────────────


def test_lists_show_the_workflow_updated_last_first(store: HistoryStore) -> None:
    for name, updated_s in (("a", 5.0), ("b", 9.0), ("c", 7.0)):
        store.update(name, with_run(name, "r1", updated_s))
    assert [entry.workflow for entry in store.list()] == ["b", "c", "a"]


def test_an_entry_tells_label_runs_time_and_size(store: HistoryStore) -> None:
    records = Records(workflow="w", label="etl").with_run("r1", tasks(10), 5.0)
    store.update("w", written(records))
    (entry,) = store.list()
    assert (entry.workflow, entry.label, entry.runs, entry.updated_s) == ("w", "etl", 1, 5.0)
    assert entry.size_bytes == len(records.encode())


def test_what_is_removed_is_gone_and_may_come_again(store: HistoryStore) -> None:
    for name in ("a", "b", "c"):
        store.update(name, with_run(name, "r1"))
    assert store.remove(["a", "c", "never"]) == 2
    assert [entry.workflow for entry in store.list()] == ["b"]
    store.update("a", with_run("a", "r2"))
    assert store.load(["a"])["a"].runs == 1


def test_the_workflows_not_updated_for_longest_give_way(open_store: OpenStore) -> None:
    store = open_store(most_workflows=3)
    for name in ("a", "b", "c"):
        store.update(name, with_run(name, "r1"))
    store.update("a", with_run("a", "r2"))
    store.update("d", with_run("d", "r1"))
    assert {entry.workflow for entry in store.list()} == {"a", "c", "d"}
    assert set(store.load(["a", "b", "c", "d"])) == {"a", "c", "d"}


def test_a_full_store_loses_nothing_when_what_it_holds_is_updated(open_store: OpenStore) -> None:
    store = open_store(most_workflows=3)
    for name in ("a", "b", "c", "c", "b"):
        store.update(name, with_run(name, "r1"))
    assert {entry.workflow for entry in store.list()} == {"a", "b", "c"}


# ── at the same time ───────────────────────────────────────────────────────────────────────────────────────────


def test_threads_that_add_at_once_lose_no_run(open_store: OpenStore) -> None:
    def add(store: HistoryStore, writer: int) -> None:
        for number in range(10):
            store.update("w", with_run("w", f"{writer}-{number}"), [f"f:{writer}"])

    shared, own = open_store(), open_store()
    threads = [threading.Thread(target=add, args=(own if writer == 0 else shared, writer)) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = open_store().load(["w"])["w"]
    assert (records.runs, len(records)) == (60, 60)
    assert open_store().recall([f"f:{writer}" for writer in range(6)]) == {f"f:{writer}": "w" for writer in range(6)}


WRITER = """
import sys
from augury.metrics.history.history import open_history
from tests.metrics.building import tasks

address, writer = sys.argv[1:]
history = open_history(address)
print(flush=True)
sys.stdin.readline()
for number in range(15):
    history.add("w", f"{writer}-{number}", tasks(1, f"f{writer}"), now_s=1.0)
"""


@pytest.mark.parametrize("open_store", ["folder", "redis"], indirect=True)
def test_processes_that_add_at_once_lose_no_run(open_store: OpenStore) -> None:
    store = open_store()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, store.address, str(writer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        for writer in range(3)
    ]
    for writer in writers:  # all are ready before one begins
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    records = store.load(["w"])["w"]
    assert (records.runs, len(records)) == (45, 45)
    assert set(records.functions) == {"f0", "f1", "f2"}
    assert store.recall(["f:f0", "f:f1", "f:f2"]) == {"f:f0": "w", "f:f1": "w", "f:f2": "w"}
