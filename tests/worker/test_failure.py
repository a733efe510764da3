"""What becomes of an exception between a worker and the user."""

import email.message
import http.client
import io
import os
import threading
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from augury import OutOfMemory, RunError, TaskFailed, TaskTimeout, WorkerLost, serde, task
from augury.config import Resources
from augury.dag.graph import Graph, build_workflow
from augury.invoke.blackbox import RunningTask
from augury.invoke.gateway import Invocation, Loss, LossKind
from augury.trust import process_keyring
from augury.worker.failure import Failure, decode_failure, task_failure, to_exception, worker_lost


@task
def load(part: int) -> int:
    return part


SEAL = process_keyring().seal("r1")
GRAPH: Graph = build_workflow([load(part) for part in range(6)]).graph


class ApiError(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Missing(Exception):
    """Called again with its own args it would say `no no key`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no {name}")


class NoFile(OSError):
    def __init__(self, path: str) -> None:
        super().__init__(2, "not there", path)


class Made(Exception):
    def __new__(cls, *, code: int) -> Self:
        made = super().__new__(cls, code)
        made.code = code
        return made

    def __init__(self, *, code: int) -> None:
        super().__init__(code)

    code: int


class Careful(Exception):
    """Knows how to be pickled."""

    def __init__(self, *, code: int) -> None:
        super().__init__("careful")
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return _careful, (self.code,)


def _careful(code: int) -> Careful:
    return Careful(code=code)


class Holder(Exception):
    def __init__(self) -> None:
        super().__init__("held")
        self.code = 7
        self.lock = threading.Lock()


class Unsendable(Exception):
    def __init__(self) -> None:
        super().__init__("odd", threading.Lock())


def travelled(error: BaseException) -> BaseException:
    return to_exception(decode_failure(task_failure(0, "f1", 1, error, SEAL).encode()), GRAPH, seal=SEAL)


def arrives(error: Exception) -> Any:
    back = travelled(error)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    assert isinstance(back.__cause__, TaskFailed)
    return back


def test_an_exception_with_another_signature_than_its_args_arrives_as_it_was() -> None:
    assert arrives(ApiError(404, "not found")).code == 404


def test_an_exception_is_not_made_a_second_time() -> None:
    arrives(Missing("key"))


def test_a_built_in_exception_keeps_its_attributes() -> None:
    assert arrives(OSError(2, "not there", "/x")).filename == "/x"
    assert arrives(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")).start == 0
    assert arrives(ModuleNotFoundError("no module", name="x")).name == "x"


def test_an_exception_of_the_users_keeps_what_its_built_in_base_holds() -> None:
    back = arrives(NoFile("/x"))
    assert (back.errno, back.filename) == (2, "/x")


def test_an_exception_with_a_new_of_its_own_arrives() -> None:
    assert arrives(Made(code=3)).code == 3


def test_an_exception_that_knows_how_to_be_pickled_is_asked() -> None:
    assert arrives(Careful(code=5)).code == 5


def test_an_exception_of_urllib_arrives_without_its_connection() -> None:
    response: Any = io.BufferedReader(io.FileIO(0, closefd=False))  # cannot be pickled, as a socket cannot
    error = urllib.error.HTTPError("http://host/", 503, "busy", email.message.Message(), response)
    back = arrives(error)
    assert (back.code, back.reason) == (503, "busy")
    assert back.fp is None


def test_an_exception_of_http_client_arrives() -> None:
    assert arrives(http.client.IncompleteRead(b"half", 8)).partial == b"half"


def test_an_attribute_that_cannot_travel_arrives_as_none() -> None:
    back = arrives(Holder())
    assert (back.code, back.lock) == (7, None)


def test_arguments_that_cannot_travel_leave_the_story() -> None:
    back = travelled(Unsendable())
    assert type(back) is TaskFailed
    assert "Unsendable: ('odd'," in str(back)


def test_notes_of_an_exception_are_kept_before_the_note_on_its_task() -> None:
    error = ApiError(404, "not found")
    error.add_note("while loading")
    first, second = arrives(error).__notes__
    assert first == "while loading"
    assert second.startswith("in load[0]")


# Where it happened


def caught_in(filename: str, function: Callable[[], Any]) -> BaseException:
    """What a function raised, called from code that seems to be in a file."""
    scope: dict[str, Any] = {"function": function}
    exec(compile("def call():\n    function()", filename, "exec"), scope)
    try:
        scope["call"]()
    except Exception as error:  # noqa: BLE001
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
        return error
    raise AssertionError("it did not raise")


def explode() -> None:
    raise ValueError("no")


def test_a_remote_traceback_begins_in_the_users_code() -> None:
    own = task_failure.__code__.co_filename.replace("failure.py", "runner.py")
    text = task_failure(0, "f1", 1, caught_in(own, explode), SEAL).remote_traceback
    assert text.startswith("Traceback (most recent call last):\n")
    assert "in explode" in text
    assert "runner.py" not in text


def test_a_remote_traceback_keeps_frames_of_others_code() -> None:
    text = task_failure(0, "f1", 1, caught_in("library.py", explode), SEAL).remote_traceback
    assert 'File "library.py", line 2, in call' in text


# Lost workers


def lost(reason: str, *tasks: int, kind: LossKind = LossKind.CRASH, running: tuple[int, ...] = ()) -> WorkerLost:
    loss = Loss(
        invocation=Invocation("r1", "f1", 1, Resources(), tasks),
        cold=True,
        duration_s=1.0,
        kind=kind,
        reason=reason,
        tasks=tuple(map(RunningTask, running)),
        used_mb=130,
        had_mb=128,
    )
    error = to_exception(decode_failure(worker_lost(loss)), GRAPH, seal=SEAL)
    assert isinstance(error, WorkerLost)
    return error


@pytest.mark.parametrize(
    ("tasks", "given"),
    [
        ((), ""),
        ((2,), "; it was given load[2]"),
        ((0, 1), "; it was given load[0] and load[1]"),
        ((0, 1, 2), "; it was given load[0], load[1] and load[2]"),
        ((0, 1, 2, 3, 4), "; it was given load[0], load[1], load[2] and 2 more"),
    ],
)
def test_the_loss_of_a_worker_tells_what_it_was_given(tasks: tuple[int, ...], given: str) -> None:
    assert str(lost("was killed by SIGKILL", *tasks)) == f"worker f1 (attempt 1) was killed by SIGKILL{given}"


def test_the_loss_of_a_worker_tells_what_it_ran_rather_than_what_it_was_given() -> None:
    error = lost("was killed by SIGKILL after 2 s", 0, 1, 2, running=(1,))
    assert str(error) == (
        "worker f1 (attempt 1) was killed by SIGKILL after 2 s while it ran load[1]; "
        "a worker may be lost more often in a row with Client(restarts=…)"
    )


def test_a_worker_that_ran_out_of_memory_tells_what_it_used_and_the_cure() -> None:
    error = lost("ran out of memory after 2 s", 0, 3, kind=LossKind.MEMORY, running=(3,))
    assert type(error) is OutOfMemory
    assert str(error) == (
        "worker f1 (attempt 1) ran out of memory after 2 s while it ran load[3]: it used 130 MiB and had 128 MiB; "
        "give it more, with @task(memory_mb=256), or smaller inputs"
    )


@pytest.mark.parametrize(("most_mb", "told"), [(0, False), (64, True), (128, True), (256, False)])
def test_the_most_that_workers_get_is_told_where_it_was_reached(most_mb: int, told: bool) -> None:
    failure = Failure(kind="OutOfMemory", message="it ran out of memory", had_mb=128)
    error = to_exception(failure, GRAPH, seal=SEAL, most_mb=most_mb)
    assert (f"{most_mb} MiB is the most that workers are given unasked" in str(error)) is told


def test_a_worker_that_was_killed_for_a_late_task_is_that_tasks_timeout() -> None:
    invocation = Invocation("run", "w0", 1, Resources())
    late = RunningTask(3, since_s=10.0, timeout_s=1.5)
    loss = Loss(invocation=invocation, cold=True, duration_s=9.0, kind=LossKind.TIMEOUT, reason="was", tasks=(late,))
    error = to_exception(decode_failure(worker_lost(loss)), GRAPH, seal=SEAL)
    assert isinstance(error, TaskTimeout)
    assert str(error).startswith("load[3] failed on worker w0: it ran longer than its timeout_s of 1.5 s")


# Failures that somebody else wrote


def test_an_exception_that_no_worker_signed_is_not_loaded(tmp_path: Path) -> None:
    honest = task_failure(1, "f1", 1, ValueError("no"), SEAL)
    forged = [
        serde.dumps(Bomb(tmp_path / "mark")).join(),
        SEAL.sign("e2", serde.dumps(Bomb(tmp_path / "mark")).join()),  # of another task
        process_keyring().seal("another run").sign("e1", serde.dumps(Bomb(tmp_path / "mark")).join()),
    ]
    for data in forged:
        error = to_exception(msgspec.structs.replace(honest, error=data), GRAPH, seal=SEAL)
        assert type(error) is TaskFailed
        assert "not authentic" in str(error)
    assert not (tmp_path / "mark").exists()


class Bomb:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


@pytest.mark.parametrize("kind", ["__name__", "AuguryError.mro", "traceback", "NoSuchError"])
def test_a_failure_of_no_known_kind_is_one_of_the_run(kind: str) -> None:
    assert type(to_exception(Failure(kind=kind, message="x"), GRAPH, seal=SEAL)) is RunError


@pytest.mark.parametrize("task", [6, 10**9, 2**63 - 1])
def test_a_failure_of_a_task_that_there_is_not_is_told_all_the_same(task: int) -> None:
    error = to_exception(Failure(task=task, message="it broke", error=b"x" * 40), GRAPH, seal=SEAL)
    assert "it broke" in str(error)


def test_what_cannot_be_read_of_a_failure_is_told() -> None:
    error = to_exception(decode_failure(b"\xff"), GRAPH, seal=SEAL)
    assert type(error) is RunError
    assert "cannot be read" in str(error)
