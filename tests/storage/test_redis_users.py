"""Users of Redis with passwords and rights (ACL): the ones that SECURITY.md names are enough, and no more is needed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from augury import Client, Embedded, StorageError, history, task
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer

SECURITY = Path(__file__).parents[2] / "SECURITY.md"


@task
def fill(size: int) -> bytes:
    return bytes(size)


@task
def total(parts: list[bytes]) -> int:
    return sum(map(len, parts))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


def address_of(server: RedisServer, user: str, password: str) -> str:
    return f"unix://{user}:{password}@{server.socket_path}"


@pytest.fixture(scope="module")
def address(server: RedisServer) -> str:
    """Of a user made by the very line that SECURITY.md gives."""
    found = re.search(r"^    ACL SETUSER augury (.*)$", SECURITY.read_text(), re.MULTILINE)
    assert found is not None
    administrator = RedisClient(server.address)
    administrator.command("ACL", "SETUSER", "augury", *found[1].replace("PASSWORD", "s3cret").split())
    administrator.command("ACL", "SETUSER", "reader", "on", ">s3cret", "~augury:*", "-@all", "+@read", "+@connection")
    administrator.close()
    return address_of(server, "augury", "s3cret")


def test_the_rights_of_the_documented_user_are_enough(server: RedisServer, address: str) -> None:
    with Embedded(slots=3).start(redis=address) as platform:
        gateway = Client(redis=address, gateway=platform.url, token=platform.token, observers=[])
        with gateway as client:
            for _ in range(2):
                assert client.compute(total([fill(size) for size in (10, 100_000, 200_000)]), name="acl") == 300_010
            run = client.submit(total([fill(1)]))
            run.cancel()
            cached = task(cache=True)(fill.fn)
            assert [len(client.compute(cached(200_000))) for _ in range(2)] == [200_000] * 2
            assert client.clear_cache() == 1
    kept = history(address)
    assert kept.workflows()
    assert kept.forget("acl")


def test_the_documented_user_can_do_nothing_else(address: str) -> None:
    client = RedisClient(address)
    for command in (("GET", "other"), ("FLUSHALL",), ("KEYS", "*"), ("CONFIG", "GET", "*"), ("ACL", "LIST"), ("SAVE",)):
        with pytest.raises(StorageError, match="does not let this user do that"):
            client.command(*command)
    client.close()


def test_a_wrong_password_is_told_and_not_shown(server: RedisServer, address: str) -> None:
    client = RedisClient(address_of(server, "augury", "wr0ng"))
    with pytest.raises(StorageError, match="refused the password or the user") as caught:
        client.command("PING")
    assert "wr0ng" not in str(caught.value)


def test_a_user_who_may_only_read_is_told(server: RedisServer, address: str) -> None:
    with pytest.raises(StorageError, match=r"does not let this user do that.*SECURITY\.md") as caught:
        Client(redis=address_of(server, "reader", "s3cret"), platform=Embedded(slots=1), observers=[]).compute(fill(1))
    assert "s3cret" not in str(caught.value)
