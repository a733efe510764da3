"""Frozen, picklable settings: what a user chooses, as values that travel."""

import math
import sys
from urllib.parse import SplitResult, urlsplit

import msgspec

from augury.errors import DefinitionError

INLINE_BYTES = 16 * 1024
"""Outputs up to this size ride inside events and reports; larger ones are objects of their own."""

PATIENCE_S = 30.0
"""How long storage and gateway may be away, or refuse, before a run fails."""

CONSTANT_BYTES = 64 * 1024
"""Arguments and functions above this size are stored once, however many tasks use them."""

LARGEST = 2**32
"""What a number is at most that somebody sets: more than a century in seconds. More is a slip, and fits nowhere."""

MOST_CPUS = 1024
"""How many virtual CPUs a worker has at most. For each, it has room for a task; no platform gives as many."""

LARGEST_FLOAT = sys.float_info.max
"""What a number is at most that is only reckoned with."""

_LONGEST_LABEL = 63
"""How many characters a part of a host's name has at most."""

LONGEST_CACHE_S = 400 * 24 * 3600
"""How long an output can be kept for later runs."""

CACHE_BYTES = 1024**3
"""How much room outputs have that are kept for later runs, unless the user says otherwise."""


class Resources(msgspec.Struct, frozen=True, order=True):
    """What a worker has: virtual CPUs and memory.

    Args:
        cpus: Virtual CPUs, at most 1024; a worker runs as many tasks at once as it has whole ones, and at least one.
        memory_mb: Memory in MiB.

    Example:
        >>> Resources(cpus=2, memory_mb=1024).task_slots
        2
    """

    cpus: float = 1.0
    memory_mb: int = 2048

    def __post_init__(self) -> None:
        if not is_positive(self.cpus) or self.cpus > MOST_CPUS:
            raise DefinitionError(f"Resources.cpus must be a positive number, {but_not(self.cpus, MOST_CPUS)}")
        if not is_whole(self.memory_mb, least=1):
            raise DefinitionError(
                f"Resources.memory_mb must be a whole number of at least 1, {but_not(self.memory_mb)}"
            )

    @property
    def task_slots(self) -> int:
        """How many tasks a worker with these resources runs at once."""
        return max(1, math.floor(self.cpus))

    def covers(self, other: "Resources") -> bool:
        """Whether what needs `other` can run with these."""
        return self.cpus >= other.cpus and self.memory_mb >= other.memory_mb


class StorageConfig(msgspec.Struct, frozen=True):
    """Where runs keep their data; opened by `augury.storage.opening.open_storage`.

    `redis` is an address such as `redis://host:6379/0`, `rediss://…` or `unix:///path.sock`. It may hold
    a password, so its repr does not show it. `object_dir` is a folder in shared memory that all workers
    and the client see, or empty: large objects then go through Redis. Every key lives `ttl_s` after the last change
    of its run. `patience_s` is how long Redis may be away or refuse, before a call fails; `timeout_s` how long
    it may take for an answer, by default such that a call that is sent twice does not take longer than that.
    """

    redis: str
    object_dir: str = ""
    ttl_s: int = 24 * 3600
    patience_s: float = PATIENCE_S
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if not self.redis:
            raise DefinitionError("StorageConfig.redis must be an address, such as redis://host:6379/0")
        if not is_whole(self.ttl_s, least=1):
            raise DefinitionError(f"StorageConfig.ttl_s must be a whole number of at least 1, {but_not(self.ttl_s)}")
        if not is_positive(self.patience_s):
            raise DefinitionError(f"StorageConfig.patience_s must be a positive number, {but_not(self.patience_s)}")
        if self.timeout_s is not None and not is_positive(self.timeout_s):
            raise DefinitionError(f"StorageConfig.timeout_s must be a positive number, {but_not(self.timeout_s)}")

    def __repr__(self) -> str:
        return f"StorageConfig({public_address(self.redis)})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("redis", public_address(self.redis))]  # msgspec's own shows every field


class Cache(msgspec.Struct, frozen=True):
    """How long outputs of a task function are kept for later runs; see `@task(cache=…)`.

    Args:
        expires_s: After how many seconds an output is computed again, at most 400 days.

    Example:
        >>> Cache(expires_s=3600)
        Cache(expires_s=3600)
    """

    expires_s: float = 30 * 24 * 3600

    def __post_init__(self) -> None:
        if not is_positive(self.expires_s) or self.expires_s > LONGEST_CACHE_S:
            raise DefinitionError(
                "Cache.expires_s must be a positive number of seconds, at most 400 days, "
                f"{but_not(self.expires_s, LONGEST_CACHE_S)}"
            )


class ResultsConfig(msgspec.Struct, frozen=True):
    """Where outputs of `@task(cache=…)` are kept for later runs.

    `folder` is one that all workers see, or empty: then it is the Redis of the run. `most_bytes` is how much room there
    is; 0: nothing is kept, and nothing is looked for.
    """

    folder: str = ""
    most_bytes: int = 0


def public_address(url: str) -> str:
    """An address without user, password and options (which may hold one), fit for messages and logs.

    Example:
        >>> public_address("redis://me:secret@host:6379/0?timeout=3")
        'redis://host:6379/0'
    """
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    address, _, options = rest.partition("?")
    if "@" in options:
        return f"{scheme}{separator}…"  # a password with a question mark in it, or an option: show neither
    return f"{scheme}{separator}{address if address.startswith('/') else address.rpartition('@')[2]}"


def address_parts(url: str) -> SplitResult | None:
    """The parts of an address, all of them good to read; None if it is no address.

    The library's own error would quote a part, which may be one of a password with a `/`, `?` or `#` in it.

    Example:
        >>> address_parts("redis://:se/cret@host:6379/0") is None
        True
    """
    try:
        parts = urlsplit(url)
        known = parts.port is None or parts.port > 0
        is_host = _is_host(parts.hostname or "")
    except ValueError:
        return None
    return parts if known and is_host else None


def _is_host(name: str) -> bool:
    """Whether a name could be that of a host; empty if there is none.

    Raises:
        UnicodeError: It has characters that no name can have.
    """
    if not name.isascii():
        name = name.encode("idna").decode()  # what is needed for that takes long to load
    return not name or all(0 < len(label) <= _LONGEST_LABEL for label in name.removesuffix(".").split("."))


def is_number(value: object, *, least: float = 0, most: float = LARGEST) -> bool:
    """Whether a value is a number within bounds, which fits into a float; NaN and True are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return least <= value <= most and (isinstance(value, float) or abs(value) <= LARGEST_FLOAT)


def is_positive(number: object) -> bool:
    """Whether a value is a number above zero, and not beyond all measure; infinity and True are none."""
    return is_number(number) and number != 0


def is_whole(number: object, *, least: int, most: int = LARGEST) -> bool:
    """Whether a value is an integer within bounds; True is none."""
    return isinstance(number, int) and not isinstance(number, bool) and least <= number <= most


def but_not(value: object, most: float = LARGEST) -> str:
    """How a message ends that refuses a setting.

    Example:
        >>> but_not("a"), but_not(10**30)
        ("not 'a'", 'not more than 4,294,967,296')
    """
    if isinstance(value, int | float) and most < abs(value) < math.inf:
        # Python does not even write numbers of many thousand digits.
        return f"not more than {most:,}" if value > 0 else f"not less than -{most:,}"
    return f"not {value!r}"
