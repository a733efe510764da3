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
from augury.invoke.embedded.folders import make_folder, sweep_folders
from augury.invoke.http_gateway import HttpGateway
from augury.storage.protocols import RunEnded, WorkerLeft
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


def test_runs_are_told_when_the_parent_of_all_workers_is_killed(stage: Stage) -> None:
    with embedded(slots=1).start() as platform:
        running, queued = begin_run(platform, "running"), begin_run(platform, "queued")
        platform.gateway().invoke([invocation("a", "running"), invocation("b", "queued")])
        stage.next()
        os.kill(zygote_of(platform.pid), signal.SIGKILL)
        for run, told in ((running, "a: died because"), (queued, "b: was not started because")):
            left, ended = events_of(run, 2)
            assert isinstance(left, WorkerLeft)
            assert isinstance(ended, RunEnded)
            assert ended.failure.decode() == f"{told} the platform's pre-loaded parent process was killed by SIGKILL"
        with pytest.raises(GatewayError, match="was killed by SIGKILL; start the platform anew"):
            platform.gateway().invoke([invocation("c")])
        settle(platform, running=0, queued=0, lost=2)
    assert leftovers(platform) == []


def test_closing_ends_the_busy_and_the_idle(stage: Stage) -> None:
    platform = embedded().start()
    platform.gateway().invoke([invocation("a"), invocation("b")])
    stage.next().finish()
    stage.next()
    pids = family(platform.pid)
    platform.close()
    assert not any(map(lives, pids))
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
