"""The default estimator: laws found again, percentiles of time, nothing absurd whatever the samples."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.config import Resources
from augury.predict.estimator import Scaling
from augury.predict.fitted import FittedLaws, FittedModel
from augury.predict.nearest import NearestSamples
from augury.predict.samples import Quantity, Samples
from augury.predict.sla import SLA, Percentile
from tests.predict.history import FULL_CPU_MB, MB, samples_from

SLAS: list[SLA] = [Percentile(p) for p in (1, 10, 50, 90, 99, 99.9)]


def fitted(samples: Samples, quantity: Quantity = Quantity.EXECUTION) -> FittedModel:
    return FittedLaws().fit(samples, quantity)


def cpu_bound(size: float, memory: float) -> float:
    return 0.02 + (0.05 + size / (20 * MB)) / min(1.0, memory / FULL_CPU_MB)


def network_bound(size: float, memory: float) -> float:
    return 0.08 + size / (30 * MB)


def power_law(size: float, memory: float) -> float:
    return float(2.0 * (size / MB) ** 0.7 * (memory / 1024) ** -0.6)


# laws that are found again


@pytest.mark.parametrize("law", [cpu_bound, network_bound, power_law])
@pytest.mark.parametrize("memory_mb", [128, 768, 1536, 3008])
def test_an_unseen_memory_size_is_predicted_from_others(law: object, memory_mb: int) -> None:
    model = fitted(samples_from(law, 300, noise=0.1))  # type: ignore[arg-type]
    expected = law(10 * MB, memory_mb)  # type: ignore[operator]
    assert model.predict(10 * MB, Resources(1, memory_mb), "median") == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("law", [cpu_bound, network_bound, power_law])
@pytest.mark.parametrize("size", [0.25 * MB, 200 * MB])
def test_an_unseen_input_size_is_predicted_from_others(law: object, size: float) -> None:
    model = fitted(samples_from(law, 300, noise=0.1))  # type: ignore[arg-type]
    assert model.predict(size, Resources(1, 512), "median") == pytest.approx(law(size, 512), rel=0.25)  # type: ignore[operator]


def test_much_data_wins_over_all_laws() -> None:
    """A step that no law knows: twice as slow from 10 MB on."""
    model = fitted(samples_from(lambda size, _: 1.0 if size < 10 * MB else 2.0, 3000, noise=0.05))
    assert model.predict(2 * MB, Resources(1, 512), "median") == pytest.approx(1.0, rel=0.1)
    assert model.predict(40 * MB, Resources(1, 512), "median") == pytest.approx(2.0, rel=0.1)


def test_one_sample_is_the_prediction_at_its_own_circumstances() -> None:
    model = fitted(Samples.of([3.0], sizes=[MB], memory_mb=512))
    estimate = model.predict(MB, Resources(1, 512), "median")
    assert estimate == pytest.approx(3.0, rel=0.01)
    assert (estimate.n, estimate.basis) == (1, "same function, 1 run")


def test_the_basis_tells_seen_resources_from_others() -> None:
    model = fitted(Samples.of([4.0, 2.0, 1.0], memory_mb=[256, 700, 1536]))
    basis = {memory: model.predict(0, Resources(1, memory), "median").basis for memory in (256, 700, 1536, 701)}
    assert {memory for memory, words in basis.items() if words == "same function, 3 runs"} == {256, 700, 1536}
    assert basis[701] == "same function, 3 runs, memory fitted"


def test_transfers_are_latency_and_bandwidth() -> None:
    samples = samples_from(lambda size, _: 0.005 + size / (50 * MB), 200, sizes=(1e3, 1e9), noise=0.1)
    model = fitted(samples, Quantity.DOWNLOAD)
    assert model.predict(0, Resources(), "median") == pytest.approx(0.005, rel=0.1)
    assert model.predict(100 * MB, Resources(), "median") == pytest.approx(2.005, rel=0.1)


def test_a_start_takes_longer_if_many_start() -> None:
    rng = np.random.default_rng(0)
    starting = rng.integers(1, 100, 200).astype(float)
    model = fitted(Samples.of((0.2 + 0.01 * starting) * np.exp(rng.normal(0, 0.1, 200)), sizes=starting), Quantity.COLD)
    assert model.predict(1, Resources(), "median") == pytest.approx(0.21, rel=0.1)
    assert model.predict(50, Resources(), "median") == pytest.approx(0.7, rel=0.1)


# resources that never varied


def test_with_equal_cpus_more_memory_makes_nothing_faster() -> None:
    model = fitted(Samples.of([1.0, 1.1, 0.9], memory_mb=512, cpus=1.0, cpu_share=1.0))
    small, large = (model.predict(0, Resources(1, mb), "median") for mb in (512, 4096))
    assert small == large


def test_the_cpu_bound_part_scales_with_the_cpu_share() -> None:
    model = fitted(Samples.of([1.0] * 5, cpus=0.25, memory_mb=512, cpu_share=0.25 * 0.6))
    predicted = model.predict(0, Resources(0.5, 1024), "median")
    assert predicted == pytest.approx(0.4 + 0.6 / 2)
    assert predicted.basis.endswith("cpus scaled by processor time")


def test_one_thread_gets_no_faster_than_one_cpu() -> None:
    model = fitted(Samples.of([1.0] * 5, cpus=0.5, cpu_share=0.5))
    one, four = (model.predict(0, Resources(cpus, 2048), "median") for cpus in (1.0, 4.0))
    assert one == four == pytest.approx(0.5)


def test_several_threads_get_faster_with_more_cpus() -> None:
    model = fitted(Samples.of([1.0] * 5, cpus=2.0, cpu_share=1.9))
    assert model.predict(0, Resources(4.0, 2048), "median") == pytest.approx(0.5)


def test_waiting_does_not_get_faster() -> None:
    model = fitted(Samples.of([1.0] * 5, cpus=0.25, cpu_share=0.0))
    assert model.predict(0, Resources(1.0, 2048), "median") == pytest.approx(1.0)


def test_processor_time_tells_two_samples_what_a_third_size_takes() -> None:
    cpus = np.array([0.25, 0.5])
    samples = Samples.of(0.5 + 0.5 / cpus, cpus=cpus, memory_mb=1769 * cpus, cpu_share=0.5 / (0.5 + 0.5 / cpus))
    assert fitted(samples).predict(0, Resources(1.0, 1769), "median") == pytest.approx(1.0, rel=0.15)


def test_cpus_matter_and_memory_does_not_if_the_samples_say_so() -> None:
    rng = np.random.default_rng(0)
    cpus, memory = rng.choice([0.25, 0.5, 1.0], 200), rng.choice([512.0, 1024.0, 2048.0], 200)
    model = fitted(Samples.of(np.exp(rng.normal(0, 0.05, 200)) / cpus, cpus=cpus, memory_mb=memory))
    assert model.predict(0, Resources(0.25, 4096), "median") == pytest.approx(4.0, rel=0.1)


# SLAs


def test_a_percentile_is_one_of_time() -> None:
    """The trap: the 90th percentile of bandwidth would be a *shorter* time."""
    rng = np.random.default_rng(0)
    samples = Samples.of(np.exp(rng.normal(0, 0.5, 200)), sizes=10 * MB)
    model = fitted(samples, Quantity.DOWNLOAD)
    fast, usual, slow = (model.predict(10 * MB, Resources(), Percentile(p)) for p in (10, 50, 90))
    assert fast < usual < slow
    assert slow == pytest.approx(np.quantile(samples.values, 0.9), rel=0.1)


@pytest.mark.parametrize("quantity", list(Quantity))
@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_a_stricter_sla_never_predicts_less(quantity: Quantity, count: int) -> None:
    model = fitted(samples_from(power_law, count, noise=0.5), quantity)
    for size in (0, MB, 1000 * MB):
        found = [model.predict(size, Resources(1, 700), sla) for sla in SLAS]
        assert found == sorted(found)
        assert found[0] < found[-1]


def test_the_average_is_that_of_the_samples() -> None:
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(0, 0.8, 2000))
    assert fitted(Samples.of(values)).predict(0, Resources(), "average") == pytest.approx(values.mean(), rel=0.03)


def test_the_spread_is_half_of_the_range_from_p10_to_p90() -> None:
    rng = np.random.default_rng(0)
    model = fitted(Samples.of(np.exp(rng.normal(0, 0.3, 500))))
    low, high = (model.predict(0, Resources(), Percentile(p)) for p in (10, 90))
    assert model.predict(0, Resources(), "median").spread == pytest.approx((high - low) / 2, rel=1e-6)


@pytest.mark.parametrize("count", [10, 40, 150])
@pytest.mark.parametrize(("fraction", "low", "high"), [(50, 0.45, 0.55), (90, 0.87, 0.93)])
def test_new_runs_are_covered_as_often_as_promised(count: int, fraction: float, low: float, high: float) -> None:
    covered = []
    for seed in range(100):
        model = fitted(samples_from(cpu_bound, count, seed=seed, noise=0.2))
        fresh = samples_from(cpu_bound, 10, seed=1000 + seed, noise=0.2)
        for size, memory, took in zip(fresh.sizes, fresh.memory_mb, fresh.values, strict=True):
            covered.append(took <= model.predict(float(size), Resources(1, int(memory)), Percentile(fraction)))
    assert low <= np.mean(covered) <= high


# monotone


sizes = st.floats(0, 1e12)
memories = st.integers(64, 20_000)
times = st.lists(
    st.tuples(st.floats(1e-4, 1e3), st.floats(0, 1e9), st.sampled_from([128, 512, 1769, 3008])), min_size=1, max_size=12
)


def from_tuples(rows: list[tuple[float, float, int]]) -> Samples:
    values, asked, memory = zip(*rows, strict=True)
    return Samples.of(values, sizes=asked, memory_mb=memory)


@settings(max_examples=40, deadline=None)
@given(times, st.lists(sizes, min_size=2, max_size=5), memories)
def test_a_larger_input_is_never_faster(rows: list[tuple[float, float, int]], asked: list[float], memory: int) -> None:
    model = fitted(from_tuples(rows))
    found = [model.predict(size, Resources(1, memory), "median") for size in sorted(asked)]
    assert all(smaller <= larger * (1 + 1e-9) for smaller, larger in pairwise(found))


@settings(max_examples=40, deadline=None)
@given(times, sizes, st.lists(memories, min_size=2, max_size=5))
def test_more_memory_is_never_slower(rows: list[tuple[float, float, int]], size: float, asked: list[int]) -> None:
    model = fitted(from_tuples(rows))
    found = [model.predict(size, Resources(1, memory), "median") for memory in sorted(asked)]
    assert all(small >= large * (1 - 1e-9) for small, large in pairwise(found))


# samples that are not nice


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=12),
    st.sampled_from(list(Quantity)),
    sizes,
    st.sampled_from(["average", "median", Percentile(0.001), Percentile(99.999)]),
)
def test_predictions_are_finite_and_not_negative(
    values: list[float], quantity: Quantity, size: float, sla: SLA
) -> None:
    model = fitted(Samples.of(values, sizes=[1e5 * index for index in range(len(values))]), quantity)
    estimate = model.predict(size, Resources(0.1, 64), sla)
    assert 0 <= estimate < math.inf
    assert 0 <= estimate.spread < math.inf


@pytest.mark.parametrize("values", [[0.0], [0.0] * 50, [5e-324, 1e-310], [0.0, 1e-9, 0.0]])
def test_zero_and_subnormal_times_predict_almost_nothing(values: list[float]) -> None:
    assert fitted(Samples.of(values)).predict(0, Resources(), Percentile(90)) < 1e-6


def test_equal_values_predict_themselves() -> None:
    model = fitted(Samples.of([0.25] * 40))
    assert model.predict(0, Resources(), "median") == pytest.approx(0.25)
    assert model.predict(0, Resources(), Percentile(90)) == pytest.approx(0.25)


def test_a_clock_that_was_set_changes_nothing_much() -> None:
    rng = np.random.default_rng(0)
    values = 0.1 * np.exp(rng.normal(0, 0.1, 30))
    values[7] = 4e5
    model = fitted(Samples.of(values))
    for sla in ("average", "median", Percentile(95)):
        assert model.predict(0, Resources(), sla) == pytest.approx(0.1, rel=0.35)


def test_a_few_slow_runs_of_many_are_no_accident() -> None:
    values = np.where(np.arange(200) % 20 == 0, 5.0, 0.01)  # one in twenty takes 500 times as long
    assert fitted(Samples.of(values)).predict(0, Resources(), Percentile(99)) == pytest.approx(5.0, rel=0.1)


def test_large_outputs_are_never_taken_for_mistakes() -> None:
    values = [1e3] * 60 + [1e7]
    assert fitted(Samples.of(values), Quantity.OUTPUT).predict(0, Resources(), Percentile(99)) > 1e6


def test_an_empty_input_is_predicted_among_others() -> None:
    rng = np.random.default_rng(0)
    asked = rng.choice([0.0, MB, 10 * MB], 90)
    model = fitted(Samples.of(0.1 + asked / (10 * MB), sizes=asked))
    assert [float(model.predict(size, Resources(), "median")) for size in (0, MB, 10 * MB)] == pytest.approx(
        [0.1, 0.2, 1.1], rel=0.03
    )


def test_recent_samples_count_if_older_ones_differ() -> None:
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(0, 0.1, 100)) * np.where(np.arange(100) < 70, 1.0, 2.0)
    estimate = fitted(Samples.of(values)).predict(0, Resources(), "median")
    assert estimate == pytest.approx(2.0, rel=0.1)
    assert "recent ones differ" in estimate.basis


def test_older_samples_still_tell_how_time_depends_on_size_after_a_drift() -> None:
    samples = samples_from(cpu_bound, 200, memories=(1024.0,))
    drifted = samples.with_columns(values=samples.values * np.where(np.arange(200) < 150, 1.0, 3.0))
    predicted = fitted(drifted).predict(20 * MB, Resources(1, 1024), "median")
    assert predicted == pytest.approx(3 * cpu_bound(20 * MB, 1024), rel=0.1)


def test_the_same_samples_always_give_the_same_model() -> None:
    first, second = (fitted(samples_from(cpu_bound, 500)) for _ in range(2))
    assert first.predict(MB, Resources(1, 700), Percentile(95)) == second.predict(MB, Resources(1, 700), Percentile(95))


def test_a_hundred_thousand_samples_are_as_good_as_many() -> None:
    model = fitted(samples_from(cpu_bound, 100_000))
    assert model.predict(10 * MB, Resources(1, 1536), "median") == pytest.approx(cpu_bound(10 * MB, 1536), rel=0.03)
    assert len(model.fit.leverage) <= 64  # what was fitted: cells, not samples


def test_many_sizes_at_once_are_predicted_as_one_by_one() -> None:
    model = fitted(samples_from(cpu_bound, 50))
    asked = np.array([0.0, 1e3, 1e6, 1e9])
    one_by_one = [float(model.predict(size, Resources(1, 700), "median")) for size in asked.tolist()]
    assert model.values(asked, Resources(1, 700), "median") == pytest.approx(one_by_one)


# what the caller knows better


def test_beyond_what_was_seen_the_caller_may_say_the_powers() -> None:
    model = fitted(samples_from(cpu_bound, 50, memories=(512.0, 1024.0), sizes=(MB, 2 * MB)))
    seen = model.predict(2 * MB, Resources(1, 1024), "median", Scaling(0.0, 0.0))
    assert model.predict(200 * MB, Resources(1, 4096), "median", Scaling(0.0, 0.0)) == pytest.approx(seen, rel=0.02)
    assert model.predict(200 * MB, Resources(1, 4096), "median", Scaling(1.0, 1.0)) == pytest.approx(
        25 * seen, rel=0.02
    )


# cross-validation


def test_the_error_at_left_out_memory_sizes_is_told() -> None:
    assert fitted(samples_from(cpu_bound, 300, noise=0.05)).left_out_error < 0.1


def test_cross_validation_leaves_whole_memory_sizes_out() -> None:
    """Samples that no law can explain across memory sizes: within one they agree to 1 %, across they alternate."""
    rng = np.random.default_rng(0)
    memory = np.repeat([256.0, 512.0, 1024.0, 2048.0], 50)
    level = np.where(np.isin(memory, [256.0, 1024.0]), 1.0, 2.0)
    model = fitted(Samples.of(level * np.exp(rng.normal(0, 0.01, 200)), memory_mb=memory))
    assert model.left_out_error > 0.3


def test_two_memory_sizes_are_too_few_to_tell_an_error() -> None:
    assert math.isnan(fitted(Samples.of([1.0, 2.0], memory_mb=[512, 1024])).left_out_error)


def test_a_measured_memory_profile_is_predicted_better_than_by_nearest_samples() -> None:
    """The shape of a single thread on Lambda: half the time for twice the memory, flat beyond 1,769 MB."""
    profile = {128: 25.1, 256: 12.6, 512: 6.07, 1024: 3.08, 1536: 2.09, 2048: 1.78, 3008: 1.78}
    errors: dict[str, list[float]] = {}
    for estimator in (FittedLaws(), NearestSamples()):
        for target, expected in profile.items():
            rest = {mb: took for mb, took in profile.items() if mb != target}
            samples = Samples.of(list(rest.values()), memory_mb=list(rest))
            predicted = estimator.fit(samples, Quantity.EXECUTION).predict(0, Resources(1, target), "median")
            errors.setdefault(estimator.name, []).append(abs(predicted / expected - 1))
    assert np.mean(errors["fitted laws"]) < 0.06
    assert np.mean(errors["fitted laws"]) < np.mean(errors["nearest samples"]) / 4
