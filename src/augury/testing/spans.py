"""What happened on the virtual platform, as values."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from augury.config import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpan:
    """One execution of a task.

    Attributes:
        task: Which.
        worker: Where; `attempt`: in which invocation of that worker.
        ready_s: When its worker knew that all its inputs exist; of a retry, when the one before it failed.
        start_s: From when.
        end_s: Until when.
        duplicate: Whether the plan gives the task to another worker.
        abandoned: Whether it ran in vain: another worker was faster.
    """

    task: int
    worker: str
    attempt: int
    ready_s: float
    start_s: float
    end_s: float
    duplicate: bool = False
    abandoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationSpan:
    """One invocation of a worker.

    Attributes:
        worker: Which; `attempt`: which start of it.
        resources: What it had.
        cold: Whether a new environment had to be made.
        asked_s: When it was asked for.
        granted_s: When it got a slot.
        start_s: When its environment was up.
        end_s: When it left.
        tasks: The tasks that it ran, in the order in which they ended.
        fetched: The outputs that it fetched, in order.
        stored: The outputs that it wrote as objects, in order.
        offers: How often it offered its slot to workers that could not start.
        suspended: Whether it gave its slot up while it waited.
    """

    worker: str
    attempt: int
    resources: Resources
    cold: bool
    asked_s: float
    granted_s: float
    start_s: float
    end_s: float
    tasks: tuple[int, ...]
    fetched: tuple[int, ...]
    stored: tuple[int, ...]
    offers: int
    suspended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PrewarmSpan:
    """One environment that was made ahead of time.

    Attributes:
        resources: What it has.
        start_s: From when it was made; it held a slot, and is paid for.
        end_s: When it was up, and free.
    """

    resources: Resources
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualRun:
    """How a run went.

    Attributes:
        result: What was asked for: of a workflow, in the shape that was asked for; of a graph, `values`.
        values: The output of every sink.
        makespan_s: From the start until the last sink was known.
        timeline: Every execution of a task, in the order in which they ended.
        invocations: Every invocation, in the order in which they ended.
        prewarms: Every environment that was made ahead of time, in the order in which they were up.
        cold_starts: How many of the invocations found no warm environment.
        max_concurrent: How many slots were taken at once, at most.
        stored: The outputs that were put into shared storage, and their sizes.
        executions: How often each task was executed.
        ran: How many tasks were done, as storage counted them: those that ran twice once.
        reports: How many reports were sent.
        leftovers: The outputs, sinks aside, that were still in storage when the last worker had left; or, against an
            adversary, when the client removed the run.
        faults: What the adversary did, and how often.
    """

    result: Any
    values: Mapping[int, Any]
    makespan_s: float
    timeline: tuple[TaskSpan, ...]
    invocations: tuple[InvocationSpan, ...]
    prewarms: tuple[PrewarmSpan, ...]
    cold_starts: int
    max_concurrent: int
    stored: Mapping[int, int]
    executions: Mapping[int, int]
    ran: int
    reports: int
    leftovers: tuple[int, ...]
    faults: Mapping[str, int] = field(default_factory=dict)

    @property
    def stored_bytes(self) -> int:
        """How much was put into shared storage."""
        return sum(self.stored.values())


@dataclass(slots=True)
class Recorder:
    """Collects what happens while a run goes on."""

    timeline: list[TaskSpan] = field(default_factory=list)
    invocations: list[InvocationSpan] = field(default_factory=list)
    stored: dict[int, int] = field(default_factory=dict)
    executions: Counter[int] = field(default_factory=Counter)
    reports: int = 0
