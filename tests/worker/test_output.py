"""Who writes, and which threads tasks have started."""

import sys
import threading
from collections.abc import Iterator

import pytest

from augury.worker import output


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_may_be_started_while_it_is_looked_for_them() -> None:
    over = threading.Event()
    outlet = output.Outlet(lambda: None, lambda: 0.0)

    def begin_threads() -> None:
        while not over.is_set():
            kept = [threading.Thread() for _ in range(50)]
            for thread in kept:
                output._started_by[thread] = (0, outlet)

    busy = threading.Thread(target=begin_threads, daemon=True)
    busy.start()
    try:
        assert not any(output.has_threads_of_tasks() for _ in range(2000))
    finally:
        over.set()
        busy.join()
