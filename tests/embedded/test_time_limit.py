"""A platform that ends every invocation after some time."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from augury import Client, DefinitionError, Embedded, FixedPredictions, PlanError, TaskTimeout, task
from augury.invoke.gateway import Limits
from augury.plan.making import make_plan
from augury.plan.outlook import Outlook, Planner
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner
from augury.predict.unlearned import Priors
from augury.predict.workflow import WorkflowPredictions
from augury.run.platform import check_limits
from tests.invoke.stage import Stage, begin_run, embedded, events_of, invocation, make_stage
from tests.plan.graphs import graph_of

__all__ = ["make_stage"]

LIMIT_S = 1.5


@task
def endless() -> None:
    threading.Event().wait()


@task
def fine(x: int) -> int:
    return x


@pytest.fixture(name="limited", scope="module")
def make_limited() -> Iterator[Client]:
    with Client(platform=Embedded(slots=2, time_limit_s=LIMIT_S), observers=[]) as client:
        yield client


def test_a_task_that_takes_longer_than_any_worker_may_is_told_of_by_its_name(limited: Client) -> None:
    with pytest.raises(
        TaskTimeout,
        match=r"endless\[0\] failed .* not done when its time was up, for the platform ends workers after 1\.\d+ s",
    ):
        limited.compute(endless())
    assert limited.compute(fine(1)) == 1, "the platform goes on"


@task
def step(x: int) -> int:
    time.sleep(0.15)
    return x + 1


@pytest.mark.parametrize("planner", [WukongPlanner(), UniformPlanner()], ids=lambda planner: planner.name)
def test_a_worker_hands_over_to_a_successor_in_time(planner: Planner) -> None:
    last = step(0)
    for _ in range(19):
        last = step(last)
    with Client(platform=Embedded(slots=2, time_limit_s=2.0), planner=planner, observers=[], history=False) as client:
        run = client.submit(last)
        assert run.result(timeout=60) == 20
        assert run.report().invocations > 1


@task(retries=1, backoff_s=2.5)
def fails_at_once(tries: Path) -> None:
    with tries.open("a") as file:
        file.write("x")
    raise ValueError("always")


def test_tries_are_counted_beyond_one_invocation(limited: Client, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="always"):
        limited.submit(fails_at_once(tmp_path / "tries")).result(timeout=60)
    assert (tmp_path / "tries").read_text() == "xx"


@task
def longer(values: list[int]) -> list[int]:
    time.sleep(0.45)
    values.append(len(values))
    return values


@pytest.mark.parametrize("planner", [WukongPlanner(), UniformPlanner()], ids=lambda planner: planner.name)
def test_a_chain_of_values_that_tasks_change_gets_past_many_limits(planner: Planner) -> None:
    last = longer([])
    for _ in range(7):  # of which two or three fit into one invocation
        last = longer(last)
    platform = Embedded(slots=1, time_limit_s=LIMIT_S)
    with Client(platform=platform, planner=planner, observers=[], history=False) as client:
        assert client.submit(last).result(timeout=60) == list(range(8))


@task
def numbers() -> list[int]:
    time.sleep(1.0)
    return [1, 2, 3]


@task
def extend(values: list[int], tried: Path) -> int:
    values.append(4)
    if not tried.exists():
        tried.touch()
        threading.Event().wait()
    return len(values)


def test_a_successor_is_not_given_what_the_task_that_is_cut_has_changed(tmp_path: Path) -> None:
    outputs = extend(numbers(), tmp_path / "tried")
    with Client(platform=Embedded(slots=2, time_limit_s=3.0), observers=[], history=False) as client:
        assert client.submit(outputs).result(timeout=60) == 4


def test_each_invocation_has_its_own_time(limited: Client) -> None:
    began_s = time.monotonic()
    while time.monotonic() < began_s + 1.5 * LIMIT_S:  # one after the other, on the same warm worker
        assert limited.compute(fine(2)) == 2


def test_workers_know_when_their_time_is_up(stage: Stage) -> None:
    with embedded(slots=1, time_limit_s=100.0).start() as platform:
        assert platform.limits.time_limit_s == 100.0
        assert platform.gateway().limits().time_limit_s == 100.0
        platform.gateway().invoke([invocation()])
        puppet = stage.next()
        assert puppet.facts["deadline_s"] == pytest.approx(puppet.facts["began_s"] + 100.0, abs=5.0)
        puppet.finish()


def test_a_run_is_told_that_the_time_of_a_worker_was_up(stage: Stage) -> None:
    with embedded(slots=1, time_limit_s=LIMIT_S).start() as platform:
        slow = invocation("slow")
        run = begin_run(platform, joined=[slow])
        platform.gateway().invoke([slow])
        stage.next().wait_for_the_end()
        _, ended = events_of(run, 2)
        assert getattr(ended, "failure", b"") == b"slow: was ended by the platform after 1.5 s, its time limit"


def test_a_limit_that_is_none_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Embedded\.time_limit_s must be a number of seconds, at least 0"):
        Embedded(time_limit_s=-1)


# Before the run

SHORT = Limits(concurrency=2, time_limit_s=900.0)


def test_a_task_that_is_known_to_take_longer_is_refused_before_the_run() -> None:
    graph = graph_of((), (0,))
    outlook = Outlook(graph, FixedPredictions({0: 1.0, 1: 1000.0}))
    plan = make_plan(WukongPlanner(), outlook)
    with pytest.raises(PlanError, match=r"f\[1\] is expected to run for 1,000 s with 2,048 MB \(given by hand\), and"):
        check_limits(graph, plan, SHORT)
    check_limits(graph, plan, Limits(concurrency=2))
    check_limits(graph, plan, Limits(concurrency=2, time_limit_s=1001.0))


def test_what_is_only_assumed_is_no_reason_to_refuse() -> None:
    graph = graph_of(())
    outlook = Outlook(graph, WorkflowPredictions(Priors(), argument_bytes=[1e14]))
    plan = make_plan(WukongPlanner(), outlook)
    assert outlook.execution_s(plan.assignments[0].resources)[0] > SHORT.time_limit_s
    check_limits(graph, plan, SHORT)


def test_a_task_whose_output_may_be_kept_is_not_refused() -> None:
    graph = graph_of(())
    cached = tuple(msgspec.structs.replace(info, cache_s=60.0) for info in graph.functions)
    graph = msgspec.structs.replace(graph, functions=cached)
    plan = make_plan(WukongPlanner(), Outlook(graph, FixedPredictions(1000.0)))
    check_limits(graph, plan, SHORT)
