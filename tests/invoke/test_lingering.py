"""For how long a platform stays without a client."""

import pytest

from augury.invoke.embedded.lingering import Stay

RUNNING, OVER, GONE = "running", "succeeded", "gone"


def stay() -> Stay:
    return Stay(100.0, linger_s=50.0, most_s=1000.0)


def test_it_stays_while_a_run_goes_on() -> None:
    assert stay().goes_on({"a": OVER, "b": RUNNING}, 1099.0)


def test_it_stays_for_a_while_when_all_are_over() -> None:
    platform = stay()
    assert platform.goes_on({"a": OVER}, 200.0)
    assert platform.goes_on({"a": OVER}, 249.0)
    assert not platform.goes_on({"a": OVER}, 250.0)


def test_the_while_begins_anew_when_a_run_goes_on_again() -> None:
    platform = stay()
    assert platform.goes_on({"a": OVER}, 200.0)
    assert platform.goes_on({"a": OVER, "b": RUNNING}, 240.0)
    assert platform.goes_on({"a": OVER, "b": "failed"}, 250.0)
    assert not platform.goes_on({"a": OVER, "b": "failed"}, 300.0)


@pytest.mark.parametrize("statuses", [{}, {"a": GONE, "b": GONE}])
def test_it_ends_at_once_when_nothing_is_left(statuses: dict[str, str]) -> None:
    assert not stay().goes_on(statuses, 101.0)


def test_it_does_not_stay_for_ever() -> None:
    assert not stay().goes_on({"a": RUNNING}, 1100.0)


def test_it_waits_for_an_hour_for_a_storage_that_does_not_answer() -> None:
    platform = stay()
    assert platform.goes_on({"a": RUNNING}, 200.0)
    assert platform.goes_on(None, 1099.0)
    assert not platform.goes_on(None, 1100.0), "nor does it then stay for ever"
    platform = Stay(100.0, linger_s=50.0, most_s=100_000.0)
    assert platform.goes_on(None, 3600.0)
    assert platform.goes_on({"a": RUNNING}, 3601.0)
    assert platform.goes_on(None, 7200.0)
    assert not platform.goes_on(None, 7201.0)
