"""From settings to an open storage."""

from augury.config import StorageConfig
from augury.storage.protocols import Storage
from augury.storage.redis import RedisStorage


def open_storage(config: StorageConfig) -> Storage:
    """The storage that a configuration describes. Connects when first used; `ping` checks it.

    Raises:
        StorageError: The address is none.
    """
    return RedisStorage(config)
