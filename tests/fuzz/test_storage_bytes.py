"""What workers and clients read from storage: events, outputs, the description of a run, failures, records."""

import math
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from augury import AuguryError, UntrustedData, serde, task
from augury.config import INLINE_BYTES, Resources
from augury.dag.graph import Graph, build_workflow
from augury.dag.program import Program, encode
from augury.errors import DefinitionError, PlanError, SerializationError, StorageError
from augury.metrics.history.store import Index, Reader
from augury.metrics.records import SCHEMA, Batch, Records
from augury.plan.hints import OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.storage import redis
from augury.storage.protocols import (
    Event,
    Printed,
    Recorded,
    RunEnded,
    RunSpec,
    Status,
    Stop,
    TaskCompleted,
    TaskReady,
    WorkerLeft,
    WorkerSummary,
)
from augury.storage.signing import sign_spec
from augury.trust import process_keyring
from augury.versions import essential_versions
from augury.worker.code import RunCache
from augury.worker.failure import Failure, decode_failure, task_failure, to_exception
from tests.fuzz.mutations import CASES, JSON, MSGPACK, damage, damaged, try_all, try_parts
from tests.metrics.building import tasks

MOST_BYTES = 64 * 1024 * 1024
"""No input of a few hundred bytes may make us take more."""

SEAL = process_keyring().seal("r1")


@task
def load(part: int, *, scale: float = 1.0) -> list[float]:
    return [part * scale]


@task
def merge(parts: list[list[float]], names: dict[str, int]) -> int:
    return len(parts) + len(names)


WORKFLOW = build_workflow(merge([load(part, scale=0.5) for part in range(4)], {"a": 1}))
GRAPH = WORKFLOW.graph
PROGRAM, _ = encode(WORKFLOW, shared_files=False)
PLAIN = Plan(
    fingerprint=GRAPH.fingerprint,
    planner="by hand",
    assignments=tuple(Assignment(number % 2, Resources()) for number in range(len(GRAPH))),
    hints={
        0: (PreWarmHint(Resources(), 2, 0.5), PreLoadHint()),
        1: (TaskDupHint(0.1, 0.2), OwnHint("own", {"sizes": [1, 2.5, math.inf], "more": {"float": "nan"}})),
    },
    launch=(PreWarmHint(Resources(2, 512)),),
    ranks=tuple(range(len(GRAPH))),
    policies={"own": serde.dumps(int).join()},
    spread=2,
)
PLAN = msgspec.structs.replace(PLAIN, predicted=Outlook(GRAPH).simulate(PLAIN))
SPEC = sign_spec(
    RunSpec(
        name="fuzzed",
        graph=GRAPH.encode(),
        program=PROGRAM.encode(),
        plan=PLAN.encode(),
        concurrency=4,
        inline_bytes=INLINE_BYTES,
        sys_path=("/somewhere",),
        versions=essential_versions(),
    ),
    SEAL,
)
SUMMARY = WorkerSummary(
    worker="w0", attempt=1, cold=True, duration_s=1.0, memory_mb=512, tasks=3, records=Batch(SCHEMA, ()).encode()
)
EVENTS: list[Event] = [
    TaskReady(3, {0: b"abc", 1: b"defg"}),
    TaskCompleted(2, 10, b"0123456789"),
    Stop(Status.CANCELLED),
    RunEnded(Status.FAILED, b"why"),
    Printed(1, "stdout", "hello"),
    Recorded(Batch(SCHEMA, ()).encode()),
    WorkerLeft(SUMMARY),
]
RECORDS = Records(workflow="w", label="daily", runs=3, updated_s=17.0, series=tuple(tasks(2)))
FAILURES = [
    task_failure(2, "w0", 3, ValueError("no"), SEAL).encode(),
    Failure(worker="w1", kind="WorkerLost", message="was killed", tasks=(0, 1)).encode(),
    Failure(worker="w1", kind="GatewayError", message="refused").encode(),
]


def bounded(read: Callable[[], Any]) -> Any:
    """What reading gives; it must not take much memory."""
    tracemalloc.start()
    try:
        return read()
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < MOST_BYTES


def read_or_refused(read: Callable[[], Any], *refusals: type[Exception]) -> Any:
    try:
        return bounded(read)
    except refusals:
        return None


def test_events() -> None:
    def reads(data: bytes) -> bool:
        event = read_or_refused(lambda: redis._event([b"e", data]), StorageError)
        assert isinstance(event, Event | None)
        return event is not None

    try_all(reads, damaged(*map(msgspec.msgpack.encode, EVENTS)), least=0.06)
    try_parts(reads, MSGPACK, *EVENTS, least=0.06)


FIELDS = [
    [b"c", b"3", b"s", b"10"],
    [b"c", b"3", b"s", b"4", b"d", b"abcd"],
    [b"n", b"3", b"i", b"0 3 1 4", b"d", b"abcdefg"],
    [b"m", b"w0", b"a", b"2", b"c", b"lost"],
]


def entries() -> Iterator[list[bytes]]:
    """What scripts put into inboxes, with up to three fields damaged, left out or doubled."""
    for seed in range(CASES):
        rng = Random(seed)
        entry = list(rng.choice(FIELDS))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(entry))
            entry[place : place + 1] = rng.choices(
                [[damage(rng, b"3", b"0 3 1 4", b"abcd", entry[place])], [], 2 * [entry[place]]], (8, 1, 1)
            )[0]
            entry = entry or [b""]
        yield entry


def test_events_that_scripts_made() -> None:
    def reads(entry: list[bytes]) -> bool:
        event = read_or_refused(lambda: redis._event(entry), StorageError)
        assert isinstance(event, Event | None)
        return event is not None

    try_all(reads, entries(), least=0.15)


def reads_claim(data: bytes) -> bool:
    claim = read_or_refused(lambda: redis._claim(b"w0", 2, data), StorageError)
    assert claim is None or claim.resources.memory_mb >= 1
    return claim is not None


def test_claims() -> None:
    claim = ([1, 2], 1.0, 512)
    try_all(reads_claim, damaged(msgspec.msgpack.encode(claim)), least=0.15)
    try_parts(reads_claim, MSGPACK, claim, least=0.04)


def test_names_and_causes_of_claims() -> None:
    def reads(given: tuple[bytes, bytes]) -> bool:
        name, cause = given
        return read_or_refused(lambda: redis._hopeless(name, 2, 3, cause, b""), StorageError) is not None

    try_all(reads, ((name, b"lost") for name in damaged(b"w0")), least=0.3)
    try_all(reads, ((b"w0", cause) for cause in damaged(b"lost", b"memory", b"handover")), least=0.01)


def test_what_was_tried() -> None:
    def reads(given: tuple[bytes, bytes]) -> bool:
        return read_or_refused(lambda: redis._tried(given, 1e9), StorageError) is not None

    try_all(reads, zip(damaged(b"tried 3"), damaged(b"2 1700000000.5"), strict=True), least=0.3)


def test_stored_outputs() -> None:
    def reads(data: bytes) -> bool:
        return read_or_refused(lambda: redis._stored(data), StorageError) is not None

    try_all(reads, damaged(b"1234", b"12:0123456789ab", b"0:"), least=0.3)


def test_the_description_of_a_run_is_taken_as_it_was_signed_or_not_at_all() -> None:
    def reads(data: bytes) -> bool:
        spec = read_or_refused(lambda: redis._decode_spec(data), StorageError)
        if spec is not None and spec != SPEC:
            with pytest.raises(AuguryError):
                bounded(lambda: RunCache().add("r1", spec, process_keyring()))
        return spec is not None

    try_all(reads, damaged(msgspec.msgpack.encode(SPEC)), least=0.3)
    try_parts(reads, MSGPACK, SPEC, least=0.1)


def test_the_description_of_a_run_is_read_if_nobody_changed_it() -> None:
    spec = redis._decode_spec(msgspec.msgpack.encode(SPEC))
    assert RunCache().add("r1", spec, process_keyring()).view.graph == GRAPH


def test_failures() -> None:
    def reads(data: bytes) -> bool:
        failure = bounded(lambda: decode_failure(data))
        assert isinstance(to_exception(failure, GRAPH, PLAN, seal=SEAL), AuguryError | ValueError)
        return "cannot be read" not in failure.message

    try_all(reads, damaged(*FAILURES), least=0.3)
    try_parts(reads, MSGPACK, *map(msgspec.msgpack.decode, FAILURES), least=0.1)


def test_outputs_pass_only_as_they_were() -> None:
    def reads(data: bytes) -> bool:
        try:
            SEAL.check("o1", data)
        except UntrustedData:
            return False
        assert serde.loads(data) in ([1, "x"], "x" * 5000)
        return True

    outputs = [SEAL.sign("o1", serde.dumps(value).join()) for value in ([1, "x"], "x" * 5000)]
    try_all(reads, damaged(*outputs), least=0.0)


# What is authenticated before: decoded strictly all the same


def test_graphs() -> None:
    def reads(data: bytes) -> bool:
        graph = read_or_refused(lambda: Graph.decode(data), SerializationError)
        assert isinstance(graph, Graph | None)
        return graph is not None

    try_all(reads, damaged(GRAPH.encode()), least=0.15)
    try_parts(reads, MSGPACK, msgspec.msgpack.decode(GRAPH.encode()), least=0.1)


def test_programs() -> None:
    def reads(data: bytes) -> bool:
        program = read_or_refused(lambda: Program.decode(data), SerializationError)
        assert isinstance(program, Program | None)
        return program is not None

    try_all(reads, damaged(PROGRAM.encode()), least=0.3)
    try_parts(reads, MSGPACK, msgspec.msgpack.decode(PROGRAM.encode()), least=0.04)


def reads_plan(read: Callable[[], Plan]) -> bool:
    plan = read_or_refused(read, PlanError)
    if plan is not None:
        read_or_refused(lambda: plan.validate(GRAPH), PlanError)
    return plan is not None


def test_plans() -> None:
    def reads(data: bytes) -> bool:
        return reads_plan(lambda: Plan.decode(data))

    try_all(reads, damaged(PLAN.encode()), least=0.15)
    try_parts(reads, MSGPACK, msgspec.msgpack.decode(PLAN.encode(), strict=False), least=0.1)


def test_plans_as_json() -> None:
    def reads(text: bytes) -> bool:
        return reads_plan(lambda: Plan.from_json(text))

    try_all(reads, damaged(PLAN.to_json().encode()), least=0.04)
    try_parts(reads, JSON, msgspec.json.decode(PLAN.to_json()), least=0.15)


# Records and history


BATCH = Batch(SCHEMA, tuple(tasks(2)), b"")


def test_batches_of_records() -> None:
    def reads(data: bytes) -> bool:
        read = read_or_refused(lambda: Batch.decode(data, platform="p", planner="q"), DefinitionError)
        return read is not None

    try_all(reads, damaged(BATCH.encode()), least=0.3)
    try_parts(reads, MSGPACK, msgspec.msgpack.decode(BATCH.encode()), least=0.06)


def test_histories() -> None:
    def reads(data: bytes) -> bool:
        records = read_or_refused(lambda: Records.decode(data), DefinitionError)
        bounded(lambda: Reader("here").read("w", data))
        bounded(lambda: Reader("here").head("w", data))
        return records is not None

    try_all(reads, damaged(RECORDS.encode()), least=0.15)
    try_parts(reads, MSGPACK, msgspec.msgpack.decode(RECORDS.encode()), least=0.06)


def test_indexes_of_histories() -> None:
    def reads(data: bytes) -> bool:
        index = bounded(lambda: Index.decode(data))
        assert isinstance(index, Index)
        return bool(index.subjects)

    index = Index({"a": "b"}).encode()
    try_all(reads, damaged(index), least=0.06)
    try_parts(reads, MSGPACK, msgspec.msgpack.decode(index), least=0.04)
