"""What the user holds of a run, while somebody else sees to when its value comes."""

import asyncio
from concurrent.futures import Future
from typing import Any, cast

import pytest

from augury import StorageError
from augury.run import Run, handle


class PlayedWatch:
    """A watch whose value a test sets; it counts how often the user got it."""

    attached = True

    def __init__(self) -> None:
        self.value: Future[int] = Future()
        self.value.set_running_or_notify_cancel()
        self.parting = self
        self.taken = 0
        self.taken_beside = 0

    def take(self) -> None:
        self.taken += 1

    def take_beside(self) -> None:
        self.taken_beside += 1
        self.take()


@pytest.fixture
def watch() -> PlayedWatch:
    return PlayedWatch()


@pytest.fixture
def run(watch: PlayedWatch) -> Run[int]:
    return Run(run_id="r1", name="daily", watch=cast("Any", watch))


def test_a_value_that_comes_as_time_runs_out_is_returned(
    run: Run[int], watch: PlayedWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "wait", lambda futures, seconds: futures[0].set_result(42))
    assert run.result(timeout=0) == 42
    assert watch.taken == 1


def test_a_timeout_of_the_runs_own_is_no_end_of_waiting(run: Run[int], watch: PlayedWatch) -> None:
    watch.value.set_exception(TimeoutError("the task's"))
    with pytest.raises(TimeoutError, match="the task's"):
        run.result(timeout=0)
    assert watch.taken == 1


def test_nobody_waits_again_for_a_storage_that_is_away(run: Run[int], watch: PlayedWatch) -> None:
    watch.value.set_exception(StorageError("nobody is there"))
    with pytest.raises(StorageError, match="nobody is there"):
        run.result()
    assert watch.taken == watch.taken_beside == 1


def test_who_waits_in_vain_has_taken_nothing(run: Run[int], watch: PlayedWatch) -> None:
    with pytest.raises(TimeoutError, match=r"run daily \(r1\) is not over after 0 s; it goes on"):
        run.result(timeout=0)
    assert watch.taken == 0


def test_who_presses_ctrl_c_as_the_value_comes_has_not_taken_it(
    run: Run[int], watch: PlayedWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(futures: list[Future[int]], seconds: float | None) -> None:
        futures[0].set_result(42)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(handle, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.result()
    assert watch.taken == 0
    assert run.result() == 42


def test_who_stops_awaiting_as_the_value_comes_has_not_taken_it(run: Run[int], watch: PlayedWatch) -> None:
    async def await_it() -> int:
        return await run

    async def stop_as_it_comes() -> None:
        waiting = asyncio.ensure_future(await_it())
        await asyncio.sleep(0)
        waiting.cancel()
        watch.value.set_result(42)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert watch.taken == 0
        assert await run == 42
        assert watch.taken == 1

    asyncio.run(stop_as_it_comes())


def test_what_a_run_raises_is_taken_by_who_awaits_it(run: Run[int], watch: PlayedWatch) -> None:
    async def await_it() -> int:
        return await run

    watch.value.set_exception(ValueError("on purpose"))
    with pytest.raises(ValueError, match="on purpose"):
        asyncio.run(await_it())
    assert watch.taken == 1


def test_who_has_taken_the_value_cannot_lose_it_any_more(
    run: Run[int], watch: PlayedWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def await_it() -> int:
        return await run

    async def stop_once_it_is_taken() -> None:
        waiting = asyncio.ensure_future(await_it())
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(watch, "take_beside", lambda: loop.call_soon_threadsafe(waiting.cancel))
        watch.value.set_result(42)
        assert await waiting == 42

    asyncio.run(stop_once_it_is_taken())
