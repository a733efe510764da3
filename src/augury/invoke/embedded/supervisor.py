"""The supervisor: carries out what the pool decides, and notices what happens to workers.

It runs in one thread, on an event loop, and never blocks: forks are requested and not awaited, and an invocation is
written into the socket of its worker before that worker exists, so that a cold start is one request and one
fork long. Who told what, in the life of one invocation:

    HTTP          supervisor                 pre-loaded parent        worker
      │ invoke ─────▶ │ fork, with a socket ──────▶ │ fork ─────────────▶ │
      │ ◀──────── 202 │ Setup, Run ─────────────────┼───────────────────▶ │ handler
      │               │ ◀───────────────────────────┼─── Started, Done    │
      │               │ ◀── Exited (reaped) ────────┤ ◀─── dies ──────────┘

A worker that ends before `Done` takes its invocation with it; the run is told, and says what is to be started in its
place. Only if the worker was warm
and had not yet said `Started` does the invocation go back to the head of the queue: nothing of it happened.
"""

import asyncio
import logging
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import msgspec

from augury.config import Resources, StorageConfig
from augury.invoke.blackbox import RunningTask
from augury.invoke.embedded.cgroups import FLOOR_MB, Groups
from augury.invoke.embedded.inquest import Inquest, Tended, never_ran
from augury.invoke.embedded.links import WorkerLink, ZygoteLink
from augury.invoke.embedded.messenger import VOUCH_S, Messenger
from augury.invoke.embedded.parents import Parents
from augury.invoke.embedded.pool import Pool, Start
from augury.invoke.embedded.processes import children, describe_exit, end_children, is_stopped
from augury.invoke.embedded.wire import (
    Done,
    Exited,
    Forked,
    FromParent,
    FromWorker,
    ParentBroken,
    ParentReady,
    Raised,
    Refused,
    Run,
    Settings,
    Setup,
    Started,
)
from augury.invoke.embedded.zygote import spawn_zygote
from augury.invoke.gateway import Invocation, LossKind

logger = logging.getLogger(__name__)

_INSPECT_S: Final = 0.25
"""How often it is looked for tasks that are late and deaf."""
_DEAF_S: Final = 2.0
"""How long after its time a task may go on; longer than its worker waits, which knows more of it."""
_PAUSE_S: Final = 0.2
"""How long to wait before a worker is started again that could not be started; twice as long with each in a row."""
_LONGEST_PAUSE_S: Final = 5.0
_STUCK_S: Final = 5.0
"""How long a worker that has a slot may take to come up, before it counts as stuck."""
_CANCEL_S: Final = 5.0
"""How long the runs of a client that is gone go on at most, if storage is away."""
_TO_LEAVE_S: Final = 2.0
"""How long an invocation whose place another one has may take to notice that and end."""


def _nothing(_what: str) -> None:
    """Whoever is to be told of a broken platform is not there yet."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform does at the moment and did so far."""

    running: int
    queued: int
    idle: int
    invocations: int
    cold_starts: int
    warm_starts: int
    prewarmed: int
    lost: int
    refused: int
    notes: tuple[str, ...]
    broken: str


class Supervisor:
    """Runs invocations on forked workers; lives on the event loop that is running when it is made.

    Args:
        settings: What the user chose.
        storage: Where runs keep their data.
        groups: Where workers are limited.
        zygote: The process id of the pre-loaded parent.
        control: The socket to it.

    Attributes:
        ready: Done when workers can be started, or never will be.
        broken: Why no worker can be started any more; empty if they can.
        on_break: Called with that, should it come to it.
        gateway_url: Where workers start others.
    """

    def __init__(
        self, settings: Settings, storage: StorageConfig, groups: Groups, zygote: int, control: socket.socket
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._groups = groups
        self._inquest = Inquest(settings.folder, groups, settings.time_limit_s)
        self._messenger = Messenger(storage, settings.on_loss, self.invoke)
        self._zygote_pid = zygote
        self._spared = children() - {zygote}
        self._loop = asyncio.get_running_loop()
        self._pool = Pool(settings.slots, settings.keep_alive_s, settings.max_idle)
        self._workers: dict[int, Tended] = {}
        self._rng = Random(settings.emulation.seed if settings.emulation else 0)  # noqa: S311 - imitates, protects nothing
        self._expiry: asyncio.TimerHandle | None = None
        self._inspection: asyncio.TimerHandle | None = None
        self._refused = 0
        self._doomed: set[int] = set()  # workers whose death was asked for, until it is told
        self._not_started = 0  # workers in a row that could not be started
        self._zygote = ZygoteLink(control, self._on_zygote, self._on_zygote_end)
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self._parents = Parents(settings.start_timeout_s, self._loop.time())
        self._held = False
        self.broken = ""
        self.on_break: Callable[[str], None] = _nothing
        self.gateway_url = ""

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        """Take invocations; start what can be started."""
        self._end_stuck(invocations)
        for one in filter(self._pool.has_ended, invocations):
            logger.warning("%s of run %s has ended, and is not started again", one.worker, one.run_id)
        self._pool.submit(invocations, time.time())
        self._dispatch()
        for one in invocations:
            if one.attempt > 1:
                self._loop.call_later(_TO_LEAVE_S, self._end_replaced, one)

    def _end_stuck(self, asked_again: Sequence[Invocation]) -> None:
        """Kill workers that were given an invocation long ago and are not up: else nobody would ask for it again.

        Those that are still to be forked have done nothing wrong: their parent may be busy with its imports. Nor have
        those whose start-up is imitated; and who is up has only been asked for twice, unless it is stopped.
        """
        for invocation in asked_again:
            number = self._pool.running_as(invocation)
            if number is None:
                continue
            worker = self._workers[number]
            is_up = worker.started_s is not None and not is_stopped(worker.pid)
            if worker.pid and not is_up and self._loop.time() - worker.due_s > _STUCK_S:
                self._kill(number)

    def _end_replaced(self, successor: Invocation) -> None:
        """End an invocation whose place another one has, if it does not end by itself: it may be frozen."""
        for start in self._pool.older_than(successor):
            self._end(start)
        self._dispatch()

    def prewarm(self, resources: Resources, count: int) -> None:
        """Have this many workers waiting; a fresh one waits once it has taken as long as a cold start takes."""
        for number in self._pool.prewarm(resources, count):
            if not self._make_worker(number, resources):
                continue
            delay_s = self._start_delay_s(cold=True)
            if delay_s > 0:
                self._workers[number].timer = self._loop.call_later(delay_s, self._warmed, number, resources)
            else:
                self._warmed(number, resources)

    async def status_of(self, run_id: str) -> str:
        """Where a run stands, as the workers here see it."""
        return await self._messenger.status_of(run_id)

    async def cancel_runs(self, run_ids: Collection[str]) -> None:
        """End runs whose client is gone; their workers end though storage cannot be told."""
        await self._messenger.cancel(run_ids, _CANCEL_S)
        for run_id in run_ids:
            self.stop(run_id)

    async def linger(self, linger_s: float, most_s: float) -> None:
        """Stay for as long as the detached runs need, and then for as long as their results are kept."""
        await self._messenger.linger(self._pool.detached(), linger_s, most_s)

    def sweep_now_and_then(self) -> None:
        """From now on, remove the objects of runs that are gone."""
        self._messenger.sweep_now_and_then()

    def runs(self) -> tuple[set[str], set[str]]:
        """The runs that end with the client, and those that are detached, as far as they are remembered."""
        return self._pool.runs()

    def stop(self, run_id: str) -> tuple[int, int]:
        """Drop what a run has queued and kill its workers; returns how many of each."""
        dropped, killed = self._pool.drop_run(run_id)
        for start in killed:
            self._end(start)
        self._dispatch()
        return dropped, len(killed)

    def _end(self, start: Start) -> None:
        """Kill a worker that the pool has forgotten; on purpose, so that it is no loss."""
        worker = self._workers[start.worker]
        if worker.started_s is not None:
            self._messenger.tell(self._inquest.loss(start, worker, LossKind.STOPPED))
        worker.cancel_timer()
        self._kill(start.worker)

    def counts(self) -> Counts:
        """What happens now and happened so far."""
        return Counts(
            running=self._pool.running,
            queued=self._pool.queued,
            idle=self._pool.idle,
            lost=self._messenger.lost,
            refused=self._refused,
            notes=self._groups.notes,
            broken=self.broken,
            **msgspec.structs.asdict(self._pool.counters),
        )

    def close(self) -> None:
        """End all workers and the pre-loaded parent, and wait until they are gone."""
        for timer in (self._expiry, self._inspection):
            if timer is not None:
                timer.cancel()
        for worker in self._workers.values():
            worker.cancel_timer()
            worker.link.close()
        self._zygote.close()
        self._reap_zygote()
        self._messenger.close()

    def _dispatch(self) -> None:
        while not self._held and (start := self._pool.start_next()) is not None:
            if start.cold and not self._make_worker(start.worker, start.job.invocation.resources):
                continue
            delay_s = self._start_delay_s(start.cold)
            worker = self._workers[start.worker]
            worker.started_s = None
            worker.due_s = math.inf
            run = Run(start.job.invocation, start.cold, start.job.received_s, time.time())
            if delay_s > 0:
                worker.timer = self._loop.call_later(delay_s, self._run, start.worker, run)
            else:
                self._run(start.worker, run)
        self._arm_inspection()

    def _arm_inspection(self) -> None:
        if self._inspection is None and (self._pool.running or self._doomed):
            self._inspection = self._loop.call_later(_INSPECT_S, self._inspect)

    def _inspect(self) -> None:
        """Look for tasks that are late and deaf: they may hold the interpreter, so that their worker cannot act."""
        self._inspection = None
        now_s = time.monotonic()
        computing = []
        for number, worker in self._workers.items():
            start = self._pool.busy_with(number)
            if start is None:
                continue
            found = self._inquest.found(number)
            late = found.overdue(now_s, _DEAF_S)
            if late is not None and not is_stopped(worker.pid):  # else its lease runs out
                self._end_overdue(number, worker, late)
            elif found.tasks and now_s - found.tasks[0].since_s > VOUCH_S and worker.has_computed():
                computing.append(start.job.invocation)
        if computing:
            self._messenger.vouch(computing, now_s)
        self._watch_zygote()
        self._dispatch()

    def _watch_zygote(self) -> None:
        """Kill a pre-loaded parent that does nothing any more; that it is gone is then noticed as always."""
        if not self._zygote_pid:
            return
        asked_s = min((worker.asked_s for worker in self._workers.values() if not worker.pid), default=math.inf)
        fault = self._parents.fault(self._loop.time(), asked_s, is_stopped(self._zygote_pid))
        if fault:
            logger.error("the pre-loaded parent %s, and is killed", fault)
            os.kill(self._zygote_pid, signal.SIGKILL)

    def _end_overdue(self, number: int, worker: Tended, late: RunningTask) -> None:
        """Kill a worker for a task of its; the run is told at once."""
        start = self._pool.lose(number)
        if start is not None:
            reason = f"was killed{worker.after} for a task that was late and deaf"
            loss = self._inquest.loss(start, worker, LossKind.TIMEOUT, reason)
            self._messenger.tell(msgspec.structs.replace(loss, tasks=(late,)))
            self._kill(number)

    def _kill(self, number: int) -> None:
        """Have a worker killed, and see to it that there is somebody who does it."""
        self._zygote.kill(number)
        self._doomed.add(number)
        self._arm_inspection()

    def _run(self, number: int, run: Run) -> None:
        worker, limit_s = self._workers[number], self._settings.time_limit_s
        worker.timer = None
        if limit_s:
            run = msgspec.structs.replace(run, deadline_s=time.time() + limit_s)
            worker.timer = self._loop.call_later(limit_s, self._end_overtime, number)
        worker.due_s = self._loop.time()
        worker.link.send(run)

    def _end_overtime(self, number: int) -> None:
        """An invocation has taken as long as one may take."""
        self._workers[number].timer = None
        self._workers[number].overtime = True
        self._kill(number)

    def _make_worker(self, number: int, resources: Resources) -> bool:
        """Have a worker forked; does not wait for it. False if the system lets us have no socket for it."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            self._lose(number, LossKind.START, f"could not be started: {error.strerror}")
            return False
        link = WorkerLink(ours, lambda message: self._on_worker(number, message))
        self._workers[number] = Tended(link, asked_s=self._loop.time())
        self._zygote.fork(number, theirs)
        link.send(
            Setup(
                storage=self._storage,
                gateway_url=self.gateway_url,
                token=self._settings.token,
                keys=self._settings.keys,
                emulation=self._settings.emulation,
                groups=self._groups.entries(number, resources),
                memory_group=self._groups.memory_group(number),
                data_limit_mb=max(resources.memory_mb, FLOOR_MB) if self._groups.limits_data else 0,
                black_box=self._inquest.black_box(number),
            )
        )
        return True

    def _on_worker(self, number: int, message: FromWorker) -> None:
        worker = self._workers[number]
        if isinstance(message, Started):
            worker.started_s = time.monotonic()
        elif isinstance(message, Done):
            self._refused += message.refused
            worker.cancel_timer()
            # One that was done at the very last moment dies all the same.
            spent = message.spent or worker.overtime
            self._retire(self._pool.finish(number, self._loop.time(), spent=spent))
            if spent:
                self._kill(number)  # what goes on in it may hold the interpreter: it would not see that it is to end
            self._dispatch()
            self._watch_expiry()
        elif isinstance(message, Raised):
            start = self._pool.lose(number)
            if start is not None:
                reason = f"failed{worker.after}: {message.reason}"
                self._messenger.tell(self._inquest.loss(start, worker, LossKind.ERROR, reason))
            self._retire([number])
            self._kill(number)
            self._dispatch()

    def _on_zygote(self, message: FromParent) -> None:
        self._parents.hear(self._loop.time())
        if isinstance(message, Exited):
            self._on_exit(message)
        elif isinstance(message, Forked):
            self._not_started = 0
            worker = self._workers[message.worker]
            worker.pid = message.pid
            if worker.due_s < math.inf:
                worker.due_s = self._loop.time()
        elif isinstance(message, Refused):
            self._lose(message.worker, LossKind.START, f"could not be started: {message.reason}")
            self._dispatch()
        elif isinstance(message, ParentReady):
            self._parents.note_ready(self._loop.time())
            if not self.ready.done():
                self.ready.set_result(None)
        elif isinstance(message, ParentBroken):
            self.broken = message.reason

    def _on_exit(self, exited: Exited) -> None:
        number, worker = exited.worker, self._workers[exited.worker]
        worker.link.drain()  # what it said before it died counts
        self._lose(number, *self._inquest.cause(worker, exited))
        self._inquest.forget(number)
        self._dispatch()

    def _lose(self, number: int, kind: LossKind, reason: str) -> None:
        """A worker does not exist any more, or never did: free its slot, and see what it took with it."""
        worker = self._workers.pop(number, None)
        self._doomed.discard(number)
        start = self._pool.lose(number)
        if worker is not None:
            worker.link.close()
            worker.cancel_timer()
        if start is not None:
            if worker is not None and worker.started_s is None and not start.cold:
                self._pool.requeue(start.job)
                return
            loss = self._inquest.loss(start, worker, kind, reason)
            self._loop.call_later(self._pause_s(kind), self._messenger.tell, loss)

    def _pause_s(self, kind: LossKind) -> float:
        """How long to wait before a run is told of a loss: if workers cannot be started, the system has to recover."""
        if kind is not LossKind.START:
            return 0.0
        self._not_started += 1
        # Some power makes the longest pause; a far higher one would be no number any more.
        return min(_LONGEST_PAUSE_S, _PAUSE_S * 2.0 ** min(self._not_started, 30))

    def _on_zygote_end(self) -> None:
        """The pre-loaded parent is gone, and all workers with it: start another one, and tell the runs."""
        status = self._reap_zygote([worker.pid for worker in self._workers.values() if worker.pid])
        what = self.broken or f"the platform's pre-loaded parent process {describe_exit(status)}"
        if self.ready.done():
            logger.error("%s", what)
        if not self._replace_zygote():
            self._break(what)
            return
        self._held = True  # nothing is to be started on those that are gone
        for worker in self._workers.values():
            worker.link.drain()  # what they said before they died counts
        self._held = False
        for start in self._pool.drop_workers():
            worker = self._workers[start.worker]
            if worker.started_s is None:
                self._pool.requeue(start.job)  # nothing of it happened
            else:
                self._messenger.tell(self._inquest.loss(start, worker, LossKind.CRASH, f"died because {what}"))
        self._forget_workers()
        self._dispatch()

    def _replace_zygote(self) -> bool:
        """Start another pre-loaded parent; false if that makes no sense, or does not work."""
        if self.broken or not self.ready.done() or not self._parents.replace(self._loop.time()):
            return False
        try:
            self._zygote_pid, control = spawn_zygote(self._settings)
        except OSError:
            logger.exception("no other pre-loaded parent can be started")
            return False
        self._zygote = ZygoteLink(control, self._on_zygote, self._on_zygote_end)
        return True

    def _break(self, what: str) -> None:
        """Without a pre-loaded parent the platform is at its end, but its client and its runs must be told so."""
        self.broken = what
        self.on_break(what)  # first: who hears that a run failed may start the next one at once
        if not self.ready.done():
            self.ready.set_result(None)
        queued, running = self._pool.drop_all()
        for start in running:
            worker = self._workers.get(start.worker)
            self._messenger.tell(self._inquest.loss(start, worker, LossKind.PLATFORM, f"died because {what}"))
        for job in queued:
            self._messenger.tell(never_ran(job, f"was not started because {what}"))
        self._forget_workers()

    def _forget_workers(self) -> None:
        for number, worker in self._workers.items():
            worker.link.close()
            worker.cancel_timer()
            self._inquest.forget(number)
        self._workers.clear()
        self._doomed.clear()

    def _reap_zygote(self, orphans: Sequence[int] = ()) -> int:
        """Wait for the pre-loaded parent, whose socket is closed, and end what it could not end itself."""
        if not self._zygote_pid:
            return 0
        with suppress(ProcessLookupError):
            os.kill(self._zygote_pid, signal.SIGCONT)  # while it is stopped it does not see that
        _, status = os.waitpid(self._zygote_pid, 0)
        self._zygote_pid = 0
        end_children(known=orphans, spare=self._spared)
        return status

    def _retire(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._workers[number].link.close()

    def _warmed(self, number: int, resources: Resources) -> None:
        if number in self._workers:
            self._workers[number].timer = None
            self._retire(self._pool.warmed(number, resources, self._loop.time()))
            self._watch_expiry()

    def _watch_expiry(self) -> None:
        expiry_s = self._pool.next_expiry_s()
        if self._expiry is None and expiry_s is not None:
            self._expiry = self._loop.call_at(expiry_s, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self._retire(self._pool.expire(self._loop.time()))
        self._watch_expiry()

    def _start_delay_s(self, cold: bool) -> float:
        emulation = self._settings.emulation
        return emulation.start_delay_s(cold, self._rng) if emulation is not None else 0.0
