"""From settings to an open storage."""

import importlib
from types import ModuleType

from augury.config import StorageConfig
from augury.storage.protocols import Storage


def open_storage(config: StorageConfig) -> Storage:
    """The storage that a configuration describes. Connects when first used; `ping` checks it.

    Raises:
        StorageError: The address is none.
    """
    storage: Storage = load_driver().RedisStorage(config)
    return storage


def load_driver() -> ModuleType:
    """Import what talks to the storage: when it is first needed, since it takes long and many programs do not."""
    return importlib.import_module("augury.storage.redis")


def load_scripts() -> None:
    """Read what the storage is told to do: else that is done with the first call."""
    load_driver()
    importlib.import_module("augury.storage.redis_client").load_scripts()
