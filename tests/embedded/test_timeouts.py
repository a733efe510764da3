"""Tasks that take too long, on real workers: whatever they do, the run ends with an error that names them."""

import importlib
import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import augury
from augury import Client, Embedded, Resources, task
from augury.dag.graph import build_workflow
from augury.plan.plan import Assignment, Plan
from tests.invoke.stage import ROOT, lives, wait_until

PATIENCE_S = 30
"""How long a run may take here; it takes about three seconds."""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Its workers need not import this module, which may take as long as tasks have here."""
    settings = Embedded(slots=4, preload=(__name__,), sys_path=(str(ROOT),))
    with Client(platform=settings, observers=[]) as client:
        yield client


def on(resources: Resources, outputs: Any) -> Plan:
    """A plan by which one worker with these resources does everything."""
    graph = build_workflow(outputs).graph
    assignments = (Assignment(0, resources),) * len(graph)
    return Plan(fingerprint=graph.fingerprint, planner="by hand", assignments=assignments)


@task(timeout_s=0.5, retries=3)
def hold_the_interpreter(pid_file: Path) -> None:
    pid_file.write_text(str(os.getpid()))
    sum(itertools.repeat(0))  # a loop in C that lets no other thread run, and looks at no signal


@task(timeout_s=0.3, retries=1)
def import_slowly() -> bool:
    whole: bool = importlib.import_module("slow_to_import_once").whole
    return whole


def test_a_task_that_imports_for_long_is_not_deaf(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import_once.py").write_text("import time\ntime.sleep(3.5)\nwhole = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert client.submit(import_slowly()).result(timeout=PATIENCE_S)


@task(timeout_s=0.5)
def refuse_to_stop(pid_file: Path) -> None:
    pid_file.write_text(str(os.getpid()))
    while True:
        with suppress(BaseException):
            threading.Event().wait(600)


@pytest.mark.parametrize(
    ("deaf", "resources"),
    [
        pytest.param(hold_the_interpreter, Resources(), id="the interpreter, one slot"),
        pytest.param(hold_the_interpreter, Resources(cpus=2), id="the interpreter, two slots"),
        pytest.param(refuse_to_stop, Resources(), id="an exception"),
    ],
)
def test_a_task_that_is_deaf_ends_the_run_and_its_worker(
    client: Client, tmp_path: Path, deaf: Any, resources: Resources
) -> None:
    pid_file = tmp_path / "pid"
    run = client.submit(deaf(pid_file), plan=on(resources, deaf(pid_file)))
    with pytest.raises(augury.TaskTimeout, match=rf"{deaf.fn.__name__}\[0\].*timeout_s of 0.5 s"):
        run.result(timeout=PATIENCE_S)
    run.report(timeout=PATIENCE_S)
    wait_until(lambda: not lives(int(pid_file.read_text())), "the worker is gone")
    assert client.compute(task(abs)(-1)) == 1


def test_the_task_that_is_late_is_named_and_not_its_neighbours(client: Client, tmp_path: Path) -> None:
    @task
    def neighbour() -> None:
        time.sleep(600)

    outputs = [neighbour(), hold_the_interpreter(tmp_path / "pid")]
    with pytest.raises(augury.TaskTimeout, match=r"^hold_the_interpreter\[0\] failed"):
        client.submit(outputs, plan=on(Resources(cpus=2), outputs)).result(timeout=PATIENCE_S)


def test_what_takes_long_to_store_was_in_time_all_the_same(client: Client) -> None:
    class Slow:
        def __reduce__(self) -> Any:
            threading.Event().wait(3.5)
            return int, ("7",)

    @task(timeout_s=0.5)
    def make() -> Any:
        return Slow()

    assert client.submit(make()).result(timeout=PATIENCE_S) == 7
