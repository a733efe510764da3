"""No room left: in shared memory, in the folder for temporary files, in the user's own folder."""

import functools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

SCRIPT = """
    import os

    from augury import AuguryError, Client, Embedded, WukongPlanner, task


    @task
    def block(number: int) -> bytes:
        return bytes(3_000_000)


    @task
    def measure(blocks: list[bytes]) -> int:
        return sum(map(len, blocks))


    if __name__ == "__main__":
        try:
            with Client(platform=Embedded(slots=2), planner=WukongPlanner(), observers=[]) as client:
                print(client.compute(measure([block(number) for number in range(8)])))
        except AuguryError as error:
            print(type(error).__name__, error)
        print("left:", os.listdir("/dev/shm"))
"""


@functools.cache
def can_mount() -> bool:
    """Whether a process of ours can have file systems of its own."""
    probe = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /dev/shm"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


needs_mount = pytest.mark.skipif(not can_mount(), reason="only root may mount file systems")


def run_with(tmp_path: Path, size: str, place: str, **environ: str) -> str:
    """What the script prints if the file system at `place` is no larger than this."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    Path(place).mkdir(exist_ok=True)
    # The script sees a shared memory of its own in any case: what is left there is left by it.
    mounts = f"mount -t tmpfs none /dev/shm && mount -t tmpfs -o mode=700,size={size} none {place}"
    told = {"PYTHONPATH": str(SOURCE), "AUGURY_PROGRESS": "off", **environ}
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{mounts} && exec {sys.executable} {path}"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **told},
        check=True,
    )
    return ran.stdout


@needs_mount
@pytest.mark.parametrize("size", ["8m", "64k"])
def test_shared_memory_that_is_full_is_told_of(tmp_path: Path, size: str) -> None:
    said = run_with(tmp_path, size, "/dev/shm")
    assert said.startswith("StorageError the output of block[")
    assert "shared memory is full (" in said
    assert "return smaller values, or make it larger" in said
    assert "left: []" in said


@needs_mount
@pytest.mark.parametrize("size", ["4k", "64k", "4k,nr_inodes=1"])
def test_without_room_for_temporary_files_runs_go_on(tmp_path: Path, size: str) -> None:
    folder = str(tmp_path / "t")
    assert run_with(tmp_path, size, folder, TMPDIR=folder) == "24000000\nleft: []\n"


@needs_mount
def test_without_room_for_history_runs_go_on(tmp_path: Path) -> None:
    folder = str(tmp_path / "s")
    assert run_with(tmp_path, "4k", folder, AUGURY_STATE_DIR=folder) == "24000000\nleft: []\n"
