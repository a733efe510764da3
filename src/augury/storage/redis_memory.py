"""Whether a Redis keeps what it is given when its memory runs out.

All keys of a run expire some day, so every policy but `noeviction` may take some of them away while the run needs
them: a counter that is gone never gets to its end. Such a Redis is refused before anything is stored in it.
"""

from augury.config import public_address
from augury.errors import StorageError
from augury.storage.redis_client import RedisClient

_KEEPS = "noeviction"


def check_eviction(client: RedisClient) -> None:
    """Refuse a Redis that may evict keys of runs.

    Raises:
        StorageError: Says which policy it has, and how to change it.
    """
    try:
        facts = _facts(client.command("INFO", "memory"))
    except StorageError:
        return  # a user who may not ask; what was evicted then shows as a run that is lost
    policy = facts.get("maxmemory_policy", _KEEPS)
    if facts.get("maxmemory", "0") != "0" and policy != _KEEPS:
        raise StorageError(
            f"Redis at {public_address(client.url)} may delete data of runs when its memory is full "
            f"(maxmemory-policy {policy}): set it to {_KEEPS}, with CONFIG SET maxmemory-policy {_KEEPS} or in its "
            "configuration, or use another Redis"
        )


def _facts(told: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in told.decode("utf-8", "replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}
