"""What workers and clients read from storage: events, outputs, the description of a run, failures, records."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury import AuguryError, UntrustedData, serde, task
from augury.config import INLINE_BYTES, Resources
from augury.dag.graph import Graph, build_workflow
from augury.dag.program import Program, encode
from augury.errors import DefinitionError, PlanError, SerializationError, StorageError
from augury.metrics.history.store import Index, Reader
from augury.metrics.records import SCHEMA, Batch, Records
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
from tests.fuzz.mutations import damaged, fuzzed, misfilled

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
PLAN = Plan(
    fingerprint=GRAPH.fingerprint,
    planner="by hand",
    assignments=tuple(Assignment(number % 2, Resources()) for number in range(len(GRAPH))),
    policies={"own": serde.dumps(int).join()},
)
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
RECORDS = Records(workflow="w", label="daily", runs=3, updated_s=17.0)
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


def reads_or_refuses(read: Callable[[], Any], *refusals: type[Exception]) -> Any:
    with suppress(*refusals):
        return bounded(read)
    return None


@fuzzed
@given(damaged([msgspec.msgpack.encode(event) for event in EVENTS]))
def test_events(data: bytes) -> None:
    event = reads_or_refuses(lambda: redis._event([b"e", data]), StorageError)
    assert isinstance(event, Event | None)


FIELDS = [
    [b"c", b"3", b"s", b"10"],
    [b"c", b"3", b"s", b"4", b"d", b"abcd"],
    [b"n", b"3", b"i", b"0 3 1 4", b"d", b"abcdefg"],
    [b"m", b"w0", b"a", b"2", b"c", b"lost"],
]
CHANGES = st.tuples(st.integers(0, 5), damaged([b"3", b"0 3 1 4", b"abcd"]))


@fuzzed
@given(
    st.sampled_from(FIELDS), st.lists(st.tuples(st.integers(0, 5), damaged([b"3", b"0 3 1 4", b"abcd"])), max_size=3)
)
def test_events_that_scripts_made(fields: list[bytes], changes: list[tuple[int, bytes]]) -> None:
    entry = list(fields)
    for place, change in changes:
        entry[place % len(entry)] = change
    event = reads_or_refuses(lambda: redis._event(entry), StorageError)
    assert isinstance(event, Event | None)


@fuzzed
@given(st.lists(st.binary(max_size=8), max_size=8))
def test_events_of_any_fields(fields: list[bytes]) -> None:
    reads_or_refuses(lambda: redis._event(fields), StorageError)


@fuzzed
@given(damaged([b"w0"]), damaged([msgspec.msgpack.encode(([1, 2], 1.0, 512))]), damaged([b"lost", b"memory"]))
def test_claims(name: bytes, data: bytes, cause: bytes) -> None:
    claim = reads_or_refuses(lambda: redis._claim(name, 2, data), StorageError)
    assert claim is None or claim.resources.memory_mb >= 1
    reads_or_refuses(lambda: redis._hopeless(name, 2, 3, cause, data), StorageError)


@fuzzed
@given(misfilled([([1, 2], 1.0, 512)]))
def test_claims_that_are_filled_in_wrongly(value: Any) -> None:
    reads_or_refuses(lambda: redis._claim(b"w0", 2, msgspec.msgpack.encode(value)), StorageError)


@fuzzed
@given(damaged([b"1234", b"12:0123456789ab", b"0:"]))
def test_stored_outputs(data: bytes) -> None:
    reads_or_refuses(lambda: redis._stored(data), StorageError)


@fuzzed
@given(damaged([msgspec.msgpack.encode(SPEC)]))
def test_the_description_of_a_run_is_taken_as_it_was_signed_or_not_at_all(data: bytes) -> None:
    spec = reads_or_refuses(lambda: redis._decode_spec(data), StorageError)
    if spec is not None and spec != SPEC:
        with pytest.raises(AuguryError):
            bounded(lambda: RunCache().add("r1", spec, process_keyring()))


def test_the_description_of_a_run_is_read_if_nobody_changed_it() -> None:
    spec = redis._decode_spec(msgspec.msgpack.encode(SPEC))
    assert RunCache().add("r1", spec, process_keyring()).view.graph == GRAPH


@fuzzed
@given(damaged(FAILURES))
def test_failures(data: bytes) -> None:
    failure = bounded(lambda: decode_failure(data))
    assert isinstance(to_exception(failure, GRAPH, PLAN, seal=SEAL), AuguryError | ValueError)


@fuzzed
@given(misfilled([msgspec.msgpack.decode(failure) for failure in FAILURES]))
def test_failures_that_are_filled_in_wrongly(value: Any) -> None:
    error = to_exception(decode_failure(msgspec.msgpack.encode(value)), GRAPH, PLAN, seal=SEAL)
    assert isinstance(error, AuguryError | ValueError)


@fuzzed
@given(misfilled(EVENTS))
def test_events_that_are_filled_in_wrongly(value: Any) -> None:
    reads_or_refuses(lambda: redis._event([b"e", msgspec.msgpack.encode(value)]), StorageError)


@fuzzed
@given(misfilled([SPEC]))
def test_descriptions_that_are_filled_in_wrongly(value: Any) -> None:
    spec = reads_or_refuses(lambda: redis._decode_spec(msgspec.msgpack.encode(value)), StorageError)
    if spec is not None and spec != SPEC:
        with pytest.raises(AuguryError):
            bounded(lambda: RunCache().add("r1", spec, process_keyring()))


@fuzzed
@given(misfilled([msgspec.json.decode(PLAN.to_json())]))
def test_plans_as_json_that_are_filled_in_wrongly(value: Any) -> None:
    text = msgspec.json.encode(value, enc_hook=str)
    plan = reads_or_refuses(lambda: Plan.from_json(text), PlanError)
    if plan is not None:
        reads_or_refuses(lambda: plan.validate(GRAPH), PlanError)


@fuzzed
@given(misfilled([msgspec.msgpack.decode(GRAPH.encode())]))
def test_graphs_that_are_filled_in_wrongly(value: Any) -> None:
    reads_or_refuses(lambda: Graph.decode(msgspec.msgpack.encode(value)), SerializationError)


@fuzzed
@given(misfilled([msgspec.msgpack.decode(RECORDS.encode())]))
def test_histories_that_are_filled_in_wrongly(value: Any) -> None:
    data = msgspec.msgpack.encode(value)
    reads_or_refuses(lambda: Records.decode(data), DefinitionError)
    bounded(lambda: Reader("here").head("w", data))


@fuzzed
@given(damaged([SEAL.sign("o1", serde.dumps([1, "x"]).join()), SEAL.sign("o1", serde.dumps("x" * 5000).join())]))
def test_outputs_pass_only_as_they_were(data: bytes) -> None:
    try:
        SEAL.check("o1", data)
    except UntrustedData:
        return
    assert serde.loads(data) in ([1, "x"], "x" * 5000)


# What is authenticated before: decoded strictly all the same


@fuzzed
@given(damaged([GRAPH.encode()]))
def test_graphs(data: bytes) -> None:
    assert isinstance(reads_or_refuses(lambda: Graph.decode(data), SerializationError), Graph | None)


@fuzzed
@given(damaged([PROGRAM.encode()]))
def test_programs(data: bytes) -> None:
    program = reads_or_refuses(lambda: Program.decode(data), SerializationError)
    assert isinstance(program, Program | None)


@fuzzed
@given(damaged([PLAN.encode()]))
def test_plans(data: bytes) -> None:
    plan = reads_or_refuses(lambda: Plan.decode(data), PlanError)
    if plan is not None:
        reads_or_refuses(lambda: plan.validate(GRAPH), PlanError)


@fuzzed
@given(damaged([PLAN.to_json().encode()]))
def test_plans_as_json(text: bytes) -> None:
    plan = reads_or_refuses(lambda: Plan.from_json(text), PlanError)
    if plan is not None:
        reads_or_refuses(lambda: plan.validate(GRAPH), PlanError)


# Records and history


@fuzzed
@given(damaged([Batch(SCHEMA, (), b"").encode()]))
def test_batches_of_records(data: bytes) -> None:
    reads_or_refuses(lambda: Batch.decode(data, platform="p", planner="q"), DefinitionError)


@fuzzed
@given(damaged([RECORDS.encode()]))
def test_histories(data: bytes) -> None:
    reads_or_refuses(lambda: Records.decode(data), DefinitionError)
    bounded(lambda: Reader("here").read("w", data))
    bounded(lambda: Reader("here").head("w", data))


@fuzzed
@given(damaged([Index({"a": "b"}).encode()]))
def test_indexes_of_histories(data: bytes) -> None:
    assert isinstance(bounded(lambda: Index.decode(data)), Index)
