"""Outputs that are kept for later runs: in memory, in a folder, and in Redis."""

import math
import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augury import serde
from augury.config import ResultsConfig
from augury.errors import StorageError
from augury.serde import Blob
from augury.storage import mapping
from augury.storage.redis_client import RedisClient
from augury.storage.results.folder import FolderResults
from augury.storage.results.memory import MemoryResults
from augury.storage.results.opening import open_results
from augury.storage.results.protocol import ENTRY_BYTES, Results
from augury.storage.results.shared import RedisResults
from augury.storage.server import RedisServer
from tests.invoke.stage import wait_until

DAY_S = 24 * 3600.0
Make = Callable[[int], Results]
"""Opens a place with room for so many bytes; the same place each time."""


@pytest.fixture(params=["memory", "folder", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[Results] = []

    def open_place(most_bytes: int) -> Results:
        if request.param == "memory":
            place: Results = made[0] if made else MemoryResults(most_bytes)
        elif request.param == "folder":
            place = FolderResults(tmp_path / "results", most_bytes)
        else:
            if not made:
                request.getfixturevalue("redis")
            place = RedisResults(request.getfixturevalue("redis_server").address, most_bytes)
        made.append(place)
        return place

    yield open_place
    for place in made:
        place.close()


@pytest.fixture
def results(make: Make) -> Results:
    return make(10_000_000)


def value(results: Results, key: str) -> bytes | None:
    found = results.get(key)
    return None if found is None else bytes(found)


def test_what_was_put_is_found_by_its_key(results: Results) -> None:
    results.put("aa", Blob([b"one ", memoryview(b"two")]), DAY_S)
    results.put("bb", Blob([b""]), DAY_S)
    assert (value(results, "aa"), value(results, "bb"), value(results, "cc")) == (b"one two", b"", None)


def test_a_large_array_comes_back_whole(results: Results) -> None:
    array = np.arange(500_000, dtype=np.float64)
    results.put("aa", serde.dumps(array), DAY_S)
    found = results.get("aa")
    assert found is not None
    assert np.array_equal(serde.loads(found), array)


def test_a_key_can_be_written_again(results: Results) -> None:
    results.put("aa", Blob([b"first"]), DAY_S)
    results.put("aa", Blob([b"second"]), DAY_S)
    assert value(results, "aa") == b"second"


def test_readers_never_see_a_mix(results: Results) -> None:
    contents = [bytes([number]) * 200_000 for number in range(8)]
    results.put("aa", Blob([contents[0]]), DAY_S)

    def write(content: bytes) -> None:
        for _ in range(10):
            results.put("aa", Blob([content]), DAY_S)

    with ThreadPoolExecutor(8) as pool:
        writing = [pool.submit(write, content) for content in contents]
        while not all(one.done() for one in writing):
            assert value(results, "aa") in contents
    assert value(results, "aa") in contents


def test_the_least_recently_used_gives_way(make: Make) -> None:
    size_bytes = 10_000
    results = make(4 * (size_bytes + ENTRY_BYTES))
    for key in ("aa", "bb", "cc", "dd"):
        results.put(key, Blob([bytes(size_bytes)]), DAY_S)
    assert results.get("aa") is not None
    results.put("ee", Blob([bytes(size_bytes)]), DAY_S)
    assert results.get("bb") is None
    assert results.get("aa") is not None
    assert results.get("ee") is not None


def test_there_is_never_more_than_there_is_room_for(make: Make) -> None:
    results = make(50_000)
    for number in range(100):
        results.put(f"{number:02x}", Blob([bytes(5_000)]), DAY_S)
        kept = sum(results.get(f"{key:02x}") is not None for key in range(number + 1))
        assert kept * (5_000 + ENTRY_BYTES) <= 50_000
    assert kept >= 7


def test_writing_a_key_again_takes_no_more_room(make: Make) -> None:
    results = make(50_000)
    results.put("aa", Blob([bytes(10_000)]), DAY_S)
    for _ in range(20):
        results.put("bb", Blob([bytes(10_000)]), DAY_S)
    assert results.get("aa") is not None


def test_what_is_larger_than_all_the_room_is_not_kept(make: Make) -> None:
    results = make(50_000)
    results.put("aa", Blob([bytes(10_000)]), DAY_S)
    results.put("bb", Blob([bytes(50_000)]), DAY_S)
    assert results.get("bb") is None
    assert results.get("aa") is not None


def test_its_time_comes_to_an_end(results: Results) -> None:
    results.put("aa", Blob([b"short"]), 0.9)
    results.put("bb", Blob([b"long"]), DAY_S)
    wait_until(lambda: results.get("aa") is None, "its time is over")
    assert value(results, "bb") == b"long"
    results.put("aa", Blob([b"again"]), DAY_S)
    assert value(results, "aa") == b"again"


def test_everything_can_be_forgotten(make: Make) -> None:
    results = make(50_000)
    for number in range(7):
        results.put(f"{number:02x}", Blob([bytes(3000)]), DAY_S)
    assert make(50_000).clear() == 7
    assert make(50_000).clear() == 0
    assert results.get("00") is None
    for number in range(7):
        results.put(f"{number:02x}", Blob([bytes(3000)]), DAY_S)
    assert all(results.get(f"{number:02x}") is not None for number in range(7))


class TestFolder:
    def test_it_is_for_one_user_alone(self, tmp_path: Path) -> None:
        folder = tmp_path / "state" / "results"
        FolderResults(folder, 50_000).put("aa", Blob([b"x"]), DAY_S)
        assert (folder.stat().st_mode & 0o777, (folder / "aa").stat().st_mode & 0o777) == (0o700, 0o600)

    def test_one_that_others_may_write_to_is_refused(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)
        with pytest.raises(StorageError, match="others may write"):
            FolderResults(tmp_path, 50_000).put("aa", Blob([b"x"]), DAY_S)

    def test_no_more_is_mapped_than_half_of_what_may_be_open(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        results = FolderResults(tmp_path / "results", 1_000_000)
        results.put("a", Blob([bytes(mapping.MAPPED_BYTES)]), 60)
        before = len(mapping._mapped)
        monkeypatch.setattr(resource, "getrlimit", lambda _: (2 * before + 2, 2 * before + 2))
        found = [results.get("a") for _ in range(3)]
        assert found == [bytes(mapping.MAPPED_BYTES)] * 3
        assert len(mapping._mapped) == before + 1

    def test_another_process_is_seen_before_there_is_too_much(self, tmp_path: Path) -> None:
        clock = [1e9]
        ours, theirs = (FolderResults(tmp_path / "results", 50_000, lambda: clock[0]) for _ in range(2))
        ours.put("aa", Blob([bytes(10_000)]), DAY_S)
        for number in range(4):
            clock[0] += 1
            theirs.put(f"b{number}", Blob([bytes(10_000)]), DAY_S)
        clock[0] += 61
        ours.put("cc", Blob([bytes(10_000)]), DAY_S)
        files = list((tmp_path / "results").iterdir())
        assert sum(file.stat().st_size for file in files) <= 50_000
        assert "aa" not in {file.name for file in files}

    def test_several_that_put_a_lot_at_once_exceed_the_room_by_little(self, tmp_path: Path) -> None:
        writers = [FolderResults(tmp_path / "results", 1_000_000, lambda: 1e9) for _ in range(4)]
        for number in range(90):
            for index, writer in enumerate(writers):
                writer.put(f"{index}{number:02x}", Blob([bytes(10_000)]), DAY_S)
        assert sum(file.stat().st_size for file in (tmp_path / "results").iterdir()) <= 1_000_000 * (1 + 4 / 16)

    def test_leftovers_of_dead_writers_are_removed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        results = FolderResults(tmp_path / "results", 50_000)
        results.put("aa", Blob([b"x"]), DAY_S)
        leftover = tmp_path / "results" / ".bb.1.2.3.new"
        leftover.write_bytes(b"half")
        now_s = time.time()
        monkeypatch.setattr(time, "time", lambda: now_s + 7200)
        FolderResults(tmp_path / "results", 50_000).put("cc", Blob([b"x"]), DAY_S)
        assert sorted(file.name for file in (tmp_path / "results").iterdir()) == ["aa", "cc"]

    def test_a_file_that_was_cut_is_as_good_as_none(self, tmp_path: Path) -> None:
        results = FolderResults(tmp_path / "results", 50_000)
        results.put("aa", Blob([b"x"]), DAY_S)
        os.truncate(tmp_path / "results" / "aa", 3)
        assert results.get("aa") is None

    def test_a_place_that_is_no_folder_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(StorageError, match="results in"):
            FolderResults(tmp_path / "file", 50_000).put("aa", Blob([b"x"]), DAY_S)


class TestRedis:
    def test_all_keys_expire_and_are_in_one_slot(self, redis_server: RedisServer, redis: RedisClient) -> None:
        results = RedisResults(redis_server.address, 50_000)
        results.put("aa", Blob([b"x"]), DAY_S)
        keys = redis.command("KEYS", "*")
        assert len(keys) == 5
        assert all(b"{results}" in key for key in keys)
        assert all(redis.command("TTL", key) > 0 for key in keys)
        results.close()

    def test_what_redis_dropped_is_forgotten_when_its_turn_comes(
        self, redis_server: RedisServer, redis: RedisClient
    ) -> None:
        results = RedisResults(redis_server.address, 3 * (1000 + ENTRY_BYTES))
        for key in ("aa", "bb", "cc"):
            results.put(key, Blob([bytes(1000)]), DAY_S)
        redis.command("UNLINK", "augury:results:{results}:value:aa")
        results.put("dd", Blob([bytes(1000)]), DAY_S)
        assert [results.get(key) is not None for key in ("aa", "bb", "cc", "dd")] == [False, True, True, True]
        results.close()

    @pytest.mark.parametrize(
        ("forget", "left"),
        [(RedisResults.clear, 0), (lambda results: results.put("new", Blob([bytes(9_000)]), DAY_S), 3)],
        ids=["all", "for something large"],
    )
    def test_very_many_are_not_forgotten_at_once(
        self,
        redis_server: RedisServer,
        redis: RedisClient,
        monkeypatch: pytest.MonkeyPatch,
        forget: Callable[[RedisResults], object],
        left: int,
    ) -> None:
        results = RedisResults(redis_server.address, 10_000)
        names, prefix = [f"{number:04x}" for number in range(2_500)], "augury:results:{results}:"
        redis.pipeline(
            [
                ("SET", f"{prefix}bytes", ENTRY_BYTES * len(names)),
                ("ZADD", f"{prefix}used", *(part for name in names for part in (1, name))),
                ("HSET", f"{prefix}sizes", *(part for name in names for part in (name, ENTRY_BYTES))),
            ]
        )
        kept, exchange = [len(names)], RedisClient.exchange

        def count(client: RedisClient, *arguments: Any) -> list[Any]:
            replies = exchange(client, *arguments, patience_s=math.inf)
            kept.append(exchange(redis, [b"ZCARD %sused\r\n" % prefix.encode()], 1)[0])
            return replies

        with monkeypatch.context() as patch:
            patch.setattr(RedisClient, "exchange", lambda self, *args, **_: count(self, *args))
            forget(results)
        assert kept == [2_500, 1_500 + (left > 0), 500 + (left > 0), left]
        results.close()

    def test_a_redis_that_is_away_is_told_soon(self) -> None:
        results = RedisResults("redis://127.0.0.1:1/0", 50_000)
        began_s = time.monotonic()
        with pytest.raises(StorageError, match=r"127\.0\.0\.1:1"):
            results.get("aa")
        assert time.monotonic() - began_s < 5


def test_the_configuration_says_where(tmp_path: Path) -> None:
    folder = open_results(ResultsConfig(str(tmp_path), 1000), "redis://host/0")
    assert isinstance(folder, FolderResults)
    assert isinstance(open_results(ResultsConfig("", 1000), "redis://host/0"), RedisResults)
