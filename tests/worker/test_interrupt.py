"""Interruptions reach the task that was meant, or nobody."""

import asyncio
import threading
import time
from collections.abc import Callable

from augury.worker.interrupt import Interrupted, Section, allow_interruption, run_coroutine

PATIENCE_S = 10.0


class Thread:
    """A thread that works in sections, and what it comes to."""

    def __init__(self, work: Callable[[Section], object]) -> None:
        self.section: Section | None = None
        self.result: object = None
        self.ready = threading.Event()
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self.ready.wait(PATIENCE_S)

    def _run(self) -> None:
        self.section = Section()
        self.ready.set()
        self.result = self._work(self.section)

    def end(self) -> object:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.result


def spin() -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        pass
    raise TimeoutError


def interrupted(section: Section, work: Callable[[], object]) -> bool:
    try:
        with section:
            work()
    except Interrupted:
        section.close()
        return True
    return False


def test_a_thread_is_interrupted_in_its_section() -> None:
    inside = threading.Event()

    def work() -> None:
        inside.set()
        spin()

    thread = Thread(lambda section: interrupted(section, work))
    assert inside.wait(PATIENCE_S)
    assert thread.section is not None
    thread.section.interrupt()
    assert thread.end() is True


def test_one_that_is_not_in_it_is_left_alone() -> None:
    go = threading.Event()
    thread = Thread(lambda _: go.wait(PATIENCE_S))
    assert thread.section is not None
    thread.section.interrupt()
    go.set()
    assert thread.end() is True


def test_an_order_that_comes_too_late_does_not_reach_the_next_task() -> None:
    """Hundreds of short sections, each with somebody who tries to interrupt it at any moment."""
    counts = {"interrupted": 0, "stray": 0}
    over = threading.Event()

    def work(section: Section) -> None:
        for _ in range(400):
            try:
                counts["interrupted"] += interrupted(section, lambda: sum(range(50)))
                for _ in range(5):
                    sum(range(50))  # outside: nothing may come here
            except Interrupted:
                counts["stray"] += 1
        over.set()

    thread = Thread(work)
    assert thread.section is not None
    while not over.is_set():
        thread.section.interrupt()
    thread.end()
    assert counts["stray"] == 0


def test_the_main_thread_is_interrupted_in_a_blocking_call() -> None:
    allow_interruption()
    section = Section()
    timer = threading.Timer(0.05, section.interrupt)
    timer.start()
    assert interrupted(section, lambda: time.sleep(PATIENCE_S))
    timer.join()


def test_the_main_thread_is_left_alone_outside_of_it() -> None:
    allow_interruption()
    section = Section()
    with section:
        pass
    section.interrupt()
    with section:
        assert sum(range(1000)) == 499_500
    assert not interrupted(section, lambda: time.sleep(0))


def test_a_coroutine_is_cancelled() -> None:
    inside = threading.Event()
    cleaned: list[str] = []

    async def work() -> None:
        loop_done = asyncio.Event()
        try:
            inside.set()
            await loop_done.wait()
        finally:
            cleaned.append("up")

    thread = Thread(lambda section: interrupted(section, lambda: run_coroutine(work())))
    assert inside.wait(PATIENCE_S)
    assert thread.section is not None
    thread.section.interrupt()
    assert thread.end() is True
    assert cleaned == ["up"]
