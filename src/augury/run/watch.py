"""What the client does for one run.

A thread per run does the listening, so runs go on while the user does other things. What can be seen of a
run goes to observers as events.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from dataclasses import replace
from typing import Any, NoReturn

import msgspec

from augury import serde
from augury.config import INLINE_BYTES, ResultsConfig
from augury.dag.flat import pack_times
from augury.dag.graph import Graph, Workflow
from augury.dag.program import Program, encode
from augury.dag.refs import Const, fill
from augury.errors import (
    AuguryError,
    GatewayError,
    ObjectTooLarge,
    PlatformError,
    RunCancelled,
    RunError,
    RunLost,
    SerializationError,
    StorageError,
)
from augury.invoke.gateway import Invocation
from augury.metrics.history.history import History
from augury.observation import Observer, RunEvent, RunFinished, RunProgressed, RunReport, RunStarted, TaskPrinted
from augury.plan.hints import PreWarmHint
from augury.plan.plan import Plan
from augury.run.beside import do_beside
from augury.run.harvest import Harvest
from augury.run.late import late_after
from augury.run.parting import Parting
from augury.run.platform import Platform, check_limits
from augury.run.reckoning import Account, report_of, time_of_cursor
from augury.run.upload import client_versions, code_stamp, encode_template, import_folders, user_of_constant
from augury.storage.outputs import read_outputs
from augury.storage.protocols import (
    CLIENT,
    Care,
    Claim,
    Coordination,
    Event,
    Hopeless,
    Objects,
    Printed,
    Recorded,
    RunEnded,
    RunSpec,
    Status,
    Stop,
    WorkerLeft,
    WorkerMissed,
    WorkerSummary,
    constant_key,
)
from augury.storage.signing import sign_spec
from augury.worker.failure import Failure, decode_failure, lost_for_good, platform_failure, to_exception
from augury.worker.heart import BEATS, see_to_beside
from augury.worker.restarts import Restarts
from augury.worker.view import RunView

_log = logging.getLogger(__name__)

_PROGRESS_S = 0.1
_MOST_PREDICTED = 50_000  # tasks of a run that is predicted beside it
_FORECAST_PATIENCE_S = 0.5  # for which the report waits for what was predicted
_ABORT_S = 6.0
"""How long who presses Ctrl-C waits at most: longer than it takes to stop workers that do not hear us."""
_SETTLE_S = 2.0
_SETTLE_FAILED_S = 0.3  # workers that were stopped before they began have nothing to tell


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
        detached: Whether it goes on without this client.
        care: How it looks after its workers.
        late_factor: How much longer than nearly all of its kind a task may take before a second worker tries it too.

    Attributes:
        value: Will hold the value, or what went wrong.
        settled: Will hold the report, once the workers have left.
        parting: What becomes of the run when this client needs it no more.
        detached: Whether it goes on without this client; `attached`: whether another one started it.
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
        detached: bool = False,
        care: Care,
        late_factor: float | None = None,
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
        self._seal = platform.keyring.seal(run_id, skips_buffers=bool(platform.object_dir))
        self._observers = observers
        self._harvest = Harvest(
            run_id,
            name,
            kept_as=kept_as,
            inherit=kept_as == workflow.graph.fingerprint,
            history=history,
            platform=platform.name,
            started_s=started_s,
        )
        self._records = history is not None
        self.detached = detached
        self._kept_as = kept_as
        self.attached = False
        self._let_go = False
        self._cancelled = False
        self._letting_go = threading.Lock()
        self._hopeless: Failure | None = None  # what the run must end with, and storage could not be told
        self._care = care
        self._late_factor = late_factor
        self._beat_s = 0.0
        self._deaths = platform.deaths
        self._restarts = Restarts(
            self._coordination,
            invoke=self._start_again,
            give_up=self._end_for_gateway,
            patience_s=care.patience_s,
            lease_s=care.lease_s,
        )
        self._plan: Plan | None = None
        self._predicting = threading.Lock()
        self._prewarmed = 0
        self._started_s = started_s
        self._submitted_s = started_s
        self._submitted_at_s = time.time()
        self._makespan_s = 0.0
        self._status = Status.RUNNING
        self._summaries: dict[
            tuple[str, int], WorkerSummary
        ] = {}  # a gateway may tell of a worker that also told itself
        self._missed: set[tuple[str, int]] = set()  # who may never tell of itself
        self._cursor = "0"
        self._over = threading.Event()
        self._aborted = False
        self._forecast = threading.Thread(target=self._predict, name=f"augury-forecast-{run_id}", daemon=True)
        self._thread = threading.Thread(target=self._watch, name=f"augury-run-{run_id}", daemon=True)
        self.value.set_running_or_notify_cancel()
        self.settled.set_running_or_notify_cancel()
        self.parting = Parting(run_id, platform, self._coordination, self._objects, detached=detached)

    # Starting

    def start(self, plan: Plan) -> None:
        """Upload everything and start the first workers. If it fails or is interrupted, nothing is left of the run."""
        workflow, self._workflow = self._workflow, None  # the calls may hold large values: let them go
        if workflow is None:
            raise RunError(f"run {self._run_id} was started before")
        limits = self._platform.limits
        self._plan = plan
        self._harvest.planner = plan.planner
        check_limits(self._graph, plan, limits)
        program, constants = encode(workflow, shared_files=limits.shares_files)
        view = RunView(self._graph, plan, concurrency=limits.concurrency, inline_bytes=INLINE_BYTES)
        spec = self._spec(plan, program, constants)
        try:
            if self.detached and not self._platform.keep(self._run_id):
                spec = msgspec.structs.replace(spec, detached=False, template=b"")
                self._bind()
            self._objects.create()
            for index, blob in enumerate(constants):
                self._put_constant(index, blob, program)
            claims, planned = view.initial_claims(), [view.planned_claim(worker) for worker in view.tasks_of]
            self._coordination.create(sign_spec(spec, self._seal), self._graph.sinks, claims, planned)
            self._platform.check_storage(self._run_id)
            self._submitted_s, self._submitted_at_s = time.monotonic(), time.time()
            self._start_workers(claims)
            self._begin(plan)
        except BaseException as error:
            self._take_back(error)
            raise

    def _spec(self, plan: Plan, program: Program, constants: Sequence[serde.Blob]) -> RunSpec:
        """What workers, and clients that attach, are told of the run."""
        limits = self._platform.limits
        return RunSpec(
            name=self._name,
            graph=self._graph.encode(),
            program=program.encode(),
            plan=plan.encode(),
            concurrency=limits.concurrency,
            inline_bytes=INLINE_BYTES,
            sys_path=import_folders() if limits.shares_files else (),
            start_s=limits.start_s,
            object_dir=self._platform.object_dir,
            record=self._records,
            versions=client_versions(program, constants, shared_files=limits.shares_files),
            detached=self.detached,
            template=encode_template(self._template) if self.detached else b"",
            kept_as=self._kept_as,
            submitted_s=self._submitted_at_s,
            results=self._platform.results if any(info.cache_s for info in self._graph.functions) else ResultsConfig(),
            care=self._care,
            late_s=pack_times(late_after(plan, self._late_factor)),
        )

    def _begin(self, plan: Plan) -> None:
        """The first workers are asked for: watch them."""
        if plan.launch:
            threading.Thread(
                target=self._prewarm, args=(plan.launch,), name=f"augury-prewarm-{self._run_id}", daemon=True
            ).start()
        self._tell(RunStarted(self._run_id, self._name, len(self._graph)))
        if plan.predicted is None and plan.outlook is not None and len(self._graph) <= _MOST_PREDICTED:
            self._forecast.start()
        self._thread.start()

    def _bind(self) -> None:
        """The run ends with this client, though it was to go on."""
        self.detached = False
        self.parting.binds()

    def _take_back(self, error: BaseException) -> None:
        """End and remove what there is of a run that nobody will have; the user must learn what went wrong first."""
        self._bind()
        self._platform.release(self._run_id)
        self._over.set()
        if self._thread.is_alive():  # it sees to the rest
            self.end()
            return
        removed = do_beside(self._remove, f"augury-take-back-{self._run_id}")
        # What may be away has had all the patience that the user has.
        if isinstance(error, GatewayError):  # it may have taken a part of the workers all the same
            wait([removed, self.parting.done], _SETTLE_S, FIRST_COMPLETED)
        elif isinstance(error, ObjectTooLarge) or not isinstance(error, StorageError):
            wait([removed], _SETTLE_S)

    def _remove(self) -> None:
        """Workers that were started hear that the run is over; those that still queue learn it when they come up."""
        with contextlib.suppress(AuguryError):
            self._coordination.fail(Status.CANCELLED, b"")
            self.parting.part()
        self._free_slots()

    def follow(self, plan: Plan, submitted_s: float) -> None:
        """Watch a run that another client has started."""
        self._plan = plan
        self._harvest.planner = plan.planner
        self.attached = True
        self.parting.follows_another()
        self._submitted_at_s = submitted_s
        self._tell(RunStarted(self._run_id, self._name, len(self._graph)))
        self._thread.start()

    def _prewarm(self, hints: Sequence[PreWarmHint]) -> None:
        """Have environments started that the plan wants ready; a platform that refuses harms nobody."""
        for hint in sorted(hints, key=lambda hint: hint.after_s):
            wait_s = max(0.0, self._submitted_s + hint.after_s - time.monotonic())
            if self._over.wait(min(wait_s, threading.TIMEOUT_MAX)):
                return
            try:
                self._platform.gateway.prewarm(hint.resources, hint.count)
                self._prewarmed += hint.count
            except Exception as error:  # noqa: BLE001 - without it the run is slower at worst
                _log.warning("run %s goes on without pre-warmed environments: %s", self._run_id, error)

    def _put_constant(self, index: int, blob: serde.Blob, program: Program) -> None:
        try:
            key = constant_key(index)
            self._objects.put(key, self._seal.sign_object(key, blob))
        except AuguryError as error:
            raise type(error)(f"{user_of_constant(index, self._graph, program)}: {error}") from error

    def _invocations(self, claims: Sequence[Claim]) -> list[Invocation]:
        stamp = code_stamp() if self._platform.limits.shares_files else ""
        return [
            Invocation(
                run_id=self._run_id,
                worker=claim.worker,
                attempt=claim.attempt,
                resources=claim.resources,
                tasks=claim.tasks,
                stamp=stamp,
                detached=self.detached,
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
        if self._let_go:
            raise self._left()
        if self.value.done():
            return False
        try:
            cancelled = self._coordination.fail(Status.CANCELLED, b"")
        except BaseException:
            self._platform.gateway.stop(self._run_id)
            raise
        self._cancelled |= cancelled
        return cancelled

    def close(self) -> None:
        """The client is closed: a run that is detached, and was not cancelled, goes on."""
        if self.detached and not self._cancelled:
            self.let_go()
        elif not self.value.done():
            self.end()

    def end(self) -> None:
        """Cancel the run if that is still possible, and wait until its value is out; for who closes the platform."""
        if not self._thread.is_alive():
            return  # it never began, or is over
        with contextlib.suppress(AuguryError):
            self.cancel()
        wait([self.value], _SETTLE_S)

    def abort(self) -> None:
        """End the run for a user who leaves at once: its workers leave first, but not if storage is away for long."""
        with self._letting_go:
            is_first, self._aborted = not self._aborted, True
        if is_first:
            wait([do_beside(self._abort, f"augury-abort-{self._run_id}")], _ABORT_S)

    def _abort(self) -> None:
        self.end()
        self.join()

    def let_go(self) -> None:
        """Follow the run no more. It goes on; or it is over, nobody asked for its value, and it is left for others."""
        error = self._left()
        with self._letting_go, contextlib.suppress(InvalidStateError):
            self.value.set_exception(error)
            self.settled.set_exception(error)
            self._let_go = True
        if not self._let_go:  # it is over, and will be settled
            self._thread.join(_SETTLE_S + 1)
        self.parting.leave()

    @property
    def was_let_go(self) -> bool:
        """Whether the client was closed before the run was over, which nobody follows here any more."""
        return self._let_go

    def _left(self) -> RunError:
        return RunError(
            f"the client of run {self._name} ({self._run_id}) was closed; the run goes on: "
            f"augury.attach({self._run_id!r}).result() waits for its value, .cancel() ends it"
        )

    def join(self) -> None:
        """Wait until everything of an ended run is tidied up."""
        if self.value.done() and not self._let_go:
            self._thread.join(_SETTLE_S + 1)

    # Watching

    def plan(self) -> Plan:
        """What workers carry out, with what is predicted for it."""
        if self._plan is None:
            raise RunError(f"run {self._run_id} was not started")
        with self._predicting:
            if self._plan.predicted is None and self._plan.outlook is not None:
                self._plan = msgspec.structs.replace(self._plan, predicted=self._plan.outlook.simulate(self._plan))
            return self._plan

    def _predict(self) -> None:
        """Beside the run: what was not predicted before it began, since that would have held it up."""
        try:
            self.plan()
        except Exception as error:  # noqa: BLE001 - the run goes on without a forecast
            _log.warning("run %s cannot be predicted: %s", self._run_id, error)

    def _watch(self) -> None:
        """The life of the watching thread."""
        ended: RunEnded | None = None
        try:
            ended = self._await_end()
            self._makespan_s = self._elapsed_s()
            self._status = ended.status
            self._resolve(ended)
            self.parting.arrive(cancelled=ended.status is Status.CANCELLED)
        except BaseException as error:  # noqa: BLE001 - whatever happens, the user who waits must learn of it
            self._status = Status.GONE if isinstance(error, StorageError | RunLost) else Status.FAILED
            if not self.value.done():
                self.value.set_exception(self._told(error))
        self._over.set()
        with self._letting_go:
            if self._let_go:
                return
        self._settle(reachable=ended is not None)

    def _told(self, error: BaseException) -> BaseException:
        """What went wrong, as the user should hear of it."""
        if not (isinstance(error, PlatformError) and self._platform.is_lost):
            return error
        lost = RunLost(
            f"run {self._name} ({self._run_id}) is lost: the embedded platform died, and its Redis with all that was "
            "in it; start it again, and give the client a Redis that keeps its data (redis=…) if that must not happen"
        )
        lost.__cause__ = error
        return lost

    def _await_end(self) -> RunEnded:
        # Others see to workers, too, but there may be none: so leases must not run out while this waits.
        pause_s = min(_PROGRESS_S if self._observers else 1.0, self._care.lease_s / BEATS)
        while True:
            for event in self._read(pause_s):
                if isinstance(event, RunEnded):
                    return event
                if isinstance(event, Stop):
                    raise RunLost(
                        f"run {self._name} ({self._run_id}) is no longer in storage: it was removed or has expired, or "
                        "Redis came back without all of its data (appendonly yes, appendfsync always keep it)"
                    )
            if self._let_go:
                raise RunError("nobody waits for this any more")
            if self._hopeless is not None:
                raise self._as_exception(self._hopeless)
            self._platform.check_alive()
            self._look_after(time.monotonic())
            self._tell_progress()
            self._harvest.keep_now_and_then(time.monotonic())

    def _look_after(self, now_s: float) -> None:
        """Now and then, see to workers that are not heard of; and at once, if the platform died with all of them."""
        deaths, self._deaths = self._deaths, self._platform.deaths
        lost = self._coordination.live() if self._deaths > deaths else ()
        if not lost and now_s - self._beat_s < self._care.lease_s / BEATS:
            return
        self._beat_s = now_s
        beat = self._coordination.beat("" if self.attached else CLIENT, lost=lost)
        if beat.start or beat.hopeless:
            see_to_beside(beat, self._restarts.start, self._give_up)

    def _start_workers(self, claims: Sequence[Claim]) -> None:
        self._platform.gateway.invoke(self._invocations(claims))

    def _start_again(self, claims: Sequence[Claim]) -> None:
        """Start lost workers. If that fails once the run is over, nobody needs them, nor to hear of it."""
        try:
            self._start_workers(claims)
        except GatewayError:
            if not self._over.is_set():
                raise

    def _give_up(self, hopeless: Hopeless) -> None:
        self._fail(lost_for_good(hopeless))

    def _end_for_gateway(self, error: GatewayError) -> None:
        self._fail(platform_failure(CLIENT, error))

    def _fail(self, failure: Failure) -> None:
        """End the run; if storage cannot be told, the user learns of it all the same."""
        try:
            self._coordination.fail(Status.FAILED, failure.encode())
        except AuguryError as error:
            _log.warning("run %s could not be ended: %s", self._run_id, error)
            self._hopeless = failure

    def _read(self, timeout_s: float) -> list[Event]:
        """The next events of the client's inbox, with what concerns only observers done."""
        self._cursor, events = self._coordination.read(CLIENT, self._cursor, timeout_s)
        for event in events:
            if isinstance(event, Printed):
                if 0 <= event.task < len(self._graph):  # not all who can write to an inbox need be workers
                    label = self._graph.label(event.task)
                    self._tell(TaskPrinted(self._run_id, label, event.stream, event.text))
            elif isinstance(event, Recorded):
                self._harvest.gather(event.records)
            elif isinstance(event, WorkerLeft):
                self._note_leaving(event.summary)
            elif isinstance(event, WorkerMissed):
                self._note_missed(event)
        return events

    def _note_leaving(self, summary: WorkerSummary) -> None:
        self._harvest.gather(summary.records)
        if summary.outgrown and self._plan is not None:
            self._harvest.outgrown(self._graph, self._plan, summary)
        known = msgspec.structs.replace(summary, records=b"")
        self._summaries.setdefault((summary.worker, summary.attempt), known)

    def _note_missed(self, event: WorkerMissed) -> None:
        self._missed.add((event.worker, event.attempt))
        _log.info("run %s: worker %s (attempt %d): %s", self._run_id, event.worker, event.attempt, event.cause)

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
            self.value.set_exception(self._as_exception(decode_failure(ended.failure)))

    def _as_exception(self, failure: Failure) -> BaseException:
        return to_exception(
            failure,
            self._graph,
            self._plan,
            seal=self._seal,
            most_mb=max((one.memory_mb for one in self._care.larger), default=0),
            platform_mb=self._platform.limits.memory_mb,
        )

    def _fetch(self) -> Any:
        """The value that the user asked for."""
        found = read_outputs(self._coordination, self._objects, self._graph.sinks, self._seal, self._graph.label)
        values: dict[int, Any] = {}
        for task in self._graph.sinks:
            if task not in found:
                raise RunLost(f"the result of {self._graph.label(task)} is no longer in storage")
            try:
                values[task] = serde.loads(found[task], writable=True)
            except (Exception, SystemExit) as error:  # loading may import a module, and that may want to end us
                kept = f"; it is kept: mend that, then augury.attach({self._run_id!r})" if self.detached else ""
                raise SerializationError(
                    f"the result of {self._graph.label(task)} cannot be loaded on the client: {error!r}{kept}"
                ) from error
        return fill(self._template, lambda ref: values[ref.task], _no_constant)

    # The end

    def _settle(self, *, reachable: bool) -> None:
        """Tidy up and report; whatever happens, who waits for the report must not do so for ever."""
        try:
            report = self._tidy_up(reachable=reachable)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the report gets it
            _log.warning("run %s is over, and was not tidied up: %s", self._run_id, error)
            self.settled.set_exception(error)
            return
        try:
            self._tell(RunFinished(self._run_id, str(self._status), report))
        finally:
            self.settled.set_result(report)

    def _tidy_up(self, *, reachable: bool) -> RunReport:
        """Wait a moment for the workers to leave, remove the run, keep what was measured."""
        invocations = len(self._summaries)
        try:
            if reachable:
                invocations = self._await_workers()
            elif not self.detached and self._platform.alive:
                self._stop_unheard()
        except Exception as error:  # noqa: BLE001 - the value is out, or its error is
            _log.warning("the workers of run %s were not seen to leave: %s", self._run_id, error)
        if not reachable and self._platform.is_lost:
            self.parting.lose()
        else:
            self.parting.tidy()
        self._harvest.keep()
        if self._forecast.is_alive():
            self._forecast.join(_FORECAST_PATIENCE_S)
        return self._report(invocations)

    def _stop_unheard(self) -> None:
        """This client cannot follow the run any more, which ends with it."""
        try:
            self._coordination.fail(Status.CANCELLED, b"")
        finally:
            self._free_slots()

    def _await_workers(self) -> int:
        invocations = self._coordination.progress().invocations
        deadline_s = time.monotonic() + (_SETTLE_S if self._status is Status.SUCCEEDED else _SETTLE_FAILED_S)
        while not self._heard_of(invocations) and time.monotonic() < deadline_s:
            if any(isinstance(event, Stop) for event in self._read(deadline_s - time.monotonic())):
                break
        if not self._heard_of(invocations) or self._missed - self._summaries.keys():
            self._free_slots()  # they do not hear us
        return invocations

    def _free_slots(self) -> None:
        try:
            self._platform.gateway.stop(self._run_id)
        except GatewayError as error:
            _log.warning("the slots of run %s could not be freed: %s", self._run_id, error)

    def _heard_of(self, invocations: int) -> bool:
        """Whether it is known of so many that they are at their end."""
        return len(self._summaries.keys() | self._missed) >= invocations

    def _elapsed_s(self) -> float:
        """How long the run took; one that was attached to may have ended long before it was looked at."""
        ended_s = time_of_cursor(self._cursor) if self.attached else 0.0
        if ended_s > self._submitted_at_s:
            return ended_s - self._submitted_at_s
        return time.monotonic() - self._started_s

    def _report(self, invocations: int) -> RunReport:
        account = Account(
            run_id=self._run_id,
            name=self._name,
            graph=self._graph,
            plan=self._plan,
            status=self._status,
            makespan_s=self._makespan_s,
            prepared_s=self._submitted_s - self._started_s,
            submitted_s=self._submitted_at_s,
            invocations=invocations,
            prewarmed=self._prewarmed,
            summaries=self._summaries.values(),
            cold_gb_seconds=self._harvest.cold_gb_seconds,
            spans=self._harvest.spans(),
        )
        try:
            return report_of(account)
        except Exception as error:  # noqa: BLE001 - predictions may be the user's own, and somebody waits for the report
            _log.warning("run %s cannot be compared with its plan: %s", self._run_id, error)
            return report_of(replace(account, plan=None))

    def _tell(self, event: RunEvent) -> None:
        for observer in self._observers:
            try:
                observer.on_event(event)
            except Exception:  # noqa: BLE001 - who watches must not harm what is watched
                _log.exception("an observer of run %s failed; the run goes on", self._run_id)


def _no_constant(const: Const) -> NoReturn:
    raise RunError(f"the result holds constant {const.index}, which only arguments can")
