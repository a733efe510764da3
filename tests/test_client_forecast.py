"""Runs teach, and the next plan knows: on the embedded platform."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from augury import Client, Embedded, History, PlatformError, Resources, Task, UniformPlanner, task
from augury import planning as module
from augury.metrics.history.memory import MemoryStore
from augury.metrics.records import TaskRun, series_of

HERE = Resources()


@task
def double(x: int) -> int:
    return 2 * x


def workflow() -> Task[int]:
    return double(double(4))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    history = History(MemoryStore())
    with Client(
        platform=Embedded(slots=2, linger_s=0), observers=[], history=history, planner=UniformPlanner()
    ) as opened:
        yield opened


def test_a_run_makes_the_next_plan_better(client: Client) -> None:
    before = client.submit(workflow(), name="learning")
    assert before.result() == 16
    before.report()
    after = client.submit(workflow(), name="learning")
    assert after.result() == 16
    after.report()
    assert [run.plan.outlook.evidence[0].n for run in (before, after)] == [0, 2]
    first, second = (run.plan.predicted for run in (before, after))
    assert first is not None
    assert second is not None
    assert first.makespan_s > 0.2, "a prior of 0.1 s for each task"
    assert second.makespan_s < 0.2


def test_environments_that_runs_left_are_expected_to_be_warm(client: Client) -> None:
    client.submit(workflow()).report()
    plan = client.plan(workflow(), name="another")
    assert plan.outlook.platform.warm[HERE] >= 1
    assert plan.predicted is not None
    assert plan.predicted.cold_starts == 0


def long_history() -> History:
    """Of a workflow that takes long enough for laws to be fitted."""
    history = History(MemoryStore())
    function = double(0).function
    measured = TaskRun(
        function=function.version(), name="double", resources=HERE, platform="embedded", execution_s=60.0
    )
    history.add("long", "run", series_of([measured] * 9))
    return history


class Unloaded:
    """Stands for `sys` where NumPy is not loaded yet."""

    modules: dict[str, Any] = {}  # noqa: RUF012 - empty, and stays so


def test_the_platform_starts_while_laws_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sys", Unloaded)
    threads: list[str] = []
    with Client(platform=Embedded(slots=1), observers=[], history=long_history()) as opened:
        start = opened._start_platform

        def watched() -> Any:
            threads.append(threading.current_thread().name)
            return start()

        monkeypatch.setattr(opened, "_start_platform", watched)
        assert opened.compute(workflow(), name="long") == 16
    assert len(threads) == 1


def test_a_platform_that_does_not_start_is_told_by_whoever_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sys", Unloaded)
    hopeless = Client(platform=Embedded(start_timeout_s=0), observers=[], history=long_history())
    with hopeless, pytest.raises(PlatformError, match="did not start within 0 s"):
        hopeless.compute(workflow(), name="long")
