"""Workers that cannot be heard: those that compute are left alone, those that were stopped are replaced."""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from augury import Client, Embedded, task
from tests.invoke.stage import ROOT, wait_until

LEASE_S = 4.0


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    settings = Embedded(slots=2, preload=(__name__,), sys_path=(str(ROOT),))
    with Client(platform=settings, observers=[], lease_s=LEASE_S) as client:
        yield client


def hold_the_interpreter(least_s: float) -> None:
    """A loop in C that lets no other thread run, for longer than this."""
    count = 10_000_000
    while True:
        began_s = time.monotonic()
        sum(itertools.repeat(0, count))
        took_s = time.monotonic() - began_s
        if took_s > least_s:
            return
        count = int(count * min(100.0, 1.3 * least_s / took_s))


@task
def compute_in_silence(log: Path) -> int:
    with log.open("a") as file:
        file.write("x")
    hold_the_interpreter(1.5 * LEASE_S)
    return len(log.read_text())


@task
def stop_at_first(log: Path) -> int:
    with log.open("a") as file:
        file.write(f"{os.getpid()} ")
    if len(log.read_text().split()) == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    return len(log.read_text().split())


def test_a_worker_that_computes_and_cannot_say_so_is_not_replaced(client: Client, tmp_path: Path) -> None:
    assert client.submit(compute_in_silence(tmp_path / "log")).result(timeout=120) == 1
    assert (tmp_path / "log").read_text() == "x"


def test_a_worker_that_was_stopped_is_replaced(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    run = client.submit(stop_at_first(log))
    assert run.result(timeout=60) == 2
    run.report(timeout=30)
    wait_until(lambda: len(log.read_text().split()) == 2, "it was done again")
