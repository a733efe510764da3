"""A gateway starts invocations: each embodies one worker of one run.

Small enough that a FaaS platform is one module. An invocation is fire and forget: `invoke` returns when
the platform has taken it, and the worker tells the rest through storage.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec

from augury.config import Resources, StorageConfig
from augury.invoke.blackbox import RunningTask
from augury.invoke.embedded.cloud import Emulation


class Invocation(msgspec.Struct, frozen=True):
    """One FaaS call.

    Attributes:
        run_id: The run.
        worker: The worker's name; `attempt`: which start of it.
        resources: What it must have.
        tasks: The tasks that a flexible worker starts with.
        stamp: Of the user's code; a warm environment that has seen other code is not reused.
        detached: Whether the run goes on without the client that started it.
    """

    run_id: str
    worker: str
    attempt: int
    resources: Resources
    tasks: tuple[int, ...] = ()
    stamp: str = ""
    detached: bool = False


class Limits(msgspec.Struct, frozen=True):
    """What a platform can do.

    Attributes:
        concurrency: How many invocations run at once.
        shares_files: Whether workers see the client's files.
        start_s: How long a start takes while there is room; one that takes longer waits for a slot.
        memory_mb: The most that a worker can have; 0 if it is not known.
        time_limit_s: How long an invocation may take before it is ended; 0 if there is no limit.
    """

    concurrency: int
    shares_files: bool = False
    start_s: float = 1.0
    memory_mb: int = 0
    time_limit_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationContext:
    """What a platform tells the handler about the place where an invocation runs.

    Attributes:
        cold: Whether the platform had to start a new environment for it.
        received_s: When the platform took the invocation, in seconds since the epoch.
        granted_s: When it had a slot for it, and began to start it.
        storage: Where the run keeps its data.
        gateway_url: Where the worker starts other workers; `token`: what it shows there.
        emulation: The cloud that the platform imitates, or None.
        memory_group: The folder of the control group that limits the worker's memory, or empty.
        data_limit_mb: What the process may allocate, where it limits itself for want of such a group; else 0.
        black_box: The file in which the worker notes what it does; empty if nobody would read it.
        deadline_s: When the platform ends the invocation, in seconds since the epoch; infinite if it does not.
        keys: Of the deployment, newest first; empty if the worker has to find them in its own environment.
    """

    cold: bool
    received_s: float
    granted_s: float
    storage: StorageConfig
    gateway_url: str
    token: str = field(repr=False)
    emulation: Emulation | None = None
    memory_group: str = ""
    data_limit_mb: int = 0
    black_box: str = ""
    deadline_s: float = math.inf
    keys: tuple[str, ...] = field(default=(), repr=False)


class LossKind(StrEnum):
    """Why an invocation did not come to its end."""

    STOPPED = "stopped"
    """It was ended on purpose, which is no failure of the run."""
    CRASH = "crash"
    """Its process was killed, or ended itself."""
    MEMORY = "memory"
    """It wanted more memory than it had."""
    TIMEOUT = "timeout"
    """It was killed for a task that was late and deaf to interruption; started again, it would be so again."""
    TIME = "time"
    """It took longer than the platform lets an invocation take."""
    ERROR = "error"
    """Its handler raised."""
    START = "start"
    """It could not be started."""
    PLATFORM = "platform"
    """The platform itself broke."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """An invocation that did not come to its end, as a gateway saw it.

    Attributes:
        invocation: Which.
        cold: Whether its worker was new.
        duration_s: How long it ran.
        kind: Why, for programs; `reason`: what happened, in words that go after the worker's name.
        tasks: What it was running; empty if it ran nothing, or if nobody knows.
        used_mb: The most memory that it had; 0 if that is not known.
        had_mb: The memory that it was limited to; 0 if it was not.
        limit_s: The time that it was limited to; 0 if it was not.
        overlong: The task that had nearly all of that time and was not done, so that it never will be; or -1.
    """

    invocation: Invocation
    cold: bool
    duration_s: float
    kind: LossKind
    reason: str = ""
    tasks: tuple[RunningTask, ...] = ()
    used_mb: int = 0
    had_mb: int = 0
    limit_s: float = 0.0
    overlong: int = -1


class Gateway(Protocol):
    """What starts invocations. Thread-safe.

    Raises:
        GatewayError: The platform refuses or does not answer; says what to do.
    """

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        """Hand invocations to the platform, in this order; it queues what it cannot run yet."""
        ...

    def prewarm(self, resources: Resources, count: int) -> None:
        """Have so many environments ready, without running anything; those that are warm and free count."""
        ...

    def limits(self) -> Limits:
        """What the platform can do."""
        ...

    def stop(self, run_id: str) -> None:
        """End the invocations of a run, as far as the platform can; the others end when they hear of it."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...
