"""Clients that are given addresses: of a Redis, and of a gateway whose workers use it."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import augury
from augury import Client, Embedded, task
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.storage.server import RedisServer


@task
def fill(size: int, value: int) -> bytes:
    return bytes([value]) * size


@task
def measure(parts: list[bytes], table: bytes) -> tuple[int, int]:
    return sum(map(len, parts)), len(table)


@pytest.fixture
def address(redis_with_password: tuple[str, int, str]) -> str:
    host, port, password = redis_with_password
    return f"redis://:{quote(password, safe='')}@{host}:{port}/0"


@pytest.fixture
def platform(address: str) -> Iterator[EmbeddedPlatform]:
    with Embedded(slots=3).start(redis=address) as platform:
        yield platform


def test_a_client_of_a_gateway_and_a_redis(platform: EmbeddedPlatform, address: str) -> None:
    with Client(redis=address, gateway=platform.url, token=platform.token, observers=[]) as client:
        run = client.submit(measure([fill(200_000, i) for i in range(4)], bytes(100_000)))
        assert run.result(timeout=60) == (800_000, 100_000)
        assert client.compute(fill(300_000, 7)) == bytes([7]) * 300_000


def test_the_embedded_platform_with_a_redis_of_the_users(address: str) -> None:
    with Client(redis=address, platform=Embedded(slots=2), observers=[]) as client:
        assert client.compute(measure([fill(200_000, 1)], b"x")) == (200_000, 1)


def test_nothing_is_left_in_the_users_redis(address: str) -> None:
    with Client(redis=address, platform=Embedded(slots=2), observers=[]) as client:
        client.compute(measure([fill(200_000, 1)], bytes(100_000)))
        storage = client._open().storage
        assert storage._client.command("KEYS", "*") == []  # type: ignore[attr-defined]


def test_a_wrong_token_is_told(platform: EmbeddedPlatform, address: str) -> None:
    client = Client(redis=address, gateway=platform.url, token="guess", observers=[])
    with client, pytest.raises(augury.GatewayError, match="token"):
        client.compute(fill(1, 1))


def test_the_token_may_come_from_the_environment(
    platform: EmbeddedPlatform, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUGURY_TOKEN", platform.token)
    with Client(redis=address, gateway=platform.url, observers=[]) as client:
        assert client.compute(fill(2, 1)) == b"\1\1"


def test_a_wrong_password_is_told_and_not_shown(platform: EmbeddedPlatform, address: str) -> None:
    wrong = address.replace("s3cret", "wr0ng")
    client = Client(redis=wrong, gateway=platform.url, token=platform.token, observers=[])
    with client, pytest.raises(augury.StorageError, match="password") as caught:
        client.compute(fill(1, 1))
    assert "wr0ng" not in str(caught.value)


def test_a_redis_that_the_workers_do_not_use_is_told(platform: EmbeddedPlatform, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "other") as other:
        client = Client(redis=other.address, gateway=platform.url, token=platform.token, observers=[])
        with client, pytest.raises(augury.StorageError, match="another Redis"):
            client.compute(fill(1, 1))


def test_a_gateway_without_a_redis_is_refused() -> None:
    with pytest.raises(augury.DefinitionError, match="redis"):
        Client(gateway="http://127.0.0.1:1")
