"""How many files the supervisor may have open, and who gets how many of them.

    limit ─┬─ its own: Redis, the log, the pre-loaded parent, connections that are about to be taken
           ├─ workers: two for each that runs, waits or is pre-warmed, its socket and the other end of it at first
           └─ connections to the gateway, one of each worker that runs at least

Whoever connects needs no token for that, so connections get what the others leave, and no more: else strangers could
keep workers from being started. Where that is too little, fewer workers run at once.
"""

import resource
from contextlib import suppress
from typing import Final

import msgspec

_MANY_FILES: Final = 65_536
_OWN_FILES: Final = 64
_FILES_OF_WORKER: Final = 2
_MOST_CONNECTIONS: Final = 10_000


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform can do with the files that it may have open.

    Attributes:
        slots: How many workers run at once.
        max_idle: How many wait.
        connections: How many connections there may be to the gateway.
    """

    slots: int
    max_idle: int
    connections: int


def raise_file_limit() -> int:
    """Let this process open as many files as the system allows; returns how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, _MANY_FILES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def share_out(files: int, slots: int, max_idle: int) -> Share:
    """Share out so many files; one slot there is even if they do not suffice."""
    free = files - _OWN_FILES
    most = max(1, free // (2 * _FILES_OF_WORKER + 1))
    slots, max_idle = min(slots, most), min(max_idle, most)
    rest = free - _FILES_OF_WORKER * (slots + max_idle)
    return Share(slots=slots, max_idle=max_idle, connections=min(_MOST_CONNECTIONS, max(slots, rest)))
