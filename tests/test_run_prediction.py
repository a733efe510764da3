"""What was predicted and what came of it, with real workers."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from augury import Client, Embedded, Percentile, UniformPlanner, task


@task
def rest(duration_s: float) -> float:
    time.sleep(duration_s)
    return duration_s


@task
def total(parts: list[float]) -> float:
    return sum(parts)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    settings = Embedded(slots=4)
    with Client(
        platform=settings, planner=UniformPlanner(), observers=[], history=tmp_path / "history", sla=Percentile(95)
    ) as client:
        yield client


def test_the_second_run_is_predicted_from_the_first_and_compared_task_by_task(client: Client) -> None:
    workflow = total([rest(0.05) for _ in range(8)])
    reports = []
    for _ in range(2):
        run = client.submit(workflow, name="resting")
        assert run.result(60) == pytest.approx(0.4)
        reports.append(run.report(60))
    first, second = reports
    assert first.evidence == 0
    assert "assumed" in str(first)
    assert (second.evidence or 0) > 0
    assert second.predicted_s is not None
    assert second.predicted_s > 0.1  # two naps of a worker, at the least
    assert (second.sla, second.sla_held) == ("p95", second.makespan_s - second.prepared_s <= second.predicted_s)
    compared = second.comparison
    assert [label for label in compared.label if label.startswith("rest")] == [f"rest[{task}]" for task in range(8)]
    naps = [place for place, label in enumerate(compared.label) if label.startswith("rest")]
    assert all(0.05 <= compared.actual_s[place] < 5.0 for place in naps)
    assert all(0 <= compared.actual_start_s[place] < second.makespan_s for place in naps)
    assert second.cost_usd > 0
    assert "rest[" in str(compared)


def test_without_history_nothing_is_measured_and_totals_are_still_compared() -> None:
    with Client(platform=Embedded(slots=2), planner=UniformPlanner(), observers=[], history=False) as client:
        run = client.submit(total([rest(0.0), rest(0.0)]))
        run.result(60)
        report = run.report(60)
    assert len(report.comparison) == 0
    assert report.comparison.makespan_s is not None
    assert report.comparison.makespan_s.actual == pytest.approx(report.makespan_s - report.prepared_s)
