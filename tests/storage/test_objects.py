"""Large values: in memory, in Redis, and in shared memory."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from augury import serde
from augury.errors import StorageError
from augury.serde import Blob
from augury.storage.protocols import Objects

MB = 1024**2


def test_values_come_back_by_key(objects: Objects) -> None:
    objects.put("o1", Blob([b"one"]))
    objects.put("o2", Blob([b"two"]))
    assert {key: bytes(value) for key, value in objects.get(["o2", "missing", "o1"]).items()} == {
        "o1": b"one",
        "o2": b"two",
    }


def test_a_value_in_many_parts_comes_back_whole(objects: Objects) -> None:
    parts: list[serde.Buffer] = [bytes([number % 256]) * (number % 7) for number in range(5000)]
    parts += [bytearray(b"xyz"), memoryview(bytes(3 * MB)), b""]
    objects.put("o1", Blob(parts))
    assert bytes(objects.get(["o1"])["o1"]) == b"".join(parts)


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 5 * MB])
def test_values_of_any_size_come_back(objects: Objects, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    objects.put("o1", Blob([data]))
    assert bytes(objects.get(["o1"])["o1"]) == data


def test_an_array_survives_and_is_read_only(objects: Objects) -> None:
    array = np.arange(MB, dtype=np.float64)
    objects.put("o1", serde.dumps(array))
    loaded = serde.loads(objects.get(["o1"])["o1"])
    assert np.array_equal(loaded, array)
    assert not loaded.flags.writeable


def test_what_was_stored_does_not_change_with_the_value(objects: Objects) -> None:
    array = np.zeros(MB, dtype=np.uint8)
    objects.put("o1", serde.dumps(array))
    array[:] = 1
    assert not serde.loads(objects.get(["o1"])["o1"]).any()


def test_a_key_that_is_written_again_keeps_its_value(objects: Objects) -> None:
    objects.put("o1", Blob([b"first"]))
    objects.put("o1", Blob([b"second"]))
    assert bytes(objects.get(["o1"])["o1"]) == b"first"


def test_a_reader_sees_one_value_or_the_other_and_never_a_mix(objects: Objects) -> None:
    values = [bytes([number]) * MB for number in range(3)]
    objects.put("o1", Blob([values[0]]))
    written = threading.Event()

    def write() -> None:
        for value in values * 5:
            objects.put("o1", Blob([value[: MB // 2], value[MB // 2 :]]))
        written.set()

    with ThreadPoolExecutor() as threads:
        writing = threads.submit(write)
        while not written.is_set() and not writing.done():
            assert bytes(objects.get(["o1"])["o1"]) in values
        writing.result()


def test_deleted_values_are_not_there(objects: Objects) -> None:
    objects.put("o1", Blob([b"one"]))
    objects.put("o2", Blob([b"two"]))
    objects.delete(["o1", "missing"])
    assert list(objects.get(["o1", "o2"])) == ["o2"]


def test_what_was_read_stays_readable(objects: Objects) -> None:
    objects.put("o1", Blob([bytes(MB)]))
    read = objects.get(["o1"])["o1"]
    objects.put("o1", Blob([b"other" * MB]))
    objects.delete(["o1"])
    objects.remove()
    assert bytes(read) == bytes(MB)


def test_nothing_is_left_after_removal(objects: Objects) -> None:
    objects.put("o1", Blob([b"one"]))
    objects.remove()
    assert objects.get(["o1"]) == {}


def test_nothing_can_be_stored_after_removal(objects: Objects) -> None:
    objects.remove()
    with pytest.raises(StorageError, match=r"cannot store o1.*gone"):
        objects.put("o1", Blob([b"late"]))
    assert objects.get(["o1"]) == {}


def test_deleting_and_removing_what_is_gone_does_not_matter(objects: Objects) -> None:
    objects.remove()
    objects.delete(["o1"])
    objects.remove()


def test_making_room_twice_keeps_what_is_there(objects: Objects) -> None:
    objects.put("o1", Blob([b"one"]))
    objects.create()
    assert bytes(objects.get(["o1"])["o1"]) == b"one"


def test_asking_for_nothing_gives_nothing(objects: Objects) -> None:
    assert objects.get([]) == {}
    objects.delete([])
