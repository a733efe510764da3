"""When a pre-loaded parent is to be killed, and when another one makes no sense."""

import math

import pytest

from augury.invoke.embedded.parents import Parents

DEAF = "does not answer"


@pytest.fixture
def ready() -> Parents:
    """A parent that was started at 0 s, has 30 s for its imports, and was ready after 10 s."""
    parents = Parents(30.0, 0.0)
    parents.hear(10.0)
    parents.note_ready(10.0)
    return parents


def fault(parents: Parents, now_s: float, *, asked_s: float = math.inf, stopped: bool = False) -> str:
    return parents.fault(now_s, asked_s, stopped)


def test_one_that_leaves_a_fork_unanswered_for_long_has_to_go(ready: Parents) -> None:
    assert fault(ready, 619.0, asked_s=500.0) == ""
    assert fault(ready, 620.0, asked_s=500.0) == DEAF


def test_one_that_answers_others_or_was_not_asked_stays(ready: Parents) -> None:
    assert fault(ready, 1000.0) == ""
    ready.hear(600.0)
    assert fault(ready, 620.0, asked_s=500.0) == ""


def test_one_that_stays_stopped_has_to_go(ready: Parents) -> None:
    assert fault(ready, 20.0, stopped=True) == ""
    assert fault(ready, 21.9, stopped=True) == ""
    assert fault(ready, 22.0, stopped=True) == "is stopped"


def test_one_that_goes_on_may_be_stopped_again(ready: Parents) -> None:
    fault(ready, 20.0, stopped=True)
    fault(ready, 21.0)
    assert fault(ready, 22.0, stopped=True) == ""


def test_the_next_one_is_not_blamed_for_the_last_one(ready: Parents) -> None:
    fault(ready, 20.0, stopped=True)
    assert ready.replace(30.0)
    assert fault(ready, 31.0, asked_s=15.0, stopped=True) == ""


def test_imports_may_take_what_the_platform_may_take_to_start() -> None:
    parents = Parents(600.0, 0.0)
    parents.note_ready(1.0)
    parents.replace(1000.0)
    assert fault(parents, 1599.0, asked_s=1000.0) == ""
    assert fault(parents, 1600.0, asked_s=1000.0) == DEAF


def test_imports_may_take_several_times_as_long_as_before() -> None:
    parents = Parents(30.0, 0.0)
    parents.note_ready(100.0)
    parents.replace(1000.0)
    assert fault(parents, 1399.0, asked_s=1000.0) == ""
    assert fault(parents, 1400.0, asked_s=1000.0) == DEAF


def test_once_it_is_ready_it_has_no_more_time_than_others() -> None:
    parents = Parents(600.0, 0.0)
    parents.note_ready(1.0)
    assert fault(parents, 220.0, asked_s=100.0) == DEAF


def test_after_three_others_in_a_minute_there_is_no_fourth(ready: Parents) -> None:
    for now_s in (100.0, 110.0, 120.0):
        assert ready.replace(now_s)
        ready.note_ready(now_s + 1.0)
    assert not ready.replace(159.0)
    assert ready.replace(161.0)


def test_after_three_that_never_got_ready_there_is_no_fourth(ready: Parents) -> None:
    for now_s in (1000.0, 2000.0, 3000.0):
        assert ready.replace(now_s)
    assert not ready.replace(4000.0)


def test_one_that_gets_ready_makes_up_for_those_that_did_not(ready: Parents) -> None:
    for now_s in (1000.0, 2000.0, 3000.0):
        ready.replace(now_s)
    ready.note_ready(3100.0)
    assert ready.replace(4000.0)
