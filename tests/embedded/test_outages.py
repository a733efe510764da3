"""Runs while Redis or the platform itself goes away: a right result, or an error that says what happened."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from augury import Client, Embedded, task
from augury.errors import PlatformError, RunLost, StorageError, WorkerLost
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer
from tests.embedded.gates import Gate, add, pass_through
from tests.storage.test_outages import KEEPING

StartServer = Callable[..., RedisServer]
PATIENCE_S = 60


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts a Redis with options of its own."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(RedisServer(tmp_path / "redis", options))


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def open_client() -> Iterator[Callable[..., Client]]:
    with ExitStack() as stack:

        def make(redis: str | None = None, patience_s: float = PATIENCE_S, lease_s: float = 10.0) -> Client:
            client = Client(
                lease_s=lease_s,
                redis=redis,
                platform=Embedded(slots=4, detached_s=1),  # where storage is gone for good, nobody else ends it
                observers=[],
                history=False,
                patience_s=patience_s,
            )
            return stack.enter_context(client)

        yield make


def test_a_run_survives_a_redis_that_is_killed_and_restarted(
    start_server: StartServer, open_client: Callable[..., Client], gate: Gate
) -> None:
    # The task in the middle is at the gate while Redis goes away; before and after it tasks fan out and in.
    server = start_server(**KEEPING)
    first = add(*(add(number, 1) for number in range(8)))
    middle = pass_through(first, str(gate.folder))
    run = open_client(server.address).submit(add(*(add(middle, number) for number in range(8))))
    gate.await_arrival()
    server.stop()
    gate.open()
    server.start()
    assert run.result(PATIENCE_S) == 36 * 8 + 28


def test_a_run_is_lost_with_a_redis_that_comes_back_empty(
    start_server: StartServer, open_client: Callable[..., Client], gate: Gate
) -> None:
    server = start_server()
    client = open_client(server.address)
    run = client.submit(add(pass_through(1, str(gate.folder)), 1))
    gate.await_arrival()
    server.stop()
    server.start()
    with pytest.raises(RunLost, match="is no longer in storage"):
        run.result(PATIENCE_S)
    assert client.compute(add(2, 3)) == 5  # there is a slot, so the worker of the lost run has ended


def test_a_run_ends_with_a_redis_that_does_not_come_back(
    start_server: StartServer, open_client: Callable[..., Client], gate: Gate
) -> None:
    server = start_server()
    run = open_client(server.address, patience_s=0.5).submit(add(pass_through(1, str(gate.folder)), 1))
    gate.await_arrival()
    server.stop()
    with pytest.raises(StorageError, match=r"cannot connect to Redis at unix://.*attempts in"):
        run.result(PATIENCE_S)


def test_a_run_ends_with_a_redis_that_is_full_and_says_so(
    start_server: StartServer, open_client: Callable[..., Client], gate: Gate
) -> None:
    server = start_server(maxmemory="200mb")
    run = open_client(server.address, patience_s=0.5).submit(add(pass_through(1, str(gate.folder)), 1))
    gate.await_arrival()
    RedisClient(server.address).command("CONFIG", "SET", "maxmemory", 1)
    gate.open()
    with pytest.raises(StorageError, match=r"is full \(maxmemory\): remove old runs, or give it more memory"):
        run.result(PATIENCE_S)


def test_a_run_ends_with_a_redis_that_has_become_a_replica_and_says_so(
    start_server: StartServer, open_client: Callable[..., Client], gate: Gate
) -> None:
    # Reading goes on, so nobody would notice who does not write.
    server = start_server()
    run = open_client(server.address, patience_s=0.5, lease_s=1.0).submit(add(pass_through(1, str(gate.folder)), 1))
    gate.await_arrival()
    RedisClient(server.address).command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(StorageError, match="is a read-only replica: use the address of the primary"):
        run.result(PATIENCE_S)


def test_a_run_survives_a_redis_that_stands_still_for_longer_than_leases_last(
    start_server: StartServer, open_client: Callable[..., Client], gate: Gate
) -> None:
    server = start_server()
    run = open_client(server.address, lease_s=0.3).submit(add(pass_through(1, str(gate.folder)), 1))
    gate.await_arrival()
    os.kill(server.pid or 0, signal.SIGSTOP)
    assert not run._watch._over.wait(1.0)
    os.kill(server.pid or 0, signal.SIGCONT)
    gate.open()
    assert run.result(PATIENCE_S) == 2
    assert run.report(PATIENCE_S).invocations == 1


def test_a_redis_that_evicts_is_refused_before_anything_is_started(start_server: StartServer) -> None:
    server = start_server(**{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"})
    with (
        Client(redis=server.address, observers=[], history=False) as client,
        pytest.raises(StorageError, match="set it to noeviction"),
    ):
        client.compute(add(1, 2))


def test_when_the_platforms_own_redis_dies_the_run_is_lost_and_the_next_has_a_new_one(
    open_client: Callable[..., Client], gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_client()
    run = client.submit(add(pass_through(1, str(gate.folder)), 1))
    gate.await_arrival()
    platform = client._open().embedded
    assert platform is not None
    redis_pid = int(facts_of(platform.storage_config.redis)["process_id"])
    os.kill(redis_pid, signal.SIGKILL)
    with pytest.raises(RunLost, match="start it again"):
        run.result(PATIENCE_S)
    platform._process.wait(PATIENCE_S)
    assert client.compute(add(2, 3)) == 5
    run.report(PATIENCE_S)
    assert "could not be tidied up" not in caplog.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_when_the_supervisor_dies_or_freezes_another_takes_its_place_and_the_run_goes_on(
    start_server: StartServer, open_client: Callable[..., Client], gate: Gate, number: signal.Signals
) -> None:
    client = open_client(start_server().address, patience_s=2.0)
    run = client.submit(add(pass_through(1, str(gate.folder)), 1))
    gate.await_arrival()
    platform = client._open().embedded
    assert platform is not None
    os.kill(platform.pid, number)
    gate.await_arrival()
    gate.open()
    assert run.result(PATIENCE_S) == 2
    assert client.compute(add(2, 3)) == 5
    assert client._open().embedded is platform


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_when_the_supervisor_dies_or_freezes_with_its_own_redis_the_run_is_lost_and_the_next_has_a_new_one(
    open_client: Callable[..., Client], gate: Gate, number: signal.Signals
) -> None:
    client = open_client(patience_s=2.0)
    run = client.submit(add(pass_through(1, str(gate.folder)), 1))
    gate.await_arrival()
    platform = client._open().embedded
    assert platform is not None
    os.kill(platform.pid, number)
    with pytest.raises((RunLost, PlatformError)):
        run.result(PATIENCE_S)
    assert client.compute(add(2, 3)) == 5


@task
def kill_the_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    threading.Event().wait(PATIENCE_S)  # for the end, which comes with that of the parent


@pytest.mark.parametrize("own", [True, False])
def test_when_a_task_has_broken_the_platform_the_next_run_has_a_new_one(
    start_server: StartServer, open_client: Callable[..., Client], own: bool
) -> None:
    client = open_client(None if own else start_server().address)
    with pytest.raises(WorkerLost, match="pre-loaded parent process was killed by SIGKILL"):
        client.compute(kill_the_parent())
    assert client.compute(add(2, 3)) == 5


def facts_of(address: str) -> dict[str, str]:
    told: bytes = RedisClient(address).command("INFO", "server")
    lines = (line.partition(":") for line in told.decode().splitlines())
    return {name: value for name, _, value in lines}
