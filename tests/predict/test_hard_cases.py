"""Cases that simpler models get wrong: rare large values, stragglers, two kinds of resources, what is not known."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from augury import task
from augury.config import Resources
from augury.dag.graph import FunctionInfo
from augury.errors import DefinitionError
from augury.metrics.records import Record, Records, TaskRun, Transfer, series_of
from augury.predict import fit as fitting
from augury.predict.drift import shifts
from augury.predict.estimate import Estimate
from augury.predict.estimator import NO_SCALING, Model, Scaling
from augury.predict.fitted import FittedLaws, FittedModel
from augury.predict.nearest import NearestSamples
from augury.predict.provider import PredictionsProvider
from augury.predict.samples import Quantity, Samples, samples_of
from augury.predict.sla import SLA, Percentile

R = Resources(cpus=1, memory_mb=1024)
MB = 1e6


def fit(samples: Samples, quantity: Quantity = Quantity.EXECUTION) -> FittedModel:
    return FittedLaws().fit(samples, quantity)


def provider_of(*records: Record, **options: Any) -> PredictionsProvider:
    return PredictionsProvider(Records(workflow="w").with_series(series_of(records)), **options)


def ran(execution_s: float, name: str = "resize", **measured: Any) -> TaskRun:
    version = (name + "0123456789abcdef")[:16]
    return TaskRun(function=version, name=name, resources=R, execution_s=execution_s, **measured)


# ── stragglers ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_straggler_among_few_sizes_does_not_blow_percentiles_up() -> None:
    model = fit(Samples.of([1.06, 1.04, 10.4, 1.04, 1.06], sizes=[17e6, 12e6, 6e6, 2e6, 19e6], memory_mb=1024))
    assert model.predict(6e6, R, Percentile(95)) < 60
    assert model.predict(6e6, R, "average") < 10


def test_the_average_of_two_kinds_of_runs_is_between_them() -> None:
    rng = np.random.default_rng(3)
    values = np.where(rng.random(12) < 0.3, 13.0, 1.0)
    model = fit(Samples.of(values, sizes=rng.uniform(1e6, 2e7, 12), memory_mb=1024))
    assert 1.0 <= model.predict(1e7, R, "average") <= 13.0


# ── rare large ones ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("large", [1, 3, 10, 30])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_few_large_transfers_among_many_tiny_ones_tell_the_bandwidth(large: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.concatenate([rng.uniform(20, 400, 200), np.full(large, 1e8)]))
    times = (0.002 + sizes / 1e8) * np.exp(rng.normal(0, 0.2, len(sizes)))
    model = fit(Samples.of(times, sizes=sizes, memory_mb=1024), Quantity.UPLOAD)
    assert model.predict(1e8, R, "median") == pytest.approx(1.0, rel=0.6)
    assert model.predict(30, R, "median") == pytest.approx(0.002, rel=0.3)


@pytest.mark.parametrize("sizes", [[40.0] * 18, [39.0, 40.0] * 9, list(np.linspace(20, 400, 18))])
def test_tiny_transfers_alone_do_not_tell_of_an_absurd_bandwidth(sizes: list[float]) -> None:
    times = 0.0005 * np.exp(np.random.default_rng(0).normal(0, 0.4, 18))
    model = fit(Samples.of(times, sizes=sizes, memory_mb=1024), Quantity.UPLOAD)
    assert 0.0004 < model.predict(MB, R, "median") < 0.1
    assert 0.01 < model.predict(1e9, R, "median") < 60


# ── CPUs and memory ────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_that_matters_is_found_where_cpus_have_two_levels_only() -> None:
    configurations = [(1, 256), (1, 512), (1, 1024), (2, 2048), (2, 4096)]
    rng = np.random.default_rng(0)
    cpus, memory = np.array([c for c in configurations for _ in range(20)], dtype=float).T
    model = fit(
        Samples.of(1769 / np.minimum(memory, 1769) * np.exp(rng.normal(0, 0.05, 100)), cpus=cpus, memory_mb=memory)
    )
    for count, size_mb in configurations:
        truth = 1769 / min(size_mb, 1769)
        assert model.predict(0, Resources(cpus=count, memory_mb=size_mb), "median") == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("seen", [Resources(1, 512), Resources(1, 128), Resources(0.5, 512), Resources(2, 3008)])
@pytest.mark.parametrize("share", [math.nan, 0.2, 1.0])
def test_more_of_either_never_predicts_slower(seen: Resources, share: float) -> None:
    model = fit(Samples.of([1.0] * 5, memory_mb=seen.memory_mb, cpus=seen.cpus, cpu_share=share))
    steps = [Resources(cpus, mb) for cpus in (0.1, 0.9, 1.0, 1.5, 4) for mb in (128, 512, 1769, 3008)]
    times = {(one.cpus, one.memory_mb): model.predict(0, one, "median") for one in steps}
    for (cpus, mb), time_s in times.items():
        assert all(time_s >= other for (c, m), other in times.items() if c >= cpus and m >= mb)


def test_records_that_say_nothing_of_cpus_are_scaled_by_memory_as_on_lambda() -> None:
    model = fit(Samples.of([8.0] * 3, memory_mb=256))
    faster = model.predict(0, Resources(memory_mb=1024), "median")
    assert 2.0 < faster < 4.0
    assert faster.basis.endswith("memory assumed to matter")


@pytest.mark.parametrize(("exponent", "factor"), [(0.0, 1.0), (1.0, 4.0), (0.5, 2.0)])
def test_the_callers_exponent_is_followed_with_one_memory_size_seen(exponent: float, factor: float) -> None:
    model = fit(Samples.of([0.5] * 10, sizes=MB, memory_mb=1024), Quantity.UPLOAD)
    predicted = model.predict(MB, Resources(memory_mb=256), "median", Scaling(memory_exponent=exponent))
    assert predicted == pytest.approx(0.5 * factor, rel=0.01)


# ── what is not known ──────────────────────────────────────────────────────────────────────────────────────────


def test_where_no_size_was_recorded_size_does_not_matter() -> None:
    provider = provider_of(*[ran(2.0) for _ in range(6)])
    estimates = [provider.predict_execution_time("resize", size, R, "median") for size in (0, 1e6, 1e9)]
    assert estimates == pytest.approx([2.0] * 3)
    assert "sizes not recorded" in estimates[2].basis


def test_the_basis_says_when_a_size_is_beyond_what_was_seen() -> None:
    varied = provider_of(*[ran(size / MB, input_bytes=size) for size in (1e6, 2e6, 4e6, 8e6)])
    constant = provider_of(*[ran(1.0, input_bytes=5e6) for _ in range(4)])
    assert "sizes" not in varied.predict_execution_time("resize", 3e6, R, "median").basis
    assert varied.predict_execution_time("resize", 1e9, R, "median").basis.endswith("beyond the sizes seen")
    assert constant.predict_execution_time("resize", 1e9, R, "median").basis.endswith("size assumed to matter")


def test_a_time_that_is_missing_lies_between_its_neighbours() -> None:
    old = [ran(1.0, ended_s=float(number)) for number in range(100)]
    new = [ran(2.0, ended_s=float(number)) for number in range(100, 160)]
    gap = ran(2.0, ended_s=math.nan)
    assert provider_of(*old, *new, gap).predict_execution_time("resize", 0, R, "median") == pytest.approx(2.0, rel=0.02)


def test_all_records_that_were_left_out_are_mentioned() -> None:
    estimate = provider_of(*[ran(-1.0) for _ in range(11)]).predict_execution_time("resize", 0, R, "median")
    assert estimate.is_prior
    assert estimate.basis == "prior: none of 11 records tells it"


# ── memory and sizes ───────────────────────────────────────────────────────────────────────────────────────────


def test_peak_memory_does_not_follow_a_few_small_ones() -> None:
    peaks = [1000.0] * 50 + [100.0] * 3
    records = [ran(1.0, peak_mb=peak, input_bytes=MB, ended_s=float(index)) for index, peak in enumerate(peaks)]
    assert provider_of(*records).predict_peak_memory("resize", MB) >= 950


def test_peak_memory_follows_large_ones_at_once() -> None:
    peaks = [100.0] * 50 + [1000.0] * 6
    records = [ran(1.0, peak_mb=peak, input_bytes=MB, ended_s=float(index)) for index, peak in enumerate(peaks)]
    assert provider_of(*records).predict_peak_memory("resize", MB) >= 950


def test_an_input_that_is_larger_than_any_must_fit_itself() -> None:
    records = [ran(1.0, peak_mb=60.0, input_bytes=1000.0 + number) for number in range(20)]
    assert provider_of(*records).predict_peak_memory("resize", 1e9) > 950


@pytest.mark.parametrize("size", [0, 1, 398, 12_345, 10**9])
def test_outputs_that_are_always_alike_are_predicted_to_the_byte(size: int) -> None:
    records = [ran(1.0, output_bytes=size, input_bytes=MB) for _ in range(20)]
    assert provider_of(*records).predict_output_size("resize", MB, "median") == pytest.approx(size, rel=1e-6, abs=1)


# ── drift and noise ────────────────────────────────────────────────────────────────────────────────────────────


def test_noise_that_stays_high_or_low_for_a_while_is_no_drift() -> None:
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noise = np.zeros(60)
        for index in range(1, 60):
            noise[index] = 0.8 * noise[index - 1] + 0.6 * rng.normal()
        found += bool(shifts(0.2 * noise).any())
    assert found <= 20  # without regard to it, nearly all


# ── naming functions ───────────────────────────────────────────────────────────────────────────────────────────


@task
def crunch(x: int) -> int:
    return x + 1


def test_a_function_is_found_by_itself_its_task_its_info_and_by_the_digits_that_tables_show() -> None:
    version = crunch(1).function.version()
    record = TaskRun(function=version, name="crunch", resources=R, execution_s=2.0)
    provider = provider_of(record)
    ways: list[Any] = [
        *("crunch", version, version[:8], f"crunch {version[:8]}"),
        *(crunch, crunch(1), crunch.fn, FunctionInfo("crunch", version)),
    ]
    for way in ways:
        assert provider.predict_execution_time(way, 0, R, "median").n == 1


def test_a_name_that_is_not_known_gives_a_prior_that_says_which_are() -> None:
    estimate = provider_of(ran(2.0), ran(3.0, "smooth")).predict_execution_time("rezise", 0, R, "median")
    assert estimate.is_prior
    assert estimate.basis == "prior: nothing known of 'rezise', only of resize, smooth"


BAD: list[tuple[Callable[[PredictionsProvider], object], str]] = [
    (lambda p: p.predict_execution_time(3, 0, R, "median"), "named by its name"),  # type: ignore[arg-type]
    (lambda p: p.predict_execution_time("resize", "5", R, "median"), "input_size must be"),  # type: ignore[arg-type]
    (lambda p: p.predict_execution_time("resize", None, R, "median"), "input_size must be"),  # type: ignore[arg-type]
    (lambda p: p.predict_execution_time("resize", True, R, "median"), "input_size must be"),
    (lambda p: p.predict_execution_time("resize", 0, 512, "median"), "resource_config must be Resources"),  # type: ignore[arg-type]
    (lambda p: p.predict_execution_time("resize", 0, R, "median", "x"), "size_scaling_factor must be"),  # type: ignore[arg-type]
    (lambda p: p.predict_worker_startup_time(R, "cold", "median", starting="2"), "starting must be"),  # type: ignore[arg-type]
    (lambda p: p.predict_worker_startup_time(None, "cold", "median"), "resource_config must be"),  # type: ignore[arg-type]
    (lambda p: p.predict_data_transfer_time("upload", [], R, "median"), "data_size_bytes must be"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("ask", "text"), BAD)
def test_what_makes_no_sense_is_refused_and_named(ask: Callable[[PredictionsProvider], object], text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        ask(provider_of(ran(2.0)))


@pytest.mark.parametrize("size", [np.int64(5), np.float32(5), 5])
def test_numbers_of_numpy_are_numbers(size: Any) -> None:
    assert provider_of(ran(2.0)).predict_execution_time("resize", size, R, "median").n == 1


def test_an_estimate_does_not_change() -> None:
    estimate = provider_of(ran(2.0)).predict_execution_time("resize", 0, R, "median")
    with pytest.raises(AttributeError, match="does not change"):
        estimate.spread = 99.0


@pytest.mark.parametrize("p", [np.int64(90), np.float32(90), 90, 90.0])
def test_percentiles_may_be_numbers_of_numpy(p: Any) -> None:
    provider = provider_of(*[ran(2.0 + number) for number in range(30)])
    assert provider.predict_execution_time("resize", 0, R, Percentile(p)) == pytest.approx(28.9, rel=0.03)


def test_a_provider_shows_what_it_knows() -> None:
    assert repr(provider_of(ran(2.0), ran(3.0), ran(1.0, "smooth"))) == (
        "PredictionsProvider(resize: 2 runs, smooth: 1 run)"
    )
    assert repr(PredictionsProvider(Records(workflow="w"))) == "PredictionsProvider(nothing known)"


class PlainModel:
    def predict(self, size: float, resources: Resources, sla: SLA, scaling: Scaling = NO_SCALING) -> Any:
        return 7.5


class Plain:
    name = "plain"

    def fit(self, samples: Samples, quantity: Quantity) -> Model:
        return PlainModel()


def test_an_estimator_may_give_plain_numbers() -> None:
    provider = provider_of(ran(2.0, peak_mb=10.0), estimator=Plain())
    estimate = provider.predict_execution_time("resize", 0, R, "median")
    assert (estimate, estimate.basis, estimate.is_prior) == (7.5, "plain", False)
    assert isinstance(provider.predict_peak_memory("resize", 0), Estimate)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: PredictionsProvider([ran(1.0)]), "made from Records, .* not from list"),  # type: ignore[arg-type]
        (lambda: provider_of(ran(1.0), estimator=Plain), "an object with a name and fit"),
        (lambda: provider_of(ran(1.0), estimator="NearestSamples"), "an object with a name and fit"),
    ],
)
def test_a_provider_is_made_of_records_and_an_estimator(made: Callable[[], object], text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        made()


# ── the paper's estimator ──────────────────────────────────────────────────────────────────────────────────────


def test_of_samples_equally_near_the_newest_are_taken() -> None:
    samples = Samples.of([1.0] * 50 + [3.0] * 50, sizes=MB, memory_mb=1024)
    assert NearestSamples().fit(samples, Quantity.EXECUTION).predict(MB, R, "median") == 3.0


def test_of_samples_equally_near_those_of_the_nearest_memory_size_are_taken() -> None:
    values, memory = [8.0] * 20 + [1.0] * 20, [128.0] * 20 + [3008.0] * 20
    samples = Samples.of(values, sizes=MB, memory_mb=memory)
    predicted = NearestSamples().fit(samples, Quantity.EXECUTION).predict(MB, Resources(memory_mb=2048), "median")
    assert predicted == pytest.approx(math.sqrt(3008 / 2048))


def test_samples_keep_whether_sizes_were_recorded() -> None:
    series = series_of([Transfer(direction="upload", resources=R, duration_s=1.0)])
    assert not samples_of(series, Quantity.UPLOAD, subject="uploads", unit="upload").sized


# ── cross-validation ───────────────────────────────────────────────────────────────────────────────────────────

MEMORY_SIZES = np.array([128.0, 256.0, 512.0, 1024.0, 2048.0, 3008.0])


def mean_error_where_left_out(law: Callable[[float], float]) -> float:
    """Each memory size is predicted from the others, in four histories."""
    errors = []
    for seed in range(4):
        memory = np.repeat(MEMORY_SIZES, 5)
        truth = np.array([law(mb) for mb in memory])
        values = truth * np.exp(np.random.default_rng(seed).normal(0, 0.08, len(memory)))
        for left_out in MEMORY_SIZES:
            kept = memory != left_out
            model = fit(Samples.of(values[kept], memory_mb=memory[kept]))
            predicted = model.predict(0, Resources(memory_mb=int(left_out)), "median")
            errors.append(abs(predicted / law(left_out) - 1))
    return float(np.mean(errors))


def test_laws_that_predict_what_was_left_out_win(monkeypatch: pytest.MonkeyPatch) -> None:
    def law(memory_mb: float) -> float:
        return 1 + (300 / memory_mb) ** 2

    chosen = mean_error_where_left_out(law)
    judge = fitting._cross_validated

    def without(*arguments: Any) -> Any:
        bonus, error = judge(*arguments)
        return np.zeros_like(bonus), error

    monkeypatch.setattr(fitting, "_cross_validated", without)
    assert chosen < 0.06
    assert chosen < 0.8 * mean_error_where_left_out(law)


@pytest.mark.parametrize(("cpus", "memory_mb"), [(0.5, 2048), (1, 512)])
def test_the_prior_of_transfers_knows_that_small_workers_are_slow(cpus: float, memory_mb: int) -> None:
    provider = PredictionsProvider(Records(workflow="w"))
    slow = provider.predict_data_transfer_time("upload", 1e8, Resources(cpus=cpus, memory_mb=memory_mb), "median")
    assert slow > 1.5 * provider.predict_data_transfer_time("upload", 1e8, Resources(), "median")


# ── sizes that hardly differ ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("base", [26, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("ratio", [1.02, 1.07, 1.5, 4.0])
def test_sizes_that_hardly_differ_do_not_lead_astray(base: float, ratio: float) -> None:
    rng = np.random.default_rng(0)
    sizes = base * np.exp(rng.uniform(0, math.log(ratio), 64))
    model = fit(Samples.of(0.2 * np.exp(rng.normal(0, 0.002, 64)), sizes=sizes, memory_mb=1024))
    assert abs(model.quantiles.at(0.5)) < 0.05
    for size in (base, base * ratio):
        assert model.predict(size, R, "median") == pytest.approx(0.2, rel=0.06)
    assert model.predict(10 * base * ratio, R, "median") < 2.0


def test_the_size_of_a_number_says_nothing_of_large_inputs() -> None:
    provider = provider_of(*[ran(0.2, input_bytes=26.0 + number % 3) for number in range(64)])
    assert provider.predict_execution_time("resize", 1e6, R, "median") < 1.0
