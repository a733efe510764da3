"""What can be seen of a run while it goes on: events, and the report at its end.

The client tells its observers; it does not know who they are. A progress bar, a dashboard or a test is an
object with one method, `on_event`, and is given to `Client(observers=…)`.

    RunStarted ──▶ RunProgressed* , TaskPrinted* ──▶ RunFinished

Time comes with the events (`elapsed_s`): an observer that decides by it needs no clock and is tested with
events alone.
"""

import math
from typing import NamedTuple, Protocol

import msgspec

from augury.wording import aligned, amount, count, dollars, duration, percent, plain, seconds, signed, size

_MOST_SHOWN = 20
_MATTERS, _MATTERS_S = 0.1, 0.1
"""From which share of a run on, and from how long on, it is told how long it took to prepare."""


class Pair(NamedTuple):
    """What was predicted, and what came of it."""

    predicted: float
    actual: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A run beside its plan: what was predicted and what was measured. `print` it to see where they differ most.

    Columns hold the tasks that workers measured: not each one of very many short ones is.

    Attributes:
        makespan_s: From the moment the platform was asked for the first workers to the result; None if nothing was
            predicted, or the run has no result. Likewise `gb_seconds` and `cost_usd`.
        sla: Which run the prediction speaks of: `median`, `average`, or a percentile such as `p95`.
        sla_held: Whether the run took no longer than predicted.
        task: The tasks, ascending.
        label: How they are called.
        predicted_s: How long each was expected to run; `actual_s`: how long it did.
        predicted_start_s: When it was expected to begin; `actual_start_s`: when it did, by the clock of its worker.
    """

    makespan_s: Pair | None = None
    gb_seconds: Pair | None = None
    cost_usd: Pair | None = None
    sla: str | None = None
    sla_held: bool | None = None
    task: tuple[int, ...] = ()
    label: tuple[str, ...] = ()
    predicted_s: tuple[float, ...] = ()
    actual_s: tuple[float, ...] = ()
    predicted_start_s: tuple[float, ...] = ()
    actual_start_s: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.task)

    def __bool__(self) -> bool:
        return self.makespan_s is not None or bool(self.task)

    def __repr__(self) -> str:
        return f"<comparison of {count(len(self), 'task')}>"

    def __rich_repr__(self) -> list[tuple[str, int]]:
        return [("tasks", len(self))]  # msgspec's own shows every column

    def __str__(self) -> str:
        if not self:
            return "nothing to compare: the run has no prediction, or no result and no task that was measured"
        lines = ["", *self._tasks()] if self.task else []
        return "\n".join([*self._totals(), *lines]).lstrip("\n")

    def _totals(self) -> list[str]:
        told = (
            ("makespan", self.makespan_s, duration),
            ("GB-s", self.gb_seconds, amount),
            ("cost", self.cost_usd, dollars),
        )
        rows = [
            (name, say(pair.predicted), say(pair.actual), percent(pair.actual, pair.predicted))
            for name, pair, say in told
            if pair is not None
        ]
        lines = aligned([("", "predicted", "actual", ""), *rows], left=(0,)) if rows else []
        if _is_percentile(self.sla) and self.makespan_s is not None:
            held = "held" if self.sla_held else "not held"
            lines.append(f"  SLA {self.sla}: at most {duration(self.makespan_s.predicted)}; {held}")
        return lines

    def _tasks(self) -> list[str]:
        deviation_s = [actual - predicted for actual, predicted in zip(self.actual_s, self.predicted_s, strict=True)]
        places = sorted(range(len(self)), key=lambda place: -_magnitude(deviation_s[place]))
        rows = [
            (
                plain(self.label[place]),
                duration(self.predicted_s[place]),
                duration(self.actual_s[place]),
                signed(deviation_s[place], duration(abs(deviation_s[place]))),
                _moment(self.predicted_start_s[place]),
                _moment(self.actual_start_s[place]),
            )
            for place in places[:_MOST_SHOWN]
        ]
        head = ("task", "predicted", "actual", "deviation", "predicted start", "actual start")
        more = len(self) - len(rows)
        return [*aligned([head, *rows], left=(0,)), *([f"  … and {more:,} more"] if more else [])]


def _is_percentile(sla: str | None) -> bool:
    """Whether an SLA was chosen: half of all runs take longer than their median, and nobody is told."""
    return sla is not None and sla.startswith("p")


def _magnitude(number: float) -> float:
    return abs(number) if math.isfinite(number) else math.inf


def _moment(time_s: float) -> str:
    return signed(time_s, duration(-time_s)) if time_s < 0 else duration(time_s)


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run took: counted at its end from what its workers told.

    Attributes:
        run_id: The run.
        name: The workflow's name.
        status: How it ended: `succeeded`, `failed` or `cancelled`.
        tasks: How many tasks the workflow has.
        ran: How many tasks ran to their end, as far as workers told; after a success more if some ran again.
        recalled: How many of these were not called, because an earlier run had kept their output: `@task(cache=True)`.
        workers: How many workers took part.
        invocations: How many FaaS calls embodied them; more than `workers` if some were started again.
        cold_starts: How many of these needed a new environment.
        makespan_s: From submission to the result.
        gb_seconds: Memory times billed duration, summed over invocations, with 1 GB = 1024 MB as platforms bill it.
            Cold starts are in it where the platform bills them and workers measured them; pre-warming is not.
        stored_bytes: How much workers wrote to storage; `fetched_bytes`: how much they read.
        prepared_s: How much of the makespan passed before the platform was asked for the first workers: building the
            workflow, planning, opening the platform, uploading.
        cost_usd: What invocations and GB-seconds cost, at the price of the platform that the plan was made for; by
            default AWS Lambda's.
        predicted_s: What the plan predicted for the time after `prepared_s`; None if it predicted nothing. Likewise
            `predicted_gb_seconds` and `predicted_usd`.
        evidence: How many measurements of its functions that rests on; None if that is not known.
        sla: Which run the prediction speaks of: `median`, `average`, or a percentile such as `p95`.
        sla_held: Whether a run that succeeded took no longer than predicted.
        comparison: All of this side by side, and task by task.

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
    prepared_s: float = 0.0
    cost_usd: float = 0.0
    predicted_s: float | None = None
    predicted_gb_seconds: float | None = None
    predicted_usd: float | None = None
    evidence: int | None = None
    sla: str | None = None
    sla_held: bool | None = None
    comparison: Comparison = Comparison()
    recalled: int = 0

    def __str__(self) -> str:
        kept = f" ({self.recalled:,} from the cache)" if self.recalled else ""
        again = f" ({count(self.invocations, 'invocation')})" if self.invocations > self.workers else ""
        part = "" if self.status == "succeeded" else f"{self.ran:,} of "
        return (
            f"{part}{count(self.tasks, 'task')}{kept} on {count(self.workers, 'worker')}{again} "
            f"in {seconds(self.makespan_s)}{self._prediction()}, {count(self.cold_starts, 'cold start')}, "
            f"{amount(self.gb_seconds)} GB-s, {size(self.stored_bytes)} stored"
        )

    def _prediction(self) -> str:
        """How the makespan compares with the predicted one, which does not know of preparations."""
        if self.predicted_s is None or self.status != "succeeded":
            return ""
        matters = self.prepared_s >= max(_MATTERS_S, _MATTERS * self.makespan_s)
        first = f"{seconds(self.prepared_s)} to prepare, " if matters else ""
        promised = f" at {self.sla}, {'held' if self.sla_held else 'not held'}" if _is_percentile(self.sla) else ""
        word = "predicted" if self.evidence != 0 else "assumed"
        return f" ({first}{word} {seconds(self.predicted_s)}{promised})"


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
