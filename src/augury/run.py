"""One run, as the user's machine sees it: started, watched, fetched, tidied up.

upload ─▶ start the first workers ─▶ listen to the client's inbox ─▶ fetch the sinks ─▶ remove what is left

A thread per run does the listening, so runs go on while the user does other things. What can be seen of a
run goes to observers as events.
"""

import contextlib
import hashlib
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from augury import serde
from augury.config import INLINE_BYTES, public_address
from augury.dag.graph import Graph, Workflow
from augury.dag.modules import own_modules
from augury.dag.program import LoadedProgram, Program, encode
from augury.dag.refs import Const, fill
from augury.errors import (
    AuguryError,
    DefinitionError,
    PlanError,
    RunCancelled,
    RunError,
    RunLost,
    SerializationError,
    StorageError,
)
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.invoke.gateway import Gateway, Invocation, Limits
from augury.invoke.http_gateway import HttpGateway
from augury.metrics.history.history import History
from augury.metrics.records import Batch, Gathered
from augury.observation import Observer, RunEvent, RunFinished, RunProgressed, RunReport, RunStarted, TaskPrinted
from augury.plan.plan import Plan
from augury.storage.outputs import read_outputs
from augury.storage.protocols import (
    CLIENT,
    Claim,
    Coordination,
    Event,
    Objects,
    Printed,
    Recorded,
    RunEnded,
    RunSpec,
    Status,
    Stop,
    Storage,
    WorkerLeft,
    WorkerSummary,
    constant_key,
)
from augury.worker.failure import decode_failure, to_exception
from augury.worker.view import RunView

T_co = TypeVar("T_co", covariant=True)

_log = logging.getLogger(__name__)

_PROGRESS_S = 0.1
_SETTLE_S = 2.0
_RECORD_PATIENCE_S = 1.0
_troubled: set[str] = set()  # addresses of histories that could not be written to
_RECORD_S = 20.0  # after how long what was measured so far is kept; then after twice that, …
_SETTLE_FAILED_S = 0.3  # workers that were stopped before they began have nothing to tell


class Platform:
    """An open platform: storage, gateway, and what it can do.

    Args:
        storage: Where runs keep their data; `address`: where that is, for messages.
        gateway: What starts workers.
        limits: What it can do.
        embedded: The embedded platform, if it is one; its workers have the storage that it gave us.
        name: How records call it.
    """

    def __init__(
        self,
        storage: Storage,
        address: str,
        gateway: HttpGateway,
        limits: Limits,
        embedded: EmbeddedPlatform | None,
        name: str,
    ) -> None:
        self.name = name
        self.storage = storage
        self.gateway: Gateway = gateway
        self.limits = limits
        self.embedded = embedded
        self._address = address
        self._to_check: HttpGateway | None = gateway if embedded is None else None

    @property
    def object_dir(self) -> str:
        """Where large objects are, if client and workers share memory; else empty."""
        return self.embedded.storage_config.object_dir if self.embedded is not None else ""

    def check_storage(self, run_id: str) -> None:
        """Make sure, with the first run, that workers have the same storage: else they would find nothing to do.

        Raises:
            StorageError: They have another.
        """
        if self._to_check is None:
            return
        if self._to_check.run_status(run_id) == Status.GONE:
            raise StorageError(
                f"the workers of {self._to_check!r} use another Redis than {public_address(self._address)}: "
                "give the client the address of theirs"
            )
        self._to_check = None

    def close(self) -> None:
        """Let everything go; the embedded platform ends."""
        self.gateway.close()
        self.storage.close()
        if self.embedded is not None:
            self.embedded.close()


class Run(Generic[T_co]):
    """One execution of a workflow.

    Made by `Client.submit`. `run.result()` waits for the value, and so does `await run`.

    Attributes:
        run_id: Its id, unique everywhere.
        name: The workflow's name.
        plan: The plan that its workers carry out.
    """

    def __init__(self, *, run_id: str, name: str, plan: Plan, watch: "RunWatch") -> None:
        self.run_id = run_id
        self.name = name
        self.plan = plan
        self._watch = watch

    def __repr__(self) -> str:
        return f"<run {self.run_id} of {self.name}>"

    def __reduce__(self) -> NoReturn:
        raise DefinitionError(
            f"run {self.name} ({self.run_id}) is the handle of one client's run and cannot be given to a task or to "
            "another client: pass run.result(), or the task itself"
        )

    @property
    def status(self) -> str:
        """`running`, `succeeded`, `failed`, `cancelled`, or `gone` if the storage no longer knows the run."""
        return str(self._watch.status())

    def done(self) -> bool:
        """Whether the run is over."""
        return self._watch.value.done()

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the value.

        Args:
            timeout: How many seconds to wait at most.

        Raises:
            TimeoutError: It took longer; the run goes on.
            Exception: What a task raised, as it raised it; its cause tells which task, and where.
            RunError: The run ended without a value in another way.
        """
        try:
            value: T_co = self._watch.value.result(timeout)
        except KeyboardInterrupt:
            with contextlib.suppress(AuguryError):
                self.cancel()
            raise
        except TimeoutError:
            if self._watch.value.done():
                raise
            raise TimeoutError(f"run {self.name} ({self.run_id}) is not over after {timeout} s; it goes on") from None
        return value

    def cancel(self) -> bool:
        """End the run; whether it was still running."""
        return self._watch.cancel()

    def report(self, timeout: float | None = None) -> RunReport:
        """Wait for the end and tell what the run took.

        Raises:
            TimeoutError: The run is not over yet.
        """
        return self._watch.settled.result(timeout)

    def __await__(self) -> Generator[Any, None, T_co]:
        awaiting = importlib.import_module("augury.awaiting")
        value: Generator[Any, None, T_co] = awaiting.wait_for_value(self._watch.value, self.cancel).__await__()
        return value


class RunWatch:
    """What the client does for one run: start it, listen, fetch the value, tidy up.

    Args:
        run_id: Its id.
        name: The workflow's name for people; `kept_as`: the one that its history is kept under.
        workflow: What to run.
        platform: Where.
        observers: Who is told of it.
        history: Where what is measured goes; None: nothing is measured.
        started_s: When the user asked for it, on the monotonic clock.

    Attributes:
        value: Will hold the value, or what went wrong.
        settled: Will hold the report, once the workers have left and the run is removed.
    """

    def __init__(
        self,
        run_id: str,
        name: str,
        workflow: Workflow,
        platform: Platform,
        observers: Sequence[Observer],
        *,
        history: History | None,
        kept_as: str,
        started_s: float,
    ) -> None:
        self.value: Future[Any] = Future()
        self.settled: Future[RunReport] = Future()
        self._run_id = run_id
        self._name = name
        self._graph: Graph = workflow.graph
        self._template = workflow.template
        self._workflow: Workflow | None = workflow
        self._platform = platform
        self._coordination: Coordination = platform.storage.coordination(run_id)
        self._objects: Objects = platform.storage.objects(run_id)
        self._observers = observers
        self._history = history
        self._kept_as = kept_as
        self._planner = ""
        self._gathered = Gathered()
        self._gathering = threading.Lock()
        self._parts = 0
        self._recorded_s = started_s
        self._started_s = started_s
        self._makespan_s = 0.0
        self._status = Status.RUNNING
        self._summaries: dict[
            tuple[str, int], WorkerSummary
        ] = {}  # a gateway may tell of a worker that also told itself
        self._cursor = "0"
        self._recording = threading.Thread()
        self._thread = threading.Thread(target=self._watch, name=f"augury-run-{run_id}", daemon=True)
        self.value.set_running_or_notify_cancel()
        self.settled.set_running_or_notify_cancel()

    # Starting

    def start(self, plan: Plan) -> None:
        """Upload everything and start the first workers."""
        workflow, self._workflow = self._workflow, None  # the calls may hold large values: let them go
        if workflow is None:
            raise RunError(f"run {self._run_id} was started before")
        limits = self._platform.limits
        self._planner = plan.planner
        _check_limits(self._graph, plan, limits)
        program, constants = encode(workflow, shared_files=limits.shares_files)
        view = RunView(self._graph, plan, concurrency=limits.concurrency, inline_bytes=INLINE_BYTES)
        claims = view.initial_claims()
        spec = RunSpec(
            name=self._name,
            graph=self._graph.encode(),
            program=program.encode(),
            plan=plan.encode(),
            concurrency=limits.concurrency,
            inline_bytes=INLINE_BYTES,
            sys_path=_import_folders() if limits.shares_files else (),
            start_s=limits.start_s,
            object_dir=self._platform.object_dir,
            record=self._history is not None,
        )
        try:
            self._objects.create()
            for index, blob in enumerate(constants):
                self._put_constant(index, blob, program)
            self._coordination.create(spec, self._graph.sinks, claims)
            self._platform.check_storage(self._run_id)
            self._platform.gateway.invoke(self._invocations(claims))
        except BaseException:
            with contextlib.suppress(AuguryError):  # what went wrong first is what the user must learn
                self._remove()
            raise
        self._tell(RunStarted(self._run_id, self._name, len(self._graph)))
        self._thread.start()

    def _put_constant(self, index: int, blob: serde.Blob, program: Program) -> None:
        try:
            self._objects.put(constant_key(index), blob)
        except AuguryError as error:
            raise type(error)(f"{_user_of_constant(index, self._graph, program)}: {error}") from error

    def _invocations(self, claims: Sequence[Claim]) -> list[Invocation]:
        stamp = _code_stamp() if self._platform.limits.shares_files else ""
        return [
            Invocation(
                run_id=self._run_id,
                worker=claim.worker,
                attempt=claim.attempt,
                resources=claim.resources,
                tasks=claim.tasks,
                stamp=stamp,
            )
            for claim in claims
        ]

    # Asking

    def status(self) -> Status:
        """Where the run stands."""
        if self.value.done():
            return self._status
        try:
            return self._coordination.status()
        except StorageError:
            return Status.GONE

    def cancel(self) -> bool:
        """End the run. Workers hear of it and leave, with what they measured; who does not is stopped in `_settle`."""
        if self.value.done():
            return False
        try:
            return self._coordination.fail(Status.CANCELLED, b"")
        except BaseException:
            self._platform.gateway.stop(self._run_id)
            raise

    def end(self) -> None:
        """Cancel the run if that is still possible, and wait until its value is out; for who closes the platform."""
        with contextlib.suppress(AuguryError):
            self.cancel()
        wait([self.value], _SETTLE_S)

    def join(self) -> None:
        """Wait until everything of an ended run is tidied up."""
        if self.value.done():
            self._thread.join(_SETTLE_S + 1)

    # Watching

    def _watch(self) -> None:
        """The life of the watching thread."""
        ended: RunEnded | None = None
        try:
            ended = self._await_end()
            self._makespan_s = time.monotonic() - self._started_s
            self._status = ended.status
            self._resolve(ended)
        except BaseException as error:  # noqa: BLE001 - whatever happens, the user who waits must learn of it
            self._status = Status.GONE if isinstance(error, StorageError | RunLost) else Status.FAILED
            if not self.value.done():
                self.value.set_exception(error)
        self._settle(reachable=ended is not None)

    def _await_end(self) -> RunEnded:
        pause_s = _PROGRESS_S if self._observers else 1.0
        while True:
            for event in self._read(pause_s):
                if isinstance(event, RunEnded):
                    return event
                if isinstance(event, Stop):
                    raise RunLost(f"run {self._name} ({self._run_id}) is no longer in storage: removed or expired")
            self._tell_progress()
            self._record_now_and_then()

    def _read(self, timeout_s: float) -> list[Event]:
        """The next events of the client's inbox, with what concerns only observers done."""
        self._cursor, events = self._coordination.read(CLIENT, self._cursor, timeout_s)
        for event in events:
            if isinstance(event, Printed):
                label = self._graph.label(event.task)
                self._tell(TaskPrinted(self._run_id, label, event.stream, event.text))
            elif isinstance(event, Recorded):
                self._gather(event.records)
            elif isinstance(event, WorkerLeft):
                self._note_leaving(event.summary)
        return events

    def _note_leaving(self, summary: WorkerSummary) -> None:
        self._gather(summary.records)
        known = msgspec.structs.replace(summary, records=b"")
        self._summaries.setdefault((summary.worker, summary.attempt), known)

    def _gather(self, records: bytes) -> None:
        """Take what a worker measured."""
        if records and self._history is not None:
            try:
                series = Batch.decode(records, platform=self._platform.name, planner=self._planner)
            except DefinitionError as error:
                _log.warning("what a worker of run %s measured is lost: %s", self._run_id, error)
                return
            with self._gathering:
                self._gathered.add(series)

    def _tell_progress(self) -> None:
        if self._observers:
            progress = self._coordination.progress()
            elapsed_s = time.monotonic() - self._started_s
            self._tell(RunProgressed(self._run_id, progress.ran, progress.invocations, progress.starting, elapsed_s))

    def _resolve(self, ended: RunEnded) -> None:
        if ended.status is Status.SUCCEEDED:
            self.value.set_result(self._fetch())
        elif ended.status is Status.CANCELLED:
            self.value.set_exception(RunCancelled(f"run {self._name} ({self._run_id}) was cancelled"))
        else:
            self.value.set_exception(to_exception(decode_failure(ended.failure), self._graph))

    def _fetch(self) -> Any:
        """The value that the user asked for."""
        found = read_outputs(self._coordination, self._objects, self._graph.sinks)
        values: dict[int, Any] = {}
        for task in self._graph.sinks:
            if task not in found:
                raise RunLost(f"the result of {self._graph.label(task)} is no longer in storage")
            try:
                values[task] = serde.loads(found[task], writable=True)
            except (Exception, SystemExit) as error:  # loading may import a module, and that may want to end us
                raise SerializationError(
                    f"the result of {self._graph.label(task)} cannot be loaded on the client: {error!r}"
                ) from error
        return fill(self._template, lambda ref: values[ref.task], _no_constant)

    # The end

    def _settle(self, *, reachable: bool) -> None:
        """Wait a moment for the workers to leave, remove the run, keep what was measured, report."""
        invocations = len(self._summaries)
        try:
            if reachable:
                invocations = self._await_workers()
            self._remove()
        except Exception as error:  # noqa: BLE001 - the value is out, or its error is; whoever waits for the report gets it
            _log.warning("run %s could not be tidied up, and will expire: %s", self._run_id, error)
        # Who reads the history next should find this run there; but nobody waits long for one that does not answer.
        self._start_recording()
        self._recording.join(_RECORD_PATIENCE_S)
        report = self._report(invocations)
        try:
            self._tell(RunFinished(self._run_id, str(self._status), report))
        finally:
            self.settled.set_result(report)

    def _await_workers(self) -> int:
        invocations = self._coordination.progress().invocations
        deadline_s = time.monotonic() + (_SETTLE_S if self._status is Status.SUCCEEDED else _SETTLE_FAILED_S)
        while len(self._summaries) < invocations and time.monotonic() < deadline_s:
            if any(isinstance(event, Stop) for event in self._read(deadline_s - time.monotonic())):
                break
        if len(self._summaries) < invocations:
            self._platform.gateway.stop(self._run_id)  # they do not hear us: free their slots
        return invocations

    def _record_now_and_then(self) -> None:
        """Keep what was measured so far, in another thread, in case this process does not see the end of the run."""
        now_s = time.monotonic()
        if now_s - self._recorded_s >= max(_RECORD_S, self._recorded_s - self._started_s):
            self._recorded_s = now_s
            self._start_recording()

    def _start_recording(self) -> None:
        self._recording = threading.Thread(target=self._record, name=f"augury-record-{self._run_id}", daemon=True)
        self._recording.start()

    def _record(self) -> None:
        """Add what the workers measured to the workflow's history; without that, the run was none the worse."""
        with self._gathering:
            series, part = self._gathered.take(), self._parts
            self._parts += 1
        if self._history is None or not series:
            return
        try:
            self._history.add(
                self._kept_as,
                self._run_id,
                series,
                label=self._name,
                part=part,
                inherit=self._kept_as == self._graph.fingerprint,
            )
        except Exception as error:  # noqa: BLE001 - whatever is wrong with history, the user has the result
            # Once per process and history: it will not be another reason the next time.
            level = logging.DEBUG if self._history.address in _troubled else logging.WARNING
            _troubled.add(self._history.address)
            _log.log(level, "what run %s taught could not be kept: %s", self._run_id, error)

    def _remove(self) -> None:
        self._coordination.remove()
        self._objects.remove()

    def _report(self, invocations: int) -> RunReport:
        summaries = self._summaries.values()
        return RunReport(
            run_id=self._run_id,
            name=self._name,
            status=str(self._status),
            tasks=len(self._graph),
            ran=sum(summary.tasks for summary in summaries),
            workers=len({summary.worker for summary in summaries}),
            invocations=invocations,
            cold_starts=sum(summary.cold for summary in summaries),
            makespan_s=self._makespan_s,
            gb_seconds=sum(summary.duration_s * summary.memory_mb / 1024 for summary in summaries),
            stored_bytes=sum(summary.stored_bytes for summary in summaries),
            fetched_bytes=sum(summary.fetched_bytes for summary in summaries),
        )

    def _tell(self, event: RunEvent) -> None:
        for observer in self._observers:
            try:
                observer.on_event(event)
            except Exception:  # noqa: BLE001 - who watches must not harm what is watched
                _log.exception("an observer of run %s failed; the run goes on", self._run_id)


def _check_limits(graph: Graph, plan: Plan, limits: Limits) -> None:
    """Refuse a plan with a worker that the platform cannot give.

    Raises:
        PlanError: Says which task wants what.
    """
    for task, assignment in enumerate(plan.assignments if limits.memory_mb else ()):
        wanted_mb = assignment.resources.memory_mb
        if wanted_mb > limits.memory_mb:
            raise PlanError(
                f"{graph.label(task)} is to have {wanted_mb:,} MB and a worker of this platform can have "
                f"{limits.memory_mb:,} MB at most: ask for less, in @task(memory_mb=…) or of the planner"
            )


def _user_of_constant(index: int, graph: Graph, program: Program) -> str:
    """What a constant is for, in words."""
    if index in program.functions:
        return f"the function {graph.functions[program.functions.index(index)].name}, with what it refers to"
    loaded = LoadedProgram(graph, program)
    users = (task for task in range(len(graph)) if index in loaded.constants_of(task))
    return f"a large argument of {graph.label(next(users))}"


def _no_constant(const: Const) -> NoReturn:
    raise RunError(f"the result holds constant {const.index}, which only arguments can")


def _import_folders() -> tuple[str, ...]:
    """Where the user's modules are imported from, for workers that share the client's files."""
    return tuple(str(Path(folder or ".").resolve()) for folder in sys.path)


def _code_stamp() -> str:
    """Changes when a module of the user's changes, so that no warm worker runs what it imported before."""
    digest = hashlib.blake2b("\0".join(_import_folders()).encode(), digest_size=8)
    for file in sorted(str(module.__file__) for module in own_modules()):
        try:
            digest.update(f"{file}:{os.stat(file).st_mtime_ns};".encode())
        except OSError:
            digest.update(f"{file}:gone;".encode())
    return digest.hexdigest()
