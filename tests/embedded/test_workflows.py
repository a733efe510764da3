"""Workflows on the embedded platform: real processes, a real Redis, real files."""

import asyncio
import os
import threading
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import redis

import augury
from augury import Client, Embedded, Resources, SerializationError, UniformPlanner, WukongPlanner, task


@task
def double(x: int) -> int:
    return 2 * x


@task
def add(*terms: int) -> int:
    return sum(terms)


@task
def join(value: Any, **named: Any) -> str:
    return repr((value, named))


@dataclass(frozen=True)
class Box:
    content: Any
    label: str = "box"


class Pair(NamedTuple):
    left: Any
    right: Any


def test_a_chain(client: Client) -> None:
    assert client.compute(double(double(double(1)))) == 8


def test_a_diamond(client: Client) -> None:
    #      ┌─▶ b ─┐
    #  a ──┤      ├─▶ d
    #      └─▶ c ─┘
    a = double(1)
    assert client.compute(add(double(a), add(a, 10))) == 16


def test_several_sinks_in_any_nesting(client: Client) -> None:
    one, two = double(1), double(2)
    assert client.compute((one, [two, {"x": add(one, two)}], "plain")) == (2, [4, {"x": 6}], "plain")


def test_tasks_are_found_at_any_depth_of_arguments(client: Client) -> None:
    nested = {"list": [double(1), (double(2), {"deep": [double(3)]})], "set": {double(4)}, "box": Box(double(5))}
    expected = {"list": [2, (4, {"deep": [6]})], "set": {8}, "box": Box(10)}
    assert client.compute(join(nested, key=Pair(double(6), 1))) == repr((expected, {"key": Pair(12, 1)}))


def test_mappings_keep_their_kind(client: Client) -> None:
    @task
    def kinds(a: Any, b: Any) -> tuple[str, str, Any]:
        return type(a).__name__, type(b).__name__, b["missing"]

    ordered: Any = OrderedDict(x=double(1))
    default: Any = defaultdict(list, y=double(2))
    assert client.compute(kinds(ordered, default)) == ("OrderedDict", "defaultdict", [])


def test_closures_lambdas_and_local_classes_travel(client: Client) -> None:
    offset = 5

    class Local:
        def __init__(self, value: int) -> None:
            self.value = value

    wrapped = task(lambda x: Local(x + offset))
    result = client.compute(wrapped(double(1)))
    assert isinstance(result, Local)
    assert result.value == 7


def test_async_functions_are_tasks(client: Client) -> None:
    @task
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    assert client.compute(later(double(1))) == 3


def test_methods_are_tasks(client: Client) -> None:
    class Scale:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        @task
        def apply(self, x: int) -> int:
            return self.factor * x

    assert client.compute(Scale(3).apply(double(2))) == 12


def test_map_makes_one_task_per_element(client: Client) -> None:
    assert client.compute(double.map(range(4))) == [0, 2, 4, 6]


def test_awaiting_a_run_in_a_running_event_loop(client: Client) -> None:
    async def main() -> list[Any]:
        return list(await asyncio.gather(*[client.submit(double(i)) for i in range(5)]))

    assert asyncio.run(main()) == [0, 2, 4, 6, 8]


def test_computing_synchronously_inside_a_running_event_loop_as_notebooks_do(client: Client) -> None:
    async def main() -> Any:
        return client.compute(double(2))

    assert asyncio.run(main()) == 4


def test_computing_from_several_threads(client: Client) -> None:
    results: dict[int, int] = {}

    def work(i: int) -> None:
        results[i] = client.compute(add(*[double(j) for j in range(i)]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: i * (i - 1) for i in range(1, 7)}


def test_compute_uses_the_client_around_it(client: Client) -> None:
    with Client(platform=Embedded(slots=1), observers=[], planner=UniformPlanner()) as inner:
        assert augury.client.current_client() is inner
        assert double(4).compute() == 8


def test_large_arrays_pass_between_workers_and_to_the_client(client: Client) -> None:
    @task
    def make(seed: int) -> np.ndarray[Any, Any]:
        return np.full((300, 1000), float(seed))

    @task
    def combine(*arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.sum(arrays, axis=0)  # type: ignore[no-any-return]

    result = client.compute(combine(*[make(i) for i in range(6)]))
    assert result.shape == (300, 1000)
    assert (result == 15.0).all()


def test_a_large_constant_reaches_every_task_that_uses_it(client: Client) -> None:
    table = np.arange(100_000)

    @task
    def pick(values: np.ndarray[Any, Any], i: int) -> int:
        return int(values[i])

    run = client.submit([pick(table, i) for i in range(20)])
    assert run.result() == list(range(20))


@pytest.mark.parametrize(
    "planner",
    [WukongPlanner(), UniformPlanner(), UniformPlanner(max_clustering=1)],
    ids=["wukong", "uniform", "uniform-unclustered"],
)
@pytest.mark.parametrize("slots", [1, 2, 7])
def test_every_planner_gives_the_same_with_few_slots_and_many(planner: Any, slots: int) -> None:
    with Client(platform=Embedded(slots=slots), observers=[], planner=planner) as small:
        level = [double(i) for i in range(32)]
        while len(level) > 1:
            level = [add(level[i], level[i + 1]) for i in range(0, len(level), 2)]
        assert small.compute(level[0]) == 2 * sum(range(32))


def test_tasks_of_a_planned_worker_share_a_process(client: Client) -> None:
    @task
    def pid(*_: int) -> int:
        import os  # noqa: PLC0415 - the function travels by value, and brings its imports along

        return os.getpid()

    first = [pid() for _ in range(4)]
    second = [pid(*first) for _ in range(4)]
    sinks = [*first, *second]
    plan = augury.client.make_plan(sinks, _OneWorkerEach())
    pids = client.submit(sinks, plan=plan).result()
    by_worker = Counter(zip((a.worker for a in plan.assignments), pids, strict=True))
    assert len(by_worker) == 2


class _OneWorkerEach:
    """Even tasks on one worker, odd ones on another."""

    name = "halves"

    def plan(self, graph: Any, outlook: Any) -> augury.Plan:
        assignments = tuple(augury.Assignment(worker=task % 2, resources=Resources()) for task in range(len(graph)))
        return augury.Plan(fingerprint=graph.fingerprint, planner=self.name, assignments=assignments)


def test_a_worker_with_two_cpus_runs_two_tasks_at_once() -> None:
    with Client(platform=Embedded(slots=2), observers=[], planner=WukongPlanner(Resources(cpus=2))) as client:

        @task
        def meet(gate: Any) -> bool:
            gate.wait(30)
            return True

        @task
        def gate() -> Any:
            return _Gate()

        opened = gate()
        plan = augury.client.make_plan([meet(opened), meet(opened)], _OneWorker())
        assert client.submit([meet(opened), meet(opened)], plan=plan).result(60) == [True, True]


class _Gate:
    """A barrier for two threads that is made again in each process that it reaches."""

    _barrier = threading.Barrier(2)

    def wait(self, timeout: float) -> None:
        self._barrier.wait(timeout)


class _OneWorker:
    name = "one"

    def plan(self, graph: Any, outlook: Any) -> augury.Plan:
        assignment = augury.Assignment(worker=0, resources=Resources(cpus=2))
        return augury.Plan(fingerprint=graph.fingerprint, planner=self.name, assignments=(assignment,) * len(graph))


def test_the_report_counts_what_the_run_took(client: Client) -> None:
    run = client.submit(add(*[double(i) for i in range(10)]), name="counted")
    assert run.result() == 90
    report = run.report()
    assert (report.name, report.status, report.tasks) == ("counted", "succeeded", 11)
    assert 1 <= report.workers <= 4
    assert report.invocations >= report.workers
    assert report.makespan_s > 0
    assert report.gb_seconds > 0
    assert 0 < report.stored_bytes < 10_000


def test_only_the_sink_of_a_chain_is_stored(client: Client) -> None:
    @task
    def grow(data: bytes) -> bytes:
        return data + bytes(1000)

    data: Any = b""
    for _ in range(10):
        data = grow(data)
    run = client.submit(data)
    assert len(run.result()) == 10_000
    assert 10_000 < run.report().stored_bytes < 11_000
    assert run.report().invocations == 1


TABLE = np.arange(5 * 131_072)  # 5 MB


def test_a_large_value_that_a_function_refers_to_is_stored_once(client: Client) -> None:
    @task
    def look_up(index: int) -> float:
        return float(TABLE[index])

    run = client.submit(look_up.map(range(20)))
    assert run.result() == [float(index) for index in range(20)]
    report = run.report()
    assert report.stored_bytes < 10_000
    assert TABLE.nbytes < report.fetched_bytes < (report.invocations + 1) * TABLE.nbytes


class Homebody:
    """Can be loaded in the process that made it only."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _stay, (os.getpid(),)


def _stay(pid: int) -> Homebody:
    if os.getpid() != pid:
        raise LookupError("not at home")
    return Homebody()


def test_a_result_that_the_client_cannot_load_names_its_task(client: Client) -> None:
    @task
    def settle(_: int) -> Homebody:
        return Homebody()

    run = client.submit([double(1), settle(double(2))])
    with pytest.raises(
        SerializationError,
        match=r"the result of settle\[0\] cannot be loaded on the client: LookupError\('not at home'",
    ):
        run.result()
    assert run.status == "failed"


def test_nothing_is_left_in_storage_after_a_run(client: Client) -> None:
    @task
    def big(i: int) -> bytes:
        return bytes(100_000 + i)

    platform = client._open()
    assert platform.embedded is not None
    config = platform.embedded.storage_config
    with redis.Redis.from_url(config.redis) as connection:
        of_others = set(connection.keys("*"))  # runs whose results nobody asked for
        run = client.submit(join([big(1), big(2)], table=bytes(200_000)))
        run.result()
        run.report()
        assert set(connection.keys("*")) <= of_others
    assert [path for path in Path(config.object_dir).rglob("*") if path.is_file() and path.name[0] != "."] == []


def test_status_tells_where_a_run_stands(client: Client) -> None:
    run = client.submit(double(1))
    run.result()
    assert run.status == "succeeded"
    assert run.done()
