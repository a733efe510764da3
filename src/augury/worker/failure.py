"""How a failure travels from a worker to the user: as data on the way, as the user's own exception at the end."""

import traceback

import msgspec

from augury import errors, serde
from augury.dag.graph import Graph
from augury.invoke.gateway import Invocation


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
    """

    task: int = -1
    worker: str = ""
    attempts: int = 1
    kind: str = "TaskFailed"
    message: str = ""
    remote_traceback: str = ""
    error: bytes = b""

    def encode(self) -> bytes:
        """As bytes."""
        return msgspec.msgpack.encode(self)


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
        message=str(error) if known else f"{type(error).__name__}: {error}",
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
    ).encode()


def to_exception(failure: Failure, graph: Graph) -> BaseException:
    """What the client raises: the user's own exception if it travelled, with a cause that tells the story."""
    kind = getattr(errors, failure.kind, errors.RunError)
    if failure.task < 0:
        return kind(_with_traceback(failure.message, failure))
    story = _story(failure, graph)
    if not failure.error:
        return kind(story)
    try:
        error = serde.loads(failure.error)
    except Exception:  # noqa: BLE001 - a user's exception may do anything when it is loaded; the story is told without it
        return errors.TaskFailed(story)
    if not isinstance(error, Exception):
        return errors.TaskFailed(story)
    error.__cause__ = errors.TaskFailed(story)
    error.add_note(f"in {graph.label(failure.task)}{_chain(failure.task, graph)}")
    return error


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
    frames = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, frames.tb_next if frames else None))


def _portable(error: Exception) -> bytes:
    """The exception as bytes, or nothing if it does not survive the way."""
    try:
        data = serde.dumps(error).join()
        serde.loads(data)
    except Exception:  # noqa: BLE001 - any exception class may refuse; its text travels all the same
        return b""
    return data
