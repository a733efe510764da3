"""How a run looks after its workers: what the user chose, and what the platform can give."""

from collections.abc import Sequence

import msgspec

from augury.config import Resources
from augury.storage.protocols import Care

MOST_MEMORY_MB = 10_240
"""What a worker can have at most where the platform does not say."""

LEAST_LEASE_S = 0.2
"""Shorter leases run out before anybody can be heard."""

_LEAST_MB = 64

CLIENT_S = 60.0
"""After how long without its client a run that ends with it is cancelled, at least."""


def care_for(care: Care, configurations: Sequence[Resources], most_mb: int) -> Care:
    """What the user chose, with what workers get that need more memory: the configurations, then ever twice as much.

    Args:
        care: What the user chose.
        configurations: What workers may have.
        most_mb: What a worker can have at most; 0 if that is not known.

    Example:
        >>> [one.memory_mb for one in care_for(Care(), [Resources(memory_mb=1024)], 8192).larger]
        [1024, 2048, 4096, 8192]
        >>> [one.memory_mb for one in care_for(Care(), [Resources(memory_mb=2048)], 600).larger]
        [128, 256, 512, 600]
    """
    most_mb = most_mb or MOST_MEMORY_MB
    ladder = {one.memory_mb: one for one in sorted(configurations) if one.memory_mb <= most_mb}
    cpus = max((one.cpus for one in configurations), default=1.0)
    memory_mb = max(ladder, default=_LEAST_MB)
    while memory_mb < most_mb:
        memory_mb = min(2 * memory_mb, most_mb)
        ladder[memory_mb] = Resources(cpus, memory_mb)
    return msgspec.structs.replace(care, larger=tuple(ladder[mb] for mb in sorted(ladder)))


def ending_with_client(care: Care) -> Care:
    """The same for a run that ends with its client, where nobody sees at once that a client is gone."""
    # While storage is away, which it may be for as long as the gateway, the client cannot be heard.
    return msgspec.structs.replace(care, client_s=max(CLIENT_S, 2 * care.lease_s, 2 * care.patience_s))
