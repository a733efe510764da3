"""How a failure travels from a worker to the user: as data on the way, as the user's own exception at the end."""

import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

import msgspec

from augury import errors, serde
from augury.dag.graph import Graph
from augury.invoke.gateway import Invocation
from augury.plan.plan import Plan
from augury.worker.view import planned_name

_OWN_FOLDERS = (str(Path(__file__).parent), str(Path(traceback.__file__).with_name("asyncio")))
"""Where the code is that calls the user's function, directly or in an event loop."""

_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
_NAMED_TASKS = 3


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run failed.

    Attributes:
        task: The task that failed, or -1: then it is the worker or the platform.
        worker: The worker that saw it.
        attempts: How often the task was tried.
        kind: The name of the exception in `augury.errors` that tells of it.
        message: What happened, for people.
        remote_traceback: Where, in the user's code; empty if no code was involved.
        error: The user's exception, if it can travel.
        tasks: What a worker that was lost was started with; empty for a planned one.
    """

    task: int = -1
    worker: str = ""
    attempts: int = 1
    kind: str = "TaskFailed"
    message: str = ""
    remote_traceback: str = ""
    error: bytes = b""
    tasks: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """As bytes."""
        message, trace = _encodable(self.message), _encodable(self.remote_traceback)
        return msgspec.msgpack.encode(msgspec.structs.replace(self, message=message, remote_traceback=trace))


def decode_failure(data: bytes) -> Failure:
    """Read what `Failure.encode` wrote."""
    return msgspec.msgpack.decode(data, type=Failure)


def task_failure(task: int, worker: str, attempts: int, error: BaseException) -> Failure:
    """A task raised."""
    known = isinstance(error, errors.AuguryError)
    return Failure(
        task=task,
        worker=worker,
        attempts=attempts,
        kind=type(error).__name__ if known else "TaskFailed",
        message=_text(error) if known else f"{type(error).__name__}: {_text(error)}",
        remote_traceback="" if known else _user_traceback(error),
        error=b"" if known or not isinstance(error, Exception) else _portable(error),
    )


def platform_failure(worker: str, error: BaseException) -> Failure:
    """The worker could not do its work: storage or gateway refused, or Augury itself has a bug."""
    if isinstance(error, errors.AuguryError):
        return Failure(worker=worker, kind=type(error).__name__, message=str(error))
    text = "".join(traceback.format_exception(error))
    return Failure(worker=worker, kind="RunError", message=f"worker {worker} failed: {error!r}", remote_traceback=text)


def worker_lost(invocation: Invocation, reason: str) -> bytes:
    """A gateway saw a worker die; called by name, since gateways know nothing of workers."""
    return Failure(
        worker=invocation.worker,
        kind="WorkerLost",
        message=f"worker {invocation.worker} (attempt {invocation.attempt}) {reason}",
        tasks=invocation.tasks,
    ).encode()


def to_exception(failure: Failure, graph: Graph, plan: Plan | None = None) -> BaseException:
    """What the client raises: the user's own exception if it travelled, with a cause that tells the story.

    Args:
        failure: What a worker or a gateway told.
        graph: The workflow.
        plan: What was carried out; it knows the tasks of a worker that died before it could tell.
    """
    kind = getattr(errors, failure.kind, errors.RunError)
    if failure.task < 0:
        return kind(_with_traceback(failure.message + _given(failure, graph, plan) + _cure(failure), failure))
    story = _story(failure, graph)
    if not failure.error:
        return kind(story)
    try:
        error = _unpacked(failure.error)
    except Exception:  # noqa: BLE001 - a user's exception may do anything when it is loaded; the story is told without it
        return errors.TaskFailed(story)
    error.__cause__ = errors.TaskFailed(story)
    error.add_note(f"in {graph.label(failure.task)}{_chain(failure.task, graph)}")
    return error


def _given(failure: Failure, graph: Graph, plan: Plan | None) -> str:
    """What a lost worker was to do, as far as its invocation or the plan says."""
    tasks: Sequence[int] = failure.tasks
    if not tasks and failure.kind == "WorkerLost" and plan is not None:
        workers = {planned_name(a.worker): a.worker for a in plan.assignments if a.worker is not None}
        index = workers.get(failure.worker, -1)
        tasks = [task for task, assignment in enumerate(plan.assignments) if assignment.worker == index]
    labels = [graph.label(task) for task in tasks[:_NAMED_TASKS]]
    if len(tasks) > _NAMED_TASKS:
        labels.append(f"{len(tasks) - _NAMED_TASKS} more")
    listed = " and ".join(part for part in (", ".join(labels[:-1]), *labels[-1:]) if part)
    return f"; it was given {listed}" if listed else ""


def _cure(failure: Failure) -> str:
    out_of_memory = failure.kind == "WorkerLost" and "out of memory" in failure.message
    return "; give its tasks more: @task(memory_mb=…)" if out_of_memory else ""


def _story(failure: Failure, graph: Graph) -> str:
    attempts = f"after {failure.attempts} attempts " if failure.attempts > 1 else ""
    head = f"{graph.label(failure.task)} failed {attempts}on worker {failure.worker}{_chain(failure.task, graph)}"
    return _with_traceback(f"{head}: {failure.message}", failure)


def _chain(task: int, graph: Graph) -> str:
    """The tasks that could not run because of this one: the way to a sink."""
    labels = [graph.label(other) for other in graph.chain_to_sink(task)[1:]]
    if len(labels) > 6:
        labels = [*labels[:3], f"… {len(labels) - 5} more …", *labels[-2:]]
    return f" (needed by {' → '.join(labels)})" if labels else ""


def _with_traceback(message: str, failure: Failure) -> str:
    return f"{message}\n\nRemote traceback:\n{failure.remote_traceback}" if failure.remote_traceback else message


def _user_traceback(error: BaseException) -> str:
    """The traceback from the user's function on, without the worker's own frames."""
    frame: TracebackType | None = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_OWN_FOLDERS):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame))


# How an exception travels: by the pickling that its class defines, or else as (class, arguments, attributes). The
# default of Python calls the class again with `args`, which fails, or does harm, if its `__init__` takes others.


def _text(error: BaseException) -> str:
    """What an exception says; a user's class may refuse."""
    try:
        return str(error)
    except Exception as refusal:  # noqa: BLE001 - its `__str__` may do anything
        return f"<no text: {refusal!r}>"


def _encodable(text: str) -> str:
    """Text without lone surrogates, such as file names that are no UTF-8 have: no message can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _portable(error: Exception) -> bytes:
    """The exception as bytes, or nothing if it does not survive the way."""
    try:
        parcel = error if _pickles_itself(type(error)) else _parcel(error)
        data = serde.dumps(parcel).join()
        _unpacked(data)
    except Exception:  # noqa: BLE001 - any exception class may refuse; its text travels all the same
        return b""
    return data


def _unpacked(data: bytes) -> Exception:
    parcel = serde.loads(data)
    error = parcel if isinstance(parcel, Exception) else _rebuilt(*parcel)
    if not isinstance(error, Exception):
        raise errors.SerializationError(f"this is not an exception: {error!r}")
    return error


def _pickles_itself(kind: type) -> bool:
    return any(isinstance(getattr(kind, name, None), FunctionType) for name in _PICKLING)


def _parcel(error: Exception) -> tuple[Any, ...]:
    """Class, arguments, and attributes with the notes among them; None in place of those that cannot travel."""
    _, args, *rest = tuple(error.__reduce__())
    state = rest[0] if rest and isinstance(rest[0], dict) else {}
    return type(error), args, {name: value if _travels(value) else None for name, value in state.items()}


def _travels(value: Any) -> bool:
    try:
        serde.loads(serde.dumps(value).join())
    except Exception:  # noqa: BLE001 - an attribute may be anything
        return False
    return True


def _rebuilt(kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    """An exception as it was; its own `__init__` is left out, that of the built-in class below it is not."""
    try:
        error = kind.__new__(kind, *args)
    except TypeError:  # it has a `__new__` of its own, with other arguments
        error = BaseException.__new__(kind, *args)
    inits = (vars(base).get("__init__") for base in kind.__mro__)
    below = next(init for init in inits if init is not None and not isinstance(init, FunctionType))
    below(error, *args)
    error.__setstate__(state)
    return error
