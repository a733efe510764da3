"""Shared storage in Redis. Keys are in `keys.py`; what happens atomically is in the scripts of `lua/`."""

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from augury.config import Resources, StorageConfig, public_address
from augury.errors import ObjectTooLarge, StorageError
from augury.serde import Blob, Buffer
from augury.storage.foreign import guarded
from augury.storage.keys import PING, RunKeys, object_key
from augury.storage.protocols import (
    NEVER_UP_S,
    Beat,
    Cause,
    Claim,
    Event,
    Hopeless,
    Joined,
    Missing,
    Objects,
    Outcome,
    Printed,
    Progress,
    Recorded,
    Remains,
    Report,
    RunEnded,
    RunSpec,
    Status,
    Stop,
    Stored,
    TaskCompleted,
    TaskReady,
    Tried,
    WorkerLeft,
    WorkerMissed,
    WorkerSummary,
)
from augury.storage.redis_client import PATIENT, Argument, Caller, Callers, RedisClient
from augury.storage.redis_memory import check_eviction
from augury.storage.run_state import STARTED_AGAIN
from augury.storage.shm import SharedMemoryObjects
from augury.storage.taskset import TaskSet

_LARGEST_OBJECT_BYTES = 511 * 1024**2
"""Redis takes values up to 512 MiB; a little is left for what else is in the command."""

_MAX_EVENTS = 1000
"""How many events one read returns at most."""

_MAX_FIELDS = 1000
"""How many outputs or objects one command asks for at most."""

_SLICE_S = 1.0
"""How long a read waits before it looks whether the run still exists."""

_PING_PATIENCE_S = 1.0
"""Who asks whether the address is right wants to know it soon."""

_encode = msgspec.msgpack.Encoder().encode
_decode_event = msgspec.msgpack.Decoder(
    TaskReady | TaskCompleted | Stop | RunEnded | Printed | Recorded | WorkerLeft | WorkerMissed
).decode
_decode_claim = guarded("a claim")(msgspec.msgpack.Decoder(tuple[list[int], float, int]).decode)
_decode_spec = guarded("the description of a run")(msgspec.msgpack.Decoder(RunSpec).decode)
_SUCCEEDED = _encode(RunEnded(Status.SUCCEEDED))
_NOBODY = Caller(b"", 0, b"")


class RedisStorage:
    """An open connection to Redis, and to shared memory if the configuration names a folder.

    Connects when first used. Thread-safe; a process that forks opens another one after the fork.
    """

    def __init__(self, config: StorageConfig) -> None:
        self._config = config
        patient = replace(PATIENT, patience_s=config.patience_s)
        self._client = RedisClient(config.redis, timeout_s=config.timeout_s, backoff=patient)

    def coordination(self, run_id: str) -> "RedisCoordination":
        """The shared state of a run, whether or not it exists."""
        return RedisCoordination(self._client, run_id, self._config.ttl_s)

    def objects(self, run_id: str) -> Objects:
        """The large values of a run."""
        if self._config.object_dir:
            return SharedMemoryObjects(Path(self._config.object_dir), run_id)
        return RedisObjects(self._client, run_id, self._config.ttl_s)

    def ping(self) -> None:
        """Check that Redis answers, lets us in, can be written to, and keeps what it is given."""
        self._client.pipeline([("SET", PING, b"", "EX", 1), ("UNLINK", PING)], patience_s=_PING_PATIENCE_S)
        check_eviction(self._client)

    def close(self) -> None:
        """Close connections."""
        self._client.close()


class RedisCoordination:
    """One run's shared state: each change is one script, and one round trip."""

    def __init__(self, client: RedisClient, run_id: str, ttl_s: int) -> None:
        self._client = client
        self._run_id = run_id
        self._ttl_s = ttl_s
        self._keys = RunKeys.of(run_id)
        self._objects = RedisObjects(client, run_id, ttl_s)  # of which there are none if they are in shared memory
        self._callers = Callers()

    def create(
        self, spec: RunSpec, sinks: Sequence[int], claims: Sequence[Claim], planned: Sequence[Claim] = ()
    ) -> None:
        """Begin a run: RUNNING, with these workers claimed for the caller to start."""
        data = _encode(spec)
        if len(data) > _LARGEST_OBJECT_BYTES:
            raise ObjectTooLarge(
                f"the workflow itself (functions, arguments) is {len(data) / 1024**2:,.0f} MiB and Redis takes "
                f"at most {_LARGEST_OBJECT_BYTES // 1024**2} MiB: pass large values as arguments, "
                "or make fewer or lighter tasks"
            )
        care = spec.care
        request = (
            self._ttl_s,
            tuple(sinks),
            tuple(map(_wanted, claims)),
            tuple(map(_wanted, planned)),
            care.lease_s,
            care.restarts,
            [(one.cpus, one.memory_mb) for one in care.larger],
        )
        orphaned = (_encode(RunEnded(Status.CANCELLED)), _encode(Stop(Status.CANCELLED)))
        if self._once("create", [], [data, _encode(request), care.client_s, *orphaned]) == 0:
            raise StorageError(f"run {self._run_id} exists already in Redis at {public_address(self._client.url)}")

    def spec(self) -> RunSpec | None:
        """What `create` was given, or None if the run is gone."""
        data = self._client.command("GET", self._keys.spec)
        return None if data is None else _decode_spec(data)

    def join(self, worker: str, attempt: int) -> Joined:
        """A worker has started. It no longer counts as starting, and holds a lease from now on."""
        return _joined(self._once("join", [worker], [worker, attempt]))

    def remains(self) -> Remains:
        """What is left of the work of lost invocations."""
        keys = self._keys
        whole = (("HGETALL", key) for key in (keys.grants, keys.claims, keys.losses))
        return _remains(self._client.pipeline([("HKEYS", keys.outputs), *whole, ("TIME",)]))

    def live(self) -> tuple[Missing, ...]:
        """The invocations that are expected or at work."""
        return self._named_in(self._keys.leases)

    def starting(self) -> tuple[Missing, ...]:
        """The invocations that are expected, and have not come up."""
        return self._named_in(self._keys.starting)

    def beat(self, worker: str = "", attempt: int = 0, lost: Sequence[Missing] = ()) -> Beat:
        """Renew a lease; see to those that have run out."""
        told = [argument for loss in lost for argument in (loss.worker, loss.attempt, loss.cause.value)]
        arguments = [worker, attempt, STARTED_AGAIN, NEVER_UP_S, *told]
        *reply, objects_due = self._once("beat", [], arguments)
        if objects_due:
            with suppress(StorageError):  # somebody else will, before they are too old
                self._objects.prolong()
        return _beat(*reply)

    def report(self, report: Report) -> Outcome:
        """Count completions, store small outputs, wake and claim workers: one atomic round trip."""
        inboxes = {
            consumer.worker for completion in report.completions for consumer in completion.consumers if consumer.worker
        }
        inboxes.update(watcher for completion in report.completions for watcher in completion.watchers)
        return _outcome(self._once("report", inboxes, _report_arguments(report)))

    def outputs(self, tasks: Sequence[int]) -> dict[int, Stored]:
        """The stored outputs among these tasks."""
        found = {}
        for start in range(0, len(tasks), _MAX_FIELDS):
            asked = tasks[start : start + _MAX_FIELDS]
            values = self._client.command("HMGET", self._keys.outputs, *asked)
            found.update({task: _stored(value) for task, value in zip(asked, values, strict=True) if value is not None})
        return found

    def read(self, inbox: str, cursor: str, timeout_s: float) -> tuple[str, list[Event]]:
        """The events after a cursor ("0" is the start) and the new cursor; waits for one if there is none."""
        deadline_s = time.monotonic() + timeout_s
        key = self._keys.inbox(inbox)
        wanted = ("COUNT", _MAX_EVENTS)
        waiting: tuple[str | int, ...] = ()
        while True:
            # In slices: nothing wakes those who wait for the inbox of a run that was removed.
            found, exists = self._client.pipeline(
                [("XREAD", *wanted, *waiting, "STREAMS", key, cursor), ("EXISTS", self._keys.meta)]
            )
            if found:
                entries = found[0][1]
                return entries[-1][0].decode(), [_event(fields) for _, fields in entries]
            if not exists:
                return cursor, [Stop(Status.GONE)]
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                return cursor, []
            waiting = ("BLOCK", max(1, round(min(remaining_s, _SLICE_S) * 1000)))

    def post(self, inbox: str, events: Sequence[Event]) -> None:
        """Append events to an inbox, if the run exists."""
        if events:
            self._once("post", [inbox], [inbox, *map(_encode, events)])

    def suspend(self, worker: str, attempt: int, cursor: str, grace_s: float) -> bool:
        """Give a slot up, if some worker has been starting for `grace_s` and no event is after the cursor."""
        return bool(self._once("suspend", [worker], [worker, attempt, cursor, grace_s]))

    def fail(self, status: Status, failure: bytes, worker: str = "", attempt: int = 0) -> bool:
        """End a RUNNING run as FAILED or CANCELLED; True for the one call that ended it."""
        if status not in (Status.FAILED, Status.CANCELLED):
            raise ValueError(f"a run fails as FAILED or CANCELLED, not {status.name}")
        events = [_encode(RunEnded(status, failure)), _encode(Stop(status))]
        return bool(self._once("fail", [], [status.value, *events, worker, attempt]))

    def leave(self, summary: WorkerSummary) -> None:
        """An invocation has ended: a `WorkerLeft` goes to the client, also after the run is over."""
        self._once("leave", [], [summary.worker, summary.attempt, _encode(WorkerLeft(summary))])

    def progress(self) -> Progress:
        """How far the run is."""
        counts, starting = self._client.pipeline(
            [("HMGET", self._keys.meta, "ran", "invocations"), ("ZCARD", self._keys.starting)]
        )
        ran, invocations = _numbers(count or 0 for count in counts)
        return Progress(ran=ran, invocations=invocations, starting=starting)

    def status(self) -> Status:
        """Where the run stands."""
        status = self._client.command("HGET", self._keys.meta, "status")
        return Status.GONE if status is None else _status(status)

    def objects_stored(self) -> list[int]:
        """The tasks whose outputs are objects, not inline."""
        return sorted(_numbers(self._client.command("SMEMBERS", self._keys.large)))

    def prune(self) -> None:
        """Delete what nobody needs once the run is over; while it runs, nothing."""
        self._script("prune", [], [])

    def follow(self) -> bool:
        """One more client follows the run; False if it is gone."""
        return bool(self._once("follow", [], []))

    def unfollow(self, *, creator: bool = True, keep: bool = False) -> bool:
        """A client follows the run no more; True, and the run is removed, if nobody needs it."""
        return bool(self._once("unfollow", [], [int(creator), int(keep)]))

    def remove(self) -> None:
        """Delete every key of the run but its objects. The run is GONE from now on."""
        self._script("remove", [], [])

    def _named_in(self, key: str) -> tuple[Missing, ...]:
        """The workers in a sorted set, with their attempts."""
        names = self._client.command("ZRANGE", key, 0, -1)
        attempts = self._client.command("HMGET", self._keys.workers, *names) if names else []
        return _missing(names, attempts)

    def _script(self, name: str, inboxes: Iterable[str], arguments: Sequence[Argument]) -> Any:
        """Run a script that may be repeated."""
        return self._call(name, inboxes, _NOBODY, arguments)

    def _once(self, name: str, inboxes: Iterable[str], arguments: Sequence[Argument]) -> Any:
        """Run a script that tells its reply once, and recognises a call that was sent again."""
        with self._callers.one() as caller:
            return self._call(name, inboxes, caller, arguments)

    def _call(self, name: str, inboxes: Iterable[str], caller: Caller, arguments: Sequence[Argument]) -> Any:
        keys = [*self._keys.shared, *map(self._keys.inbox, inboxes)]
        return self._client.script(name, keys, [*caller, *arguments])


class RedisObjects:
    """Large values in Redis, one key each."""

    def __init__(self, client: RedisClient, run_id: str, ttl_s: int) -> None:
        self._client = client
        self._run_id = run_id
        # Whoever beats has them live on after each quarter of `ttl_s`, so that no object expires before its run.
        self._life_s = ttl_s + math.ceil(ttl_s / 4)
        self._index = RunKeys.of(run_id).objects

    def create(self) -> None:
        """Make room for the run; `put` fails before, and after `remove`."""
        self._client.pipeline([("RPUSH", self._index, b""), ("EXPIRE", self._index, self._life_s)])

    def put(self, key: str, blob: Blob) -> None:
        """Store a value; its parts are sent one after another, and never joined."""
        if blob.size_bytes > _LARGEST_OBJECT_BYTES:
            raise ObjectTooLarge(
                f"{key} of run {self._run_id} has {blob.size_bytes / 1024**2:,.0f} MiB and Redis takes at most "
                f"{_LARGEST_OBJECT_BYTES // 1024**2} MiB: return a smaller value, split it over several tasks, "
                "or keep objects in shared memory or an object store"
            )
        place = object_key(self._run_id, key)
        registered, _ = self._client.set_with(
            place,
            blob,
            self._life_s,
            [("RPUSHX", self._index, key), ("EXPIRE", self._index, self._life_s)],
            once=True,
        )
        if not registered:
            self._client.command("UNLINK", place)
            raise StorageError(
                f"cannot store {key}: run {self._run_id} is gone from Redis at {public_address(self._client.url)}"
            )

    def get(self, keys: Sequence[str]) -> dict[str, Buffer]:
        """Values by key; keys that are not there are left out."""
        found: dict[str, Buffer] = {}
        for start in range(0, len(keys), _MAX_FIELDS):
            asked = keys[start : start + _MAX_FIELDS]
            values = self._client.command("MGET", *(object_key(self._run_id, key) for key in asked))
            found.update({key: value for key, value in zip(asked, values, strict=True) if value is not None})
        return found

    def delete(self, keys: Iterable[str]) -> None:
        """Forget values; keys that are not there do not matter."""
        places = [object_key(self._run_id, key) for key in keys]
        for start in range(0, len(places), _MAX_FIELDS):
            self._client.command("UNLINK", *places[start : start + _MAX_FIELDS])

    def prolong(self) -> None:
        """Have all objects live as long again as if they were stored now."""
        places = [self._index, *(object_key(self._run_id, key) for key in _names(self._listed()))]
        for start in range(0, len(places), _MAX_FIELDS):
            self._client.pipeline([("EXPIRE", place, self._life_s) for place in places[start : start + _MAX_FIELDS]])

    def remove(self) -> None:
        """Forget everything of the run."""
        self.delete(_names(self._listed()))
        # At once, so that a value stored meanwhile is either in the list or finds that there is none.
        *_, (keys, _) = self._client.pipeline(
            [("MULTI",), ("LRANGE", self._index, 0, -1), ("UNLINK", self._index), ("EXEC",)]
        )
        self.delete(_names(keys))

    def _listed(self) -> list[bytes]:
        keys: list[bytes] = self._client.command("LRANGE", self._index, 0, -1)
        return keys


def _report_arguments(report: Report) -> list[bytes]:
    """A report for the script: small outputs as arguments of their own, and their places in the encoded rest.

    The msgpack of Redis 6 reads no binary data, and they are not copied this way.
    """
    inline: list[bytes] = []

    def place(data: bytes | None) -> int | None:
        if data is None:
            return None
        inline.append(data)
        return len(inline)

    request = (
        [(one.task, one.size_bytes, place(one.inline)) for one in report.published],
        [
            (
                one.task,
                one.size_bytes,
                place(one.inline),
                one.held,
                one.keep or bool(one.watchers),
                one.sink,
                one.consumers,
                one.watchers,
            )
            for one in report.completions
        ],
        [_wanted(claim) for claim in report.claims],
        report.ran,
        report.worker,
        report.attempt,
        report.taken,
        report.tried,
        None if report.leaving is None else place(_encode(WorkerLeft(report.leaving))),
    )
    return [_encode(request), _SUCCEEDED, *inline]


@guarded("the status of a run")
def _status(data: bytes) -> Status:
    return Status(data.decode())


@guarded("a number")
def _numbers(found: Iterable[bytes | int]) -> list[int]:
    return list(map(int, found))


@guarded("the name of an object")
def _names(found: Iterable[bytes]) -> list[str]:
    """Those of objects; the list begins with an empty one."""
    return [name.decode() for name in found if name]


@guarded("the attempt of a worker")
def _missing(names: Sequence[bytes], attempts: Sequence[bytes | None]) -> tuple[Missing, ...]:
    """Those that have an attempt."""
    found = zip(names, attempts, strict=True)
    return tuple(Missing(name.decode(), int(attempt)) for name, attempt in found if attempt is not None)


@guarded("the state of a run")
def _joined(reply: Sequence[Any]) -> Joined:
    status, done, live, starting, restarted = reply
    return Joined(_status(status), TaskSet(done), live, starting, bool(restarted))


@guarded("what is left of a worker")
def _remains(found: Sequence[Any]) -> Remains:
    stored, grants, claims, losses, now = found
    now_s = int(now[0]) + int(now[1]) / 1_000_000
    tasks = {name.decode(): tuple(_decode_claim(data)[0]) for name, data in _pairs(claims)}
    return Remains(
        stored=frozenset(_numbers(stored)),
        grants={int(task): worker.decode() for task, worker in _pairs(grants)},
        claims={name: given for name, given in tasks.items() if given},
        tried=_tried(losses, now_s),
    )


def _beat(status: bytes, start: Sequence[Any], hopeless: Sequence[Any]) -> Beat:
    claims = [_claim(*start[place : place + 3]) for place in range(0, len(start), 3)]
    given_up = [_hopeless(*hopeless[place : place + 5]) for place in range(0, len(hopeless), 5)]
    return Beat(_status(status), tuple(claims), tuple(given_up))


@guarded("the name of a worker")
def _outcome(reply: list[Any]) -> Outcome:
    status = _status(reply[0])
    if len(reply) == 1:
        return Outcome(status)
    _, ready, started, store_first, live, again, left = reply
    names = (name.decode() for name in started[::2])
    return Outcome(
        status=status,
        ready=tuple(ready),
        started=tuple(zip(names, started[1::2], strict=True)),
        store_first=tuple(store_first),
        live=live,
        again=tuple(_claim(*again[place : place + 3]) for place in range(0, len(again), 3)),
        left=bool(left),
    )


def _wanted(claim: Claim) -> tuple[str, tuple[int, ...], float, int]:
    return claim.worker, claim.tasks, claim.resources.cpus, claim.resources.memory_mb


@guarded("a claim")
def _claim(name: bytes, attempt: int, data: bytes) -> Claim:
    tasks, cpus, memory_mb = _decode_claim(data) if data else ((), Resources().cpus, Resources().memory_mb)
    return Claim(name.decode(), tuple(tasks), Resources(float(cpus), memory_mb), attempt)


@guarded("a claim")
def _hopeless(name: bytes, attempt: int, losses: int, cause: bytes, data: bytes) -> Hopeless:
    return Hopeless(name.decode(), attempt, losses, _claim(name, attempt, data).resources, Cause(cause.decode()))


def _pairs(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


@guarded("a task that was tried")
def _tried(losses: Sequence[bytes], now_s: float) -> tuple[Tried, ...]:
    found = []
    for name, value in _pairs(losses):
        if name.startswith(b"tried "):
            tries, due_s = value.split()
            found.append(Tried(int(name[6:]), int(tries), float(due_s) - now_s))
    return tuple(sorted(found, key=lambda one: one.task))


@guarded("an output")
def _stored(value: bytes) -> Stored:
    size, separator, inline = value.partition(b":")
    return Stored(int(size), inline if separator else None)


@guarded("an event")
def _event(fields: list[bytes]) -> Event:
    """An event as encoded here (`e`), or one of a script: `WorkerMissed` (`m`), `TaskCompleted` (`c`), `TaskReady`."""
    if fields[0] == b"e":
        event: Event = _decode_event(fields[1])
        return event
    if fields[0] == b"m":
        return WorkerMissed(fields[1].decode(), int(fields[3]), Cause(fields[5].decode()))
    if fields[0] == b"c":
        return TaskCompleted(int(fields[1]), int(fields[3]), fields[5] if len(fields) > 4 else None)
    _, task, _, index, _, data = fields
    numbers = [int(number) for number in index.split()]
    outputs, position = {}, 0
    for source, length in zip(numbers[::2], numbers[1::2], strict=True):
        outputs[source] = data[position : position + length]
        position += length
    return TaskReady(int(task), outputs)
