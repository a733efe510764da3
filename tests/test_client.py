"""Which client is used, and when its runs end with it, on a platform that a test plays."""

import gc
import multiprocessing
import os
import threading
from multiprocessing.connection import Connection
from typing import Any

import pytest

from augury import Client, PlatformError, RunCancelled, RunError, task
from augury import client as module
from augury.client import current_client
from augury.observation import RunEvent, RunStarted
from augury.run import Run, RunWatch
from augury.run.parting import Parting
from augury.storage.protocols import Status
from tests.played import PlayedPlatform

PATIENCE_S = 30.0


@task
def double(x: int) -> int:
    return 2 * x


def client_on(platform: PlayedPlatform, *observers: Any) -> Client:
    client = Client(observers=observers, history=False)
    client._platform = platform
    return client


def status_of_its_run(platform: PlayedPlatform) -> Status:
    (run_id,) = {invocation.run_id for invocation in platform.stage.invoked}
    return platform.memory.coordination(run_id).status()


def test_ctrl_c_between_the_start_and_the_wait_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(run: Run[Any]) -> None:
        raise KeyboardInterrupt

    platform = PlayedPlatform()
    with client_on(platform) as client, monkeypatch.context() as patched:
        patched.setattr(Run, "result", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.compute(double(1))
        assert status_of_its_run(platform) is Status.GONE


def test_ctrl_c_before_submit_has_returned_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    platform = PlayedPlatform()
    with client_on(platform) as client, monkeypatch.context() as patched:
        patched.setattr(client, "_remember", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.submit(double(1))
        assert status_of_its_run(platform) is Status.GONE
        assert platform.kept == []


@pytest.mark.parametrize("detach", [False, True])
def test_a_run_that_was_starting_when_its_client_was_closed_ends(*, detach: bool) -> None:
    class Closing:
        """Closes the client, as another thread may."""

        def on_event(self, event: RunEvent) -> None:
            if isinstance(event, RunStarted):
                client.close()

    platform = PlayedPlatform()
    client = client_on(platform, Closing())
    with pytest.raises(PlatformError, match="this client is closed"):
        client.submit(double(1), detach=detach)
    assert status_of_its_run(platform) is Status.GONE
    assert platform.kept == []


def test_a_client_that_was_entered_twice_is_left_twice() -> None:
    outside = current_client()
    with client_on(PlayedPlatform()) as client:
        with client:
            assert current_client() is client
        assert current_client() is client
    assert current_client() is outside


def test_what_a_run_came_to_is_known_though_there_is_no_report_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cancelling:
        """Somebody else cancels the run."""

        def on_event(self, event: RunEvent) -> None:
            if isinstance(event, RunStarted):
                platform.memory.coordination(event.run_id).fail(Status.CANCELLED, b"")

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("there is no room for anything")

    platform = PlayedPlatform()
    monkeypatch.setattr(RunWatch, "_tidy_up", fail)
    with client_on(platform, Cancelling()) as client, pytest.raises(RunCancelled):
        client.compute(double(1))


def test_a_run_that_cannot_be_let_go_of_keeps_no_other_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    close, closed = RunWatch.close, []

    def fail_once(watch: RunWatch) -> None:
        closed.append(watch)
        if len(closed) == 1:
            raise RuntimeError("can't create new thread at interpreter shutdown")
        close(watch)

    client = client_on(PlayedPlatform())
    for _ in range(2):
        client.submit(double(1), detach=False)
    monkeypatch.setattr(RunWatch, "close", fail_once)
    client.close()
    assert [watch.value.done() for watch in closed] == [False, True]
    closed[0].end()


class Closable(PlayedPlatform):
    """Notes that it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


class Broken(PlayedPlatform):
    """Cannot be closed."""

    def close(self) -> None:
        raise OSError("on purpose")


def test_clients_that_nobody_closed_are_closed_at_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Closable()
    clients = [client_on(Broken()), client_on(platform), client_on(Broken())]
    run = clients[1].submit(double(1), detach=False)
    monkeypatch.setattr(module, "_clients", clients)
    module._close_all()
    with pytest.raises(RunCancelled):
        run.result(PATIENCE_S)
    assert platform.closed


class Telling(PlayedPlatform):
    """Tells another process when it is closed."""

    def __init__(self, says: Connection) -> None:
        super().__init__()
        self.says = says

    def close(self) -> None:
        self.says.send(os.getpid())


def submit_and_end(client: Client, says: Connection) -> None:
    client._open()
    platform = client._platform = Telling(says)
    client.submit(double(1), detach=False)
    says.send(status_of_its_run(platform).name)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("is_used", [False, True])
def test_clients_are_closed_at_the_end_of_a_process_that_multiprocessing_forked(
    monkeypatch: pytest.MonkeyPatch, *, is_used: bool
) -> None:
    """Also one that the parent had made, and used, for what the child did with it."""
    fork = multiprocessing.get_context("fork")
    hears, says = fork.Pipe(duplex=False)
    platform = Closable()
    client = client_on(platform)
    monkeypatch.setattr(client, "_start_platform", PlayedPlatform)
    if is_used:
        client.submit(double(1))
    child = fork.Process(target=submit_and_end, args=(client, says))
    child.start()
    said = [hears.recv() if hears.poll(PATIENCE_S) else None for _ in range(2)]
    child.join(PATIENCE_S)
    assert said == ["RUNNING", child.pid]
    assert not platform.closed
    client.close()
    assert platform.closed


def test_ctrl_c_at_the_end_of_the_process_leaves_no_platform_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    platforms = [Closable(), Closable()]
    clients = [client_on(platform) for platform in platforms]
    run = clients[0].submit(double(1))
    with monkeypatch.context() as patched:
        patched.setattr(module, "_clients", clients)
        patched.setattr(module, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            module._close_all()
    assert all(platform.closed for platform in platforms)
    with pytest.raises(RunError, match="was closed; the run goes on"):
        run.result(PATIENCE_S)


def test_all_runs_of_all_clients_are_left_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [client_on(PlayedPlatform()) for _ in range(2)]
    runs = [client.submit(double(1), detach=detach) for client in clients for detach in (False, True)]
    together, close = threading.Barrier(len(runs)), RunWatch.close

    def close_together(watch: RunWatch) -> None:
        together.wait(PATIENCE_S)
        close(watch)

    monkeypatch.setattr(RunWatch, "close", close_together)
    monkeypatch.setattr(module, "_CLOSE_S", PATIENCE_S)
    monkeypatch.setattr(module, "_clients", clients)
    module._close_all()
    assert [run.done() for run in runs] == [True] * 4


def test_a_storage_that_is_away_is_not_waited_for_when_a_client_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    back = threading.Event()
    platform = Closable()
    client = client_on(platform)
    for detach in (False, True):
        client.submit(double(1), detach=detach)
    monkeypatch.setattr(RunWatch, "close", lambda watch: back.wait())
    monkeypatch.setattr(module, "_CLOSE_S", 0.0)
    client.close()
    assert platform.closed
    for watch in client._watches:
        watch.cancel()
    back.set()


def test_runs_are_left_though_no_more_threads_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    names: list[str] = []
    leave = Parting.leave

    def note_and_leave(parting: Parting) -> None:
        names.append(threading.current_thread().name)
        leave(parting)

    platform = PlayedPlatform()
    client = client_on(platform)
    runs = [client.submit(double(1)) for _ in range(2)]
    monkeypatch.setattr(Parting, "leave", note_and_leave)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    client.close()
    assert names == ["augury-standby"] * 2
    assert [run.status for run in runs] == ["detached"] * 2


def test_a_client_lives_as_long_as_somebody_watches_its_run() -> None:
    platform = PlayedPlatform()
    run = client_on(platform).submit(double(1))
    gc.collect()
    (client,) = (client for client in module._clients if client._platform is platform)
    assert client._watches == {run._watch}
    run.cancel()
    run.report(PATIENCE_S)
    run._watch.parting.done.result(PATIENCE_S)
    client.close()
    assert client._watches == set()
