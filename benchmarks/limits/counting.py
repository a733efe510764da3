"""Counts what the real worker core asks of shared storage, in virtual time.

The worker core, the storage in memory and the platform in virtual time are those that runs are tested with. Here each
call to storage is noted on its way, in the second in which it takes effect:

    core ──▶ invocation ──▶ CountingCoordination ──▶ storage in memory
                                     │
                                     ▼
                       Ledger: second → kind → amount

Three kinds of calls are not made in virtual time, since nothing depends on them; they follow from how long invocations
last, and are added when a run is over: the description of the run, which each new environment fetches; heartbeats;
and the looks of listeners into their inboxes, once a second while nothing is there.

All environments start at once, so what a real platform spreads over the time that it needs to grow falls into the
first seconds here. About 100 microseconds a task, and 1 to 2 kB.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from augury.dag.graph import Graph
from augury.plan.model import PlatformModel, Timing
from augury.plan.plan import Plan
from augury.serde import Blob, Buffer
from augury.storage.memory import MemoryCoordination, MemoryObjects, MemoryStorage
from augury.storage.protocols import Care, Claim, Event, Joined, Outcome, Progress, Report, RunSpec, Stored, TaskReady
from augury.storage.protocols import WorkerSummary as Summary
from augury.storage.run_state import RunState
from augury.testing.clock import VirtualClock
from augury.testing.course import Course
from augury.testing.gateway import Startup, VirtualGateway
from augury.testing.invocation import VirtualInvocation
from augury.testing.spans import InvocationSpan
from augury.worker import messages as m
from augury.worker.heart import BEATS
from limits.shapes import Shape

MOST_FIELDS = 1000
"""How many outputs one command asks for at most."""

LISTENS_AFTER_S = 0.2
IDLE_LOOK_S = 1.0
"""From when on an invocation listens to its inbox, and how often it then looks whether its run still exists."""

_encode = msgspec.msgpack.Encoder().encode
Amounts = Counter[str]
"""Kind of call, or what calls are made of → how many."""

CALLS = ("join", "spec", "report", "read", "idle look", "outputs", "beat", "suspend", "progress", "leave")
"""The kinds of calls; the other amounts say what reports and answers were made of."""


class Ledger:
    """What was asked of storage in each second.

    Attributes:
        seconds: Second → amounts.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seconds: dict[int, Amounts] = {}
        self._clock = clock

    def add(self, call: str, *, times: int = 1, to_bytes: int = 0, from_bytes: int = 0) -> Amounts:
        """Note a call that takes effect now; gives the amounts of this second, for what else there is to note."""
        amounts = self.at(self._clock())
        amounts[call] += times
        amounts["bytes to"] += to_bytes
        amounts["bytes from"] += from_bytes
        return amounts

    def at(self, time_s: float) -> Amounts:
        """The amounts of a second."""
        return self.seconds.setdefault(int(time_s), Counter())

    def total(self) -> Amounts:
        """The amounts of all seconds."""
        total: Amounts = Counter()
        for amounts in self.seconds.values():
            total.update(amounts)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What one run asked for.

    Attributes:
        edges: How many outputs are taken.
        total: Of all seconds; `seconds`: of each.
        invocations: How many environments were asked for; `by_client`: how many of these by the client.
        makespan_s: How long the run took in virtual time.
    """

    shape: str
    planned: bool
    tasks: int
    workers: int
    edges: int
    total: Mapping[str, int]
    seconds: Mapping[int, Mapping[str, int]]
    invocations: int
    by_client: int
    makespan_s: float

    @property
    def case(self) -> str:
        """The shape, and who decides where tasks run."""
        return f"{self.shape}, {'planned' if self.planned else 'flexible'}"

    @property
    def calls(self) -> int:
        """Of all kinds together."""
        return calls_in(self.total)

    @property
    def peak(self) -> int:
        """The most calls in one second."""
        return max(map(calls_in, self.seconds.values()))


def calls_in(amounts: Mapping[str, int]) -> int:
    """How many calls there are among amounts."""
    return sum(amounts.get(kind, 0) for kind in CALLS)


def count(shape: Shape, *, planned: bool, task_s: float = 1.0, output_bytes: int = 100) -> Counts:
    """Run a workflow in virtual time, on as many slots as it is to have workers.

    Args:
        shape: What to run.
        planned: Whether the plan says who runs what.
        task_s: How long each task takes.
        output_bytes: How large each output is.
    """
    graph = shape.graph()
    timing = Timing(cold_start_s=0.25, latency_s=0.001)
    model = PlatformModel(timing=timing, concurrency=shape.workers)
    plan = shape.plan(graph, planned=planned)
    course = CountingCourse(model, graph, plan, task_s=task_s, output_bytes=output_bytes)
    with _without_collections():
        run = course.run()
    add_what_lasts(course.ledger, run.invocations)
    return Counts(
        shape=shape.name,
        planned=planned,
        tasks=shape.tasks,
        workers=shape.workers,
        edges=shape.edges,
        total=dict(course.ledger.total()),
        seconds={second: dict(amounts) for second, amounts in course.ledger.seconds.items()},
        invocations=len(run.invocations),
        by_client=course.gateway.asked[0],
        makespan_s=run.makespan_s,
    )


def add_what_lasts(ledger: Ledger, invocations: Sequence[InvocationSpan]) -> None:
    """Note the calls that follow from how long invocations last."""
    pause_s = Care().lease_s / BEATS
    for one in invocations:
        ledger.at(one.start_s)["spec"] += one.cold
        for kind, first_s, every_s in (("beat", pause_s, pause_s), ("idle look", LISTENS_AFTER_S, IDLE_LOOK_S)):
            for time in range(int(max(0.0, one.end_s - one.start_s - first_s) / every_s)):
                ledger.at(one.start_s + first_s + (time + 1) * every_s)[kind] += 1


@contextmanager
def _without_collections() -> Iterator[None]:
    """Millions of objects that all live on: to look through them again and again takes half of the time."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


class CountingCoordination(MemoryCoordination):
    """A run's shared state in memory, for one thread, that notes what it is asked.

    Whoever subscribes is found by inbox: with thousands of workers it takes long to look through all of them.
    """

    def __init__(self, shared: Any, run_id: str, ledger: Ledger) -> None:
        super().__init__(shared, run_id)
        self._ledger = ledger
        self._subscribers: dict[str, list[Callable[[], None]]] = {}

    def subscribe(self, inbox: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when something new is in an inbox."""
        callbacks = self._subscribers.setdefault(inbox, [])
        callbacks.append(callback)
        return lambda: callbacks.remove(callback)

    @contextmanager
    def _changing(self) -> Iterator[RunState | None]:
        run = self._shared.find(self._run_id)
        yield run
        if run is not None:
            fresh = list(run.fresh)
            run.fresh.clear()
            for inbox in fresh:
                for callback in tuple(self._subscribers.get(inbox, ())):
                    callback()

    def join(self, worker: str, attempt: int) -> Joined:
        """Answered with a bit for each task up to the last that is done."""
        joined = super().join(worker, attempt)
        bitmap_bytes = max(joined.done, default=-8) // 8 + 1
        self._ledger.add("join", from_bytes=bitmap_bytes)["bitmap bytes"] += bitmap_bytes
        return joined

    def report(self, report: Report) -> Outcome:
        """With all that the time of a report depends on."""
        outcome = super().report(report)
        amounts = self._ledger.add("report", to_bytes=len(_encode(report)), from_bytes=len(_encode(outcome)))
        amounts["completions"] += len(report.completions)
        amounts["consumers"] += sum(len(one.consumers) for one in report.completions)
        amounts["started"] += len(outcome.started)
        amounts["ready"] += len(outcome.ready)
        if not (report.completions or report.published or report.claims):
            amounts["progress reports" if report.ran else "empty reports"] += 1
        return outcome

    def outputs(self, tasks: Sequence[int]) -> dict[int, Stored]:
        """In as many commands as it takes."""
        found = super().outputs(tasks)
        size_bytes = sum(len(one.inline or b"") + 8 for one in found.values())
        amounts = self._ledger.add("outputs", times=-(-len(tasks) // MOST_FIELDS), from_bytes=size_bytes)
        amounts["fields"] += len(tasks)
        return found

    def read(self, inbox: str, cursor: str, timeout_s: float) -> tuple[str, list[Event]]:
        """With the events that it brought."""
        cursor, events = super().read(inbox, cursor, timeout_s)
        amounts = self._ledger.add("read", from_bytes=len(_encode(events)))
        amounts["events"] += len(events)
        amounts["woken"] += sum(isinstance(event, TaskReady) for event in events)
        return cursor, events

    def suspend(self, worker: str, attempt: int, cursor: str, grace_s: float) -> bool:
        """One call."""
        self._ledger.add("suspend")
        return super().suspend(worker, attempt, cursor, grace_s)

    def progress(self) -> Progress:
        """One call."""
        self._ledger.add("progress")
        return super().progress()

    def leave(self, summary: Summary) -> None:
        """One call."""
        self._ledger.add("leave", to_bytes=len(_encode(summary)))
        super().leave(summary)


class CountingObjects(MemoryObjects):
    """Large outputs in memory; said to be of one size, whatever they are here."""

    def __init__(self, shared: Any, run_id: str, ledger: Ledger, output_bytes: int) -> None:
        super().__init__(shared, run_id)
        self._ledger = ledger
        self._output_bytes = output_bytes

    def put(self, key: str, blob: Blob) -> None:
        """One call, of the size that is said."""
        self._ledger.add("put", to_bytes=self._output_bytes)
        super().put(key, blob)

    def get(self, keys: Sequence[str]) -> dict[str, Buffer]:
        """One call."""
        found = super().get(keys)
        self._ledger.add("get", from_bytes=self._output_bytes * len(found))
        return found


class CountingStorage(MemoryStorage):
    """Storage in memory that notes what it is asked."""

    def counted(self, run_id: str, ledger: Ledger, output_bytes: int) -> tuple[CountingCoordination, CountingObjects]:
        """Both halves of a run's storage."""
        return (
            CountingCoordination(self._shared, run_id, ledger),
            CountingObjects(self._shared, run_id, ledger, output_bytes),
        )


class CountingGateway(VirtualGateway):
    """A gateway that notes how many workers each request asks for; the first request is the client's."""

    def __init__(self, clock: VirtualClock, model: PlatformModel, start: Callable[[Claim, Startup], None]) -> None:
        super().__init__(clock, model, start)
        self.asked: list[int] = []

    def invoke(self, claims: Sequence[Claim]) -> None:
        """Start workers."""
        self.asked.append(len(claims))
        super().invoke(claims)


class CountedInvocation(VirtualInvocation):
    """An invocation that asks storage for nothing but what the core wants: not for what only the platform notes."""

    def _report(self, report: Report) -> m.Event:
        return m.Reported(self._world.coordination.report(report))


class CountingCourse(Course):
    """One run in virtual time, counted.

    Attributes:
        ledger: What was asked of storage; `gateway`: what was asked of the gateway.
    """

    gateway: CountingGateway

    def __init__(self, model: PlatformModel, graph: Graph, plan: Plan, *, task_s: float, output_bytes: int) -> None:
        inline = output_bytes <= model.inline_bytes
        value = bytes(output_bytes if inline else 1)
        super().__init__(
            model,
            graph,
            plan,
            lambda _task, _inputs: value,
            lambda _task, _resources: task_s,
            lambda _task, size_bytes: size_bytes if inline else output_bytes,
            seed=None,
            interruptible=True,
            check_invariants=False,
        )
        self.ledger = Ledger(self._clock)
        storage = CountingStorage(clock=self._clock, ttl_s=float("inf"))
        self._coordination, self._objects = storage.counted("virtual", self.ledger, output_bytes)
        self._world = replace(self._world, coordination=self._coordination, objects=self._objects)

    def _make_gateway(self, model: PlatformModel) -> VirtualGateway:
        self.gateway = CountingGateway(self._clock, model, self._start)
        return self.gateway

    def _embody(self, claim: Claim, startup: Startup) -> VirtualInvocation:
        return CountedInvocation(self._world, claim, startup, self._bury)

    def _spec(self) -> RunSpec:
        """Nobody reads it here."""
        return RunSpec(name="counted", graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=1)

    def _leftovers(self) -> tuple[int, ...]:
        """Nobody asks for them, and to look for them would count."""
        return ()
