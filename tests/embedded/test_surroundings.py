"""What a task does to the process that it runs in ends with its run, though the process stays warm."""

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augury import Client, Embedded, task


@pytest.fixture(name="warm", scope="module")
def make_warm() -> Iterator[Client]:
    """A platform with one process for all."""
    with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
        yield client


def in_one_process(client: Client, *steps: Callable[[], Any]) -> list[Any]:
    """What functions return that are run one after the other, each by a run of its own."""

    @task
    def run(step: Callable[[], Any]) -> tuple[int, Any]:
        return os.getpid(), step()

    outcomes = [client.compute(run(step)) for step in steps]
    assert len({pid for pid, _ in outcomes}) == 1, "they should have met in one process"
    return [outcome for _, outcome in outcomes]


def ignore_children() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def exit_status() -> int:
    return subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=False).returncode


def refuse_all() -> None:
    os.umask(0o777)


def mode_of_a_new_file() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "new")
        file.touch()
        return file.stat().st_mode


def handle_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, lambda *_: None)


def handlers() -> list[Any]:
    return [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)]


def block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])


def blocked() -> list[int]:
    return sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def set_timers() -> None:
    signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000.0, 1000.0)
    signal.alarm(1000)


def timers() -> list[Any]:
    return [signal.getitimer(timer) for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)]


def lower_limits() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def limits() -> list[Any]:
    return [resource.getrlimit(limit) for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)]


def go_elsewhere() -> None:
    os.chdir("/")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


def place() -> tuple[Any, ...]:
    return os.getcwd(), os.environ.get("TZ"), time.localtime(0).tm_hour


@pytest.mark.parametrize(
    ("change", "look"),
    [
        (ignore_children, exit_status),
        (refuse_all, mode_of_a_new_file),
        (handle_signals, handlers),
        (block_signals, blocked),
        (set_timers, timers),
        (lower_limits, limits),
        (go_elsewhere, place),
    ],
)
def test_what_one_run_changes_another_does_not_see(
    warm: Client, change: Callable[[], Any], look: Callable[[], Any]
) -> None:
    before, _, after = in_one_process(warm, look, change, look)
    assert after == before


def draw() -> tuple[float, float]:
    return random.random(), float(np.random.random())


def seed_and_draw() -> tuple[float, float]:
    random.seed(1)
    np.random.seed(1)
    return draw()


def seed() -> None:
    seed_and_draw()
    random.seed(1)
    np.random.seed(1)


def test_random_numbers_do_not_follow_from_what_another_run_seeded(warm: Client) -> None:
    seeded, _, drawn = in_one_process(warm, seed_and_draw, seed, draw)
    assert drawn[0] != seeded[0]
    assert drawn[1] != seeded[1]


def test_modules_stay_as_they_are(warm: Client) -> None:
    def write_down() -> None:
        sys.modules["decimal"].noted = "here"  # type: ignore[attr-defined]

    _, found = in_one_process(warm, write_down, lambda: sys.modules["decimal"].noted)
    assert found == "here"


MODULE = """
import decimal, os, signal, socket, sys
decimal.getcontext().prec = 50
sys.setrecursionlimit(2345)
socket.setdefaulttimeout(7.0)
os.environ["IMPORTED_BY"] = str(os.getpid())

def hang_up(number, frame):
    pass

signal.signal(signal.SIGHUP, hang_up)

def look():
    return (
        str(decimal.Decimal(1) / 3),
        sys.getrecursionlimit(),
        socket.getdefaulttimeout(),
        os.environ["IMPORTED_BY"] == str(os.getpid()),
        signal.getsignal(signal.SIGHUP) is hang_up,
        os.getpid(),
    )
"""


def test_what_a_module_sets_when_it_is_imported_stays_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setting_module.py").write_text(MODULE)
    script = tmp_path / "script.py"
    script.write_text(
        "import setting_module, augury\n"
        "if __name__ == '__main__':\n"
        "    with augury.Client(platform=augury.Embedded(slots=1), observers=[], history=False) as client:\n"
        "        seen = [client.compute(augury.task(setting_module.look)()) for _ in range(3)]\n"
        "    print(*seen, sep='\\n')\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=60).stdout
    first, second, third = printed.splitlines()
    assert first == second == third
    assert f"0.{'3' * 50}" in first
    assert "2345, 7.0, True, True" in first


ARRAYS = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=16777216:glibc.malloc.trim_threshold=16777216"


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, ["1", "1", "1", "1"]),
        ({"OMP_NUM_THREADS": "3"}, ["3", "3", "3", "3"]),
        ({"MKL_NUM_THREADS": "2"}, ["1", "1", "1", "2"]),
    ],
)
def test_libraries_compute_with_one_thread_unless_the_user_says_otherwise(
    given: dict[str, str], seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"]
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    @task
    def threads() -> list[str | None]:
        return [os.environ.get(name) for name in names]

    with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
        assert client.compute(threads()) == seen


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (None, ARRAYS),
        ("glibc.malloc.trim_threshold=1", f"{ARRAYS}:glibc.malloc.trim_threshold=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_memory_comes_in_large_pages_unless_the_user_says_otherwise(
    given: str | None, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if given is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", given)

    @task
    def tunables() -> str | None:
        return os.environ.get("GLIBC_TUNABLES")

    with Client(platform=Embedded(slots=1), observers=[], history=False) as client:
        assert client.compute(tunables()) == seen
