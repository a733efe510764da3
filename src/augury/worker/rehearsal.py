"""A run before all others, in the process that workers are forked from.

What a process does for the first time takes several times as long as later: modules are imported where they are first
needed, tables and patterns are made, code is adapted by the interpreter to what it works on. A forked worker would do
all that again, and write to the memory that it shares with its parent, page by page. So the parent carries out a
tiny run, of two tasks, on storage in its own memory, by the very code that workers have; and makes, without using them,
the connections that workers make.

Nothing of it remains but what was learned, and what each worker does to its process anyway (`catch_streams`): no
connection, no signal handler, and no thread, once those have ended that keep an eye on a run that takes long.
"""

import signal
import time
from collections.abc import Callable, Sequence

from augury.config import Resources, StorageConfig
from augury.dag.graph import build_workflow
from augury.dag.program import encode
from augury.dag.task import Function, TaskNode, TaskOptions
from augury.invoke.blackbox import BlackBox
from augury.invoke.gateway import Invocation, Limits
from augury.invoke.http_gateway import HttpGateway
from augury.plan.plan import Assignment, Plan
from augury.storage.memory import MemoryStorage
from augury.storage.opening import load_scripts, open_storage
from augury.storage.protocols import RunSpec
from augury.storage.signing import sign_spec
from augury.trust.seal import Keyring
from augury.worker.code import RunCache
from augury.worker.helpers import HelperThread
from augury.worker.recorder import Recorder
from augury.worker.runner import Runner
from augury.worker.surroundings import Surroundings, reseed
from augury.worker.view import flexible_name
from augury.worker.waker import Waker

_RUN = "rehearsal"
_ROUNDS = 8
"""After so many the interpreter has adapted most of the code."""


def _first(number: int) -> list[int]:
    return [number]


def _second(numbers: list[int]) -> int:
    return sum(numbers)


def rehearse() -> None:
    """Do once what every worker does; in a process with one thread, before it forks workers."""
    surroundings = Surroundings()
    interrupted = signal.getsignal(signal.SIGUSR1)  # which is the runner's, and no part of the surroundings
    try:
        _prepare_connections()
        for _ in range(_ROUNDS):
            _carry_out()
    finally:
        signal.signal(signal.SIGUSR1, interrupted)
        surroundings.put_back()
        reseed()


def _prepare_connections() -> None:
    """Make what workers talk through, without connecting."""
    load_scripts()
    open_storage(StorageConfig(redis="unix:///nowhere")).coordination(_RUN)
    HttpGateway("http://127.0.0.1:9", "nobody")


def _carry_out() -> None:
    """One worker runs both tasks of a run."""
    first = TaskNode[list[int]](Function(_first, TaskOptions()), (1,), {})
    workflow = build_workflow(TaskNode[int](Function(_second, TaskOptions()), (first,), {}))
    program, _ = encode(workflow, shared_files=True)
    graph, resources = workflow.graph, Resources()
    plan = Plan(fingerprint=graph.fingerprint, planner="", assignments=(Assignment(None, resources),) * len(graph))
    keyring = Keyring(["nothing that is signed with this leaves the process"])
    spec = RunSpec(
        name=_RUN,
        graph=graph.encode(),
        program=program.encode(),
        plan=plan.encode(),
        concurrency=1,
        inline_bytes=1024,
    )
    storage = MemoryStorage()
    coordination = storage.coordination(_RUN)
    code = RunCache().add(_RUN, sign_spec(spec, keyring.seal(_RUN)), keyring)
    coordination.create(spec, graph.sinks, code.view.initial_claims())
    joined = coordination.join(flexible_name(0), 1)
    recorder = Recorder(graph, resources, enabled=True, first=1)
    now_s = time.time()
    recorder.started(cold=True, received_s=now_s, granted_s=now_s, began_s=now_s, starting=0)
    Runner(
        Invocation(_RUN, flexible_name(0), 1, resources, tasks=(0,)),
        code,
        coordination=coordination,
        objects=storage.objects(_RUN),
        gateway=_Nobody(),
        recorder=recorder,
        cold=True,
        black_box=BlackBox("", resources.task_slots),
        waker=_AtOnce(),
    ).run(joined)
    coordination.remove()


class _AtOnce(Waker):
    """Wakes at once, so that there is a courier, and leaves no thread behind that waits for others to wake."""

    def wake(self, after_s: float, action: Callable[[], object]) -> None:
        HelperThread(action)


class _Nobody:
    """A gateway that is never asked for anything."""

    def invoke(self, invocations: Sequence[Invocation]) -> None: ...

    def prewarm(self, resources: Resources, count: int) -> None: ...

    def limits(self) -> Limits:
        return Limits(concurrency=1)

    def stop(self, run_id: str) -> None: ...

    def close(self) -> None: ...
