"""What Redis does beyond the protocol: keys, expiry, lost replies and its errors in our words."""

import os
import re
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis import exceptions
from redis.connection import AbstractConnection

from augury.backoff import Backoff
from augury.config import StorageConfig
from augury.errors import ObjectTooLarge, StorageError
from augury.serde import Blob
from augury.storage import redis as redis_storage_module
from augury.storage import redis_client
from augury.storage.keys import RunKeys
from augury.storage.opening import open_storage
from augury.storage.protocols import (
    CLIENT,
    Care,
    Cause,
    Completion,
    Consumer,
    Coordination,
    Missing,
    Printed,
    Published,
    Report,
    RunEnded,
    Status,
    Stop,
    Stored,
    Tried,
    WorkerLeft,
    WorkerSummary,
)
from augury.storage.redis import RedisObjects, RedisStorage
from augury.storage.redis_client import RedisClient
from augury.storage.redis_errors import explained
from augury.storage.server import RedisServer
from augury.storage.shm import SharedMemoryObjects
from tests.storage.conftest import SPEC, claim, wait_until_blocked

SUMMARY = WorkerSummary(worker="w", attempt=1, cold=True, duration_s=1, memory_mb=64, tasks=1)


@pytest.fixture
def run(redis_storage: RedisStorage) -> Coordination:
    run = redis_storage.coordination("run")
    run.create(SPEC, [9], [claim("first", 0)])
    return run


def live_fully(run: Coordination) -> None:
    """Make use of everything that a run has."""
    run.join("first", 1)
    run.report(
        Report(
            "first",
            published=(Published(6, 10),),
            completions=(
                Completion(0, 1, b"a", consumers=(Consumer(2, 1), Consumer(3, 1, "w"))),
                Completion(1, 99, consumers=(Consumer(4, 2),), watchers=("watcher",)),
            ),
            claims=(claim("f1", 2),),
            ran=2,
            tried=(Tried(5, 2, 0.5),),
        )
    )
    run.post("stranger", [Printed(1, "stdout", "hello")])
    run.beat(lost=[Missing("f1", 1)])
    run.join("w", 1)
    run.suspend("w", 1, run.read("w", "0", 0)[0], 0)
    run.leave(SUMMARY)
    run.fail(Status.FAILED, b"why")


class TestKeys:
    def test_every_key_has_the_runs_tag_and_expires(self, run: Coordination, redis: RedisClient) -> None:
        live_fully(run)
        keys = redis.command("KEYS", "*")
        names = RunKeys.of("run")
        inboxes = [names.inbox(name) for name in ("first", "w", "f1", "watcher", "stranger")]
        assert {key.decode() for key in keys} == {*names.shared, *inboxes}
        assert all(key.startswith(b"augury:{run}:") for key in keys)
        # The run itself after its time, its parts a little later.
        assert redis.command("TTL", "augury:{run}:meta") in (999, 1000)
        assert [key for key in keys if not 0 < redis.command("TTL", key) <= 1000 * 17 / 16] == []

    @pytest.mark.parametrize(("cause", "restarts"), [(Cause.LOST, 0), (Cause.LOST, 1), (Cause.HANDOVER, 1)])
    def test_what_is_noted_of_a_loss_expires(
        self, redis_storage: RedisStorage, redis: RedisClient, cause: Cause, restarts: int
    ) -> None:
        run = redis_storage.coordination("run")
        run.create(msgspec.structs.replace(SPEC, care=Care(restarts=restarts)), [9], [claim("first", 0)])
        run.beat(lost=[Missing("first", 1, cause)])
        assert redis.command("EXISTS", RunKeys.of("run").losses)
        assert not [key for key in redis.command("KEYS", "*") if redis.command("TTL", key) < 0]

    def test_what_is_noted_of_tries_expires(self, run: Coordination, redis: RedisClient) -> None:
        run.report(Report("first", tried=(Tried(5, 2, 0.5),)))
        assert redis.command("EXISTS", RunKeys.of("run").losses)
        assert not [key for key in redis.command("KEYS", "*") if redis.command("TTL", key) < 0]

    def test_no_part_expires_before_the_run(self, run: Coordination, redis: RedisClient) -> None:
        run.report(Report("first", completions=(Completion(0, consumers=(Consumer(3, 1, "w"), Consumer(4, 2))),)))
        keys = redis.command("KEYS", "*")
        for key in keys:
            redis.command("EXPIRE", key, 990)
        run.report(Report("first", ran=1))
        assert [key for key in keys if redis.command("TTL", key) < redis.command("TTL", "augury:{run}:meta")] == []

    def test_removal_leaves_no_key(self, run: Coordination, redis: RedisClient) -> None:
        live_fully(run)
        run.remove()
        assert redis.command("DBSIZE") == 0

    def test_removal_after_pruning_leaves_no_key(self, run: Coordination, redis: RedisClient) -> None:
        live_fully(run)
        run.prune()
        run.post("stranger", [Printed(1, "stdout", "late")])
        run.remove()
        assert redis.command("DBSIZE") == 0

    def test_after_removal_nothing_brings_a_key_back(self, run: Coordination, redis: RedisClient) -> None:
        run.remove()
        live_fully(run)
        run.prune()
        assert redis.command("DBSIZE") == 0

    def test_an_expired_run_is_gone(self, run: Coordination, redis: RedisClient) -> None:
        redis.command("PEXPIRE", "augury:{run}:meta", 0)
        assert run.report(Report("first", ran=1)).status is Status.GONE

    def test_objects_have_no_tag_and_expire(self, redis_storage: RedisStorage, redis: RedisClient) -> None:
        objects = redis_storage.objects("run")
        objects.create()
        objects.put("o1", Blob([b"x"]))
        assert sorted(redis.command("KEYS", "*")) == [b"augury:obj:run:o1", b"augury:{run}:objects"]
        assert all(1000 < redis.command("TTL", key) <= 1250 for key in redis.command("KEYS", "*"))
        objects.remove()
        assert redis.command("DBSIZE") == 0

    def test_objects_live_on_with_their_run(
        self, run: Coordination, redis_storage: RedisStorage, redis: RedisClient
    ) -> None:
        objects = redis_storage.objects("run")
        objects.create()
        objects.put("c0", Blob([b"x"]))
        objects.put("o1", Blob([b"y"]))
        objects.delete(["o1"])
        places = ["augury:obj:run:c0", "augury:{run}:objects"]
        for beats, expected in ((5, 10), (1, 1250)):  # once, when a quarter of the time is over, by whoever beats then
            for place in places:
                redis.command("EXPIRE", place, 10)
            for beat in range(beats):
                run.beat("first", 1) if beat % 2 else run.beat(CLIENT)
            assert all(expected - 2 <= redis.command("TTL", place) <= expected for place in places)
            redis.command("HINCRBYFLOAT", "augury:{run}:meta", "objects", -251)
        redis.command("EXPIRE", places[0], 10)
        run.fail(Status.CANCELLED, b"")
        run.beat(CLIENT)
        assert redis.command("TTL", places[0]) <= 10
        assert len(redis.command("KEYS", "augury:obj:*")) == 1

    def test_a_beat_that_cannot_have_them_live_on_is_answered(
        self, run: Coordination, redis: RedisClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_: object) -> None:
            raise StorageError("away")

        monkeypatch.setattr(RedisObjects, "prolong", refuse)
        redis.command("HINCRBYFLOAT", "augury:{run}:meta", "objects", -251)
        assert run.beat(lost=run.live()).start

    def test_a_late_object_leaves_no_key(self, redis_storage: RedisStorage, redis: RedisClient) -> None:
        with pytest.raises(StorageError, match="gone"):
            redis_storage.objects("run").put("o1", Blob([b"late"]))
        assert redis.command("DBSIZE") == 0

    def test_a_check_leaves_no_key(self, redis_storage: RedisStorage, redis: RedisClient) -> None:
        redis_storage.ping()
        assert redis.command("DBSIZE") == 0


@pytest.fixture
def lose_next_reply(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Break the connection after Redis has carried out the next command and before its reply is read."""
    receive = redis_client._receive
    losses: list[bool] = []

    def receive_or_lose(connection: Any) -> Any:
        reply = receive(connection)
        if losses:
            losses.pop()
            raise exceptions.ConnectionError("Connection reset by peer")
        return reply

    monkeypatch.setattr(redis_client, "_receive", receive_or_lose)
    return lambda: losses.append(True)


@pytest.mark.usefixtures("run")
class TestLostReplies:
    def test_what_is_ready_and_may_be_started_is_still_told(
        self, run: Coordination, redis_storage: RedisStorage, lose_next_reply: Callable[[], None]
    ) -> None:
        report = Report(
            "first",
            completions=(Completion(0, 1, b"a", consumers=(Consumer(2, 1), Consumer(3, 1, "w"))),),
            claims=(claim("f1", 4),),
            ran=1,
        )
        lose_next_reply()
        outcome = run.report(report)
        assert (outcome.ready, outcome.started) == ((2,), (("w", 1), ("f1", 1)))
        assert run.progress().ran == 1
        assert run.report(report).ready == ()

    def test_the_success_is_still_told(self, run: Coordination, lose_next_reply: Callable[[], None]) -> None:
        lose_next_reply()
        assert run.report(Report("first", completions=(Completion(9, 1, b"r", sink=True),))).status is Status.SUCCEEDED

    def test_events_are_posted_once(self, run: Coordination, lose_next_reply: Callable[[], None]) -> None:
        lose_next_reply()
        run.post(CLIENT, [Printed(1, "stdout", "once")])
        lose_next_reply()
        run.leave(SUMMARY)
        assert run.read(CLIENT, "0", 0)[1] == [Printed(1, "stdout", "once"), WorkerLeft(SUMMARY)]

    def test_who_ended_the_run_still_learns_it(self, run: Coordination, lose_next_reply: Callable[[], None]) -> None:
        lose_next_reply()
        assert run.fail(Status.FAILED, b"why")
        assert run.read(CLIENT, "0", 0)[1] == [RunEnded(Status.FAILED, b"why")]
        assert run.read("first", "0", 0)[1] == [Stop(Status.FAILED)]

    def test_a_run_is_still_created(self, redis_storage: RedisStorage, lose_next_reply: Callable[[], None]) -> None:
        lose_next_reply()
        redis_storage.coordination("other").create(SPEC, [1], [])

    def test_a_client_is_counted_once(self, run: Coordination, lose_next_reply: Callable[[], None]) -> None:
        lose_next_reply()
        assert run.follow()
        lose_next_reply()
        assert not run.unfollow(creator=False)
        lose_next_reply()
        assert run.unfollow()

    def test_who_was_suspended_still_learns_it(self, run: Coordination, lose_next_reply: Callable[[], None]) -> None:
        run.report(Report("x", claims=(claim("w", 5),)))
        run.join("w", 1)
        lose_next_reply()
        assert run.suspend("w", 1, "0", 0)

    def test_objects_are_all_removed(
        self, redis_storage: RedisStorage, redis: RedisClient, lose_next_reply: Callable[[], None]
    ) -> None:
        objects = redis_storage.objects("other")
        objects.create()
        lose_next_reply()
        objects.put("o1", Blob([b"x"]))
        assert objects.get(["o1"]) == {"o1": b"x"}
        objects.remove()
        assert redis.command("KEYS", "*other*") == []

    @pytest.fixture
    def sent(self, redis_storage: RedisStorage) -> list[bytes]:
        """All that the client sends."""
        sent: list[bytes] = []
        exchange = redis_storage._client.exchange

        def keep(packed: list[bytes], replies: int, **patience: float) -> list[Any]:
            sent.append(packed[0])
            return exchange(packed, replies, **patience)

        redis_storage._client.exchange = keep  # type: ignore[method-assign,assignment]
        return sent

    def test_a_call_that_arrives_after_a_later_one_is_not_carried_out(
        self, run: Coordination, redis: RedisClient, sent: list[bytes]
    ) -> None:
        run.post(CLIENT, [Printed(1, "stdout", "early")])
        run.post(CLIENT, [Printed(1, "stdout", "late")])
        early = next(packed for packed in sent if b"early" in packed)
        redis.exchange([early], 1)
        assert len(run.read(CLIENT, "0", 0)[1]) == 2

    def test_a_joining_that_arrives_again_after_later_calls_changes_nothing(
        self, run: Coordination, redis: RedisClient, redis_storage: RedisStorage, sent: list[bytes]
    ) -> None:
        worker = redis_storage.coordination("run")
        worker.join("first", 1)
        joining = sent[-1]
        worker.report(Report("first", ran=1))
        redis.exchange([joining], 1)
        assert worker.beat("first", 1).status is Status.RUNNING
        run.report(Report("x", claims=(claim("w", 5),)))
        assert worker.suspend("first", 1, "0", 0)
        redis.exchange([joining], 1)
        worker.leave(msgspec.structs.replace(SUMMARY, worker="first"))
        assert run.status() is Status.RUNNING

    def test_so_does_the_offer_of_a_slot_that_was_not_wanted_then(
        self, run: Coordination, redis: RedisClient, sent: list[bytes]
    ) -> None:
        run.join("first", 1)
        assert not run.suspend("first", 1, "0", 0)
        offer = sent[-1]
        run.report(Report("first", claims=(claim("w", 5),)))
        redis.exchange([offer], 1)
        assert run.beat("first", 1).status is Status.RUNNING


def test_the_reply_to_an_interrupted_call_is_not_taken_for_that_of_the_next(
    redis: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_connection: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(redis_client, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            redis.command("XREAD", "BLOCK", 200, "STREAMS", "nothing", "0")
    assert redis.command("ECHO", "hello") == b"hello"


def test_scripts_are_sent_again_when_redis_has_forgotten_them(run: Coordination, redis: RedisClient) -> None:
    redis.command("SCRIPT", "FLUSH")
    assert run.report(Report("first", ran=1)).status is Status.RUNNING


def test_large_objects_go_to_shared_memory_if_there_is_a_folder(redis_server: RedisServer, tmp_path: Path) -> None:
    config = StorageConfig(redis=redis_server.address, object_dir=str(tmp_path))
    assert isinstance(open_storage(config).objects("run"), SharedMemoryObjects)


def test_an_object_beyond_the_limit_of_redis_is_refused_with_advice(
    redis_storage: RedisStorage, redis: RedisClient
) -> None:
    half = memoryview(bytes(256 * 1024**2))
    with pytest.raises(ObjectTooLarge, match=r"o7 .* 512 MiB .* at most 511 MiB: return a smaller value, split it"):
        redis_storage.objects("run").put("o7", Blob([half, half]))
    assert redis.command("DBSIZE") == 0


def test_a_workflow_beyond_the_limit_of_redis_is_refused_with_advice(
    redis_storage: RedisStorage, redis: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_storage_module, "_LARGEST_OBJECT_BYTES", 2 * 1024**2)
    spec = msgspec.structs.replace(SPEC, program=bytes(3 * 1024**2))
    with pytest.raises(
        ObjectTooLarge, match=r"the workflow itself .* is 3 MiB .* at most 2 MiB: pass large values as arguments, or"
    ):
        redis_storage.coordination("run").create(spec, [9], [])
    assert redis.command("DBSIZE") == 0


def test_a_client_that_was_forked_makes_its_own_connections(redis_server: RedisServer) -> None:
    client = RedisClient(redis_server.address)
    connection = client.command("CLIENT", "ID")
    child = os.fork()
    if child == 0:
        os._exit(0 if client.command("CLIENT", "ID") not in (None, connection) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.command("CLIENT", "ID") == connection
    client.close()


def test_connections_that_broke_while_nobody_used_them_are_no_trouble(redis_server: RedisServer) -> None:
    impatient = RedisClient(redis_server.address, backoff=Backoff(patience_s=0.0))
    others = RedisClient(redis_server.address)
    for connection in [impatient._connections.take()[0] for _ in range(3)]:
        impatient._connections.give_back(connection, stands=True)
    killed = others.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert killed >= 3
    assert impatient.command("ECHO", "there") == b"there"
    impatient.close()
    others.close()


class TestDamage:
    """Somebody else has written to Redis: whoever reads it says so, in words."""

    META, WORKERS, LARGE = (getattr(RunKeys.of("run"), name) for name in ("meta", "workers", "large"))
    GRANTS, OUTPUTS, OBJECTS = (getattr(RunKeys.of("run"), name) for name in ("grants", "outputs", "objects"))

    @pytest.mark.parametrize(
        ("write", "read"),
        [
            (("HSET", META, "status", "foo"), lambda run: run.status()),
            (("HSET", META, "status", b"\xff"), lambda run: run.beat("first", 1)),
            (("HSET", META, "status", "foo"), lambda run: run.join("first", 1)),
            (("HSET", META, "status", "foo"), lambda run: run.report(Report("first", ran=1))),
            (("HSET", META, "ran", "many"), lambda run: run.progress()),
            (("HSET", WORKERS, "first", "x"), lambda run: run.live()),
            (("HSET", WORKERS, "first", "x"), lambda run: run.starting()),
            (("SADD", LARGE, "x"), lambda run: run.objects_stored()),
            (("HSET", OUTPUTS, "x", "1"), lambda run: run.remains()),
            (("HSET", GRANTS, "1", b"\xff"), lambda run: run.remains()),
        ],
        ids=str,
    )
    def test_it_is_told(
        self, run: Coordination, redis: RedisClient, write: tuple[str, ...], read: Callable[[Coordination], object]
    ) -> None:
        redis.command(*write)
        with pytest.raises(StorageError, match="in storage is damaged, or was written by somebody else"):
            read(run)

    @pytest.mark.parametrize("read", [RedisObjects.prolong, RedisObjects.remove])
    def test_names_of_objects_too(
        self, redis_storage: RedisStorage, redis: RedisClient, read: Callable[[Any], None]
    ) -> None:
        objects = redis_storage.objects("run")
        objects.create()
        redis.command("RPUSH", self.OBJECTS, b"\xff")
        with pytest.raises(StorageError, match="the name of an object in storage is damaged"):
            read(objects)


@pytest.fixture
def own_server(short_folder: Path) -> Iterator[Callable[..., RedisServer]]:
    """Starts a server with options of its own."""
    servers: list[RedisServer] = []

    def start(**options: str) -> RedisServer:
        servers.append(RedisServer(short_folder, options))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


class TestErrors:
    @pytest.mark.parametrize("user", ["", ":wrong@", "someone:wrong@"])
    def test_a_wrong_password(self, own_server: Callable[..., RedisServer], user: str) -> None:
        address = own_server(requirepass="s3cret").address.replace("unix://", f"unix://{user}")
        with pytest.raises(StorageError, match=r"Redis at unix:///.*/redis\.sock refused the password") as caught:
            RedisStorage(StorageConfig(redis=address)).ping()
        assert "wrong" not in str(caught.value)

    def test_the_right_password(self, own_server: Callable[..., RedisServer]) -> None:
        address = own_server(requirepass="s3cret").address.replace("unix://", "unix://:s3cret@")
        RedisStorage(StorageConfig(redis=address)).ping()

    @pytest.mark.parametrize("address", ["unix:///nowhere/redis.sock", "redis://me:s3cret@127.0.0.1:1/0"])
    def test_an_address_where_nobody_listens(self, address: str) -> None:
        with pytest.raises(StorageError, match=r"cannot connect to Redis at .*: is it running") as caught:
            RedisStorage(StorageConfig(redis=address, patience_s=0.01)).ping()
        assert "s3cret" not in str(caught.value)

    def test_what_is_no_address(self) -> None:
        with pytest.raises(StorageError, match=r"'host:6379' is not an address of Redis; write redis://host") as caught:
            open_storage(StorageConfig(redis="me:s3cret@host:6379"))
        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize(
        "address",
        [
            "redis://:s3cret/x@host:1/0",
            "redis://:s3cret#x@host:1/0",
            "redis://:s3cret?x@host:1/0",
            "redis://:17/s3cret@host:1/0",
            "redis://:17#s3cret@host:1/0",
            "redis://:17?s3cret@host:1/0",
            "redis://:17?s3cret=x@host:1/0",
            "unix://:s3cret/x@/redis.sock",
            "unix://:17/s3cret@/redis.sock",
            "redis://:s3cret@host:port",
            "redis://:s3cret@host:99999",
            "redis://:s3cret@[::1",
            "redis://:s3cret@a..b",
            "redis://:s3cret@host:1/0?db=x",
            "redis://:s3cret@host:1/0?no_such_option=1",
            "redis://:s3cret@host:1/0?protocol=9",
            "rediss://:s3cret@host:1/0?ssl_cert_reqs=bogus",
        ],
    )
    def test_a_wrong_address_is_told_without_a_trace_of_the_password(self, address: str) -> None:
        with pytest.raises(StorageError, match=r"address .*of Redis") as caught:
            open_storage(StorageConfig(redis=address))
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize(
        "option", ["protocol=3", "decode_responses=true", "host=other", "path=/other", "retry=3", "parser_class=x"]
    )
    def test_what_changes_answers_or_who_gives_them_is_no_option(self, option: str) -> None:
        with pytest.raises(StorageError, match=f"has an option that it cannot have: {option.partition('=')[0]}"):
            RedisClient(f"redis://host/0?{option}")

    @pytest.mark.parametrize("address", ["redis://host:1/x", "redis://host:1/1/2", "redis://host:0", "redis://host/-1"])
    def test_what_would_be_taken_for_another_address_is_refused(self, address: str) -> None:
        with pytest.raises(StorageError, match="is not an address of Redis; write redis://host:6379/0"):
            open_storage(StorageConfig(redis=address))

    @pytest.mark.parametrize(
        "address", ["redis://host", "redis://host/", "redis://u:p%2Fw@[::1]:1/7?password=a@b", "unix://u:pw@/path?db=2"]
    )
    def test_what_is_an_address(self, address: str) -> None:
        open_storage(StorageConfig(redis=address))

    def test_a_full_redis_says_so_and_applies_nothing(self, own_server: Callable[..., RedisServer]) -> None:
        server = own_server()
        storage = RedisStorage(StorageConfig(redis=server.address, patience_s=0.01))
        run = storage.coordination("run")
        run.create(SPEC, [9], [])
        objects = storage.objects("run")
        objects.create()
        redis = RedisClient(server.address)
        redis.command("CONFIG", "SET", "maxmemory", 1)
        report = Report("x", completions=(Completion(0, 1, b"a", consumers=(Consumer(2, 1), Consumer(3, 2))),), ran=1)
        for refused in (lambda: objects.put("o1", Blob([b"x"])), lambda: run.report(report), storage.ping):
            with pytest.raises(StorageError, match=r"is full \(maxmemory\)"):
                refused()
        redis.command("CONFIG", "SET", "maxmemory", 0)
        assert run.report(report).ready == (2,)
        assert run.outputs([0]) == {0: Stored(1, b"a")}

    def test_a_replica(self, own_server: Callable[..., RedisServer]) -> None:
        server = own_server()
        storage = RedisStorage(StorageConfig(redis=server.address, patience_s=0.01))
        storage.coordination("run").create(SPEC, [9], [])
        RedisClient(server.address).command("REPLICAOF", "127.0.0.1", "1")
        for refused in (storage.ping, lambda: storage.coordination("run").report(Report("x", ran=1))):
            with pytest.raises(StorageError, match="read-only replica: use the address of the primary"):
                refused()

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "is the disk full"),
            (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "still loading"),
            (exceptions.TimeoutError("Timeout reading from socket"), "did not answer in time"),
            (exceptions.NoPermissionError("this user has no permissions"), "does not let this user"),
            (exceptions.ConnectionError("max number of clients reached"), "raise its maxclients"),
            (exceptions.ResponseError("WRONGTYPE Operation"), "refused the request: WRONGTYPE"),
        ],
    )
    def test_other_refusals(self, error: exceptions.RedisError, message: str) -> None:
        told = str(explained("redis://u:p@host:1", error, "3 attempts in 2 s"))
        assert re.search(rf"Redis at redis://host:1 .*{message}.*; 3 attempts in 2 s", told)

    def test_a_server_that_died(self, own_server: Callable[..., RedisServer]) -> None:
        server = own_server()
        storage = RedisStorage(StorageConfig(redis=server.address, patience_s=0.01))
        storage.ping()
        server.stop()
        with pytest.raises(StorageError, match="cannot connect"):
            storage.ping()

    def test_a_server_that_comes_back_is_found_again(self, own_server: Callable[..., RedisServer]) -> None:
        server = own_server()
        storage = RedisStorage(StorageConfig(redis=server.address))
        storage.ping()
        server.stop()
        server.start()
        storage.ping()


def test_a_large_value_is_sent_in_parts_that_have_a_time_limit_each(
    own_server: Callable[..., RedisServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    original: Any = AbstractConnection.send_packed_command

    def send(self: Any, command: Any, check_health: bool = True) -> Any:
        parts = list(command)
        sent.extend(len(part) for part in parts)
        return original(self, parts, check_health)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", send)
    value = bytes(range(256)) * 10_000
    client = RedisClient(own_server().address)
    client.set_with("key", Blob([value[:1_000_000], memoryview(value)[1_000_000:]]), 60, [])
    assert max(sent) <= 1 << 20
    assert client.command("GET", "key") == value


class TestClosing:
    """The client may close while another thread is in the middle of a call."""

    def test_a_call_under_way_gets_its_answer_on_its_own_connection(self, redis: RedisClient) -> None:
        client = RedisClient(redis.url)
        client.command("CLIENT", "SETNAME", b"closing")
        with ThreadPoolExecutor(1) as pool:
            answers = pool.submit(client.pipeline, [("BLPOP", "signal", 10), ("CLIENT", "GETNAME")])
            wait_until_blocked(redis)
            client.close()
            redis.command("RPUSH", "signal", b"go")
            assert answers.result() == [[b"signal", b"go"], b"closing"]

    def test_no_connection_stays_open_after_the_last_call(self, redis: RedisClient) -> None:
        client = RedisClient(redis.url)
        client.command("PING")
        client.close()
        client.pipeline([("CLIENT", "SETNAME", b"closed"), ("PING",)])
        # Redis notices in one of its next turns.
        assert any(b"name=closed" not in redis.command("CLIENT", "LIST") for _ in range(100))
