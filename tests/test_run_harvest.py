"""What becomes of what workers measured."""

import logging
from collections.abc import Iterable
from typing import Any

import pytest

from augury.config import Resources
from augury.metrics.history.history import History
from augury.metrics.history.memory import MemoryStore
from augury.metrics.records import SCHEMA, Batch, MemoryExcess, Record, Span, Startup, Transfer, pack_spans, series_of
from augury.plan.planners.uniform import UniformPlanner
from augury.run.harvest import RUN_SPANS, Harvest
from augury.storage.protocols import Outgrown, WorkerSummary
from tests.metrics.building import task_run
from tests.plan.graphs import graph_of

SMALL = Resources(memory_mb=512)
PATIENCE_S = 30.0


class Unwritable(History):
    """A history that is out of order."""

    def add(self, *args: Any, **options: Any) -> None:
        raise RuntimeError("no room left")


def harvest(history: History | None) -> Harvest:
    made = Harvest("r1", "daily", kept_as="daily", inherit=False, history=history, platform="here", started_s=100.0)
    made.planner = "uniform"
    return made


def sent(records: Iterable[Record] = (), spans: Iterable[Span] = ()) -> bytes:
    return Batch(SCHEMA, tuple(series_of(records)), pack_spans(spans)).encode()


def test_records_are_kept_with_platform_and_planner() -> None:
    history = History(MemoryStore())
    taken = harvest(history)
    taken.gather(sent([task_run(1.0)]))
    taken.keep()
    (series,) = history.load("daily").series
    assert (series.of.platform, series.of.planner, len(series)) == ("here", "uniform", 1)


def test_tasks_that_outgrew_their_worker_are_kept_with_what_that_had() -> None:
    graph = graph_of((), (0,))
    plan = UniformPlanner(Resources(2, 512)).plan(graph)
    history = History(MemoryStore())
    taken = harvest(history)
    lost = (Outgrown(1, 1024.0, 5e6), Outgrown(99, 1.0))  # a damaged black box may name any task
    taken.outgrown(
        graph,
        plan,
        WorkerSummary(worker="p0", attempt=2, cold=True, duration_s=1.0, memory_mb=1024, tasks=0, outgrown=lost),
    )
    taken.keep()
    (series,) = history.load("daily").series
    (record,) = series.records()
    assert isinstance(record, MemoryExcess)
    assert (record.function, record.resources) == ("version", Resources(2, 1024))
    assert (record.used_mb, record.input_bytes, record.planner) == (1024.0, 5e6, "uniform")


def test_spans_are_kept_for_the_report_and_not_in_history() -> None:
    history = History(MemoryStore())
    taken = harvest(history)
    taken.gather(sent([task_run(1.0)], [Span(3, 10.0, 1.0)]))
    taken.gather(sent([task_run(1.0)], [Span(1, 11.0, 2.0)]))
    assert taken.spans() == [Span(1, 11.0, 2.0), Span(3, 10.0, 1.0)]
    taken.keep()
    assert len(history.load("daily")) == 2


def test_of_a_task_that_ran_twice_the_first_end_counts() -> None:
    taken = harvest(History(MemoryStore()))
    taken.gather(sent(spans=[Span(0, 10.0, 9.0), Span(0, 12.0, 1.0), Span(0, 30.0, 1.0)]))
    assert taken.spans() == [Span(0, 12.0, 1.0)]


def test_spans_are_bounded() -> None:
    taken = harvest(History(MemoryStore()))
    for worker in range(30):
        taken.gather(sent(spans=[Span(1000 * worker + task, 0.0, 1.0) for task in range(1000)]))
    assert RUN_SPANS / 2 <= len(taken.spans()) <= RUN_SPANS


def test_cold_starts_are_added_up_with_their_memory() -> None:
    taken = harvest(History(MemoryStore()))
    cold = Startup(state="cold", resources=SMALL, duration_s=2.0)
    taken.gather(sent([cold, Startup(state="warm", resources=SMALL, duration_s=50.0)]))
    taken.gather(sent([cold, Startup(state="cold", resources=Resources(memory_mb=2048), duration_s=1.0)]))
    taken.gather(sent([Startup(state="cold", resources=SMALL), Transfer(direction="upload", resources=SMALL)]))
    assert taken.cold_gb_seconds == 2.0 * 0.5 + 2.0 * 0.5 + 1.0 * 2


def test_what_cannot_be_read_is_lost_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    taken = harvest(History(MemoryStore()))
    with caplog.at_level(logging.WARNING):
        taken.gather(b"nonsense")
    assert "what a worker of run r1 measured is lost" in caplog.text
    assert taken.spans() == []


def test_without_history_nothing_is_gathered() -> None:
    taken = harvest(None)
    taken.gather(sent([task_run(1.0)], [Span(0, 1.0, 1.0)]))
    taken.keep()
    assert taken.spans() == []


def test_long_runs_are_kept_now_and_then() -> None:
    history = History(MemoryStore())
    taken = harvest(history)
    kept = []
    for now_s in range(101, 300):
        taken.gather(sent([task_run(float(now_s))]))
        taken.keep_now_and_then(float(now_s))
        if taken._recorded_s == now_s:
            kept.append(now_s - 100)
    assert kept == [20, 40, 80, 160]


def test_what_was_measured_so_far_is_there_if_nobody_sees_the_end() -> None:
    history = History(MemoryStore())
    taken = harvest(history)
    for number in range(200):
        taken.gather(sent([task_run(float(number))]))
    taken.keep_now_and_then(150.0)
    taken._recording.result(PATIENCE_S)
    assert history.load("daily").recent == ("r1", "r1#1")
    assert len(history.load("daily")) > 0


@pytest.mark.parametrize("vanishes_after", [0, 10, 64, 100, 128, 199, 200])
def test_several_who_follow_a_run_bring_in_each_measurement_once(vanishes_after: int) -> None:
    measured = [sent([Startup(state="cold", resources=SMALL, duration_s=float(number))]) for number in range(200)]
    alone, shared = History(MemoryStore()), History(MemoryStore())
    only, first, second = harvest(alone), harvest(shared), harvest(shared)
    for records in measured[:vanishes_after]:
        first.gather(records)
    first.keep_now_and_then(150.0)
    first._recording.result(PATIENCE_S)
    for one in (only, second):
        for records in measured:
            one.gather(records)
        one.keep()
    kept, expected = shared.load("daily"), alone.load("daily")
    assert [series.rows for series in kept.series] == [series.rows for series in expected.series]
    assert kept.recent == expected.recent


def test_a_history_that_cannot_be_written_to_is_told_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("augury.run.harvest._troubled", set())  # other tests have troubles too
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            taken = harvest(Unwritable(MemoryStore()))
            taken.gather(sent([task_run(1.0)]))
            taken.keep()
    assert caplog.text.count("could not be kept: no room left") == 1
