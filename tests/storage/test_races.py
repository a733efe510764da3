"""Many at once: exactly one learns, exactly one starts, and no wake-up is lost."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from augury.storage.protocols import CLIENT, Completion, Consumer, Coordination, Report, RunEnded, Status, TaskReady
from tests.storage.conftest import claim

ROUNDS = 150
RACERS = 6
FOREVER_S = 60.0


def race(threads: ThreadPoolExecutor, calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make calls at the same time."""
    line = threading.Barrier(len(calls))

    def start(call: Callable[[], Any]) -> Any:
        line.wait(FOREVER_S)
        return call()

    return [future.result(FOREVER_S) for future in [threads.submit(start, call) for call in calls]]


def reporter(run: Coordination, report: Report) -> Callable[[], tuple[tuple[int, ...], tuple[tuple[str, int], ...]]]:
    def call() -> tuple[tuple[int, ...], tuple[tuple[str, int], ...]]:
        outcome = run.report(report)
        return outcome.ready, outcome.started

    return call


def test_one_of_many_reporters_learns_that_a_task_is_ready(new_run: Callable[[], Coordination]) -> None:
    with ThreadPoolExecutor(RACERS) as threads:
        for _ in range(ROUNDS):
            run = new_run()
            reports = [
                Report("x", completions=(Completion(task, 1, b"x", consumers=(Consumer(8, RACERS),)),))
                for task in range(RACERS)
            ]
            told = race(threads, [reporter(run, report) for report in reports])
            assert sorted(told) == [((), ())] * (RACERS - 1) + [((8,), ())]


def test_one_of_many_reporters_of_the_same_task_counts(new_run: Callable[[], Coordination]) -> None:
    report = Report("x", completions=(Completion(0, 1, b"x", consumers=(Consumer(8, 1), Consumer(7, 1, "w"))),))
    with ThreadPoolExecutor(RACERS) as threads:
        for _ in range(ROUNDS):
            run = new_run()
            told = race(threads, [reporter(run, report)] * RACERS)
            assert sorted(told) == [((), ())] * (RACERS - 1) + [((8,), (("w", 1),))]
            assert run.read("w", "0", 0)[1] == [TaskReady(7, {0: b"x"})]


def test_one_of_many_gets_the_right_to_start_a_worker(new_run: Callable[[], Coordination]) -> None:
    with ThreadPoolExecutor(RACERS) as threads:
        for _ in range(ROUNDS):
            run = new_run()
            claims = [Report(f"x{number}", claims=(claim("f1", 3),)) for number in range(RACERS)]
            told = race(threads, [reporter(run, report) for report in claims])
            assert sorted(told) == [((), ())] * (RACERS - 1) + [((), (("f1", 1),))]
            assert run.progress().invocations == 2


def test_one_of_many_ends_the_run(new_run: Callable[[], Coordination]) -> None:
    with ThreadPoolExecutor(RACERS) as threads:
        for _ in range(ROUNDS):
            run = new_run()
            ended = race(threads, [partial(run.fail, Status.FAILED, b"")] * RACERS)
            assert sorted(ended) == [False] * (RACERS - 1) + [True]
            assert run.read(CLIENT, "0", 0)[1] == [RunEnded(Status.FAILED)]


def test_a_reader_and_a_reporter_that_meet_never_miss_each_other(new_run: Callable[[], Coordination]) -> None:
    report = Report("x", completions=(Completion(0, consumers=(Consumer(7, 1, "w"),)),))
    with ThreadPoolExecutor(2) as threads:
        for _ in range(ROUNDS):
            run = new_run()
            (_, events), _ = race(threads, [partial(run.read, "w", "0", FOREVER_S), partial(run.report, report)])
            assert events == [TaskReady(7)]


def test_a_worker_that_suspends_while_its_task_becomes_ready_is_started_again(
    new_run: Callable[[], Coordination],
) -> None:
    report = Report("x", completions=(Completion(0, consumers=(Consumer(7, 1, "w"),)),))
    with ThreadPoolExecutor(2) as threads:
        for _ in range(3 * ROUNDS):
            run = new_run()
            run.report(Report("x", claims=(claim("w", 1),)))
            run.join("w", 1)
            suspended, (_, started) = race(threads, [partial(run.suspend, "w", 1, "0", 0), reporter(run, report)])
            assert started == ((("w", 2),) if suspended else ())
            assert run.read("w", "0", 0)[1] == [TaskReady(7)]


def test_every_completion_of_a_crowd_is_counted(new_run: Callable[[], Coordination]) -> None:
    inputs = 40 * RACERS
    with ThreadPoolExecutor(RACERS) as threads:
        run = new_run()

        def report_all(first: int) -> list[int]:
            ready: list[int] = []
            # Each input twice, by two reporters: repetitions count for nothing.
            for task in [*range(first, inputs, RACERS), *range((first + 1) % RACERS, inputs, RACERS)]:
                ready += run.report(
                    Report("x", completions=(Completion(task, 1, b"x", consumers=(Consumer(999, inputs),)),), ran=1)
                ).ready
            return ready

        ready = race(threads, [partial(report_all, first) for first in range(RACERS)])
    assert sorted(ready) == [[]] * (RACERS - 1) + [[999]]
    assert run.join("first", 1).done == frozenset(range(inputs))
    assert run.progress().ran == inputs
