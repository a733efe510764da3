"""What an invocation measures: enough of everything, at a bounded cost, and nothing that cannot be true."""

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from random import Random

import pytest

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.metrics.records import WORKER_SPANS, Batch, Kind, Series, Span, Startup, TaskRun, Transfer
from augury.worker.recorder import Recorder

RESOURCES = Resources(cpus=1, memory_mb=512)


def graph_of(tasks: int, functions: int = 2) -> Graph:
    """So many tasks, in turns of the functions `f0`, `f1`, …"""
    infos = tuple(FunctionInfo(f"f{number}", f"version {number}") for number in range(functions))
    return Graph(infos, tuple(task % functions for task in range(tasks)), ((),) * tasks, (tasks - 1,))


class Worker:
    """A worker whose tasks need the processor all the time."""

    def __init__(self) -> None:
        self.ran = 0
        self.used_s = 0.0

    def run(self, recorder: Recorder, task: int, duration_s: float) -> bool:
        """A task runs; whether it was measured."""
        measured = run(recorder, task, duration_s, self.used_s)
        self.ran += 1
        self.used_s += duration_s
        return measured


def new_recorder(
    tasks: int = 100,
    *,
    functions: int = 2,
    enabled: bool = True,
    resources: Resources = RESOURCES,
    worker: Worker | None = None,
) -> Recorder:
    worker = worker or Worker()
    recorder = Recorder(
        graph_of(tasks, functions),
        resources,
        enabled=enabled,
        wall_clock=lambda: 1000.0,
        cpu_clock=lambda: worker.used_s,
        chance=Random(1).random,
    )
    recorder.follow(lambda: worker.ran)
    return recorder


def run_all(durations_s: Sequence[float], functions: int = 2) -> list[bool]:
    """Tasks run one after the other; which of them were measured."""
    worker = Worker()
    recorder = new_recorder(len(durations_s), functions=functions, worker=worker)
    return [worker.run(recorder, task, duration_s) for task, duration_s in enumerate(durations_s)]


def run(recorder: Recorder, task: int, duration_s: float, now_s: float = 50.0) -> bool:
    """A task runs; whether it was measured."""
    measured = recorder.begin(task, now_s, now_s - 0.75, 0.5)
    if measured is None:
        return False
    recorder.end(task, measured, execution_s=duration_s, upload_s=0.0, output_bytes=20, leaves=True)
    return True


def measure(recorder: Recorder, task: int, work: Callable[[], object]) -> TaskRun:
    """Something is done as a task; what was measured."""
    measured = recorder.begin(task, 0.0, 0.0, 0.0)
    assert measured is not None
    measured.loaded(0.0)
    work()
    recorder.end(task, measured, execution_s=1.0, upload_s=0.0, output_bytes=0)
    (series,) = taken(recorder).values()
    (record,) = series.records()
    assert isinstance(record, TaskRun)
    return record


def allocate(size_mb: int) -> None:
    block = bytearray(b"x") * (size_mb * 1024 * 1024)
    del block


def taken(recorder: Recorder) -> dict[tuple[Kind, str], Series]:
    data = recorder.take()
    return {(one.of.kind, one.name): one for one in (Batch.decode(data).series if data else ())}


def test_a_task_run_is_recorded_with_everything_that_was_measured() -> None:
    recorder = new_recorder()
    measured = recorder.begin(4, 50.0, 49.25, 0.5)
    assert measured is not None
    measured.loaded(0.0)
    measured.input_bytes = 10
    recorder.end(4, measured, execution_s=2.0, upload_s=0.125, output_bytes=20)
    (series,) = taken(recorder).values()
    (record,) = series.records()
    assert isinstance(record, TaskRun)
    assert (record.function, record.name, record.resources, record.ended_s) == ("version 0", "f0", RESOURCES, 1000.0)
    assert (record.queue_s, record.dependency_s, record.execution_s, record.upload_s) == (0.25, 0.5, 2.0, 0.125)
    assert (record.input_bytes, record.output_bytes, record.load_s) == (10, 20, 0.0)
    assert 0 <= record.cpu_s < 2.0
    assert record.peak_mb > 1


def test_when_a_task_ran_is_told_beside_what_is_kept() -> None:
    recorder = new_recorder()
    measured = recorder.begin(4, 50.0, 49.25, 0.5)
    assert measured is not None
    measured.loaded(0.75)
    recorder.end(4, measured, execution_s=2.0, upload_s=0.125, output_bytes=20)
    # It ended at 1000 by the clock on the wall, with its output encoded.
    assert Batch.decode(recorder.take()).spans == [Span(4, 997.875, 2.0)]


def test_one_of_few_workers_misses_nothing_and_most_of_many_may() -> None:
    recorder = new_recorder()
    for drawn, missing in ((0.999, {17: True, 16: False, 1: False}), (0.001, {10_000: False, 17_000: True})):
        recorder._chance = lambda drawn=drawn: drawn  # type: ignore[misc]
        assert {workers: recorder.can_miss_one_of(workers) for workers in missing} == missing
    assert new_recorder(enabled=False).can_miss_one_of(1)


def test_what_was_looked_at_can_be_taken() -> None:
    recorder = new_recorder()
    run(recorder, 0, 1.0)
    assert recorder.look() == recorder.look() != b""
    assert recorder.look() == recorder.take()
    assert recorder.look() == recorder.take() == b""


def test_an_output_that_is_stored_later_does_not_move_its_task() -> None:
    recorder = new_recorder()
    run(recorder, 0, 1.0)
    recorder.stored(0, 5_000_000, 0.5)
    assert Batch.decode(recorder.take()).spans == [Span(0, 999.0, 1.0)]


def test_spans_are_bounded_and_spread_and_sent_once() -> None:
    recorder = new_recorder(10_000)
    for task in range(10_000):
        run(recorder, task, 1.0)
    spans = Batch.decode(recorder.take()).spans
    assert WORKER_SPANS / 2 <= len(spans) <= WORKER_SPANS
    assert len({later.task - earlier.task for earlier, later in pairwise(spans)}) == 1
    run(recorder, 0, 1.0)
    assert [span.task for span in Batch.decode(recorder.take()).spans] == [0]


def test_loading_a_function_is_told_apart_from_running_it() -> None:
    recorder = new_recorder()
    measured = recorder.begin(0, 0.0, 0.0, 0.0)
    assert measured is not None
    measured.loaded(0.75)
    recorder.end(0, measured, execution_s=2.0, upload_s=0.0, output_bytes=0)
    (record,) = taken(recorder)[Kind.TASK, "f0"].records()
    assert isinstance(record, TaskRun)
    assert (record.load_s, record.execution_s) == (0.75, 2.0)


def test_the_time_to_store_an_output_counts_for_its_task_and_as_a_transfer() -> None:
    recorder = new_recorder()
    run(recorder, 0, 1.0)
    recorder.stored(0, 5_000_000, 0.5)
    found = taken(recorder)
    (record,) = found[Kind.TASK, "f0"].records()
    assert isinstance(record, TaskRun)
    assert record.upload_s == 0.5
    (transfer,) = found[Kind.UPLOAD, ""].records()
    assert isinstance(transfer, Transfer)
    assert (transfer.direction, transfer.size_bytes, transfer.duration_s) == ("upload", 5_000_000, 0.5)


def test_downloads_are_recorded() -> None:
    recorder = new_recorder()
    recorder.downloaded(100, 0.25)
    (record,) = taken(recorder)[Kind.DOWNLOAD, ""].records()
    assert isinstance(record, Transfer)
    assert (record.direction, record.size_bytes, record.duration_s) == ("download", 100, 0.25)


@pytest.mark.parametrize("cold", [True, False])
def test_a_start_up_is_recorded(cold: bool) -> None:
    recorder = new_recorder()
    recorder.started(cold=cold, received_s=10.0, granted_s=10.5, began_s=10.75, starting=7)
    (record,) = taken(recorder)[Kind.COLD if cold else Kind.WARM, ""].records()
    assert isinstance(record, Startup)
    assert record.state == ("cold" if cold else "warm")
    assert (record.duration_s, record.waited_s, record.starting, record.ended_s) == (0.25, 0.5, 7, 10.75)


@pytest.mark.parametrize("began_s", [9.0, 10.5 + 1e6, math.nan])
def test_a_start_up_that_cannot_be_true_is_not_recorded(began_s: float) -> None:
    recorder = new_recorder()
    recorder.started(cold=True, received_s=10.0, granted_s=10.5, began_s=began_s, starting=1)
    assert recorder.take() == b""


def test_a_wait_that_cannot_be_true_is_marked_as_unknown() -> None:
    recorder = new_recorder()
    recorder.started(cold=True, received_s=11.0, granted_s=10.5, began_s=10.75, starting=1)
    (record,) = taken(recorder)[Kind.COLD, ""].records()
    assert isinstance(record, Startup)
    assert record.duration_s == 0.25
    assert math.isnan(record.waited_s)


def test_the_first_runs_of_each_function_are_measured_however_short() -> None:
    measured = run_all([0.0] * 100)
    assert measured[:32] == [True] * 32
    assert sum(measured[32:]) <= 1


def test_of_very_many_functions_not_each_is_measured() -> None:
    measured = run_all([1e-6] * 10_000, functions=1000)
    assert measured[:64] == [True] * 64
    assert sum(measured[64:]) < 30


def test_a_function_that_takes_long_is_measured_each_time_among_many_that_do_not() -> None:
    measured = run_all([0.045 if task % 100 == 3 else 1e-6 for task in range(20_000)], functions=100)
    assert all(was for task, was in enumerate(measured) if task % 100 == 3)
    assert sum(was for task, was in enumerate(measured) if task % 100 != 3) < 1000


def test_long_tasks_are_all_measured() -> None:
    assert all(run_all([0.041] * 100))


def test_measuring_takes_a_small_share_of_the_time_of_short_tasks() -> None:
    # Forty seconds of tasks pay for 40 ms of measuring: 1,000 measurements, beside the first ones.
    assert sum(run_all([2e-3] * 20_000)) == pytest.approx(1032, rel=0.1)


def test_time_without_the_processor_does_not_pay_for_measuring() -> None:
    recorder = new_recorder(5000)
    measured = [run(recorder, task, 1e-3, now_s=task * 1e-3) for task in range(5000)]
    assert sum(measured[32:]) <= 5 + 5  # about one after each second, by the clock


def test_whether_a_run_is_measured_does_not_depend_on_how_long_it_takes() -> None:
    lengths = [800e-6 if task % 7 else 8e-3 for task in range(40_000)]
    chosen = [length for length, was in zip(lengths, run_all(lengths), strict=True) if was]
    share = sum(length > 4e-3 for length in chosen) / len(chosen)
    assert share == pytest.approx(1 / 7, abs=0.04)


def test_tasks_that_become_long_are_soon_measured_again() -> None:
    measured = run_all([0.0] * 300 + [0.1] * 200)
    assert sum(measured[300:]) > 15


def test_a_function_whose_tasks_become_short_is_no_longer_measured_each_time() -> None:
    measured = run_all([0.041] * 20 + [1e-6] * 29_980)
    assert sum(measured[1000:]) < 300


def test_what_waits_to_be_sent_is_bounded_and_spread_over_the_run() -> None:
    recorder = new_recorder()
    for number in range(10_000):
        recorder.downloaded(number, 1.0)
    sizes = [
        record.size_bytes for record in taken(recorder)[Kind.DOWNLOAD, ""].records() if isinstance(record, Transfer)
    ]
    assert 32 <= len(sizes) <= 64
    assert sizes == sorted(sizes)
    assert sizes[0] < 500
    assert sizes[-1] > 9500


def test_taking_hands_everything_over_once() -> None:
    recorder = new_recorder()
    run(recorder, 0, 1.0)
    assert recorder.take()
    assert recorder.take() == b""
    run(recorder, 1, 1.0)
    assert list(taken(recorder)) == [(Kind.TASK, "f1")]


def test_an_output_that_is_stored_after_its_record_was_sent_is_still_a_transfer() -> None:
    recorder = new_recorder()
    run(recorder, 0, 1.0)
    recorder.take()
    recorder.stored(0, 1000, 0.5)
    assert list(taken(recorder)) == [(Kind.UPLOAD, "")]


@pytest.mark.parametrize(
    "measure",
    [
        lambda recorder: run(recorder, 0, 1.0),
        lambda recorder: recorder.downloaded(1, 1.0),
        lambda recorder: recorder.uploaded(1, 1.0),
        lambda recorder: recorder.stored(0, 1, 1.0),
        lambda recorder: recorder.started(cold=True, received_s=1.0, granted_s=1.0, began_s=2.0, starting=1),
    ],
)
def test_a_recorder_that_is_off_records_nothing(measure: Callable[[Recorder], object]) -> None:
    recorder = new_recorder(enabled=False)
    measure(recorder)
    assert recorder.take() == b""


def test_the_peak_of_memory_is_that_of_the_task_and_not_of_one_before() -> None:
    recorder = new_recorder()
    peaks = [measure(recorder, 0, partial(allocate, size_mb)).peak_mb for size_mb in (300, 1, 100)]
    assert peaks[0] - peaks[1] == pytest.approx(299, abs=20)
    assert peaks[2] - peaks[1] == pytest.approx(99, abs=20)


def test_processes_that_a_task_started_count_for_it() -> None:
    recorder = new_recorder()
    alone = measure(recorder, 0, lambda: None)
    code = "block = bytearray(b'x') * (200 * 1024 * 1024); sum(range(3_000_000))"
    helped = measure(recorder, 2, lambda: subprocess.run([sys.executable, "-c", code], check=True))
    assert helped.peak_mb - alone.peak_mb > 190
    assert helped.cpu_s > 0.02


def test_beside_another_task_the_peak_is_not_known() -> None:
    recorder = new_recorder(resources=Resources(cpus=2, memory_mb=512))
    first = recorder.begin(0, 0.0, 0.0, 0.0)
    assert first is not None
    first.loaded(0.0)
    assert math.isnan(measure(recorder, 1, lambda: None).peak_mb)
    recorder.end(0, first, execution_s=1.0, upload_s=0.0, output_bytes=0)
    (series,) = taken(recorder).values()
    (record,) = series.records()
    assert isinstance(record, TaskRun)
    assert record.peak_mb > 1


def test_the_peak_is_known_again_after_a_task_that_raised() -> None:
    recorder = new_recorder()
    assert recorder.begin(0, 0.0, 0.0, 0.0) is not None
    recorder.abandon()
    assert measure(recorder, 2, lambda: None).peak_mb > 1


def test_processor_time_of_other_threads_counts_if_there_is_one_task_at_a_time() -> None:
    def burn() -> None:
        end_s = time.thread_time() + 0.05
        while time.thread_time() < end_s:
            pass

    def burn_elsewhere() -> None:
        thread = threading.Thread(target=burn)
        thread.start()
        thread.join()

    assert measure(new_recorder(), 0, burn_elsewhere).cpu_s >= 0.05
    assert measure(new_recorder(resources=Resources(cpus=2)), 0, burn_elsewhere).cpu_s < 0.05


def test_no_file_is_kept_open_to_measure_memory() -> None:
    recorder = new_recorder()
    before = len(os.listdir("/proc/self/fd"))
    measure(recorder, 0, lambda: None)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_task_that_raises_leaves_no_record_and_no_trace() -> None:
    recorder = new_recorder()
    assert recorder.begin(0, 0.0, 0.0, 0.0) is not None
    recorder.abandon()
    assert recorder.take() == b""
    assert run(recorder, 2, 1.0)


def test_negative_waits_are_none() -> None:
    recorder = new_recorder()
    measured = recorder.begin(0, 50.0, 52.0, -1.0)
    assert measured is not None
    assert (measured.queue_s, measured.dependency_s) == (0.0, 0.0)
