"""The entry point of an invocation: what a FaaS platform calls.

A process that is kept warm keeps its connections, and the runs that it has decoded.
"""

import functools
import os
import sys
import time
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext

import msgspec

from augury.backoff import Backoff
from augury.config import Resources, ResultsConfig, StorageConfig
from augury.dag.imports import watch_imports
from augury.invoke.blackbox import BlackBox
from augury.invoke.embedded.cgroups import KillCounter, machine_memory_mb
from augury.invoke.embedded.processes import OUT_OF_MEMORY, children
from augury.invoke.embedded.room import worker_storage
from augury.invoke.gateway import Gateway, Invocation, InvocationContext
from augury.invoke.http_gateway import HttpGateway
from augury.storage.opening import load_driver, open_storage
from augury.storage.protocols import Coordination, Status, Storage, WorkerSummary
from augury.storage.results.opening import open_results
from augury.storage.results.protocol import Results
from augury.trust.seal import Keyring
from augury.trust.sources import client_keyring
from augury.worker.code import RunCache, RunCode
from augury.worker.failure import platform_failure
from augury.worker.faults import VARIABLE as FAULTS_VARIABLE
from augury.worker.faults import faults_of, parse_faults
from augury.worker.interrupt import shelter_imports
from augury.worker.memo import Memo
from augury.worker.output import has_threads_of_tasks
from augury.worker.recorder import Recorder
from augury.worker.runner import Runner
from augury.worker.surroundings import Surroundings, reseed
from augury.worker.waker import Waker

_MEASURED, _LEAST_MEASURED = 16, 2


class _Process:
    """What this process keeps between invocations."""

    def __init__(self) -> None:
        self.runs = RunCache(self.importing)
        self._storages: dict[StorageConfig, Storage] = {}
        self._reached: dict[tuple[Hashable, ...], Storage] = {}
        self._kills: tuple[str, KillCounter] | None = None
        self._gateways: dict[tuple[str, float], Gateway] = {}
        self._results: dict[tuple[ResultsConfig, str], Results] = {}
        self._box: tuple[str, int, BlackBox] | None = None
        self._keyrings: dict[tuple[str, ...], Keyring] = {}
        self._surroundings: Surroundings | None = None
        self.waker = Waker()
        self.faults = parse_faults(os.environ.get(FAULTS_VARIABLE, ""))
        self._sys_path = list(sys.path)

    def put_back_surroundings(self) -> None:
        """Undo what tasks of earlier invocations did to the process, if there were any."""
        if self._surroundings is None:
            self._surroundings = Surroundings()
        else:
            self._surroundings.put_back()
        reseed()

    def importing(self) -> AbstractContextManager[None]:
        """What modules of the user's do to the process while they are imported stays."""
        return nullcontext() if self._surroundings is None else self._surroundings.adopting()

    def import_from(self, folders: Sequence[str]) -> None:
        """Import modules from where the client does, in its order, and then from where this process does."""
        known = set(folders)
        sys.path[:] = [*folders, *(folder for folder in self._sys_path if folder not in known)]

    def storage(self, config: StorageConfig, context: InvocationContext, resources: Resources) -> Storage:
        """A storage, as the platform lets a worker use it."""
        reached = (config, context.memory_group, context.emulation, resources)
        if reached not in self._reached:
            if config not in self._storages:
                self._storages[config] = open_storage(config)
            self._reached[reached] = worker_storage(self._storages[config], context, resources)
        return self._reached[reached]

    def kills(self, group: str) -> KillCounter:
        """What counts the processes of a group that the kernel kills from now on."""
        if self._kills is None or self._kills[0] != group:
            self._kills = group, KillCounter(group)
        else:
            self._kills[1].begin()
        return self._kills[1]

    def black_box(self, path: str, slots: int) -> BlackBox:
        """The black box of this process, cleared."""
        if self._box is None or self._box[:2] != (path, slots):
            self._box = path, slots, BlackBox(path, slots)
        self._box[2].clear()
        return self._box[2]

    def keyring(self, context: InvocationContext) -> Keyring:
        """What the platform handed over; if it has no way to, what this environment was given."""
        if context.keys not in self._keyrings:
            self._keyrings[context.keys] = Keyring(context.keys) if context.keys else client_keyring()
        return self._keyrings[context.keys]

    def memo(self, config: ResultsConfig, context: InvocationContext) -> Memo | None:
        """What knows outputs of earlier runs, if a run wants that."""
        if not config.most_bytes:
            return None
        place = (config, context.storage.redis)
        if place not in self._results:
            self._results[place] = open_results(*place)
        return Memo(self._results[place], self.keyring(context))

    def gateway(self, context: InvocationContext, patience_s: float) -> Gateway:
        wanted = (context.gateway_url, patience_s)
        if wanted not in self._gateways:
            patient = Backoff(patience_s=patience_s)
            self._gateways[wanted] = HttpGateway(context.gateway_url, context.token, backoff=patient)
        return self._gateways[wanted]


watch_imports()
shelter_imports()
_process = _Process()
load_driver()  # in the parent that workers are forked from: each of them needs it


def handle(invocation: Invocation, context: InvocationContext) -> bool:
    """Embody one worker of one run until it has nothing left to do; whether this process must end then."""
    began_s = time.time()
    _process.put_back_surroundings()
    resources = invocation.resources
    coordination = _process.storage(context.storage, context, resources).coordination(invocation.run_id)
    joined = coordination.join(invocation.worker, invocation.attempt)
    if joined.status is Status.REPLACED:
        return False  # the place is taken, and who has it tells what it takes
    code = _code(invocation, context, coordination) if joined.status is Status.RUNNING else None
    if code is None:
        coordination.leave(_idle_summary(invocation, cold=context.cold))
        return False
    _process.import_from(code.sys_path)
    # The more workers there are, the fewer tasks each has to measure for a run to have enough of every function.
    first = max(_LEAST_MEASURED, _MEASURED // max(1, joined.live))
    recorder = Recorder(code.view.graph, resources, enabled=code.record, first=first)
    recorder.started(
        cold=context.cold,
        received_s=context.received_s,
        granted_s=context.granted_s,
        began_s=began_s,
        starting=joined.starting,
    )
    config = msgspec.structs.replace(context.storage, object_dir=code.object_dir)
    box = _process.black_box(context.black_box, resources.task_slots)
    runner = Runner(
        invocation,
        code,
        coordination=coordination,
        objects=_process.storage(config, context, resources).objects(invocation.run_id),
        gateway=_process.gateway(context, code.patience_s),
        recorder=recorder,
        cold=context.cold,
        deadline_s=time.monotonic() + context.deadline_s - time.time(),
        memo=_process.memo(code.results, context),
        black_box=box,
        faults=faults_of(_process.faults, invocation),
        on_memory_error=functools.partial(_end_for_error, box) if _may_get_more(context) else _let_it_be,
        check_memory=functools.partial(_end_if_killed, box, _process.kills(context.memory_group)),
        waker=_process.waker,
    )
    runner.run(joined, coordination.remains() if joined.restarted else None)
    return runner.interrupted and (bool(children()) or has_threads_of_tasks())


def _code(invocation: Invocation, context: InvocationContext, coordination: Coordination) -> RunCode | None:
    """The run as this process knows it; None if it is over, or cannot be carried out here: then it fails."""
    known = _process.runs.get(invocation.run_id)
    if known is not None:
        return known
    spec = coordination.spec()
    if spec is None:
        return None
    try:
        return _process.runs.add(invocation.run_id, spec, _process.keyring(context))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with what was uploaded, the client must learn of it
        coordination.fail(Status.FAILED, platform_failure(invocation.worker, error).encode())
        return None


def _may_get_more(context: InvocationContext) -> bool:
    """Whether the process limits its memory itself, to less than the machine has."""
    return 0 < context.data_limit_mb < machine_memory_mb()


def _end_for_memory(box: BlackBox, why: str) -> None:
    """End as a worker does that the kernel kills for its memory: the platform starts it again with more."""
    box.say(why)
    os._exit(OUT_OF_MEMORY)


def _end_for_error(box: BlackBox, error: MemoryError) -> None:
    """The process may not allocate what a task wants."""
    _end_for_memory(box, f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _end_if_killed(box: BlackBox, killed: KillCounter) -> None:
    """What tasks do without the subprocess that they had is not to be trusted, and may take for ever."""
    if killed.rose():
        _end_for_memory(box, "a subprocess of it was killed")


def _let_it_be(error: MemoryError) -> None:
    """Nothing: it is the task's own error."""


def _idle_summary(invocation: Invocation, *, cold: bool) -> WorkerSummary:
    """What an invocation tells that found nothing to do."""
    return WorkerSummary(
        worker=invocation.worker,
        attempt=invocation.attempt,
        cold=cold,
        duration_s=0.0,
        memory_mb=invocation.resources.memory_mb,
        tasks=0,
    )
