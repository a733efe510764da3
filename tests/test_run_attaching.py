"""Who attaches to a run unpickles what was asked for: nothing that no holder of a key has signed, or by other versions.

The run is over, and on a platform that is gone, so that nothing but its storage is needed.
"""

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from augury import Client, RunLost, UntrustedData, VersionMismatch, serde, task
from augury.client import _clients
from augury.config import INLINE_BYTES, Resources, StorageConfig
from augury.dag.graph import build_workflow
from augury.dag.program import encode
from augury.plan.plan import Assignment, Plan
from augury.run.parting import Parting
from augury.run.places import Place, find_place, note_place
from augury.run.upload import encode_template
from augury.storage.keys import RunKeys
from augury.storage.protocols import Claim, Completion, Coordination, Report, RunSpec, Status, WorkerSummary
from augury.storage.redis import RedisStorage
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer
from augury.storage.signing import sign_spec
from augury.trust import Keyring
from augury.versions import essential_versions

RUN = "6c1f0a9e5b7d4e21"
PATIENCE_S = 30.0
KEY = "a-key-that-client-and-workers-have"
SEAL = Keyring([KEY]).seal(RUN)


@task
def double(x: int) -> int:
    return 2 * x


WORKFLOW = build_workflow({"doubled": [double(21)]})


class Bomb:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


def spec(**changed: Any) -> RunSpec:
    """What the client uploaded, signed."""
    graph = WORKFLOW.graph
    plan = Plan(fingerprint=graph.fingerprint, planner="by hand", assignments=(Assignment(0, Resources()),))
    told = RunSpec(
        name="doubling",
        graph=graph.encode(),
        program=encode(WORKFLOW, shared_files=False)[0].encode(),
        plan=plan.encode(),
        concurrency=1,
        inline_bytes=INLINE_BYTES,
        versions=essential_versions(),
        detached=True,
        template=encode_template(WORKFLOW.template),
    )
    return sign_spec(msgspec.structs.replace(told, **changed), SEAL)


def succeed(run: Coordination, told: RunSpec) -> None:
    """Play the client that goes away, and the worker."""
    run.create(told, [0], [Claim("w0", (0,), Resources())])
    run.join("w0", 1)
    output = SEAL.sign_output(0, serde.dumps(42).join())
    run.report(Report("w0", completions=(Completion(0, len(output), output, sink=True),), ran=1, attempt=1))
    run.leave(WorkerSummary(worker="w0", attempt=1, cold=True, duration_s=0.1, memory_mb=128, tasks=1))


@pytest.fixture
def run(redis_server: RedisServer, redis: RedisClient) -> Iterator[Coordination]:
    """Room for the run in storage."""
    storage = RedisStorage(StorageConfig(redis=redis_server.address))
    yield storage.coordination(RUN)
    storage.close()


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    """What is left by bombs; nothing may leave it."""
    yield tmp_path / "mark"
    assert not (tmp_path / "mark").exists()


@pytest.fixture
def client(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The one that attaches."""
    monkeypatch.setenv("AUGURY_KEY", KEY)
    gone, address = "http://127.0.0.1:1", redis_server.address
    with Client(redis=address, gateway=gone, token="none", patience_s=0.01, observers=[], history=False) as client:
        yield client


def test_what_was_asked_for_is_unpickled_if_the_client_signed_it(client: Client, run: Coordination) -> None:
    succeed(run, spec())
    assert client.attach(RUN).result(timeout=30) == {"doubled": [42]}


BOMB = object()
"""Stands for the pickle of a bomb."""


@pytest.mark.parametrize(
    "changed",
    [
        {"template": BOMB},
        {"template": BOMB, "tag": bytes(16)},
        {"template": BOMB, "tag": b""},
        {"tag": b""},
        {"versions": {}},
        {"graph": b""},
        {"plan": b""},
    ],
    ids=", ".join,
)
def test_what_somebody_changed_in_storage_is_not_unpickled(
    client: Client, run: Coordination, redis: RedisClient, mark: Path, changed: dict[str, Any]
) -> None:
    succeed(run, spec())
    stored = msgspec.msgpack.decode(redis.command("GET", RunKeys.of(RUN).spec))
    bomb = serde.dumps(Bomb(mark)).join()
    forged = {**stored, **{name: bomb if value is BOMB else value for name, value in changed.items()}}
    redis.command("SET", RunKeys.of(RUN).spec, msgspec.msgpack.encode(forged))
    with pytest.raises(UntrustedData, match="the code and the plan of the run"):
        client.attach(RUN)


def test_a_description_that_was_signed_for_another_run_is_not_unpickled(
    client: Client, run: Coordination, mark: Path
) -> None:
    bomb = serde.dumps(Bomb(mark)).join()
    succeed(run, sign_spec(spec(template=bomb), Keyring([KEY]).seal("another run")))
    with pytest.raises(UntrustedData, match="the code and the plan of the run"):
        client.attach(RUN)


def test_who_attaches_in_passing_is_heard_of_when_the_process_ends(
    run: Coordination, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value is out before all is tidied up, and the client that `attach` made for it is nobody's."""
    tidies = threading.Event()
    tidy = Parting.tidy

    def wait_and_tidy(parting: Parting) -> None:
        tidies.wait()
        tidy(parting)

    monkeypatch.setattr(Parting, "tidy", wait_and_tidy)
    monkeypatch.setenv("AUGURY_KEY", KEY)
    succeed(run, spec())
    run.unfollow(keep=True)
    before = set(_clients)
    gone, address = "http://127.0.0.1:1", redis_server.address
    maker = Client(redis=address, gateway=gone, token="none", patience_s=0.01, observers=[], history=False)
    assert maker.attach(RUN).result(PATIENCE_S) == {"doubled": [42]}
    del maker
    gc.collect()
    (client,) = set(_clients) - before
    tidies.set()
    client.close()
    assert run.status() is Status.GONE


@pytest.mark.parametrize("name", ["Python", "cloudpickle", "augury"])
def test_what_a_client_of_other_versions_pickled_is_not_unpickled(
    client: Client, run: Coordination, mark: Path, name: str
) -> None:
    bomb = serde.dumps(Bomb(mark)).join()
    succeed(run, spec(template=bomb, versions={**essential_versions(), name: "2.7"}))
    with pytest.raises(VersionMismatch, match=rf"{name} 2\.7 on the client and .* here\. Attach with the same"):
        client.attach(RUN)


def test_another_version_that_signs_in_another_way_has_not_forged_anything(client: Client, run: Coordination) -> None:
    signed_otherwise = Keyring([KEY]).seal("another run")
    succeed(run, sign_spec(spec(versions={**essential_versions(), "augury": "0.0.7"}), signed_otherwise))
    with pytest.raises(VersionMismatch, match=r"augury 0\.0\.7 on the client"):
        client.attach(RUN)


def test_who_looks_for_a_run_at_a_wrong_address_does_not_make_others_forget_where_it_is(
    client: Client, redis: RedisClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path))
    place = Place(
        run_id=RUN,
        redis="unix:///elsewhere",
        owns_storage=True,
        gateway="http://127.0.0.1:1",
        token="none",
        platform="embedded",
        folder="/",
        made_s=time.time(),
    )
    note_place(place)
    with pytest.raises(RunLost, match="is not in storage"):
        client.attach(RUN)
    assert find_place(RUN) == place
