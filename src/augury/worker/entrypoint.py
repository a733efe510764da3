"""The entry point of an invocation: what a FaaS platform calls.

A process that is kept warm keeps its connections, and the runs that it has decoded.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from augury.config import StorageConfig
from augury.invoke.embedded.room import worker_storage
from augury.invoke.gateway import Gateway, Invocation, InvocationContext
from augury.invoke.http_gateway import HttpGateway
from augury.storage.opening import load_driver, open_storage
from augury.storage.protocols import Coordination, Status, Storage, WorkerSummary
from augury.worker.code import RunCache, RunCode
from augury.worker.failure import platform_failure
from augury.worker.recorder import Recorder
from augury.worker.runner import Runner

_MEASURED, _LEAST_MEASURED = 16, 2


class _Process:
    """What this process keeps between invocations."""

    def __init__(self) -> None:
        self.runs = RunCache()
        self._storages: dict[StorageConfig, Storage] = {}
        self._gateways: dict[str, Gateway] = {}
        self._folder = _working_folder()
        self._environment = dict(os.environ)
        self._sys_path = list(sys.path)

    def restore_surroundings(self) -> None:
        """Undo what tasks of earlier invocations did to the working folder and the environment."""
        if os.environ != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        with suppress(OSError):
            os.chdir(self._folder)

    def import_from(self, folders: Sequence[str]) -> None:
        """Import modules from where the client does, in its order, and then from where this process does."""
        known = set(folders)
        sys.path[:] = [*folders, *(folder for folder in self._sys_path if folder not in known)]

    def storage(self, config: StorageConfig) -> Storage:
        if config not in self._storages:
            self._storages[config] = open_storage(config)
        return self._storages[config]

    def gateway(self, context: InvocationContext) -> Gateway:
        if context.gateway_url not in self._gateways:
            self._gateways[context.gateway_url] = HttpGateway(context.gateway_url, context.token)
        return self._gateways[context.gateway_url]


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # removed under the user's feet
        return "/"


_process = _Process()
load_driver()  # in the parent that workers are forked from: each of them needs it


def handle(invocation: Invocation, context: InvocationContext) -> None:
    """Embody one worker of one run until it has nothing left to do."""
    began_s = time.time()
    _process.restore_surroundings()
    coordination = _storage(invocation, context, context.storage).coordination(invocation.run_id)
    joined = coordination.join(invocation.worker, invocation.attempt)
    code = _code(invocation, coordination) if joined.status is Status.RUNNING else None
    if code is None:
        coordination.leave(_idle_summary(invocation, cold=context.cold))
        return
    _process.import_from(code.sys_path)
    # The more workers there are, the fewer tasks each has to measure for a run to have enough of every function.
    first = max(_LEAST_MEASURED, _MEASURED // max(1, joined.live))
    recorder = Recorder(code.view.graph, invocation.resources, enabled=code.record, first=first)
    recorder.started(
        cold=context.cold,
        received_s=context.received_s,
        granted_s=context.granted_s,
        began_s=began_s,
        starting=joined.starting,
    )
    config = msgspec.structs.replace(context.storage, object_dir=code.object_dir)
    Runner(
        invocation,
        code,
        coordination=coordination,
        objects=_storage(invocation, context, config).objects(invocation.run_id),
        gateway=_process.gateway(context),
        recorder=recorder,
        cold=context.cold,
    ).run(joined)


def _storage(invocation: Invocation, context: InvocationContext, config: StorageConfig) -> Storage:
    """The storage of the run, as the platform lets a worker use it."""
    return worker_storage(_process.storage(config), context, invocation.resources)


def _code(invocation: Invocation, coordination: Coordination) -> RunCode | None:
    """The run as this process knows it; None if it is over, or cannot be carried out here: then it fails."""
    known = _process.runs.get(invocation.run_id)
    if known is not None:
        return known
    spec = coordination.spec()
    if spec is None:
        return None
    try:
        return _process.runs.add(invocation.run_id, spec)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with what was uploaded, the client must learn of it
        coordination.fail(Status.FAILED, platform_failure(invocation.worker, error).encode())
        return None


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
