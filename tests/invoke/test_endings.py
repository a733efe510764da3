"""Whoever dies, however it dies: no process, socket, file or control group stays."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from augury.errors import GatewayError
from augury.invoke.embedded.folders import make_folder, remove_folder, sweep_folders
from augury.invoke.embedded.mounts import mount_memory, unmount
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.invoke.http_gateway import HttpGateway
from augury.storage.protocols import RunEnded, WorkerLeft
from augury.storage.server import RedisServer
from tests.invoke.stage import (
    ROOT,
    Stage,
    begin_run,
    can_use_groups,
    embedded,
    events_of,
    family,
    groups_of,
    invocation,
    leftovers,
    lives,
    make_stage,
    settle,
    wait_until,
    zygote_of,
)

__all__ = ["make_stage"]


class Client:
    """A client in a process of its own, whose platform has a busy worker with subprocesses, and an idle one."""

    def __init__(self, stage: Stage) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.invoke.client_script"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.facts = json.loads(self.process.stdout.readline())
        self.supervisor = int(self.facts["supervisor"])
        gateway = HttpGateway(self.facts["url"], self.facts["token"])
        gateway.invoke([invocation("idle"), invocation("busy")])
        busy, idle = stage.next(), stage.next()
        idle.finish()
        busy.order("spawn", "shared")
        busy.order("spawn", "own")
        gateway.close()
        self.family = family(self.supervisor)

    def leftovers(self) -> list[str]:
        folder = Path(self.facts["redis"].removeprefix("unix://")).parent
        found = [path for path in (folder, Path(self.facts["object_dir"])) if path.exists()]
        return [*map(str, found), *groups_of(folder)]

    def close(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()
        for pid in self.family:
            if lives(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(name="client")
def start_client(stage: Stage) -> Iterator[Client]:
    client = Client(stage)
    yield client
    client.close()


def all_gone(client: Client) -> None:
    wait_until(lambda: not any(map(lives, client.family)), "all processes of the platform are gone")


def test_the_platform_has_the_processes_that_these_tests_speak_of(client: Client) -> None:
    # the supervisor, Redis, the pre-loaded parent, two workers, two subprocesses
    assert len(client.family) == 7
    assert len(client.leftovers()) >= 2 + can_use_groups()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_stays_when_the_client_dies(client: Client, number: signal.Signals) -> None:
    os.killpg(client.process.pid, number)  # as a terminal does
    client.process.wait()
    all_gone(client)
    wait_until(lambda: not client.leftovers(), "files and control groups are gone")


def test_nothing_stays_when_the_client_ends_without_closing_its_platform(client: Client) -> None:
    client.process.communicate("")
    assert client.process.returncode == 0
    all_gone(client)
    assert client.leftovers() == []


def test_no_process_stays_when_the_supervisor_is_killed(client: Client) -> None:
    os.kill(client.supervisor, signal.SIGKILL)
    all_gone(client)


def test_the_client_removes_what_a_killed_supervisor_left(client: Client) -> None:
    os.kill(client.supervisor, signal.SIGKILL)
    all_gone(client)
    client.process.communicate("")
    assert client.leftovers() == []


def test_the_next_platform_removes_what_a_killed_platform_left(client: Client) -> None:
    os.kill(client.process.pid, signal.SIGKILL)
    os.kill(client.supervisor, signal.SIGKILL)
    all_gone(client)
    with embedded().start():
        wait_until(lambda: not client.leftovers(), "the leftovers are gone")


def test_no_worker_stays_when_their_parent_is_killed(client: Client) -> None:
    zygote = zygote_of(client.supervisor)
    descendants = family(zygote)
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: not any(map(lives, descendants)), "the workers and their subprocesses are gone")
    assert lives(client.supervisor)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_parent_takes_the_place_of_one_that_is_killed_or_stopped(stage: Stage, number: signal.Signals) -> None:
    with embedded(slots=1).start() as platform:
        run = begin_run(platform, joined=[invocation("a")])
        platform.gateway().invoke([invocation("a"), invocation("b")])
        stage.next()
        killed = zygote_of(platform.pid)
        os.kill(killed, number)
        left, ended = events_of(run, 2)
        assert isinstance(left, WorkerLeft)
        assert isinstance(ended, RunEnded)
        expected = "a: died because the platform's pre-loaded parent process was killed by SIGKILL"
        assert ended.failure.decode() == expected
        queued = stage.next()
        assert queued.worker == "b", "what is queued is not lost"
        queued.finish()
        platform.gateway().invoke([invocation("c")])
        stage.next().finish()
        settle(platform, running=0, queued=0, lost=1)
        assert zygote_of(platform.pid) != killed
    assert leftovers(platform) == []


def _kill_and_await_another(platform_pid: int) -> None:
    killed = zygote_of(platform_pid)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: zygote_of(platform_pid) not in (0, killed), "there is another parent")


def test_parents_that_die_again_and_again_are_the_end_of_the_platform() -> None:
    with embedded(slots=1).start() as platform:
        assert platform.usable
        for _ in range(3):
            _kill_and_await_another(platform.pid)
        os.kill(zygote_of(platform.pid), signal.SIGKILL)
        wait_until(lambda: platform.gateway().status()["broken"], "it is given up")
        with pytest.raises(GatewayError, match="was killed by SIGKILL; start the platform anew"):
            platform.gateway().invoke([invocation("c")])
        assert platform.alive
        assert not platform.usable
    assert leftovers(platform) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_supervisor_takes_the_place_of_one_that_is_killed_or_stopped(
    stage: Stage, redis_server: RedisServer, number: signal.Signals
) -> None:
    with embedded(slots=1).start(redis=redis_server.address, patience_s=0.1) as platform:
        killed, url = platform.pid, platform.url
        kept = Path(platform.storage_config.object_dir) / "kept"
        kept.write_text("a large output")
        platform.gateway().invoke([invocation("a")])
        puppet = stage.next()
        os.kill(killed, number)
        puppet.wait_for_the_end()
        platform.gateway().invoke([invocation("a", attempt=2)])
        second = stage.next()
        assert platform.pid != killed
        assert second.facts["gateway_url"] == platform.url == url
        assert kept.read_text() == "a large output"
        assert platform.alive
        assert platform.deaths == 1
        second.finish()
    assert not kept.exists()
    assert groups_of(platform.folder) == []


def test_a_parent_that_is_stopped_ends_with_its_supervisor(redis_server: RedisServer) -> None:
    with embedded(slots=1).start(redis=redis_server.address) as platform:
        zygote = zygote_of(platform.pid)
        os.kill(zygote, signal.SIGSTOP)
        os.kill(platform.pid, signal.SIGKILL)
        wait_until(lambda: not lives(zygote), "it is gone")


def test_a_supervisor_that_dies_again_and_again_is_given_up(redis_server: RedisServer) -> None:
    with embedded(slots=1).start(redis=redis_server.address) as platform:
        for _ in range(3):
            _kill_supervisor(platform)
            assert platform.usable
        os.kill(platform.pid, signal.SIGKILL)
        wait_until(lambda: not platform.alive, "it is given up")
        assert not platform.usable
    assert not platform.folder.exists()


def _kill_supervisor(platform: EmbeddedPlatform) -> None:
    killed = platform.pid
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: platform.pid != killed, "another one is ready")


def test_closing_ends_the_busy_and_the_idle(stage: Stage) -> None:
    platform = embedded().start()
    platform.gateway().invoke([invocation("a"), invocation("b")])
    stage.next().finish()
    stage.next()
    pids = family(platform.pid)
    platform.close()
    assert not any(map(lives, pids))
    assert leftovers(platform) == []


def test_a_supervisor_that_is_stopped_with_all_that_it_started_ends_with_all_of_it(stage: Stage) -> None:
    with embedded(slots=1).start(patience_s=0.1) as platform:
        platform.gateway().invoke([invocation("a")])
        stage.next()
        pids = family(platform.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: not platform.alive, "it is noticed")
        wait_until(lambda: not any(map(lives, pids)), "all processes of the platform are gone")


def test_closing_ends_a_supervisor_that_is_stopped() -> None:
    platform = embedded().start()
    os.kill(platform.pid, signal.SIGSTOP)
    platform.close()
    assert platform._process.returncode == 0
    assert leftovers(platform) == []


def test_closing_ends_a_parent_that_is_stopped() -> None:
    platform = embedded().start()
    zygote = zygote_of(platform.pid)
    os.kill(zygote, signal.SIGSTOP)
    platform.close()
    assert not lives(zygote)
    assert platform._process.returncode == 0
    assert leftovers(platform) == []


def test_a_fork_of_the_client_neither_ends_the_platform_nor_keeps_it_alive(stage: Stage) -> None:
    platform = embedded().start()
    block_read, block_write = os.pipe()
    done_read, done_write = os.pipe()
    child = os.fork()
    if child == 0:
        platform.close()
        answers = platform.gateway().limits() == platform.limits
        os.write(done_write, b"1" if answers else b"0")
        os.close(block_write)
        os.read(block_read, 1)
        os._exit(0)
    try:
        assert os.read(done_read, 1) == b"1"
        assert platform.gateway().limits() == platform.limits
        pids = family(platform.pid)
        platform.close()
        assert not any(map(lives, pids))
    finally:
        for descriptor in (block_read, block_write, done_read, done_write):
            os.close(descriptor)
        os.waitpid(child, 0)


def test_sweeping_leaves_alone_what_is_locked_and_what_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    held, lock = make_folder(tmp_path)
    left, left_lock = make_folder(tmp_path)
    os.close(left_lock)
    of_others = tmp_path / "augury-notes"
    of_others.mkdir(0o700)
    sweep_folders()
    assert sorted(tmp_path.iterdir()) == sorted([held, of_others])
    os.close(lock)
    assert not left.exists()


@pytest.fixture
def may_mount(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.mkdir()
    if not mount_memory(probe):
        pytest.skip("only root may mount file systems")
    unmount(probe)
    probe.rmdir()


@pytest.mark.usefixtures("may_mount")
def test_a_folder_in_memory_has_large_pages_and_leaves_nothing(tmp_path: Path) -> None:
    folder, lock = make_folder(tmp_path, in_memory=True)
    try:
        (described,) = [line for line in Path("/proc/mounts").read_text().splitlines() if f" {folder} " in line]
        assert "huge=within_size" in described
        assert folder.stat().st_mode & 0o777 == 0o700
        assert os.statvfs(folder).f_blocks == os.statvfs(tmp_path).f_blocks
        (folder / "object").write_bytes(bytes(4 << 20))
    finally:
        remove_folder(folder)
        os.close(lock)
    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text()


@pytest.mark.usefixtures("may_mount")
def test_folders_in_memory_are_swept_once_their_owner_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    held, lock = make_folder(tmp_path, in_memory=True)
    left, left_lock = make_folder(tmp_path, in_memory=True)
    (left / "object").write_bytes(b"large")
    os.close(left_lock)
    try:
        sweep_folders()
        assert held.is_mount()
        assert not left.exists()
    finally:
        remove_folder(held)
        os.close(lock)


def test_who_may_not_mount_gets_a_folder_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("augury.invoke.embedded.mounts._libc", None)
    folder, lock = make_folder(tmp_path, in_memory=True)
    assert not folder.is_mount()
    remove_folder(folder)
    os.close(lock)
    assert not folder.exists()
