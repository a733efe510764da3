"""What the processes of the platform say to each other.

Client → supervisor: `Settings`, one JSON line on its standard input. Supervisor → client: `Ready` or `NotReady`,
one JSON line on its standard output; and after `Ready`, should it come to that, a line with `NotReady`.

Supervisor ⇄ worker and pre-loaded parent → supervisor: messages in MessagePack behind their length (u32, big
endian) on a stream socket. Supervisor → pre-loaded parent: `REQUEST` structs of a fixed size, because a fork
request carries the worker's end of its socket, and a fixed size keeps each descriptor with its request.
"""

import struct
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from augury.config import StorageConfig
from augury.errors import DefinitionError, PlatformError
from augury.invoke.embedded.cloud import Emulation
from augury.invoke.gateway import Invocation, Limits

_LENGTH: Final = struct.Struct("!I")
_LONGEST_BYTES: Final = 64 * 1024 * 1024

REQUEST: Final = struct.Struct("!BQ")
"""Supervisor → pre-loaded parent: `FORK` (with a descriptor) or `KILL`, and the number of the worker."""

FORK: Final = 1
KILL: Final = 2


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a supervisor needs to know; holds the token and the keys, so it has no telling repr."""

    token: str
    keys: tuple[str, ...]
    redis: str
    patience_s: float
    redis_timeout_s: float | None
    linger_s: float
    detached_s: float
    folder: str
    folder_lock: int
    object_dir: str
    object_lock: int
    slots: int
    max_idle: int
    keep_alive_s: float
    enforce_limits: bool
    emulation: Emulation | None
    handler: str
    on_loss: str
    rehearsal: str
    preload: tuple[str, ...]
    sys_path: tuple[str, ...]
    body_bytes: int
    start_timeout_s: float
    time_limit_s: float = 0.0
    port: int = 0
    generation: int = 0

    def __repr__(self) -> str:
        return f"Settings({self.folder})"


END: Final = b"end"
"""What a client writes before it closes the pipe, if nothing is to go on without it."""


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The platform runs: where, and what it can do."""

    url: str
    redis: str
    object_dir: str
    limits: Limits
    notes: tuple[str, ...] = ()
    unlimited: str = ""


class NotReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The platform could not be started, or cannot start workers any more."""

    error: str


class GroupEntry(msgspec.Struct, frozen=True):
    """A control group that a worker makes and enters: its folder, and the limits as (file, text)."""

    folder: str
    limits: tuple[tuple[str, str], ...]


class Setup(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The first message to a worker: where it lives."""

    storage: StorageConfig
    gateway_url: str
    token: str
    keys: tuple[str, ...]
    emulation: Emulation | None
    groups: tuple[GroupEntry, ...] = ()
    memory_group: str = ""
    data_limit_mb: int = 0
    black_box: str = ""

    def __repr__(self) -> str:
        return f"Setup({self.gateway_url})"


class Run(msgspec.Struct, frozen=True, tag=True):
    """To a worker: carry this invocation out; the times are as in `InvocationContext`, without a deadline 0."""

    invocation: Invocation
    cold: bool
    received_s: float
    granted_s: float
    deadline_s: float = 0.0


class Started(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the handler is about to be called."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the handler returned; the worker waits for the next invocation.

    Attributes:
        refused: How much of what it was to unpickle was not authentic.
        spent: Whether it must end instead: something that was to stop goes on in it.
    """

    refused: int = 0
    spent: bool = False


class Raised(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the handler raised, or the worker could not be set up; it ends."""

    reason: str


class ParentReady(msgspec.Struct, frozen=True, tag=True):
    """From the pre-loaded parent: everything is imported."""


class ParentBroken(msgspec.Struct, frozen=True, tag=True):
    """From the pre-loaded parent: something cannot be imported."""

    reason: str


class Forked(msgspec.Struct, frozen=True, tag=True):
    """From the pre-loaded parent: a worker exists."""

    worker: int
    pid: int


class Refused(msgspec.Struct, frozen=True, tag=True):
    """From the pre-loaded parent: the system gave no process for a worker."""

    worker: int
    reason: str


class Exited(msgspec.Struct, frozen=True, tag=True):
    """From the pre-loaded parent: a worker is gone and reaped.

    Attributes:
        worker: Which.
        status: As `waitpid` gives it.
        peak_mb: The most memory that its process had.
    """

    worker: int
    status: int
    peak_mb: int


ToWorker = Setup | Run
FromWorker = Started | Done | Raised
FromParent = ParentReady | ParentBroken | Forked | Refused | Exited

TO_WORKER: Final = msgspec.msgpack.Decoder(ToWorker)
FROM_WORKER: Final[msgspec.msgpack.Decoder[FromWorker]] = msgspec.msgpack.Decoder(FromWorker)
FROM_PARENT: Final[msgspec.msgpack.Decoder[FromParent]] = msgspec.msgpack.Decoder(FromParent)

_Message = TypeVar("_Message")
_encode = msgspec.msgpack.Encoder().encode


def frame(message: object) -> bytes:
    """A message with its length before it."""
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Cuts a stream of bytes into messages.

    Raises:
        PlatformError: From `feed`: these are no messages. A task may have got hold of its worker's socket.
    """

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes, decoder: msgspec.msgpack.Decoder[_Message]) -> Iterator[_Message]:
        """The messages that are complete now."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer)
            if length > _LONGEST_BYTES:
                raise PlatformError(f"a message of {length} bytes is longer than any that is ever sent")
            end = _LENGTH.size + length
            if len(buffer) < end:
                return
            body = bytes(memoryview(buffer)[_LENGTH.size : end])
            del buffer[:end]
            try:
                message = decoder.decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, DefinitionError) as error:
                raise PlatformError(f"this is no message: {error}") from error
            yield message
