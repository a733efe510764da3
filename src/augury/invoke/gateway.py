"""A gateway starts invocations: each embodies one worker of one run.

Small enough that a FaaS platform is one module. An invocation is fire and forget: `invoke` returns when
the platform has taken it, and the worker tells the rest through storage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from augury.config import Resources, StorageConfig
from augury.invoke.embedded.cloud import Emulation


class Invocation(msgspec.Struct, frozen=True):
    """One FaaS call.

    Attributes:
        run_id: The run.
        worker: The worker's name; `attempt`: which start of it.
        resources: What it must have.
        tasks: The tasks that a flexible worker starts with.
        stamp: Of the user's code; a warm environment that has seen other code is not reused.
    """

    run_id: str
    worker: str
    attempt: int
    resources: Resources
    tasks: tuple[int, ...] = ()
    stamp: str = ""


class Limits(msgspec.Struct, frozen=True):
    """What a platform can do.

    Attributes:
        concurrency: How many invocations run at once.
        shares_files: Whether workers see the client's files.
        start_s: How long a start takes while there is room; one that takes longer waits for a slot.
        memory_mb: The most that a worker can have; 0 if it is not known.
    """

    concurrency: int
    shares_files: bool = False
    start_s: float = 1.0
    memory_mb: int = 0


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
    """

    cold: bool
    received_s: float
    granted_s: float
    storage: StorageConfig
    gateway_url: str
    token: str = field(repr=False)
    emulation: Emulation | None = None
    memory_group: str = ""


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
