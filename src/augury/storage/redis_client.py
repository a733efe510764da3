"""The wire to Redis: commands and scripts, sent again when a connection breaks.

redis-py gives the connections, their pool and the parser. Commands go to them directly: its client would cost
as much time again as the round trip, and would copy large values twice.

A call that is sent again may have been carried out the first time. That is harmless: all commands used here
may be repeated, and scripts that may not recognise a repetition (`lua/common.lua`).
"""

import hashlib
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import hiredis
import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from augury.config import public_address
from augury.errors import StorageError
from augury.serde import Blob, Buffer
from augury.storage.redis_errors import translated

Argument = str | bytes | int | float

_PAUSES_S = (0.02, 0.1, 0.5)
"""How long to wait before a call is sent again; then it fails."""

_SOCKET_TIMEOUT_S = 60.0
"""Far above the longest wait that is ever asked of Redis."""

_CONNECT_TIMEOUT_S = 10.0

_MAX_CONNECTIONS = 10_000


class Script(NamedTuple):
    """A Lua script and the name under which Redis keeps it."""

    text: str
    sha: str


@cache
def load_script(name: str) -> Script:
    """A script of the folder `lua`, with what all of them share in front."""
    folder = resources.files("augury.storage") / "lua"
    text = "\n".join((folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("common", name))
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class Caller(NamedTuple):
    """Who makes a call that must not be carried out twice; one call at a time."""

    name: bytes
    call: int


class Callers:
    """Names for the callers of one client, each used by one thread at a time."""

    def __init__(self) -> None:
        self._free: deque[tuple[bytes, Iterator[int]]] = deque()
        self._owner = os.getpid()

    @contextmanager
    def one(self) -> Iterator[Caller]:
        """A caller that nobody else uses meanwhile, with a new number for its call."""
        if self._owner != os.getpid():  # a fork: these names are still the parent's
            self._free, self._owner = deque(), os.getpid()
        try:
            name, calls = self._free.pop()
        except IndexError:
            name, calls = os.urandom(8), itertools.count(1)
        yield Caller(name, next(calls))
        # Not after an error: a call that may still be under way keeps its name.
        self._free.append((name, calls))


class RedisClient:
    """Commands to one Redis. Connects when first used; thread-safe.

    Args:
        url: The address.
        timeout_s: How long an answer may take; by default long enough for the longest wait that is ever asked for.
        connect_timeout_s: How long a connection may take.
        pauses_s: How long to wait before a call is sent again, each time; then it fails.

    Raises:
        StorageError: From every method, and at once if the address is none; names the address and what to do.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = _SOCKET_TIMEOUT_S,
        connect_timeout_s: float = _CONNECT_TIMEOUT_S,
        pauses_s: Sequence[float] | None = None,
    ) -> None:
        self.url = url
        self._pauses_s = pauses_s
        try:
            self._pool = redis.ConnectionPool.from_url(
                url,
                protocol=2,
                socket_timeout=timeout_s,
                socket_connect_timeout=connect_timeout_s,
                max_connections=_MAX_CONNECTIONS,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError as error:
            raise StorageError(
                f"{public_address(url)!r} is not an address of Redis; write redis://host:6379/0, rediss://… or unix:///path"
            ) from error

    def command(self, *arguments: Argument) -> Any:
        """Send one command and return its reply."""
        return self.pipeline([arguments])[0]

    def pipeline(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Send commands in one round trip and return their replies."""
        return self.exchange([b"".join(map(_pack, commands))], len(commands))

    def set_with(self, key: str, value: Blob, ttl_s: int, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Set a key to a large value, part by part without a copy, then send commands; returns their replies."""
        head = b"*5\r\n$3\r\nSET\r\n%b$%d\r\n" % (_bulk(key), value.size_bytes)
        tail = b"\r\n$2\r\nEX\r\n%b" % _bulk(str(ttl_s))
        rest = b"".join([tail, *map(_pack, commands)])
        return self.exchange([head, *value.parts, rest], 1 + len(commands))[1:]

    def script(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Run a script of the folder `lua` in one round trip."""
        script = load_script(name)
        with suppress(_UnknownScript):
            return self.command("EVALSHA", script.sha, len(keys), *keys, *arguments)
        # Redis is new, or has forgotten; it remembers what EVAL sends.
        return self.command("EVAL", script.text, len(keys), *keys, *arguments)

    def exchange(self, packed: Sequence[Buffer], replies: int) -> list[Any]:
        """Send commands that are packed already, in any number of parts, and return so many replies."""
        with translated(self.url):
            for pause_s in _PAUSES_S if self._pauses_s is None else self._pauses_s:
                try:
                    return self._exchange_once(packed, replies)
                except exceptions.AuthenticationError:
                    raise
                except (exceptions.ConnectionError, exceptions.TimeoutError):
                    time.sleep(pause_s)
            return self._exchange_once(packed, replies)

    def close(self) -> None:
        """Close all connections."""
        self._pool.disconnect()

    def _exchange_once(self, packed: Sequence[Buffer], replies: int) -> list[Any]:
        connection: Any = self._pool.get_connection()
        try:
            connection.send_packed_command(packed)
            received = [_receive(connection) for _ in range(replies)]
        except BaseException:
            # Replies may be left unread: nobody can use this connection again.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)
        for reply in received:
            if isinstance(reply, exceptions.NoScriptError):
                raise _UnknownScript(str(reply))
            if isinstance(reply, exceptions.RedisError):
                raise reply
        return received


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
