"""Which part of its run time a function computes."""

import math

import pytest

from augury.dag.graph import FunctionInfo
from augury.metrics.records import TaskRun
from augury.predict.busy import cpu_shares
from tests.predict.history import records_of, run

RESIZE, OTHER = FunctionInfo("resize", "v1"), FunctionInfo("other", "v9")


def share(*runs: TaskRun) -> float:
    found, nothing = cpu_shares(records_of(runs).series, [RESIZE, OTHER], "here")
    assert nothing == 0.0
    return found


def test_it_is_processor_time_by_run_time_at_their_medians() -> None:
    assert share(run(1.0, cpu_s=0.2), run(2.0, cpu_s=0.5), run(9.0, cpu_s=0.6)) == 0.25
    short = [run(1e-5, cpu_s=1e-5)] * 9
    assert share(*short, run(0.02, cpu_s=6e-5)) == pytest.approx(1.0)  # one that waited for a processor


def test_no_more_than_one_processor_counts() -> None:
    assert share(run(1.0, cpu_s=3.9)) == 1.0
    assert share(run(0.0, cpu_s=0.0)) == 1.0


def test_what_is_not_known_does_not_count() -> None:
    assert share() == 0.0
    assert share(run(1.0)) == 0.0
    assert share(run(1.0), run(4.0, cpu_s=1.0), run(math.nan, cpu_s=9.0)) == 0.25


def test_what_was_measured_here_counts_before_what_was_measured_elsewhere() -> None:
    assert share(run(1.0, cpu_s=0.5, platform="there")) == 0.5
    assert share(run(1.0, cpu_s=0.5, platform="there"), run(1.0, cpu_s=0.1)) == 0.1


def test_the_last_ones_count() -> None:
    assert share(*[run(1.0, cpu_s=0.0)] * 100, *[run(1.0, cpu_s=0.9)] * 32) == 0.9
