"""Cancelling on real workers: whatever they do, they stop within a second, and no others start."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import augury
from augury import Client, Embedded, Resources, task
from augury.dag.graph import build_workflow
from augury.invoke.embedded.cloud import Constant, Emulation
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.plan.plan import Assignment, Plan
from tests.invoke.stage import lives, settle, wait_until

STOPPED_S = 1.0
"""How long workers may go on after a run was cancelled."""


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(platform=Embedded(slots=2), observers=[]) as client:
        yield client


def platform_of(client: Client) -> EmbeddedPlatform:
    platform = client._open().embedded
    assert platform is not None
    return platform


def each_on_its_own(outputs: Any) -> Plan:
    """A plan by which each task has a worker of its own."""
    graph = build_workflow(outputs).graph
    assignments = tuple(Assignment(worker, Resources()) for worker in range(len(graph)))
    return Plan(fingerprint=graph.fingerprint, planner="by hand", assignments=assignments)


@task
def hold_the_interpreter(folder: Path, number: int) -> None:
    (folder / str(number)).write_text(str(os.getpid()))
    sum(itertools.repeat(0))


@task
def wait_for_ever(folder: Path, number: int) -> None:
    (folder / str(number)).write_text(str(os.getpid()))
    threading.Event().wait()


@task(retries=5, backoff_s=3600)
def fail(folder: Path, number: int) -> None:
    (folder / str(number)).write_text(str(os.getpid()))
    raise OSError("try again in an hour")


def begun(folder: Path) -> list[int]:
    """The processes of the tasks that have begun."""
    return [int(text) for file in folder.iterdir() if (text := file.read_text())]


@pytest.mark.parametrize("busy", [hold_the_interpreter, wait_for_ever, fail], ids=lambda fn: fn.fn.__name__)
def test_workers_stop_within_a_second_and_queued_ones_never_start(client: Client, tmp_path: Path, busy: Any) -> None:
    outputs = [busy(tmp_path, number) for number in range(8)]
    run = client.submit(outputs, plan=each_on_its_own(outputs))
    wait_until(lambda: len(begun(tmp_path)) >= 2, "two tasks have begun")
    cancelled_s = time.monotonic()
    assert run.cancel()
    with pytest.raises(augury.RunCancelled):
        run.result(timeout=10)
    wait_until(lambda: platform_of(client).gateway().status()["running"] == 0, "no worker is busy")
    assert time.monotonic() - cancelled_s < STOPPED_S
    before = len(begun(tmp_path))
    settle(platform_of(client), running=0, queued=0)
    assert client.compute(task(abs)(-1)) == 1
    assert len(begun(tmp_path)) == before


def test_what_holds_the_interpreter_is_killed(client: Client, tmp_path: Path) -> None:
    run = client.submit(hold_the_interpreter(tmp_path, 0))
    wait_until(lambda: begun(tmp_path), "the task has begun")
    run.cancel()
    run.report(timeout=10)
    (pid,) = begun(tmp_path)
    wait_until(lambda: not lives(pid), "its worker is gone")


def test_workers_that_are_starting_do_not_begin(tmp_path: Path) -> None:
    cold = Emulation(cold_start=Constant(1.0))
    with Client(platform=Embedded(slots=2, emulation=cold), observers=[]) as client:
        outputs = [wait_for_ever(tmp_path, number) for number in range(4)]
        run = client.submit(outputs, plan=each_on_its_own(outputs))
        settle(platform_of(client), running=2, queued=2)
        cancelled_s = time.monotonic()
        run.cancel()
        settle(platform_of(client), running=0, queued=0)
        assert time.monotonic() - cancelled_s < STOPPED_S
        assert client.compute(task(abs)(-1)) == 1  # which took a start, as those would have
        assert begun(tmp_path) == []


def test_a_coroutine_that_is_cancelled_cancels_its_run(client: Client, tmp_path: Path) -> None:
    async def main() -> None:
        waiting = asyncio.ensure_future(_awaited(client.submit(wait_for_ever(tmp_path, 0))))
        await asyncio.to_thread(wait_until, lambda: begun(tmp_path), "the task has begun")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    settle(platform_of(client), running=0, queued=0)


def test_a_task_that_is_awaited_ends_with_its_client(client: Client, tmp_path: Path) -> None:
    async def main() -> None:
        with client:
            waiting = asyncio.ensure_future(_awaited(wait_for_ever(tmp_path, 0)))
            await asyncio.to_thread(wait_until, lambda: begun(tmp_path), "the task has begun")
            assert platform_of(client).kept == set()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())


async def _awaited(what: Any) -> Any:
    return await what


def test_a_coroutine_that_is_cancelled_while_its_run_starts(client: Client, tmp_path: Path) -> None:
    class Slow:
        """An argument that takes long to upload."""

        started, go_on = threading.Event(), threading.Event()

        def __reduce__(self) -> Any:
            self.started.set()
            self.go_on.wait()
            return Path, (str(tmp_path),)

    async def main() -> None:
        with client:
            waiting = asyncio.ensure_future(_awaited(wait_for_ever(Slow(), 0)))
            await asyncio.to_thread(Slow.started.wait)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            Slow.go_on.set()
            await asyncio.to_thread(settle, platform_of(client), invocations=1, running=0, queued=0)

    asyncio.run(main())


def test_ctrl_c_stops_the_workers_of_a_gateway_too(tmp_path: Path) -> None:
    """The client's process ends at once, and its platform goes on."""
    folder = tmp_path / "begun"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import itertools, os, sys
            from pathlib import Path
            from augury import Client, WukongPlanner, task

            @task
            def hold_the_interpreter(number):
                Path(sys.argv[4], str(number)).write_text(str(os.getpid()))
                sum(itertools.repeat(0))

            redis, gateway, token = sys.argv[1:]
            client = Client(redis=redis, gateway=gateway, token=token, planner=WukongPlanner(), observers=[])
            client.submit([hold_the_interpreter(number) for number in range(6)]).result()
            """
        ).replace("sys.argv[4]", repr(str(folder)))
    )
    with Embedded(slots=2).start() as platform:
        arguments = [platform.storage_config.redis, platform.url, platform.token]
        process = subprocess.Popen([sys.executable, str(script), *arguments], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: len(begun(folder)) >= 2, "two tasks have begun")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
        assert "KeyboardInterrupt" in stderr
        settle(platform, running=0, queued=0)
        assert len(begun(folder)) == 2


@task
def leave_a_subprocess(pid_file: Path, *, waits: bool = True) -> int:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    pid_file.write_text(f"{os.getpid()} {child.pid}")
    if waits:
        child.wait()
    return os.getpid()


@task
def leave_a_thread(pid_file: Path) -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    pid_file.write_text(str(os.getpid()))
    threading.Event().wait()


@pytest.mark.parametrize("leave", [leave_a_subprocess, leave_a_thread], ids=lambda fn: fn.fn.__name__)
def test_what_a_cancelled_task_has_begun_ends_with_its_process(client: Client, tmp_path: Path, leave: Any) -> None:
    pid_file = tmp_path / "pids"
    run = client.submit(leave(pid_file))
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), "the task has begun")
    run.cancel()
    pids = [int(pid) for pid in pid_file.read_text().split()]
    wait_until(lambda: not any(map(lives, pids)), "the worker is gone, and what its task began")


def test_what_a_task_that_came_to_its_end_has_begun_may_go_on(client: Client, tmp_path: Path) -> None:
    pid_file = tmp_path / "pids"
    worker = client.compute(leave_a_subprocess(pid_file, waits=False))
    assert client.compute(task(os.getpid)()) == worker
    assert all(map(lives, map(int, pid_file.read_text().split())))
