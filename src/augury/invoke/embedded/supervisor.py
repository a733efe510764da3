"""The supervisor: carries out what the pool decides, and notices what happens to workers.

It runs in one thread, on an event loop, and never blocks: forks are requested and not awaited, and an invocation is
written into the socket of its worker before that worker exists, so that a cold start is one request and one
fork long. Who told what, in the life of one invocation:

    HTTP          supervisor                 pre-loaded parent        worker
      │ invoke ─────▶ │ fork, with a socket ──────▶ │ fork ─────────────▶ │
      │ ◀──────── 202 │ Setup, Run ─────────────────┼───────────────────▶ │ handler
      │               │ ◀───────────────────────────┼─── Started, Done    │
      │               │ ◀── Exited (reaped) ────────┤ ◀─── dies ──────────┘

A worker that ends before `Done` takes its invocation with it, and the run is told. Only if the worker was warm
and had not yet said `Started` does the invocation go back to the head of the queue: nothing of it happened.
"""

import asyncio
import importlib
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import msgspec

from augury.config import Resources, StorageConfig
from augury.invoke.embedded.cgroups import FLOOR_MB, Groups
from augury.invoke.embedded.links import WorkerLink, ZygoteLink
from augury.invoke.embedded.pool import Job, Loss, Pool, Start
from augury.invoke.embedded.processes import children, describe_exit, end_children
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
from augury.invoke.gateway import Invocation

logger = logging.getLogger(__name__)


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
    notes: tuple[str, ...]
    broken: str


class _Worker(msgspec.Struct):
    """A worker process as the supervisor sees it."""

    link: WorkerLink
    pid: int = 0
    started_s: float | None = None
    timer: asyncio.TimerHandle | None = None


class Supervisor:
    """Runs invocations on forked workers; lives on the event loop that is running when it is made.

    Args:
        settings: What the user chose.
        storage: Where runs keep their data.
        groups: Where workers are limited.
        zygote: The process id of the pre-loaded parent.
        control: The socket to it.
    """

    def __init__(
        self, settings: Settings, storage: StorageConfig, groups: Groups, zygote: int, control: socket.socket
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._groups = groups
        self._zygote_pid = zygote
        self._spared = children() - {zygote}
        self._loop = asyncio.get_running_loop()
        self._pool = Pool(settings.slots, settings.keep_alive_s, settings.max_idle)
        self._workers: dict[int, _Worker] = {}
        self._rng = Random(settings.emulation.seed if settings.emulation else 0)  # noqa: S311 - imitates, protects nothing
        self._expiry: asyncio.TimerHandle | None = None
        self._lost = 0
        self._untold: list[Loss] = []
        self._teller = ThreadPoolExecutor(max_workers=1, thread_name_prefix="losses")
        self._zygote = ZygoteLink(control, self._on_zygote, self._on_zygote_end)
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.broken = ""
        self.gateway_url = ""

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        """Take invocations; start what can be started."""
        self._pool.submit(invocations, time.time())
        self._dispatch()

    def prewarm(self, resources: Resources, count: int) -> None:
        """Have this many workers waiting; a fresh one waits once it has taken as long as a cold start takes."""
        for number in self._pool.prewarm(resources, count):
            if not self._make_worker(number, resources):
                return
            delay_s = self._start_delay_s(cold=True)
            if delay_s > 0:
                self._workers[number].timer = self._loop.call_later(delay_s, self._warmed, number, resources)
            else:
                self._warmed(number, resources)

    async def status_of(self, run_id: str) -> str:
        """Where a run stands, as the workers here see it."""
        return await self._loop.run_in_executor(self._teller, _status_of, run_id, self._storage)

    def stop(self, run_id: str) -> tuple[int, int]:
        """Drop what a run has queued and kill its workers; returns how many of each."""
        dropped, killed = self._pool.drop_run(run_id)
        for start in killed:
            worker = self._workers[start.worker]
            if worker.started_s is not None:
                self._tell(self._loss(start, worker, reason=""))
            self._cancel_timer(worker)
            self._zygote.kill(start.worker)
        self._dispatch()
        return dropped, len(killed)

    def counts(self) -> Counts:
        """What happens now and happened so far."""
        return Counts(
            running=self._pool.running,
            queued=self._pool.queued,
            idle=self._pool.idle,
            lost=self._lost,
            notes=self._groups.notes,
            broken=self.broken,
            **msgspec.structs.asdict(self._pool.counters),
        )

    def close(self) -> None:
        """End all workers and the pre-loaded parent, and wait until they are gone."""
        if self._expiry is not None:
            self._expiry.cancel()
        for worker in self._workers.values():
            self._cancel_timer(worker)
            worker.link.close()
        self._zygote.close()
        self._reap_zygote()
        self._teller.shutdown(wait=False, cancel_futures=True)

    def _dispatch(self) -> None:
        while (start := self._pool.start_next()) is not None:
            if start.cold and not self._make_worker(start.worker, start.job.invocation.resources):
                continue
            delay_s = self._start_delay_s(start.cold)
            worker = self._workers[start.worker]
            worker.started_s = None
            run = Run(start.job.invocation, start.cold, start.job.received_s, time.time())
            if delay_s > 0:
                worker.timer = self._loop.call_later(delay_s, self._run, worker, run)
            else:
                self._run(worker, run)

    def _run(self, worker: _Worker, run: Run) -> None:
        worker.timer = None
        worker.link.send(run)

    def _make_worker(self, number: int, resources: Resources) -> bool:
        """Have a worker forked; does not wait for it. False if the system lets us have no socket for it."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            self._lose(number, f"could not be started: {error.strerror}")
            return False
        link = WorkerLink(ours, lambda message: self._on_worker(number, message))
        self._workers[number] = _Worker(link)
        self._zygote.fork(number, theirs)
        link.send(
            Setup(
                storage=self._storage,
                gateway_url=self.gateway_url,
                token=self._settings.token,
                emulation=self._settings.emulation,
                groups=self._groups.entries(number, resources),
                memory_group=self._groups.memory_group(number),
                data_limit_mb=max(resources.memory_mb, FLOOR_MB) if self._groups.limits_data else 0,
            )
        )
        return True

    def _on_worker(self, number: int, message: FromWorker) -> None:
        worker = self._workers[number]
        if isinstance(message, Started):
            worker.started_s = self._loop.time()
        elif isinstance(message, Done):
            self._retire(self._pool.finish(number, self._loop.time()))
            self._dispatch()
            self._watch_expiry()
        elif isinstance(message, Raised):
            start = self._pool.lose(number)
            if start is not None:
                self._tell(self._loss(start, worker, f"failed{_after(self._ran_s(worker))}: {message.reason}"))
            self._retire([number])
            self._dispatch()

    def _on_zygote(self, message: FromParent) -> None:
        if isinstance(message, Exited):
            self._on_exit(message.worker, message.status)
        elif isinstance(message, Forked):
            self._workers[message.worker].pid = message.pid
        elif isinstance(message, Refused):
            self._on_gone(message.worker, f"could not be started: {message.reason}")
        elif isinstance(message, ParentReady):
            self.ready.set_result(None)
        elif isinstance(message, ParentBroken):
            self.broken = message.reason

    def _on_exit(self, number: int, status: int) -> None:
        worker = self._workers[number]
        worker.link.drain()  # what it said before it died counts
        reason = describe_exit(status) + _after(self._ran_s(worker))
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if killed and self._groups.out_of_memory(number):
            start = self._pool.busy_with(number)
            limit_mb = max(start.job.invocation.resources.memory_mb, FLOOR_MB) if start else 0
            reason = f"ran out of memory{_after(self._ran_s(worker))}: its limit is {limit_mb} MB"
        self._groups.remove(number)
        self._on_gone(number, reason)

    def _on_gone(self, number: int, reason: str) -> None:
        self._lose(number, reason)
        self._dispatch()

    def _lose(self, number: int, reason: str) -> None:
        """A worker does not exist any more, or never did: free its slot, and see what it took with it."""
        worker = self._workers.pop(number, None)
        start = self._pool.lose(number)
        if worker is not None:
            worker.link.close()
            self._cancel_timer(worker)
        if start is not None:
            if worker is not None and worker.started_s is None and not start.cold:
                self._pool.requeue(start.job)
            else:
                self._tell(self._loss(start, worker, reason))

    def _on_zygote_end(self) -> None:
        """Without its pre-loaded parent the platform is at its end, but its runs must be told so."""
        status = self._reap_zygote([worker.pid for worker in self._workers.values() if worker.pid])
        what = self.broken or f"the platform's pre-loaded parent process {describe_exit(status)}"
        self.broken = what
        if self.ready.done():
            logger.error("%s", what)
        if not self.ready.done():
            self.ready.set_result(None)
        queued, running = self._pool.drop_all()
        for start in running:
            self._tell(self._loss(start, self._workers.get(start.worker), f"died because {what}"))
        for job in queued:
            self._tell(_never_ran(job, f"was not started because {what}"))
        for number, worker in self._workers.items():
            worker.link.close()
            self._cancel_timer(worker)
            self._groups.remove(number)
        self._workers.clear()

    def _reap_zygote(self, orphans: Sequence[int] = ()) -> int:
        """Wait for the pre-loaded parent, whose socket is closed, and end what it could not end itself."""
        if not self._zygote_pid:
            return 0
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

    def _ran_s(self, worker: _Worker | None) -> float | None:
        return None if worker is None or worker.started_s is None else self._loop.time() - worker.started_s

    def _loss(self, start: Start, worker: _Worker | None, reason: str) -> Loss:
        duration_s = self._ran_s(worker) or 0.0
        return Loss(invocation=start.job.invocation, cold=start.cold, duration_s=duration_s, reason=reason)

    def _tell(self, loss: Loss) -> None:
        """Have the run told of a loss, in another thread; losses of the same moment go together."""
        if loss.reason:
            self._lost += 1
            logger.error("%s of run %s %s", loss.invocation.worker, loss.invocation.run_id, loss.reason)
        if not self._untold:
            self._loop.call_soon(self._tell_all)
        self._untold.append(loss)

    def _tell_all(self) -> None:
        losses, self._untold = self._untold, []
        self._teller.submit(_report_losses, losses, self._storage, self._settings.on_loss)

    def _cancel_timer(self, worker: _Worker) -> None:
        if worker.timer is not None:
            worker.timer.cancel()
            worker.timer = None


def _status_of(run_id: str, storage: StorageConfig) -> str:
    status: str = importlib.import_module("augury.invoke.embedded.losses").status_of(run_id, storage)
    return status


def _report_losses(losses: list[Loss], storage: StorageConfig, on_loss: str) -> None:
    try:
        importlib.import_module("augury.invoke.embedded.losses").report(losses, storage, on_loss)
    except Exception:
        logger.exception("%d losses could not be reported", len(losses))


def _never_ran(job: Job, reason: str) -> Loss:
    return Loss(invocation=job.invocation, cold=True, duration_s=0.0, reason=reason)


def _after(ran_s: float | None) -> str:
    return " before its first instruction" if ran_s is None else f" after {ran_s:.3g} s"
