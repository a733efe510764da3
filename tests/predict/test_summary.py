"""The table of functions: what history knows, in words."""

import math

import numpy as np
import pytest

from augury.metrics.records import Records
from augury.predict.summary import summarise
from tests.predict.history import MB, records_of, run


def test_each_function_has_a_line() -> None:
    records = records_of(
        [run(1.0, function="a", name="f"), run(2.0, function="b", name="g"), run(3.0, function="b", name="g")]
    )
    lines = [(line.name, line.version, line.samples, line.median_s) for line in summarise(records)]
    assert lines == [("f", "a", 1, 1.0), ("g", "b", 2, 2.5)]


def test_an_empty_history_has_no_lines() -> None:
    assert summarise(Records(workflow="w")) == []


def test_the_model_is_told_in_words() -> None:
    rng = np.random.default_rng(0)
    runs = [
        run((0.5 + 2.0 * size) * float(np.exp(rng.normal(0, 0.02))), input_bytes=size * MB)
        for size in rng.uniform(0.1, 10, 200).tolist()
    ]
    (line,) = summarise(records_of(runs))
    assert line.model == "0.5 s + 2 s·(size/1 MB)"
    assert line.error_percent < 10


def test_memory_is_told_in_words() -> None:
    runs = [run(3.0 * 1024 / memory, memory_mb=memory) for memory in (256, 512, 1024) for _ in range(9)]
    (line,) = summarise(records_of(runs))
    assert "(memory/512 MB)^-1" in line.model


def test_a_function_whose_time_does_not_depend_on_anything_is_a_number() -> None:
    (line,) = summarise(records_of([run(0.25)] * 9))
    assert line.model == "0.25 s"
    assert math.isnan(line.error_percent)


def test_the_spread_is_that_of_the_runs() -> None:
    (line,) = summarise(records_of([run(float(k)) for k in range(1, 12)]))
    assert line.spread_s == pytest.approx(4.0)


def test_a_function_without_run_times_is_listed_too() -> None:
    (line,) = summarise(records_of([run(math.nan)]))
    assert (line.samples, line.model) == (0, "no run time known")
