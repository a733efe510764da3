"""The runner: carries out what the worker core commands, for one invocation.

Threads, and what each may do:

    executors (one per task slot; the first is the thread that was invoked)
        run tasks; when there is none to run, they do storage and gateway commands themselves
    courier (once there is something to do for it, or the invocation has lasted a moment)
        does storage and gateway commands while every executor runs a task; tells the core when what has
        finished must be reported; sends printed text; keeps time
    timekeeper (once the invocation has lasted a while, or the courier is about to do something that may take long)
        keeps time in its place: sees to tasks that take too long, and to the platform's limit
    listener (only once the core asked for it, or the invocation has lasted a while)
        reads the inbox
    heart (once the invocation has lasted a while)
        renews the lease, and starts workers again that have lost theirs
    errands (at most a few, while there are any)
        do what no task waits for: fetch outputs early, have environments pre-warmed
    a timer, while an alarm is set

All of them tell the core what happened under one lock, which is never held during I/O (but to give the
slot up, see `_suspend`). A chain of local tasks needs no other thread and no round trip.
"""

import inspect
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import groupby
from typing import Any, cast

import msgspec

from augury.config import Resources
from augury.errors import (
    AuguryError,
    GatewayError,
    RunLost,
    SerializationError,
    StorageError,
    TaskTimeout,
    UntrustedData,
)
from augury.invoke.blackbox import BlackBox, Line
from augury.invoke.gateway import Gateway, Invocation
from augury.storage.protocols import (
    CLIENT,
    Cause,
    Claim,
    Completion,
    Consumer,
    Coordination,
    Hopeless,
    Joined,
    Missing,
    Objects,
    Outcome,
    Published,
    Recorded,
    Remains,
    Report,
    Status,
    Stop,
    TaskCompleted,
    TaskReady,
    WorkerSummary,
    constant_key,
    output_key,
)
from augury.worker import messages as m
from augury.worker.code import RunCode
from augury.worker.failure import Failure, deaf, lost_for_good, overlong, platform_failure, task_failure
from augury.worker.faults import Faults
from augury.worker.forks import end_fork
from augury.worker.heart import Heart
from augury.worker.helpers import HelperThread
from augury.worker.interrupt import (
    Interrupted,
    Section,
    TimeIsUp,
    allow_interruption,
    is_importing,
    run_coroutine,
    time_limit,
)
from augury.worker.memo import Memo
from augury.worker.output import Outlet, catch_streams, writing_for
from augury.worker.patience import Patience
from augury.worker.recorder import Measurement, Recorder
from augury.worker.restarts import Restarts
from augury.worker.retries import is_worth_retrying
from augury.worker.state import WorkerState
from augury.worker.surroundings import calling
from augury.worker.values import Values
from augury.worker.waker import Waker

_log = logging.getLogger(__name__)

FLUSH_S = 0.001
"""How long finished tasks wait for others to share their report, while tasks run."""
PROGRESS_S = 0.25
"""How often a busy worker tells how far it is, and sends what was printed."""
RECORD_S = 5.0
"""After how long a worker sends what it measured so far, in case it does not come to its end; then twice that, …"""
COURIER_AFTER_S = 0.02
"""After how long an invocation has one at the latest."""
LISTEN_AFTER_S = 0.2
"""After how long an invocation that waits for nothing reads its inbox, to learn that the run was stopped."""
_OVERDUE_S = 1.0
"""How long after its time a task that is deaf to interruption may go on."""
_SLICE_S = 1.0
_CROWD = 64
"""From so many workers on, each looks less often whether there is something to do: they share machines, and storage."""
_MOST_SELDOM = 8
"""By how much, at most."""
_DEAF_S = 2.0
"""How long a task that nobody waits for any more, and that does not let itself be stopped, may hold up others."""
_STUBBORN_S = 10.0
"""How long a worker that cannot give its slot up hopes that another one does."""
_ERRAND_THREADS = 4
_FAULT_POINTS = {m.Send: "report", m.Store: "store", m.Fetch: "fetch", m.Invoke: "invoke"}
"""Commands before and after which something can be made to go wrong."""


_Working = tuple[float, m.Run, Section, Line]
"""What an executor does: since when, which task, where it can be interrupted, and where that is noted."""


class Runner:
    """One invocation of one worker.

    Args:
        invocation: Which; `code`: what its run consists of.
        coordination: The run's shared state; `objects`: its large values.
        gateway: What starts other workers.
        recorder: What measures tasks.
        cold: Whether the platform had to make an environment.
        deadline_s: When the platform ends the invocation, on the monotonic clock.
        memo: What knows outputs of earlier runs; None if no function of the run wants that.
        black_box: Where it is noted which tasks run.
        faults: What is to go wrong, if anything is.
        on_memory_error: Called when memory cannot be had, before the run fails with it; need not return.
        check_memory: Called now and then, and before what tasks did counts for anybody else; need not return.
        waker: What calls us back in a moment; it may have other invocations, one after another.

    Attributes:
        interrupted: Whether a task was stopped: what it had begun may go on.
    """

    def __init__(
        self,
        invocation: Invocation,
        code: RunCode,
        *,
        coordination: Coordination,
        objects: Objects,
        gateway: Gateway,
        recorder: Recorder,
        cold: bool,
        deadline_s: float = math.inf,
        memo: Memo | None = None,
        black_box: BlackBox | None = None,
        faults: Faults | None = None,
        on_memory_error: Callable[[MemoryError], object] = lambda _: None,
        check_memory: Callable[[], object] = lambda: None,
        waker: Waker | None = None,
    ) -> None:
        self._invocation = invocation
        self._name = invocation.worker
        self._pid = os.getpid()
        self._view = code.view
        self._program = code.program
        self._constant_count = code.constants
        self._coordination = coordination
        self._objects = objects
        self._gateway = gateway
        self._cold = cold
        self._state = WorkerState(code.view, invocation.worker, invocation.resources, code.policies)
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)  # executors wait for work
        self._courier_wake = threading.Condition(self._lock)
        self._courier_counts = False  # the courier wakes by itself to flush
        self._courier_ended: threading.Event | None = None  # set once it has; None: there is none
        self._waker = waker or Waker()
        self._idle_executors = 0
        self._runs: deque[m.Run] = deque()
        self._io: deque[m.Command] = deque()
        self._errands: deque[m.Command] = deque()
        self._errand_threads = 0
        self._timer: threading.Timer | None = None
        self._working: dict[int, _Working] = {}  # executor threads that run a task
        self._due: dict[int, float] = {}  # executor threads whose task has a time limit → when that is over
        self._abandoned: dict[int, float] = {}  # tasks that are to be stopped, and since when
        self._unstarted: list[int] = []  # abandoned before they began; the core is to be told
        self._over: m.Leave | None = None
        self._ended = threading.Event()
        self._timekeeper: HelperThread | None = None
        self._recorder = recorder
        self._memo = memo
        recorder.follow(lambda: self._ran)
        self._seal = code.seal
        self._values = Values(code.view, coordination, objects, recorder, code.seal, code.policies.is_kept_apart)
        self._outlet = Outlet(self._send_printed, time.monotonic)
        self._cursor = "0"
        self._listening = False
        self._slots = invocation.resources.task_slots
        # With one slot no task runs while a function is loaded.
        self._calling = calling if self._slots > 1 else nullcontext()
        box = black_box or BlackBox("", self._slots)
        self._lines = [box.line(slot) for slot in range(self._slots)]  # each executor takes one
        self._on_memory_error = on_memory_error
        self._check_memory = check_memory
        self._faults = faults
        self._started_s = time.monotonic()
        self._late_s = code.late_s
        self._told_late: set[tuple[int, float]] = set()  # tasks that were found late, and since when they ran
        self._patience = Patience(self._started_s, deadline_s)
        has_timeouts = any(info.timeout_s is not None for info in code.view.graph.functions)
        self._has_limits = bool(has_timeouts or self._late_s or deadline_s < math.inf)
        restarts = Restarts(
            coordination,
            invoke=self._start_workers,
            give_up=self._end_for_gateway,
            patience_s=code.patience_s,
            lease_s=code.care.lease_s,
        )
        self._heart = Heart(
            coordination,
            invocation.worker,
            invocation.attempt,
            code.care.lease_s,
            start=restarts.start,
            end=self._end_hopeless,
            stop=lambda status: self._tell(m.StopRequested(status)),
            faults=faults,
        )
        self.interrupted = False
        self._is_posting = False  # the courier does
        self._io_under_way = 0  # commands that somebody carries out
        self._is_leaving = False  # nothing may be posted any more
        self._has_left = False
        self._is_owed = False  # nobody could be told why we end: a successor must do what is left
        self._ran = 0
        self._prewarmed = 0
        self._tidied = 0  # how many of the outputs that were written here had been when we cleaned up

    def run(self, joined: Joined, remains: Remains | None = None) -> None:
        """Work until the core says that there is nothing left to do here.

        Args:
            joined: What it was told when it joined.
            remains: What is left of an attempt that was lost, if this one stands for it.
        """
        if self._faults is not None:
            self._faults.reach("joined")
        catch_streams()
        allow_interruption()
        others = range(self._slots - 1)
        executors = [threading.Thread(target=self._guard, args=(self._execute,), daemon=True) for _ in others]
        self._tell(m.Began(self._invocation.tasks, joined.done, joined.live, remains))
        for executor in executors:
            executor.start()
        self._waker.wake(COURIER_AFTER_S, self._become_courier)
        try:
            self._guard(self._execute)
            for executor in executors:
                executor.join()
        finally:
            self._waker.call_off()
        with self._lock:
            courier_ended = self._courier_ended
        if courier_ended is not None:
            courier_ended.wait()
        self._heart.end()
        self._leave(self._over or m.Leave())
        # A listener that still waits for its last read holds us: it must not hold the values too.
        self._values.clear()

    def _helper(self, work: Callable[[], None]) -> HelperThread:
        """Start a thread that runs no task."""
        return HelperThread(partial(self._guard, work))

    def _guard(self, work: Callable[[], None]) -> None:
        """The life of a thread: whatever ends it before its time ends the run, and the client learns of it."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - a thread that dies silently is a run that hangs
            if self._over is None:
                self._tell(self._fail_with(error))

    def _fail_with(self, error: BaseException) -> m.Event:
        """What happened lets nobody here go on: the run ends with it."""
        if isinstance(error, MemoryError):
            self._on_memory_error(error)
        _log.warning("worker %s cannot go on", self._invocation.worker, exc_info=error)
        self._give_up(platform_failure(self._invocation.worker, error))
        return m.StopRequested()

    # Telling the core

    def _tell(self, event: m.Event) -> None:
        with self._lock:
            self._handle(event)

    def _handle(self, event: m.Event) -> None:
        """Tell the core, and take what it commands; the lock is held."""
        self._take(self._state.handle(event, time.monotonic()))

    def _take(self, commands: Sequence[m.Command]) -> None:
        """Sort commands to whoever does them; the lock is held."""
        for command in commands:
            if isinstance(command, m.Run):
                self._runs.append(command)
            elif isinstance(command, m.Discard):
                self._values.discard(command.tasks)
            elif isinstance(command, m.Leave):
                self._end(command)
            elif not self._take_rare(command):
                self._io.append(command)
        while self._unstarted:
            self._handle(m.TaskAbandoned(self._unstarted.pop()))
        if self._idle_executors and (self._over or self._runs or self._io):
            self._work.notify_all()
        if self._over or self._courier_takes_io or (self._state.unreported and not self._courier_counts):
            self._wake_courier()

    def _take_rare(self, command: m.Command) -> bool:
        """Take commands that have their own ways; whether it is one of them."""
        match command:
            case m.Listen():
                self._listen()
            case m.Fetch(early=True) | m.Prewarm():
                self._send_on_errand(command)
            case m.Alarm(at_s):
                self._set_alarm(at_s)
            case m.Abandon(task):
                self._abandon(task)
            case _:
                return False
        return True

    def _end(self, leave: m.Leave) -> None:
        """The core is done: drop what is of no use any more, stop what still runs."""
        self._over = leave
        self._ended.set()
        self._runs.clear()
        self._io = deque(command for command in self._io if isinstance(command, m.Fail | m.CleanUp | m.Invoke))
        if leave.status is Status.RUNNING:
            self._io.extend(command for command in self._errands if isinstance(command, m.Prewarm))
        self._errands.clear()
        if self._timer is not None:
            self._timer.cancel()
        for thread_id, (_, _, section, _) in self._working.items():
            if thread_id != threading.get_ident():
                section.interrupt()

    @property
    def _courier_takes_io(self) -> bool:
        """Whether there is I/O to do and every executor has a task to run."""
        return bool(self._io) and len(self._runs) + len(self._working) >= self._slots

    # Executors

    def _execute(self) -> None:
        """Run tasks; do I/O while there is none."""
        me = threading.get_ident()
        section = Section()
        line = self._lines.pop()
        event: m.Event | None = None
        work: m.Command | None = None
        try:
            while True:
                with self._lock:
                    done = self._working.pop(me, None)
                    if work is not None and not isinstance(work, m.Run):
                        self._io_under_way -= 1
                    if isinstance(event, m.TaskFinished):
                        self._ran += 1
                        event = self._as_shared(event) if self._told_late else event
                    if event is not None:
                        self._take(self._state.handle(event, time.monotonic()))
                    if done is not None and self._abandoned:
                        self._abandoned.pop(done[1].task, None)
                    work = self._next_work()
                    if work is None:
                        return
                    if isinstance(work, m.Run):
                        self._working[me] = (time.monotonic(), work, section, line)
                if isinstance(work, m.Run):
                    event = self._run_task(work, section, line)
                    if self._faults is not None:
                        self._faults.reach("task-ended")
                    line.end()
                else:
                    event = self._perform(work)
        finally:
            line.end()
            with self._lock:
                self._working.pop(me, None)

    def _next_work(self) -> m.Command | None:
        """A task to run, or else I/O to do, or None when the invocation is over; the lock is held."""
        while True:
            if self._runs:
                return self._runs.popleft()
            if self._io:
                self._io_under_way += 1
                return self._io.popleft()
            if self._over:
                return None
            self._idle_executors += 1
            self._work.wait()
            self._idle_executors -= 1

    def _abandon(self, task: int) -> None:
        """Stop a task, or do not even start it; the lock is held."""
        waiting = [run for run in self._runs if run.task == task]
        if waiting:
            self._runs.remove(waiting[0])
            self._unstarted.append(task)
            return
        self._abandoned[task] = time.monotonic()  # before it is interrupted: if it has not begun, it looks here
        for _, run, section, line in self._working.values():
            if run.task == task:
                line.lift_limit()  # nobody waits for it any more
                section.interrupt()

    def _run_task(self, run: m.Run, section: Section, line: Line) -> m.Event:
        """Call a task's function; everything that it may raise becomes an event."""
        task, me = run.task, threading.get_ident()
        info = self._view.graph.info(task)
        began_s = time.monotonic()
        line.begin(task, began_s)
        measured: Measurement | None = None
        try:
            self._set_inputs_apart(task, began_s)
            measured = self._recorder.begin(task, began_s, run.ready_s, run.fetch_s)
            if measured:
                self._measure_inputs(task, measured)
                line.measured(measured.input_bytes)
                began_s = time.monotonic()
            with writing_for(task, self._outlet):
                with section:
                    self._check_wanted(task)
                    function = self._load(task, measured)
                if info.timeout_s is not None:  # modules that had to be imported are not the task's fault
                    loaded_s = time.monotonic()
                    line.limit(loaded_s, info.timeout_s)
                    self._due[me] = loaded_s + info.timeout_s
                with time_limit(info.timeout_s), section:
                    self._check_wanted(task)
                    value = self._call(task, function)
            ended_s = time.monotonic()
            if info.timeout_s is not None:
                del self._due[me]
                line.lift_limit()
            if self._memo is not None and info.cache_s:
                self._check_memory()
                if self._memo.settle(task, value, info.cache_s):
                    self._forget_measurement(measured)  # it says nothing of how long the function takes
                    measured = None
            size_bytes, stays = self._keep(task, value)
        except BaseException as error:
            section.close()
            self._due.pop(me, None)
            self._forget_measurement(measured)
            self.interrupted |= isinstance(error, Interrupted)
            if isinstance(error, Interrupted) and not isinstance(error, TimeIsUp):
                if task in self._abandoned:
                    return m.TaskAbandoned(task)
                raise
            return self._raised(run, error)  # a task may raise anything, sys.exit() included; the user gets it
        duration_s = ended_s - began_s
        if measured:
            self._measure(task, measured, duration_s, time.monotonic() - ended_s)
        return m.TaskFinished(task, size_bytes, duration_s, stays)

    def _keep(self, task: int, value: Any) -> tuple[int, bool]:
        """Take an output; its size, if it may have to leave, and whether it cannot and need not."""
        try:
            return self._values.keep(task, value, leaves=self._state.leaves(task)), False
        except SerializationError:
            if not self._state.may_stay(task):
                raise
        return self._values.keep(task, value, leaves=False), True

    def _as_shared(self, event: m.TaskFinished) -> m.TaskFinished:
        """If a second worker was claimed for a task after its output was taken, that has to leave; the lock is held."""
        if event.size_bytes or event.stays or not self._state.may_stay(event.task):
            return event
        try:
            return msgspec.structs.replace(event, size_bytes=self._values.pack(event.task).size_bytes)
        except SerializationError:
            return msgspec.structs.replace(event, stays=True)

    def _set_inputs_apart(self, task: int, began_s: float) -> None:
        """Before a task that may be cut changes what it is given: whoever begins it anew needs that as it was."""
        expected_s = self._late_after_s(task) if self._invocation.attempt == 1 else math.inf
        if self._patience.had_it_all(began_s) or began_s + expected_s < self._patience.hard_s:
            return
        with self._lock:
            unstored = self._state.unstored_inputs(task)
        self._values.set_apart(unstored)

    def _check_wanted(self, task: int) -> None:
        """Stop a task that was to be stopped before it could be interrupted."""
        if task in self._abandoned or self._over is not None:
            raise Interrupted

    def _raised(self, run: m.Run, error: BaseException) -> m.TaskRaised:
        self._check_memory()
        info = self._view.graph.info(run.task)
        if isinstance(error, TimeIsUp):
            late = TaskTimeout(f"it ran longer than its timeout_s of {info.timeout_s:g} s")
            error = late.with_traceback(error.__traceback__)  # which tells where it was
        if isinstance(error, MemoryError):
            self._on_memory_error(error)
            error.add_note(
                f"on worker {self._name}, which has {self._invocation.resources.memory_mb:,} MiB; "
                "@task(memory_mb=…) asks for more"
            )
        retryable = is_worth_retrying(error, info) and not isinstance(error, SerializationError | UntrustedData)
        return m.TaskRaised(run.task, self._failure(run, error).encode(), retryable)

    def _measure_inputs(self, task: int, measured: Measurement) -> None:
        """Before the task runs, since it may change its arguments."""
        measured.waited_s = self._values.waited_s
        try:
            measured.input_bytes = self._program.argument_bytes(task) + self._values.input_bytes(task)
        except AuguryError:  # it cannot be loaded; running the task will say so
            measured.input_bytes = math.nan

    def _forget_measurement(self, measured: Measurement | None) -> None:
        if measured:
            self._recorder.abandon()

    def _measure(self, task: int, measured: Measurement, duration_s: float, upload_s: float) -> None:
        """Note what a task took; loading its code and waiting for constants, which are inputs, is no execution."""
        constants_s = self._values.waited_s - measured.waited_s
        measured.dependency_s += constants_s
        output_bytes = self._values.size(task)
        self._recorder.end(
            task,
            measured,
            execution_s=max(0.0, duration_s - constants_s - measured.load_s),
            upload_s=upload_s,
            output_bytes=output_bytes,
            leaves=output_bytes > self._view.inline_bytes,
        )

    def _load(self, task: int, measured: Measurement | None) -> Callable[..., Any]:
        """The user's function, with all that it imports when it is loaded."""
        if self._faults is not None:
            self._faults.reach("task-begun")
        values = self._values
        began_s = time.monotonic() - values.waited_s if measured else 0.0
        function = self._program.function(task, values.constant_data)
        if measured:
            measured.loaded(time.monotonic() - values.waited_s - began_s)  # a large function comes as a constant
        return function

    def _call(self, task: int, function: Callable[..., Any]) -> Any:
        values = self._values
        args, kwargs = self._program.arguments(task, values.output, values.constant)
        if self._memo is not None and self._view.graph.info(task).cache_s:
            recalled = self._memo.find(task, self._view.graph.function_of[task], function, args, kwargs)
            if recalled is not None:
                return recalled.value
        try:
            with self._calling:
                result = function(*args, **kwargs)
                return run_coroutine(result) if inspect.iscoroutine(result) else result
        finally:
            if os.getpid() != self._pid:
                end_fork()

    def _failure(self, run: m.Run, error: BaseException) -> Failure:
        return task_failure(run.task, self._invocation.worker, run.attempt, error, self._seal)

    # Commands that go to storage and gateway

    def _perform(self, command: m.Command) -> m.Event | None:
        """Do one command; if the platform refuses, the run fails and says why."""
        try:
            return self._carry_out(command)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run must end with it rather than hang
            return self._fail_with(error)

    def _carry_out(self, command: m.Command) -> m.Event | None:
        """Do one command, with what is to go wrong before and after it."""
        point = _FAULT_POINTS.get(type(command))
        if self._faults is None or point is None:
            return self._do(command)
        self._faults.reach(f"before-{point}")
        event = self._do(command)
        self._faults.reach(f"after-{point}")
        return event

    def _do(self, command: m.Command) -> m.Event | None:
        match command:
            case m.Fetch(tasks):
                return self._fetch(tasks)
            case m.Store(task):
                self._values.store(task)
                return m.OutputStored(task)
            case m.Send():
                return self._tell_storage(command)
            case m.Invoke(claims):
                self._start_workers(claims)
            case m.Prewarm(resources, count):
                self._prewarm(resources, count)
            case m.Suspend() | m.HandOver():
                return self._step_aside(command)
            case m.Fail(_, failure):
                self._try_to_post(self._send_printed, "printed text")  # whatever becomes of it, the failure is told
                if self._fail(failure):
                    self._clean_up()
            case m.CleanUp():
                self._clean_up()
        return None

    def _fetch(self, tasks: tuple[int, ...]) -> m.Event:
        try:
            self._values.fetch(tasks)
        except UntrustedData:
            raise  # somebody meddles with the run
        except AuguryError as error:
            status = self._coordination.status() if isinstance(error, RunLost) else Status.RUNNING
            if status is not Status.RUNNING:
                return m.StopRequested(status)  # others have done all that we wanted them for, or nobody wants it
            _log.warning("worker %s cannot fetch what others made", self._name, exc_info=error)
            return m.FetchFailed(tasks, platform_failure(self._name, error).encode())
        return m.Fetched(tasks)

    def _prewarm(self, resources: Resources, count: int) -> None:
        """Nothing depends on it, so nothing that it does may matter."""
        try:
            self._gateway.prewarm(resources, count)
            self._prewarmed += count
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning("worker %s could not have %d x %s pre-warmed: %s", self._name, count, resources, error)

    # Errands and alarms

    def _send_on_errand(self, command: m.Command) -> None:
        """Have something done beside everything else; the lock is held."""
        self._errands.append(command)
        if self._errand_threads < _ERRAND_THREADS:
            self._errand_threads += 1
            self._helper(self._run_errands)

    def _run_errands(self) -> None:
        """The life of a thread; one that fails ends the run only if the invocation has not come to its end before."""
        while True:
            with self._lock:
                if not self._errands:
                    self._errand_threads -= 1
                    return
                command = self._errands.popleft()
            event = self._carry_out(command)
            if event is not None:
                self._tell(event)

    def _set_alarm(self, at_s: float) -> None:
        """Ring at a moment; the lock is held."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(max(0.0, at_s - time.monotonic()), self._ring, (at_s,))
        self._timer.daemon = True
        self._timer.start()

    def _ring(self, at_s: float) -> None:
        rest_s = at_s - time.monotonic()
        if rest_s > 0:  # some timers are early
            time.sleep(rest_s)
        self._guard(lambda: self._tell(m.AlarmRang()))

    # Reports

    def _may_leave_with_report(self) -> bool:
        """Whether a report can be the last that is heard of us; if so, only that is said from now on.

        Not while anything else is under way: who has left owes nobody anything. How long the report takes cannot be
        told with it, which matters while there are few others to tell such things.
        """
        if not self._recorder.can_miss_one_of(self._state.live):
            return False
        with self._lock:
            others = self._io_under_way > 1 or self._is_posting or self._errands or self._errand_threads or self._io
            self._is_leaving = not others
            return self._is_leaving

    def _tell_storage(self, send: m.Send) -> m.Event:
        self._send_printed()
        report = self._report(send)
        if send.last and self._may_leave_with_report():
            report = msgspec.structs.replace(report, leaving=self._summary(self._recorder.look()))
        return m.Reported(self._send(report))

    def _send(self, report: Report) -> Outcome:
        self._check_memory()
        if report.leaving is not None and self._faults is not None:
            self._faults.reach("before-leave")
        began_s = time.monotonic()
        outcome = self._coordination.report(report)
        self._has_left, self._is_leaving = outcome.left, outcome.left
        size_bytes = sum(len(one.inline or b"") for one in report.completions)
        size_bytes += sum(len(one.inline or b"") for one in report.published)
        if size_bytes:
            self._recorder.uploaded(size_bytes, time.monotonic() - began_s)
        return outcome

    def _report(self, send: m.Send) -> Report:
        return Report(
            worker=self._invocation.worker,
            published=tuple(
                Published(entry.task, entry.size_bytes, self._values.inline(entry.task, entry.size_bytes))
                for entry in send.published
            ),
            completions=tuple(self._completion(finished) for finished in send.completions),
            claims=send.claims,
            ran=send.ran,
            attempt=self._invocation.attempt,
            taken=send.taken,
            tried=send.tried,
        )

    def _completion(self, finished: m.Finished) -> Completion:
        view = self._view
        sink = finished.task in view.graph.sink_set
        if not (finished.consumers or finished.keep or sink):
            return Completion(finished.task)
        inline = self._values.inline(finished.task, finished.size_bytes)
        return Completion(
            task=finished.task,
            size_bytes=finished.size_bytes,
            inline=inline,
            held=inline is None and not finished.stored,
            keep=finished.keep,
            sink=sink,
            consumers=tuple(Consumer(c, view.needs[c], view.worker_of[c]) for c in finished.consumers),
            watchers=finished.watchers,
        )

    def _start_workers(self, claims: Sequence[Claim]) -> None:
        self._gateway.invoke([self._to_invocation(claim) for claim in claims])

    def _end_hopeless(self, hopeless: Hopeless) -> None:
        """End the run for a worker, unless that one has a successor by now; we may have one ourselves."""
        is_told = self._try_to_fail(lost_for_good(hopeless), hopeless)
        self._is_owed |= not is_told and hopeless.worker == self._name

    def _end_for_gateway(self, error: GatewayError) -> None:
        self._try_to_fail(platform_failure(self._invocation.worker, error))

    def _to_invocation(self, claim: Claim) -> Invocation:
        return Invocation(
            run_id=self._invocation.run_id,
            worker=claim.worker,
            attempt=claim.attempt,
            resources=claim.resources,
            tasks=claim.tasks,
            stamp=self._invocation.stamp,
        )

    def _step_aside(self, command: m.Command) -> m.Event | None:
        """Let others have the slot, or a successor the place."""
        if isinstance(command, m.HandOver):
            return self._hand_over(Cause.CUT if command.cut else Cause.HANDOVER)
        self._suspend()
        return None

    def _suspend(self) -> None:
        """Ask to give the slot up. The lock is held: nothing may happen between the answer and its effect."""
        with self._lock:
            if self._state.suspending:
                worker, attempt = self._invocation.worker, self._invocation.attempt
                granted = self._coordination.suspend(worker, attempt, self._cursor, self._view.start_s)
                self._handle(m.SuspendAnswered(granted))

    def _hand_over(self, cause: Cause) -> m.Event:
        """Have a successor started; from now on nothing counts that we say of ourselves."""
        worker, attempt = self._invocation.worker, self._invocation.attempt
        beat = self._coordination.beat(worker, attempt, [Missing(worker, attempt, cause)])
        for hopeless in beat.hopeless[:1]:
            self._end_hopeless(hopeless)
        if beat.start:  # even if there is no hope for another one: that may prove wrong
            self._start_workers(beat.start)
        handed_over = any(claim.worker == worker for claim in beat.start)
        return m.HandedOver() if handed_over else m.StopRequested(beat.status)

    def _take_back(self) -> None:
        """Remove what was stored here for a run that has failed. What we heard of it may not be the last word."""
        status = self._coordination.status()
        if status is Status.SUCCEEDED:
            self._take_back_late()
        elif status is not Status.RUNNING:
            self._values.take_back()

    def _take_back_late(self) -> None:
        """Remove what another thread was still writing when the run had succeeded, and we had cleaned up."""
        late = [task for task in self._values.put[self._tidied :] if task not in self._view.graph.sink_set]
        if late:
            self._objects.delete([output_key(task) for task in late])

    def _clean_up(self) -> None:
        sinks = self._view.graph.sink_set
        # What was written here after somebody else had cleaned up is in no list.
        self._tidied = len(self._values.put)
        written = {*self._coordination.objects_stored(), *self._values.put}
        large = [output_key(task) for task in written if task not in sinks]
        constants = [constant_key(index) for index in range(self._constant_count)]
        if large or constants:
            self._objects.delete([*large, *constants])
        self._coordination.prune()

    def _fail(self, failure: bytes, of: Hopeless | None = None) -> bool:
        """End the run, unless another invocation has our place, or that of the worker it is for."""
        failed = of or self._invocation
        return self._coordination.fail(Status.FAILED, failure, failed.worker, failed.attempt)

    def _give_up(self, failure: Failure) -> None:
        """The platform does not let us go on: tell the client, or have others miss us."""
        self._is_owed |= not self._try_to_fail(failure)

    def _try_to_fail(self, failure: Failure, of: Hopeless | None = None) -> bool:
        """End the run for us, or another worker, that cannot go on; whether storage has heard of it."""
        try:
            self._fail(failure.encode(), of)
        except Exception as error:  # noqa: BLE001 - storage may be what failed; leases tell the others
            _log.warning("worker %s cannot report its failure: %s", self._invocation.worker, error)
            return False
        return True

    def _send_printed(self) -> None:
        printed = self._outlet.drain()
        if printed:
            self._coordination.post(CLIENT, printed)

    # Courier

    def _wake_courier(self) -> None:
        """There is something to do for it; the lock is held."""
        if self._courier_ended is not None:
            self._courier_wake.notify()
        elif not self._over:
            ended = threading.Event()
            HelperThread(partial(self._be_courier, ended))
            self._courier_ended = ended  # not before: nobody would ever set it if no thread can be had

    def _become_courier(self) -> None:
        """Another thread has time for that."""
        with self._lock:
            if self._over or self._courier_ended is not None:
                return
            ended = self._courier_ended = threading.Event()
        self._be_courier(ended)

    def _be_courier(self, ended: threading.Event) -> None:
        try:
            self._guard(self._courier)
        finally:
            ended.set()

    def _courier(self) -> None:
        """Do what executors have no time for, and keep time for the core."""
        progress_due_s = self._started_s + self._pause_s()
        recorded_s = self._started_s
        while True:
            with self._lock:
                if not (self._over or self._courier_takes_io):
                    self._courier_counts = self._state.unreported
                    self._courier_wake.wait(FLUSH_S if self._courier_counts else self._pause_s())
                    self._courier_counts = False
                if self._over:
                    return
                command = self._io.popleft() if self._courier_takes_io else None
                self._io_under_way += command is not None
                now_s = time.monotonic()
                progress = now_s >= progress_due_s
                records = now_s - recorded_s >= max(RECORD_S, recorded_s - self._started_s)
                self._is_posting = (progress or records) and not self._is_leaving
                if self._working and (progress or (self._state.unreported and command is None)):
                    running_s = now_s - min(began_s for began_s, *_ in self._working.values())
                    self._handle(m.FlushDue(running_s))
                if now_s - self._started_s > LISTEN_AFTER_S:
                    self._listen()
            self._see_to_time(now_s, command)
            if command is not None:
                self._deliver(command)
            if progress:
                progress_due_s = now_s + self._pause_s()
                self._check_memory()
            if self._is_posting:
                self._try_to_post(self._send_printed, "printed text")
                if records:
                    recorded_s = now_s
                    self._try_to_post(self._send_records, "measurements")
                self._is_posting = False

    def _deliver(self, command: m.Command) -> None:
        """Do a command for the executors, who are all busy."""
        event = self._perform(command)
        with self._lock:
            self._io_under_way -= 1
            if event is not None:
                self._handle(event)

    def _may_keep(self, command: m.Command | None) -> bool:
        """Whether what the courier is about to do may take long while there is something to keep time for.

        Reports that take long are rare. A short run without limits is not to pay for that with a thread.
        """
        return command is not None and (self._has_limits or not isinstance(command, m.Send))

    def _see_to_time(self, now_s: float, command: m.Command | None) -> None:
        """Keep time; or have it kept, if the courier may be kept from it."""
        if self._timekeeper is not None:
            return
        if now_s - self._started_s > LISTEN_AFTER_S or self._may_keep(command):
            self._timekeeper = self._helper(self._keep_time_to_the_end)
        else:
            self._keep_time(now_s)

    def _keep_time_to_the_end(self) -> None:
        while True:
            self._keep_time(time.monotonic())
            if self._ended.wait(self._pause_s()):
                return

    def _keep_time(self, now_s: float) -> None:
        """See to tasks that take too long, or longer than expected, to the platform's own limit, and to the lease."""
        self._heart.begin_after(now_s - self._started_s)
        self._end_overdue(now_s)
        if self._abandoned:
            self._leave_the_deaf(now_s)
        if now_s >= self._patience.soft_s:
            self._wind_down(now_s)
        elif self._late_s:
            self._tell_stragglers(now_s)

    def _end_overdue(self, now_s: float) -> None:
        """End the run for a task that does not let itself be interrupted; the client has the worker stopped then."""
        for thread_id, due_s in list(self._due.items()):
            working = self._working.get(thread_id)
            if working is None or now_s <= due_s or working[1].task in self._abandoned:
                continue
            _, run, _, line = working
            if is_importing(thread_id):  # at whose end it is interrupted
                line.lift_limit()
            elif now_s > due_s + _OVERDUE_S:
                self._give_up(self._failure(run, TaskTimeout(deaf(self._view.graph.info(run.task).timeout_s or 0.0))))
                self._tell(m.StopRequested())
                return

    def _leave_the_deaf(self, now_s: float) -> None:
        """If nothing runs but what nobody waits for and cannot be stopped, have a successor do what is left."""
        with self._lock:
            due_s = [self._abandoned.get(run.task, math.inf) + _DEAF_S for _, run, *_ in self._working.values()]
            if not due_s or now_s < max(due_s) or any(map(is_importing, self._working)):
                return
            sizes = self._sizes_needed_later()
        self._tell(m.HandOverDue(sizes))

    def _wind_down(self, now_s: float) -> None:
        """The platform lets nobody go on for ever: hand over to a successor in time."""
        with self._lock:
            self._handle(m.WindDown(self._sizes_needed_later()))
            if now_s < self._patience.hard_s and not self._state.quiet:
                return
            working = list(self._working.values())
            sizes = self._sizes_needed_later()
        if now_s >= self._patience.hard_s:
            for began_s, run, *_ in working:
                if self._patience.had_it_all(began_s) and run.task not in self._abandoned:
                    self._give_up(self._failure(run, TaskTimeout(overlong(self._patience.limit_s))))
                    self._tell(m.StopRequested())
                    return
        self._tell(m.HandOverDue(sizes))

    def _late_after_s(self, task: int) -> float:
        """After how long a task takes much longer than expected."""
        return self._late_s[task] if self._late_s else math.inf

    def _tell_stragglers(self, now_s: float) -> None:
        """Tell the core of tasks that run for much longer than expected; of each try once."""
        for began_s, run, *_ in list(self._working.values()):
            is_late = now_s - began_s > self._late_after_s(run.task)
            if is_late and (run.task, began_s) not in self._told_late:
                self._told_late.add((run.task, began_s))
                with self._lock:
                    inputs = self._state.unstored_inputs(run.task)
                    self._handle(m.Straggles(run.task, self._sizes(inputs)))

    def _sizes_needed_later(self) -> dict[int, int]:
        """The sizes of outputs that only we have and that others go on with, as far as they can be stored."""
        return self._sizes(self._state.needed_later())

    def _sizes(self, tasks: Iterable[int]) -> dict[int, int]:
        """The sizes of outputs that can be stored; a task that runs may have changed what it was given."""
        given = {dep for _, run, *_ in self._working.values() for dep in self._view.graph.deps[run.task]}
        sizes = {}
        for task in tasks:
            if task in given and not self._values.is_apart(task):
                continue
            with suppress(SerializationError):
                sizes[task] = self._values.pack(task).size_bytes
        return sizes

    def _pause_s(self) -> float:
        """How long the courier may sleep: less while tasks wait here that others could run."""
        pause_s = self._seldom * PROGRESS_S
        if self._state.queued:
            pause_s = min(pause_s, self._view.start_s)
        return min(pause_s, self._patience.look_s, self._heart.pause_s)

    @property
    def _seldom(self) -> float:
        """How many times as seldom as one of few workers this one of many looks around."""
        return min(_MOST_SELDOM, max(1.0, self._state.live / _CROWD))

    def _send_records(self) -> None:
        records = self._recorder.take()
        if records:
            self._coordination.post(CLIENT, [Recorded(records)])

    def _try_to_post(self, post: Callable[[], None], what: str) -> None:
        try:
            post()
        except AuguryError as error:
            _log.warning("%s of worker %s: lost: %s", what, self._invocation.worker, error)

    # Listener

    def _listen(self) -> None:
        """Begin to read the inbox; the lock is held."""
        if not self._listening:
            self._listening = True
            self._helper(self._read_inbox)

    def _read_inbox(self) -> None:
        """Hear what others tell; without that the worker would wait for ever."""
        patience_s = self._seldom * self._view.start_s
        heard_s = time.monotonic()
        while not self._over:
            slice_s = min(patience_s, self._seldom * _SLICE_S)
            cursor, events = self._coordination.read(self._invocation.worker, self._cursor, slice_s)
            for kind, group in groupby(events, type):
                if kind is TaskCompleted:
                    self._hear_completions([cast("TaskCompleted", event) for event in group])
                else:
                    for event in group:
                        self._hear(event)
            self._cursor = cursor
            patience_s = self._seldom * self._view.start_s if events else 2 * patience_s
            if events:
                heard_s = time.monotonic()
            if not events and self._state.idle and self._coordination.progress().starting:
                self._offer_slot(time.monotonic() - heard_s)

    def _offer_slot(self, waited_s: float) -> None:
        """We wait, and others cannot start."""
        with self._lock:
            needed = self._state.needed_later()
            try:
                # A task that becomes ready may change what it is given before all of that is stored.
                self._values.set_apart(needed)
                sizes = {task: self._values.pack(task).size_bytes for task in needed}
            except (MemoryError, SerializationError) as error:
                if waited_s < _STUBBORN_S:  # somebody else may make room
                    return
                if isinstance(error, MemoryError):
                    raise
                raise SerializationError(
                    f"worker {self._invocation.worker} must give its slot up to others and cannot: {error}, "
                    "or give the platform more slots"
                ) from error
            self._handle(m.WaitedLong(sizes))

    def _hear_completions(self, events: Sequence[TaskCompleted]) -> None:
        """Take the outputs that something here waits for, and tell the core of all."""
        self._check_known(event.task for event in events)
        with self._lock:
            wanted = [event for event in events if event.inline is not None and self._state.wants(event.task)]
        for event in wanted:
            self._values.receive(event.task, event.inline or b"")
        with self._lock:
            received = self._still_here(event.task for event in wanted)
            self._handle(m.TasksCompleted(tuple(event.task for event in events), received))

    def _hear(self, event: object) -> None:
        if isinstance(event, TaskReady):
            self._check_known((event.task, *event.outputs))
            for task, data in event.outputs.items():
                if task not in self._values:
                    self._values.receive(task, data)
            with self._lock:
                self._handle(m.InputsReady(event.task, self._still_here(event.outputs)))
        elif isinstance(event, Stop):
            self._tell(m.StopRequested())

    def _still_here(self, tasks: Iterable[int]) -> tuple[int, ...]:
        """Those of some outputs that nothing took away again, as a fetch does that fails; the lock is held."""
        return tuple(task for task in tasks if task in self._values)

    def _check_known(self, tasks: Iterable[int]) -> None:
        """Refuse events that no worker of this run sent."""
        for task in tasks:
            if not 0 <= task < len(self._view.graph):
                raise StorageError(
                    f"an event for worker {self._name} names task {task}, which the run does not have: "
                    "check who can write to the storage"
                )

    # The end

    def _summary(self, records: bytes, *, suspended: bool = False) -> WorkerSummary:
        return WorkerSummary(
            worker=self._invocation.worker,
            attempt=self._invocation.attempt,
            cold=self._cold,
            duration_s=time.monotonic() - self._started_s,
            memory_mb=self._invocation.resources.memory_mb,
            tasks=self._ran,
            stored_bytes=self._values.stored_bytes,
            fetched_bytes=self._values.fetched_bytes,
            suspended=suspended,
            prewarmed=self._prewarmed,
            recalled=self._memo.recalled if self._memo is not None else 0,
            records=records,
        )

    def _leave(self, leave: m.Leave) -> None:
        """Tell what this invocation took; take back what was stored for a run that is over."""
        if self._has_left:
            return
        if self._faults is not None:
            self._faults.reach("before-leave")
        summary = self._summary(self._recorder.take(), suspended=leave.suspended)
        try:
            self._send_printed()
            if leave.status is Status.SUCCEEDED:
                self._take_back_late()
            elif leave.status not in (Status.RUNNING, Status.REPLACED):
                self._take_back()
            # If a successor must do what is left, the lease has to run out: that is all that others see of it.
            if not (self._is_owed and self._coordination.status() is Status.RUNNING):
                self._coordination.leave(summary)
        except AuguryError as error:
            _log.warning("worker %s cannot say that it ended: %s", self._invocation.worker, error)
