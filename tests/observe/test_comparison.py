"""A run beside its plan, as its report tells it."""

import math
from typing import Any

import msgspec
import pytest

from augury.observation import Comparison, Pair, RunReport
from augury.observe import format_report

REPORT = RunReport(
    run_id="r1",
    name="daily",
    status="succeeded",
    tasks=9,
    ran=9,
    workers=2,
    invocations=2,
    cold_starts=1,
    makespan_s=0.314,
    gb_seconds=0.157,
    stored_bytes=1234,
    cost_usd=0.0000031,
    predicted_s=0.29,
    predicted_gb_seconds=0.15,
    predicted_usd=0.000003,
    evidence=24,
    sla="median",
    sla_held=False,
)
REST = ", 1 cold start, 0.16 GB-s, 1.2 kB stored"


def told(**changes: Any) -> str:
    return str(msgspec.structs.replace(REPORT, **changes))


def test_a_report_tells_what_was_predicted() -> None:
    assert told() == f"9 tasks on 2 workers in 0.31 s (predicted 0.29 s){REST}"
    assert format_report(REPORT) == f"augury: daily succeeded: {REPORT}"


def test_a_run_without_prediction_tells_of_none() -> None:
    assert told(predicted_s=None) == f"9 tasks on 2 workers in 0.31 s{REST}"


def test_a_prediction_that_rests_on_nothing_is_an_assumption() -> None:
    assert "(assumed 0.29 s)" in told(evidence=0)
    assert "(predicted 0.29 s)" in told(evidence=None)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_run_without_result_is_not_compared(status: str) -> None:
    assert "predicted" not in told(status=status)


def test_a_chosen_sla_is_told_with_whether_it_was_held() -> None:
    assert "(predicted 0.29 s at p95, not held)" in told(sla="p95")
    assert "(predicted 0.32 s at p95, held)" in told(sla="p95", predicted_s=0.32, sla_held=True)


def test_preparations_are_told_if_they_matter() -> None:
    assert "(0.10 s to prepare, predicted 0.29 s)" in told(prepared_s=0.1)
    assert "(predicted 0.29 s)" in told(prepared_s=0.09)
    assert "(predicted 0.29 s)" in told(prepared_s=0.9, makespan_s=10.0)


COMPARISON = Comparison(
    makespan_s=Pair(0.29, 0.314),
    gb_seconds=Pair(0.15, 0.157),
    cost_usd=Pair(0.000003, 0.0000031),
    sla="p95",
    sla_held=False,
    task=(0, 1, 2),
    label=("load[0]", "load[1]", "total[0]"),
    predicted_s=(0.1, 0.1, 0.05),
    actual_s=(0.1001, 0.02, 0.25),
    predicted_start_s=(0.0, 0.0, 0.1),
    actual_start_s=(-0.001, 0.002, 0.12),
)


def test_a_comparison_shows_the_largest_deviations_first() -> None:
    assert str(COMPARISON).splitlines() == [
        "             predicted      actual",
        "  makespan      290 ms      314 ms  +8%",
        "  GB-s            0.15        0.16  +5%",
        "  cost      $0.0000030  $0.0000031  +3%",
        "  SLA p95: at most 290 ms; not held",
        "",
        "  task      predicted   actual  deviation  predicted start  actual start",
        "  total[0]    50.0 ms   250 ms    +200 ms           100 ms        120 ms",
        "  load[1]      100 ms  20.0 ms   -80.0 ms              0 s       2.00 ms",
        "  load[0]      100 ms   100 ms    +100 µs              0 s      -1.00 ms",
    ]


@pytest.mark.parametrize("sla", ["median", "average", None])
def test_without_a_chosen_sla_there_is_no_line_about_it(sla: str | None) -> None:
    assert "SLA" not in str(msgspec.structs.replace(COMPARISON, sla=sla))


def test_very_many_tasks_are_counted() -> None:
    many = Comparison(
        task=tuple(range(2000)),
        label=tuple(f"load[{number}]" for number in range(2000)),
        predicted_s=(0.0,) * 2000,
        actual_s=tuple(float(number) for number in range(2000)),
        predicted_start_s=(0.0,) * 2000,
        actual_start_s=(0.0,) * 2000,
    )
    lines = str(many).splitlines()
    assert lines[1].split()[0] == "load[1999]"
    assert lines[-1] == "  … and 1,980 more"
    assert len(lines) == 22
    assert repr(many) == "<comparison of 2,000 tasks>"
    assert len(repr(msgspec.structs.replace(REPORT, comparison=many))) < 1000


def test_what_is_not_a_number_stands_first_and_as_a_dash() -> None:
    odd = msgspec.structs.replace(COMPARISON, predicted_s=(0.1, math.inf, 0.05))
    assert str(odd).splitlines()[7].split() == ["load[1]", "-", "20.0", "ms", "-", "0", "s", "2.00", "ms"]


def test_nothing_to_compare_is_said() -> None:
    assert not Comparison()
    assert str(Comparison()).startswith("nothing to compare: ")
    defaults = {field.name: field.default for field in msgspec.structs.fields(RunReport)}
    assert defaults["comparison"] == Comparison()


def test_a_run_of_tasks_too_short_to_be_measured_has_totals() -> None:
    totals = msgspec.structs.replace(COMPARISON, task=(), label=(), predicted_s=(), actual_s=())
    assert str(totals).splitlines()[-1] == "  SLA p95: at most 290 ms; not held"
    assert len(totals) == 0
