"""Trying again: pauses that grow, chance that spreads them, and patience that ends."""

import pytest

from augury.backoff import Backoff
from tests.waiting import Waiting


def test_pauses_double_up_to_the_longest_until_patience_ends() -> None:
    waiting = Waiting()
    attempts = waiting.backoff(patience_s=9).attempts()
    while attempts.again():
        pass
    assert waiting.pauses_s == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert attempts.told() == "9 attempts in 7.15 s"


def test_what_the_other_side_asks_for_is_the_least() -> None:
    waiting = Waiting()
    assert waiting.backoff(patience_s=9).attempts().again(least_s=5)
    assert waiting.pauses_s == [5]


def test_a_pause_beyond_patience_is_not_begun() -> None:
    waiting = Waiting()
    assert not waiting.backoff(patience_s=9).attempts().again(least_s=10)
    assert waiting.pauses_s == []


def test_a_reason_may_deserve_less_patience() -> None:
    waiting = Waiting()
    attempts = waiting.backoff(patience_s=9).attempts()
    while attempts.again(patience_s=0.5):
        pass
    assert waiting.pauses_s == [0.05, 0.1, 0.2]


def test_one_attempt_is_nothing_to_tell_of() -> None:
    assert Backoff(patience_s=1).attempts().told() == ""


@pytest.mark.parametrize(("chance", "pause_s"), [(0.0, 0.05), (0.5, 0.0375), (1.0, 0.025)])
def test_chance_shortens_a_pause_to_its_half_at_most(chance: float, pause_s: float) -> None:
    slept: list[float] = []
    backoff = Backoff(patience_s=9, clock=lambda: 0.0, sleep=slept.append, chance=lambda: chance)
    assert backoff.attempts().again()
    assert slept == [pytest.approx(pause_s)]


def test_many_attempts_do_not_overflow() -> None:
    slept: list[float] = []
    attempts = Backoff(patience_s=9, clock=lambda: 0.0, sleep=slept.append, chance=lambda: 0.0).attempts()
    for _ in range(3000):
        assert attempts.again()
    assert slept[-1] == 2.0
