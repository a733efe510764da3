"""What users get when something goes wrong: their own exception, or an error that says which task and what to do."""

import threading
from pathlib import Path
from typing import Any

import pytest

import augury
from augury import Client, Embedded, Resources, StorageError, task
from augury.dag.graph import build_workflow
from augury.plan.plan import Assignment, Plan
from augury.storage.shm import SharedMemoryObjects
from tests.invoke.stage import wait_until


@task
def fine(x: int) -> int:
    return x


@task
def explode(x: int) -> int:
    raise ValueError(f"cannot take {x}")


@task
def collect(*parts: Any) -> int:
    return len(parts)


class Custom(Exception):
    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code


class ApiError(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def one_worker(outputs: Any) -> Plan:
    """A plan by which one worker does everything, one task after the other."""
    graph = build_workflow(outputs).graph
    assignments = (Assignment(0, Resources()),) * len(graph)
    return Plan(fingerprint=graph.fingerprint, planner="by hand", assignments=assignments)


def test_the_users_own_exception_is_raised(client: Client) -> None:
    with pytest.raises(ValueError, match="cannot take 3") as caught:
        client.compute(collect(fine(1), explode(3)))
    cause = caught.value.__cause__
    assert isinstance(cause, augury.TaskFailed)
    assert "explode[0] failed on worker" in str(cause)
    assert "needed by collect[0]" in str(cause)
    assert "Remote traceback" in str(cause)
    assert "raise ValueError" in str(cause)
    assert any("explode[0]" in note for note in caught.value.__notes__)


def test_an_exception_class_of_the_users_arrives_as_it_is(client: Client) -> None:
    @task
    def refuse() -> None:
        raise Custom(7, "no")

    with pytest.raises(Custom) as caught:
        client.compute(refuse())
    assert caught.value.code == 7


def test_an_exception_with_another_signature_than_its_args_arrives_as_it_is(client: Client) -> None:
    @task
    def refuse() -> None:
        raise ApiError(404, "not found")

    with pytest.raises(ApiError, match="404: not found") as caught:
        client.compute(refuse())
    assert str(caught.value) == "404: not found"
    assert caught.value.code == 404
    assert "worker/runner.py" not in str(caught.value.__cause__)


def test_an_exception_that_cannot_travel_is_told(client: Client) -> None:
    @task
    def refuse() -> None:
        class Odd(Exception):
            def __init__(self) -> None:
                super().__init__("odd", threading.Lock())

        raise Odd

    with pytest.raises(augury.TaskFailed, match=r"refuse\[0\] failed .*Odd: \('odd'"):
        client.compute(refuse())


def test_sys_exit_in_a_task_fails_the_run_and_not_the_client(client: Client) -> None:
    @task
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(augury.TaskFailed, match=r"leave\[0\].*SystemExit"):
        client.compute(leave())


def test_dependents_of_a_failed_task_do_not_run(client: Client, tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    @task
    def mark(_: int) -> None:
        marker.touch()

    with pytest.raises(ValueError, match="cannot take"):
        client.compute(mark(explode(1)))
    assert not marker.exists()


def test_a_failed_task_is_tried_again(client: Client, tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    @task(retries=2)
    def flaky() -> int:
        with tries.open("a") as file:
            file.write("x")
        if len(tries.read_text()) < 3:
            raise OSError("not yet")
        return 42

    assert client.compute(flaky()) == 42
    assert len(tries.read_text()) == 3


def test_a_task_that_keeps_failing_tells_how_often_it_was_tried(client: Client) -> None:
    @task(retries=2)
    def never() -> None:
        raise OSError("still not")

    with pytest.raises(OSError, match="still not") as caught:
        client.compute(never())
    assert "after 3 attempts" in str(caught.value.__cause__)


def test_only_what_is_worth_it_is_tried_again(client: Client, tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    @task(retries=5, backoff_s=0, retry_on=(Custom, ApiError))
    def flaky() -> int:
        with tries.open("a") as file:
            file.write("x")
        seen = len(tries.read_text())
        raise Custom(7, "again") if seen < 3 else ValueError("for good")

    with pytest.raises(ValueError, match="for good") as caught:
        client.compute(flaky())
    assert "after 3 attempts" in str(caught.value.__cause__)


def test_a_timeout_is_tried_again_if_it_is_worth_it(client: Client, tmp_path: Path) -> None:
    @task(retries=1, timeout_s=0.5, retry_on=augury.TaskTimeout)
    def slow_at_first(tries: Path) -> int:
        tries.write_text(tries.read_text() + "x")
        if len(tries.read_text()) < 2:
            threading.Event().wait()
        return len(tries.read_text())

    @task(retries=1, timeout_s=0.5, retry_on=OSError)
    def slow(tries: Path) -> None:
        tries.write_text(tries.read_text() + "x")
        threading.Event().wait()

    for name in ("first", "second"):
        (tmp_path / name).touch()
    assert client.compute(slow_at_first(tmp_path / "first")) == 2
    with pytest.raises(augury.TaskTimeout):
        client.compute(slow(tmp_path / "second"))
    assert (tmp_path / "second").read_text() == "x"


def test_others_run_while_a_task_waits_for_its_next_try(client: Client, tmp_path: Path) -> None:
    order = tmp_path / "order"
    order.touch()

    def note(what: str) -> str:
        with order.open("a") as file:
            file.write(f"{what} ")
        return order.read_text()

    @task(retries=1, backoff_s=0.4)
    def flaky() -> None:
        if note("try").count("try") == 1:
            raise OSError("not yet")

    @task
    def steady() -> None:
        note("steady")

    tasks = [flaky(), *(steady() for _ in range(3))]
    client.compute(tasks, plan=one_worker(tasks))
    assert order.read_text().split() == ["try", "steady", "steady", "steady", "try"]


def test_a_task_that_takes_too_long_is_stopped(client: Client) -> None:
    @task(timeout_s=0.05)
    def endless() -> None:
        threading.Event().wait()

    with pytest.raises(augury.TaskTimeout, match=r"endless\[0\].*timeout_s of 0.05 s") as caught:
        client.compute(endless())
    told = str(caught.value)
    assert "threading.Event().wait()" in told  # where it was
    assert "augury/worker" not in told


def test_what_a_task_returns_after_its_time_was_up_does_not_count(client: Client, tmp_path: Path) -> None:
    @task(retries=1, timeout_s=0.5)
    def stubborn(tried: Path) -> str:
        if tried.exists():
            return "in time"
        tried.touch()
        try:
            threading.Event().wait()
        except BaseException:  # noqa: BLE001 - to be interrupted, too
            return "late"
        return "never"

    assert client.compute(stubborn(tmp_path / "tried")) == "in time"


def test_an_unpicklable_argument_names_the_task_and_the_argument(client: Client) -> None:
    with pytest.raises(augury.SerializationError, match=r"fine\[0\]") as caught:
        client.compute(fine(threading.Lock()))
    assert "lock" in str(caught.value)


def test_an_unpicklable_result_names_the_task(client: Client) -> None:
    @task
    def lock() -> Any:
        return threading.Lock()

    with pytest.raises(augury.SerializationError, match=r"result of lock\[0\] cannot be pickled"):
        client.compute(lock())


def test_a_task_that_returns_a_task_says_what_to_do(client: Client) -> None:
    @task
    def wrong() -> Any:
        return fine(1)

    with pytest.raises(augury.SerializationError, match=r"wrong\[0\].*\.fn"):
        client.compute(wrong())


def test_a_run_given_to_a_task_of_another_client_is_refused(client: Client) -> None:
    run = client.submit(fine(1), name="first")
    with Client(platform=Embedded(slots=1), observers=[]) as other:
        with pytest.raises(augury.SerializationError, match=r"fine\[0\].*first.*run\.result\(\)"):
            other.compute(fine(run))
        assert other.compute(fine(run.result())) == 1


def test_the_same_task_may_be_computed_by_two_clients(client: Client) -> None:
    shared = fine(5)
    with Client(platform=Embedded(slots=1), observers=[]) as other:
        assert (client.compute(shared), other.compute(shared)) == (5, 5)


def test_a_wrong_redis_address_is_told() -> None:
    client = Client(redis="redis://127.0.0.1:1/0", gateway="http://127.0.0.1:1", observers=[])
    with client, pytest.raises(augury.StorageError, match=r"127\.0\.0\.1:1"):
        client.compute(fine(1))


def test_a_gateway_that_is_not_there_is_told(client: Client) -> None:
    platform = client._open()
    assert platform.embedded is not None
    other = Client(redis=platform.embedded.storage_config.redis, gateway="http://127.0.0.1:1", observers=[])
    with other, pytest.raises(augury.GatewayError, match=r"127\.0\.0\.1:1"):
        other.compute(fine(1))


def test_a_worker_that_dies_fails_the_run_and_the_platform_goes_on(client: Client) -> None:
    @task
    def die() -> None:
        import os  # noqa: PLC0415
        import signal  # noqa: PLC0415

        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(augury.WorkerLost, match=r"SIGKILL after .* s while it ran die\[0\]"):
        client.compute(collect(fine(1), die()))
    assert client.compute(fine(2)) == 2


def test_cancelling_ends_a_run_that_would_never_end(client: Client, tmp_path: Path) -> None:
    started = tmp_path / "started"

    @task
    def endless() -> None:
        started.touch()
        threading.Event().wait()

    run = client.submit(endless())
    wait_until(started.exists, "the task has begun")
    with pytest.raises(TimeoutError):
        run.result(timeout=0.01)
    assert run.cancel()
    with pytest.raises(augury.RunCancelled):
        run.result(timeout=30)
    assert run.status == "cancelled"
    assert not run.cancel()


def test_waiting_with_a_timeout_leaves_the_run_alone(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    @task
    def wait_for_gate() -> str:
        while not gate.exists():
            threading.Event().wait(0.005)
        return "open"

    run = client.submit(wait_for_gate())
    with pytest.raises(TimeoutError, match="it goes on"):
        run.result(timeout=0.01)
    gate.touch()
    assert run.result(timeout=30) == "open"


def test_a_closed_client_says_so() -> None:
    client = Client(observers=[])
    client.close()
    with pytest.raises(augury.PlatformError, match="closed"):
        client.submit(fine(1))


def test_nothing_to_compute_is_its_own_value_and_no_run(client: Client) -> None:
    assert client.compute([1, 2]) == [1, 2]
    with pytest.raises(augury.DefinitionError, match="no task"):
        client.submit([1, 2])


def test_more_memory_than_the_machine_has_is_refused(client: Client) -> None:
    @task(memory_mb=1 << 30)
    def huge() -> None:
        pass

    with pytest.raises(augury.PlanError, match=r"huge\[0\] is to have .* can have .* MB at most"):
        client.compute(huge())


def test_the_report_of_a_failed_run_counts_what_ran(client: Client) -> None:
    run = client.submit(explode(fine(1)))
    with pytest.raises(ValueError, match="cannot take"):
        run.result()
    report = run.report()
    assert (report.ran, report.tasks) == (1, 2)
    assert str(report).startswith("1 of 2 tasks on ")


def test_a_plan_of_another_workflow_is_refused(client: Client) -> None:
    plan = client.plan(fine(1))
    with pytest.raises(augury.PlanError, match="another workflow"):
        client.submit(collect(fine(1)), plan=plan)


@pytest.mark.parametrize("where", ["argument", "function"])
def test_what_the_store_has_no_room_for_is_named(client: Client, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("full")

    monkeypatch.setattr(SharedMemoryObjects, "put", refuse)
    table = bytes(100_000)

    @task
    def refer() -> int:
        return len(table)

    outputs, match = {
        "argument": (fine(table), r"^a large argument of fine\[0\]: full"),
        "function": (refer(), "^the function refer, with what it refers to: full"),
    }[where]
    with pytest.raises(StorageError, match=match):
        client.submit(outputs)
