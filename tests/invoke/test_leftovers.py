"""Objects of runs that are gone are removed from a platform that lives on; all others stay."""

import os
from pathlib import Path

import pytest

from augury.config import StorageConfig
from augury.invoke.embedded.leftovers import OLD_S, sweep_objects
from augury.storage.protocols import RunSpec, Status
from augury.storage.redis import RedisStorage
from augury.storage.server import RedisServer

SPEC = RunSpec(name="example", graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=16)
NOW_S = 1_000_000.0


def make(folder: Path, name: str, age_s: float) -> None:
    (folder / name).mkdir()
    (folder / name / "o1").write_bytes(b"large")
    os.utime(folder / name, (NOW_S - age_s, NOW_S - age_s))


@pytest.mark.usefixtures("redis")
def test_only_what_is_old_and_gone_is_removed(redis_server: RedisServer, tmp_path: Path) -> None:
    config = StorageConfig(redis=redis_server.address)
    storage = RedisStorage(config)
    for name in ("runs", "over"):
        storage.coordination(name).create(SPEC, [0], [])
    storage.coordination("over").fail(Status.FAILED, b"")
    for name in ("runs", "over", "gone", ".gone.1.2"):
        make(tmp_path, name, OLD_S + 1)
    make(tmp_path, "new", OLD_S - 1)
    (tmp_path / ".augury-platform").touch()
    os.utime(tmp_path / ".augury-platform", (0, 0))
    assert sorted(sweep_objects(tmp_path, config, NOW_S)) == [".gone.1.2", "gone"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".augury-platform", "new", "over", "runs"]
    storage.close()


def test_without_an_answer_nothing_is_removed(tmp_path: Path) -> None:
    make(tmp_path, "gone", OLD_S + 1)
    nobody = StorageConfig(redis=f"unix://{tmp_path}/nobody", patience_s=0.01)
    assert sweep_objects(tmp_path, nobody, NOW_S) == []
    assert (tmp_path / "gone").exists()


def test_where_there_is_nothing_nobody_is_asked(tmp_path: Path) -> None:
    assert sweep_objects(tmp_path / "none", StorageConfig(redis="unix:///nowhere"), NOW_S) == []
