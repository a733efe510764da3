"""Workers that are neither dead nor alive."""

import os
import signal
import time
from pathlib import Path

import pytest

from augury import Client, Embedded, task


@task
def work(number: int, freezes: str) -> int:
    if number == 3 and Path(freezes).exists():
        Path(freezes).unlink()
        os.kill(os.getpid(), signal.SIGSTOP)
    return number


@task
def add(numbers: list[int]) -> int:
    return sum(numbers)


@pytest.mark.parametrize("slots", [1, 4])
def test_a_worker_that_is_frozen_loses_its_place_and_its_slot(slots: int, tmp_path: Path) -> None:
    freezes = tmp_path / "freezes"
    freezes.touch()
    with Client(platform=Embedded(slots=slots), observers=[], history=False, lease_s=1.0) as client:
        began_s = time.monotonic()
        run = client.submit(add([work(number, str(freezes)) for number in range(8)]))
        assert run.result(timeout=60) == 28
        assert time.monotonic() - began_s >= 1.0  # nobody saw it but for its silence
        assert not freezes.exists()
