"""Workers that want more memory than they have: what the user is told, and what history remembers."""

import multiprocessing
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import augury
from augury import Client, Embedded, OutOfMemory, Resources, UniformPlanner, WukongPlanner, task
from augury.dag.task import TaskNode
from augury.invoke.embedded.processes import limit_data
from augury.invoke.gateway import Invocation, InvocationContext
from augury.worker import entrypoint
from tests.invoke.stage import NO_CONTROL_GROUPS, can_use_groups

ROOT = Path(__file__).parents[2]
enforced = pytest.mark.skipif(not can_use_groups(), reason=NO_CONTROL_GROUPS)


@task
def fill(megabytes: int) -> int:
    """Touch so much memory."""
    block = bytearray(megabytes << 20)
    block[::4096] = b"x" * len(block[::4096])
    return len(block)


@task
def add(*sizes: int) -> int:
    return sum(sizes)


def handle_with_a_limit_of_its_own(invocation: Invocation, context: InvocationContext) -> None:
    """What a worker does on a system without control groups."""
    limit_data(invocation.resources.memory_mb)
    entrypoint.handle(invocation, replace(context, memory_group="", data_limit_mb=invocation.resources.memory_mb))


@pytest.fixture
def without_groups() -> Iterator[Client]:
    with client_without_groups(most_memory_mb=128) as client:
        yield client


def client_without_groups(most_memory_mb: int) -> Client:
    handler = f"{__name__}:{handle_with_a_limit_of_its_own.__name__}"
    platform = Embedded(slots=2, enforce_limits=False, handler=handler, sys_path=(str(ROOT),), keep_alive_s=0)
    planner = WukongPlanner(Resources(memory_mb=128))
    return Client(platform=platform, planner=planner, observers=[], history=False, most_memory_mb=most_memory_mb)


@task
def make(megabytes: int) -> list[str]:
    return ["x" * 500_000 + str(number) for number in range(2 * megabytes)]


@task
def length(*texts: list[str]) -> int:
    return sum(map(len, texts))


@enforced
def test_a_task_that_the_kernel_kills_for_its_memory_is_named_with_what_it_used() -> None:
    with (
        Client(
            platform=Embedded(slots=2),
            planner=WukongPlanner(Resources(memory_mb=128)),
            observers=[],
            history=False,
            most_memory_mb=128,
        ) as client,
        pytest.raises(OutOfMemory) as caught,
    ):
        client.compute(add(fill(1), fill(400)))
    assert re.search(r"ran out of memory after .* s while it ran fill\[1\]: it used 12\d MiB", str(caught.value))
    assert "and had 128 MiB; 128 MiB is the most that workers are given unasked" in str(caught.value)
    assert "give it more, with @task(memory_mb=256)" in str(caught.value)


@enforced
def test_a_worker_that_runs_out_of_memory_is_started_again_with_more() -> None:
    planner = WukongPlanner(Resources(memory_mb=128))
    with Client(platform=Embedded(slots=2), planner=planner, observers=[], history=False) as client:
        run = client.submit(add(fill(1), fill(400)))
        assert run.result(timeout=60) == 401 << 20
        assert run.report().invocations > run.report().workers


FILL = "len(b'x' * ({megabytes} << 20))"


@task
def fill_in_a_pool(megabytes: int) -> int:
    """A pool whose process is killed never answers."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return int(pool.map(eval, [FILL.format(megabytes=megabytes)])[0])


@task(retries=2, cache=True)
def fill_in_an_executor(megabytes: int) -> int:
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor:
        return int(executor.submit(eval, FILL.format(megabytes=megabytes)).result())


@task(cache=True)
def fill_in_a_program(megabytes: int) -> int:
    """The exit status does not matter to it."""
    code = f"print({FILL.format(megabytes=megabytes)})"
    return int(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False).stdout or -1)


@enforced
@pytest.mark.parametrize("fill_elsewhere", [fill_in_a_pool, fill_in_an_executor, fill_in_a_program])
def test_a_worker_whose_subprocess_runs_out_of_memory_is_started_again_with_more(
    fill_elsewhere: Callable[[int], TaskNode[int]],
) -> None:
    planner = WukongPlanner(Resources(memory_mb=128))
    with Client(platform=Embedded(slots=2), planner=planner, observers=[], history=False) as client:
        for _ in range(2):  # what the first attempt came to is not kept either
            run = client.submit(add(fill(1), fill_elsewhere(200)))
            assert run.result(timeout=60) == 201 << 20


@enforced
def test_a_task_whose_subprocess_runs_out_of_memory_is_named() -> None:
    planner = WukongPlanner(Resources(memory_mb=128))
    with (
        Client(platform=Embedded(slots=2), planner=planner, observers=[], history=False, most_memory_mb=128) as client,
        pytest.raises(OutOfMemory, match=r"\(a subprocess of it was killed\) while it ran fill_in_a_pool\[0\]"),
    ):
        client.submit(fill_in_a_pool(400)).result(timeout=60)


def test_a_task_that_may_not_allocate_more_is_named_too(without_groups: Client) -> None:
    with pytest.raises(OutOfMemory, match=r"ran out of memory after .* s \(MemoryError\) while it ran fill\[1\]"):
        without_groups.compute(add(fill(1), fill(1000)))
    assert without_groups.compute(add(fill(1))) == 1 << 20


@pytest.mark.parametrize(
    ("output", "texts"),
    [(make(110), 220), (length(*[make(40) for _ in range(4)]), 320)],
    ids=["to pickle an output", "to load inputs"],
)
def test_memory_that_is_lacking_between_tasks_is_given_too(output: Any, texts: int) -> None:
    with client_without_groups(most_memory_mb=1024) as client:
        run = client.submit(output)
        value = run.result(timeout=60)
        assert (value if isinstance(value, int) else len(value)) == texts
        assert run.report().invocations > run.report().workers


@enforced
def test_history_remembers_and_the_next_plan_gives_more(tmp_path: Path) -> None:
    planner = UniformPlanner(Resources(memory_mb=128))
    with Client(platform=Embedded(slots=2), planner=planner, observers=[], history=tmp_path) as client:
        assert client.plan(fill(150)).assignments[0].resources.memory_mb == 128
        first = client.submit(fill(150))
        assert first.result(timeout=60) == 150 << 20
        assert first.report().invocations == 2  # the second had more
        assert client.plan(fill(150)).assignments[0].resources.memory_mb > 128
        second = client.submit(fill(150))
        assert second.result(timeout=60) == 150 << 20
        assert second.report().invocations == 1


def test_without_a_limit_a_memory_error_is_the_tasks_own(client: Client) -> None:
    @task
    def raise_it() -> None:
        raise MemoryError("mine")

    with pytest.raises(MemoryError, match="mine") as caught:
        client.compute(raise_it())
    assert isinstance(caught.value.__cause__, augury.TaskFailed)
    assert "on worker t0, which has 2,048 MiB; @task(memory_mb=…) asks for more" in caught.value.__notes__
