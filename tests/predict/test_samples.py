"""From records to samples: the right columns, in the right units, without what cannot be true."""

import math

import numpy as np
import pytest

from augury.config import Resources
from augury.metrics.records import Startup, Transfer, series_of
from augury.predict.samples import MOST_SECONDS, Quantity, Samples, samples_of
from tests.predict.history import run


def test_each_quantity_reads_its_own_column() -> None:
    series = series_of([run(2.5, input_bytes=7, output_bytes=11, peak_mb=90, cpu_s=0.5)])
    values = {
        quantity: samples_of(series, quantity, subject="", unit="").values.tolist()
        for quantity in (Quantity.EXECUTION, Quantity.OUTPUT, Quantity.PEAK)
    }
    assert values == {Quantity.EXECUTION: [2.5], Quantity.OUTPUT: [11.0], Quantity.PEAK: [90.0]}


def test_uploads_and_downloads_are_apart() -> None:
    up = Transfer(direction="upload", resources=Resources(), size_bytes=10, duration_s=1.0)
    down = Transfer(direction="download", resources=Resources(), size_bytes=20, duration_s=2.0)
    samples = samples_of(series_of([up, down]), Quantity.DOWNLOAD, subject="", unit="")
    assert (samples.sizes.tolist(), samples.values.tolist()) == ([20.0], [2.0])


def test_a_start_depends_on_how_many_start() -> None:
    series = series_of([Startup(state="cold", resources=Resources(), duration_s=0.3, starting=4, waited_s=9.0)])
    samples = samples_of(series, Quantity.COLD, subject="", unit="")
    assert (samples.sizes.tolist(), samples.values.tolist()) == ([4.0], [0.3])


@pytest.mark.parametrize("starting", [math.nan, 0.0, -3.0])
def test_a_start_that_was_not_counted_is_one(starting: float) -> None:
    series = series_of([Startup(state="warm", resources=Resources(), duration_s=0.3, starting=starting)])
    assert samples_of(series, Quantity.WARM, subject="", unit="").sizes.tolist() == [1.0]


def test_the_cpu_share_is_processor_time_by_run_time() -> None:
    series = series_of([run(2.0, cpu_s=0.5), run(2.0), run(0.0, cpu_s=1.0)])
    shares = samples_of(series, Quantity.EXECUTION, subject="", unit="").cpu_share
    assert shares[0] == 0.25
    assert np.isnan(shares[1:]).all()


@pytest.mark.parametrize("impossible", [math.nan, math.inf, -math.inf, -1.0, MOST_SECONDS * 2])
def test_what_cannot_be_true_is_left_out(impossible: float) -> None:
    samples = samples_of(series_of([run(1.0), run(impossible)]), Quantity.EXECUTION, subject="", unit="")
    assert samples.values.tolist() == [1.0]


def test_an_unknown_size_counts_as_the_usual_one() -> None:
    series = series_of([run(input_bytes=10), run(input_bytes=math.nan), run(input_bytes=-1), run(input_bytes=30)])
    assert samples_of(series, Quantity.EXECUTION, subject="", unit="").sizes.tolist() == [10, 20, 20, 30]


def test_samples_of_several_series_are_in_the_order_of_time() -> None:
    series = series_of(
        [
            run(1.0, ended_s=1),
            run(4.0, ended_s=4),
            run(3.0, ended_s=3, memory_mb=512),
            run(5.0, ended_s=5, memory_mb=512),
        ]
    )
    assert samples_of(series, Quantity.EXECUTION, subject="", unit="").values.tolist() == [1, 3, 4, 5]


def test_without_times_series_are_read_abreast() -> None:
    series = series_of([run(float(i), memory_mb=mb) for mb in (256, 512) for i in range(3)])
    assert samples_of(series, Quantity.EXECUTION, subject="", unit="").values.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_number_stands_for_a_column_of_it() -> None:
    samples = Samples.of([1.0, 2.0], memory_mb=512)
    assert samples.memory_mb.tolist() == [512.0, 512.0]
