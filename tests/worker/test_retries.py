"""Which exceptions are tried again, after how long, and what the core does meanwhile."""

import math
from itertools import pairwise

import pytest

from augury.dag.graph import FunctionInfo
from augury.dag.task import exception_name
from augury.errors import TaskTimeout
from augury.plan.hints import PreWarmHint
from augury.storage.protocols import Status
from augury.worker.messages import (
    Alarm,
    AlarmRang,
    Discard,
    Fail,
    Finished,
    Leave,
    Prewarm,
    Run,
    Send,
    StopRequested,
    TaskRaised,
    WaitedLong,
)
from augury.worker.retries import MOST_BACKOFF_S, Pauses, is_worth_retrying, pause_s
from tests.worker.shapes import BIG, SMALL, Core

FIRST_S = pause_s(FunctionInfo("f", "1", backoff_s=8.0), "", 0, 1)
"""How long task 0 waits for its second try, if its function has a `backoff_s` of 8 s."""


class Busy(ConnectionError):
    pass


def info(*kinds: type[Exception], backoff_s: float = 0.0) -> FunctionInfo:
    return FunctionInfo("f", "1", retries=1, backoff_s=backoff_s, retry_on=tuple(map(exception_name, kinds)))


class TestWhich:
    @pytest.mark.parametrize("error", [ValueError("x"), Busy(), TaskTimeout("late")])
    def test_every_exception_is_unless_the_user_chose(self, error: Exception) -> None:
        assert is_worth_retrying(error, FunctionInfo("f", "1"))

    @pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
    def test_what_is_meant_to_end_the_process_is_not(self, error: BaseException) -> None:
        assert not is_worth_retrying(error, FunctionInfo("f", "1"))

    def test_a_class_stands_for_those_that_derive_from_it(self) -> None:
        assert is_worth_retrying(Busy(), info(ValueError, OSError))
        assert is_worth_retrying(Busy(), info(Busy))
        assert not is_worth_retrying(ConnectionError(), info(Busy))
        assert not is_worth_retrying(TaskTimeout("late"), info(OSError))

    def test_a_class_that_travelled_by_value_is_known_by_its_name(self) -> None:
        copy = type("Busy", (ConnectionError,), {"__module__": Busy.__module__, "__qualname__": Busy.__qualname__})
        assert is_worth_retrying(copy(), info(Busy))


class TestHowLong:
    def test_it_doubles_within_half_and_whole(self) -> None:
        for tries in range(1, 7):
            assert 0.5 * 2 ** (tries - 1) <= pause_s(info(backoff_s=1.0), "run", 3, tries) <= 2 ** (tries - 1)

    def test_it_has_a_limit_which_a_longer_first_pause_sets_itself(self) -> None:
        assert MOST_BACKOFF_S / 2 <= pause_s(info(backoff_s=1.0), "run", 3, 5000) <= MOST_BACKOFF_S
        assert 300.0 <= pause_s(info(backoff_s=600.0), "run", 3, 4) <= 600.0

    def test_it_is_the_same_again_and_another_for_another_run_task_or_try(self) -> None:
        flat = info(backoff_s=600.0)
        assert pause_s(flat, "run", 3, 1) == pause_s(flat, "run", 3, 1)
        others = {pause_s(flat, *which) for which in (("run", 3, 1), ("other", 3, 1), ("run", 4, 1), ("run", 3, 2))}
        assert len(others) == 4

    def test_tasks_that_failed_together_come_back_apart(self) -> None:
        pauses = sorted(pause_s(info(backoff_s=1.0), "run", task, 1) for task in range(200))
        assert max(later - sooner for sooner, later in pairwise(pauses)) < 0.05
        assert pauses[0] == pytest.approx(0.5, abs=0.02)
        assert pauses[-1] == pytest.approx(1.0, abs=0.02)

    def test_none_is_none(self) -> None:
        assert pause_s(info(backoff_s=0.0), "run", 3, 2) == 0.0


def test_pauses_end_in_their_order_and_can_be_dropped() -> None:
    pauses = Pauses()
    assert (pauses.next_s, len(pauses)) == (math.inf, 0)
    for task, due_s in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 9.0)):
        pauses.add(task, due_s)
    assert pauses.drop(1)
    assert not pauses.drop(1)
    assert pauses.next_s == 1.0
    assert pauses.take_due(2.0) == [2, 3]
    assert list(pauses) == [4]


class TestCore:
    def test_the_slot_is_free_until_the_alarm_rings(self) -> None:
        """0, 1 and 2 are sinks"""
        core = Core([[], [], []], retries=1, backoff_s=8.0)
        core.begin(0, 1, 2)
        assert core.tell(TaskRaised(0, b"")) == [Run(1), Alarm(FIRST_S)]
        assert core.tell(AlarmRang(), FIRST_S) == []
        assert core.finish(1, now_s=10.0) == [Run(0, 2, ready_s=FIRST_S)]
        assert core.finish(0, now_s=11.0) == [Run(2)]

    def test_a_worker_with_a_task_to_try_again_is_not_idle_and_does_not_leave(self) -> None:
        """0 and 1 are sinks"""
        core = Core([[], []], retries=1, backoff_s=8.0)
        core.begin(0, 1)
        core.tell(TaskRaised(0, b""))
        assert core.finish(1) == [Send((Finished(1, SMALL),), ran=1)]
        assert core.answer() == [Discard((1,))]
        assert not core.state.idle
        assert core.tell(WaitedLong({})) == []
        assert core.tell(AlarmRang(), FIRST_S) == [Run(0, 2, ready_s=FIRST_S)]
        assert core.finish(0) == [Send((Finished(0, SMALL),), ran=1)]
        assert core.answer() == [Discard((0,)), Leave(Status.RUNNING)]

    def test_it_fails_when_its_tries_are_used_up(self) -> None:
        core = Core([[]], retries=1, backoff_s=8.0)
        core.begin(0)
        assert core.tell(TaskRaised(0, b"first")) == [Alarm(FIRST_S)]
        assert core.tell(AlarmRang(), FIRST_S) == [Run(0, 2, ready_s=FIRST_S)]
        assert core.tell(TaskRaised(0, b"second")) == [Fail(0, b"second"), Leave(Status.FAILED)]

    def test_its_inputs_stay_in_memory(self) -> None:
        """0 → 1"""
        core = Core([[], [0]], retries=1, backoff_s=8.0)
        core.begin(0)
        core.finish(0)
        (alarm,) = core.tell(TaskRaised(1, b""))
        assert isinstance(alarm, Alarm)
        assert core.tell(AlarmRang(), alarm.at_s) == [Run(1, 2, ready_s=alarm.at_s)]
        assert core.finish(1)[0] == Discard((0,))

    def test_the_earlier_of_two_alarms_is_set_first(self) -> None:
        """0 on w0; a hint of its own is due after 100 s"""
        core = Core([[]], "w0", planned={0: 0}, retries=1, backoff_s=8.0, hints={0: (PreWarmHint(BIG, after_s=100.0),)})
        assert core.begin() == [Run(0), Alarm(100.0)]
        assert core.tell(TaskRaised(0, b"")) == [Alarm(FIRST_S)]
        assert core.tell(AlarmRang(), FIRST_S) == [Run(0, 2, ready_s=FIRST_S), Alarm(100.0)]
        assert core.tell(AlarmRang(), 100.0) == [Prewarm(BIG)]

    def test_an_alarm_that_rings_too_early_changes_nothing(self) -> None:
        core = Core([[]], retries=1, backoff_s=8.0)
        core.begin(0)
        core.tell(TaskRaised(0, b""))
        assert core.tell(AlarmRang(), FIRST_S / 2) == []
        assert core.tell(AlarmRang(), FIRST_S) == [Run(0, 2, ready_s=FIRST_S)]

    def test_a_stop_ends_the_worker_while_a_task_waits(self) -> None:
        core = Core([[]], retries=1, backoff_s=8.0)
        core.begin(0)
        core.tell(TaskRaised(0, b""))
        assert core.tell(StopRequested(Status.CANCELLED)) == [Leave(Status.CANCELLED)]
