"""What all tests share: a history of their own, and a Redis where one is needed."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or changes the history of the user who runs it; processes that tests start inherit this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUGURY_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Scripts that tests start can be interrupted, though the tests may run in the background of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    folder = Path(tempfile.mkdtemp(prefix="redis-test-"))
    with RedisServer(folder) as server:
        yield server
    shutil.rmtree(folder)


@pytest.fixture
def redis(redis_server: RedisServer) -> Iterator[RedisClient]:
    """Commands to an empty Redis, beside what is tested."""
    client = RedisClient(redis_server.address)
    client.command("FLUSHALL")
    yield client
    client.close()
