"""The runner carries out what policies ask for: real threads, storage in memory, every worker in this process.

Tasks meet the test at gates, which are module globals: workers of the same process call the very same functions. A
gate that nobody opens fails the test instead of holding it up.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from msgspec import structs

from augury import serde, task
from augury.config import INLINE_BYTES, Resources
from augury.dag.flat import pack_times
from augury.dag.graph import Graph, build_workflow
from augury.dag.program import encode
from augury.errors import GatewayError, StorageError
from augury.invoke.gateway import Invocation, Limits
from augury.plan.hints import Hint, OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.plan import Assignment, Plan
from augury.serde import Buffer
from augury.storage.memory import MemoryCoordination, MemoryObjects, MemoryStorage
from augury.storage.protocols import (
    CLIENT,
    Beat,
    Care,
    Cause,
    Hopeless,
    Missing,
    Outcome,
    Printed,
    Report,
    RunEnded,
    RunSpec,
    Status,
    WorkerLeft,
    WorkerSummary,
    output_key,
)
from augury.storage.signing import sign_spec
from augury.trust import process_keyring
from augury.worker import runner as runner_module
from augury.worker import surroundings
from augury.worker.code import RunCache
from augury.worker.failure import Failure, decode_failure
from augury.worker.heart import BEATS
from augury.worker.interrupt import Interrupted
from augury.worker.messages import Event, FetchFailed, Leave
from augury.worker.patience import Patience
from augury.worker.policies import Policy, packed
from augury.worker.recorder import Recorder
from augury.worker.runner import Runner
from augury.worker.values import Values

KEYRING = process_keyring()
PATIENCE_S = 5.0
BIG = Resources(memory_mb=2 * Resources().memory_mb)
NOW = TaskDupHint(produce_s=0.0, arrives_s=1000.0)
"""Run it too as soon as you have nothing else to do."""


class Gates:
    """Events by name, and how often tasks came by."""

    def __init__(self) -> None:
        self.visits: Counter[str] = Counter()
        self.interrupted: list[str] = []
        self._events: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> threading.Event:
        with self._lock:
            return self._events.setdefault(name, threading.Event())

    def visit(self, name: str) -> int:
        """Which visit it is, from 1."""
        with self._lock:
            self.visits[name] += 1
            return self.visits[name]

    def wait(self, name: str) -> None:
        """In slices: a thread is interrupted between two instructions, not during one."""
        for _ in range(int(PATIENCE_S / 0.01)):
            if self[name].wait(0.01):
                return
        raise TimeoutError(f"nobody opened {name!r}")


gates = Gates()


@task
def number(value: int) -> int:
    return value


@task
def total(*values: Any) -> int:
    return sum(value if isinstance(value, int) else len(value) for value in values)


@task
def pass_gate(name: str, value: Any = 1) -> Any:
    gates.wait(name)
    return value


@task
def open_gate(name: str, value: Any = 1) -> Any:
    gates[name].set()
    return value


@task
def large() -> bytes:
    return b"x" * (2 * INLINE_BYTES)


@task
def slow_at_first(name: str, value: int = 1) -> int:
    """The first to come here never comes out, unless it is interrupted."""
    if gates.visit(name) == 1:
        gates["first is in"].set()
        try:
            gates.wait("never")
        except Interrupted:
            gates.interrupted.append(name)
            raise
    return value


class LocalGateway:
    """Starts workers as threads of this process."""

    def __init__(self, start: Callable[[Invocation], None]) -> None:
        self._start = start
        self.prewarmed: list[tuple[Resources, int]] = []
        self.on_prewarm: Callable[[], None] = lambda: None

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        for invocation in invocations:
            self._start(invocation)

    def prewarm(self, resources: Resources, count: int) -> None:
        self.prewarmed.append((resources, count))
        self.on_prewarm()

    def limits(self) -> Limits:
        return Limits(concurrency=8)

    def stop(self, run_id: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Place:
    """A platform in this process, for one run."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.gateway = LocalGateway(self._start)
        self.coordination = self.storage.coordination("run")
        self.objects: MemoryObjects = self.storage.objects("run")
        self.runs = RunCache()
        self.limit_s = math.inf
        """How long the platform lets the first attempt of each worker go on."""
        self.late_s: Mapping[int, float] = {}
        self.care = Care()
        self.memory_errors: list[MemoryError] = []
        self.runners: list[Runner] = []
        self.threads: list[threading.Thread] = []

    def run(self, outputs: Any, workers: Mapping[int, int], **more: Any) -> Any:
        """Run a workflow by a plan: tasks → workers, and what else the plan has."""
        graph = self._begin(outputs, workers, more)
        status, failure = self._await_end()
        assert status is Status.SUCCEEDED, failure
        found = self.coordination.outputs(graph.sinks)
        values = {
            sink: serde.loads(found[sink].inline or self.objects.get([output_key(sink)])[output_key(sink)])
            for sink in graph.sinks
        }
        left = [key for key in self._object_keys(len(graph)) if int(key[1:]) not in graph.sink_set]
        assert left == []
        return values[graph.sinks[0]] if len(values) == 1 else values

    def failure(self, outputs: Any, workers: Mapping[int, int], **more: Any) -> Failure:
        """Run a workflow that fails; what the client is told."""
        self._begin(outputs, workers, more)
        status, failure = self._await_end()
        assert status is Status.FAILED
        return decode_failure(failure)

    def _begin(self, outputs: Any, workers: Mapping[int, int], more: Mapping[str, Any]) -> Graph:
        workflow = build_workflow(outputs)
        graph = workflow.graph
        program, constants = encode(workflow, shared_files=True)
        assert not constants
        plan = Plan(
            fingerprint=graph.fingerprint,
            planner="by hand",
            assignments=tuple(
                Assignment(worker, Resources()) for worker in (workers.get(task) for task in range(len(graph)))
            ),
        )
        spec = RunSpec(
            name="test",
            graph=graph.encode(),
            program=program.encode(),
            plan=structs.replace(plan, **more).encode(),
            concurrency=8,
            inline_bytes=INLINE_BYTES,
            record=False,
            late_s=pack_times([self.late_s.get(task, math.inf) for task in range(len(graph))] if self.late_s else []),
            care=self.care,
        )
        spec = sign_spec(spec, KEYRING.seal("run"))
        claims = self.runs.add("run", spec, KEYRING).view.initial_claims()
        self.objects.create()
        self.coordination.create(spec, graph.sinks, claims)
        self.gateway.invoke([Invocation("run", one.worker, one.attempt, one.resources, one.tasks) for one in claims])
        return graph

    @property
    def summaries(self) -> dict[str, WorkerSummary]:
        events = self.coordination.read(CLIENT, "0", 0.0)[1]
        return {event.summary.worker: event.summary for event in events if isinstance(event, WorkerLeft)}

    def _await_end(self) -> tuple[Status, bytes]:
        """How the run ended, once all of its workers have."""
        cursor = "0"
        for _ in range(int(PATIENCE_S)):
            cursor, events = self.coordination.read(CLIENT, cursor, 1.0)
            ended = [event for event in events if isinstance(event, RunEnded)]
            if ended:
                for thread in self.threads:
                    thread.join(PATIENCE_S)
                    assert not thread.is_alive()
                return ended[0].status, ended[0].failure
        raise TimeoutError("the run does not end")

    def _object_keys(self, count: int) -> list[str]:
        return list(self.objects.get([output_key(task) for task in range(count)]))

    def _start(self, invocation: Invocation) -> None:
        def embody() -> None:
            joined = self.coordination.join(invocation.worker, invocation.attempt)
            code = self.runs.get("run")
            assert code is not None
            runner = Runner(
                invocation,
                code,
                coordination=self.coordination,
                objects=self.objects,
                gateway=self.gateway,
                recorder=Recorder(code.view.graph, invocation.resources, enabled=False),
                cold=True,
                deadline_s=time.monotonic() + (self.limit_s if invocation.attempt == 1 else math.inf),
                on_memory_error=self.memory_errors.append,
            )
            self.runners.append(runner)
            runner.run(joined, self.coordination.remains() if joined.restarted else None)

        self.threads.append(threading.Thread(target=embody, daemon=True))
        self.threads[-1].start()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    global gates
    gates = Gates()
    monkeypatch.setattr("augury.worker.runner.catch_streams", lambda: None)
    yield Place()
    gates["never"].set()


def hints(given: Mapping[int, Hint]) -> dict[int, tuple[Hint, ...]]:
    return {task: (hint,) for task, hint in given.items()}


class TestPreLoading:
    """
    0 ───────┐
             ├─ 2      w0: 0      w1: 1, 2
    1 ───────┘
    """

    WORKERS: ClassVar = {0: 0, 1: 1, 2: 1}

    def test_a_large_input_is_fetched_while_another_task_runs(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        get = MemoryObjects.get

        def open_and_get(objects: MemoryObjects, keys: Sequence[str]) -> dict[str, Buffer]:
            if threading.current_thread() is not threading.main_thread():
                gates["fetched"].set()
            return get(objects, keys)

        monkeypatch.setattr(MemoryObjects, "get", open_and_get)
        # Task 1 ends only when 0 has been fetched.
        outputs = total(large(), pass_gate("fetched"))
        assert place.run(outputs, self.WORKERS, hints=hints({2: PreLoadHint()})) == 2 * INLINE_BYTES + 1

    def test_small_inputs_come_too(self, place: Place) -> None:
        assert place.run(total(number(7), number(2)), self.WORKERS, hints=hints({2: PreLoadHint()})) == 9
        assert place.summaries["w1"].fetched_bytes > 0

    def test_one_that_cannot_be_fetched_ends_the_run(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> dict[str, Buffer]:
            gates["refused"].set()
            raise MemoryError("too large")

        monkeypatch.setattr(MemoryObjects, "get", refuse)
        outputs = total(large(), pass_gate("refused"))
        assert "too large" in place.failure(outputs, self.WORKERS, hints=hints({2: PreLoadHint()})).message
        assert [str(error) for error in place.memory_errors] == ["too large"]

    def test_unless_its_worker_has_left_meanwhile(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """0 → 1 → 2      w0: 0      w1: 1, which w2 does too, and first      w2: 2, 3 when w1 has left, and 4"""
        get, leave, guard = MemoryObjects.get, MemoryCoordination.leave, Runner._guard
        errands: set[int] = set()

        def get_late(objects: MemoryObjects, keys: Sequence[str]) -> dict[str, Buffer]:
            if threading.get_ident() in errands:
                gates["w1 fetches"].set()
                gates.wait("w1 has left")
                raise MemoryError("too large")
            return get(objects, keys)

        def leave_and_tell(run: MemoryCoordination, summary: WorkerSummary) -> None:
            leave(run, summary)
            gates[f"{summary.worker} has left"].set()

        def guard_and_tell(runner: Runner, work: Callable[[], None]) -> None:
            is_errand = runner._name == "w1" and work == runner._run_errands
            if is_errand:
                errands.add(threading.get_ident())
            guard(runner, work)
            if is_errand:
                errands.clear()  # another thread may get its number
                gates["the errand is over"].set()

        monkeypatch.setattr(MemoryObjects, "get", get_late)
        monkeypatch.setattr(MemoryCoordination, "leave", leave_and_tell)
        monkeypatch.setattr(Runner, "_guard", guard_and_tell)
        outputs = total(pass_gate("the errand is over", pass_gate("w1 fetches", large())), number(3))
        both: tuple[Hint, ...] = (NOW, PreLoadHint())
        assert place.run(outputs, {0: 0, 1: 1, 2: 2, 3: 2, 4: 2}, hints={1: both}) == 2 * INLINE_BYTES + 3
        assert gates["the errand is over"].is_set()
        assert not place.memory_errors


class TestPreWarming:
    def test_it_is_asked_for_when_the_task_starts_and_does_not_hold_it_up(self, place: Place) -> None:
        """0 → 1 on w0, whose gateway is asked while 0 runs, and answers only when 1 does"""

        def answer_late() -> None:
            gates["asked"].set()
            gates.wait("done")

        place.gateway.on_prewarm = answer_late
        outputs = open_gate("done", pass_gate("asked"))
        assert place.run(outputs, {0: 0, 1: 0}, hints=hints({0: PreWarmHint(BIG, 3)})) == 1
        assert place.gateway.prewarmed == [(BIG, 3)]

    def test_it_may_be_asked_for_later(self, place: Place) -> None:
        """0 on w0, which ends only once it was asked for"""
        place.gateway.on_prewarm = gates["asked"].set
        hint = PreWarmHint(BIG, 1, after_s=0.05)
        assert place.run(pass_gate("asked"), {0: 0}, hints=hints({0: hint})) == 1
        assert place.gateway.prewarmed == [(BIG, 1)]
        assert place.summaries["w0"].prewarmed == 1

    def test_a_worker_that_ends_before_asks_at_its_end(self, place: Place) -> None:
        """0 → 1      w0: 0, with an hour to go      w1: 1"""
        hint = PreWarmHint(BIG, 2, after_s=3600.0)
        assert place.run(total(number(1)), {0: 0, 1: 1}, hints=hints({0: hint})) == 1
        assert place.gateway.prewarmed == [(BIG, 2)]

    def test_a_refusal_does_not_matter(self, place: Place, caplog: pytest.LogCaptureFixture) -> None:
        def refuse() -> None:
            raise GatewayError("there is no room")

        place.gateway.on_prewarm = refuse
        assert place.run(total(number(1)), {0: 0, 1: 1}, hints=hints({0: PreWarmHint(BIG)})) == 1
        assert "there is no room" in caplog.text
        assert place.summaries["w0"].prewarmed == 0


class TestDuplicates:
    """
    0 ─── 1 ───┐
               ├─ 3      w0: 0, 1      w1: 2, 3
    2 ─────────┘
    """

    def test_a_worker_that_is_slow_hears_that_another_was_faster_and_stops(self, place: Place) -> None:
        # Task 1 is duplicated once w1 has nothing to do, and that is once w0 runs it.
        outputs = total(slow_at_first("slow"), pass_gate("first is in"))
        assert place.run(outputs, {0: 0, 1: 1, 2: 1}, hints=hints({0: NOW})) == 2
        assert gates.visits["slow"] == 2
        assert gates.interrupted == ["slow"]

    def test_who_runs_a_duplicate_stops_when_the_owner_was_faster(self, place: Place) -> None:
        outputs = total(late_owner("race"), number(1))
        assert place.run(outputs, {0: 0, 1: 1, 2: 1}, hints=hints({0: NOW})) == 2
        assert gates.interrupted == ["race"]

    def test_its_inputs_are_fetched(self, place: Place) -> None:
        first = large()
        outputs = total(slow_given("slow", first), pass_gate("first is in"))
        assert place.run(outputs, {0: 0, 1: 0, 2: 1, 3: 1}, hints=hints({1: NOW})) == 2 * INLINE_BYTES + 1
        assert place.summaries["w1"].fetched_bytes > 2 * INLINE_BYTES

    def test_those_who_take_the_output_on_the_slow_worker_go_on(self, place: Place) -> None:
        """0 → 2, 3      w0: 0, 3      w1: 1, 2"""
        slow = slow_at_first("slow", 5)
        outputs = [total(slow, pass_gate("first is in")), total(slow, number(10))]
        assert place.run(outputs, {0: 0, 1: 1, 2: 1, 3: 0, 4: 0}, hints=hints({0: NOW})) == {2: 6, 4: 15}

    def test_a_task_that_cannot_be_stopped_is_ignored(self, place: Place) -> None:
        outputs = total(deaf("deaf"), pass_gate("first is in"))
        assert place.run(outputs, {0: 0, 1: 1, 2: 1}, hints=hints({0: NOW})) == 2

    def test_a_task_that_cannot_be_stopped_does_not_hold_up_the_others_of_its_worker(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """0 → 2 → 3      w0: 0, 3      w1: 1, 2      a successor of w0 runs 3"""
        monkeypatch.setattr("augury.worker.runner._DEAF_S", 0.05)
        outputs = open_gate("done", total(deaf_until("done"), pass_gate("first is in")))
        assert place.run(outputs, {0: 0, 1: 1, 2: 1, 3: 0}, hints=hints({0: NOW})) == 2

    def test_a_duplicate_that_fails_is_forgotten(self, place: Place) -> None:
        outputs = total(fails_second("fails"), pass_gate("first is in"))
        assert place.run(outputs, {0: 0, 1: 1, 2: 1}, hints=hints({0: NOW})) == 2
        assert gates.visits["fails"] == 2

    def test_a_duplicate_whose_input_cannot_be_loaded_is_forgotten(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """0 → 1 → 3      w0: 0, 1, which goes on when w1 has failed to load 0      w1: 2, 3"""
        fetch = Runner._fetch

        def fetch_and_tell(runner: Runner, tasks: tuple[int, ...]) -> Event:
            event = fetch(runner, tasks)
            if isinstance(event, FetchFailed):
                gates["it cannot"].set()
            return event

        monkeypatch.setattr(Runner, "_fetch", fetch_and_tell)
        gates["now"].set()
        given = unloadable("now", ValueError)
        outputs = total(takes("first is in", "it cannot", given), pass_gate("first is in"))
        assert place.run(outputs, {0: 0, 1: 0, 2: 1, 3: 1}, hints=hints({1: NOW})) == 2

    def test_a_task_may_change_its_input_while_that_is_written(self, place: Place) -> None:
        """0 → 1 → 3      w0: 0, 1      w1: 2, 3      each run of 1 sees 0 as it was"""
        outputs = total(spoiling("first is in", listing()), pass_gate("first is in"))
        assert place.run(outputs, {0: 0, 1: 0, 2: 1, 3: 1}, hints=hints({1: NOW})) == 60_000 + 1


@task
def takes(opened: str, awaited: str, _: object) -> int:
    gates[opened].set()
    gates.wait(awaited)
    return 1


@task
def listing() -> bytearray:
    return bytearray(60_000)


@task
def spoiling(name: str, data: bytearray) -> int:
    """Change what was given; the first to do so waits for another."""
    assert not any(data)
    data[:] = b"x" * len(data)
    if gates.visit("spoiling") == 1:
        gates[name].set()
        gates.wait("never")
    return len(data)


@task
def late_owner(name: str) -> int:
    """The first to come here waits for the second, which never comes out by itself."""
    if gates.visit(name) == 1:
        gates.wait("second is in")
        return 1
    gates["second is in"].set()
    try:
        gates.wait("never")
    except Interrupted:
        gates.interrupted.append(name)
        raise
    return -1


@task
def slow_given(name: str, data: bytes) -> int:
    if gates.visit(name) == 1:
        gates["first is in"].set()
        gates.wait("never")
    return len(data)


@task
def deaf(name: str) -> int:
    if gates.visit(name) == 1:
        gates["first is in"].set()
        with suppress(BaseException):
            gates.wait("never")
        return -1
    return 1


@task
def deaf_until(name: str) -> int:
    """The first to come here goes on whatever happens, until a gate is open."""
    if gates.visit("deaf") == 1:
        gates["first is in"].set()
        while not gates[name].is_set():
            with suppress(BaseException):
                gates.wait(name)
        return -1
    return 1


@task
def fails_second(name: str) -> int:
    """The first to come here goes on once the second has failed."""
    if gates.visit(name) == 1:
        gates["first is in"].set()
        gates.wait("second failed")
        return 1
    gates["second failed"].set()
    raise ValueError("no")


class Broken(Policy):
    """Fails whenever it is asked."""

    def __init__(self, view: Any, worker: str) -> None:
        pass

    def started(self, task: int, now_s: float) -> Any:
        raise ValueError("broken")


def test_a_policy_that_fails_is_dropped_and_the_run_goes_on(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """0 → 1 → 2      all on w0"""
    plan = {"hints": hints({0: OwnHint("mine")}), "policies": {"mine": packed(Broken)}}
    assert place.run(total(total(number(3))), {0: 0, 1: 0, 2: 0}, **plan) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "worker w0 goes on without the policy 'mine': ValueError('broken')"
    ]


class Exits(Policy):
    """Wants to end the process whenever it is asked."""

    def __init__(self, view: Any, worker: str) -> None:
        pass

    def started(self, task: int, now_s: float) -> Any:
        raise SystemExit(3)


def test_so_is_one_that_wants_to_end_the_process(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    plan = {"hints": hints({0: OwnHint("mine")}), "policies": {"mine": packed(Exits)}}
    assert place.run(total(number(3)), {0: 0, 1: 0}, **plan) == 3
    assert "goes on without the policy 'mine': SystemExit(3)" in caplog.text


def raise_when_loaded(kind: type[BaseException]) -> None:
    raise kind("no")


class Unloadable:
    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind

    def __reduce__(self) -> Any:
        return raise_when_loaded, (self._kind,)


@task
def unloadable(name: str, kind: type[BaseException]) -> Unloadable:
    gates.wait(name)
    return Unloadable(kind)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (ValueError, "cannot be loaded"),
        (SystemExit, "cannot be loaded"),
        (KeyboardInterrupt, "KeyboardInterrupt"),
        (MemoryError, "MemoryError"),
    ],
)
def test_what_cannot_be_loaded_ends_the_run_whatever_it_raises(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], told: str
) -> None:
    """0, 1 → 2      w0: 0, when w1 listens      w1: 1, 2"""
    listen = Runner._listen

    def listen_and_tell(runner: Runner) -> None:
        listen(runner)
        gates["w1 listens"].set()

    monkeypatch.setattr(Runner, "_listen", listen_and_tell)
    failure = place.failure(total(unloadable("w1 listens", kind), number(1)), {0: 0, 1: 1, 2: 1})
    assert told in failure.message
    assert len(place.memory_errors) == (kind is MemoryError)


@task
def refuses() -> None:
    raise ValueError("not like this")


def test_a_failure_is_told_though_what_was_printed_cannot_be(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Runner) -> None:
        raise StorageError("it is away")

    monkeypatch.setattr(Runner, "_send_printed", refuse)
    assert "not like this" in place.failure(refuses(), {0: 0}).message


@task
def struck(name: str) -> int:
    """The first to come here is replaced meanwhile; the second waits until it has left."""
    if gates.visit(name) == 1:
        gates["struck"].set()
        gates.wait("replaced")
    else:
        gates.wait("the old one has left")
    return 1


def replace_first(place: Place) -> None:
    """Replace the first worker once its first output is in storage; tell when it has left."""
    gates.wait("struck")
    turns = iter(range(int(PATIENCE_S / 0.01)))
    while not place.coordination.outputs([0]) and next(turns, None) is not None:
        gates["never"].wait(0.01)
    beat = place.coordination.beat(lost=[Missing("w0", 1)])
    place.gateway.invoke([Invocation("run", one.worker, one.attempt, one.resources, one.tasks) for one in beat.start])
    gates["replaced"].set()
    cursor = "0"
    for _ in turns:
        cursor, events = place.coordination.read(CLIENT, cursor, 0.01)
        if any(isinstance(event, WorkerLeft) and event.summary.attempt == 1 for event in events):
            gates["the old one has left"].set()
            return


def test_a_replaced_worker_does_not_take_back_what_it_stored(place: Place) -> None:
    """0 is large, and stored; 1 runs when the worker is replaced; another worker takes both."""
    helper = threading.Thread(target=replace_first, args=(place,), daemon=True)
    helper.start()
    assert place.run(total(large(), struck("1")), {0: 0, 1: 0, 2: 1}) == 2 * INLINE_BYTES + 1
    helper.join(PATIENCE_S)
    assert gates.visits["1"] == 2


def test_what_came_with_an_event_and_was_taken_away_is_fetched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 on w0, 1 on w1 → 2 on w1, which is there before 0 ends; a fetch that failed has taken away what came of 0."""
    receive = Values.receive

    def receive_in_vain(values: Values, task: int, data: bytes) -> None:
        receive(values, task, data)
        values.discard((task,))

    monkeypatch.setattr(Values, "receive", receive_in_vain)
    assert place.run(total(pass_gate("w1 is there", 3), open_gate("w1 is there", 4)), {0: 0, 1: 1, 2: 1}) == 7


def away(*_: object, **__: object) -> Any:
    raise StorageError("storage is away")


def test_who_could_tell_nobody_that_it_gives_up_is_replaced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 on w0; storage is away when that is reported, and when the failure is, and back when w0 leaves"""
    leave, left_behind = Runner._leave, list[Missing]()

    def come_back_and_leave(runner: Runner, command: Leave) -> None:
        gone.undo()
        leave(runner, command)
        if not left_behind:
            left_behind.extend(place.coordination.live())
            runner._start_workers(place.coordination.beat(lost=left_behind).start)

    monkeypatch.setattr(Runner, "_leave", come_back_and_leave)
    with monkeypatch.context() as gone:
        gone.setattr(MemoryCoordination, "report", away)
        gone.setattr(MemoryCoordination, "fail", away)
        assert place.run(number(3), {0: 0}) == 3
    assert left_behind == [Missing("w0", 1)]
    assert place.summaries["w0"].attempt == 2


@pytest.mark.parametrize(
    ("hopeless", "status", "left"),
    [("w0", Status.RUNNING, False), ("w1", Status.RUNNING, True), ("w0", Status.SUCCEEDED, True)],
)
def test_who_could_not_tell_that_there_is_no_hope_leaves_if_it_is_for_another_one_or_the_run_is_over(
    place: Place, monkeypatch: pytest.MonkeyPatch, hopeless: str, status: Status, left: bool
) -> None:
    leave = Runner._leave

    def give_up_and_leave(runner: Runner, command: Leave) -> None:
        runner._end_hopeless(Hopeless(hopeless, 1, 4, Resources()))
        leave(runner, command)

    monkeypatch.setattr(MemoryCoordination, "fail", away)
    monkeypatch.setattr(MemoryCoordination, "status", lambda _: status)
    monkeypatch.setattr(Runner, "_leave", give_up_and_leave)
    assert place.run(number(3), {0: 0}) == 3
    assert ("w0" in place.summaries) is left


class Stubborn(list[int]):
    """Cannot be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("stays here")


@task
def listed(name: str) -> list[int]:
    gates.visit(name)
    return [0]


@task
def unpicklable(name: str) -> list[int]:
    gates.visit(name)
    return Stubborn([0])


@task
def grown(values: list[int], name: str, *, stuck_at_first: bool = False) -> list[int]:
    """Changes what it was given."""
    values.append(1)
    if gates.visit(name) == 1 and stuck_at_first:
        gates.wait("never")
    return list(values)


class TestTimeLimit:
    """The first attempt of `w0` ends in the middle of its last task."""

    @pytest.fixture(autouse=True)
    def limit(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        place.limit_s = 0.5
        # As if what runs at the end had begun late: it takes less time than the platform gives.
        monkeypatch.setattr(Patience, "had_it_all", lambda self, _: self.deadline_s == math.inf)

    def test_a_successor_is_started_whatever_is_said_of_another_worker(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        beat, ended = MemoryCoordination.beat, []

        def but_others(run: MemoryCoordination, worker: str, attempt: int, lost: Sequence[Missing]) -> Beat:
            assert [loss.cause for loss in lost] == [Cause.CUT]
            answer = beat(run, worker, attempt, lost)
            return structs.replace(answer, hopeless=(Hopeless("w1", 1, 4, Resources()),))

        def has_come_back(_: MemoryCoordination, status: Status, __: bytes, worker: str, attempt: int) -> bool:
            ended.append((status, worker, attempt))
            return False

        monkeypatch.setattr(MemoryCoordination, "beat", but_others)
        monkeypatch.setattr(MemoryCoordination, "fail", has_come_back)
        assert place.run(slow_at_first("a", 3), {0: 0}) == 3
        assert ended == [(Status.FAILED, "w1", 1)]

    @pytest.mark.parametrize("workers", [{}, {0: 0, 1: 0, 2: 0}], ids=["flexible", "planned"])
    def test_it_goes_on_from_what_the_task_that_is_cut_was_given(self, place: Place, workers: dict[int, int]) -> None:
        """0 → 1 → 2, and 2 is cut"""
        assert place.run(grown(grown(listed("0"), "1"), "2", stuck_at_first=True), workers) == [0, 1, 1]
        assert gates.visits == {"0": 1, "1": 1, "2": 2}

    def test_inputs_are_not_copied_for_a_task_that_is_known_to_end_in_time(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place.limit_s = 60.0
        apart: list[int] = []
        monkeypatch.setattr(Values, "set_apart", lambda _, tasks: apart.extend(tasks))
        place.late_s = {1: 2.0}
        assert place.run(grown(grown(listed("0"), "1"), "2"), {0: 0, 1: 0, 2: 0}) == [0, 1, 1]
        assert apart == [1]

    def test_a_task_that_nobody_waits_for_any_more_does_not_end_the_run(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """0 → 2 → 3      w0: 0, 3      w1: 1, 2, and 0 too, which is deaf at first"""
        monkeypatch.setattr(Patience, "had_it_all", lambda *_: True)
        outputs = open_gate("done", total(deaf_until("done"), pass_gate("first is in")))
        assert place.run(outputs, {0: 0, 1: 1, 2: 1, 3: 0}, hints=hints({0: NOW})) == 2

    def test_what_cannot_be_stored_is_made_again(self, place: Place) -> None:
        assert place.run(grown(unpicklable("0"), "1", stuck_at_first=True), {0: 0, 1: 0}) == [0, 1]
        assert gates.visits == {"0": 2, "1": 2}


def test_inputs_are_not_copied_where_there_is_no_time_limit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Values, "set_apart", lambda *_: gates.visit("set apart"))
    assert place.run(grown(grown(listed("0"), "1"), "2"), {0: 0, 1: 0, 2: 0}) == [0, 1, 1]
    assert gates.visits["set apart"] == 0


def test_what_is_stored_to_give_a_slot_up_is_not_changed_by_a_task_that_begins_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 → 2      w0: 0, 2      w1: 1, which goes on when 0 is stored      w2: 3, which starts then"""
    put, whole, start = MemoryObjects.put, list[bool](), place.gateway._start
    withheld: list[Invocation] = []

    def note_and_put(objects: MemoryObjects, key: str, blob: serde.Blob) -> None:
        put(objects, key, blob)
        if key == output_key(0):
            whole.append(all(isinstance(part, bytes) for part in blob.parts))
            gates["stored"].set()
            start(withheld.pop())

    def withhold(invocation: Invocation) -> None:
        if invocation.worker == "w2":
            withheld.append(invocation)
        else:
            start(invocation)

    monkeypatch.setattr(MemoryObjects, "put", note_and_put)
    monkeypatch.setattr(place.gateway, "_start", withhold)
    outputs = [total(listing(), pass_gate("stored")), number(3)]
    assert place.run(outputs, {0: 0, 1: 1, 2: 0, 3: 2}) == {2: 60_001, 3: 3}
    assert whole == [True]


def test_a_slot_is_kept_while_there_is_no_memory_to_give_it_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 → 2      w0: 0, 2      w1: 1, which goes on when that was seen      w2: 3, which starts then"""
    start = place.gateway._start
    withheld: list[Invocation] = []

    def withhold(invocation: Invocation) -> None:
        if invocation.worker == "w2":
            withheld.append(invocation)
        else:
            start(invocation)

    def refuse(*_: Any) -> None:
        while withheld:
            start(withheld.pop())
        gates["refused"].set()
        raise MemoryError

    monkeypatch.setattr(Values, "set_apart", refuse)
    monkeypatch.setattr(place.gateway, "_start", withhold)
    outputs = [total(listing(), pass_gate("refused")), number(3)]
    assert place.run(outputs, {0: 0, 1: 1, 2: 0, 3: 2}) == {2: 60_001, 3: 3}
    assert not place.memory_errors


def test_a_worker_wakes_in_time_for_its_first_beat(place: Place) -> None:
    place.care = Care(lease_s=0.2)
    assert place.run(number(1), {0: 0}) == 1
    assert place.runners[0]._pause_s() <= place.care.lease_s / BEATS


def open_when_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open a gate when a task was found late."""
    tell = Runner._tell_stragglers

    def tell_and_open(runner: Runner, now_s: float) -> None:
        tell(runner, now_s)
        if runner._told_late:
            gates["late"].set()

    monkeypatch.setattr(Runner, "_tell_stragglers", tell_and_open)


def test_time_is_kept_while_the_courier_is_kept_by_a_gateway(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 → 1, 2      0 and 1 here; the gateway does not answer when it is to start a worker for 2"""
    start = place.gateway._start

    def start_late(invocation: Invocation) -> None:
        if invocation.worker != "t0":
            gates.wait("late")
        start(invocation)

    open_when_late(monkeypatch)
    monkeypatch.setattr(place.gateway, "_start", start_late)
    place.late_s = {1: 0.01, 2: 0.01}
    first = number(1)
    assert place.run([pass_gate("late", first), pass_gate("late", first)], {}) == {1: 1, 2: 1}


def test_it_is_while_the_courier_is_kept_by_a_report(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 → 2, 1 → 2      w0: 0, and 1, which is late      w1: 2"""
    report = MemoryCoordination.report

    def report_late(run: MemoryCoordination, told: Report) -> Outcome:
        gates.wait("late")
        return report(run, told)

    open_when_late(monkeypatch)
    monkeypatch.setattr(MemoryCoordination, "report", report_late)
    place.late_s = {1: 0.01}
    assert place.run(total(number(1), pass_gate("late")), {0: 0, 1: 0, 2: 1}) == 2


def test_the_heart_begins_while_the_courier_is_kept_by_what_was_printed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = MemoryCoordination.beat

    def beat_and_open(run: MemoryCoordination, *arguments: Any) -> Beat:
        gates["beat"].set()
        return beat(run, *arguments)

    monkeypatch.setattr(Runner, "_send_printed", lambda _: gates.wait("beat"))
    monkeypatch.setattr(MemoryCoordination, "beat", beat_and_open)
    place.care = Care(lease_s=1.6)  # more than the courier waits before it sends
    assert place.run(pass_gate("beat"), {0: 0}) == 1


@task
def is_known_to_be_called() -> bool:
    return threading.get_ident() in surroundings._calls


def test_where_functions_may_be_loaded_meanwhile_it_is_known_that_a_task_runs(place: Place) -> None:
    two_slots = (Assignment(0, Resources(cpus=2)),)
    assert place.run(is_known_to_be_called(), {}, assignments=two_slots)
    assert not surroundings._calls


@task
def unpicklable_late(name: str) -> list[int]:
    """The first to come here waits for the second, which fails."""
    if gates.visit("late") == 1:
        gates.wait(name)
        return Stubborn([0])
    gates[name].set()
    raise ValueError("no")


def test_an_output_that_cannot_leave_stays_though_a_second_worker_was_started(place: Place) -> None:
    place.late_s = {0: 0.01}
    assert place.run(grown(unpicklable_late("second is in"), "1"), {0: 0, 1: 0}) == [0, 1]
    assert gates.visits["late"] == 2


def test_nor_does_it_matter_if_that_is_claimed_when_the_output_is_here(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, tell = Values.keep, Runner._tell_stragglers

    def keep_long(values: Values, task: int, value: Any, *, leaves: bool) -> int:
        size_bytes = keep(values, task, value, leaves=leaves)
        if task == 0:
            gates["kept"].set()
            gates.wait("late")
        return size_bytes

    def tell_late(runner: Runner, now_s: float) -> None:
        if gates["kept"].is_set():
            tell(runner, now_s)
            if runner._told_late:
                gates["late"].set()

    monkeypatch.setattr(Values, "keep", keep_long)
    monkeypatch.setattr(Runner, "_tell_stragglers", tell_late)
    place.late_s = {0: 0.0001}
    assert place.run(grown(unpicklable("0"), "1"), {0: 0, 1: 0}) == [0, 1]


@pytest.mark.parametrize(("live", "times"), [(1, 1.0), (64, 1.0), (128, 2.0), (512, 8.0), (10_000, 8.0)])
def test_one_of_many_workers_looks_around_less_often(live: int, times: float) -> None:
    runner = SimpleNamespace(_state=SimpleNamespace(live=live))
    assert Runner._seldom.fget(runner) == times  # type: ignore[attr-defined]


# Leaving


def test_who_has_nothing_left_to_do_leaves_with_its_report(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """0, 1      w0: 0   w1: 1; whoever ends the run has to clean up before it leaves"""
    apart = []
    monkeypatch.setattr(MemoryCoordination, "leave", lambda _, summary: apart.append(summary.worker))
    assert place.run([number(1), number(2)], {0: 0, 1: 1}) == {0: 1, 1: 2}
    assert [(name, summary.tasks) for name, summary in place.summaries.items()] == [
        ({"w0", "w1"}.difference(apart).pop(), 1)
    ]


def test_what_was_printed_is_sent_before(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def send_printed(runner: Runner) -> None:
        runner._coordination.post(CLIENT, [Printed(0, "stdout", runner._name)])

    monkeypatch.setattr(Runner, "_send_printed", send_printed)
    place.run([number(1), number(2)], {0: 0, 1: 1})
    events = place.coordination.read(CLIENT, "0", 0.0)[1]
    for worker in ("w0", "w1"):
        told = [event for event in events if tells_of(event, worker)]
        assert isinstance(told[-1], WorkerLeft)
        assert len(told) > 1


def tells_of(event: object, worker: str) -> bool:
    """Whether an event tells of a worker; here what was printed is its name."""
    if isinstance(event, Printed):
        return event.text == worker
    return isinstance(event, WorkerLeft) and event.summary.worker == worker


def test_it_stays_if_there_is_something_to_do_after_all(place: Place) -> None:
    """0, 1, 2, 3 → 4      each on its own; who is last goes on with 4"""
    assert place.run(total(*[number(value) for value in range(4)]), {}) == 6
    assert sum(summary.tasks for summary in place.summaries.values()) == 5


def test_not_while_the_courier_posts_something(place: Place) -> None:
    place.run(number(1), {0: 0})
    runner = place.runners[0]
    runner._is_posting = True
    assert not runner._may_leave_with_report()
    runner._is_posting = False
    assert runner._may_leave_with_report()


def test_a_short_invocation_needs_no_courier(place: Place) -> None:
    place.run(number(1), {0: 0})
    assert place.runners[0]._courier_ended is None


def test_a_longer_one_has_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    courier = Runner._courier

    def open_and_go_on(runner: Runner) -> None:
        gates["there is a courier"].set()
        courier(runner)

    monkeypatch.setattr(Runner, "_courier", open_and_go_on)
    assert place.run(pass_gate("there is a courier"), {0: 0}) == 1


def test_not_while_the_courier_has_something_else_to_do(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 → 1, 2      0 and 1 here; while the gateway starts a worker for 2, the report of 1 is sent"""
    start, report = place.gateway._start, MemoryCoordination.report
    leaving = []

    def start_late(invocation: Invocation) -> None:
        if invocation.worker != "t0":
            gates["the gateway is asked"].set()
            gates.wait("told")
        start(invocation)

    def note(run: MemoryCoordination, told: Report) -> Outcome:
        outcome = report(run, told)
        if told.worker == "t0" and any(one.task == 1 for one in told.completions):
            leaving.append(told.leaving)
            gates["told"].set()
        return outcome

    monkeypatch.setattr(place.gateway, "_start", start_late)
    monkeypatch.setattr(MemoryCoordination, "report", note)
    first = number(1)
    assert place.run([pass_gate("the gateway is asked", first), number(first)], {}) == {1: 1, 2: 1}
    assert leaving == [None]


def test_an_invocation_ends_although_there_is_no_thread_for_its_courier(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 → 1, 2      one of which is for another worker: the courier is to start it"""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runner_module, "HelperThread", refuse)
    first = number(1)
    failure = place.failure([pass_gate("never", first), number(first)], {})
    assert "start new thread" in failure.message
