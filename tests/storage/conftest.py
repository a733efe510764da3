"""Two implementations of one protocol: every test that takes `storage` or `run` is held to both."""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from augury.config import Resources, StorageConfig
from augury.storage.memory import MemoryStorage
from augury.storage.protocols import Claim, Coordination, Objects, RunSpec, Storage
from augury.storage.redis import RedisStorage
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer

SPEC = RunSpec(name="example", graph=b"\x00graph", program=b"\xffprogram", plan=b"plan", concurrency=4, inline_bytes=16)

_NUMBERS = itertools.count()


def claim(worker: str, *tasks: int) -> Claim:
    return Claim(worker, tasks, Resources())


def new_run_id() -> str:
    return f"run{next(_NUMBERS)}"


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for the name of a socket."""
    folder = Path(tempfile.mkdtemp(prefix="storage-test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def redis_storage(redis_server: RedisServer, redis: RedisClient) -> Iterator[RedisStorage]:
    storage = RedisStorage(StorageConfig(redis=redis_server.address, ttl_s=1000))
    yield storage
    storage.close()


@pytest.fixture(params=["memory", "redis"])
def storage(request: pytest.FixtureRequest) -> Storage:
    if request.param == "memory":
        return MemoryStorage()
    found: RedisStorage = request.getfixturevalue("redis_storage")
    return found


@pytest.fixture
def run(storage: Storage) -> Coordination:
    """A run with one sink, task 9, and one worker, `first`, that has been claimed."""
    coordination = storage.coordination(new_run_id())
    coordination.create(SPEC, [9], [claim("first", 0)])
    return coordination


@pytest.fixture
def new_run(storage: Storage) -> Callable[[], Coordination]:
    """Makes runs like `run`, for tests that need many."""

    def make() -> Coordination:
        coordination = storage.coordination(new_run_id())
        coordination.create(SPEC, [9], [claim("first", 0)])
        return coordination

    return make


@pytest.fixture(params=["memory", "redis", "shm"])
def objects(request: pytest.FixtureRequest, redis_server: RedisServer, tmp_path: Path) -> Iterator[Objects]:
    """Room for the objects of a run."""
    folder = str(tmp_path / "objects") if request.param == "shm" else ""
    redis = RedisStorage(StorageConfig(redis=redis_server.address, object_dir=folder))
    storage: Storage = MemoryStorage() if request.param == "memory" else redis
    room = storage.objects(new_run_id())
    room.create()
    yield room
    room.remove()
    redis.close()
