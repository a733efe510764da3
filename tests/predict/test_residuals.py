"""Quantiles of residuals: they cover what they promise, and never cross."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.predict.residuals import ResidualQuantiles

residuals = st.lists(st.floats(-5, 5), min_size=1, max_size=30).map(np.array)


def quantiles_of(values: list[float]) -> ResidualQuantiles:
    array = np.array(values)
    return ResidualQuantiles(array, array, 0.2)


def test_the_order_statistic_is_that_of_n_plus_one() -> None:
    quantiles = quantiles_of([0.0, 1.0, 2.0, 3.0])  # 5 gaps: the first is at 20 %, the last at 80 %
    assert [quantiles.at(p) for p in (0.2, 0.4, 0.5, 0.6, 0.8)] == pytest.approx([0.0, 1.0, 1.5, 2.0, 3.0])


def test_beyond_the_samples_a_quantile_goes_on_with_their_scale() -> None:
    quantiles = quantiles_of([-0.1, 0.0, 0.1])
    assert 0.1 < quantiles.at(0.9) < quantiles.at(0.99) < 1.0
    assert -1.0 < quantiles.at(0.01) < quantiles.at(0.1) < -0.1


def test_one_sample_is_the_median_and_the_expected_scale_is_around_it() -> None:
    quantiles = quantiles_of([0.3])
    assert quantiles.at(0.5) == pytest.approx(0.3)
    assert quantiles.at(0.9) > 0.3 + 0.2


@given(residuals, st.lists(st.floats(0.001, 0.999), min_size=2, max_size=10))
def test_quantiles_never_cross(values: np.ndarray, fractions: list[float]) -> None:
    quantiles = ResidualQuantiles(values, values, 0.2)
    found = [quantiles.at(fraction) for fraction in sorted(fractions)]
    assert all(low <= high + 1e-12 for low, high in pairwise(found))
    assert all(map(math.isfinite, found))


@pytest.mark.parametrize("count", [3, 5, 9, 20, 100])
@pytest.mark.parametrize("fraction", [0.5, 0.9])
def test_new_samples_are_covered_as_often_as_promised(count: int, fraction: float) -> None:
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(2000):
        history = rng.normal(0, 0.2, count)
        covered.append(rng.normal(0, 0.2) <= ResidualQuantiles(history, history, 0.2).at(fraction))
    assert np.mean(covered) == pytest.approx(fraction, abs=0.035)
