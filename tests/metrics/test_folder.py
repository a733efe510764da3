"""Records in a folder survive crashes, full disks and other users."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augury.errors import StorageError
from augury.metrics.history.folder import FolderStore, default_folder
from augury.metrics.history.store import document_key
from augury.metrics.records import SCHEMA, Records
from tests.metrics.building import tasks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history"


@pytest.fixture
def store(path: Path) -> FolderStore:
    return FolderStore(path)


def add_run(store: FolderStore, workflow: str = "w", run_id: str = "r1", rows: int = 1) -> None:
    def change(records: Records | None) -> Records:
        return (Records(workflow=workflow) if records is None else records).with_run(run_id, tasks(rows), 1.0)

    store.update(workflow, change, ["f:f1"])


def document(path: Path) -> Path:
    (found,) = path.glob("*.records")
    return found


# ── files ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_reading_makes_no_folder(store: FolderStore, path: Path) -> None:
    store.load(["w"])
    store.recall(["f:f1"])
    store.list()
    store.remove(["w"])
    assert not path.exists()


def test_nobody_else_can_enter_the_folder_or_read_its_files(store: FolderStore, path: Path) -> None:
    add_run(store)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}


def test_a_workflow_is_one_file_whose_name_does_not_tell_its_own(store: FolderStore, path: Path) -> None:
    add_run(store, "../secret")
    add_run(store, "../secret", "r2")
    assert sorted(file.name for file in path.iterdir()) == [document(path).name, "index", "lock"]
    assert "secret" not in document(path).name


def test_the_index_is_written_only_when_it_changes(store: FolderStore, path: Path) -> None:
    add_run(store)
    before = (path / "index").stat().st_ino
    add_run(store, run_id="r2")
    assert (path / "index").stat().st_ino == before
    add_run(store, "other")
    assert (path / "index").stat().st_ino != before


def test_a_file_that_was_opened_before_an_update_stays_whole(store: FolderStore, path: Path) -> None:
    add_run(store)
    with document(path).open("rb") as opened:
        add_run(store, run_id="r2", rows=50)
        assert Records.decode(opened.read()).runs == 1


# ── damage ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\xc1garbage",
        Records(workflow="w", schema=SCHEMA + 1).encode(),
        Records(workflow="another").encode(),
    ],
    ids=["empty", "garbage", "version", "misplaced"],
)
def test_records_that_cannot_be_read_count_as_absent_and_are_replaced(
    store: FolderStore, path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    add_run(store)
    document(path).write_bytes(damage)
    assert store.load(["w"]) == {}
    assert store.load(["w"]) == {}
    assert len(caplog.records) == 1
    assert "'w'" in caplog.text
    assert store.list() == []
    add_run(store, run_id="r2")
    assert store.load(["w"])["w"].recent == ("r2",)


def test_a_file_that_may_not_be_read_counts_as_absent(store: FolderStore, path: Path) -> None:
    add_run(store, "readable")
    broken = path / f"{document_key('w')}.records"
    broken.symlink_to("elsewhere")
    assert set(store.load(["w", "readable"])) == {"readable"}


def test_an_index_that_is_damaged_is_written_anew(store: FolderStore, path: Path) -> None:
    add_run(store)
    (path / "index").write_bytes(b"\xc1")
    assert store.recall(["f:f1"]) == {}
    add_run(store, run_id="r2")
    assert store.recall(["f:f1"]) == {"f:f1": "w"}


CRASHING_WRITER = """
import os, sys
from augury.metrics.history.folder import FolderStore
from augury.metrics.records import Records

os.replace = lambda *names, **folders: os._exit(9)
FolderStore(sys.argv[1]).update("w", lambda records: Records(workflow="w", runs=100))
"""


def test_a_writer_that_dies_before_its_file_is_in_place_changes_nothing_and_is_swept(
    store: FolderStore, path: Path
) -> None:
    add_run(store)
    assert subprocess.run([sys.executable, "-c", CRASHING_WRITER, str(path)], check=False).returncode == 9
    assert len(list(path.glob("*.new"))) == 1
    assert store.load(["w"])["w"].runs == 1
    assert [entry.workflow for entry in store.list()] == ["w"]
    add_run(store, run_id="r2")
    assert store.load(["w"])["w"].runs == 2
    assert list(path.glob("*.new")) == []


# ── bounds ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_folder_takes_about_as_much_room_as_it_may(path: Path) -> None:
    size_bytes = len(Records(workflow="w0").with_run("r1", tasks(50), 1.0).encode())
    store = FolderStore(path, most_bytes=3 * size_bytes)
    for number in range(6):
        add_run(store, f"w{number}", rows=50)
    assert {entry.workflow for entry in store.list()} == {"w3", "w4", "w5"}


def test_a_workflow_that_alone_is_too_large_is_kept(path: Path) -> None:
    store = FolderStore(path, most_bytes=1)
    add_run(store, "a")
    add_run(store, "b")
    assert [entry.workflow for entry in store.list()] == ["b"]


def test_after_the_clock_was_set_back_the_newest_workflow_does_not_give_way(path: Path) -> None:
    store = FolderStore(path, most_workflows=2)
    for name in ("a", "b"):
        add_run(store, name)
    for file in path.glob("*.records"):
        os.utime(file, (4e9, 4e9))
    add_run(store, "c")
    assert "c" in {entry.workflow for entry in store.list()}
    assert len(store.list()) == 2


# ── others ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_writer_that_never_lets_go_of_the_lock_does_not_stop_others_for_ever(store: FolderStore, path: Path) -> None:
    add_run(store)
    with (path / "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match=r"held its lock for 0\.01 s"):
            add_run(FolderStore(path, patience_s=0.01), run_id="r2")
        assert store.load(["w"])["w"].runs == 1


def test_the_lock_is_free_after_an_update_also_if_a_child_was_forked_meanwhile(store: FolderStore, path: Path) -> None:
    inherited: list[int] = []

    def change(_: Records | None) -> Records:
        # What a fork would do: the child has every descriptor that is open now, also that of the lock.
        inherited.extend(os.dup(int(name)) for name in os.listdir("/proc/self/fd") if _is_lock(int(name), path))
        return Records(workflow="w")

    store.update("w", change)
    assert inherited
    add_run(FolderStore(path, patience_s=0.0))
    for descriptor in inherited:
        os.close(descriptor)


def _is_lock(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), (path / "lock").stat())
    except OSError:
        return False


def test_a_folder_of_another_user_is_refused(store: FolderStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_run(store)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StorageError, match=r"belongs to another user: choose one with AUGURY_STATE_DIR"):
        store.load(["w"])
    with pytest.raises(StorageError, match="belongs to another user"):
        add_run(store)


def test_a_link_of_this_user_is_followed(store: FolderStore, path: Path, tmp_path: Path) -> None:
    add_run(store)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert FolderStore(link).load(["w"])["w"].runs == 1


def test_a_link_of_another_user_is_refused(
    store: FolderStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(store)
    link = tmp_path / "link"
    link.symlink_to(path)
    planted = list(link.lstat())
    planted[stat.ST_UID] = os.getuid() + 1
    monkeypatch.setattr(os, "lstat", lambda _: os.stat_result(planted))  # only who owns it differs
    with pytest.raises(StorageError, match="a link that another user made"):
        FolderStore(link).load(["w"])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, r"the disk is full; free some room, or choose another folder with AUGURY_STATE_DIR"),
        (errno.EROFS, r"Read-only file system; choose a folder that you may write to"),
        (errno.EIO, r"Input/output error"),
    ],
)
def test_a_disk_that_takes_nothing_is_told_and_leaves_nothing(
    store: FolderStore, path: Path, number: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(store)

    def fail(*names: Any, **folders: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match=text):
        add_run(store, run_id="r2")
    assert list(path.glob("*.new")) == []
    assert store.load(["w"])["w"].runs == 1


def test_a_file_system_that_knows_no_locks_is_told(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(StorageError, match="No locks available"):
        add_run(store)


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = FolderStore(tmp_path / "file")
    with pytest.raises(StorageError, match="it is not a folder"):
        store.load(["w"])
    with pytest.raises(StorageError, match="it is not a folder"):
        add_run(store)


# ── where ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AUGURY_STATE_DIR": "/a", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/a/history"),
        ({"AUGURY_STATE_DIR": "", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/augury/history"),
        ({"AUGURY_STATE_DIR": "", "XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/augury/history"),
        ({"AUGURY_STATE_DIR": "", "XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/augury/history"),
        ({"AUGURY_STATE_DIR": "~/a", "XDG_STATE_HOME": "", "HOME": "/h"}, "/h/a/history"),
    ],
)
def test_the_default_folder_is_where_the_user_says(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_folder() == Path(expected)


# ── things in the way ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_in_the_place_of_a_document_is_passed_over(
    store: FolderStore, path: Path, make: Callable[[Path], None]
) -> None:
    add_run(store, "other")
    make(path / f"{document_key('w')}.records")
    assert set(store.load(["w", "other"])) == {"other"}
    assert [entry.workflow for entry in store.list()] == ["other"]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_in_the_place_of_the_index_costs_the_index_only(
    store: FolderStore, path: Path, make: Callable[[Path], None]
) -> None:
    path.mkdir(parents=True)
    make(path / "index")
    add_run(store)
    assert store.load(["w"])["w"].runs == 1


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "~nobody-of-that-name/x"])
def test_a_path_that_cannot_be_is_a_clear_error(path: str) -> None:
    with pytest.raises(StorageError, match="records"):
        FolderStore(path).load(["w"])


def test_a_home_that_nobody_has_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_STATE_DIR", "~nobody-of-that-name/x")
    with pytest.raises(StorageError, match="no folder to keep records in"):
        default_folder()


def test_the_folder_above_is_private_too(tmp_path: Path) -> None:
    add_run(FolderStore(tmp_path / "state" / "history"))
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "history"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(StorageError, match="others may write to the folder"):
        FolderStore(folder).load(["w"])
