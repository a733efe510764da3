"""The client vanishes: detached runs go on and can be attached to, the others are cancelled; nothing stays for ever."""

import asyncio
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import augury
from augury import Client, Embedded, RunCancelled, RunError, RunLost, SerializationError, task
from augury.config import StorageConfig
from augury.invoke.embedded.folders import make_folder
from augury.run import handle, places
from augury.run.attaching import attach_run
from augury.run.places import KEPT_S, Place, find_place, forget_place, note_place, sweep_places
from augury.storage.opening import open_storage
from augury.storage.protocols import CLIENT, RunEnded, Status
from augury.storage.server import RedisServer
from augury.trust import process_keyring
from augury.trust.folders import state_folder
from tests.embedded.gates import Gate, add, pass_gate, pass_through

PATIENCE_S = 60
ROOT = Path(__file__).parents[2]
VALUE = {"sum": [40 + 40 + 41]}


@task
def fail_at_gate(folder: str) -> None:
    pass_gate(folder)
    raise ValueError("on purpose")


class Picky:
    """Can be loaded where a file is."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return _load_picky, (self.path,)


def _load_picky(path: str) -> str:
    if not Path(path).exists():
        raise ImportError("something is missing here")
    return "loaded"


@task
def picky(path: str) -> Any:
    return Picky(path)


class Submitter:
    """A client in a process of its own, which has submitted a run that is at a gate."""

    def __init__(self, gate: Gate, **told: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.embedded.detached_client", json.dumps({"gate": str(gate.folder), **told})],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        facts = json.loads(self.process.stdout.readline())
        self.run_id: str = facts["run"]
        self.supervisor: int = facts.get("supervisor", self.process.pid)
        self.folder = Path(facts.get("folder", ""))
        self.pidfd = os.pidfd_open(self.supervisor)

    def end(self) -> None:
        """Have it end as it was told."""
        self.process.communicate("end\n", timeout=PATIENCE_S)

    def await_platform_end(self) -> None:
        assert select.select([self.pidfd], [], [], PATIENCE_S)[0]

    def platform_lives(self) -> bool:
        return not select.select([self.pidfd], [], [], 0)[0]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        if self.platform_lives():
            os.kill(self.supervisor, 15)
            self.await_platform_end()
        os.close(self.pidfd)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def submit(gate: Gate) -> Iterator[Callable[..., Submitter]]:
    submitters: list[Submitter] = []

    def start(**told: Any) -> Submitter:
        submitters.append(Submitter(gate, **told))
        gate.await_arrival()
        return submitters[-1]

    yield start
    for submitter in submitters:
        submitter.close()


@pytest.fixture
def client() -> Iterator[Client]:
    """One that only attaches, and so starts nothing."""
    with Client(observers=[]) as client:
        yield client
        assert client._platform is None


class TestDetached:
    @pytest.mark.parametrize("end", ["kill", "raise", "close", "fall off the end"])
    def test_a_run_goes_on_however_its_client_ends(
        self, submit: Callable[..., Submitter], gate: Gate, client: Client, end: str
    ) -> None:
        submitter = submit(end=end)
        submitter.end()
        run = client.attach(submitter.run_id)
        assert run.status == "running"
        assert not run.done()
        gate.open()
        assert run.result(PATIENCE_S) == VALUE
        report = run.report(PATIENCE_S)
        assert (report.name, report.status, report.tasks) == ("detached", "succeeded", 6)

    @pytest.mark.parametrize("end", ["report", "report, kill"])
    def test_a_result_that_nobody_asked_for_is_there_though_its_client_saw_the_end(
        self, submit: Callable[..., Submitter], gate: Gate, client: Client, end: str
    ) -> None:
        submitter = submit(end=end)
        gate.open()
        submitter.end()
        assert client.attach(submitter.run_id).result(PATIENCE_S) == VALUE
        submitter.await_platform_end()

    def test_a_run_that_is_over_is_there_until_somebody_has_its_result(
        self, submit: Callable[..., Submitter], gate: Gate, client: Client
    ) -> None:
        submitter = submit(end="kill")
        submitter.end()
        gate.open()
        for _ in range(2):
            with Client(observers=[]) as other:
                assert other.attach(submitter.run_id).report(PATIENCE_S).status == "succeeded"
        assert client.attach(submitter.run_id).result(PATIENCE_S) == VALUE
        submitter.await_platform_end()
        with pytest.raises(RunLost):
            client.attach(submitter.run_id)

    def test_several_follow_a_run_beside_its_client(
        self, submit: Callable[..., Submitter], gate: Gate, client: Client
    ) -> None:
        submitter = submit(end="result")
        runs = [client.attach(submitter.run_id) for _ in range(3)]
        threading.Thread(target=gate.open).start()
        submitter.end()
        assert [run.result(PATIENCE_S) for run in runs] == [VALUE] * 3
        assert submitter.process.returncode == 0
        for run in runs:
            run.report(PATIENCE_S)
        # Everybody has the result: nothing is left, and nobody stays.
        submitter.await_platform_end()
        with pytest.raises(RunLost):
            client.attach(submitter.run_id)

    def test_what_was_measured_is_kept_once(self, submit: Callable[..., Submitter], gate: Gate, client: Client) -> None:
        name = f"measured-{time.time_ns()}"
        submitter = submit(end="kill", name=name)
        submitter.end()
        gate.open()
        runs = [client.attach(submitter.run_id) for _ in range(2)]
        for run in runs:
            run.report(PATIENCE_S)
        assert client._history is not None
        records = client._history.load(name)
        assert records.runs == 1
        assert sum(len(series) for series in records.series if series.name == "mark") == 2

    def test_a_run_can_be_cancelled_by_who_attached(self, submit: Callable[..., Submitter], client: Client) -> None:
        submitter = submit(end="kill")
        submitter.end()
        run = client.attach(submitter.run_id)
        assert run.cancel()
        with pytest.raises(RunCancelled):
            run.result(PATIENCE_S)
        run.report(PATIENCE_S)

    def test_the_platform_ends_some_time_after_its_runs(
        self, submit: Callable[..., Submitter], gate: Gate, client: Client
    ) -> None:
        submitter = submit(end="kill", linger_s=0)
        submitter.end()
        gate.open()
        submitter.await_platform_end()
        assert not submitter.folder.exists()
        with pytest.raises(RunLost, match="the embedded platform that it ran on has ended"):
            client.attach(submitter.run_id)
        with pytest.raises(RunLost, match="not known on this machine"):
            client.attach(submitter.run_id)

    def test_a_result_in_a_redis_of_the_users_outlives_the_platform(
        self, submit: Callable[..., Submitter], gate: Gate, client: Client, tmp_path: Path
    ) -> None:
        with RedisServer(tmp_path / "redis") as server:
            submitter = submit(end="kill", linger_s=0, redis=server.address)
            submitter.end()
            gate.open()
            submitter.await_platform_end()
            run = client.attach(submitter.run_id)
            assert run.result(PATIENCE_S) == VALUE
            run.report(PATIENCE_S)

    def test_a_client_that_has_the_result_leaves_nothing_behind(
        self, submit: Callable[..., Submitter], gate: Gate
    ) -> None:
        submitter = submit(end="result")
        gate.open()
        submitter.end()
        submitter.await_platform_end()
        assert not submitter.folder.exists()
        assert not (state_folder() / "runs" / submitter.run_id).exists()

    def test_a_closed_client_says_how_to_go_on(self, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
        client = Client(platform=Embedded(slots=1, linger_s=0), observers=[], history=False)
        run = client.submit(pass_through(1, str(gate.folder)))
        gate.await_arrival()
        client.close()
        assert re.search(rf"stays for runs that go on without this client: {run.run_id}; augury\.attach", caplog.text)
        with pytest.raises(RunError, match=rf"goes on: augury\.attach\('{run.run_id}'\)\.result\(\)"):
            run.result()
        assert (run.status, run.done()) == ("detached", True)
        with pytest.raises(RunError, match=rf"goes on: augury\.attach\('{run.run_id}'\)"):
            run.cancel()
        attached = augury.attach(run.run_id)
        gate.open()
        assert attached.result(PATIENCE_S) == 1

    def test_a_run_that_was_cancelled_does_not_go_on(self, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
        client = Client(platform=Embedded(slots=1), observers=[], history=False)
        run = client.submit(pass_through(1, str(gate.folder)))
        gate.await_arrival()
        assert run.cancel()
        client.close()
        assert "go on" not in caplog.text
        assert run.status == "cancelled"
        with pytest.raises(RunCancelled):
            run.result()
        with pytest.raises(RunLost, match="not known on this machine"):
            augury.attach(run.run_id)

    def test_who_only_looks_on_may_go_without_ending_it(
        self, submit: Callable[..., Submitter], gate: Gate, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submitter = submit(end="kill")
        submitter.end()
        run = client.attach(submitter.run_id)
        with monkeypatch.context() as context:
            context.setattr(handle, "wait", lambda *_: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                run.result()

        async def wait_in_vain() -> None:
            await asyncio.wait_for(run, 0.01)

        with pytest.raises(TimeoutError):
            asyncio.run(wait_in_vain())
        gate.open()
        assert client.attach(submitter.run_id).result(PATIENCE_S) == VALUE

    def test_an_error_that_nobody_asked_for_is_there_for_others(self, gate: Gate) -> None:
        with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
            run = client.submit(fail_at_gate(str(gate.folder)))
            gate.await_arrival()
            gate.open()
            run.report(PATIENCE_S)
        with pytest.raises(ValueError, match="on purpose"):
            augury.attach(run.run_id).result(PATIENCE_S)

    def test_a_result_that_cannot_be_loaded_here_is_kept(self, tmp_path: Path) -> None:
        with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
            run = client.submit(picky(str(tmp_path / "there")))
            with pytest.raises(SerializationError, match=rf"it is kept.*augury\.attach\('{run.run_id}'\)"):
                run.result(PATIENCE_S)
            (tmp_path / "there").touch()
            assert client.attach(run.run_id).result(PATIENCE_S) == "loaded"

    def test_a_client_that_cannot_reach_storage_leaves_its_run_alone(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def be_away(*_: object) -> None:
            raise augury.StorageError("Redis is away")

        with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
            run = client.submit(pass_through(1, str(gate.folder)))
            gate.await_arrival()
            monkeypatch.setattr(run._watch._coordination, "read", be_away)
            with pytest.raises(augury.StorageError, match="Redis is away"):
                run.result(PATIENCE_S)
            run.report(PATIENCE_S)
            attached = client.attach(run.run_id)
            assert attached.status == "running"
            gate.open()
            assert attached.result(PATIENCE_S) == 1
            attached.report(PATIENCE_S)
        assert "stays for runs" not in caplog.text

    def test_a_platform_whose_runs_are_all_fetched_ends_with_its_client(
        self, gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
            run = client.submit(pass_through(1, str(gate.folder)))
            gate.await_arrival()
            attached = augury.attach(run.run_id)
            gate.open()
            assert attached.result(PATIENCE_S) == 1
            run.report(PATIENCE_S)
        assert "stays for runs" not in caplog.text

    def test_a_platform_that_is_held_up_has_not_lost_its_runs(
        self, submit: Callable[..., Submitter], gate: Gate, client: Client
    ) -> None:
        submitter = submit(end="kill")
        submitter.end()
        gate.open()
        place = find_place(submitter.run_id)
        assert place is not None
        hidden = Path(place.redis.removeprefix("unix://"))
        moved = hidden.rename(hidden.with_suffix(".moved"))
        with Client(observers=[], patience_s=0.1) as other, pytest.raises(augury.StorageError):
            other.attach(submitter.run_id)
        moved.rename(hidden)
        assert client.attach(submitter.run_id).result(PATIENCE_S) == VALUE

    def test_a_run_that_nobody_could_find_ends_with_its_client(
        self, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path / "file" / "state"))
        client = Client(platform=Embedded(slots=1), observers=[], history=False)
        run = client.submit(pass_through(1, str(gate.folder)))
        gate.await_arrival()
        client.close()
        assert "ends with this client, since no other process could find it" in caplog.text
        assert "stays for runs" not in caplog.text
        with pytest.raises(RunCancelled):
            run.result(PATIENCE_S)


class TestForks:
    def test_a_fork_is_told_that_it_cannot_wait_for_a_run(self, gate: Gate) -> None:
        with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
            run = client.submit(pass_through(1, str(gate.folder)))
            gate.await_arrival()
            told = said_in_fork(lambda: run.result(PATIENCE_S))
            gate.open()
            assert run.result(PATIENCE_S) == 1
            assert "RunError" in told
            assert f"augury.attach('{run.run_id}')" in told
            assert said_in_fork(lambda: run.result(PATIENCE_S)) == "1"

    def test_a_fork_can_use_a_client_whose_platform_another_thread_is_starting(self) -> None:
        with (
            Client(platform=Embedded(slots=1), observers=[], history=False) as client,
            client._lock,  # as long as a platform starts
        ):
            told = said_in_fork(lambda: client.compute(add(1, 2)))
        assert told == "3"

    def test_a_fork_has_a_platform_of_its_own_which_stays_for_its_runs(
        self, redis_server: RedisServer, gate: Gate
    ) -> None:
        def submit_and_vanish() -> str:
            run = parent.submit(pass_through(7, str(gate.folder)))
            gate.await_arrival()
            return run.run_id

        with Client(redis=redis_server.address, platform=Embedded(slots=1), observers=[], history=False) as parent:
            parent.compute(add(1, 2))
            run_id = said_in_fork(submit_and_vanish)
        gate.open()
        assert augury.attach(run_id).result(PATIENCE_S) == 7


def said_in_fork(ask: Callable[[], object]) -> str:
    """What a fork of this process says of something, or the error that it got."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(ask())
        except BaseException as error:  # noqa: BLE001 - a fork must never go on with the tests
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    try:
        assert select.select([reading], [], [], PATIENCE_S)[0], "the fork says nothing"
        return os.read(reading, 4096).decode()
    finally:
        os.close(reading)
        os.kill(child, 9)
        os.waitpid(child, 0)


class TestNotDetached:
    @pytest.mark.parametrize("end", ["kill", "close"])
    def test_a_run_is_cancelled_with_its_client_and_no_queued_worker_starts(
        self, submit: Callable[..., Submitter], gate: Gate, tmp_path: Path, end: str
    ) -> None:
        with RedisServer(tmp_path / "redis") as server:
            submitter = submit(end=end, detach=False, redis=server.address)
            storage = open_storage(StorageConfig(redis=server.address))
            run = storage.coordination(submitter.run_id)
            assert run.status() is Status.RUNNING
            submitter.end()
            submitter.await_platform_end()
            assert run.status() in (Status.CANCELLED, Status.GONE)
            storage.close()
        assert not list(gate.folder.glob("ran-*"))

    def test_its_run_cannot_be_attached_to(self, gate: Gate) -> None:
        with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
            run = client.submit(pass_through(1, str(gate.folder)), detach=False)
            gate.await_arrival()
            with pytest.raises(RunLost, match="not known on this machine"):
                client.attach(run.run_id)
            gate.open()
            assert run.result(PATIENCE_S) == 1


class TestGateways:
    """A platform of its own, which does not end with any client."""

    @pytest.fixture
    def addresses(self, tmp_path: Path) -> Iterator[dict[str, str]]:
        with (
            RedisServer(tmp_path / "redis") as server,
            Embedded(slots=2).start(redis=server.address) as platform,
        ):
            yield {"redis": server.address, "gateway": platform.url, "token": platform.token}

    def test_a_detached_run_goes_on_and_is_found_by_its_addresses(
        self, submit: Callable[..., Submitter], gate: Gate, addresses: dict[str, str]
    ) -> None:
        submitter = submit(end="kill", **addresses)
        submitter.end()
        run = augury.attach(submitter.run_id, **addresses)
        gate.open()
        assert run.result(PATIENCE_S) == VALUE
        run.report(PATIENCE_S)

    def test_a_run_that_is_not_there_says_so(self, addresses: dict[str, str]) -> None:
        with pytest.raises(RunLost, match="is not in storage"):
            augury.attach("0123456789abcdef", **addresses)

    def test_a_run_that_is_not_detached_is_cancelled_some_time_after_its_client(
        self, submit: Callable[..., Submitter], gate: Gate, addresses: dict[str, str]
    ) -> None:
        submitter = submit(end="kill", detach=False, client_s=1.0, **addresses)
        storage = open_storage(StorageConfig(redis=addresses["redis"]))
        run = storage.coordination(submitter.run_id)
        cursor, _ = run.read(CLIENT, "0", 0)
        submitter.end()
        _, events = run.read(CLIENT, cursor, PATIENCE_S)
        assert RunEnded(Status.CANCELLED) in events
        assert run.status() is Status.CANCELLED
        storage.close()
        assert not list(gate.folder.glob("ran-*"))

    def test_a_run_that_ends_with_its_client_cannot_be_attached_to(
        self, submit: Callable[..., Submitter], addresses: dict[str, str]
    ) -> None:
        submitter = submit(end="close", detach=False, **addresses)
        with pytest.raises(RunError, match=r"ends with the client that started it.*submit\(…, detach=True\)"):
            augury.attach(submitter.run_id, **addresses)
        submitter.end()
        with pytest.raises(RunLost):
            augury.attach(submitter.run_id, **addresses)


class TestUnknown:
    def test_a_run_that_nobody_knows(self, client: Client) -> None:
        with pytest.raises(RunLost, match=r"run 0123456789abcdef is not known on this machine.*redis=…, gateway=…"):
            client.attach("0123456789abcdef")

    @pytest.mark.parametrize("run_id", ["", "../../etc/passwd", "a b", "x" * 65])
    def test_what_is_no_id(self, client: Client, run_id: str) -> None:
        with pytest.raises(RunLost, match="is not the id of a run"):
            client.attach(run_id)

    def test_what_is_no_str(self, client: Client) -> None:
        with pytest.raises(augury.DefinitionError, match="attach takes the id of a run"):
            client.attach(7)  # type: ignore[arg-type]


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state" / "runs"


def place(run_id: str, **changed: Any) -> Place:
    known = Place(
        run_id=run_id,
        redis="unix:///nowhere",
        owns_storage=True,
        gateway="http://127.0.0.1:1",
        token="s3cret",
        platform="embedded",
        folder="/",
        made_s=time.time(),
    )
    return msgspec.structs.replace(known, **changed)


class TestPlaces:
    def test_only_the_user_may_read_where_runs_are(self, own_state: Path) -> None:
        note_place(place("a1"))
        assert find_place("a1") is not None
        assert stat.S_IMODE(own_state.stat().st_mode) == 0o700
        assert stat.S_IMODE((own_state / "a1").stat().st_mode) == 0o600

    def test_secrets_do_not_show(self) -> None:
        assert "s3cret" not in repr(place("a1"))

    def test_what_cannot_be_there_any_more_is_swept_and_the_rest_stays(self, own_state: Path, tmp_path: Path) -> None:
        note_place(place("lives"))
        note_place(place("platform-gone", folder=str(tmp_path / "gone")))
        note_place(place("lives-long", made_s=time.time() - KEPT_S - 1))
        note_place(place("clock-was-wrong", made_s=time.time() + KEPT_S + 1))
        note_place(place("old", folder=str(tmp_path / "gone"), owns_storage=False, made_s=time.time() - KEPT_S - 1))
        note_place(place("redis-of-its-own", folder=str(tmp_path / "gone"), owns_storage=False))
        (own_state / "broken").write_text("{")
        (own_state / "old-broken").write_text("{")
        os.utime(own_state / "old-broken", (0, 0))
        sweep_places()
        stay = {"lives", "lives-long", "clock-was-wrong", "redis-of-its-own", "broken"}
        assert {path.name for path in own_state.iterdir()} == stay

    def test_what_cannot_be_looked_at_keeps_nothing_else(
        self, own_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for run_id in ("a", "b", "c"):
            note_place(place(run_id, folder=str(tmp_path / "gone")))
        unlink = Path.unlink

        def refuse_b(path: Path, missing_ok: bool = False) -> None:
            if path.name == "b":
                raise PermissionError
            unlink(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", refuse_b)
        sweep_places()
        assert {path.name for path in own_state.iterdir()} == {"b"}

    def test_where_there_is_no_state_folder_there_is_nothing_to_forget(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def have_none() -> Path:
            raise augury.StorageError("there is no home to keep records in")

        monkeypatch.setattr(places, "state_folder", have_none)
        forget_place("a1")
        sweep_places()

    def test_where_there_is_nothing_nothing_is_swept(self, own_state: Path) -> None:
        sweep_places()
        assert not own_state.exists()

    def test_what_names_no_folder_that_could_be_is_over(self, own_state: Path) -> None:
        nowhere = place("a1", folder="/" + "x" * 300)
        note_place(nowhere)
        with pytest.raises(RunLost, match="the embedded platform that it ran on has ended"):
            find_place("a1")
        note_place(nowhere)
        sweep_places()
        assert list(own_state.iterdir()) == []

    def test_what_is_nested_too_deeply_tells_of_no_run(self, own_state: Path) -> None:
        note_place(place("a1"))
        deep = "[" * 100_000 + "]" * 100_000
        (own_state / "a1").write_text((own_state / "a1").read_text().replace("{", f'{{"more":{deep},', 1))
        assert find_place("a1") is None

    def test_a_run_is_found_however_long_ago_it_began(self, own_state: Path) -> None:
        began = place("a1", made_s=time.time() - KEPT_S - 1)
        note_place(began)
        assert find_place("a1") == began

    def test_a_folder_that_others_may_write_to_is_refused(self, own_state: Path) -> None:
        note_place(place("a1"))
        own_state.chmod(0o777)
        with pytest.raises(augury.StorageError, match="others may write"):
            find_place("a1")

    def test_a_platform_that_died_has_lost_its_runs(self, own_state: Path, client: Client, tmp_path: Path) -> None:
        folder, lock = make_folder(tmp_path)
        note_place(place("a1", folder=str(folder)))
        assert find_place("a1") is not None
        os.close(lock)  # as when all who hold it are killed, and cannot remove the folder
        with pytest.raises(RunLost, match="the embedded platform that it ran on has ended"):
            client.attach("a1")
        assert not (own_state / "a1").exists()

    def test_a_platform_that_dies_meanwhile_has_too(self, own_state: Path, tmp_path: Path) -> None:
        folder, lock = make_folder(tmp_path)
        known = place("a1", folder=str(folder), redis=f"unix://{folder}/none")
        os.close(lock)
        with pytest.raises(RunLost, match="the embedded platform that it ran on has died"):
            attach_run(known, process_keyring(), [], None, patience_s=0.1)
