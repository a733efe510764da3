"""What a worker does, and what became of it: from its black box, its control group and its end."""

import asyncio
import math
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from augury.invoke.blackbox import Found, RunningTask, read_black_box
from augury.invoke.embedded.cgroups import FLOOR_MB, Groups
from augury.invoke.embedded.links import WorkerLink
from augury.invoke.embedded.pool import Job, Start
from augury.invoke.embedded.processes import OUT_OF_MEMORY, cpu_ticks, describe_exit
from augury.invoke.embedded.wire import Exited
from augury.invoke.gateway import Loss, LossKind

_NEARLY_ALL: Final = 0.8
"""A task that had this part of the time that an invocation may take will not be done in any."""


class Tended(msgspec.Struct):
    """A worker process as the supervisor sees it.

    Attributes:
        link: Its socket.
        pid: Its process id, once it is known.
        peak_mb: The most memory that it had, once it is gone.
        overtime: It is ended because its invocation took too long.
        ticks: How much it had computed when that was last asked.
        asked_s: When it was asked for, on the clock of the event loop.
        due_s: Since when it could have begun its invocation, on the same clock: it was told of it, and is there.
        started_s: When its invocation began, on the monotonic clock.
        timer: What is to happen next: it is pre-warmed, its invocation starts, the time of that is up.
    """

    link: WorkerLink
    pid: int = 0
    peak_mb: int = 0
    overtime: bool = False
    ticks: int = 0
    asked_s: float = 0.0
    due_s: float = math.inf
    started_s: float | None = None
    timer: asyncio.TimerHandle | None = None

    def has_computed(self) -> bool:
        """Whether it has done anything since this was last asked: a process that was stopped has not."""
        before, self.ticks = self.ticks, cpu_ticks(self.pid)
        return self.ticks > before > 0

    def cancel_timer(self) -> None:
        """What was to happen next does not."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    @property
    def ran_s(self) -> float | None:
        """How long its invocation has run; None if it has not begun."""
        return None if self.started_s is None else time.monotonic() - self.started_s

    @property
    def after(self) -> str:
        """When something happened to it, in words that follow what it was."""
        return " before its first instruction" if self.ran_s is None else f" after {self.ran_s:.3g} s"


class Inquest:
    """Finds out what workers do, and how they ended.

    Args:
        folder: Where their black boxes are.
        groups: What limits them.
        time_limit_s: How long an invocation may take; 0 is for ever.
    """

    def __init__(self, folder: str, groups: Groups, time_limit_s: float) -> None:
        self._folder = folder
        self._groups = groups
        self._time_limit_s = time_limit_s

    def black_box(self, number: int) -> str:
        """The black box of a worker."""
        return f"{self._folder}/w{number}.box"

    def found(self, number: int) -> Found:
        """What a worker does."""
        return read_black_box(self.black_box(number))

    def forget(self, number: int) -> None:
        """A worker is gone, and everything was asked: remove what it left."""
        self._groups.remove(number)
        with suppress(OSError):
            os.unlink(self.black_box(number))

    def cause(self, worker: Tended, exited: Exited) -> tuple[LossKind, str]:
        """Why a worker is gone, for programs and in words."""
        worker.peak_mb = self._groups.peak_mb(exited.worker) or exited.peak_mb
        if worker.overtime:
            return LossKind.TIME, f"was ended by the platform after {self._time_limit_s:g} s, its time limit"
        if self._ran_out_of_memory(exited.worker, exited.status):
            return LossKind.MEMORY, f"ran out of memory{worker.after}"
        return LossKind.CRASH, describe_exit(exited.status) + worker.after

    def loss(self, start: Start, worker: Tended | None, kind: LossKind, reason: str = "") -> Loss:
        """All that is known of the end of an invocation."""
        invocation = start.job.invocation
        found = self.found(start.worker)
        enforced = self._groups.limits_data or self._groups.memory_group(start.worker)
        return Loss(
            invocation=invocation,
            cold=start.cold,
            duration_s=worker.ran_s or 0.0 if worker is not None else 0.0,
            kind=kind,
            reason=f"{reason} ({found.words})" if found.words else reason,
            tasks=found.tasks,
            used_mb=worker.peak_mb if worker is not None else 0,
            had_mb=max(invocation.resources.memory_mb, FLOOR_MB) if enforced else 0,
            limit_s=self._time_limit_s,
            overlong=self._overlong(found.tasks) if kind is LossKind.TIME else -1,
        )

    def _ran_out_of_memory(self, number: int, status: int) -> bool:
        """Whether the kernel killed a worker because its group was full, or the worker ended for want of memory."""
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return self._groups.out_of_memory(number)
        return os.WIFEXITED(status) and os.WEXITSTATUS(status) == OUT_OF_MEMORY

    def _overlong(self, tasks: Sequence[RunningTask]) -> int:
        """The first task that had nearly all the time that an invocation may take, or -1."""
        since_s = time.monotonic() - _NEARLY_ALL * self._time_limit_s
        return next((one.task for one in tasks if one.since_s <= since_s), -1)


def never_ran(job: Job, reason: str) -> Loss:
    """The loss of an invocation that had no worker yet."""
    return Loss(invocation=job.invocation, cold=True, duration_s=0.0, kind=LossKind.PLATFORM, reason=reason)
