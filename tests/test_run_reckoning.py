"""The report of a run, from what its workers told."""

from typing import Any

import msgspec
import pytest

from augury.metrics.records import Span
from augury.observation import Comparison, Pair
from augury.plan.model import PlatformModel, Price
from augury.plan.plan import Plan
from augury.plan.show.words import sla_name
from augury.predict.sla import SLA, Percentile
from augury.run.reckoning import Account, report_of
from augury.storage.protocols import Status, WorkerSummary
from tests.plan.showing import STILL, Measured, from_text, named_graph, planned

#  load[0] ─┐
#           ├▶ total[0]      each of a second, on two workers that take half a second to start
#  load[1] ─┘
GRAPH = named_graph(("load", ()), ("load", ()), ("total", [0, 1]))
PLAN = planned(GRAPH, [0, 1, 0])


def summary(worker: str = "w0", **fields: Any) -> WorkerSummary:
    told: dict[str, Any] = {"attempt": 1, "cold": True, "duration_s": 2.0, "memory_mb": 512, "tasks": 2}
    return WorkerSummary(worker=worker, **told | fields)


def account(plan: Plan | None = PLAN, **fields: Any) -> Account:
    told: dict[str, Any] = {
        "run_id": "r1",
        "name": "daily",
        "graph": GRAPH,
        "plan": plan,
        "status": Status.SUCCEEDED,
        "makespan_s": 3.0,
        "prepared_s": 0.25,
        "submitted_s": 1000.0,
        "invocations": 2,
        "prewarmed": 0,
        "summaries": [summary(), summary("w1", duration_s=1.0, tasks=1, cold=False)],
        "cold_gb_seconds": 0.25,
        "spans": [],
    }
    return Account(**told | fields)


def test_what_workers_told_is_added_up() -> None:
    summaries = [
        summary(stored_bytes=10, fetched_bytes=1),
        summary(attempt=2, stored_bytes=5),
        summary("w1", cold=False),
    ]
    report = report_of(account(summaries=summaries, invocations=3))
    assert (report.workers, report.invocations, report.cold_starts, report.ran) == (2, 3, 2, 6)
    assert (report.stored_bytes, report.fetched_bytes) == (15, 1)
    assert (report.name, report.status, report.tasks, report.makespan_s) == ("daily", "succeeded", 3, 3.0)


def test_the_prediction_stands_beside_what_came_of_it() -> None:
    report = report_of(account())
    assert (report.predicted_s, report.predicted_gb_seconds, report.predicted_usd) == (2.5, 2.0, 0.002)
    assert report.comparison.makespan_s == Pair(2.5, 2.75)
    assert report.comparison.gb_seconds == Pair(2.0, 1.75)
    assert report.comparison.cost_usd == pytest.approx((0.002, 0.00175))
    assert report.evidence == 0


def test_cold_starts_count_if_they_are_billed() -> None:
    assert report_of(account()).gb_seconds == 0.5 * 2.0 + 0.5 * 1.0 + 0.25
    free = planned(GRAPH, [0, 1, 0], platform=PlatformModel(price=Price(start_billed=False, step_s=0.0)))
    assert report_of(account(free)).gb_seconds == 1.5


def test_durations_are_billed_in_whole_steps_and_requests_one_by_one() -> None:
    price = Price(usd_per_gb_s=1.0, usd_per_request=10.0, step_s=0.1)
    plan = planned(GRAPH, [0, 1, 0], platform=PlatformModel(price=price))
    told = [summary(duration_s=0.31, memory_mb=1024), summary("w1", duration_s=0.3, memory_mb=1024)]
    report = report_of(account(plan, summaries=told, cold_gb_seconds=0.0, prewarmed=3))
    assert report.gb_seconds == pytest.approx(0.4 + 0.3)
    assert report.cost_usd == pytest.approx(0.7 + 50.0)


def test_without_an_outlook_the_usual_price_counts() -> None:
    report = report_of(account(from_text(PLAN), summaries=[summary()], cold_gb_seconds=0.0, invocations=1))
    assert report.cost_usd == pytest.approx(1.0 * Price().usd_per_gb_s + Price().usd_per_request)
    assert (report.predicted_s, report.sla, report.evidence) == (2.5, None, None)


def test_measured_tasks_are_compared_one_by_one() -> None:
    report = report_of(account(spans=[Span(0, 1000.6, 1.25), Span(2, 1001.5, 0.5), Span(99, 0.0, 1.0)]))
    compared = report.comparison
    assert (compared.task, compared.label) == ((0, 2), ("load[0]", "total[0]"))
    assert (compared.predicted_s, compared.actual_s) == ((1.0, 1.0), (1.25, 0.5))
    assert compared.predicted_start_s == (0.5, 1.5)
    assert compared.actual_start_s == pytest.approx((0.6, 1.5))


@pytest.mark.parametrize(("makespan_s", "held"), [(2.75, True), (2.76, False)])
def test_an_sla_is_held_if_the_run_took_no_longer_than_predicted_without_preparations(
    makespan_s: float, held: bool
) -> None:
    plan = planned(GRAPH, [0, 1, 0], sla=Percentile(95))
    report = report_of(account(plan, makespan_s=makespan_s))
    assert (report.sla, report.sla_held, report.comparison.sla_held) == ("p95", held, held)


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED, Status.GONE])
def test_a_run_without_result_is_not_measured_by_its_prediction(status: Status) -> None:
    report = report_of(account(status=status, spans=[Span(0, 1000.6, 1.25)]))
    assert (report.sla_held, report.comparison.makespan_s) == (None, None)
    assert report.predicted_s == 2.5
    assert report.comparison.task == (0,)


@pytest.mark.parametrize("plan", [None, msgspec.structs.replace(PLAN, predicted=None)])
def test_without_prediction_there_is_nothing_to_compare(plan: Plan | None) -> None:
    report = report_of(account(plan, spans=[Span(0, 1000.6, 1.25)]))
    assert report.comparison == Comparison()
    assert (report.predicted_s, report.sla, report.sla_held) == (None, None, None)


def test_what_the_prediction_rests_on_is_counted() -> None:
    assert report_of(account(planned(GRAPH, [0, 1, 0], predictions=Measured(1.0)))).evidence == 48


def test_evidence_of_very_many_functions_is_not_looked_up() -> None:
    graph = named_graph(*[(f"f{number}", ()) for number in range(100)])
    assert report_of(account(planned(graph, [0] * 100, platform=STILL), graph=graph)).evidence is None


@pytest.mark.parametrize(
    ("sla", "name"),
    [("median", "median"), ("average", "average"), (Percentile(95), "p95"), (Percentile(99.9), "p99.9")],
)
def test_an_sla_has_a_name(sla: SLA, name: str) -> None:
    assert sla_name(sla) == name
