"""Redis is killed, restarted, replaced by its replica, full or empty: calls wait for it, or say what is wrong."""

import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions

from augury import Client, settings, task
from augury.config import StorageConfig
from augury.errors import StorageError
from augury.serde import Blob
from augury.storage import redis_client
from augury.storage.protocols import CLIENT, Completion, Consumer, Report, RunEnded, Status, Stop, Stored, WorkerLeft
from augury.storage.redis import RedisStorage
from augury.storage.redis_client import Caller, Callers, RedisClient, timeout_within
from augury.storage.server import RedisServer
from tests.storage.conftest import SPEC, claim
from tests.storage.test_redis import SUMMARY
from tests.waiting import Waiting

KEEPING = {"appendonly": "yes", "appendfsync": "always"}
"""What a Redis needs for a restart to lose nothing."""


@task
def same(number: int) -> int:
    return number


StartServer = Callable[..., RedisServer]


@pytest.fixture
def start_server(short_folder: Path) -> Iterator[StartServer]:
    """Starts a server in a folder of its own, with options of its own."""
    with ExitStack() as stack:

        def start(name: str = "redis", **options: str) -> RedisServer:
            return stack.enter_context(RedisServer(short_folder / name, options))

        yield start


def storage_at(server: RedisServer, patience_s: float = 60.0) -> RedisStorage:
    return RedisStorage(StorageConfig(redis=server.address, patience_s=patience_s))


@pytest.fixture
def when_refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], Waiting]:
    """Has clients wait on a clock of their own, and something happen in their third pause."""

    def prepare(action: Callable[[], object]) -> Waiting:
        waiting = Waiting()
        waiting.after(3, action)
        monkeypatch.setattr("augury.storage.redis.PATIENT", waiting.backoff(patience_s=60))
        return waiting

    return prepare


class TestRestarts:
    def test_a_call_waits_until_redis_is_back_with_what_it_knew(
        self, start_server: StartServer, when_refused: Callable[[Callable[[], object]], Waiting]
    ) -> None:
        server = start_server(**KEEPING)
        waiting = when_refused(server.start)
        run = storage_at(server).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        server.stop()
        outcome = run.report(Report("first", completions=(Completion(0, 1, b"a", consumers=(Consumer(2, 1),)),), ran=1))
        assert outcome.ready == (2,)
        assert len(waiting.pauses_s) >= 3

    def test_every_completion_counts_once_whatever_was_under_way_when_redis_was_killed(
        self, start_server: StartServer
    ) -> None:
        # Each of 6 threads reports 60 tasks that all have one consumer, while Redis is killed and restarted.
        threads, each = 6, 60
        total = threads * each
        server = start_server(**KEEPING)
        storage = storage_at(server)
        run = storage.coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        ready: list[int] = []
        killed = [threading.Event() for _ in range(3)]

        def report(number: int) -> None:
            for index in range(each):
                if number == 0 and index in (10, 25, 40):
                    killed[(10, 25, 40).index(index)].set()
                task = 1000 + number * each + index
                completion = Completion(task, 1, b"a", consumers=(Consumer(7, total),))
                ready.extend(run.report(Report("first", completions=(completion,), ran=1)).ready)

        reporters = [threading.Thread(target=report, args=(number,)) for number in range(threads)]
        for thread in reporters:
            thread.start()
        for event in killed:
            assert event.wait(60)
            server.stop()
            server.start()
        for thread in reporters:
            thread.join(120)
        assert ready == [7]
        assert run.progress().ran == total

    def test_a_redis_that_comes_back_empty_has_lost_the_run(self, start_server: StartServer) -> None:
        server = start_server()
        run = storage_at(server).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        server.stop()
        server.start()
        assert run.read(CLIENT, "0", 60) == ("0", [Stop(Status.GONE)])
        assert run.report(Report("first", ran=1)).status is Status.GONE
        assert run.join("first", 1).status is Status.GONE

    def test_a_redis_that_comes_back_with_an_old_copy_has_lost_the_run(self, start_server: StartServer) -> None:
        # As one does that only takes snapshots, or a replica that had not got everything.
        server = start_server()
        run = storage_at(server).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        run.report(Report("first", completions=(Completion(0, 1, b"a"),), ran=1))
        RedisClient(server.address).command("SAVE")
        run.report(Report("first", completions=(Completion(1, 1, b"b"),), ran=1))
        server.stop()
        server.start()
        assert run.status() is Status.RUNNING
        assert run.report(Report("first", completions=(Completion(2, 1, b"c"),), ran=1)).status is Status.GONE
        assert run.read(CLIENT, "0", 0)[1] == [Stop(Status.GONE)]

    def test_an_old_copy_is_noticed_by_whoever_calls_next(
        self, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = start_server()
        run = storage_at(server).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        call = run._call

        def beside(*arguments: Any) -> Any:
            monkeypatch.undo()
            reply = call(*arguments)
            RedisClient(server.address).command("SAVE")
            # Before the beat knows that it was answered, another thread, under another name, reports what will be lost.
            run.report(Report("first", completions=(Completion(0, 1, b"a"),), ran=1))
            return reply

        monkeypatch.setattr(run, "_call", beside)
        run.beat("first", 1)
        server.stop()
        server.start()
        run.leave(SUMMARY)  # under the name of the beat, of which nothing was lost
        assert run.status() is Status.GONE

    def test_an_old_copy_is_noticed_after_a_call_that_failed(self, start_server: StartServer) -> None:
        server = start_server()
        run = storage_at(server, patience_s=0.2).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        RedisClient(server.address).command("SAVE")
        run.report(Report("first", completions=(Completion(0, 1, b"a"),), ran=1))
        server.stop()
        with pytest.raises(StorageError):
            run.beat("first", 1)
        server.start()
        assert run.beat("first", 1).status is Status.GONE

    def test_a_call_that_failed_is_none_that_was_lost(self, start_server: StartServer) -> None:
        server = start_server()
        run = storage_at(server, patience_s=0.2).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        RedisClient(server.address).command("SAVE")
        server.stop()
        with pytest.raises(StorageError):
            run.report(Report("first", ran=1))
        server.start()
        assert run.report(Report("first", ran=1)).status is Status.RUNNING

    def test_a_redis_that_comes_back_with_all_it_had_answered_goes_on(self, start_server: StartServer) -> None:
        server = start_server()
        run = storage_at(server).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        run.report(Report("first", completions=(Completion(0, 1, b"a"),), ran=1))
        RedisClient(server.address).command("SAVE")
        server.stop()
        server.start()
        assert run.report(Report("first", completions=(Completion(1, 1, b"b"),), ran=1)).status is Status.RUNNING
        assert run.progress().ran == 2

    def test_a_redis_that_stays_away_is_given_up_and_named(self, start_server: StartServer) -> None:
        server = start_server()
        run = storage_at(server, patience_s=0.2).coordination("run")
        run.create(SPEC, [9], [])
        server.stop()
        with pytest.raises(StorageError, match=r"cannot connect to Redis at unix:///.*; \d+ attempts in"):
            run.report(Report("first", ran=1))

    def test_a_redis_that_stands_still_is_asked_again(self, start_server: StartServer) -> None:
        server = start_server()
        assert server.pid is not None
        waiting = Waiting()
        client = RedisClient(server.address, timeout_s=0.1, backoff=waiting.backoff(patience_s=60))
        waiting.after(2, lambda: os.kill(server.pid or 0, signal.SIGCONT))
        os.kill(server.pid, signal.SIGSTOP)
        assert client.command("PING") == b"PONG"
        assert len(waiting.pauses_s) >= 2

    def test_a_first_question_is_not_asked_for_long(self, start_server: StartServer) -> None:
        server = start_server()
        storage = storage_at(server, patience_s=1000)
        server.stop()
        with pytest.raises(StorageError, match="is it running, and is the address right"):
            storage.ping()


class TestCallers:
    def test_what_was_answered_is_told_by_the_next_call_whoever_makes_it(self) -> None:
        callers = Callers()
        with callers.one() as first, callers.one() as second:
            assert (first.known, second.known) == (b"", b"")
        with callers.one() as third:
            assert told(third) == {first.name: 1, second.name: 1}
        with callers.one() as fourth:
            assert told(fourth) == {third.name: 2}

    def test_what_a_call_told_is_told_again_if_it_failed(self) -> None:
        callers = Callers()
        with callers.one() as first:
            pass
        for call in (2, 3):
            with pytest.raises(StorageError), callers.one() as failing:
                raise StorageError("away")
            assert (failing.name, failing.call, told(failing)) == (first.name, call, {first.name: 1})
        with callers.one() as last:
            assert (last.call, told(last)) == (4, {first.name: 1})

    def test_what_is_answered_while_an_earlier_call_of_the_same_name_is_told_is_told_later(self) -> None:
        callers = Callers()
        with callers.one() as first:
            pass
        with ExitStack() as stack:
            slow = stack.enter_context(callers.one())  # takes the name of the first
            with callers.one() as beside:
                stack.close()  # `slow` is answered while `beside`, which tells of the first, is under way
        assert told(beside) == {first.name: 1}
        with callers.one() as last:
            assert told(last) == {first.name: 2, beside.name: 1}
        assert slow.name == first.name


def told(caller: Caller) -> dict[bytes, int]:
    return dict(struct.iter_unpack(">8sI", caller.known))


class TestFailover:
    """A primary and its replica behind one address, here a link to a socket."""

    @pytest.fixture
    def pair(self, start_server: StartServer, short_folder: Path) -> tuple[RedisServer, RedisServer, Path]:
        primary = start_server("primary", port=str(free_port()))
        replica = start_server("replica")
        port = RedisClient(primary.address).command("CONFIG", "GET", "port")[1]
        RedisClient(replica.address).command("REPLICAOF", "127.0.0.1", port)
        link = short_folder / "current"
        link.symlink_to(primary.socket_path)
        return primary, replica, link

    def test_calls_go_to_the_replica_once_it_is_the_primary(
        self,
        pair: tuple[RedisServer, RedisServer, Path],
        when_refused: Callable[[Callable[[], object]], Waiting],
    ) -> None:
        primary, replica, link = pair
        promoted = RedisClient(replica.address)
        waiting = when_refused(lambda: promoted.command("REPLICAOF", "NO", "ONE"))
        run = RedisStorage(StorageConfig(redis=f"unix://{link}")).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        wait_for_replica(primary)
        primary.stop()
        link.unlink()
        link.symlink_to(replica.socket_path)
        outcome = run.report(Report("first", completions=(Completion(0, 1, b"a", consumers=(Consumer(2, 1),)),), ran=1))
        assert outcome.ready == (2,)
        assert len(waiting.pauses_s) >= 3

    def test_a_replica_that_stays_one_is_told_of(self, pair: tuple[RedisServer, RedisServer, Path]) -> None:
        primary, replica, _ = pair
        RedisStorage(StorageConfig(redis=primary.address)).coordination("run").create(SPEC, [9], [])
        wait_for_replica(primary)
        run = storage_at(replica, patience_s=0.2).coordination("run")
        with pytest.raises(StorageError, match=r"read-only replica: use the address of the primary.*\d+ attempts"):
            run.report(Report("first", ran=1))


def wait_for_replica(primary: RedisServer) -> None:
    """Until the replica has all that was written so far: Redis waits for what the same connection wrote."""
    assert RedisClient(primary.address).pipeline([("SET", "last", "write"), ("WAIT", 1, 60_000)])[1] == 1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize(
    "error",
    [
        exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        exceptions.ResponseError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN"),
        exceptions.TryAgainError("Multiple keys request during rehashing of slot"),
        exceptions.ClusterDownError("The cluster is down"),
        exceptions.MasterDownError("Link with MASTER is down and replica-serve-stale-data is set to 'no'"),
        exceptions.ResponseError("UNBLOCKED force unblock from blocking operation, instance state changed"),
        exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."),
        exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        exceptions.ResponseError("Error running script: @user_script:1: @user_script: 1: -OOM command not allowed"),
        exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots, but it cannot persist on disk"),
        exceptions.TimeoutError("Timeout reading from socket"),
        exceptions.ConnectionError("max number of clients reached"),
    ],
    ids=lambda error: str(error)[:20],
)
def test_what_may_pass_is_waited_for(
    error: exceptions.RedisError, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, left = Waiting(), [error, error]
    receive = redis_client._receive

    def receive_or_refuse(connection: Any) -> Any:
        reply = receive(connection)
        return left.pop() if left else reply

    monkeypatch.setattr(redis_client, "_receive", receive_or_refuse)
    client = RedisClient(redis_server.address, backoff=waiting.backoff(patience_s=10))
    assert client.command("PING") == b"PONG"
    assert waiting.pauses_s == [0.05, 0.1]


@pytest.mark.parametrize(
    ("error", "most_s"),
    [
        (exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), 5),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), 0),
        (exceptions.NoPermissionError("this user has no permissions"), 0),
    ],
    ids=["full", "wrong type", "not allowed"],
)
def test_what_hardly_passes_is_waited_for_briefly_or_not_at_all(
    error: exceptions.RedisError, most_s: float, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, receive = Waiting(), redis_client._receive
    monkeypatch.setattr(redis_client, "_receive", lambda connection: (receive(connection), error)[1])
    with pytest.raises(StorageError):
        RedisClient(redis_server.address, backoff=waiting.backoff(patience_s=1000)).command("PING")
    assert sum(waiting.pauses_s) <= most_s
    assert bool(waiting.pauses_s) == (most_s > 0)


class TestFullRedis:
    def test_the_end_of_a_run_is_told_all_the_same(self, start_server: StartServer) -> None:
        server = start_server()
        run = storage_at(server, patience_s=0.05).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        RedisClient(server.address).command("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StorageError, match=r"is full \(maxmemory\)"):
            run.report(Report("first", completions=(Completion(0, 1, b"a"),), ran=1))
        run.leave(SUMMARY)
        assert run.fail(Status.FAILED, b"full")
        assert run.read(CLIENT, "0", 0)[1] == [WorkerLeft(SUMMARY), RunEnded(Status.FAILED, b"full")]
        assert run.read("first", "0", 0)[1] == [Stop(Status.FAILED)]

    def test_a_run_that_is_over_can_be_taken_and_makes_room(self, start_server: StartServer) -> None:
        server = start_server()
        run = storage_at(server, patience_s=0.05).coordination("run")
        run.create(SPEC, [9], [claim("first", 0)])
        run.report(Report("first", completions=(Completion(0, 1, b"a", keep=True), Completion(9, 1, b"r", sink=True))))
        RedisClient(server.address).command("CONFIG", "SET", "maxmemory", 1)
        run.prune()
        assert run.outputs([0, 9]) == {9: Stored(1, b"r")}
        assert run.follow()
        assert not run.unfollow(keep=True)
        assert run.unfollow(creator=False)

    def test_room_that_is_made_in_time_saves_the_call(
        self, start_server: StartServer, when_refused: Callable[[Callable[[], object]], Waiting]
    ) -> None:
        server = start_server()
        admin = RedisClient(server.address)
        when_refused(lambda: admin.command("CONFIG", "SET", "maxmemory", 0))
        storage = storage_at(server)
        storage.objects("run").create()
        admin.command("CONFIG", "SET", "maxmemory", 1)
        storage.objects("run").put("o1", Blob([b"x" * 1000]))
        assert storage.objects("run").get(["o1"]) == {"o1": b"x" * 1000}


class TestEviction:
    @pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "allkeys-random", "volatile-ttl"])
    def test_a_redis_that_may_evict_is_refused(self, start_server: StartServer, policy: str) -> None:
        server = start_server(**{"maxmemory": "100mb", "maxmemory-policy": policy})
        with pytest.raises(StorageError, match=rf"may delete data of runs .*{policy}.*: set it to noeviction"):
            storage_at(server).ping()

    def test_a_redis_that_does_not_evict_is_taken(self, start_server: StartServer) -> None:
        storage_at(start_server(maxmemory="100mb")).ping()

    def test_a_policy_without_a_limit_never_acts(self, start_server: StartServer) -> None:
        storage_at(start_server(**{"maxmemory-policy": "allkeys-lru"})).ping()

    def test_a_user_who_may_not_ask_is_not_refused(self, start_server: StartServer) -> None:
        server = start_server()
        RedisClient(server.address).command("ACL", "SETUSER", "worker", "on", ">pw", "~augury:*", "+@all", "-info")
        address = server.address.replace("unix://", "unix://worker:pw@")
        RedisStorage(StorageConfig(redis=address)).ping()


@pytest.mark.parametrize(
    ("patience_s", "timeout_s"), [(0.1, 3.0), (4.0, 3.0), (10.0, 5.0), (30.0, 15.0), (3600.0, 20.0)]
)
def test_an_answer_is_waited_for_no_longer_than_patience_lasts(patience_s: float, timeout_s: float) -> None:
    assert timeout_within(patience_s) == timeout_s


def test_a_redis_that_stands_still_is_told_once_patience_ends(start_server: StartServer) -> None:
    server = start_server()
    run = RedisStorage(StorageConfig(redis=server.address, patience_s=0.1, timeout_s=0.2)).coordination("r")
    assert run.status() is Status.GONE
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StorageError, match="did not answer in time"):
            run.status()
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert run.status() is Status.GONE


@pytest.fixture
def mute_port() -> Iterator[int]:
    """A port where calls are taken, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize("gateway", [None, "http://127.0.0.1:1"])
def test_the_first_question_of_a_client_has_a_time_of_its_own(
    mute_port: int, gateway: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "_FIRST_ANSWER_S", 0.05)
    asking = Client(redis=f"redis://127.0.0.1:{mute_port}", gateway=gateway, observers=[], history=False)
    with asking, pytest.raises(StorageError, match="did not answer in time"):
        asking.compute(same(1))


@pytest.mark.parametrize(("scheme", "asked"), [("rediss", True), ("redis", False)])
def test_whether_a_redis_that_says_nothing_speaks_tls_is_asked(mute_port: int, scheme: str, asked: bool) -> None:
    mute = RedisClient(f"{scheme}://127.0.0.1:{mute_port}", timeout_s=0.05, backoff=Waiting().backoff(patience_s=0))
    with pytest.raises(StorageError, match="did not answer in time") as caught:
        mute.command("PING")
    assert ("Does it speak TLS?" in str(caught.value)) is asked


def test_a_redis_that_answers_something_else_than_tls_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"-ERR unknown command\r\n")

        refusing = threading.Thread(target=refuse)
        refusing.start()
        with pytest.raises(StorageError, match="does not speak TLS: does it listen for that on another port"):
            RedisClient(f"rediss://127.0.0.1:{listener.getsockname()[1]}").command("PING")
        refusing.join()
