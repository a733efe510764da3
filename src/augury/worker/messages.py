"""What goes into the worker core and what comes out: events and commands, as values."""

from collections.abc import Set as AbstractSet

import msgspec

from augury.config import Resources
from augury.storage.protocols import Claim, Outcome, Published, Remains, Status, Tried


class Event(msgspec.Struct, frozen=True):
    """Something that happened, told to the core."""


class Began(Event, frozen=True):
    """The invocation joined the run.

    Attributes:
        tasks: What a flexible worker starts with; empty for a planned one.
        done: The tasks whose completion is counted already.
        live: How many invocations the run has, this one included.
        remains: What is left of an attempt that was lost, if this one stands for it.
    """

    tasks: tuple[int, ...] = ()
    done: AbstractSet[int] = frozenset()
    live: int = 1
    remains: Remains | None = None


class TaskFinished(Event, frozen=True):
    """A task returned; its output is in memory.

    Attributes:
        size_bytes: Of its output; counts only if `WorkerState.leaves(task)`.
        duration_s: How long it ran.
        stays: Whether its output cannot leave; then `WorkerState.may_stay(task)`.
    """

    task: int
    size_bytes: int = 0
    duration_s: float = 0.0
    stays: bool = False


class TaskRaised(Event, frozen=True):
    """A task raised. `failure` is what the client gets if it is not tried again."""

    task: int
    failure: bytes
    retryable: bool = True


class Fetched(Event, frozen=True):
    """Outputs of other workers are in memory now."""

    tasks: tuple[int, ...]


class FetchFailed(Event, frozen=True):
    """Outputs of others could not be fetched, or not loaded; `failure` is what the client gets if they must be."""

    tasks: tuple[int, ...]
    failure: bytes


class OutputStored(Event, frozen=True):
    """A large output is an object in storage now."""

    task: int


class Reported(Event, frozen=True):
    """The report that was sent had this outcome."""

    outcome: Outcome


class FlushDue(Event, frozen=True):
    """What was finished has waited long enough to be told.

    Attributes:
        running_s: How long the tasks that run now have run, the longest of them.
    """

    running_s: float = 0.0


class InputsReady(Event, frozen=True):
    """A planned task has every input that other workers produce; those in `received` are in memory."""

    task: int
    received: tuple[int, ...] = ()


class TasksCompleted(Event, frozen=True):
    """Watched tasks were completed by other workers; the outputs of those in `received` are in memory."""

    tasks: tuple[int, ...]
    received: tuple[int, ...] = ()


class TaskAbandoned(Event, frozen=True):
    """A task was stopped, as `Abandon` demanded; it left no output."""

    task: int


class AlarmRang(Event, frozen=True):
    """The moment has come that the last `Alarm` named."""


class WaitedLong(Event, frozen=True):
    """The worker has waited for a while, and other workers of the run cannot start.

    Attributes:
        sizes: The sizes of the outputs in `WorkerState.needed_later()`.
    """

    sizes: dict[int, int] = {}


class Straggles(Event, frozen=True):
    """A task runs for much longer than expected.

    Attributes:
        task: The task.
        sizes: The sizes of those inputs of it that are only in this worker's memory, as far as they can be stored.
    """

    task: int
    sizes: dict[int, int] = {}


class WindDown(Event, frozen=True):
    """The platform will end the invocation before long: start no more tasks, and begin to store what a successor needs.

    Attributes:
        sizes: The sizes of the outputs in `WorkerState.needed_later()`, but those that cannot be stored.
    """

    sizes: dict[int, int] = {}


class HandOverDue(Event, frozen=True):
    """Nothing runs any more, or must not: put what is needed into storage, and let a successor go on.

    Attributes:
        sizes: The sizes of the outputs in `WorkerState.needed_later()`, but those that cannot be stored.
    """

    sizes: dict[int, int] = {}


class HandedOver(Event, frozen=True):
    """A successor has been started."""


class SuspendAnswered(Event, frozen=True):
    """Whether the storage let the worker give its slot up."""

    granted: bool


class StopRequested(Event, frozen=True):
    """The run is over, or no longer this invocation's business; `status` says how it ended, if that is known."""

    status: Status = Status.GONE


class Command(msgspec.Struct, frozen=True):
    """Something that the runner must do for the core."""


class Run(Command, frozen=True):
    """Call a task's function; its inputs are in memory. Answer: TaskFinished or TaskRaised.

    Attributes:
        attempt: Which try it is.
        ready_s: When the task became ready here.
        fetch_s: How long it has waited since then for inputs to come from storage.
        duplicate: Whether it is the task of another worker.
    """

    task: int
    attempt: int = 1
    ready_s: float = 0.0
    fetch_s: float = 0.0
    duplicate: bool = False


class Abandon(Command, frozen=True):
    """Stop a task that runs: another worker was faster.

    Answer: TaskAbandoned; or TaskFinished or TaskRaised, if it could not be stopped.
    """

    task: int


class Fetch(Command, frozen=True):
    """Bring outputs of other workers into memory, in as few round trips as possible. Answer: Fetched, or FetchFailed.

    Attributes:
        early: No task waits for them yet: nothing else may be held up by it.
    """

    tasks: tuple[int, ...]
    early: bool = False


class Store(Command, frozen=True):
    """Write a large output to storage. Answer: OutputStored."""

    task: int


class Send(Command, frozen=True):
    """Report in one round trip; the runner puts the bytes of small outputs in. Answer: Reported.

    Attributes:
        completions: Tasks with `inline` still empty: it is filled for outputs of at most `inline_bytes`.
        published: Likewise.
        taken: Flexible tasks that turned out to be ours, though some of their inputs are told to storage.
        tried: Tasks that a successor is to try again.
        last: Whether nothing is left to do here, unless the answer says so; then the invocation may leave with it.
    """

    completions: "tuple[Finished, ...]" = ()
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()
    taken: tuple[int, ...] = ()
    ran: int = 0
    tried: tuple[Tried, ...] = ()
    last: bool = False


class Finished(msgspec.Struct, frozen=True):
    """A completion before the bytes of its output are put in.

    Attributes:
        consumers: The consumers to be counted for, by task id.
        stored: Whether a large output is an object already; else it is held in memory.
        keep: Whether the output must be in storage, whatever the counters say.
        watchers: The workers to be told.
    """

    task: int
    size_bytes: int = 0
    consumers: tuple[int, ...] = ()
    stored: bool = False
    keep: bool = False
    watchers: tuple[str, ...] = ()


class Invoke(Command, frozen=True):
    """Start workers; the right to do so was granted."""

    claims: tuple[Claim, ...]


class Prewarm(Command, frozen=True):
    """Have the platform make environments ready. Nobody waits for it, and nothing depends on it."""

    resources: Resources
    count: int = 1


class Alarm(Command, frozen=True):
    """Answer with AlarmRang at this moment. It stands for any that was set before."""

    at_s: float


class Listen(Command, frozen=True):
    """Read the inbox from now on. Answers: InputsReady, TasksCompleted, WaitedLong, StopRequested."""


class HandOver(Command, frozen=True):
    """Have a successor started, who has the place of this invocation from then on. Answer: HandedOver.

    Attributes:
        cut: Whether tasks were running, which the successor begins anew.
    """

    cut: bool = False


class Suspend(Command, frozen=True):
    """Ask to give the slot up. Answer: SuspendAnswered; nothing else may be told to the core in between."""


class Discard(Command, frozen=True):
    """Forget values: nothing here needs them any more."""

    tasks: tuple[int, ...]


class Fail(Command, frozen=True):
    """End the run: this task failed for good."""

    task: int
    failure: bytes


class CleanUp(Command, frozen=True):
    """The run has succeeded with this worker's report: remove what nobody needs any more."""


class Leave(Command, frozen=True):
    """End the invocation; the last command ever.

    Attributes:
        status: Why: the run as this worker last saw it.
        suspended: The worker will be started again.
    """

    status: Status = Status.RUNNING
    suspended: bool = False
