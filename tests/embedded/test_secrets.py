"""Secrets are planted, a workflow runs and fails, and everything that it leaves or shows is searched for them."""

import logging
import os
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from augury import Client, Embedded, history, task
from augury.config import StorageConfig
from augury.invoke.gateway import Invocation, InvocationContext
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer

KEY, PASSWORD, TOKEN = "planted-key-7d1f00aa", "planted-password-7d1f00aa", "planted-token-7d1f00aa"
MARK = "7d1f00aa"


@task
def processes_that_show_it(mark: str) -> list[str]:
    """Looks at the command line and the environment of every process, its own among them."""
    mark = mark[::-1]  # so that it is not in what it looks at
    found = [f"os.environ of the worker: {name}" for name, value in os.environ.items() if mark in value]
    for process in Path("/proc").iterdir():
        for name in ("cmdline", "environ"):
            try:
                text = (process / name).read_bytes() if process.name.isdigit() else b""
            except OSError:  # ended meanwhile, or of another user
                continue
            if mark.encode() in text:
                found.append(f"{process / name} ({text[:200]!r})")
    return found


@task
def wait_for(gate: str) -> str:
    while not Path(gate).exists():
        os.sched_yield()
    return "done"


@task
def fail(text: str) -> None:
    raise ValueError(text)


class Scene:
    """A platform on a Redis with a password, with all that can be seen of it."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self.gate = folder / "gate"
        self.redis = RedisClient(server.address)
        self.redis.command("CONFIG", "SET", "requirepass", PASSWORD)
        self.redis = RedisClient(f"unix://:{PASSWORD}@{server.socket_path}")
        self.client = Client(redis=self.redis.url, platform=Embedded(slots=3), observers=[])
        self.platform = self.client._open()
        self.payloads: list[bytes] = []
        self._invoke = self.platform.gateway.invoke
        self.platform.gateway.invoke = self.invoke  # type: ignore[method-assign]

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        self.payloads.append(msgspec.msgpack.encode(list(invocations)))
        self._invoke(invocations)

    def everything_in_redis(self) -> list[Any]:
        reads = {
            b"string": ("GET",),
            b"hash": ("HGETALL",),
            b"set": ("SMEMBERS",),
            b"list": ("LRANGE", 0, -1),
            b"zset": ("ZRANGE", 0, -1),
            b"stream": ("XRANGE", "-", "+"),
        }
        found = []
        for key in self.redis.command("KEYS", "*"):
            command, *rest = reads[self.redis.command("TYPE", key)]
            found.append((key, self.redis.command(str(command), key, *rest)))
        return found


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Scene]:
    monkeypatch.setenv("AUGURY_KEY", KEY)
    monkeypatch.setenv("AUGURY_TOKEN", TOKEN)
    monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path / "state"))
    caplog.set_level(logging.DEBUG)
    with RedisServer(tmp_path / "redis") as server:
        scene = Scene(server, tmp_path)
        yield scene
        scene.client.close()
        scene.redis.close()


def secrets_of(scene: Scene) -> tuple[str, ...]:
    assert scene.platform.embedded is not None
    return MARK, scene.platform.embedded.token


def test_no_process_shows_secrets(scene: Scene) -> None:
    for secret in secrets_of(scene):
        assert scene.client.compute(processes_that_show_it(secret[::-1])) == []


def test_neither_storage_nor_payloads_nor_plans_hold_secrets(scene: Scene) -> None:
    run = scene.client.submit(wait_for(str(scene.gate)))
    seen = repr((scene.everything_in_redis(), scene.payloads, run.plan, run.plan.to_json()))
    assert run.run_id in seen
    scene.gate.touch()
    assert run.result(timeout=60) == "done"
    seen += repr((run, run.report(), str(run.report())))
    assert not [secret for secret in secrets_of(scene) if secret in seen]


def test_neither_files_nor_logs_nor_errors_hold_secrets(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="on purpose") as caught:
        scene.client.compute(fail("on purpose"), name="secretive")
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "on purpose" in shown
    assert scene.platform.embedded is not None
    folders = [
        tmp_path / "state",
        scene.platform.embedded._folder,
        Path(scene.platform.embedded.storage_config.object_dir),
    ]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) >= 2
    shown += "".join(path.read_bytes().decode("latin-1") for path in files)
    assert not [secret for secret in secrets_of(scene) if secret in shown]


def test_nothing_shows_secrets_by_its_repr(scene: Scene) -> None:
    config = StorageConfig(redis=scene.redis.url)
    context = InvocationContext(
        cold=True, received_s=0, granted_s=0, storage=config, gateway_url="http://x", token=TOKEN, keys=(KEY,)
    )
    objects = [config, context, scene.client, scene.platform, scene.platform.embedded, scene.platform.keyring]
    objects += [scene.platform.gateway, scene.platform.storage, history(scene.redis.url)]
    for one in objects:
        assert not [secret for secret in secrets_of(scene) if secret in f"{one!r} {one!s}"]


def test_what_is_kept_is_private(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUGURY_KEY")
    with Client(platform=Embedded(slots=1), observers=[]) as client:
        client.compute(wait_for(str(tmp_path)), name="kept")
        assert client._platform is not None
        assert client._platform.embedded is not None
        folders = [client._platform.embedded._folder, Path(client._platform.embedded.storage_config.object_dir)]
        kept = [tmp_path / "state", *(tmp_path / "state").rglob("*"), *folders]
        assert (tmp_path / "state" / "key") in kept
        for path in kept:
            assert not path.stat().st_mode & 0o077, path
