"""What becomes of an exception between a worker and the user."""

import email.message
import http.client
import io
import threading
import urllib.error
from collections.abc import Callable
from typing import Any, Self

import pytest

from augury import TaskFailed, WorkerLost, task
from augury.config import Resources
from augury.dag.graph import Graph, build_workflow
from augury.invoke.gateway import Invocation
from augury.worker.failure import decode_failure, task_failure, to_exception, worker_lost


@task
def load(part: int) -> int:
    return part


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
    return to_exception(decode_failure(task_failure(0, "f1", 1, error).encode()), GRAPH)


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
    text = task_failure(0, "f1", 1, caught_in(own, explode)).remote_traceback
    assert text.startswith("Traceback (most recent call last):\n")
    assert "in explode" in text
    assert "runner.py" not in text


def test_a_remote_traceback_keeps_frames_of_others_code() -> None:
    text = task_failure(0, "f1", 1, caught_in("library.py", explode)).remote_traceback
    assert 'File "library.py", line 2, in call' in text


# Lost workers


def lost(reason: str, *tasks: int) -> str:
    data = worker_lost(Invocation("r1", "f1", 1, Resources(), tasks), reason)
    error = to_exception(decode_failure(data), GRAPH)
    assert type(error) is WorkerLost
    return str(error)


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
    assert lost("was killed by SIGKILL", *tasks) == f"worker f1 (attempt 1) was killed by SIGKILL{given}"


def test_a_worker_that_ran_out_of_memory_tells_the_cure() -> None:
    text = lost("ran out of memory after 2 s: its limit is 128 MB", 3)
    assert text.endswith("its limit is 128 MB; it was given load[3]; give its tasks more: @task(memory_mb=…)")
