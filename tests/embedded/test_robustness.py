"""Tasks that behave badly: the run ends, with the right error, and the next one is not harmed."""

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import augury
from augury import Assignment, Client, Embedded, Plan, Resources, task
from augury.dag.graph import build_workflow
from augury.observation import RunEvent, TaskPrinted


@task
def one(*_: Any) -> int:
    return 1


class Listener:
    """Collects what tasks print."""

    def __init__(self) -> None:
        self.printed: list[tuple[str, str]] = []

    def on_event(self, event: RunEvent) -> None:
        if isinstance(event, TaskPrinted):
            self.printed.append((event.label, event.text))


def on_one_worker(outputs: Any, cpus: float) -> Plan:
    graph = build_workflow(outputs).graph
    assignment = Assignment(worker=0, resources=Resources(cpus=cpus))
    return Plan(fingerprint=graph.fingerprint, planner="one", assignments=(assignment,) * len(graph))


def test_an_async_task_that_takes_too_long_is_stopped(client: Client) -> None:
    @task(timeout_s=0.05)
    async def endless() -> None:
        while True:  # noqa: ASYNC110 - never to end is the point
            await asyncio.sleep(0)

    for _ in range(5):
        with pytest.raises(augury.TaskTimeout):
            client.submit(endless()).result(timeout=30)


def test_a_task_that_cannot_be_interrupted_ends_the_run_all_the_same(client: Client) -> None:
    @task(timeout_s=0.05)
    def deaf() -> None:
        while True:
            try:
                time.sleep(0.05)
            except BaseException:  # noqa: BLE001 - as careless code does
                continue

    with pytest.raises(augury.TaskTimeout, match="cannot be interrupted"):
        client.submit(deaf()).result(timeout=30)
    assert client.compute([one() for _ in range(8)]) == [1] * 8


def test_a_task_in_a_second_slot_that_blocks_too_long_ends_the_run(client: Client) -> None:
    @task(timeout_s=0.05)
    def blocked(_: int) -> None:
        threading.Event().wait(60)

    outputs = [blocked(0), blocked(1)]
    with pytest.raises(augury.TaskTimeout):
        client.submit(outputs, plan=on_one_worker(outputs, cpus=2)).result(timeout=30)


def test_a_task_that_forks_and_prints() -> None:
    listener = Listener()

    @task
    def fork() -> int:
        sys.stdout.write("parent\n")
        sys.stdout.flush()
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=print, args=(f"child {i}",), kwargs={"flush": True}) for i in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        return sum(child.exitcode or 0 for child in children)

    with Client(platform=Embedded(slots=1), observers=[listener]) as client:
        assert client.submit(one(fork())).result(timeout=30) == 1
    printed = "".join(text for _, text in listener.printed)
    assert sorted(printed.split("\n")) == ["", "child 0", "child 1", "child 2", "parent"]


@task
def fork_and(what: str) -> tuple[str, int]:
    child = os.fork()
    if child:
        return "parent", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    match what:
        case "raise":
            raise ValueError("in the child")
        case "exit":
            sys.exit(3)
        case "exit with words":
            sys.exit("in the child")
    return "child", 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(("what", "status"), [("return", 0), ("raise", 1), ("exit", 3), ("exit with words", 1)])
def test_a_fork_ends_where_its_task_does(client: Client, what: str, status: int) -> None:
    assert client.submit(fork_and(what)).result(timeout=30) == ("parent", status)


@task
def shoot(number: int) -> str:
    os.kill(os.getpid(), number)
    threading.Event().wait(0.05)
    return "alive"


def test_a_stray_alarm_does_not_hang_the_run(client: Client) -> None:
    with pytest.raises(augury.AuguryError):
        client.submit(shoot(signal.SIGALRM)).result(timeout=30)


def test_a_stray_interruption_stops_nobody(client: Client) -> None:
    assert client.submit(shoot(signal.SIGUSR1)).result(timeout=30) == "alive"


@pytest.mark.parametrize("cpus", [1, 2])
def test_an_exception_that_cannot_say_what_it_is(client: Client, cpus: int) -> None:
    @task
    def fail(_: int) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        raise Mute

    outputs = [fail(0), fail(1)]
    run = client.submit(outputs, plan=on_one_worker(outputs, cpus))
    assert type(run._watch.value.exception(timeout=30)).__name__ == "Mute"


def test_text_that_is_not_utf_8(client: Client) -> None:
    @task
    def odd() -> None:
        print("caf\udce9")  # noqa: T201
        raise ValueError("caf\udce9")

    with pytest.raises(ValueError, match="caf"):
        client.submit(odd()).result(timeout=30)


def test_writing_bytes_to_standard_output_is_the_tasks_own_mistake(client: Client) -> None:
    @task
    def write() -> None:
        sys.stdout.write(b"x")  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="str"):
        client.submit(write()).result(timeout=30)


def test_a_thread_that_outlives_its_task_prints_for_nobody_else() -> None:
    listener = Listener()

    @task
    def leave_a_thread(path: str) -> None:
        def wait_and_print() -> None:
            while not Path(path).exists():
                threading.Event().wait(0.002)
            print("secret")  # noqa: T201
            Path(path + ".done").touch()

        threading.Thread(target=wait_and_print, daemon=True).start()

    @task
    def innocent(path: str) -> None:
        Path(path).touch()
        while not Path(path + ".done").exists():
            threading.Event().wait(0.002)

    with Client(platform=Embedded(slots=1), observers=[listener]) as client:
        path = str(Path(client._open().object_dir) / ".gate")
        client.compute(leave_a_thread(path))
        client.submit(innocent(path)).result(timeout=30)
    assert listener.printed == []


def test_a_failure_frees_the_slots_of_the_other_workers() -> None:
    @task
    def fail(_: int) -> None:
        raise ValueError("at once")

    @task
    def long(_: int) -> None:
        threading.Event().wait(60)

    with Client(platform=Embedded(slots=2), observers=[]) as client:
        with pytest.raises(ValueError, match="at once"):
            client.compute([long(0), fail(1)])
        assert client.submit([one() for _ in range(2)]).result(timeout=30) == [1, 1]


def test_an_asynchronous_context_ends_as_a_plain_one_does() -> None:
    async def main() -> int:
        async with Client(platform=Embedded(slots=1), observers=[]) as outer:
            async with Client(platform=Embedded(slots=1), observers=[]):
                await one()
            assert augury.client.current_client() is outer
            return await one()

    assert asyncio.run(main()) == 1


def test_closing_a_client_cancels_what_still_runs() -> None:
    client = Client(platform=Embedded(slots=1), observers=[])

    @task
    def endless() -> None:
        threading.Event().wait()

    run = client.submit(endless(), detach=False)
    client.close()
    with pytest.raises(augury.RunCancelled):
        run.result(timeout=30)


def test_the_users_modules_come_before_those_of_the_same_name(client: Client, tmp_path: Path) -> None:
    (tmp_path / "colorsys.py").write_text("MINE = True\n")

    @task
    def look() -> bool:
        import colorsys  # noqa: PLC0415 - imported on the worker, not here

        return hasattr(colorsys, "MINE")

    sys.path.insert(0, str(tmp_path))
    try:
        assert client.compute(look())
    finally:
        sys.path.remove(str(tmp_path))
    assert not client.compute(look())
