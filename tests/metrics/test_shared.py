"""Records in Redis expire, share one slot, and survive a connection that breaks at the worst moment."""

from typing import Any

import pytest

from augury.errors import StorageError
from augury.metrics.history import shared
from augury.metrics.history.history import open_history
from augury.metrics.history.shared import RedisStore
from augury.metrics.records import SCHEMA, Records
from augury.storage.redis_client import Argument, RedisClient
from tests.metrics.building import tasks


@pytest.fixture
def store(redis: RedisClient) -> RedisStore:
    return RedisStore(redis.url)


def add_run(store: RedisStore, workflow: str = "w", run_id: str = "r1") -> None:
    def change(records: Records | None) -> Records:
        return (Records(workflow=workflow) if records is None else records).with_run(run_id, tasks(1), 1.0)

    store.update(workflow, change, ["f:f1"])


def document(redis: RedisClient) -> str:
    (key,) = [key.decode() for key in redis.command("KEYS", "*:document:*")]
    return str(key)


def test_all_keys_have_one_prefix_one_slot_and_an_end(store: RedisStore, redis: RedisClient) -> None:
    add_run(store)
    keys = [key.decode() for key in redis.command("KEYS", "*")]
    assert len(keys) == 5
    assert all(key.startswith("augury:history:{records}:") for key in keys)
    assert all(0 < redis.command("TTL", key) <= shared.TTL_S for key in keys)


def test_an_update_gives_records_their_whole_time_again(store: RedisStore, redis: RedisClient) -> None:
    add_run(store)
    redis.command("EXPIRE", document(redis), 10)
    add_run(store, run_id="r2")
    assert redis.command("TTL", document(redis)) > 10


def test_loading_takes_one_round_trip(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    add_run(store, "a")
    add_run(store, "b")
    sent = count_commands(monkeypatch)
    assert set(store.load(["a", "b", "c"])) == {"a", "b"}
    assert sent == ["MGET"]


def test_adding_takes_two_round_trips(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = count_commands(monkeypatch)
    add_run(store)
    assert sent == ["GET", "EVAL"]


def count_commands(monkeypatch: pytest.MonkeyPatch) -> list[Argument]:
    sent: list[Argument] = []
    command = RedisClient.command

    def counting(self: RedisClient, *arguments: Argument) -> Any:
        sent.append(arguments[0])
        return command(self, *arguments)

    monkeypatch.setattr(RedisClient, "command", counting)
    return sent


@pytest.mark.parametrize(
    "damage", [b"short", b"", b"x" * 100, b"t" * 16 + Records(workflow="w", schema=SCHEMA + 1).encode()]
)
def test_records_that_cannot_be_read_count_as_absent_and_are_replaced(
    store: RedisStore, redis: RedisClient, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    add_run(store)
    redis.command("SET", document(redis), damage)
    assert store.load(["w"]) == {}
    assert store.load(["w"]) == {}
    assert len(caplog.records) == 1
    add_run(store, run_id="r2")
    assert store.load(["w"])["w"].recent == ("r2",)


def test_heads_that_cannot_be_read_are_not_listed(store: RedisStore, redis: RedisClient) -> None:
    add_run(store)
    redis.command("HSET", "augury:history:{records}:entries", "other", b"\xc1")
    assert [entry.workflow for entry in store.list()] == ["w"]


def test_records_that_redis_dropped_are_not_listed(store: RedisStore, redis: RedisClient) -> None:
    add_run(store, "a")
    redis.command("UNLINK", document(redis))
    add_run(store, "b")
    assert [entry.workflow for entry in store.list()] == ["b"]


def test_what_has_expired_is_tidied_away_by_the_next_update(store: RedisStore, redis: RedisClient) -> None:
    add_run(store, "a")
    key = document(redis).rpartition(":")[2]
    redis.command("ZADD", "augury:history:{records}:recent", 0, key)
    add_run(store, "b")
    assert redis.command("HLEN", "augury:history:{records}:entries") == 1
    assert redis.command("ZCARD", "augury:history:{records}:recent") == 1


def test_a_document_that_never_aged_by_the_clock_of_redis_does_not_give_way_to_itself(redis: RedisClient) -> None:
    store = RedisStore(redis.url, most_workflows=2)
    add_run(store, "a")
    add_run(store, "b")
    for key in redis.command("ZRANGE", "augury:history:{records}:recent", 0, -1):
        redis.command("ZADD", "augury:history:{records}:recent", 4e9, key)
    add_run(store, "c")
    assert "c" in {entry.workflow for entry in store.list()}
    assert len(store.list()) == 2


def test_subjects_are_bounded(store: RedisStore, redis: RedisClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MOST_SUBJECTS", 3)
    for name, subjects in (("a", ["f:1", "f:2"]), ("b", ["f:3", "f:1"]), ("c", ["f:4"])):
        store.update(name, lambda _, name=name: Records(workflow=name), subjects)  # type: ignore[misc]
    assert store.recall(["f:1", "f:2", "f:3", "f:4"]) == {"f:1": "b", "f:3": "b", "f:4": "c"}
    assert redis.command("ZCARD", "augury:history:{records}:learned") == 3


def test_whoever_loses_a_race_makes_the_change_again(store: RedisStore, redis: RedisClient) -> None:
    rival = RedisStore(redis.url)
    seen: list[int] = []

    def change(records: Records | None) -> Records:
        before = Records(workflow="w") if records is None else records
        seen.append(before.runs)
        if len(seen) == 1:
            add_run(rival, run_id="rival")
        return before.with_run("mine", tasks(1), 1.0)

    store.update("w", change)
    assert seen == [0, 1]
    assert store.load(["w"])["w"].recent == ("rival", "mine")


def test_a_save_that_is_sent_again_is_made_once(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    command = RedisClient.command

    def twice(self: RedisClient, *arguments: Argument) -> Any:
        command(self, *arguments)
        return command(self, *arguments)

    monkeypatch.setattr(RedisClient, "command", twice)
    calls: list[Records | None] = []

    def change(records: Records | None) -> Records:
        calls.append(records)
        return Records(workflow="w", runs=1)

    store.update("w", change)
    assert calls == [None]
    assert store.load(["w"])["w"].runs == 1


def test_a_race_that_is_never_won_ends(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_ATTEMPTS", 3)
    monkeypatch.setattr(RedisStore, "_save", lambda *_: False)
    with pytest.raises(StorageError, match="too many others change the records of 'w'"):
        add_run(store)


def test_passwords_are_not_shown() -> None:
    history = open_history("redis://me:s3cret@localhost:1/0?password=s3cret")
    assert "s3cret" not in repr(history) + history.address
    assert "localhost:1" in repr(history)


def test_a_redis_that_does_not_answer_is_named_without_its_password(tmp_path: Any) -> None:
    history = open_history(f"unix://:s3cret@{tmp_path}/none.sock")
    with pytest.raises(StorageError, match="cannot connect to Redis") as caught:
        history.load("w")
    assert "s3cret" not in str(caught.value)
