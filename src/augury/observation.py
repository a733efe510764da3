"""What can be seen of a run while it goes on: events, and the report at its end.

The client tells its observers; it does not know who they are. A progress bar, a dashboard or a test is an
object with one method, `on_event`, and is given to `Client(observers=…)`.

    RunStarted ──▶ RunProgressed* , TaskPrinted* ──▶ RunFinished

Time comes with the events (`elapsed_s`): an observer that decides by it needs no clock and is tested with
events alone.
"""

from typing import Protocol

import msgspec

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run took: counted at its end from what its workers told.

    Attributes:
        run_id: The run.
        name: The workflow's name.
        status: How it ended: `succeeded`, `failed` or `cancelled`.
        tasks: How many tasks the workflow has.
        ran: How many tasks ran to their end, as far as workers told; after a success more if some ran again.
        workers: How many workers took part.
        invocations: How many FaaS calls embodied them; more than `workers` if some were started again.
        cold_starts: How many of these needed a new environment.
        makespan_s: From submission to the result.
        gb_seconds: Memory times duration, summed over invocations, with 1 GB = 1024 MB as platforms bill it.
        stored_bytes: How much workers wrote to storage; `fetched_bytes`: how much they read.

    Example:
        >>> print(RunReport(run_id="r1", name="daily", status="succeeded", tasks=9, ran=9, workers=2,
        ...                 invocations=2, cold_starts=1, makespan_s=0.31, gb_seconds=0.16, stored_bytes=1200))
        9 tasks on 2 workers in 0.31 s, 1 cold start, 0.16 GB-s, 1.2 kB stored
    """

    run_id: str
    name: str
    status: str
    tasks: int
    ran: int
    workers: int
    invocations: int
    cold_starts: int
    makespan_s: float
    gb_seconds: float
    stored_bytes: int
    fetched_bytes: int = 0

    def __str__(self) -> str:
        again = f" ({count(self.invocations, 'invocation')})" if self.invocations > self.workers else ""
        part = "" if self.status == "succeeded" else f"{self.ran:,} of "
        return (
            f"{part}{count(self.tasks, 'task')} on {count(self.workers, 'worker')}{again} "
            f"in {seconds(self.makespan_s)}, {count(self.cold_starts, 'cold start')}, {amount(self.gb_seconds)} GB-s, "
            f"{size(self.stored_bytes)} stored"
        )


class RunEvent(msgspec.Struct, frozen=True):
    """Something that an observer may want to know of a run."""

    run_id: str


class RunStarted(RunEvent, frozen=True):
    """A run was submitted; its first workers are being started."""

    name: str
    tasks: int


class RunProgressed(RunEvent, frozen=True):
    """How far a run is; sent several times a second while the client waits, whether or not it moved.

    Attributes:
        ran: Tasks that ran so far.
        invocations: Workers started so far; one that was started twice counts twice.
        starting: How many of these have not come up yet.
        elapsed_s: Since the run was submitted.
    """

    ran: int
    invocations: int
    starting: int
    elapsed_s: float


class TaskPrinted(RunEvent, frozen=True):
    """A task wrote to its standard output or error.

    Attributes:
        label: The task, such as `load[3]`.
        stream: `stdout` or `stderr`.
        text: What it wrote: any number of lines, the last one perhaps unfinished.
    """

    label: str
    stream: str
    text: str


class RunFinished(RunEvent, frozen=True):
    """A run is over, one way or another."""

    status: str
    report: RunReport


class Observer(Protocol):
    """What wants to know of runs. One observer may be told of several runs at once, from several threads.

    Example:
        >>> class Counter:
        ...     def on_event(self, event: RunEvent) -> None:
        ...         if isinstance(event, RunFinished):
        ...             print(event.report.tasks)
    """

    def on_event(self, event: RunEvent) -> None:
        """Take note of an event; returns quickly, since the client waits for it."""
        ...


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 task`, `2 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def seconds(duration_s: float) -> str:
    """A duration for people, with as many digits as matter: `0.31 s`, `12.4 s`, `3 min 05 s`."""
    if duration_s < 9.995:
        return f"{duration_s:.2f} s"
    if duration_s < 59.95:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def amount(number: float) -> str:
    """A quantity for people, with two digits that matter: `12`, `3.4`, `0.16`, `0.0034`."""
    if 0 < number < 0.001:
        return "under 0.001"
    return f"{number:.2g}" if number < 10 else f"{number:,.0f}"


def size(size_bytes: float) -> str:
    """A size for people, in powers of 1000: `512 B`, `1.2 kB`, `64 MB`."""
    unit = 0
    while size_bytes >= 999.5 and unit < len(_UNITS) - 1:
        size_bytes /= 1000
        unit += 1
    return f"{size_bytes:.1f} {_UNITS[unit]}" if unit and size_bytes < 9.95 else f"{size_bytes:.0f} {_UNITS[unit]}"
