"""Predictions at a glance."""

import math

import pytest

from augury.config import Resources
from augury.dag.graph import FunctionInfo
from augury.metrics.records import Record, Startup, Transfer
from augury.predict.recent import Recent
from augury.predict.sla import Percentile
from tests.predict.history import MB, records_of, run

HERE = Resources(1, 1024)
RESIZE, OTHER = FunctionInfo("resize", "v1"), FunctionInfo("other", "v9")


def recent(*records: Record, platform: str = "here") -> Recent:
    return Recent(records_of(records), platform)


def moved(size_bytes: float, duration_s: float) -> Transfer:
    return Transfer(direction="download", resources=HERE, platform="here", size_bytes=size_bytes, duration_s=duration_s)


def test_a_task_takes_as_long_as_the_last_ones_at_the_median() -> None:
    runs = [*[run(100.0)] * 100, *[run(1.0)] * 10, *[run(2.0)] * 12, *[run(3.0)] * 10]
    found = recent(*runs).predict_execution_time(RESIZE, 0.0, HERE, "median")
    assert (found, found.n, found.basis) == (2.0, 32, "median of the last 32 runs")
    assert found.spread == 1.0


def test_whatever_its_input() -> None:
    known = recent(run(1.0, input_bytes=MB), run(2.0, input_bytes=MB), run(3.0, input_bytes=MB))
    assert known.predict_execution_times(RESIZE, [0.0, 1e12], HERE, "median") == [2.0, 2.0]


def test_the_average_and_percentiles_are_those_of_the_last_ones() -> None:
    known = recent(run(1.0), run(2.0), run(6.0))
    assert known.predict_execution_time(RESIZE, 0.0, HERE, "average") == 3.0
    asked = [Percentile(1), Percentile(25), Percentile(50), Percentile(62.5), Percentile(75), Percentile(99)]
    assert [float(known.predict_execution_time(RESIZE, 0.0, HERE, sla)) for sla in asked] == [1, 1, 2, 4, 6, 6]


def test_an_unknown_function_has_a_prior() -> None:
    known = recent(run(1.0))
    assert known.predict_execution_time(OTHER, 5e6, HERE, "median") == pytest.approx(0.2)
    assert known.predict_execution_time(OTHER, 5e6, HERE, "median").is_prior
    assert known.output_law(OTHER, "median")(1000.0) == 1524
    assert known.predict_peak_memory(OTHER, 0.0).is_prior


def test_measurements_with_the_most_similar_memory_count() -> None:
    known = recent(run(4.0, memory_mb=512), run(2.0, memory_mb=1024), run(1.0, memory_mb=4096))
    asked = [Resources(1, 256), Resources(1, 700), Resources(1, 1100), Resources(1, 9000)]
    assert [float(known.predict_execution_time(RESIZE, 0.0, one, "median")) for one in asked] == [4, 4, 2, 1]


def test_measurements_of_the_asked_platform_count() -> None:
    both = (run(1.0, platform="here"), run(9.0, platform="there"))
    assert recent(*both).predict_execution_time(RESIZE, 0.0, HERE, "median") == 1.0
    assert recent(both[1]).predict_execution_time(RESIZE, 0.0, HERE, "median") == 9.0


def test_outputs_are_whole_numbers_of_bytes() -> None:
    known = recent(run(output_bytes=100.0), run(output_bytes=201.0))
    assert known.predict_output_sizes(RESIZE, [0.0, 5.0], "median") == [151.0, 151.0]


def test_memory_is_the_most_that_was_seen_and_a_margin() -> None:
    found = recent(run(peak_mb=100.0), run(peak_mb=80.0), run()).predict_peak_memory(RESIZE, 0.0)
    assert (found, found.n) == (125.0, 2)


def test_start_ups_are_those_of_their_state() -> None:
    known = recent(
        *[Startup(state="cold", resources=HERE, platform="here", duration_s=s) for s in (0.3, 0.1, 0.2)],
        Startup(state="cold", resources=HERE, platform="here", duration_s=math.nan),
    )
    assert known.predict_worker_startup_time(HERE, "cold", "median") == 0.2
    assert known.predict_worker_startup_time(HERE, "cold", "median").basis == "median of the last 3 starts"
    assert known.predict_worker_startup_time(HERE, "warm", "median").is_prior


def test_a_transfer_takes_the_usual_latency_and_pace() -> None:
    known = recent(moved(100, 0.001), moved(100, 0.001), moved(MB, 0.101), moved(3 * MB, 0.301), moved(MB, math.nan))
    assert known.predict_data_transfer_time("download", 500, HERE, "median") == 0.001
    assert known.predict_data_transfer_time("download", 10 * MB, HERE, "median") == pytest.approx(1.001)
    assert known.predict_data_transfer_time("upload", 500, HERE, "median").is_prior


def test_of_large_transfers_small_ones_say_nothing() -> None:
    known = recent(moved(100, 0.001))
    assert not known.predict_data_transfer_time("download", 500, HERE, "median").is_prior
    assert known.predict_data_transfer_time("download", MB, HERE, "median").is_prior
