"""Folders that only one user can get at."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from augury.errors import StorageError
from augury.trust.folders import make_private


@pytest.fixture(params=[0o000, 0o002, 0o022], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.usefixtures("umask")
def test_all_that_is_made_on_the_way_is_for_one_user_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "state" / "augury" / "runs")
    assert [mode(tmp_path / name) for name in ("state", "state/augury", "state/augury/runs")] == [0o700] * 3


def test_what_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    for _ in range(2):
        make_private(tmp_path / "state" / "runs")
    assert (mode(tmp_path / "state"), mode(tmp_path / "state" / "runs")) == (0o755, 0o700)


def test_what_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    with pytest.raises(StorageError, match=r"others may write to the folder.*chmod 700"):
        make_private(tmp_path)


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_private(tmp_path / "file" / "runs")
