"""The paper's estimator: nearest samples, balanced, of the same resources if there are enough."""

import numpy as np
import pytest

from augury.config import Resources
from augury.errors import DefinitionError
from augury.predict.estimator import Scaling
from augury.predict.nearest import NearestSamples, nearest
from augury.predict.samples import Quantity, Samples
from augury.predict.sla import Percentile

HERE = Resources(1, 1024)


def test_enough_samples_of_the_same_resources_are_used_alone() -> None:
    samples = Samples.of([1.0] * 5 + [9.0] * 20, memory_mb=[1024] * 5 + [128] * 20)
    estimate = NearestSamples().fit(samples, Quantity.EXECUTION).predict(0, HERE, "median")
    assert (float(estimate), estimate.n) == (1.0, 5)
    assert "same resources" in estimate.basis


def test_otherwise_all_samples_are_scaled_by_a_fixed_power_of_memory() -> None:
    samples = Samples.of([4.0] * 4, memory_mb=256)
    estimate = NearestSamples().fit(samples, Quantity.EXECUTION).predict(0, HERE, "median")
    assert estimate == pytest.approx(4.0 * (256 / 1024) ** 0.5)
    assert "memory scaled" in estimate.basis


def test_the_caller_may_say_the_power() -> None:
    model = NearestSamples().fit(Samples.of([4.0], memory_mb=256), Quantity.UPLOAD)
    assert model.predict(0, HERE, "median", Scaling(memory_exponent=1.0)) == pytest.approx(1.0)


def test_values_count_per_byte_unless_the_caller_says_otherwise() -> None:
    model = NearestSamples().fit(Samples.of([1.0], sizes=[999.0], memory_mb=1024), Quantity.EXECUTION)
    assert model.predict(1999, HERE, "median") == pytest.approx(2.0)
    assert model.predict(1999, HERE, "median", Scaling(size_exponent=0.0)) == pytest.approx(1.0)


def test_the_window_widens_until_it_holds_enough() -> None:
    sizes = np.array([100.0, 104.0, 109.0, 118.0, 139.0, 500.0])
    assert sorted(sizes[nearest(sizes, 100.0, 2, 9)]) == [100.0, 104.0]
    assert sorted(sizes[nearest(sizes, 100.0, 3, 9)]) == [100.0, 104.0, 109.0]
    assert sorted(sizes[nearest(sizes, 100.0, 5, 9)]) == [100.0, 104.0, 109.0, 118.0, 139.0]


def test_smaller_equal_and_larger_samples_take_turns() -> None:
    sizes = np.array([100.0] * 9 + [99.0, 98.0, 97.0, 101.0])
    chosen = sizes[nearest(sizes, 100.0, 4, 6)]
    assert sorted(chosen) == [97.0, 98.0, 99.0, 100.0, 100.0, 101.0]


def test_far_from_everything_the_nearest_overall_count() -> None:
    sizes = np.array([1.0, 2.0, 3.0, 4.0])
    assert sorted(sizes[nearest(sizes, 1000.0, 2, 9)]) == [3.0, 4.0]


@pytest.mark.parametrize(("sla", "expected"), [("average", 3.0), ("median", 2.0), (Percentile(75), 3.0)])
def test_average_median_and_percentile_are_those_of_the_chosen(sla: object, expected: float) -> None:
    samples = Samples.of([1.0, 1.0, 2.0, 3.0, 8.0], memory_mb=1024)
    assert NearestSamples().fit(samples, Quantity.EXECUTION).predict(0, HERE, sla) == expected  # type: ignore[arg-type]


def test_an_output_does_not_depend_on_memory() -> None:
    model = NearestSamples().fit(Samples.of([7.0], memory_mb=128), Quantity.OUTPUT)
    assert model.predict(0, HERE, "median") == 7.0


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(DefinitionError, match="enough"):
        NearestSamples(enough=5, most=4)
