"""What counts as set by a module that is imported, and what by a task that runs beside it."""

import os
import signal
from collections.abc import Iterator

import pytest

from augury.worker.surroundings import Surroundings, calling

NAME = "AUGURY_TEST_OF_SURROUNDINGS"


@pytest.fixture
def surroundings() -> Iterator[Surroundings]:
    """As they are, and are again when the test is over."""
    found = Surroundings()
    yield Surroundings()
    found.put_back()


def test_what_is_set_while_a_function_is_loaded_stays(surroundings: Surroundings) -> None:
    with surroundings.adopting():
        os.environ[NAME] = "module"
    os.environ[NAME] = "task"
    surroundings.put_back()
    assert os.environ[NAME] == "module"


def test_functions_that_are_loaded_at_a_time_do_not_matter(surroundings: Surroundings) -> None:
    with surroundings.adopting(), surroundings.adopting():
        os.environ[NAME] = "module"
    surroundings.put_back()
    assert os.environ[NAME] == "module"


def test_what_may_be_set_by_a_task_that_began_before_does_not_stay(surroundings: Surroundings) -> None:
    with calling, surroundings.adopting():
        os.environ[NAME] = "task"
    surroundings.put_back()
    assert NAME not in os.environ


def test_nor_what_may_be_by_one_that_begins_and_ends_meanwhile(surroundings: Surroundings) -> None:
    with surroundings.adopting():
        with calling:
            pass
        os.environ[NAME] = "task"
    surroundings.put_back()
    assert NAME not in os.environ


def test_after_it_they_are_told_apart_again(surroundings: Surroundings) -> None:
    with calling:
        pass
    with surroundings.adopting():
        os.environ[NAME] = "module"
    surroundings.put_back()
    assert os.environ[NAME] == "module"


def test_the_alarm_of_a_time_limit_is_not_taken_for_a_modules(surroundings: Surroundings) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    with surroundings.adopting():
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 1000.0, 1000.0)
    surroundings.put_back()
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux tells the umask")
def test_to_look_at_the_umask_does_not_set_it(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)

    def refuse(_: int) -> int:
        raise AssertionError

    try:
        with monkeypatch.context() as patch, Surroundings().adopting():
            patch.setattr(os, "umask", refuse)
            Surroundings().put_back()
    finally:
        assert os.umask(before) == 0o027


def test_an_environment_that_a_task_has_replaced_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_TEST", "as found")
    found = os.environ
    surroundings = Surroundings()
    try:
        os.environ = {"AUGURY_TEST": "replaced"}  # type: ignore[assignment]  # noqa: B003 - tasks may do anything
        surroundings.put_back()
        assert os.environ is found
        assert os.environ["AUGURY_TEST"] == "as found"
    finally:
        os.environ = found  # noqa: B003
