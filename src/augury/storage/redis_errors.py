"""What went wrong in Redis: whether it may pass, and in words that say what to do."""

import math
from typing import Final, NamedTuple

from redis import exceptions

from augury.config import public_address
from augury.errors import StorageError

_NOT_AT_ALL: Final = 0.0
_BRIEFLY_S: Final = 5.0
"""For what passes only if somebody makes room: whoever waits should learn of it before long."""
_ALL_THERE_IS: Final = math.inf

_NO_CONNECTION: Final = "Timeout connecting"
"""What the library says if somebody took the call, or nobody did, and it went no further."""

CERTIFICATES: Final = (
    "name the files in the address, as in "
    "rediss://host:6380/0?ssl_ca_certs=/ca.pem&ssl_certfile=/client.pem&ssl_keyfile=/client.key"
)


class _Meaning(NamedTuple):
    """What an error means.

    Attributes:
        kind: What the library raises for it.
        mark: What the text contains otherwise: an error inside a script arrives as a text around its cause.
        text: What it means, for people.
        patience_s: How long to try again, at most.
    """

    kind: type[exceptions.RedisError] | None
    mark: str
    text: str
    patience_s: float


_MEANINGS: Final = (
    # The first that fits.
    _Meaning(
        exceptions.AuthenticationError,
        "WRONGPASS",
        "refused the password or the user: check both in the address",
        _NOT_AT_ALL,
    ),
    _Meaning(
        exceptions.NoPermissionError,
        "NOPERM",
        "does not let this user do that: give it the rights of SECURITY.md",
        _NOT_AT_ALL,
    ),
    _Meaning(None, "certificate", f"and this client do not trust each other: {CERTIFICATES}", _NOT_AT_ALL),
    _Meaning(None, "WRONG_VERSION_NUMBER", "does not speak TLS: does it listen for that on another port?", _NOT_AT_ALL),
    _Meaning(
        exceptions.OutOfMemoryError,
        "OOM ",
        "is full (maxmemory): remove old runs, or give it more memory",
        _BRIEFLY_S,
    ),
    _Meaning(None, "MISCONF", "takes no writes because it cannot save to its disk: is the disk full?", _BRIEFLY_S),
    _Meaning(
        exceptions.ReadOnlyError, "READONLY", "is a read-only replica: use the address of the primary", _ALL_THERE_IS
    ),
    _Meaning(exceptions.BusyLoadingError, "LOADING", "is still loading its data: try again in a moment", _ALL_THERE_IS),
    _Meaning(exceptions.MasterDownError, "MASTERDOWN", "is a replica that has lost its primary", _ALL_THERE_IS),
    _Meaning(exceptions.ClusterDownError, "CLUSTERDOWN", "is part of a cluster that is down", _ALL_THERE_IS),
    _Meaning(exceptions.TryAgainError, "TRYAGAIN", "is moving its data to another server", _ALL_THERE_IS),
    _Meaning(None, "NOREPLICAS", "takes no writes because too few replicas follow it", _ALL_THERE_IS),
    _Meaning(None, "UNBLOCKED", "changes from a primary to a replica", _ALL_THERE_IS),
    _Meaning(None, "BUSY ", "is busy with a script that takes too long: somebody else's?", _ALL_THERE_IS),
    _Meaning(None, "max number of clients", "has no connection left: raise its maxclients", _ALL_THERE_IS),
    _Meaning(
        exceptions.TimeoutError,
        "Timeout",
        "did not answer in time: is it overloaded, or the network down?",
        _ALL_THERE_IS,
    ),
)


def patience_with(error: exceptions.RedisError) -> float:
    """How many seconds a call that met this error should be tried again, at most; 0 if it will not pass."""
    meaning = _meaning_of(error)
    if meaning is not None:
        return meaning.patience_s
    return _ALL_THERE_IS if isinstance(error, exceptions.ConnectionError) else _NOT_AT_ALL


def is_elsewhere(error: exceptions.RedisError) -> bool:
    """Whether the server that answered is not the one to ask: another may be at the same address by now."""
    meaning = _meaning_of(error)
    return meaning is not None and meaning.mark in ("READONLY", "MASTERDOWN", "UNBLOCKED")


def explained(url: str, error: exceptions.RedisError, tried: str = "") -> StorageError:
    """What the client library raised as a `StorageError` that names the address, never the password.

    Args:
        url: The address.
        error: What happened.
        tried: How often and how long, if more than once.
    """
    address, said = public_address(url), f"{error}; {tried}" if tried else str(error)
    meaning = _meaning_of(error)
    if meaning is not None:
        return StorageError(f"Redis at {address} {meaning.text}{_doubt(url, said)} ({said})")
    if isinstance(error, exceptions.ConnectionError):
        return StorageError(f"cannot connect to Redis at {address}: is it running, and is the address right? ({said})")
    return StorageError(f"Redis at {address} refused the request: {said}")


def _doubt(url: str, said: str) -> str:
    """What else may be wrong: a server without TLS waits for the rest of what is no command to it."""
    return " Does it speak TLS?" if url.startswith("rediss:") and _NO_CONNECTION in said else ""


def _meaning_of(error: exceptions.RedisError) -> _Meaning | None:
    text = str(error)
    for meaning in _MEANINGS:
        if (meaning.kind is not None and isinstance(error, meaning.kind)) or meaning.mark in text:
            return meaning
    return None
