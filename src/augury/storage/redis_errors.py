"""What went wrong in Redis, in words that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions

from augury.config import public_address
from augury.errors import StorageError

_MEANINGS: tuple[tuple[type[exceptions.RedisError] | None, str, str], ...] = (
    # What the library raises, else what the text contains (an error inside a script arrives as a text around
    # its cause), and what it means; the first that fits.
    (exceptions.AuthenticationError, "WRONGPASS", "refused the password or the user: check both in the address"),
    (exceptions.NoPermissionError, "NOPERM", "does not let this user do that: allow all commands on keys `augury:*`"),
    (exceptions.OutOfMemoryError, "OOM ", "is full (maxmemory): remove old runs, or give it more memory"),
    (exceptions.ReadOnlyError, "READONLY", "is a read-only replica: use the address of the primary"),
    (exceptions.BusyLoadingError, "LOADING", "is still loading its data: try again in a moment"),
    (None, "MISCONF", "takes no writes because it cannot save to its disk: is the disk full?"),
    (None, "max number of clients", "has no connection left: raise its maxclients"),
    (exceptions.TimeoutError, "Timeout", "did not answer in time: is it overloaded, or the network down?"),
)


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turn what the client library raises into a `StorageError` that names the address, never the password."""
    try:
        yield
    except exceptions.RedisError as error:
        raise StorageError(_explain(url, error)) from error


def _explain(url: str, error: exceptions.RedisError) -> str:
    address, text = public_address(url), str(error)
    for kind, mark, meaning in _MEANINGS:
        if (kind is not None and isinstance(error, kind)) or mark in text:
            return f"Redis at {address} {meaning} ({text})"
    if isinstance(error, exceptions.ConnectionError):
        return f"cannot connect to Redis at {address}: is it running, and is the address right? ({text})"
    return f"Redis at {address} refused the request: {text}"
