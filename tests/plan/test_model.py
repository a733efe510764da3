"""A platform in numbers: by hand, as on AWS Lambda, and as earlier runs found it."""

import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from augury.config import Resources
from augury.errors import DefinitionError
from augury.metrics.records import Record, Startup, Transfer
from augury.plan.model import PlatformModel, Price, Timing, lambda_configurations
from augury.predict.provider import PredictionsProvider
from augury.predict.recent import Recent
from augury.predict.sla import Percentile
from augury.predict.unlearned import Priors
from tests.predict.history import MB, records_of

WEAK, STRONG = Resources(0.5, 512), Resources(2, 4096)


def start(state: Any, duration_s: float, resources: Resources = WEAK, starting: int = 1) -> Startup:
    return Startup(state=state, resources=resources, platform="here", duration_s=duration_s, starting=starting)


def move(direction: Any, size_bytes: float, duration_s: float, resources: Resources = WEAK) -> Transfer:
    return Transfer(
        direction=direction, resources=resources, platform="here", size_bytes=size_bytes, duration_s=duration_s
    )


def provider(*records: Record) -> PredictionsProvider:
    return PredictionsProvider(records_of(records), platform="here")


# By hand


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Timing(cold_start_s=-1), r"Timing\.cold_start_s must be a number that is not negative, not -1"),
        (lambda: Timing(latency_s=math.nan), r"Timing\.latency_s must be"),
        (lambda: Timing(warm_start_s=math.inf), r"Timing\.warm_start_s must be"),
        (lambda: Timing(upload_bytes_s=-1), r"Timing\.upload_bytes_s must be a number that is not negative, .*-1"),
        (lambda: Timing(bandwidth_bytes_s=0), r"Timing\.bandwidth_bytes_s must be a positive number, not 0"),
        (lambda: Price(usd_per_gb_s=-0.1), r"Price\.usd_per_gb_s must be"),
        (lambda: PlatformModel(concurrency=0), r"PlatformModel\.concurrency must be a whole number .* not 0"),
        (lambda: PlatformModel(processors=0), r"PlatformModel\.processors must be a positive number, not 0"),
        (lambda: PlatformModel(concurrency=True), r"PlatformModel\.concurrency must be a whole number"),
        (lambda: PlatformModel(keep_alive_s=-1), r"PlatformModel\.keep_alive_s must be"),
        (lambda: PlatformModel(configurations=()), r"PlatformModel\.configurations must list Resources"),
        (
            lambda: PlatformModel.aws_lambda(architecture=cast("Any", "mips")),
            'architecture must be "x86" or "arm64", not \'mips\'',
        ),
        (lambda: PlatformModel.aws_lambda([]), r"PlatformModel\.configurations must list Resources"),
    ],
)
def test_a_wrong_number_is_named(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        make()


def test_configurations_may_differ_in_their_timing() -> None:
    model = PlatformModel(timing=Timing(cold_start_s=1.0), timings={STRONG: Timing(cold_start_s=0.5)})
    assert model.timing_of(STRONG).cold_start_s == 0.5
    assert model.timing_of(WEAK).cold_start_s == 1.0


# AWS Lambda


def test_on_lambda_cpus_and_bandwidth_come_with_memory() -> None:
    model = PlatformModel.aws_lambda([3538, 884])
    assert [(one.memory_mb, round(one.cpus, 3)) for one in model.configurations] == [(884, 0.5), (3538, 2.0)]
    slow, fast = (model.timing_of(one).bandwidth_bytes_s for one in model.configurations)
    assert [slow, fast] == pytest.approx([37.5e6, 75e6], rel=1e-3)


def test_lambda_is_dearer_on_x86_than_on_arm() -> None:
    assert PlatformModel.aws_lambda().price.usd_per_gb_s == 0.0000166667
    assert PlatformModel.aws_lambda(architecture="arm64").price.usd_per_gb_s == 0.0000133334


def test_lambda_offers_weaker_configurations_first() -> None:
    assert [one.memory_mb for one in lambda_configurations()] == [512, 1024, 1769, 3538, 7076, 10240]
    assert lambda_configurations()[2].cpus == 1.0


# As earlier runs found it


def test_start_ups_are_those_that_were_measured() -> None:
    cold = [start("cold", 0.8) for _ in range(20)]
    warm = [start("warm", 0.04) for _ in range(20)]
    timing = PlatformModel.measured(provider(*cold, *warm), configurations=[WEAK]).timing
    assert timing.cold_start_s == pytest.approx(0.8, rel=0.01)
    assert timing.warm_start_s == pytest.approx(0.04, rel=0.01)
    assert timing.crowd_s == 0.0, "no crowd was seen"


def test_a_crowd_starts_more_slowly() -> None:
    cold = [start("cold", 0.1 + 0.1 * starting, starting=starting) for starting in range(1, 17) for _ in range(4)]
    timing = PlatformModel.measured(provider(*cold), configurations=[WEAK]).timing
    assert timing.cold_start_s == pytest.approx(0.2, rel=0.1)
    assert timing.crowd_s == pytest.approx(0.1, rel=0.1)


def transfers(latency_s: float, bandwidth_bytes_s: float, resources: Resources, way: str = "download") -> list[Record]:
    sizes = [1e3, 1e4, 1e5, MB, 10 * MB, 50 * MB] * 5
    return [move(way, size, latency_s + size / bandwidth_bytes_s, resources) for size in sizes]


def test_latency_and_bandwidth_are_told_by_small_and_large_transfers() -> None:
    timing = PlatformModel.measured(provider(*transfers(0.002, 40e6, WEAK)), configurations=[WEAK]).timing
    assert timing.latency_s == pytest.approx(0.002, rel=0.1)
    assert timing.bandwidth_bytes_s == pytest.approx(40e6, rel=0.05)


def test_uploads_and_downloads_count_alike() -> None:
    both = [*transfers(0.001, 40e6, WEAK), *transfers(0.003, 40e6, WEAK, "upload")]
    timing = PlatformModel.measured(provider(*both), configurations=[WEAK]).timing
    assert timing.latency_s == pytest.approx(0.002, rel=0.1)


def test_large_outputs_may_be_written_more_slowly_than_they_are_read() -> None:
    both = [*transfers(0.001, 400e6, WEAK), *transfers(0.001, 40e6, WEAK, "upload")]
    timing = PlatformModel.measured(provider(*both), configurations=[WEAK]).timing
    assert timing.bandwidth_bytes_s == pytest.approx(400e6, rel=0.1)
    assert timing.upload_bytes_s == pytest.approx(40e6, rel=0.1)
    assert timing.storing_bytes_s == timing.upload_bytes_s


@pytest.mark.parametrize("way", ["upload", "download"])
def test_the_way_of_which_nothing_is_known_is_as_fast_as_the_other(way: str) -> None:
    timing = PlatformModel.measured(provider(*transfers(0.001, 40e6, WEAK, way)), configurations=[WEAK]).timing
    assert timing.bandwidth_bytes_s == pytest.approx(40e6, rel=0.1)
    assert timing.storing_bytes_s == timing.bandwidth_bytes_s


def test_writing_that_takes_as_long_whatever_the_size_is_as_fast_as_reading() -> None:
    both = [*transfers(0.001, 40e6, WEAK), *transfers(0.001, math.inf, WEAK, "upload")]
    timing = PlatformModel.measured(provider(*both), configurations=[WEAK]).timing
    assert timing.bandwidth_bytes_s == pytest.approx(40e6, rel=0.1)
    assert timing.storing_bytes_s == timing.bandwidth_bytes_s


def test_every_configuration_has_its_own_timing_listed_or_not() -> None:
    records = [*transfers(0.001, 20e6, WEAK), *transfers(0.001, 80e6, STRONG)]
    model = PlatformModel.measured(provider(*records), configurations=[WEAK])
    slow, fast = (model.timing_of(one).bandwidth_bytes_s for one in (WEAK, STRONG))
    assert 15e6 < slow < 30e6
    assert 60e6 < fast < 100e6
    assert slow < model.timing_of(Resources(1, 2048)).bandwidth_bytes_s < fast


def test_more_caution_is_never_faster() -> None:
    cold = [start("cold", 0.5 + 0.1 * place) for place in range(20)]
    by = provider(*cold, *transfers(0.002, 40e6, WEAK))
    usual, careful = (PlatformModel.measured(by, sla=sla).timing for sla in ("median", Percentile(95)))
    assert careful.cold_start_s > usual.cold_start_s
    assert careful.bandwidth_bytes_s < usual.bandwidth_bytes_s


ASSUMED = Timing(cold_start_s=7.0, warm_start_s=6.0, latency_s=5.0, bandwidth_bytes_s=4.0, crowd_s=3.0)


def test_what_was_not_measured_is_assumed() -> None:
    assert PlatformModel.measured(Priors(), assumed=lambda _: ASSUMED).timing == ASSUMED
    timing = PlatformModel.measured(provider(start("cold", 0.8)), assumed=lambda _: ASSUMED).timing
    assert timing.cold_start_s == pytest.approx(0.8, rel=0.01)
    assert (timing.warm_start_s, timing.latency_s, timing.bandwidth_bytes_s) == (6.0, 5.0, 4.0)


def test_small_transfers_alone_say_nothing_of_bandwidth_at_a_glance() -> None:
    by = Recent(records_of([move("upload", 100, 0.002)]), "here")
    timing = PlatformModel.measured(by, assumed=lambda _: ASSUMED).timing
    assert (timing.latency_s, timing.bandwidth_bytes_s) == (0.002, 4.0)


def test_without_assumptions_there_are_priors() -> None:
    timing = PlatformModel.measured(Priors()).timing
    assert (timing.cold_start_s, timing.warm_start_s) == (0.25, 0.01)
    assert timing.latency_s == pytest.approx(0.01, rel=0.01)
    assert timing.bandwidth_bytes_s == pytest.approx(50e6)


def test_a_start_takes_as_long_as_the_platform_says() -> None:
    model = PlatformModel.measured(Priors(), start_s=1.0)
    assert model.start_s == 1.0
    assert PlatformModel.measured(Priors(), start_s=0.1).start_s == 0.25, "no start is faster than a start"


def test_limits_are_taken_over() -> None:
    model = PlatformModel.measured(
        Priors(), concurrency=7, processors=2, keep_alive_s=60, warm={WEAK: 3}, configurations=[WEAK, STRONG]
    )
    assert (model.concurrency, model.processors, model.keep_alive_s, model.warm) == (7, 2, 60, {WEAK: 3})
    assert model.configurations == [WEAK, STRONG]
