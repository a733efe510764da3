"""What tasks may do to the values that they are given, wherever they run."""

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augury import Assignment, Client, Plan, task
from augury.dag.graph import build_workflow


@task
def numbers() -> list[int]:
    return [3, 1, 2]


@task
def spoil(values: list[int]) -> int:
    values.sort()
    values.append(0)
    return len(values)


@task
def zeros(size: int) -> Any:
    return np.zeros(size)


@task
def is_writable(array: Any) -> bool:
    return bool(array.flags.writeable)


@task
def raise_first(array: Any) -> float:
    array[0] += 1
    return float(array.sum())


@task
def is_in_a_file(array: Any, _after: bool) -> bool:
    """Whether an array lies in a file that is mapped into memory, rather than in memory of the worker's own."""
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return len(line.split()) > 5 and "/" in line
    raise LookupError(hex(address))


def spread(outputs: Any, workers: int) -> Plan:
    """A plan that puts the tasks on so many workers in turn; on any if that is 0."""
    graph = build_workflow(outputs).graph
    assignments = [Assignment(worker=task % workers if workers else None) for task in range(len(graph))]
    return Plan(fingerprint=graph.fingerprint, planner="spread", assignments=tuple(assignments))


WORKERS = pytest.mark.parametrize("workers", [0, 1, 2, 5])
SIZES = pytest.mark.parametrize("size", [5, 100_000])


@WORKERS
def test_what_several_tasks_take_is_not_changed_by_any_of_them(client: Client, workers: int) -> None:
    source = numbers()
    outputs = [[spoil(source) for _ in range(8)], source]
    assert client.submit(outputs, plan=spread(outputs, workers)).result(60) == [[4] * 8, [3, 1, 2]]


@WORKERS
@SIZES
def test_arrays_that_several_tasks_take_are_read_only_for_all(client: Client, workers: int, size: int) -> None:
    source = zeros(size)
    outputs = [is_writable(source) for _ in range(4)]
    assert client.submit(outputs, plan=spread(outputs, workers)).result(60) == [False] * 4


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")
@pytest.mark.parametrize(("workers", "shared"), [(1, False), (2, True)])
def test_what_was_stored_for_others_is_not_in_memory_twice(client: Client, workers: int, shared: bool) -> None:
    source = zeros(100_000)
    outputs = is_in_a_file(source, is_writable(source))  # with two workers: after the other one has taken it
    assert client.submit(outputs, plan=spread(outputs, workers)).result(60) is shared


@WORKERS
@SIZES
def test_a_task_may_change_what_only_it_takes(client: Client, workers: int, size: int) -> None:
    outputs = raise_first(zeros(size))
    assert client.submit(outputs, plan=spread(outputs, workers)).result(60) == 1.0


@SIZES
def test_results_are_the_users_to_change(client: Client, size: int) -> None:
    result = client.compute(zeros(size))
    result += 1
    assert result.sum() == size


def test_a_large_argument_is_not_changed_for_other_tasks(client: Client) -> None:
    table = list(range(50_000))

    @task
    def pop(values: list[int]) -> int:
        return values.pop()

    assert client.compute([pop(table) for _ in range(6)]) == [49_999] * 6
    assert len(table) == 50_000


def test_each_try_gets_what_the_first_one_got(client: Client) -> None:
    @task
    def empty() -> list[int]:
        return []

    @task(retries=3)
    def fails_twice(values: list[int]) -> list[int]:
        values.append(1)
        if len(values) < 3:
            raise ValueError(f"{len(values)} values")
        return values

    with pytest.raises(ValueError, match="1 values"):
        client.compute(fails_twice(empty()))


def test_what_a_thread_of_a_task_prints_is_shown(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    @task
    def talk() -> None:
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start()
        thread.join()

    with Client(redis=client._open().storage._config.redis) as shown:  # type: ignore[attr-defined]
        shown.compute(talk())
    assert "[talk[0]] from a thread" in capsys.readouterr().out
