"""Two implementations of one protocol: every test that takes `storage` or `run` is held to both."""

import hashlib
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from augury.config import Resources, StorageConfig
from augury.storage import redis_client
from augury.storage.memory import MemoryStorage
from augury.storage.protocols import Beat, Claim, Coordination, Objects, RunSpec, Status, Storage
from augury.storage.redis import RedisStorage
from augury.storage.redis_client import RedisClient, Script, load_scripts
from augury.storage.server import RedisServer

SPEC = RunSpec(name="example", graph=b"\x00graph", program=b"\xffprogram", plan=b"plan", concurrency=4, inline_bytes=16)

PATIENCE_S = 30.0
"""For how long what must happen may take; it takes milliseconds."""

_PAUSE_S = 0.0025
_NUMBERS = itertools.count()


def claim(worker: str, *tasks: int) -> Claim:
    return Claim(worker, tasks, Resources())


def beat_until_told(beat: Callable[[], Beat]) -> Beat:
    """Beat again and again, as clients and workers do, until the answer is more than that the run goes on."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (answer := beat()) == Beat(Status.RUNNING):
        assert time.monotonic() < deadline_s, f"for {PATIENCE_S:g} s nothing has come of any beat"
        time.sleep(_PAUSE_S)
    return answer


def wait_until_blocked(redis: RedisClient) -> None:
    """Wait until another client of Redis waits for something."""
    deadline_s = time.monotonic() + PATIENCE_S
    while b"blocked_clients:1" not in redis.command("INFO", "clients"):
        assert time.monotonic() < deadline_s, "nobody waits for anything in Redis"


def new_run_id() -> str:
    return f"run{next(_NUMBERS)}"


class Clock:
    """A time that passes when a test says so: for storage in memory, and for scripts (see `told_the_time`)."""

    def __init__(self, redis: RedisClient | None = None) -> None:
        self.now_s = 1000.0
        self.redis = redis
        self.tell()

    def __call__(self) -> float:
        return self.now_s

    def wait(self, duration_s: float) -> None:
        self.now_s += duration_s
        self.tell()

    def tell(self) -> None:
        """Where scripts read what time it is."""
        if self.redis is not None:
            self.redis.command("SET", "clock", self.now_s)


@cache
def told_the_time() -> Mapping[str, Script]:
    """The scripts, but they read a clock of ours instead of that of Redis."""
    scripts = {}
    for name, script in load_scripts().items():
        text = script.text.replace("call('TIME')", "{ call('GET', 'clock'), 0 }")
        scripts[name] = Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
    return scripts


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "redis"])
def clocked(request: pytest.FixtureRequest, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage whose leases run by `clock`."""
    if request.param == "memory":
        return MemoryStorage(clock, ttl_s=1e9)
    storage: RedisStorage = request.getfixturevalue("redis_storage")
    monkeypatch.setattr(redis_client, "load_scripts", told_the_time)
    clock.redis = request.getfixturevalue("redis")
    clock.tell()
    return storage


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
