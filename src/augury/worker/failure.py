"""How a failure travels from a worker to the user: as data on the way, as the user's own exception at the end."""

import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

import msgspec

from augury import errors, serde
from augury.dag.graph import Graph
from augury.invoke.gateway import Loss, LossKind
from augury.plan.plan import Plan
from augury.storage.protocols import Cause, Hopeless
from augury.trust.seal import Seal
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
        running: What it was running.
        used_mb: The most memory that it had; `had_mb`: what it was limited to.
    """

    task: int = -1
    worker: str = ""
    attempts: int = 1
    kind: str = "TaskFailed"
    message: str = ""
    remote_traceback: str = ""
    error: bytes = b""
    tasks: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    used_mb: int = 0
    had_mb: int = 0

    def encode(self) -> bytes:
        """As bytes."""
        message, trace = _encodable(self.message), _encodable(self.remote_traceback)
        return msgspec.msgpack.encode(msgspec.structs.replace(self, message=message, remote_traceback=trace))


def decode_failure(data: bytes) -> Failure:
    """Read what `Failure.encode` wrote; of what nobody can read, that much is told."""
    try:
        return msgspec.msgpack.decode(data, type=Failure)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Failure(kind="RunError", message=f"the run failed, and what was written of it cannot be read: {error}")


def task_failure(task: int, worker: str, attempts: int, error: BaseException, seal: Seal) -> Failure:
    """A task raised; the exception is signed, since the client will unpickle it."""
    known = isinstance(error, errors.AuguryError)
    return Failure(
        task=task,
        worker=worker,
        attempts=attempts,
        kind=type(error).__name__ if known else "TaskFailed",
        message=_text(error) if known else f"{type(error).__name__}: {_text(error)}",
        remote_traceback=_whereabouts(error) if known else _user_traceback(error),
        error=b"" if known or not isinstance(error, Exception) else _portable(error, task, seal),
    )


def deaf(timeout_s: float) -> str:
    """What is said of a task that is late and could not be interrupted."""
    return f"it ran longer than its timeout_s of {timeout_s:g} s, and cannot be interrupted: its worker was ended"


def platform_failure(worker: str, error: BaseException) -> Failure:
    """The worker could not do its work: storage or gateway refused, or Augury itself has a bug."""
    if isinstance(error, errors.AuguryError):
        return Failure(worker=worker, kind=type(error).__name__, message=str(error))
    text = "".join(traceback.format_exception(error))
    return Failure(worker=worker, kind="RunError", message=f"worker {worker} failed: {error!r}", remote_traceback=text)


def worker_lost(loss: Loss) -> bytes:
    """A gateway saw a worker die; called by name, since gateways know nothing of workers."""
    invocation = loss.invocation
    if loss.kind is LossKind.TIMEOUT and loss.tasks:
        late = loss.tasks[0]
        return Failure(
            task=late.task, worker=invocation.worker, kind="TaskTimeout", message=deaf(late.timeout_s)
        ).encode()
    if loss.overlong >= 0:
        return _overlong(loss).encode()
    return Failure(
        worker=invocation.worker,
        kind="OutOfMemory" if loss.kind is LossKind.MEMORY else "WorkerLost",
        message=f"worker {invocation.worker} (attempt {invocation.attempt}) {loss.reason}",
        tasks=invocation.tasks,
        running=tuple(one.task for one in loss.tasks),
        used_mb=loss.used_mb,
        had_mb=loss.had_mb,
    ).encode()


def _overlong(loss: Loss) -> Failure:
    """A task needs more time than the platform gives any worker; to start it again would change nothing."""
    return Failure(
        task=loss.overlong,
        worker=loss.invocation.worker,
        kind="TaskTimeout",
        message=overlong(loss.limit_s),
    )


def overlong(limit_s: float) -> str:
    """What is told of a task that takes longer than the platform gives any worker."""
    return (
        f"it was not done when its time was up, for the platform ends workers after {limit_s:,.3g} s: "
        "split it into smaller tasks, give it more CPUs, or run it where there is no such limit"
    )


def lost_for_good(hopeless: Hopeless) -> Failure:
    """A worker was not heard of, again and again, and nobody saw why."""
    memory = hopeless.cause is Cause.MEMORY
    reason = {
        Cause.MEMORY: "ran out of memory",
        Cause.START: "was taken by the platform, again and again, and never started: see the platform's own log",
        Cause.CUT: f"was at the platform's time limit {hopeless.losses} times in a row and got no further: its tasks "
        "take nearly as long (split them, or give them more CPUs), or return what cannot be pickled for a successor",
    }.get(hopeless.cause, f"was lost {hopeless.losses} times in a row, without a word")
    return Failure(
        worker=hopeless.worker,
        kind="OutOfMemory" if memory else "WorkerLost",
        message=f"worker {hopeless.worker} (attempt {hopeless.attempt}) {reason}",
        had_mb=hopeless.resources.memory_mb if memory else 0,
    )


def to_exception(
    failure: Failure, graph: Graph, plan: Plan | None = None, *, seal: Seal, most_mb: int = 0, platform_mb: int = 0
) -> BaseException:
    """What the client raises: the user's own exception if it travelled, with a cause that tells the story.

    Args:
        failure: What a worker or a gateway told.
        graph: The workflow.
        plan: What was carried out; it knows the tasks of a worker that died before it could tell.
        seal: What checks that a worker of this run made the user's exception.
        most_mb: What workers that run out of memory are given at most; 0 if that is not known.
        platform_mb: What a worker of the platform can have at most; 0 if that is not known.
    """
    kind = _kind(failure.kind)
    failure = _within(failure, graph)
    if issubclass(kind, errors.WorkerLost):
        return kind(_story_of_loss(failure, graph, plan) + _cure(failure, most_mb, platform_mb))
    if failure.task < 0:
        return kind(_with_traceback(failure.message, failure))
    story = _story(failure, graph)
    if not failure.error:
        return kind(story)
    try:
        seal.check(_what(failure.task), failure.error)
        error = _unpacked(failure.error)
    except errors.UntrustedData:
        return errors.TaskFailed(f"{story}\n\nThe exception itself is not authentic, and was not loaded.")
    except Exception:  # noqa: BLE001 - a user's exception may do anything when it is loaded; the story is told without it
        return errors.TaskFailed(story)
    error.__cause__ = errors.TaskFailed(story)
    error.add_note(f"in {graph.label(failure.task)}{_chain(failure.task, graph)}")
    return error


def _kind(name: str) -> type[errors.AuguryError]:
    """The exception of that name; whoever writes to storage can make one up."""
    found = vars(errors).get(name)
    return found if isinstance(found, type) and issubclass(found, errors.AuguryError) else errors.RunError


def _within(failure: Failure, graph: Graph) -> Failure:
    """A failure that names no tasks but those of the workflow."""
    task = failure.task if failure.task < len(graph) else -1
    tasks = tuple(one for one in failure.tasks if 0 <= one < len(graph))
    return msgspec.structs.replace(failure, task=task, tasks=tasks)


def _story_of_loss(failure: Failure, graph: Graph, plan: Plan | None) -> str:
    """How a worker died, and what it was doing."""
    running = _listed(failure.running, graph)
    if running:
        doing = f" while it ran {running}"
    else:
        given = _listed(failure.tasks or _planned(failure.worker, plan), graph)
        doing = f"; it was given {given}" if given else ""
    return failure.message + doing


def _planned(worker: str, plan: Plan | None) -> Sequence[int]:
    """The tasks that a plan gives to a worker."""
    if plan is None:
        return ()
    workers = {planned_name(a.worker): a.worker for a in plan.assignments if a.worker is not None}
    index = workers.get(worker, -1)
    return [task for task, assignment in enumerate(plan.assignments) if assignment.worker == index]


def _listed(tasks: Sequence[int], graph: Graph) -> str:
    """The first few of some tasks: `load[0], load[1] and 3 more`."""
    labels = [graph.label(task) for task in tasks[:_NAMED_TASKS] if 0 <= task < len(graph)]
    if len(tasks) > _NAMED_TASKS:
        labels.append(f"{len(tasks) - _NAMED_TASKS} more")
    return " and ".join(part for part in (", ".join(labels[:-1]), *labels[-1:]) if part)


def _cure(failure: Failure, most_mb: int, platform_mb: int) -> str:
    """What to do against a want of memory; or if a task that was never to blame met one death too many."""
    if failure.kind != "OutOfMemory":
        return "; a worker may be lost more often in a row with Client(restarts=…)" if failure.running else ""
    had_mb, used_mb = failure.had_mb, failure.used_mb
    measured = f": it used {used_mb:,} MiB and had {had_mb:,} MiB" if used_mb and had_mb else ""
    if 0 < platform_mb <= had_mb:
        return f"{measured}, as much as a worker of this platform can have: use smaller inputs, or another platform"
    wanted_mb = max(2 * had_mb, used_mb)
    wanted_mb = min(wanted_mb, platform_mb) if platform_mb else wanted_mb
    asked = f"@task(memory_mb={wanted_mb})" if wanted_mb else "@task(memory_mb=…)"
    tasks = "them" if len(failure.running) > 1 else "it" if failure.running else "its tasks"
    bound = f"; {most_mb:,} MiB is the most that workers are given unasked (Client(most_memory_mb=…), or the platform)"
    return f"{measured}{bound if 0 < most_mb <= had_mb else ''}; give {tasks} more, with {asked}, or smaller inputs"


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


def _whereabouts(error: BaseException) -> str:
    """Where the user's code was when one of our own exceptions reached it; empty if it was not under way."""
    frames = traceback.extract_tb(error.__traceback__) if isinstance(error, errors.TaskTimeout) else ()
    users = [frame for frame in frames if not frame.filename.startswith(_OWN_FOLDERS)]
    return "".join(["Traceback (most recent call last):\n", *traceback.format_list(users)]) if users else ""


# How an exception travels: by the pickling that its class defines, or else as (class, arguments, attributes). The
# default of Python calls the class again with `args`, which fails, or does harm, if its `__init__` takes others.


def _text(error: BaseException) -> str:
    """What an exception says; a user's class may refuse."""
    try:
        return str(error)
    except BaseException as refusal:  # noqa: BLE001 - its `__str__` may do anything
        return f"<no text: {refusal!r}>"


def _encodable(text: str) -> str:
    """Text without lone surrogates, such as file names that are no UTF-8 have: no message can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _what(task: int) -> str:
    return f"e{task}"


def _portable(error: Exception, task: int, seal: Seal) -> bytes:
    """The exception as signed bytes, or nothing if it does not survive the way."""
    try:
        parcel = error if _pickles_itself(type(error)) else _parcel(error)
        data = serde.dumps(parcel).join()
        _unpacked(data)
    except BaseException:  # noqa: BLE001 - any exception class may refuse; its text travels all the same
        return b""
    return seal.sign(_what(task), data)


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
    except BaseException:  # noqa: BLE001 - an attribute may be anything
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
