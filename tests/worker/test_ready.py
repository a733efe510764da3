"""Tasks that can run, in their order."""

from collections.abc import Callable

import pytest

from augury.worker.ready import RankedQueue, ReadyQueue

Make = Callable[[], RankedQueue | ReadyQueue]


def drain(queue: RankedQueue | ReadyQueue) -> list[int]:
    return [queue.popleft() for _ in range(len(queue))]


def test_without_ranks_first_in_is_first_out() -> None:
    queue = ReadyQueue([3, 1, 2])
    queue.put_back(7)
    assert drain(queue) == [7, 3, 1, 2]


def test_ranks_decide_and_equals_go_in_the_order_in_which_they_came() -> None:
    queue = RankedQueue([5, 1, 5, 0])
    for task in (2, 0, 1, 3):
        queue.append(task)
    assert list(queue) == [3, 1, 2, 0]
    assert drain(queue) == [3, 1, 2, 0]


def test_what_is_put_back_keeps_its_place_among_equals() -> None:
    queue = RankedQueue([5, 5, 5])
    for task in (2, 0, 1):
        queue.append(task)
    queue.put_back(queue.popleft())
    assert drain(queue) == [2, 0, 1]


def test_what_is_next_up_goes_before_all_ranks() -> None:
    queue = RankedQueue([9, 0])
    queue.append(1)
    queue.appendleft(0)
    assert list(queue) == [0, 1]
    assert drain(queue) == [0, 1]


@pytest.mark.parametrize("make", [ReadyQueue, lambda: RankedQueue(range(9))])
def test_tasks_can_be_dropped(make: Make) -> None:
    queue = make()
    for task in (1, 2, 3, 4):
        queue.append(task)
    queue.appendleft(0)
    queue.drop({0, 3})
    assert (len(queue), drain(queue)) == (3, [1, 2, 4])
    assert not queue
