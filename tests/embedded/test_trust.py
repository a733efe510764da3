"""What somebody who can write to the storage cannot do: have anything unpickled that no holder of a key made.

The attacker acts after the client has uploaded a run, and before the first worker is started.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from augury import Client, Embedded, StorageError, UntrustedData, WukongPlanner, serde, task
from augury.invoke.gateway import Invocation
from augury.storage.keys import RunKeys
from augury.storage.redis_client import RedisClient
from augury.trust import Keyring

Attack = Callable[[str], None]


@task
def size_of(data: bytes) -> int:
    return len(data)


@task
def add(a: int, b: int) -> int:
    return a + b


@task
def nap(seconds: float) -> None:
    time.sleep(seconds)


class Bomb:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


class Scene:
    """A platform, and somebody who can write to its Redis."""

    def __init__(self, folder: Path) -> None:
        self.mark = folder / "mark"
        self.client = Client(platform=Embedded(slots=2), planner=WukongPlanner(), observers=[], history=False)
        self.platform = self.client._open()
        assert self.platform.embedded is not None
        self.redis = RedisClient(self.platform.embedded.storage_config.redis)
        self.objects = Path(self.platform.embedded.storage_config.object_dir)
        self.attack: Attack = lambda _: None
        self.worker = ""
        self._invoke = self.platform.gateway.invoke
        self.platform.gateway.invoke = self.invoke  # type: ignore[method-assign]

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        self.worker = invocations[0].worker
        self.attack(invocations[0].run_id)
        self._invoke(invocations)

    @property
    def bomb(self) -> bytes:
        return serde.dumps(Bomb(self.mark)).join()

    def change_spec(self, run_id: str, **fields: Any) -> None:
        key = RunKeys.of(run_id).spec
        spec = msgspec.msgpack.decode(self.redis.command("GET", key))
        self.redis.command("SET", key, msgspec.msgpack.encode({**spec, **fields}))

    def close(self) -> None:
        self.redis.close()
        self.client.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()
    assert not scene.mark.exists()


def test_without_an_attack_the_scene_works(scene: Scene) -> None:
    assert scene.client.compute(size_of(bytes(200_000))) == 200_000


@pytest.mark.parametrize(
    "fields",
    [
        {"program": b""},
        {"plan": b"{}"},
        {"sys_path": ["/tmp/elsewhere"]},
        {"object_dir": "/tmp"},
        {"tag": bytes(16)},
        {"tag": b""},
    ],
    ids=str,
)
def test_nothing_of_an_upload_can_be_changed(scene: Scene, fields: dict[str, Any]) -> None:
    scene.attack = lambda run_id: scene.change_spec(run_id, **fields)
    with pytest.raises(UntrustedData, match="the code and the plan of the run"):
        scene.client.compute(add(1, 2))


def test_the_code_of_another_run_is_not_taken_for_this_one(scene: Scene) -> None:
    uploaded: list[bytes] = []
    scene.attack = lambda run_id: uploaded.append(scene.redis.command("GET", RunKeys.of(run_id).spec))
    assert scene.client.compute(add(1, 2)) == 3
    scene.attack = lambda run_id: scene.redis.command("SET", RunKeys.of(run_id).spec, uploaded[0])
    with pytest.raises(UntrustedData):
        scene.client.compute(add(3, 4))


def test_an_exchanged_constant_is_not_loaded(scene: Scene) -> None:
    def attack(run_id: str) -> None:
        (scene.objects / run_id / "c0").write_bytes(scene.bomb + bytes(16))

    scene.attack = attack
    with pytest.raises(UntrustedData, match="c0"):
        scene.client.compute(size_of(bytes(200_000)))


@pytest.mark.parametrize("trailer", [b"", bytes(16)])
def test_an_output_that_no_worker_made_is_not_loaded_by_the_client(scene: Scene, trailer: bytes) -> None:
    def attack(run_id: str) -> None:
        # Taken for a result: the first that is stored wins.
        data = scene.bomb + trailer
        scene.redis.command("HSET", RunKeys.of(run_id).outputs, 0, b"%d:%b" % (len(data), data))

    scene.attack = attack
    with pytest.raises(UntrustedData, match=r"the output of add"):
        scene.client.compute(add(1, 2))


def test_a_large_output_that_no_worker_made_is_not_loaded(scene: Scene) -> None:
    def attack(run_id: str) -> None:
        scene.redis.command("HSET", RunKeys.of(run_id).outputs, 0, b"100000")
        (scene.objects / run_id / "o0").write_bytes(scene.bomb + bytes(16))

    scene.attack = attack
    with pytest.raises(UntrustedData, match=r"the output of add"):
        scene.client.compute(add(1, 2))


def test_an_output_that_no_worker_made_is_not_loaded_by_a_worker(scene: Scene) -> None:
    """add → add ← add: whoever does the last of them takes an output of the other worker from storage."""

    def attack(run_id: str) -> None:
        stored = b"%d:%b" % (len(scene.bomb), scene.bomb)
        scene.redis.command("HSET", RunKeys.of(run_id).outputs, 0, stored, 1, stored)

    scene.attack = attack
    with pytest.raises(UntrustedData, match=r"the output of add\[[01]\]"):
        scene.client.compute(add(add(1, 2), add(3, 4)))


@pytest.mark.parametrize(
    "fields", [("n", 999, "i", "", "d", ""), ("n", -1, "i", "", "d", ""), ("n", 0, "i", "77 3", "d", "abc"), ("x", 1)]
)
def test_an_event_that_no_worker_sent_ends_the_run_with_a_clear_error(scene: Scene, fields: tuple[Any, ...]) -> None:
    """A worker whose task takes long reads its inbox meanwhile."""

    def attack(run_id: str) -> None:
        scene.redis.command("XADD", RunKeys.of(run_id).inbox(scene.worker), "*", *fields)

    scene.attack = attack
    with pytest.raises(StorageError, match="check who can write"):
        scene.client.compute(nap(60))


def test_workers_and_clients_with_other_keys_do_not_understand_each_other() -> None:
    with Embedded(slots=1).start(keyring=Keyring(["the key of somebody else"])) as platform:
        address = platform.storage_config.redis
        with (
            Client(redis=address, gateway=platform.url, token=platform.token, observers=[], history=False) as client,
            pytest.raises(UntrustedData, match="AUGURY_KEY"),
        ):
            client.compute(add(1, 2))


def test_keys_can_be_changed_while_a_platform_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "an-old-key-of-ours", "a-new-key-of-ours"
    with Embedded(slots=1).start(keyring=Keyring([old, new])) as platform:
        address = platform.storage_config.redis
        for keys in (old, f"{old},{new}", f"{new},{old}"):
            monkeypatch.setenv("AUGURY_KEY", keys)
            client = Client(redis=address, gateway=platform.url, token=platform.token, observers=[], history=False)
            with client:
                assert client.compute(add(1, 2)) == 3
