"""Three stores of one protocol: every test that takes `store` or `open_store` is held to all of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from augury.metrics.history.folder import FolderStore
from augury.metrics.history.memory import MemoryStore
from augury.metrics.history.shared import RedisStore
from augury.metrics.history.store import HistoryStore
from augury.storage.redis_client import RedisClient


class OpenStore(Protocol):
    """Opens a store; all that one test opens keep their records in the same place."""

    def __call__(self, **options: Any) -> HistoryStore: ...


@pytest.fixture(params=["memory", "folder", "redis"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    opened: list[HistoryStore] = []
    client: RedisClient | None = request.getfixturevalue("redis") if request.param == "redis" else None

    def open_one(**options: Any) -> HistoryStore:
        if request.param == "memory":
            store: HistoryStore = opened[0] if opened else MemoryStore(**options)
        elif client is None:
            store = FolderStore(tmp_path / "history", **options)
        else:
            store = RedisStore(client.url, **options)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> HistoryStore:
    return open_store()
