"""Inboxes keep every event, and no wake-up is lost."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from augury.storage.protocols import (
    CLIENT,
    Completion,
    Consumer,
    Coordination,
    Event,
    Printed,
    Report,
    RunEnded,
    Status,
    Stop,
    TaskReady,
    WorkerLeft,
    WorkerSummary,
)
from augury.storage.redis import RedisStorage
from augury.storage.redis_client import RedisClient
from tests.storage.conftest import SPEC, claim, new_run_id, wait_until_blocked

SOON_S = 15.0
FOREVER_S = 30.0

EVERY_KIND: list[Event] = [
    TaskReady(3, {1: b"\x00\xff"}),
    TaskReady(4),
    Stop(Status.CANCELLED),
    RunEnded(Status.FAILED, b"\xff"),
    Printed(7, "stdout", "grüße\n"),
    WorkerLeft(WorkerSummary(worker="w", attempt=2, cold=False, duration_s=1.5, memory_mb=64, tasks=1, suspended=True)),
]


@pytest.mark.parametrize("event", EVERY_KIND, ids=lambda event: type(event).__name__)
def test_events_come_out_as_they_were_posted(run: Coordination, event: Event) -> None:
    run.post(CLIENT, [event])
    assert run.read(CLIENT, "0", 0)[1] == [event]


def test_events_come_in_order_and_the_cursor_moves_past_them(run: Coordination) -> None:
    run.post("w", EVERY_KIND[:2])
    cursor, first = run.read("w", "0", 0)
    run.post("w", EVERY_KIND[2:])
    cursor, second = run.read("w", cursor, 0)
    assert (first, second) == (EVERY_KIND[:2], EVERY_KIND[2:])
    assert run.read("w", cursor, 0) == (cursor, [])


def test_reading_does_not_take_events_away(run: Coordination) -> None:
    run.post("w", EVERY_KIND)
    run.read("w", "0", 0)
    assert run.read("w", "0", 0)[1] == EVERY_KIND


def test_a_read_without_time_does_not_wait(run: Coordination) -> None:
    assert run.read("w", "0", 0) == ("0", [])


def test_a_read_ends_when_its_time_is_over(run: Coordination) -> None:
    assert run.read("w", "0", 0.02) == ("0", [])


def test_thousands_of_events_are_all_read(run: Coordination) -> None:
    sent: list[Event] = [Printed(number, "stdout", "") for number in range(2500)]
    run.post("w", sent)
    cursor, received = "0", list[Event]()
    while len(received) < len(sent):
        cursor, some = run.read("w", cursor, 0)
        assert some
        received += some
    assert received == sent


def test_posting_nothing_does_nothing(run: Coordination) -> None:
    run.post("w", [])
    assert run.read("w", "0", 0) == ("0", [])


def test_a_reader_that_waits_is_woken_by_a_report(run: Coordination) -> None:
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(run.read, "w", "0", FOREVER_S)
        run.report(Report("first", completions=(Completion(0, consumers=(Consumer(2, 1, "w"),)),)))
        assert reading.result(SOON_S)[1] == [TaskReady(2)]


def test_a_reader_that_waits_is_woken_when_the_run_is_removed(run: Coordination) -> None:
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(run.read, "w", "0", FOREVER_S)
        run.remove()
        assert reading.result(SOON_S)[1] == [Stop(Status.GONE)]


def test_a_reader_that_is_blocked_in_redis_hears_of_events_and_of_the_end(
    redis_storage: RedisStorage, redis: RedisClient
) -> None:
    run = redis_storage.coordination(new_run_id())
    run.create(SPEC, [9], [claim("first")])
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(run.read, "w", "0", FOREVER_S)
        wait_until_blocked(redis)
        run.post("w", [Stop(Status.FAILED)])
        cursor, events = reading.result(SOON_S)
        assert events == [Stop(Status.FAILED)]

        reading = threads.submit(run.read, "w", cursor, FOREVER_S)
        wait_until_blocked(redis)
        run.remove()
        assert reading.result(SOON_S)[1] == [Stop(Status.GONE)]
