"""The prediction API: which records count, what is assumed without any, and what is refused."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from augury.config import Resources
from augury.dag.graph import FunctionInfo
from augury.errors import DefinitionError
from augury.metrics.records import Records, Startup, TaskRun, Transfer
from augury.predict import priors
from augury.predict.estimate import Estimate
from augury.predict.estimator import NO_SCALING, Model, Scaling
from augury.predict.nearest import NearestSamples
from augury.predict.provider import PredictionsProvider
from augury.predict.samples import Quantity, Samples
from augury.predict.sla import SLA, Percentile
from tests.predict.history import MB, records_of, run

HERE = Resources(1, 1024)
EMPTY = Records(workflow="w")


def execution(provider: PredictionsProvider, name: str = "resize", size: float = MB) -> Estimate:
    return provider.predict_execution_time(name, size, HERE, "median")


# which records count


def test_a_function_is_found_by_its_name_and_by_its_version() -> None:
    provider = PredictionsProvider(records_of([run(2.0)]))
    assert execution(provider, "resize") == execution(provider, "v1") == pytest.approx(2.0)


def test_a_name_means_the_version_that_was_recorded_last() -> None:
    records = records_of([run(2.0, function="old")]).with_series(records_of([run(5.0, function="new")]).series)
    assert execution(PredictionsProvider(records)) == pytest.approx(5.0)
    again = records.with_series(records_of([run(2.0, function="old")]).series)
    assert execution(PredictionsProvider(again)) == pytest.approx(2.0)


def test_the_graph_that_is_planned_says_which_version_a_name_means() -> None:
    records = records_of([run(2.0, function="old"), run(5.0, function="new")])
    provider = PredictionsProvider(records, functions=[FunctionInfo("resize", "old")])
    assert execution(provider) == pytest.approx(2.0)


def test_records_of_changed_code_do_not_count() -> None:
    provider = PredictionsProvider(records_of([run(2.0, function="old")]), functions=[FunctionInfo("resize", "new")])
    assert execution(provider).is_prior
    assert execution(provider, "old") == pytest.approx(2.0)


def test_functions_do_not_mix() -> None:
    records = records_of([run(1.0, function="a", name="f"), run(9.0, function="b", name="g")])
    provider = PredictionsProvider(records)
    assert [execution(provider, "f"), execution(provider, "g")] == pytest.approx([1.0, 9.0])


def test_all_planners_records_count_together() -> None:
    provider = PredictionsProvider(records_of([run(2.0, planner="a"), run(2.0, planner="b")]))
    assert execution(provider).n == 2


def test_all_resources_records_count_together() -> None:
    provider = PredictionsProvider(records_of([run(2.0, memory_mb=512), run(1.0, memory_mb=2048)]))
    estimate = execution(provider)
    assert 1.0 < estimate < 2.0
    assert estimate.basis == "same function, 2 runs, memory fitted"


def test_records_of_the_asked_platform_are_preferred() -> None:
    records = records_of([run(1.0, platform="here"), *[run(9.0, platform="there")] * 9])
    estimate = execution(PredictionsProvider(records, platform="here"))
    assert estimate == pytest.approx(1.0)
    assert estimate.n == 1


def test_records_of_other_platforms_count_if_there_are_none() -> None:
    estimate = execution(PredictionsProvider(records_of([run(9.0, platform="there")]), platform="here"))
    assert estimate == pytest.approx(9.0)
    assert estimate.basis == "same function on another platform, 1 run"


def test_without_a_platform_all_records_count_alike() -> None:
    estimate = execution(PredictionsProvider(records_of([run(1.0, platform="a"), run(1.0, platform="b")])))
    assert estimate.basis == "same function, 2 runs"


# the other quantities


def test_an_output_size_is_a_whole_number_of_bytes() -> None:
    provider = PredictionsProvider(records_of([run(input_bytes=MB, output_bytes=1000)] * 3))
    size = provider.predict_output_size("resize", MB, "median")
    assert size.value == 1000.0


def test_a_stricter_sla_never_predicts_a_smaller_output() -> None:
    rng = np.random.default_rng(0)
    runs = [run(input_bytes=MB, output_bytes=float(size)) for size in rng.lognormal(10, 1, 50)]
    provider = PredictionsProvider(records_of(runs))
    sizes = [provider.predict_output_size("resize", MB, Percentile(p)) for p in (10, 50, 90, 99)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_uploads_and_downloads_are_predicted_apart() -> None:
    up = [Transfer(direction="upload", resources=HERE, size_bytes=MB, duration_s=0.5)] * 3
    down = [Transfer(direction="download", resources=HERE, size_bytes=MB, duration_s=0.1)] * 3
    provider = PredictionsProvider(records_of([*up, *down]))
    found = [provider.predict_data_transfer_time(way, MB, HERE, "median") for way in ("upload", "download")]
    assert found == pytest.approx([0.5, 0.1])


def test_a_stricter_sla_never_means_more_bandwidth() -> None:
    rng = np.random.default_rng(0)
    transfers = [
        Transfer(direction="download", resources=HERE, size_bytes=MB, duration_s=float(took))
        for took in rng.lognormal(0, 1, 50)
    ]
    provider = PredictionsProvider(records_of(transfers))
    times = [provider.predict_data_transfer_time("download", MB, HERE, Percentile(p)) for p in (10, 50, 90, 99)]
    assert times == sorted(times)
    assert times[0] < times[-1] / 5


def test_cold_and_warm_starts_are_predicted_apart() -> None:
    records = records_of(
        [
            Startup(state="cold", resources=HERE, duration_s=0.4, starting=1),
            Startup(state="warm", resources=HERE, duration_s=0.02, starting=1),
        ]
    )
    provider = PredictionsProvider(records)
    assert provider.predict_worker_startup_time(HERE, "cold", "median") == pytest.approx(0.4)
    assert provider.predict_worker_startup_time(HERE, "warm", "median") == pytest.approx(0.02)


def test_starts_that_were_measured_together_are_not_taken_for_single_ones() -> None:
    """Cold starts sampled under contention must not be applied without it."""
    crowd = [Startup(state="cold", resources=HERE, duration_s=0.2 + 0.02 * n, starting=n) for n in range(1, 60)]
    provider = PredictionsProvider(records_of(crowd))
    assert provider.predict_worker_startup_time(HERE, "cold", "median") == pytest.approx(0.22, rel=0.05)
    many = provider.predict_worker_startup_time(HERE, "cold", "median", starting=40)
    assert many == pytest.approx(1.0, rel=0.05)


def test_peak_memory_is_predicted_on_the_safe_side() -> None:
    rng = np.random.default_rng(0)
    peaks = 100 + 20 * rng.random(200)
    provider = PredictionsProvider(records_of([run(peak_mb=float(peak)) for peak in peaks]))
    predicted = provider.predict_peak_memory("resize", MB)
    assert np.quantile(peaks, 0.93) < predicted < 1.1 * peaks.max()


def test_peak_memory_has_more_margin_if_little_is_known() -> None:
    few = PredictionsProvider(records_of([run(peak_mb=100)])).predict_peak_memory("resize", MB)
    many = PredictionsProvider(records_of([run(peak_mb=100)] * 100)).predict_peak_memory("resize", MB)
    assert few > 1.5 * many
    assert many >= 100


# without history


def all_predictions(provider: PredictionsProvider, size: float, sla: SLA, resources: Resources) -> list[Estimate]:
    return [
        provider.predict_output_size("f", size, sla),
        provider.predict_worker_startup_time(resources, "cold", sla),
        provider.predict_worker_startup_time(resources, "warm", sla),
        provider.predict_data_transfer_time("upload", size, resources, sla),
        provider.predict_data_transfer_time("download", size, resources, sla),
        provider.predict_execution_time("f", size, resources, sla),
        provider.predict_peak_memory("f", size),
    ]


def test_without_history_there_are_priors_that_say_so() -> None:
    for estimate in all_predictions(PredictionsProvider(EMPTY), MB, "median", HERE):
        assert estimate.is_prior
        assert estimate.basis.startswith("prior")
        assert estimate > 0
        assert estimate.spread > 0


def test_priors_are_the_documented_constants() -> None:
    provider = PredictionsProvider(EMPTY)
    assert provider.predict_worker_startup_time(HERE, "cold", "median") == pytest.approx(priors.COLD_S)
    assert provider.predict_execution_time("f", 0, HERE, "median") == pytest.approx(priors.EXECUTION_S)
    assert provider.predict_data_transfer_time("upload", 0, HERE, "median") == pytest.approx(priors.TRANSFER_LATENCY_S)
    assert provider.predict_output_size("f", 0, "median") == priors.OUTPUT_BYTES
    assert provider.predict_peak_memory("f", 0) == priors.PEAK_MB


def test_priors_are_monotone_in_sla_size_and_memory() -> None:
    provider = PredictionsProvider(EMPTY)
    usual = all_predictions(provider, MB, "median", Resources(0.5, 885))
    for other in (
        all_predictions(provider, MB, Percentile(95), Resources(0.5, 885)),
        all_predictions(provider, 100 * MB, "median", Resources(0.5, 885)),
        all_predictions(provider, MB, "median", Resources(0.25, 442)),
    ):
        assert all(more >= less for more, less in zip(other, usual, strict=True))


def test_an_unknown_function_among_known_ones_gets_a_prior() -> None:
    assert execution(PredictionsProvider(records_of([run()])), "crop").is_prior


def test_a_function_without_usable_values_gets_a_prior() -> None:
    assert execution(PredictionsProvider(records_of([run(math.nan), run(-1.0)]))).is_prior


# whatever is recorded


@pytest.mark.parametrize("values", [[1.0, 1e6], [0.0, 0.0], [math.inf, 1.0], [5e-324], [math.nan, 2.0], [1e-9, 1e5]])
def test_predictions_are_finite_and_not_negative(values: list[float]) -> None:
    runs = [
        run(value, output_bytes=value, peak_mb=value, input_bytes=size, name="f")
        for value in values
        for size in (0.0, math.nan, 1e15)
    ]
    moved = [
        Transfer(direction=way, resources=HERE, size_bytes=0, duration_s=value)
        for value in values
        for way in ("upload", "download")
    ]
    provider = PredictionsProvider(records_of([*runs, *moved]))
    for sla in ("average", "median", Percentile(99.9)):
        for estimate in all_predictions(provider, 1e15, sla, Resources(0.01, 1)):
            assert 0 <= estimate < math.inf


# what is refused


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda p: p.predict_execution_time("f", MB, HERE, "p95"), "'p95'"),
        (lambda p: p.predict_output_size("f", MB, 95), "95"),
        (lambda p: p.predict_output_size("f", MB, ["median"]), "median"),
        (lambda p: p.predict_worker_startup_time(HERE, "hot", "median"), "'hot'"),
        (lambda p: p.predict_worker_startup_time(HERE, "cold", "median", starting=0), "starting"),
        (lambda p: p.predict_data_transfer_time("sideload", MB, HERE, "median"), "'sideload'"),
        (lambda p: p.predict_data_transfer_time("upload", -1, HERE, "median"), "data_size_bytes"),
        (lambda p: p.predict_data_transfer_time("upload", MB, HERE, "median", -1.0), "scaling_exponent"),
        (lambda p: p.predict_execution_time("f", math.nan, HERE, "median"), "input_size"),
        (lambda p: p.predict_execution_time("f", MB, HERE, "median", math.inf), "size_scaling_factor"),
        (lambda p: p.predict_execution_times("f", [-1.0], HERE, "median"), "input_sizes"),
    ],
)
@pytest.mark.parametrize("records", [EMPTY, records_of([run(name="f")])], ids=["empty", "known"])
def test_what_makes_no_sense_is_refused_by_name(
    ask: Callable[[PredictionsProvider], object], named: str, records: Records
) -> None:
    with pytest.raises(DefinitionError, match=named):
        ask(PredictionsProvider(records))


# estimators of one's own


class Counting:
    """Predicts a constant, and counts how often it was asked to learn."""

    name = "counting"

    def __init__(self, value: float = 1.0) -> None:
        self.fits: list[tuple[Quantity, int]] = []
        self.value = value
        self.asked: list[Scaling] = []

    def fit(self, samples: Samples, quantity: Quantity) -> Model:
        self.fits.append((quantity, len(samples)))
        return self

    def predict(self, size: float, resources: Resources, sla: SLA, scaling: Scaling = NO_SCALING) -> Estimate:
        self.asked.append(scaling)
        return Estimate(self.value, n=1, basis="counted")


def test_an_estimator_learns_once_for_each_function_and_quantity() -> None:
    estimator = Counting()
    provider = PredictionsProvider(records_of([run(name="f", output_bytes=3)]), estimator=estimator)
    for size in (1.0, 2.0, 3.0):
        provider.predict_execution_time("f", size, HERE, "median")
        provider.predict_output_size("f", size, "average")
    assert estimator.fits == [(Quantity.EXECUTION, 1), (Quantity.OUTPUT, 1)]


def test_an_answer_is_remembered() -> None:
    estimator = Counting()
    provider = PredictionsProvider(records_of([run()]), estimator=estimator)
    assert execution(provider) is execution(provider)
    assert len(estimator.asked) == 1


def test_the_callers_exponents_reach_the_estimator() -> None:
    estimator = Counting()
    transfer = Transfer(direction="upload", resources=HERE, size_bytes=1, duration_s=1.0)
    provider = PredictionsProvider(records_of([run(name="f"), transfer]), estimator=estimator)
    provider.predict_execution_time("f", 1, HERE, "median", size_scaling_factor=0.9)
    provider.predict_data_transfer_time("upload", 1, HERE, "median", scaling_exponent=0.4)
    assert estimator.asked == [Scaling(size_exponent=0.9), Scaling(memory_exponent=0.4)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_an_estimator_that_predicts_nonsense_is_named(value: float) -> None:
    provider = PredictionsProvider(records_of([run()]), estimator=Counting(value))
    with pytest.raises(DefinitionError, match="'counting' predicted"):
        execution(provider)


def test_the_papers_estimator_can_take_its_place() -> None:
    provider = PredictionsProvider(records_of([run(2.0)] * 6), estimator=NearestSamples())
    assert execution(provider).basis == "same function, 6 runs, same resources"


@pytest.mark.parametrize("estimator", [None, NearestSamples()])
def test_many_sizes_at_once_are_predicted_as_one_by_one(estimator: NearestSamples | None) -> None:
    runs: list[TaskRun] = [run(0.1 * k, input_bytes=k * MB) for k in range(1, 20)]
    provider = PredictionsProvider(records_of(runs), estimator=estimator)
    sizes = [0.0, MB, 5e7]
    expected = [float(execution(provider, size=size)) for size in sizes]
    assert provider.predict_execution_times("resize", sizes, HERE, "median") == pytest.approx(expected)
