"""What runs teach: measured by real workers, kept in real folders, known to the next run."""

import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augury import Client, Constant, Embedded, Emulation, Resources, UniformPlanner, WorkerLost, task
from augury.dag.graph import Graph, build_workflow
from augury.metrics.history.history import History, open_history
from augury.metrics.history.memory import MemoryStore
from augury.metrics.history.store import Change
from augury.metrics.records import Record, Records, Startup, TaskRun, Transfer
from augury.storage.server import RedisServer
from tests.embedded.conftest import Script
from tests.embedded.impatient import PIPE

MB = 1024 * 1024
SMALL = Resources(cpus=1, memory_mb=512)


@task
def make(size_mb: int) -> Any:
    return np.ones(size_mb * MB // 8)


@task
def total(*arrays: Any) -> float:
    return float(sum(array.sum() for array in arrays))


@task
def measure(array: Any) -> int:
    return int(array.nbytes)


@task
def nothing(number: int) -> int:
    return number


@task
def bulky(size_mb: int) -> int:
    block = bytearray(b"x") * (size_mb * MB)
    return len(block)


@task
def spin(duration_s: float) -> None:
    end_s = time.process_time() + duration_s
    while time.process_time() < end_s:
        pass


@task
def rest(duration_s: float) -> None:
    time.sleep(duration_s)


@task
def stay(duration_s: float, *_: Any) -> None:
    time.sleep(duration_s)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "history"


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    with Client(platform=Embedded(slots=4, linger_s=0), observers=[], history=folder) as client:
        yield client


def graph_of(outputs: Any) -> Graph:
    return build_workflow(outputs).graph


def known(folder: Path, workflow: str) -> Records:
    return open_history(folder).load(workflow)


def records(folder: Path, workflow: str) -> list[Record]:
    return [record for series in known(folder, workflow).series for record in series.records()]


def task_runs(folder: Path, workflow: str, name: str) -> list[TaskRun]:
    return [one for one in records(folder, workflow) if isinstance(one, TaskRun) and one.name == name]


def test_a_run_leaves_records_of_every_function_under_its_name(client: Client, folder: Path) -> None:
    client.compute(total(make(1), make(2)), name="sums")
    runs = records(folder, "sums")
    assert sorted(one.name for one in runs if isinstance(one, TaskRun)) == ["make", "make", "total"]
    assert {one.platform for one in runs} == {"embedded"}
    assert {one.planner for one in runs} == {client.planner.name}
    assert {one.resources for one in runs} == {Resources()}
    assert known(folder, "sums").runs == 1


def test_sizes_are_known_whether_or_not_a_value_left_its_worker(client: Client, folder: Path) -> None:
    plan = UniformPlanner(SMALL)
    chain = measure(make(3))
    client.submit(chain, name="near", plan=plan.plan(graph_of(chain))).report()
    (made,) = task_runs(folder, "near", "make")
    (measured,) = task_runs(folder, "near", "measure")
    assert made.output_bytes == pytest.approx(3 * MB, rel=0.01)
    assert measured.input_bytes == pytest.approx(3 * MB, rel=0.01)
    assert measured.output_bytes < 100
    client.compute(total(*[make(1) for _ in range(4)]), name="far")
    (summed,) = task_runs(folder, "far", "total")
    assert summed.input_bytes == pytest.approx(4 * MB, rel=0.01)


def test_the_peak_of_memory_of_each_task_is_measured(client: Client, folder: Path) -> None:
    client.compute([bulky(200)], name="large")
    client.compute([bulky(1)], name="small")
    (large,) = task_runs(folder, "large", "bulky")
    (small,) = task_runs(folder, "small", "bulky")
    assert 180 < large.peak_mb - small.peak_mb < 230


def test_computing_and_waiting_are_told_apart(client: Client, folder: Path) -> None:
    client.compute([spin(0.05), rest(0.05)], name="times")
    (busy,) = task_runs(folder, "times", "spin")
    (idle,) = task_runs(folder, "times", "rest")
    assert busy.execution_s >= 0.05
    assert busy.cpu_s >= 0.05
    assert idle.execution_s >= 0.05
    assert idle.cpu_s < 0.05
    assert idle.load_s > idle.cpu_s  # the first task of a worker imports this module


def test_the_time_in_the_queue_is_measured(folder: Path) -> None:
    with Client(platform=Embedded(slots=1, linger_s=0), observers=[], history=folder) as client:
        client.compute([rest(0.05), rest(0.05), rest(0.05)], name="queue")
    waits = sorted(one.queue_s for one in task_runs(folder, "queue", "rest"))
    assert waits[0] < waits[1]
    assert waits[1] >= 0.05
    assert waits[2] >= 0.1


def test_a_task_waits_for_inputs_that_come_from_storage(client: Client, folder: Path) -> None:
    client.compute(total(*[make(8) for _ in range(4)]), name="transfers")
    (summed,) = task_runs(folder, "transfers", "total")
    assert summed.dependency_s > 0
    moved = [one for one in records(folder, "transfers") if isinstance(one, Transfer)]
    uploads = [one for one in moved if one.direction == "upload"]
    downloads = [one for one in moved if one.direction == "download"]
    assert max(one.size_bytes for one in uploads) == pytest.approx(8 * MB, rel=0.01)
    assert max(one.size_bytes for one in downloads) >= 8 * MB
    assert all(one.duration_s > 0 for one in moved)


def test_large_arguments_are_inputs_and_their_way_is_no_execution(client: Client, folder: Path) -> None:
    client.compute(measure(np.ones(4 * MB // 8)), name="constant")
    (measured,) = task_runs(folder, "constant", "measure")
    assert measured.input_bytes == pytest.approx(4 * MB, rel=0.01)
    assert measured.dependency_s > 0
    assert any(isinstance(one, Transfer) and one.size_bytes > 3 * MB for one in records(folder, "constant"))


def test_cold_and_warm_starts_are_recorded(folder: Path) -> None:
    cloud = Emulation(cold_start=Constant(0.2), warm_start=Constant(0.05))
    # With one slot the second start waits until the first worker is free, and then finds it warm.
    with Client(platform=Embedded(slots=1, emulation=cloud, linger_s=0), observers=[], history=folder) as client:
        client.compute([nothing(1)], name="starts")
        client.compute([nothing(2)], name="starts")
    starts = {one.state: one for one in records(folder, "starts") if isinstance(one, Startup)}
    assert starts["cold"].duration_s >= 0.2
    assert starts["warm"].duration_s >= 0.05
    assert {one.starting for one in starts.values()} == {1}
    assert starts["cold"].platform.startswith("embedded/")


def test_a_start_that_had_to_wait_for_a_slot_is_not_taken_for_a_slow_one(folder: Path) -> None:
    with Client(platform=Embedded(slots=1, linger_s=0), observers=[], history=folder) as client:
        runs = [client.submit([rest(0.3)], name=f"run {number}") for number in range(2)]
        for run in runs:
            run.report()
    (second,) = (one for one in records(folder, "run 1") if isinstance(one, Startup))
    assert second.waited_s > 0.2
    assert second.duration_s < second.waited_s


def test_without_a_name_records_are_kept_under_the_fingerprint(client: Client, folder: Path) -> None:
    run = client.submit([nothing(1)])
    run.report()
    assert known(folder, run.plan.fingerprint).runs == 1


def test_a_workflow_of_another_shape_knows_what_its_functions_did(client: Client, folder: Path) -> None:
    client.compute([rest(0.01), rest(0.01)])
    provider = client.predictions([rest(0.01), rest(0.01), rest(0.01)])
    estimate = provider.predict_execution_time("rest", 30, Resources(), "median")
    assert estimate.n >= 2
    assert estimate >= 0.01


def test_what_one_planner_taught_another_one_uses(client: Client, folder: Path) -> None:
    workflow = [rest(0.02)]
    plan = UniformPlanner().plan(graph_of(workflow))
    client.submit(workflow, name="shared", plan=plan).report()
    client.compute(workflow, name="shared")
    assert client.predictions(workflow, name="shared").predict_execution_time("rest", 30, Resources(), "median").n == 2


def test_a_failed_run_teaches_too(client: Client, folder: Path) -> None:
    with pytest.raises(TypeError):
        client.compute(stay("x", rest(0.01)), name="broken")
    assert len(task_runs(folder, "broken", "rest")) == 1
    assert task_runs(folder, "broken", "stay") == []


def test_a_cancelled_run_teaches_what_had_ended(client: Client, folder: Path, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    os.mkfifo(reached)

    @task
    def wait_long(_: Any) -> None:
        reached.write_text("")
        time.sleep(60)

    run = client.submit(wait_long(rest(0.01)), name="cancelled")
    reached.read_text()  # waits for the task to come so far
    run.cancel()
    run.report()
    assert len(task_runs(folder, "cancelled", "rest")) == 1


def test_a_worker_that_is_killed_has_sent_what_it_measured_before(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv(PIPE, str(pipe))

    @task
    def die(_: Any) -> None:
        told = 0
        while told < 2:  # the first sending may have begun before this task; the second has what was measured until now
            told += len(pipe.read_bytes())
        os.kill(os.getpid(), signal.SIGKILL)

    root = str(Path(__file__).parents[2])
    platform = Embedded(slots=2, handler="tests.embedded.impatient:handle", sys_path=(root,))
    with Client(platform=platform, observers=[], history=folder, restarts=0) as client, pytest.raises(WorkerLost):
        client.compute(die(rest(0.01)), name="killed")
    assert len(task_runs(folder, "killed", "rest")) == 1


def test_a_client_without_history_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path))
    with Client(platform=Embedded(slots=2), observers=[], history=False) as client:
        client.compute([nothing(1)])
        assert client.predictions([nothing(1)]).predict_execution_time("nothing", 30, Resources(), "median").is_prior
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]


def test_a_folder_that_cannot_be_used_costs_the_records_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with Client(platform=Embedded(slots=2), observers=[], history=blocked) as client:
        assert client.compute([nothing(7)]) == [7]
    assert "could not be kept" in caplog.text


class BrokenStore(MemoryStore):
    """Fails in a way that nobody foresaw."""

    def update(self, workflow: str, change: Change, subjects: Sequence[str] = ()) -> None:
        raise ZeroDivisionError("nobody foresaw this")


def test_trouble_of_any_kind_with_history_does_not_harm_a_run(caplog: pytest.LogCaptureFixture) -> None:
    with Client(platform=Embedded(slots=2), observers=[], history=History(BrokenStore())) as client:
        assert client.compute([nothing(7)]) == [7]
    assert "nobody foresaw this" in caplog.text


def test_a_history_that_does_not_answer_does_not_hold_a_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        with Client(platform=Embedded(slots=2), observers=[], history=address) as client:
            run = client.submit([nothing(7)])
            assert run.result(timeout=30) == [7]
            assert run.report(timeout=30).ran == 1


def test_inputs_are_measured_before_a_task_can_change_them(client: Client, folder: Path) -> None:
    @task
    def fill() -> list[str]:
        return [f"entry {number}" for number in range(1000)]

    @task
    def drain(entries: list[str]) -> int:
        count = len(entries)
        entries.clear()
        return count

    client.compute([drain(fill()) for _ in range(10)], name="drained")
    sizes = [one.input_bytes for one in task_runs(folder, "drained", "drain")]
    assert len(sizes) == 10
    assert min(sizes) > 10_000


def test_sizes_of_odd_values_are_estimated_without_asking_them(client: Client, folder: Path) -> None:
    class Shy:
        @property
        def nbytes(self) -> int:
            raise SystemExit("not your business")

    @task
    def hide() -> Any:
        return Shy()

    @task
    def ignore(_: Any) -> int:
        return 1

    assert client.compute(ignore(hide()), name="shy") == 1
    assert len(task_runs(folder, "shy", "ignore")) == 1


def test_the_second_run_of_a_script_knows_the_first(script: Script, tmp_path: Path) -> None:
    source = """
        import augury

        @augury.task
        def work(x: int) -> int:
            return x + 1

        workflow = [work(x) for x in range(3)]
        client = augury.Client(observers=[])
        estimate = client.predictions(workflow).predict_execution_time("work", 10, augury.Resources(), "median")
        print(estimate.n, estimate.is_prior)
        client.compute(workflow)
    """
    state = str(tmp_path / "state")
    assert script(source, AUGURY_STATE_DIR=state).stdout.split() == ["0", "True"]
    assert script(source, AUGURY_STATE_DIR=state).stdout.split() == ["3", "False"]
    changed = source.replace("x + 1", "x + 2")
    assert script(changed, AUGURY_STATE_DIR=state).stdout.split() == ["0", "True"]
    assert script(source, AUGURY_STATE_DIR=state).stdout.split() == ["6", "False"]
    assert (tmp_path / "state" / "history").stat().st_mode & 0o777 == 0o700


def test_history_can_be_in_redis(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        with Client(platform=Embedded(slots=2), observers=[], history=server.address) as client:
            client.compute([nothing(1)], name="there")
        history = open_history(server.address)
        assert history.load("there").runs == 1
        assert [entry.workflow for entry in history.workflows()] == ["there"]


def test_a_large_run_keeps_a_bounded_number_of_records(client: Client, folder: Path) -> None:
    client.compute([nothing(number) for number in range(3000)], name="many")
    assert 16 <= len(task_runs(folder, "many", "nothing")) <= 64
