"""Drift: followed when it is there, not seen when it is not."""

import numpy as np
import pytest

from augury.predict.drift import LEAST, shifts


def test_a_step_moves_the_older_samples_to_the_recent_level() -> None:
    rng = np.random.default_rng(0)
    residuals = np.concatenate([rng.normal(0.0, 0.1, 60), rng.normal(0.5, 0.1, 30)])
    moved = shifts(residuals)
    assert moved[:60] == pytest.approx(0.5, abs=0.1)
    assert moved[-25:] == pytest.approx(0.0, abs=0.05)


def test_two_steps_are_both_followed() -> None:
    rng = np.random.default_rng(0)
    levels = np.repeat([0.0, 1.0, 0.3], 40)
    settled = levels + rng.normal(0.0, 0.1, 120)
    settled = settled + shifts(settled)
    assert [settled[i : i + 40].mean() for i in (0, 40, 80)] == pytest.approx([0.3] * 3, abs=0.08)


@pytest.mark.parametrize("count", [10, 30, 200, 1000])
def test_noise_is_hardly_ever_taken_for_drift(count: int) -> None:
    rng = np.random.default_rng(3)
    alarms = sum(bool(shifts(rng.normal(0, 0.3, count)).any()) for _ in range(300))
    assert alarms <= 9


def test_heavy_tails_are_hardly_ever_taken_for_drift() -> None:
    rng = np.random.default_rng(3)
    alarms = sum(bool(shifts(np.log1p(rng.pareto(1.5, 100))).any()) for _ in range(300))
    assert alarms <= 15


def test_few_samples_show_no_drift() -> None:
    assert not shifts(np.array([0.0] * (LEAST - 4) + [9.0] * 3)).any()


def test_equal_samples_show_no_drift() -> None:
    assert not shifts(np.zeros(50)).any()
