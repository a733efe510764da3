"""Storage that is as slow as in the cloud: wrappers that delay each call by what an `Emulation` says.

The delay comes on top of the real call, which on one host is shorter by an order of magnitude.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from augury.config import Resources
from augury.invoke.embedded.cloud import Constant, Emulation, LogNormal, StartUp
from augury.serde import Blob, Buffer
from augury.storage.protocols import (
    Beat,
    Claim,
    Coordination,
    Event,
    Joined,
    Missing,
    Objects,
    Outcome,
    Progress,
    Remains,
    Report,
    RunSpec,
    Status,
    Storage,
    Stored,
    WorkerSummary,
)

__all__ = [
    "Constant",
    "EmulatedCoordination",
    "EmulatedObjects",
    "EmulatedStorage",
    "Emulation",
    "LogNormal",
    "StartUp",
]

Sleep = Callable[[float], None]


class EmulatedObjects:
    """`Objects` as far away as in the cloud: each call takes one latency and the time to move its bytes."""

    def __init__(self, objects: Objects, emulation: Emulation, memory_mb: int, sleep: Sleep = time.sleep) -> None:
        self._objects = objects
        self._emulation = emulation
        self._memory_mb = memory_mb
        self._sleep = sleep

    def create(self) -> None:
        """See `Objects.create`."""
        self._delay(0)
        self._objects.create()

    def put(self, key: str, blob: Blob) -> Buffer | None:
        """See `Objects.put`."""
        self._delay(blob.size_bytes)
        return self._objects.put(key, blob)

    def get(self, keys: Sequence[str]) -> dict[str, Buffer]:
        """See `Objects.get`; one latency for all keys, as in a pipeline."""
        found = self._objects.get(keys)
        self._delay(sum(map(len, found.values())))
        return found

    def delete(self, keys: Iterable[str]) -> None:
        """See `Objects.delete`."""
        self._delay(0)
        self._objects.delete(keys)

    def remove(self) -> None:
        """See `Objects.remove`."""
        self._delay(0)
        self._objects.remove()

    def _delay(self, size_bytes: int) -> None:
        delay_s = self._emulation.transfer_delay_s(size_bytes, self._memory_mb)
        if delay_s > 0:
            self._sleep(delay_s)


class EmulatedCoordination:
    """`Coordination` as far away as in the cloud: each call takes one latency, and small outputs their transfer.

    A `read` that waits for an event takes its latency after the event came, as the answer of a distant server
    would.
    """

    def __init__(
        self, coordination: Coordination, emulation: Emulation, memory_mb: int, sleep: Sleep = time.sleep
    ) -> None:
        self._coordination = coordination
        self._emulation = emulation
        self._memory_mb = memory_mb
        self._sleep = sleep

    def create(
        self, spec: RunSpec, sinks: Sequence[int], claims: Sequence[Claim], planned: Sequence[Claim] = ()
    ) -> None:
        """See `Coordination.create`."""
        self._delay()
        self._coordination.create(spec, sinks, claims, planned)

    def spec(self) -> RunSpec | None:
        """See `Coordination.spec`."""
        self._delay()
        return self._coordination.spec()

    def join(self, worker: str, attempt: int) -> Joined:
        """See `Coordination.join`."""
        self._delay()
        return self._coordination.join(worker, attempt)

    def remains(self) -> Remains:
        """See `Coordination.remains`."""
        self._delay()
        return self._coordination.remains()

    def live(self) -> tuple[Missing, ...]:
        """See `Coordination.live`."""
        self._delay()
        return self._coordination.live()

    def starting(self) -> tuple[Missing, ...]:
        """See `Coordination.starting`."""
        self._delay()
        return self._coordination.starting()

    def beat(self, worker: str = "", attempt: int = 0, lost: Sequence[Missing] = ()) -> Beat:
        """See `Coordination.beat`."""
        self._delay()
        return self._coordination.beat(worker, attempt, lost)

    def report(self, report: Report) -> Outcome:
        """See `Coordination.report`."""
        inline = [output.inline for output in report.published] + [output.inline for output in report.completions]
        self._delay(sum(len(output) for output in inline if output is not None))
        return self._coordination.report(report)

    def outputs(self, tasks: Sequence[int]) -> dict[int, Stored]:
        """See `Coordination.outputs`."""
        outputs = self._coordination.outputs(tasks)
        self._delay(sum(len(output.inline) for output in outputs.values() if output.inline is not None))
        return outputs

    def read(self, inbox: str, cursor: str, timeout_s: float) -> tuple[str, list[Event]]:
        """See `Coordination.read`."""
        answer = self._coordination.read(inbox, cursor, timeout_s)
        self._delay()
        return answer

    def post(self, inbox: str, events: Sequence[Event]) -> None:
        """See `Coordination.post`."""
        self._delay()
        self._coordination.post(inbox, events)

    def suspend(self, worker: str, attempt: int, cursor: str, grace_s: float) -> bool:
        """See `Coordination.suspend`."""
        self._delay()
        return self._coordination.suspend(worker, attempt, cursor, grace_s)

    def fail(self, status: Status, failure: bytes, worker: str = "", attempt: int = 0) -> bool:
        """See `Coordination.fail`."""
        self._delay()
        return self._coordination.fail(status, failure, worker, attempt)

    def leave(self, summary: WorkerSummary) -> None:
        """See `Coordination.leave`."""
        self._delay()
        self._coordination.leave(summary)

    def progress(self) -> Progress:
        """See `Coordination.progress`."""
        self._delay()
        return self._coordination.progress()

    def status(self) -> Status:
        """See `Coordination.status`."""
        self._delay()
        return self._coordination.status()

    def objects_stored(self) -> list[int]:
        """See `Coordination.objects_stored`."""
        self._delay()
        return self._coordination.objects_stored()

    def prune(self) -> None:
        """See `Coordination.prune`."""
        self._delay()
        self._coordination.prune()

    def follow(self) -> bool:
        """See `Coordination.follow`."""
        self._delay()
        return self._coordination.follow()

    def unfollow(self, *, creator: bool = True, keep: bool = False) -> bool:
        """See `Coordination.unfollow`."""
        self._delay()
        return self._coordination.unfollow(creator=creator, keep=keep)

    def remove(self) -> None:
        """See `Coordination.remove`."""
        self._delay()
        self._coordination.remove()

    def _delay(self, size_bytes: int = 0) -> None:
        delay_s = self._emulation.transfer_delay_s(size_bytes, self._memory_mb)
        if delay_s > 0:
            self._sleep(delay_s)


class EmulatedStorage:
    """A storage whose runs are reached as slowly as in the cloud."""

    def __init__(self, storage: Storage, emulation: Emulation, resources: Resources, sleep: Sleep = time.sleep) -> None:
        self._storage = storage
        self._emulation = emulation
        self._resources = resources
        self._sleep = sleep

    def coordination(self, run_id: str) -> Coordination:
        """See `Storage.coordination`."""
        return EmulatedCoordination(
            self._storage.coordination(run_id), self._emulation, self._resources.memory_mb, self._sleep
        )

    def objects(self, run_id: str) -> Objects:
        """See `Storage.objects`."""
        objects = self._storage.objects(run_id)
        return EmulatedObjects(objects, self._emulation, self._resources.memory_mb, self._sleep)

    def ping(self) -> None:
        """See `Storage.ping`."""
        self._storage.ping()

    def close(self) -> None:
        """See `Storage.close`."""
        self._storage.close()
