"""What the rest relies on: the two halves of shared storage, as protocols and values.

`Coordination` is one run's shared state: completions, counters, inboxes, claims. `Objects` holds large
values. Each has an implementation in Redis (or shared memory) and one in memory, and one conformance
suite over both.

Guarantees of `Coordination`, whoever implements it:

1. *Completion is idempotent.* A task's completion counts once, however often it is reported; the first
   output wins.
2. *Exactly one* caller learns that a flexible task became ready, and exactly one gets the right to start a
   worker.
3. *No wake-up is lost.* Events stay in an inbox until the run is removed; readers hold a cursor.
4. *One round trip* reports any number of completions with everything that follows from them.
5. After a run was removed nothing brings its keys back: late calls get `Status.GONE` and leave no trace.
6. Every key expires `ttl_s` after the last change of its run, and while somebody beats for it, none does. Objects may
   live for a quarter of that longer.
7. *One invocation embodies a worker.* What an earlier attempt says, or a second invocation of the same attempt,
   changes nothing: it is told that it is `REPLACED`.
8. *Every worker that is expected is watched.* From its claim to its leaving it holds a lease; when that runs out,
   exactly one caller of `beat` gets the duty to start it again.
"""

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Protocol

import msgspec

from augury.config import PATIENCE_S, Resources, ResultsConfig
from augury.serde import Blob, Buffer


class Status(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    GONE = "gone"
    """The storage does not know the run: removed, expired, or never there."""
    REPLACED = "replaced"
    """Told to an invocation, never of a run: another one has its place. Nothing that it says counts any more."""


class Consumer(msgspec.Struct, frozen=True, array_like=True):
    """A task that takes an output, and what must be counted for it.

    Attributes:
        task: The consumer.
        needs: How many completions make it ready: of all its inputs if it is flexible, of those that come
            from other workers if it has a worker.
        worker: The name of the worker that must run it; empty if it is flexible.
    """

    task: int
    needs: int
    worker: str = ""


class Completion(msgspec.Struct, frozen=True, array_like=True):
    """One finished task.

    Attributes:
        task: Which.
        size_bytes: The size of its output.
        inline: The output itself, if it is small. Stored with the completion, unless nobody else needs it:
            that is, unless `keep` is false, it has consumers and this very report makes all of them ready
            for the reporter.
        held: The output is large and only in the reporter's memory. Such a completion counts only if it
            makes each of its consumers ready for the reporter (none of them has a worker); else it
            is refused as a whole, and its task listed in `Outcome.store_first`.
        keep: The output must be in storage whatever the counters say. Without it, of an output that is not inline and
            has neither consumers nor watchers, nor is a sink, nothing is in storage: only that it was there.
        sink: The user asked for this output.
        consumers: Whom to count for. Empty: nobody outside the reporter.
        watchers: The workers that are told when it counts, by a `TaskCompleted`. What is watched is in storage: as
            if `keep`.
    """

    task: int
    size_bytes: int = 0
    inline: bytes | None = None
    held: bool = False
    keep: bool = False
    sink: bool = False
    consumers: tuple[Consumer, ...] = ()
    watchers: tuple[str, ...] = ()


class Published(msgspec.Struct, frozen=True, array_like=True):
    """The output of a task whose completion was counted before: now others need it. `inline` or an object."""

    task: int
    size_bytes: int
    inline: bytes | None = None


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A worker to be started.

    Attributes:
        worker: Its name.
        tasks: For a flexible worker the tasks it starts with; for a planned one empty: the plan says.
        resources: What it must have.
        attempt: Which start of this worker it is; the storage gives it. 1 in a request.
    """

    worker: str
    tasks: tuple[int, ...]
    resources: Resources
    attempt: int = 1


class Tried(msgspec.Struct, frozen=True, array_like=True):
    """A task that raised, and is to be tried again by whoever goes on in the place of the reporter.

    Attributes:
        task: Which.
        tries: Which try is the next.
        pause_s: For how long it still waits for that.
    """

    task: int
    tries: int
    pause_s: float = 0.0


class Report(msgspec.Struct, frozen=True, array_like=True):
    """Everything that a worker has to say in one round trip; applied atomically, in this order.

    Attributes:
        published: Outputs stored after their completion.
        completions: Finished tasks, in order.
        claims: Flexible workers that the reporter wants to start.
        attempt: Which start of the worker it is.
        taken: Flexible tasks with several inputs that the reporter found to be its own, since every input of theirs
            finished there or was done before it began, while some of these inputs are reported.
        ran: How many tasks ran since the last report; for progress. Those that somebody reported before count once.
        tried: Tasks that wait for another try, if a successor is about to take over.
        leaving: What the reporter tells when it leaves, if it has nothing left to do unless this report leads to it: it
            leaves with it then, and else not yet.
    """

    worker: str
    published: tuple[Published, ...] = ()
    completions: tuple[Completion, ...] = ()
    claims: tuple[Claim, ...] = ()
    ran: int = 0
    attempt: int = 1
    taken: tuple[int, ...] = ()
    tried: tuple[Tried, ...] = ()
    leaving: "WorkerSummary | None" = None


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What a report led to, for the reporter alone.

    Attributes:
        status: Where the run stands now. Unless it is RUNNING or SUCCEEDED, nothing was applied.
        ready: Flexible tasks that became ready: the reporter's to run or to hand on.
        started: Workers that the reporter has the right, and the duty, to start; the name and attempt.
        store_first: Tasks whose held output must be stored before their completion counts.
        live: Invocations of the run that are claimed and have not left, after this report.
        again: Those among `started` that were lost before, with what they must have now: that may be more than planned.
        left: Whether the reporter has left with it: it wanted to, the run goes on, and there is nothing to do for it.
    """

    status: Status
    ready: tuple[int, ...] = ()
    started: tuple[tuple[str, int], ...] = ()
    store_first: tuple[int, ...] = ()
    live: int = 0
    again: tuple[Claim, ...] = ()
    left: bool = False


class Joined(msgspec.Struct, frozen=True, array_like=True):
    """What a worker learns when it starts.

    Attributes:
        status: Where the run stands. REPLACED if another invocation has the place of this one: end at once.
        done: The tasks whose completion was counted.
        live: Invocations of the run that are claimed and have not left, this one included.
        starting: How many workers of the run were starting when this one came up, itself included.
        restarted: The attempt before this one was lost, with all that it held in memory: see `Coordination.remains`.
    """

    status: Status
    done: AbstractSet[int] = frozenset()
    live: int = 0
    starting: int = 0
    restarted: bool = False


class Remains(msgspec.Struct, frozen=True):
    """What is left of the work of invocations that were lost.

    Attributes:
        stored: The tasks whose outputs are in storage.
        grants: Flexible task → the worker that a report made it ready for, or that had taken it.
        claims: Worker → the tasks that it was claimed with; it may have handed some of them on.
        tried: Tasks that had been tried when their worker was succeeded, and how long they still wait.
    """

    stored: frozenset[int] = frozenset()
    grants: dict[int, str] = {}
    claims: dict[str, tuple[int, ...]] = {}
    tried: tuple[Tried, ...] = ()


class Cause(StrEnum):
    """Why an invocation does not go on."""

    LOST = "lost"
    """It crashed, was killed, or is silent."""
    MEMORY = "memory"
    """It needed more memory than it had: the next one gets more."""
    HANDOVER = "handover"
    """It has put everything into storage that is needed, and wants a successor. No loss."""
    CUT = "cut"
    """The same, but tasks still ran, which its successor begins anew: a loss, if that happens again and again."""
    START = "start"
    """It never came up, however often it was invoked."""


class Missing(msgspec.Struct, frozen=True):
    """An invocation that does not go on.

    Attributes:
        worker: Its worker; `attempt`: which start of it.
        cause: Why.
    """

    worker: str
    attempt: int
    cause: Cause = Cause.LOST


class Hopeless(msgspec.Struct, frozen=True):
    """A worker that is not started again.

    Attributes:
        worker: Its name; `attempt`: the one that was lost last.
        losses: How many attempts in a row were lost without any progress.
        resources: What the last one had.
        cause: Why it was lost.
    """

    worker: str
    attempt: int
    losses: int
    resources: Resources
    cause: Cause = Cause.LOST


class Beat(msgspec.Struct, frozen=True):
    """What a beat is answered with.

    Attributes:
        status: Where the run stands; REPLACED if the caller is an invocation whose place another one has.
        start: Workers that the caller has the duty to start: new attempts of lost ones, and claimed ones that have not
            come up for so long that their invocation may be lost.
        hopeless: Workers that were lost too often: the caller has the duty to end the run.
    """

    status: Status
    start: tuple[Claim, ...] = ()
    hopeless: tuple[Hopeless, ...] = ()


class Care(msgspec.Struct, frozen=True, kw_only=True):
    """How a run looks after its workers.

    Attributes:
        lease_s: For how long a worker may be silent. Twice as long after each loss in a row: it may have been alive,
            and kept from beating by a task that holds the interpreter.
        restarts: How many losses of a worker in a row are made good, if it counted no completion between them.
        larger: What workers can have, for those that need more memory; ascending. Who has more CPUs keeps them.
        client_s: For how long the client that the run ends with may be silent; 0: the run ends with nobody.
        patience_s: For how long the gateway may refuse to start workers, or be away.
    """

    lease_s: float = 10.0
    restarts: int = 3
    larger: tuple[Resources, ...] = ()
    client_s: float = 0.0
    patience_s: float = PATIENCE_S


class Outgrown(msgspec.Struct, frozen=True, array_like=True):
    """A task that ran in a worker when that ran out of memory.

    Attributes:
        task: Which.
        used_mb: What the worker used, at least, in MiB.
        input_bytes: The size of the task's input; NaN if it was not measured.
    """

    task: int
    used_mb: float
    input_bytes: float = math.nan


class WorkerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker tells of itself when it ends, or a gateway of a worker that it lost: one invocation.

    Attributes:
        worker: Its name; `attempt`: which start of it.
        cold: Whether the platform had to start a new environment.
        duration_s: From its first instruction to its end.
        memory_mb: What it had.
        tasks: How many tasks it ran; `recalled`: how many of these were not called, since an earlier run had kept their
            output.
        stored_bytes: How much it wrote, small outputs included; `fetched_bytes`: how much it read.
        suspended: Whether it gave its slot up and will be started again.
        prewarmed: How many environments it asked the platform to make ready.
        records: What it measured and has not sent before, as bytes; see `augury.metrics.records.Batch`.
        outgrown: The tasks that ran when it ran out of memory.
    """

    worker: str
    attempt: int
    cold: bool
    duration_s: float
    memory_mb: int
    tasks: int
    stored_bytes: int = 0
    fetched_bytes: int = 0
    suspended: bool = False
    prewarmed: int = 0
    recalled: int = 0
    records: bytes = b""
    outgrown: tuple[Outgrown, ...] = ()


class Event(msgspec.Struct, frozen=True, tag=True):
    """Something in an inbox."""


class TaskReady(Event, frozen=True):
    """A planned task has all inputs that come from other workers.

    Attributes:
        task: The task.
        outputs: Small inputs of it that were part of the report that made it ready.
    """

    task: int
    outputs: dict[int, bytes] = {}


class TaskCompleted(Event, frozen=True):
    """A task that the worker watches is complete, and its output in storage. It does not start the worker.

    Attributes:
        task: The task.
        size_bytes: Of its output.
        inline: The output itself, if it is small.
    """

    task: int
    size_bytes: int = 0
    inline: bytes | None = None


class Stop(Event, frozen=True):
    """The run is over: end without finishing anything."""

    status: Status


class RunEnded(Event, frozen=True):
    """For the client: the run is over. `failure` is what `Coordination.fail` was given."""

    status: Status
    failure: bytes = b""


class Printed(Event, frozen=True):
    """For the client: a task wrote to its standard output or error."""

    task: int
    stream: str
    text: str


class Recorded(Event, frozen=True):
    """For the client: what a worker measured so far, sent before its end in case that comes suddenly."""

    records: bytes


class WorkerLeft(Event, frozen=True):
    """For the client: an invocation has ended."""

    summary: WorkerSummary


class WorkerMissed(Event, frozen=True):
    """For the client: an invocation was lost, or replaced by a successor. It may still tell of itself.

    Attributes:
        worker: Its worker; `attempt`: which start of it.
        cause: Why it does not go on.
    """

    worker: str
    attempt: int
    cause: Cause = Cause.LOST


NEVER_UP_S = 12 * 3600.0
"""After how long a worker counts as never coming up. Platforms queue, and other runs may have all their slots for long;
how long that takes has nothing to do with leases."""

CLIENT = "client"
"""The name of the client's inbox."""


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """An output in storage: its bytes if it is small, else None and it is an object."""

    size_bytes: int
    inline: bytes | None = None


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the client uploads: everything that a worker needs to know of a run but its objects.

    Attributes:
        name: The workflow's name.
        graph: The encoded graph.
        program: The encoded functions and calls.
        plan: The encoded plan.
        concurrency: How many workers the platform runs at once.
        inline_bytes: Up to which size outputs ride inside reports.
        sys_path: Folders to import the user's modules from, where workers share the client's files.
        start_s: How long a worker may be starting before those that wait give their slots up.
        object_dir: Where large objects of this run are, as in `StorageConfig`; the client decides, since it
            may be on another machine than the workers.
        record: Whether workers measure what they do, for history.
        versions: What the client has, by package; see `augury.versions`.
        detached: Whether the run goes on without its client. If so, what another client needs to attach to it:
        template: What the user asked for, pickled, with a `Ref` for each task in it.
        kept_as: The name that its history is kept under.
        submitted_s: When it began, in seconds since the epoch.
        results: Where outputs are kept for later runs.
        care: How the run looks after its workers.
        late_s: For each task, after how long it takes much longer than expected: a double each, infinite where nothing
            is expected; empty if that is so of all.
        tag: The MAC of all of it; see `augury.storage.signing`.
    """

    name: str
    graph: bytes
    program: bytes
    plan: bytes
    concurrency: int
    inline_bytes: int
    sys_path: tuple[str, ...] = ()
    start_s: float = 1.0
    object_dir: str = ""
    record: bool = True
    versions: dict[str, str] = {}
    detached: bool = False
    template: bytes = b""
    kept_as: str = ""
    submitted_s: float = 0.0
    results: ResultsConfig = ResultsConfig()
    care: Care = Care()
    late_s: bytes = b""
    tag: bytes = b""


class Progress(msgspec.Struct, frozen=True):
    """How far a run is.

    Attributes:
        ran: Tasks that ran so far.
        invocations: Claims so far; a worker that was started twice counts twice.
        starting: Workers that are claimed and have not joined yet.
    """

    ran: int
    invocations: int
    starting: int


class Coordination(Protocol):
    """One run's shared state. Calls block; they may come from several threads.

    Raises:
        StorageError: The storage cannot be reached or refuses; names the address and what to do.
    """

    def create(
        self, spec: RunSpec, sinks: Sequence[int], claims: Sequence[Claim], planned: Sequence[Claim] = ()
    ) -> None:
        """Begin a run: RUNNING, with these workers claimed for the caller to start.

        Args:
            spec: What workers need to know.
            sinks: The tasks that the user asked for.
            claims: The workers that are started first.
            planned: All workers that the plan names: what each must have.
        """
        ...

    def spec(self) -> RunSpec | None:
        """What `create` was given, or None if the run is gone."""
        ...

    def join(self, worker: str, attempt: int) -> Joined:
        """A worker has started. It no longer counts as starting, and holds a lease from now on.

        Once for each claim: who comes second, or with an attempt that is over, is REPLACED.
        """
        ...

    def remains(self) -> Remains:
        """What is left of the work of lost invocations; for those that are started again."""
        ...

    def live(self) -> tuple[Missing, ...]:
        """The invocations that are expected or at work: those that would be missing if their platform were gone."""
        ...

    def starting(self) -> tuple[Missing, ...]:
        """The invocations that are expected, and have not come up: not started yet, or queued."""
        ...

    def beat(self, worker: str = "", attempt: int = 0, lost: Sequence[Missing] = ()) -> Beat:
        """Renew the lease of an invocation, if one is named; and see to those whose leases have run out.

        A worker whose lease has run out, or that is said to be `lost` in its present attempt, is claimed again, under
        the next attempt; unless it was lost too often. A worker that was claimed a lease ago and has not
        come up is to be started once more, under the same attempt: whichever invocation comes first is the one. If
        losses are told, that is so for all workers that have not come up: the lost ones may have had the duty to start
        them. If nobody has beaten for half a lease, since storage was away, all leases begin anew, but those of workers
        that were not heard of since that was so last. A worker that has not come
        up for `NEVER_UP_S`, while no other one of the run is up, is hopeless.

        Now and then whoever beats also has the run's objects live on.

        A worker with a slash in its name is a second one for a task: if it is lost too often, or needs more memory than
        there is, it is only forgotten.

        The client beats under the name CLIENT. If the run ends with it (`Care.client_s`) and it is not heard of for so
        long although others could beat, the next beat of somebody else, or the next that joins, ends the run as
        CANCELLED.
        """
        ...

    def report(self, report: Report) -> Outcome:
        """Count completions, store small outputs, wake and claim workers: one atomic round trip.

        For a consumer with a worker: when it has what it needs, a `TaskReady` goes to that worker's inbox,
        and if the worker was never started or is suspended it is claimed (attempt + 1) for the reporter.
        Those who watch a completion that counts get a `TaskCompleted`, before any `TaskReady` of the same report.
        When the last sink is complete the run becomes SUCCEEDED and `RunEnded` goes to the client.
        """
        ...

    def outputs(self, tasks: Sequence[int]) -> dict[int, Stored]:
        """The stored outputs among these tasks."""
        ...

    def read(self, inbox: str, cursor: str, timeout_s: float) -> tuple[str, list[Event]]:
        """The events after a cursor ("0" is the start) and the new cursor; waits for one if there is none.

        A `timeout_s` of 0 does not wait. In the inbox of a run that is gone there is one `Stop(GONE)`.
        """
        ...

    def post(self, inbox: str, events: Sequence[Event]) -> None:
        """Append events to an inbox, if the run exists."""
        ...

    def suspend(self, worker: str, attempt: int, cursor: str, grace_s: float) -> bool:
        """Give a slot up, if some worker has been starting for `grace_s` and no event is after the cursor.

        True: the worker is suspended, must end, and will be claimed again when a task of it becomes ready.
        """
        ...

    def fail(self, status: Status, failure: bytes, worker: str = "", attempt: int = 0) -> bool:
        """End a RUNNING run as FAILED or CANCELLED: `RunEnded` to the client, `Stop` to every worker claimed.

        If it is for what happened to an invocation, it is named, and nothing happens if another one has its place.

        True for the one call that ended it.
        """
        ...

    def leave(self, summary: WorkerSummary) -> None:
        """An invocation has ended: a `WorkerLeft` goes to the client, also after the run is over."""
        ...

    def progress(self) -> Progress:
        """How far the run is."""
        ...

    def status(self) -> Status:
        """Where the run stands."""
        ...

    def objects_stored(self) -> list[int]:
        """The tasks whose outputs are objects, not inline."""
        ...

    def prune(self) -> None:
        """Delete what nobody needs once the run is over.

        The status, the progress, the spec, the sinks' outputs and the client's inbox stay; and the inboxes of workers
        that have not left, for they may have to learn that others did their tasks, or that the run was stopped.
        """
        ...

    def follow(self) -> bool:
        """One more client follows the run, besides the one that created it; False if it is gone."""
        ...

    def unfollow(self, *, creator: bool = True, keep: bool = False) -> bool:
        """A client follows the run no more. True if nobody needs it: as after `remove`.

        A client that vanishes follows it for ever: the run is then there for others until it expires.

        Args:
            creator: It is the one that created the run, which counts once, however often that is told of it.
            keep: It has not got what the run is there for. That stays, even if nobody follows, until somebody has it.
        """
        ...

    def remove(self) -> None:
        """Delete every key of the run but its objects. The run is GONE from now on."""
        ...


class Objects(Protocol):
    """Large values of a run: outputs of tasks by id, constants by index.

    A key is a short string such as `o17` or `c0`. Writing a key again is allowed (a repeated task) and
    changes nothing: the first value stays, so that all readers see the same.
    """

    def create(self) -> None:
        """Make room for the run; `put` fails before, and after `remove`."""
        ...

    def put(self, key: str, blob: Blob) -> Buffer | None:
        """Store a value.

        Returns:
            The very bytes that were stored, read-only, in memory that is shared with all who read them: who stored them
            need not keep his own. None where to read them back would take time or memory of this process.

        Raises:
            ObjectTooLarge: The store cannot hold a value of this size.
            StorageError: The store is full or does not answer, or the run is gone.
        """
        ...

    def get(self, keys: Sequence[str]) -> dict[str, Buffer]:
        """Values by key; keys that are not there are left out.

        Buffers may be mapped; nobody else sees what is written to them.
        """
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Forget values; keys that are not there do not matter. What was read before stays readable."""
        ...

    def remove(self) -> None:
        """Forget everything of the run."""
        ...


class Storage(Protocol):
    """An open connection to shared storage, from which runs are reached. Thread-safe."""

    def coordination(self, run_id: str) -> Coordination:
        """The shared state of a run, whether or not it exists."""
        ...

    def objects(self, run_id: str) -> Objects:
        """The large values of a run."""
        ...

    def ping(self) -> None:
        """Check that the storage answers and lets us in.

        Raises:
            StorageError: Says what is wrong: address, password, or server.
        """
        ...

    def close(self) -> None:
        """Close connections."""
        ...


def output_key(task: int) -> str:
    """The object key of a task's output."""
    return f"o{task}"


def constant_key(index: int) -> str:
    """The object key of a constant."""
    return f"c{index}"
