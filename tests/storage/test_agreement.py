"""Redis and memory give the same answers to the same random calls, whenever they come."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from augury.config import Resources, StorageConfig
from augury.storage import redis_client
from augury.storage.memory import MemoryStorage
from augury.storage.protocols import (
    CLIENT,
    Care,
    Cause,
    Claim,
    Completion,
    Consumer,
    Coordination,
    Event,
    Missing,
    Printed,
    Published,
    Remains,
    Report,
    Status,
    Storage,
    Tried,
    WorkerSummary,
)
from augury.storage.redis import RedisStorage
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer
from tests.storage.conftest import SPEC, Clock, claim, new_run_id, told_the_time

TASKS = 7
SINKS = (TASKS - 1, TASKS - 2)
WORKERS = ("a", "b", "c", "s1/a")
CAREFUL = msgspec.structs.replace(
    SPEC, care=Care(lease_s=1000, restarts=1, client_s=3000, larger=(Resources(1, 2048), Resources(2, 3000)))
)


class Side:
    """One of the two storages, with a cursor for each inbox and a clock."""

    def __init__(self, storage: Storage, run_id: str, clock: Clock) -> None:
        self.run: Coordination = storage.coordination(run_id)
        self.clock = clock
        self.cursors: dict[str, str] = {}

    def read(self, inbox: str) -> list[Event]:
        self.cursors[inbox], events = self.run.read(inbox, self.cursors.get(inbox, "0"), 0)
        return events

    def suspend(self, worker: str, attempt: int, grace_s: float) -> bool:
        return self.run.suspend(worker, attempt, self.cursors.get(worker, "0"), grace_s)


@dataclass(frozen=True)
class Call:
    """Something to do to both; shown when they differ."""

    name: str
    arguments: tuple[object, ...]
    do: Callable[[Side], object]

    def __repr__(self) -> str:
        return f"{self.name}{self.arguments}"


@st.composite
def workflows(draw: st.DrawFn) -> list[tuple[Consumer, ...]]:
    """For each task its consumers: later ones, on a worker or flexible, each with the number of its inputs."""
    deps = [sorted(draw(st.sets(st.integers(0, task - 1), max_size=3))) if task else [] for task in range(TASKS)]
    workers = draw(st.lists(st.sampled_from(("", "", *WORKERS)), min_size=TASKS, max_size=TASKS))
    return [
        tuple(Consumer(other, len(deps[other]), workers[other]) for other in range(TASKS) if task in deps[other])
        for task in range(TASKS)
    ]


def completions(consumers: Sequence[tuple[Consumer, ...]]) -> st.SearchStrategy[Completion]:
    def build(task: int, inline: bytes | None, held: bool, keep: bool, watchers: tuple[str, ...]) -> Completion:
        return Completion(
            task,
            size_bytes=len(inline or b"x" * task),
            inline=None if held else inline,
            held=held,
            keep=keep,
            sink=task in SINKS,
            consumers=consumers[task],
            watchers=watchers,
        )

    inline = st.one_of(st.none(), st.sampled_from([b"", b"\x00\xff", b":1:"]))
    watchers = st.sampled_from([(), (), (), ("a",), ("c", "b")])
    return st.builds(
        build, st.integers(0, TASKS - 1), inline, st.sampled_from([False, False, True]), st.booleans(), watchers
    )


def reports(consumers: Sequence[tuple[Consumer, ...]]) -> st.SearchStrategy[Call]:
    report = st.builds(
        Report,
        worker=st.sampled_from(WORKERS),
        published=st.lists(
            st.builds(Published, st.integers(0, TASKS - 1), st.integers(0, 9), st.sampled_from([None, b"p"])),
            max_size=1,
        ).map(tuple),
        completions=st.lists(completions(consumers), max_size=4).map(tuple),
        claims=st.lists(st.sampled_from(WORKERS).map(claim), max_size=2).map(tuple),
        ran=st.integers(0, 2),
        attempt=st.sampled_from([1, 1, 1, 2, 3]),
        taken=st.sampled_from([(), (), (), (3,), (5, 6)]),
        tried=st.sampled_from([(), (), (), (Tried(3, 2, 1000.0),), (Tried(3, 4), Tried(5, 2, -1.0))]),
    )
    leaves = st.sampled_from([False, False, True])
    return st.tuples(report, leaves).map(lambda drawn: _report(_leaving(drawn[0]) if drawn[1] else drawn[0]))


def _report(report: Report) -> Call:
    return Call("report", (report,), lambda side: side.run.report(report))


def _leaving(report: Report) -> Report:
    return msgspec.structs.replace(report, leaving=_summary(report.worker, report.attempt))


def _summary(worker: str, attempt: int) -> WorkerSummary:
    return WorkerSummary(worker=worker, attempt=attempt, cold=True, duration_s=1, memory_mb=1, tasks=0)


def others() -> st.SearchStrategy[Call]:
    workers, attempts = st.sampled_from(WORKERS), st.integers(1, 3)
    inboxes = st.sampled_from((CLIENT, *WORKERS))
    losses = st.builds(Missing, workers, attempts, st.sampled_from(list(Cause)))
    return st.one_of(
        st.tuples(workers, attempts).map(lambda a: Call("join", a, lambda side: side.run.join(*a))),
        st.tuples(workers, attempts).map(lambda a: Call("leave", a, lambda side: side.run.leave(_summary(*a)))),
        st.tuples(workers, attempts, st.sampled_from([0.0, 0.0, 1000.0])).map(
            lambda a: Call("suspend", a, lambda side: side.suspend(*a))
        ),
        st.tuples(st.sampled_from(("", CLIENT, *WORKERS)), attempts, st.lists(losses, max_size=3)).map(
            lambda a: Call("beat", a, lambda side: side.run.beat(*a))
        ),
        st.sampled_from([(100.0,), (400.0,), (600.0,), (1100.0,), (9000.0,), (90000.0,)]).map(
            lambda a: Call("wait", a, lambda side: side.clock.wait(*a))
        ),
        st.tuples(inboxes).map(lambda a: Call("read", a, lambda side: side.read(*a))),
        st.tuples(inboxes).map(lambda a: Call("post", a, lambda side: side.run.post(*a, [Printed(1, "stdout", "x")]))),
    )


def endings() -> st.SearchStrategy[Call]:
    return st.sampled_from(
        [
            Call("fail", (), lambda side: side.run.fail(Status.FAILED, b"why")),
            Call("cancel", (), lambda side: side.run.fail(Status.CANCELLED, b"")),
            Call("prune", (), lambda side: side.run.prune()),
            Call("follow", (), lambda side: side.run.follow()),
            Call("leave for others", (), lambda side: side.run.unfollow(creator=False, keep=True)),
            Call("unfollow", (), lambda side: side.run.unfollow(creator=False)),
            Call("unfollow by its creator", (), lambda side: side.run.unfollow()),
            Call("remove", (), lambda side: side.run.remove()),
        ]
    )


@st.composite
def stories(draw: st.DrawFn) -> list[Call]:
    consumers = draw(workflows())
    middle = st.one_of(reports(consumers), reports(consumers), others())
    calls = draw(st.lists(middle, min_size=1, max_size=20))
    return calls + draw(st.lists(st.one_of(endings(), middle), max_size=5))


def state(side: Side) -> object:
    """All that can be asked of a run."""
    return (
        side.run.status(),
        side.run.progress(),
        side.run.outputs(range(TASKS)),
        side.run.objects_stored(),
        side.run.spec(),
        remains(side),
        [side.run.read(inbox, "0", 0)[1] for inbox in (CLIENT, *WORKERS)],
    )


def remains(side: Side) -> Remains:
    """What is left, without the time that passes."""
    found = side.run.remains()
    return msgspec.structs.replace(found, tried=tuple(Tried(one.task, one.tries) for one in found.tried))


@pytest.fixture(scope="module")
def redis_side(redis_server: RedisServer) -> Iterator[RedisStorage]:
    storage = RedisStorage(StorageConfig(redis=redis_server.address))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis_client, "load_scripts", told_the_time)
        yield storage
    storage.close()


@pytest.fixture(scope="module")
def redis_clock(redis_server: RedisServer) -> Iterator[Clock]:
    client = RedisClient(redis_server.address)
    yield Clock(client)
    client.close()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(story=stories())
def test_redis_and_memory_agree(redis_side: RedisStorage, redis_clock: Clock, story: list[Call]) -> None:
    run_id = new_run_id()
    clock = Clock()
    redis_clock.wait(clock.now_s - redis_clock.now_s)
    sides = [Side(MemoryStorage(clock, ttl_s=1e9), run_id, clock), Side(redis_side, run_id, redis_clock)]
    for side in sides:
        side.run.create(CAREFUL, SINKS, [claim("a", 0)], [Claim("b", (), Resources(1.5, 1024))])
    for call in story:
        expected, actual = (call.do(side) for side in sides)
        assert actual == expected, call
        expected, actual = (state(side) for side in sides)
        assert actual == expected, call
    sides[1].run.remove()
