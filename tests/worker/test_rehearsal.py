"""The run before all others. Each test has it in a process of its own, as it changes how this one works."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from augury import Client, Embedded, task

ROOT = Path(__file__).parents[2]
PROGRAM = """
import gc, os, signal, socket, sys, threading
import augury.worker.entrypoint
from augury.worker import waker
from augury.worker.rehearsal import rehearse
from augury.worker.surroundings import Surroundings

def sockets():
    return [one for one in gc.get_objects() if isinstance(one, socket.socket) and one.fileno() >= 0]

before, files = Surroundings()._found, sorted(os.listdir("/proc/self/fd"))
handler = signal.getsignal(signal.SIGUSR1)
waker.HelperThread = None  # who waits for something to be due would keep the process from forking for a while
rehearse()
assert Surroundings()._found == before
assert signal.getsignal(signal.SIGUSR1) is handler
assert threading.active_count() == 1
assert not sockets()
assert sorted(os.listdir("/proc/self/fd")) == files
print("as before")
"""


def test_it_leaves_the_process_as_it_was() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("as before\n", "")


@task
def loaded() -> list[str]:
    return importlib.import_module("tests.worker.rehearsed").loaded_since()  # type: ignore[no-any-return]


def loaded_by_a_worker(**options: Any) -> list[str]:
    platform = Embedded(slots=1, handler="tests.worker.rehearsed:handle", sys_path=(str(ROOT),), **options)
    with Client(platform=platform, observers=[], history=False) as client:
        return client.compute(loaded())  # type: ignore[no-any-return]


def test_a_worker_loads_nothing_that_every_worker_needs() -> None:
    assert loaded_by_a_worker() == []


def test_without_it_each_worker_would() -> None:
    assert loaded_by_a_worker(rehearsal="") != []


def test_workers_come_up_though_it_fails() -> None:
    assert loaded_by_a_worker(rehearsal="augury.there_is_no_such_module:rehearse") != []
