"""Runs that end with their client: once that is silent for too long, nobody goes on, and nobody begins."""

import time
from collections.abc import Callable

import msgspec
import pytest

from augury.storage.protocols import CLIENT, Beat, Care, Coordination, RunEnded, Status, Stop, Storage
from tests.storage.conftest import SPEC, Clock, beat_until_told, claim, new_run_id

SHORT_S = 0.02

LONG_S = 1.0
"""Longer than this process is ever kept from going on."""

NewRun = Callable[[float], Coordination]


@pytest.fixture
def owned(storage: Storage) -> NewRun:
    """Makes runs whose client may be silent for so long, with a worker that has joined and one that has not."""

    def make(client_s: float) -> Coordination:
        run = storage.coordination(new_run_id())
        spec = msgspec.structs.replace(SPEC, care=Care(lease_s=1000.0, client_s=client_s))
        run.create(spec, [9], [claim("w", 0), claim("late", 1)])
        run.join("w", 1)
        return run

    return make


def test_a_run_is_cancelled_when_its_client_is_silent_for_too_long(owned: NewRun) -> None:
    run = owned(SHORT_S)
    assert beat_until_told(lambda: run.beat("w", 1)) == Beat(Status.CANCELLED)
    assert run.status() is Status.CANCELLED
    assert run.read(CLIENT, "0", 0)[1] == [RunEnded(Status.CANCELLED)]
    assert run.read("w", "0", 0)[1] == [Stop(Status.CANCELLED)]


def test_a_worker_that_was_queued_does_not_begin(owned: NewRun) -> None:
    run = owned(SHORT_S)
    # Nobody beats; it is the one that joins who notices.
    time.sleep(2 * SHORT_S)
    assert run.join("late", 1).status is Status.CANCELLED
    assert run.beat("w", 1).status is Status.CANCELLED


def test_a_client_that_could_not_be_heard_keeps_its_run(clocked: Storage, clock: Clock) -> None:
    run = clocked.coordination(new_run_id())
    run.create(msgspec.structs.replace(SPEC, care=Care(lease_s=10.0, client_s=60.0)), [9], [claim("w", 0)])
    run.join("w", 1)
    run.beat(CLIENT)
    for _ in range(2):
        clock.wait(3600.0)  # the machine of all of them sleeps
        assert run.beat("w", 1) == Beat(Status.RUNNING)
        clock.wait(2.5)
        assert run.beat(CLIENT) == Beat(Status.RUNNING)
    for _ in range(24):
        clock.wait(2.5)
        assert run.beat("w", 1) == Beat(Status.RUNNING)
    clock.wait(2.5)
    assert run.beat("w", 1) == Beat(Status.CANCELLED)


def test_nor_does_it_lose_it_to_a_worker_that_comes_up_first(clocked: Storage, clock: Clock) -> None:
    run = clocked.coordination(new_run_id())
    care = Care(lease_s=10.0, client_s=60.0)
    run.create(msgspec.structs.replace(SPEC, care=care), [9], [claim("w", 0), claim("late", 1), claim("later", 2)])
    run.join("w", 1)
    run.beat(CLIENT)
    clock.wait(3600.0)
    assert run.join("late", 1).status is Status.RUNNING
    assert run.beat(CLIENT) == Beat(Status.RUNNING)
    clock.wait(57.5)
    assert run.beat("w", 1).status is Status.RUNNING
    clock.wait(4.5)
    assert run.join("later", 1).status is Status.CANCELLED


def test_nobody_waits_for_ever_for_a_client_because_of_rare_beats(clocked: Storage, clock: Clock) -> None:
    run = clocked.coordination(new_run_id())
    run.create(msgspec.structs.replace(SPEC, care=Care(lease_s=10.0, client_s=60.0)), [9], [claim("w", 0)])
    run.join("w", 1)
    for _ in range(9):  # the first of them counts as the end of a pause
        clock.wait(7.0)
        assert run.beat("w", 1) == Beat(Status.RUNNING)
    clock.wait(7.0)
    assert run.beat("w", 1) == Beat(Status.CANCELLED)


def test_a_client_that_is_heard_of_keeps_its_run_alive(owned: NewRun) -> None:
    run = owned(LONG_S)
    until_s = time.monotonic() + 1.5 * LONG_S
    while time.monotonic() < until_s:
        assert run.beat(CLIENT).status is Status.RUNNING
        assert run.beat("w", 1).status is Status.RUNNING
        time.sleep(SHORT_S / 4)
    assert run.join("late", 1).status is Status.RUNNING


def test_a_run_that_ends_with_nobody_goes_on(owned: NewRun) -> None:
    run = owned(0.0)
    assert run.beat(CLIENT).status is Status.RUNNING
    time.sleep(2 * SHORT_S)
    assert run.beat("w", 1).status is Status.RUNNING
    assert run.join("late", 1).status is Status.RUNNING


def test_a_run_that_is_over_stays_as_it_ended(owned: NewRun) -> None:
    run = owned(LONG_S)
    run.fail(Status.FAILED, b"why")
    time.sleep(1.1 * LONG_S)
    assert run.beat("w", 1).status is Status.FAILED
    assert run.join("late", 1).status is Status.FAILED
