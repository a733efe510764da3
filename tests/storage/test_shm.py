"""What shared memory does beyond the protocol: files, rights, limits and errors."""

import errno
import mmap
import os
import resource
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from augury.errors import StorageError
from augury.serde import Blob
from augury.storage import mapping
from augury.storage.shm import SharedMemoryObjects

BIG = bytes(1024**2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def objects(folder: Path) -> SharedMemoryObjects:
    objects = SharedMemoryObjects(folder, "run")
    objects.create()
    return objects


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_only_the_owner_can_read(objects: SharedMemoryObjects, folder: Path) -> None:
    objects.put("o1", Blob([b"secret"]))
    assert (folder / "run").stat().st_mode & 0o777 == 0o700
    assert (folder / "run" / "o1").stat().st_mode & 0o777 == 0o600


def test_a_value_is_one_file(objects: SharedMemoryObjects, folder: Path) -> None:
    objects.put("o1", Blob([b"one"]))
    objects.put("o1", Blob([b"two"]))
    assert files(folder) == ["run", "run/o1"]


def test_nothing_is_stored_before_there_is_room(folder: Path) -> None:
    with pytest.raises(StorageError, match="run other is gone"):
        SharedMemoryObjects(folder, "other").put("o1", Blob([b"early"]))
    assert not folder.exists()


def test_removal_leaves_no_file_and_a_late_value_none_either(objects: SharedMemoryObjects, folder: Path) -> None:
    objects.put("o1", Blob([b"one"]))
    objects.remove()
    with pytest.raises(StorageError):
        objects.put("o2", Blob([b"late"]))
    assert files(folder) == []


def test_a_value_that_is_being_written_during_removal_is_refused(
    objects: SharedMemoryObjects, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.writev

    def remove_meanwhile(file: int, parts: Sequence[memoryview]) -> int:
        objects.remove()
        return write(file, parts)

    monkeypatch.setattr(os, "writev", remove_meanwhile)
    with pytest.raises(StorageError, match="gone"):
        objects.put("o1", Blob([b"late"]))
    assert files(folder) == []


def test_removal_closes_the_door_before_it_clears_the_room(
    objects: SharedMemoryObjects, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear = shutil.rmtree

    def store_meanwhile(path: Path) -> None:
        with pytest.raises(StorageError, match="gone"):
            objects.put("o1", Blob([b"late"]))
        clear(path)

    monkeypatch.setattr(shutil, "rmtree", store_meanwhile)
    objects.remove()
    assert files(folder) == []


def test_all_is_written_even_if_the_system_takes_a_little_at_a_time(
    objects: SharedMemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.writev

    def take_a_little(file: int, parts: Sequence[memoryview]) -> int:
        # Never all that was offered, and across the border of two parts.
        return write(file, [parts[0], parts[1][:3]] if len(parts) > 1 else [parts[0][:5]])

    monkeypatch.setattr(os, "writev", take_a_little)
    parts = [b"abcdefg", b"", b"hijklmnop", b"q", b"rstuvwxyz" * 3]
    objects.put("o1", Blob([*parts]))
    assert objects.get(["o1"])["o1"] == b"".join(parts)


def test_large_values_are_mapped_and_small_ones_read(objects: SharedMemoryObjects) -> None:
    objects.put("small", Blob([b"x"]))
    objects.put("big", Blob([BIG]))
    found = objects.get(["small", "big"])
    assert isinstance(found["small"], bytes)
    assert isinstance(found["big"], memoryview)
    found["big"][0] ^= 255
    assert objects.get(["big"])["big"] == BIG, "what a reader writes is its own"


def test_who_stores_a_large_value_may_go_on_with_what_is_stored(objects: SharedMemoryObjects) -> None:
    assert objects.put("small", Blob([b"x"])) is None
    stored = objects.put("big", Blob([b"abc", BIG]))
    assert isinstance(stored, memoryview)
    assert stored.readonly
    objects.delete(["big"])
    assert stored == b"abc" + BIG


def test_who_stores_a_value_again_does_not_get_the_first_one(objects: SharedMemoryObjects, folder: Path) -> None:
    objects.put("big", Blob([BIG]))
    assert objects.put("big", Blob([BIG])) is None
    assert files(folder) == ["run", "run/big"]


def test_a_value_that_cannot_be_mapped_is_stored_all_the_same(
    objects: SharedMemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", refuse)
        assert objects.put("big", Blob([BIG])) is None
    assert objects.get(["big"])["big"] == BIG


def test_a_mapping_ends_with_its_last_reader(objects: SharedMemoryObjects) -> None:
    objects.put("big", Blob([BIG]))
    before = len(os.listdir("/proc/self/fd"))
    found = objects.get(["big"])
    view = memoryview(found["big"])[10:]
    assert view[0] == 0
    del found, view
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_more_is_mapped_than_half_of_what_may_be_open(
    objects: SharedMemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(mapping._mapped)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 * before + 4, 2 * before + 4))
    for number in range(3):
        objects.put(f"o{number}", Blob([BIG]))
    found = objects.get(["o0", "o1", "o2"])
    assert [type(value) for value in found.values()] == [memoryview, memoryview, bytes]
    assert found["o2"] == BIG


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, r"cannot store o1, 1\.0 MiB: shared memory is full \([\d,.]+ MiB free of [\d,.]+ MiB"),
        (errno.EMFILE, "cannot store o1.*too many files are open"),
        (errno.EIO, "cannot store o1.*Input/output error"),
    ],
)
def test_errors_say_what_is_wrong_and_leave_nothing_behind(
    objects: SharedMemoryObjects, folder: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    def refuse(_file: int, _parts: Sequence[memoryview]) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "writev", refuse)
    with pytest.raises(StorageError, match=message):
        objects.put("o1", Blob([BIG]))
    assert files(folder) == ["run"]


def test_a_file_that_cannot_be_opened_is_not_a_missing_one(
    objects: SharedMemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match=r"cannot read o1: too many files are open.*ulimit -n"):
        objects.get(["o1"])
