"""The time that planning may take."""

import pytest

from augury.plan.search.budget import Budget


class Clock:
    """Tells what it is told."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("makespan_s", "allowed_s"), [(1.0, 0.1), (0.01, 0.02), (0.2, 0.02), (30.0, 3.0), (50.0, 5.0), (1e6, 5.0)]
)
def test_it_is_a_tenth_of_the_run_between_20_ms_and_5_s(makespan_s: float, allowed_s: float) -> None:
    budget = Budget(Clock())
    assert budget.allowed_s == 0.02
    budget.expect(makespan_s)
    assert budget.allowed_s == pytest.approx(allowed_s)


@pytest.mark.parametrize(("gain_s", "allowed_s"), [(0.0, 0.1), (0.4, 0.2), (3.6, 1.0), (9.0, 1.0)])
def test_it_is_no_more_than_what_may_be_gained_and_a_little_to_save_money(gain_s: float, allowed_s: float) -> None:
    budget = Budget(Clock())
    budget.expect(10.0, gain_s)
    assert budget.allowed_s == pytest.approx(allowed_s)


def test_what_the_user_gives_counts_whatever_is_expected() -> None:
    budget = Budget(Clock(), given_s=0.3)
    budget.expect(1000.0)
    assert budget.allowed_s == 0.3


def test_a_step_is_taken_only_if_it_fits() -> None:
    clock = Clock()
    budget = Budget(clock, given_s=1.0)
    clock.now_s += 0.5
    part, half = budget.part(1.0), budget.part(0.5)
    assert part.is_left()
    assert part.is_left(0.49)
    assert not part.is_left(0.51)
    assert not half.is_left()


def test_steps_are_known_by_the_last_of_their_kind() -> None:
    clock = Clock()
    budget = Budget(clock)

    def simulate() -> str:
        clock.now_s += 0.012
        return "made"

    assert budget.timed("simulate", 1000, simulate) == "made"
    assert budget.cost_s("simulate", 10_000) == pytest.approx(0.12)
    assert budget.cost_s("schedule", 10_000) == Budget(Clock()).cost_s("schedule", 10_000)


def test_a_search_within_a_search_began_with_it_and_learns_for_it() -> None:
    clock = Clock()
    budget = Budget(clock, given_s=1.0)
    clock.now_s += 0.3
    inner = budget.nested(0.5)
    assert inner.allowed_s == 0.5
    assert inner.passed_s == pytest.approx(0.3)
    inner.timed("coarsen", 10, lambda: setattr(clock, "now_s", clock.now_s + 0.1))
    assert budget.cost_s("coarsen", 20) == pytest.approx(0.2)


def test_on_a_clock_that_stands_still_each_part_has_a_number_of_steps() -> None:
    budget = Budget(Clock())
    first, second = budget.part(0.1), budget.part(0.2)
    steps = 0
    while first.is_left(1e9):
        steps += 1
    assert 100 < steps < 1000
    assert second.is_left(1e9)


def test_no_time_is_no_time() -> None:
    assert not Budget(Clock(), given_s=0.0).part(1.0).is_left()
