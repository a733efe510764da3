"""What a simulation says of a run: when every task and every worker does what, and what it all costs.

The life of a task, as columns of `Timeline`:

    ready_s ──(queue)──▶ start_s ──(download)──▶ execute_s ──(execute)──▶ executed_s ──(upload, report)──▶ end_s

Columns rather than a value per task: there may be 100,000 of them, and planners make thousands of simulations.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from augury.config import Resources


class TaskTimes(NamedTuple):
    """When one task does what, in seconds since the run was submitted.

    Attributes:
        worker: The worker that runs it: an index into `Simulation.workers`.
        ready_s: Its worker knows that all its inputs exist.
        start_s: It is its turn: its missing inputs are being fetched.
        execute_s: Its function is called.
        executed_s: Its function has returned.
        end_s: Its completion is known to whoever else waits for it; as `executed_s` if nobody does.
    """

    worker: int
    ready_s: float
    start_s: float
    execute_s: float
    executed_s: float
    end_s: float


class Timeline(msgspec.Struct, frozen=True):
    """`TaskTimes` of every task, as columns."""

    worker: Sequence[int]
    ready_s: Sequence[float]
    start_s: Sequence[float]
    execute_s: Sequence[float]
    executed_s: Sequence[float]
    end_s: Sequence[float]

    def __len__(self) -> int:
        return len(self.worker)

    def __getitem__(self, task: int) -> TaskTimes:
        return TaskTimes(
            self.worker[task],
            self.ready_s[task],
            self.start_s[task],
            self.execute_s[task],
            self.executed_s[task],
            self.end_s[task],
        )


class WorkerTimes(msgspec.Struct, frozen=True):
    """One invocation of a worker.

    Attributes:
        name: The worker, as reports call it: `w3`, or `t17` for a flexible one that began with task 17.
        resources: What it has.
        cold: Whether a new environment is made for it.
        asked_s: When it is asked for.
        granted_s: When it gets a slot.
        start_s: When its environment is up.
        end_s: When it leaves.
        busy_s: How long it executes tasks, summed over its slots.
        idle_s: How long it executes none.
        billed_s: How long it is paid for.
        tasks: How many tasks it runs.
        fetched_bytes: What it reads from storage.
        stored_bytes: What it writes to storage.
    """

    name: str
    resources: Resources
    cold: bool
    asked_s: float
    granted_s: float
    start_s: float
    end_s: float
    busy_s: float
    idle_s: float
    billed_s: float
    tasks: int
    fetched_bytes: float
    stored_bytes: float


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is expected to go.

    Attributes:
        makespan_s: From submission until the last output that was asked for is known.
        gb_seconds: Memory times billed duration, summed over invocations and pre-warming, in GiB-seconds.
        requests: Invocations, pre-warming ones included.
        cost_usd: What it costs.
        moved_bytes: What workers read from storage and write to it.
        cold_starts: How many invocations find no warm environment.
        critical_path: The tasks that decide when the run ends, from first to last: each waits for the one before it,
            for its output or for its place.
        timeline: When each task does what.
        workers: When each worker does what, in the order in which they were asked for.
        duplicated: The tasks that waiting workers run too.
    """

    makespan_s: float
    gb_seconds: float
    requests: int
    cost_usd: float
    moved_bytes: float
    cold_starts: int
    critical_path: tuple[int, ...]
    timeline: Timeline
    workers: tuple[WorkerTimes, ...]
    duplicated: tuple[int, ...] = ()
