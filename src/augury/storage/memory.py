"""Shared storage in the memory of one process: for tests and for the virtual-time platform.

What a run is, and what each call does to it, is in `run_state.py`; this module locks, wakes and forgets.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from augury.errors import StorageError
from augury.serde import Blob, Buffer
from augury.storage.protocols import (
    Beat,
    Claim,
    Event,
    Joined,
    Missing,
    Outcome,
    Progress,
    Remains,
    Report,
    RunSpec,
    Status,
    Stop,
    Stored,
    WorkerSummary,
)
from augury.storage.run_state import RunState

_SLICE_S = 1.0
"""How long a read waits before it looks whether the run has expired."""


class MemoryStorage:
    """Shared storage for the threads of one process.

    Args:
        clock: Seconds, for the age of claims and for expiry. Blocking reads wait in real time.
        ttl_s: How long a run lives after its last change.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, ttl_s: float = 24 * 3600) -> None:
        self._shared = _Shared(clock, ttl_s)

    def coordination(self, run_id: str) -> "MemoryCoordination":
        """The shared state of a run, whether or not it exists."""
        return MemoryCoordination(self._shared, run_id)

    def objects(self, run_id: str) -> "MemoryObjects":
        """The large values of a run."""
        return MemoryObjects(self._shared, run_id)

    def ping(self) -> None:
        """Memory always answers."""

    def close(self) -> None:
        """There is nothing to close."""


class MemoryCoordination:
    """One run's shared state, in memory."""

    def __init__(self, shared: "_Shared", run_id: str) -> None:
        self._shared = shared
        self._run_id = run_id

    def create(
        self, spec: RunSpec, sinks: Sequence[int], claims: Sequence[Claim], planned: Sequence[Claim] = ()
    ) -> None:
        """Begin a run: RUNNING, with these workers claimed for the caller to start."""
        with self._shared.condition:
            if self._shared.find(self._run_id) is not None:
                raise StorageError(f"run {self._run_id} exists already")
            run = RunState(spec, sinks, self._shared.clock)
            run.begin(claims, planned)
            self._shared.runs[self._run_id] = run
            self._shared.touch(run)

    def spec(self) -> RunSpec | None:
        """What `create` was given, or None if the run is gone."""
        with self._looking() as run:
            return None if run is None else run.spec

    def join(self, worker: str, attempt: int) -> Joined:
        """A worker has started. It no longer counts as starting."""
        with self._changing() as run:
            return Joined(Status.GONE) if run is None else run.join(worker, attempt)

    def remains(self) -> Remains:
        """What is left of the work of lost invocations."""
        with self._looking() as run:
            return Remains() if run is None else run.remains()

    def live(self) -> tuple[Missing, ...]:
        """The invocations that are expected or at work."""
        with self._looking() as run:
            return () if run is None else tuple(Missing(name, run.workers[name]) for name in sorted(run.leases))

    def starting(self) -> tuple[Missing, ...]:
        """The invocations that are expected, and have not come up."""
        with self._looking() as run:
            return () if run is None else tuple(Missing(name, run.workers[name]) for name in sorted(run.starting))

    def beat(self, worker: str = "", attempt: int = 0, lost: Sequence[Missing] = ()) -> Beat:
        """Renew a lease; see to those that have run out."""
        with self._changing() as run:
            if run is None:
                return Beat(Status.GONE)
            beat = run.beat(worker, attempt, lost)
            room = self._shared.room(self._run_id)
            if room is not None and beat.status is Status.RUNNING:
                room.expires_s = self._shared.expiry()
            return beat

    def report(self, report: Report) -> Outcome:
        """Count completions, store small outputs, wake and claim workers: one atomic step."""
        with self._changing() as run:
            return Outcome(Status.GONE) if run is None else run.report(report)

    def outputs(self, tasks: Sequence[int]) -> dict[int, Stored]:
        """The stored outputs among these tasks."""
        with self._looking() as run:
            return {} if run is None else {task: run.outputs[task] for task in tasks if task in run.outputs}

    def read(self, inbox: str, cursor: str, timeout_s: float) -> tuple[str, list[Event]]:
        """The events after a cursor ("0" is the start) and the new cursor; waits for one if there is none."""
        deadline_s = time.monotonic() + timeout_s
        with self._shared.condition:
            while True:
                run = self._shared.find(self._run_id)
                if run is None:
                    return cursor, [Stop(Status.GONE)]
                events = run.inboxes[inbox][int(cursor) :]
                remaining_s = deadline_s - time.monotonic()
                if events or remaining_s <= 0:
                    return str(int(cursor) + len(events)), events
                self._shared.condition.wait(min(remaining_s, _SLICE_S))

    def post(self, inbox: str, events: Sequence[Event]) -> None:
        """Append events to an inbox, if the run exists."""
        with self._changing() as run:
            if run is not None:
                for event in events:
                    run.append(inbox, event)

    def suspend(self, worker: str, attempt: int, cursor: str, grace_s: float) -> bool:
        """Give a slot up, if some worker has been starting for `grace_s` and no event is after the cursor."""
        with self._changing() as run:
            return run is not None and run.suspend(worker, attempt, int(cursor), grace_s)

    def fail(self, status: Status, failure: bytes, worker: str = "", attempt: int = 0) -> bool:
        """End a RUNNING run as FAILED or CANCELLED; True for the one call that ended it."""
        if status not in (Status.FAILED, Status.CANCELLED):
            raise ValueError(f"a run fails as FAILED or CANCELLED, not {status.name}")
        with self._changing() as run:
            return run is not None and run.fail(status, failure, worker, attempt)

    def leave(self, summary: WorkerSummary) -> None:
        """An invocation has ended: a `WorkerLeft` goes to the client, also after the run is over."""
        with self._changing() as run:
            if run is not None:
                run.leave(summary)

    def progress(self) -> Progress:
        """How far the run is."""
        with self._looking() as run:
            return Progress(0, 0, 0) if run is None else Progress(run.ran, run.invocations, len(run.starting))

    def status(self) -> Status:
        """Where the run stands."""
        with self._looking() as run:
            return Status.GONE if run is None else run.status

    def objects_stored(self) -> list[int]:
        """The tasks whose outputs are objects, not inline."""
        with self._looking() as run:
            return [] if run is None else sorted(task for task, out in run.outputs.items() if out.inline is None)

    def prune(self) -> None:
        """Delete what nobody needs once the run is over; while it runs, nothing."""
        with self._changing() as run:
            if run is not None:
                run.prune()

    def follow(self) -> bool:
        """One more client follows the run; False if it is gone."""
        with self._changing() as run:
            if run is not None:
                run.followers += 1
            return run is not None

    def unfollow(self, *, creator: bool = True, keep: bool = False) -> bool:
        """A client follows the run no more; True, and the run is removed, if nobody needs it."""
        with self._changing() as run:
            needed = run is not None and run.unfollow(creator=creator, keep=keep)
        if not needed:
            self.remove()
        return not needed

    def remove(self) -> None:
        """Delete the run. It is GONE from now on, and every subscriber is told."""
        with self._shared.condition:
            self._shared.runs.pop(self._run_id, None)
            told = [call for (run_id, _), call in self._shared.subscribers if run_id == self._run_id]
            self._shared.condition.notify_all()
        for callback in told:
            callback()

    def subscribe(self, inbox: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever a read of this inbox has something new to give.

        It is called after the change, by whoever made it and before that call returns, with no lock held.

        Returns:
            A function that ends the subscription.
        """
        entry = ((self._run_id, inbox), callback)
        with self._shared.condition:
            self._shared.subscribers.append(entry)

        def unsubscribe() -> None:
            with self._shared.condition:
                if entry in self._shared.subscribers:
                    self._shared.subscribers.remove(entry)

        return unsubscribe

    @contextmanager
    def _looking(self) -> Iterator[RunState | None]:
        with self._shared.condition:
            yield self._shared.find(self._run_id)

    @contextmanager
    def _changing(self) -> Iterator[RunState | None]:
        """The run, alone; afterwards it lives on, and those who wait for its inboxes are told."""
        told: list[Callable[[], None]] = []
        with self._shared.condition:
            run = self._shared.find(self._run_id)
            yield run
            if run is not None:
                self._shared.touch(run)
                fresh = {(self._run_id, inbox) for inbox in run.fresh}
                run.fresh.clear()
                told = [callback for place, callback in self._shared.subscribers if place in fresh]
                self._shared.condition.notify_all()
        for callback in told:
            callback()


class MemoryObjects:
    """Large values of a run, in memory."""

    def __init__(self, shared: "_Shared", run_id: str) -> None:
        self._shared = shared
        self._run_id = run_id

    def create(self) -> None:
        """Make room for the run; `put` fails before, and after `remove`."""
        with self._shared.condition:
            room = self._room() or _Room()
            room.expires_s = self._shared.expiry()
            self._shared.rooms[self._run_id] = room

    def put(self, key: str, blob: Blob) -> None:
        """Store a copy of a value: its parts may belong to arrays that change."""
        data = blob.join()
        with self._shared.condition:
            room = self._room()
            if room is None:
                raise StorageError(f"cannot store {key}: run {self._run_id} is gone")
            room.values.setdefault(key, data)
            room.expires_s = self._shared.expiry()

    def get(self, keys: Sequence[str]) -> dict[str, Buffer]:
        """Values by key; keys that are not there are left out."""
        with self._shared.condition:
            room = self._room()
            return {} if room is None else {key: room.values[key] for key in keys if key in room.values}

    def delete(self, keys: Iterable[str]) -> None:
        """Forget values; keys that are not there do not matter."""
        with self._shared.condition:
            room = self._room()
            if room is not None:
                for key in keys:
                    room.values.pop(key, None)

    def remove(self) -> None:
        """Forget everything of the run."""
        with self._shared.condition:
            self._shared.rooms.pop(self._run_id, None)

    def _room(self) -> "_Room | None":
        return self._shared.room(self._run_id)


class _Room:
    """The objects of one run."""

    def __init__(self) -> None:
        self.expires_s = 0.0
        self.values: dict[str, bytes] = {}


class _Shared:
    """What all runs of one storage share; used only by those who hold `condition`."""

    def __init__(self, clock: Callable[[], float], ttl_s: float) -> None:
        self.condition = threading.Condition()
        self.clock = clock
        self.ttl_s = ttl_s
        self.runs: dict[str, RunState] = {}
        self.rooms: dict[str, _Room] = {}
        self.subscribers: list[tuple[tuple[str, str], Callable[[], None]]] = []

    def find(self, run_id: str) -> RunState | None:
        run = self.runs.get(run_id)
        if run is not None and self.clock() >= run.expires_s:
            del self.runs[run_id]
            return None
        return run

    def touch(self, run: RunState) -> None:
        run.expires_s = self.expiry()

    def room(self, run_id: str) -> "_Room | None":
        room = self.rooms.get(run_id)
        return room if room is not None and self.clock() < room.expires_s else None

    def expiry(self) -> float:
        return self.clock() + self.ttl_s
