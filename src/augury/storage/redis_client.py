"""The wire to Redis: commands and scripts, sent again when a connection breaks or Redis cannot serve them now.

redis-py gives the connections, their pool and the parser. Commands go to them directly: its client would cost
as much time again as the round trip, and would copy large values twice.

Redis may be restarted, loading its data, failing over to a replica or full: calls are sent again until it serves
them or patience ends. One that is sent again may have been carried out the first time. That is harmless: all commands
used here may be repeated, and scripts that may not recognise a repetition (`lua/common.lua`).
"""

import hashlib
import inspect
import math
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import hiredis
import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection
from redis.retry import Retry

from augury.backoff import Attempts, Backoff
from augury.config import PATIENCE_S, address_parts, public_address
from augury.errors import StorageError
from augury.serde import Blob, Buffer
from augury.storage.connections import Connections
from augury.storage.redis_errors import CERTIFICATES, explained, is_elsewhere, patience_with

Argument = str | bytes | int | float

PATIENT = Backoff(patience_s=PATIENCE_S, first_s=0.02, longest_s=1.0)
"""How patiently calls are sent again, unless somebody chooses otherwise."""

_LONGEST_TIMEOUT_S = 20.0
"""How long an answer may take at most: more than anything that is asked of Redis takes on a busy machine."""

_LEAST_TIMEOUT_S = 3.0
"""Well above the longest wait that is ever asked of Redis."""

_SLICE_BYTES = 1 << 20
"""How much is sent within one time limit."""

_CONNECT_TIMEOUT_S = 10.0

_MAX_CONNECTIONS = 10_000

_NAMELESS = (
    {"driver_info": None}
    if "driver_info" in inspect.signature(AbstractConnection.__init__).parameters
    else {"lib_name": None, "lib_version": None}
)
"""Connections tell Redis no name of a library: that takes two round trips, and a search of what is installed."""

_NAME_BYTES = 8
_CALL_BYTES = 4
"""As scripts read them (`lua/common.lua`)."""

_OPTIONS = frozenset(
    {
        *("client_name", "db", "health_check_interval", "max_connections", "password", "retry_on_timeout", "username"),
        *("socket_connect_timeout", "socket_keepalive", "socket_read_size", "socket_timeout"),
    }
)
"""What an address may choose, besides how TLS is spoken: not what answers look like, nor whom else to ask."""

_DATABASE = re.compile(r"/?[0-9]*/?")
"""What comes after the host: the number of a database."""


class Script(NamedTuple):
    """A Lua script and the name under which Redis keeps it."""

    text: str
    sha: str


@cache
def load_scripts() -> Mapping[str, Script]:
    """The scripts of the folder `lua` by name, with what all of them share in front.

    All at once: a process that is out of descriptors can still carry on with what it has begun.
    """
    folder = resources.files("augury.storage") / "lua"
    texts = {PurePath(file.name).stem: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    common = texts.pop("common")
    return {name: _script(f"{common}\n{text}") for name, text in texts.items()}


def _script(text: str) -> Script:
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class Caller(NamedTuple):
    """Who makes a call that must not be carried out twice; one call at a time.

    Attributes:
        name: Who.
        call: Which call of it.
        known: Calls that were answered, of this caller and others of the same client, as far as no call has told of
            them that was answered itself: names and numbers, one after another.
    """

    name: bytes
    call: int
    known: bytes


class Callers:
    """Names for the callers of one client, each used by one thread at a time.

    What a client knows to be answered shows, with its next call, whether Redis has lost it: whichever of its callers
    makes that. Names are used again after a call that failed: it may still be under way, but no other has its number.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._free: list[tuple[bytes, int]] = []  # names, and their last calls
        self._untold: dict[bytes, int] = {}  # answered calls that none tells of which was answered itself

    @contextmanager
    def one(self) -> Iterator[Caller]:
        """A caller that nobody else uses meanwhile, with a new number for its call."""
        if self._owner != os.getpid():  # a fork: these names are still the parent's, and so may be the lock
            self._begin()
        with self._lock:
            name, last = self._free.pop() if self._free else (os.urandom(_NAME_BYTES), 0)
            told = tuple(self._untold.items())
        number = last + 1
        try:
            yield Caller(name, number, b"".join(known + call.to_bytes(_CALL_BYTES) for known, call in told))
            with self._lock:
                for known, call in told:
                    if self._untold.get(known) == call:
                        del self._untold[known]
                self._untold[name] = number
        finally:
            self._free.append((name, number))


class RedisClient:
    """Commands to one Redis. Connects when first used; thread-safe.

    Args:
        url: The address.
        timeout_s: How long an answer may take; by default as `timeout_within` says.
        connect_timeout_s: How long a connection may take, if less than an answer.
        backoff: How patiently calls are sent again.

    Raises:
        StorageError: From every method, and at once if the address is none; names the address and what to do.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float | None = None,
        connect_timeout_s: float = _CONNECT_TIMEOUT_S,
        backoff: Backoff = PATIENT,
    ) -> None:
        self.url = url
        self._backoff = backoff
        timeout_s = timeout_within(backoff.patience_s) if timeout_s is None else timeout_s
        if not _is_address(url):
            raise _no_address(url)
        _check_options(url)
        try:
            pool = redis.ConnectionPool.from_url(
                url,
                protocol=2,
                socket_timeout=timeout_s,
                socket_connect_timeout=min(connect_timeout_s, timeout_s),
                max_connections=_MAX_CONNECTIONS,
                retry=Retry(NoBackoff(), 0),
                **_NAMELESS,
            )
            options = pool.connection_kwargs
            pool.connection_class(**options)  # connects to nothing, but knows its options
        except TypeError as error:
            raise StorageError(
                f"the address {public_address(url)} of Redis has an unknown option{_quoted(error, url)}"
            ) from None
        except exceptions.RedisError as error:
            raise StorageError(
                f"the address {public_address(url)} of Redis has a wrong option{_quoted(error, url)}"
            ) from None
        except ValueError:
            raise _no_address(url) from None
        _check_files(options, url)
        self._connections = Connections(pool)

    def command(self, *arguments: Argument) -> Any:
        """Send one command and return its reply."""
        return self.pipeline([arguments])[0]

    def pipeline(self, commands: Sequence[Sequence[Argument]], *, patience_s: float = math.inf) -> list[Any]:
        """Send commands in one round trip and return their replies.

        Args:
            commands: What to send.
            patience_s: How long to try, if less than otherwise.
        """
        return self.exchange([b"".join(map(_pack, commands))], len(commands), patience_s=patience_s)

    def set_with(
        self, key: str, value: Blob, ttl_s: int, commands: Sequence[Sequence[Argument]], *, once: bool = False
    ) -> list[Any]:
        """Set a key to a large value, part by part without a copy; then send commands.

        Args:
            key: The key.
            value: Its value.
            ttl_s: How long it lives.
            commands: What to send after it.
            once: If the key has a value, leave it.

        Returns:
            What the commands are answered with.
        """
        head = b"*%d\r\n$3\r\nSET\r\n%b$%d\r\n" % (6 if once else 5, _bulk(key), value.size_bytes)
        tail = b"\r\n%b$2\r\nEX\r\n%b" % (b"$2\r\nNX\r\n" if once else b"", _bulk(str(ttl_s)))
        rest = b"".join([tail, *map(_pack, commands)])
        return self.exchange([head, *value.parts, rest], 1 + len(commands))[1:]

    def script(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Run a script of the folder `lua` in one round trip."""
        script = load_scripts()[name]
        with suppress(_UnknownScript):
            return self.command("EVALSHA", script.sha, len(keys), *keys, *arguments)
        # Redis is new, or has forgotten; it remembers what EVAL sends.
        return self.command("EVAL", script.text, len(keys), *keys, *arguments)

    def exchange(self, packed: Sequence[Buffer], replies: int, *, patience_s: float = math.inf) -> list[Any]:
        """Send commands that are packed already, in any number of parts, and return so many replies."""
        began_s = self._backoff.clock()
        try:
            return self._exchange_once(packed, replies)
        except exceptions.RedisError as error:
            return self._exchange_again(packed, replies, error, self._backoff.attempts(began_s), patience_s)

    def _exchange_again(
        self,
        packed: Sequence[Buffer],
        replies: int,
        error: exceptions.RedisError,
        attempts: Attempts,
        most_s: float,
    ) -> list[Any]:
        """Send what met an error until it is served or patience ends."""
        while attempts.again(patience_s=min(most_s, patience_with(error))):
            if is_elsewhere(error):
                self._connections.disconnect()
            try:
                return self._exchange_once(packed, replies)
            except exceptions.RedisError as latest:
                error = latest
        raise explained(self.url, error, attempts.told()) from error

    def close(self) -> None:
        """Close connections; one that another thread is using is closed when its call is over."""
        self._connections.close()

    def _exchange_once(self, packed: Sequence[Buffer], replies: int) -> list[Any]:
        connection, stood = self._connections.take()
        try:
            received = _exchanged(connection, packed, replies)
        except exceptions.ConnectionError:
            self._connections.give_back(connection, stands=False)
            if not stood:
                raise
            # It may have broken at any time since it was used, and so may others: nothing says that Redis is away.
            self._connections.disconnect()
            return self._exchange_once(packed, replies)
        except BaseException:
            self._connections.give_back(connection, stands=False)
            raise
        self._connections.give_back(connection, stands=True)
        for reply in received:
            if isinstance(reply, exceptions.NoScriptError):
                raise _UnknownScript(str(reply))
            if isinstance(reply, exceptions.RedisError):
                raise reply
        return received


def _exchanged(connection: Any, packed: Sequence[Buffer], replies: int) -> list[Any]:
    connection.send_packed_command(_slices(packed))
    return [_receive(connection) for _ in range(replies)]


def _slices(packed: Sequence[Buffer]) -> Iterator[Buffer]:
    """What is to be sent, in parts that have the time limit of a socket each, so that large values may take long."""
    for part in packed:
        if len(part) <= _SLICE_BYTES:
            yield part
        else:
            view = memoryview(part)
            for start in range(0, len(view), _SLICE_BYTES):
                yield view[start : start + _SLICE_BYTES]


def timeout_within(patience_s: float) -> float:
    """How long an answer may take: a call that gets none twice should not outlast patience by much."""
    return min(_LONGEST_TIMEOUT_S, max(_LEAST_TIMEOUT_S, patience_s / 2))


def _is_address(url: str) -> bool:
    """Whether this is an address; the library would ignore what it does not understand, or ask another host."""
    parts = address_parts(url)
    if parts is None or parts.fragment or not all("=" in option for option in parts.query.split("&") if option):
        return False
    if parts.scheme == "unix":
        return not parts.netloc or parts.netloc.endswith("@")
    return parts.scheme in ("redis", "rediss") and _DATABASE.fullmatch(parts.path) is not None


def _no_address(url: str) -> StorageError:
    return StorageError(
        f"{public_address(url)!r} is not an address of Redis; write redis://host:6379/0, rediss://… or unix:///path, "
        "and in a password %2F for /, %3F for ?, %23 for # and %40 for @"
    )


def _check_options(url: str) -> None:
    for option in parse_qs(url.partition("?")[2]):
        if option not in _OPTIONS and not option.startswith("ssl_"):
            raise StorageError(
                f"the address {public_address(url)} of Redis has an option that it cannot have{_quoted(option, url)}"
            )


def _quoted(said: object, url: str) -> str:
    """What is said of an option, unless that may be a part of a password with a question mark in it."""
    return "" if "@" in url.partition("?")[2] else f": {said}"


def _check_files(options: Mapping[str, Any], url: str) -> None:
    for option in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        path = options.get(option)
        if path and not os.access(path, os.R_OK):
            raise StorageError(
                f"the file {path} ({option} of Redis at {public_address(url)}) cannot be read: {CERTIFICATES}"
            )


class _UnknownScript(Exception):
    """Redis does not have a script: not an error, but a reason to send it."""


def _receive(connection: Any) -> Any:
    """One reply; a refusal is returned, because the replies after it must still be read."""
    try:
        return connection.read_response()
    except exceptions.ResponseError as refusal:
        return refusal


def _pack(arguments: Sequence[Argument]) -> bytes:
    # The declared type is that of one argument, and the result's is missing.
    command: Any = tuple(arguments)
    packed: bytes = hiredis.pack_command(command)
    return packed


def _bulk(text: str) -> bytes:
    data = text.encode()
    return b"$%d\r\n%b\r\n" % (len(data), data)
