"""Interruptions reach the task that was meant, or nobody."""

import asyncio
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType

import pytest

from augury.worker import interrupt
from augury.worker.interrupt import (
    Interrupted,
    Section,
    TimeIsUp,
    allow_interruption,
    run_coroutine,
    shelter_imports,
    time_limit,
)

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


def in_main_thread(work: Callable[[], object], act: Callable[[Section], object]) -> bool:
    """Whether work in the main thread is interrupted, when another one does something to its section."""
    allow_interruption()
    section = Section()
    inside: list[bool] = []  # and no event: who sets one takes a lock

    def wait_and_act() -> None:
        while not inside:
            time.sleep(0)
        act(section)

    def begin_and_work() -> None:
        inside.append(True)
        work()

    thread = threading.Thread(target=wait_and_act, daemon=True)
    thread.start()
    try:
        return interrupted(section, begin_and_work)
    finally:
        thread.join(PATIENCE_S)


def in_another_thread(work: Callable[[], object], act: Callable[[Section], object]) -> bool:
    inside: list[bool] = []

    def begin_and_work() -> None:
        inside.append(True)
        work()

    thread = Thread(lambda section: interrupted(section, begin_and_work))
    assert thread.section is not None
    while not inside:
        time.sleep(0)
    act(thread.section)
    return thread.end() is True


@pytest.mark.parametrize("where", [in_main_thread, in_another_thread])
class TestInsisting:
    def test_what_is_swallowed_comes_again(self, where: Callable[..., bool]) -> None:
        seen: list[type[BaseException]] = []

        def deaf_twice() -> None:
            for _ in range(2):
                try:
                    spin()
                except BaseException as error:  # noqa: BLE001 - so do tasks
                    seen.append(type(error))
            spin()

        assert where(deaf_twice, Section.interrupt)
        assert seen == [Interrupted, Interrupted]

    def test_it_comes_once_if_no_thread_can_be_had(
        self, where: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt_without_threads(section: Section) -> None:
            def refuse(_: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", refuse)
                section.interrupt()

        assert where(spin, interrupt_without_threads)


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


def returns() -> str:
    """Catches the news that its time is up, and has a value all the same."""
    try:
        spin()
    except BaseException:  # noqa: BLE001 - so do tasks
        return "late"
    return "in time"


def raises() -> str:
    try:
        spin()
    except BaseException as error:
        raise ValueError("cannot clean up") from error
    return "in time"


async def returns_too() -> str:
    try:
        await asyncio.sleep(PATIENCE_S)
    except BaseException:  # noqa: BLE001 - so do tasks
        return "late"
    return "in time"


async def raises_too() -> str:
    try:
        await asyncio.sleep(PATIENCE_S)
    except BaseException as error:
        raise ValueError("cannot clean up") from error
    return "in time"


def outcome(work: Callable[[], object], timeout_s: float = 0.02) -> object:
    try:
        with time_limit(timeout_s):
            return work()
    except BaseException as error:  # noqa: BLE001 - it is what is asked for
        return type(error)


def elsewhere(work: Callable[[], object]) -> object:
    return Thread(lambda _: outcome(work)).end()


STUBBORN = [returns, raises, lambda: run_coroutine(returns_too()), lambda: run_coroutine(raises_too())]


@pytest.mark.parametrize("where", [outcome, elsewhere])
@pytest.mark.parametrize("work", STUBBORN, ids=["returns", "raises", "async returns", "async raises"])
def test_what_comes_after_the_time_was_up_does_not_count(
    work: Callable[[], object], where: Callable[[Callable[[], object]], object]
) -> None:
    assert where(work) is TimeIsUp


def test_what_comes_in_time_counts() -> None:
    assert outcome(lambda: "in time", PATIENCE_S) == "in time"
    assert outcome(lambda: int("x"), PATIENCE_S) is ValueError


def test_who_is_to_stop_for_another_reason_too_stops_for_that() -> None:
    def stopped() -> None:
        try:
            spin()
        except TimeIsUp:
            raise Interrupted from None

    assert outcome(stopped) is Interrupted


@pytest.mark.parametrize("timeout_s", [1e-6, 1e-5, 5e-5])
def test_a_limit_that_is_over_at_once_leaves_no_timer_behind(timeout_s: float) -> None:
    before = signal.getsignal(signal.SIGALRM)
    for _ in range(100):
        assert outcome(spin, timeout_s) is TimeIsUp
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) is before


SLOW = """
import threading
begun, go_on = threading.Event(), threading.Event()
begun.set()
while not go_on.wait(0.001):
    pass
whole = True
"""


class SlowModule:
    """A module on the path whose import takes until it is let go on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> ModuleType:
        return importlib.import_module(self.name)

    @property
    def module(self) -> ModuleType:
        return sys.modules[self.name]

    def when_begun(self, act: Callable[[], object]) -> threading.Thread:
        """Have something done in the middle of the import, by another thread."""

        def wait_and_act() -> None:
            deadline_s = time.monotonic() + PATIENCE_S
            while not hasattr(sys.modules.get(self.name), "begun"):
                assert time.monotonic() < deadline_s
                time.sleep(0)
            act()
            self.module.go_on.set()

        thread = threading.Thread(target=wait_and_act, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowModule]:
    shelter_imports()
    name = "slow_to_import"
    (tmp_path / f"{name}.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield SlowModule(name)
    sys.modules.pop(name, None)


class TestImports:
    def test_one_in_the_main_thread_comes_to_its_end(self, slow: SlowModule) -> None:
        allow_interruption()
        section = Section()
        thread = slow.when_begun(section.interrupt)
        assert interrupted(section, slow.load)
        thread.join()
        assert slow.module.whole

    def test_one_in_another_thread_too(self, slow: SlowModule) -> None:
        thread = Thread(lambda section: interrupted(section, slow.load))
        assert thread.section is not None
        slow.when_begun(thread.section.interrupt).join()
        assert thread.end() is True
        assert slow.module.whole

    def test_and_one_that_waits_for_that_of_another_thread(self, slow: SlowModule) -> None:
        first = threading.Thread(target=slow.load, daemon=True)
        first.start()
        inside = threading.Event()

        def wait_for_first() -> None:
            inside.set()
            slow.load()

        thread = Thread(lambda section: interrupted(section, wait_for_first))
        assert inside.wait(PATIENCE_S)
        assert thread.section is not None
        slow.when_begun(thread.section.interrupt).join()
        assert thread.end() is True
        first.join(PATIENCE_S)
        assert slow.load().whole  # nobody holds its lock

    @pytest.mark.parametrize("where", [outcome, elsewhere])
    def test_time_is_up_at_its_end(self, slow: SlowModule, where: Callable[[Callable[[], object]], object]) -> None:
        """The module goes on until long after the time was up."""
        thread = slow.when_begun(lambda: time.sleep(0.1))
        assert where(slow.load) is TimeIsUp
        thread.join()
        assert slow.module.whole

    def test_an_interruption_counts_more_than_the_failure_of_an_import(self, slow: SlowModule, tmp_path: Path) -> None:
        (tmp_path / f"{slow.name}.py").write_text(SLOW + "raise ImportError\n")
        thread = Thread(lambda section: interrupted(section, slow.load))
        assert thread.section is not None
        slow.when_begun(thread.section.interrupt).join()
        assert thread.end() is True

    def test_who_imports_later_is_interrupted_at_once(self, slow: SlowModule) -> None:
        """What an import has put off is over with it."""

        def load_and_spin() -> None:
            slow.load()
            spin()

        slow.when_begun(lambda: None)
        thread = Thread(lambda section: interrupted(section, load_and_spin))
        deadline_s = time.monotonic() + PATIENCE_S
        while not hasattr(sys.modules.get(slow.name), "whole"):
            assert time.monotonic() < deadline_s
            time.sleep(0)
        assert thread.section is not None
        thread.section.interrupt()
        assert thread.end() is True

    def test_orders_at_any_moment_leave_no_import_undone(self, slow: SlowModule, tmp_path: Path) -> None:
        """Hundreds of imports, each with somebody who tries to break it off at any moment."""
        (tmp_path / f"{slow.name}.py").write_text("import slow_part\nwhole = sum(range(100))\n")
        (tmp_path / "slow_part.py").write_text("whole = sum(range(100))\n")
        over = threading.Event()
        broken: list[str] = []

        def load() -> None:
            importlib.import_module(slow.name)

        def work(section: Section) -> None:
            try:
                for _ in range(300):
                    for name in (slow.name, "slow_part"):
                        sys.modules.pop(name, None)
                    interrupted(section, load)
                    for name in (slow.name, "slow_part"):
                        module = sys.modules.get(name)
                        if module is not None and not hasattr(module, "whole"):
                            broken.append(name)
            finally:
                over.set()

        thread = Thread(work)
        assert thread.section is not None
        while not over.is_set():
            thread.section.interrupt()
        thread.end()
        assert not broken
        load()  # nobody holds its lock
        sys.modules.pop("slow_part", None)

    def test_threads_that_import_parts_of_one_package_do_not_get_half_of_it(
        self, slow: SlowModule, tmp_path: Path
    ) -> None:
        """The package imports its part; a second thread wants that part while the first is in the middle."""
        package = tmp_path / "slow_package"
        package.mkdir()
        (package / "__init__.py").write_text(
            f"import {slow.name}\nfrom slow_package.part import value, last\nwhole = True\n"
        )
        (package / "part.py").write_text("value = 1\nfrom slow_package import __name__ as name\nlast = 2\n")

        def load_part() -> int:
            number: int = importlib.import_module("slow_package.part").last
            return number

        second: list[Thread] = []

        def begin_second() -> None:
            second.append(Thread(lambda _: load_part()))
            time.sleep(0.1)  # for it to get as far as it can

        slow.when_begun(begin_second)
        try:
            assert importlib.import_module("slow_package").whole
            assert second[0].end() == 2
        finally:
            for name in ("slow_package", "slow_package.part"):
                sys.modules.pop(name, None)

    def test_a_fork_can_import_though_a_thread_was_being_interrupted(self) -> None:
        with interrupt._raising:  # as if by a thread that the fork does not have
            child = os.fork()
            if child == 0:
                os._exit(0 if interrupt._raising.acquire(blocking=False) else 1)
            assert os.waitpid(child, 0)[1] == 0

    def test_tracebacks_do_not_show_it(self, slow: SlowModule) -> None:
        with pytest.raises(ModuleNotFoundError) as caught:
            exec(compile("import there_is_no_such_module", "by hand", "exec"))
        files = [entry.frame.code.path for entry in caught.traceback]
        assert str(files[-1]) == "by hand"


class Lock:
    """A lock in Python, as those of `logging` and `threading.Condition` are."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


class TestDelicatePlaces:
    def test_no_lock_is_left_behind_in_the_main_thread(self) -> None:
        """Hundreds of tasks that take a lock again and again, each interrupted at some moment."""
        allow_interruption()
        section = Section()
        lock = Lock()
        inside, over = threading.Event(), threading.Event()

        def order() -> None:
            while not over.is_set():
                if inside.wait(0.001):
                    section.interrupt()

        def work() -> None:
            inside.set()
            while True:
                with lock:
                    pass

        thread = threading.Thread(target=order, daemon=True)
        thread.start()
        for _ in range(500):
            assert interrupted(section, work)
            inside.clear()
            assert lock.lock.acquire(timeout=PATIENCE_S)
            lock.lock.release()
        over.set()
        thread.join()

    def test_nor_by_a_time_limit(self) -> None:
        lock = Lock()

        def work() -> None:
            while True:
                with lock:
                    pass

        for _ in range(100):
            assert outcome(work, 0.002) is TimeIsUp
            assert lock.lock.acquire(timeout=PATIENCE_S)
            lock.lock.release()

    @pytest.mark.parametrize("where", [outcome, elsewhere])
    def test_what_is_swallowed_comes_again(self, where: Callable[[Callable[[], object]], object]) -> None:
        seen: list[str] = []

        def deaf_once() -> None:
            try:
                spin()
            except BaseException:  # noqa: BLE001 - so do tasks
                seen.append("swallowed")
            spin()

        assert where(deaf_once) is TimeIsUp
        assert seen == ["swallowed"]

    @pytest.mark.parametrize("where", [outcome, elsewhere])
    def test_a_finalizer_does_not_swallow_it(self, where: Callable[[Callable[[], object]], object]) -> None:
        class Busy:
            def __del__(self) -> None:
                sum(range(2000))

        def churn() -> None:
            while True:
                Busy()

        began_s = time.monotonic()
        assert where(churn) is TimeIsUp
        assert time.monotonic() - began_s < PATIENCE_S

    def test_what_ended_before_it_could_be_interrupted_is_not_kept(self) -> None:
        def release() -> str:
            deadline_s = time.monotonic() + PATIENCE_S
            while interrupt._postponed is None:
                assert time.monotonic() < deadline_s
            return "in time"

        assert outcome(release) == "in time"
        assert interrupt._postponed is None

    def test_who_waits_for_a_lock_is_interrupted(self) -> None:
        lock = Lock()
        lock.lock.acquire()

        def work() -> None:
            with lock:
                pass

        assert outcome(work) is TimeIsUp

    def test_an_event_loop_of_the_tasks_own_lets_it_pass(self) -> None:
        async def busy() -> None:
            loop = asyncio.get_running_loop()

            def again() -> None:
                sum(range(300))
                loop.call_soon(again)

            loop.call_soon(again)
            await asyncio.Event().wait()

        assert outcome(lambda: asyncio.run(busy())) is TimeIsUp
        assert elsewhere(lambda: asyncio.run(busy())) is TimeIsUp


def test_time_without_a_processor_says_nothing_of_who_waits_for_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stood still while it had a lock is not taken for one that waits for it."""
    now_s = 100.0
    monkeypatch.setattr("augury.worker.interrupt.time.monotonic", lambda: now_s)

    def acquire() -> FrameType:
        return sys._getframe()

    frame = acquire()
    interrupt._is_put_off(None)
    assert interrupt._is_put_off(frame)
    now_s += 10.0
    assert interrupt._is_put_off(frame)
    looks = 1
    while interrupt._is_put_off(frame):
        looks += 1
    assert 10 < looks < 100
