"""Outputs of earlier runs, as a worker finds and keeps them; whatever fails, the task is run."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from augury import serde
from augury.errors import StorageError
from augury.serde import Blob, Buffer
from augury.storage.results.memory import MemoryResults
from augury.trust.seal import Keyring, process_keyring
from augury.worker.memo import Memo, Recalled

DAY_S = 24 * 3600.0


def double(x: Any, times: int = 2) -> Any:
    return x * times


class Worker:
    """One invocation: calls functions, unless their output is known."""

    def __init__(self, results: Any, keyring: Keyring | None = None) -> None:
        self.memo = Memo(results, keyring or process_keyring())
        self.called = 0

    def call(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        index = abs(hash(fn))
        found = self.memo.find(0, index, fn, args, kwargs)
        if found is None:
            self.called += 1
        value = fn(*args, **kwargs) if found is None else found.value
        assert self.memo.settle(0, value, DAY_S) == (found is not None)
        return value


@pytest.fixture
def results() -> MemoryResults:
    return MemoryResults(1_000_000)


def test_an_equal_call_is_made_once(results: MemoryResults) -> None:
    first, second = Worker(results), Worker(results)
    assert [first.call(double, [1, 2]), second.call(double, [1, 2])] == [[1, 2, 1, 2]] * 2
    assert (first.called, first.memo.recalled) == (1, 0)
    assert (second.called, second.memo.recalled) == (0, 1)


@pytest.mark.parametrize("value", [None, False, 0, (), np.arange(3)], ids=repr)
def test_any_output_can_be_recalled(results: MemoryResults, value: Any) -> None:
    fn = lambda: value  # noqa: E731 - it has no name to be told apart by
    Worker(results).call(fn)
    found = Memo(results, process_keyring()).find(0, 0, fn, (), {})
    assert isinstance(found, Recalled)
    assert np.array_equal(found.value, value)


def test_another_argument_is_another_call(results: MemoryResults) -> None:
    worker = Worker(results)
    for args in ([1], [2], ["1"], [[1]]):
        worker.call(double, *args)
    worker.call(double, 1, times=3)
    worker.call(double, 1, times=2)
    assert worker.called == 6


def test_the_order_of_keywords_counts_for_a_function_may_see_it(results: MemoryResults) -> None:
    worker = Worker(results)
    fn = lambda **kwargs: list(kwargs)  # noqa: E731
    worker.call(fn, a=1, b=2)
    worker.call(fn, b=2, a=1)
    worker.call(fn, a=1, b=2)
    assert worker.called == 2


def test_what_is_recalled_belongs_to_who_got_it(results: MemoryResults) -> None:
    worker = Worker(results)
    worker.call(double, [1])
    worker.call(double, [1]).append("mine")
    array = worker.call(np.ones, 4)
    array[:] = 7
    again = worker.call(np.ones, 4)
    again[:] = 8
    assert worker.call(double, [1]) == [1, 1]
    assert worker.call(np.ones, 4).tolist() == [1.0] * 4


def test_what_was_changed_by_the_call_does_not_matter(results: MemoryResults) -> None:
    def consume(items: list[int]) -> int:
        return items.pop()

    worker = Worker(results)
    assert [worker.call(consume, [1, 2]), worker.call(consume, [1, 2])] == [2, 2]
    assert worker.called == 1


def test_what_has_no_hash_is_called_each_time(results: MemoryResults) -> None:
    lock = threading.Lock()
    worker = Worker(results)
    for _ in range(2):
        worker.call(repr, lock)
        worker.call(lambda: repr(lock))
    assert worker.called == 4


def test_an_output_that_cannot_be_pickled_is_not_kept(results: MemoryResults) -> None:
    worker = Worker(results)
    for _ in range(2):
        worker.call(threading.Lock)
    assert worker.called == 2


class Failing:
    """Storage that does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    def get(self, key: str) -> Buffer | None:
        self.asked += 1
        raise StorageError("it is away")

    def put(self, key: str, blob: Blob, expires_s: float) -> None:
        self.asked += 1
        raise StorageError("it is full")


def test_storage_that_fails_fails_no_task_and_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing()
    worker = Worker(failing)
    assert [worker.call(double, number) for number in range(5)] == [0, 2, 4, 6, 8]
    assert failing.asked == 1
    assert "it is away" in caplog.text


class TestTrust:
    def test_a_result_that_was_changed_is_computed_again(self, results: MemoryResults) -> None:
        Worker(results).call(double, 21)
        (key,) = results._entries
        data, until_s = results._entries[key]
        results._entries[key] = (data.replace(b"\x2a", b"\x2b"), until_s)
        worker = Worker(results)
        assert worker.call(double, 21) == 42
        assert worker.called == 1

    def test_a_result_of_another_call_is_not_taken_for_it(self, results: MemoryResults) -> None:
        worker = Worker(results)
        worker.call(double, 1)
        (first,) = results._entries
        worker.call(double, 2)
        second = next(key for key in results._entries if key != first)
        results._entries[second] = results._entries[first]
        assert Worker(results).call(double, 2) == 4

    def test_one_that_nobody_signed_is_not_loaded(self, results: MemoryResults) -> None:
        Worker(results).call(double, 1)
        (key,) = results._entries
        results.put(key, serde.dumps(666), DAY_S)
        assert Worker(results).call(double, 1) == 2

    def test_one_that_another_key_signed_is_computed_again(self, results: MemoryResults) -> None:
        Worker(results, Keyring(["an old key that is long enough"])).call(double, 1)
        worker = Worker(results, Keyring(["another key that is long enough"]))
        worker.call(double, 1)
        assert worker.called == 1

    def test_an_older_key_still_counts(self, results: MemoryResults) -> None:
        Worker(results, Keyring(["an old key that is long enough"])).call(double, 1)
        worker = Worker(results, Keyring(["another key that is long enough", "an old key that is long enough"]))
        worker.call(double, 1)
        assert worker.called == 0
