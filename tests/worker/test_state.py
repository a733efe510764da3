"""The worker core, one behaviour at a time: events in, exactly these commands out.

Graphs are drawn with task ids; `w0: 1, 2` says that the plan gives tasks 1 and 2 to worker 0. Tasks without a
worker are flexible. The platform runs four workers at once unless a test says otherwise.
"""

import pytest

from augury.config import Resources
from augury.storage.protocols import Status
from augury.worker.messages import (
    CleanUp,
    Discard,
    Fail,
    Finished,
    FlushDue,
    Invoke,
    Leave,
    OutputStored,
    Run,
    Send,
    StopRequested,
    Store,
    TaskRaised,
)
from tests.worker.shapes import BIG, LARGE, SMALL, Core, flexible


class TestChains:
    def test_a_chain_stays_local_and_reports_only_its_sink(self) -> None:
        """0 → 1 → 2"""
        core = Core([[], [0], [1]])
        assert core.begin(0) == [Run(0)]
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Discard((0,)), Run(2)]
        assert core.finish(2) == [Discard((1,)), Send((Finished(2, SMALL),), ran=3)]
        assert core.answer(status=Status.SUCCEEDED) == [Discard((2,)), CleanUp(), Leave(Status.SUCCEEDED)]

    def test_after_the_end_nothing_is_handled(self) -> None:
        """0"""
        core = Core([[]])
        core.begin(0)
        core.finish(0)
        core.answer(status=Status.SUCCEEDED)
        assert core.tell(FlushDue()) == []
        assert core.tell(StopRequested()) == []

    def test_a_worker_leaves_when_it_has_nothing_left_though_the_run_goes_on(self) -> None:
        """0 is a sink, and so is 1"""
        core = Core([[], []])
        core.begin(0)
        core.finish(0)
        assert core.answer() == [Discard((0,)), Leave(Status.RUNNING)]

    def test_a_large_sink_is_stored_and_then_reported(self) -> None:
        """0"""
        core = Core([[]])
        core.begin(0)
        assert core.finish(0, LARGE) == [Store(0)]
        assert core.tell(OutputStored(0)) == [Send((Finished(0, LARGE, stored=True),), ran=1)]

    def test_a_sink_that_others_take_is_reported_while_its_consumer_runs(self) -> None:
        """0 → 1, both are sinks"""
        core = Core([[], [0]], sinks=(0, 1))
        core.begin(0)
        assert core.finish(0) == [Run(1)]
        assert core.state.unreported
        assert core.tell(FlushDue()) == [Send((Finished(0, SMALL),), ran=1)]
        assert core.answer() == []
        assert core.finish(1) == [Discard((0,)), Send((Finished(1, SMALL),), ran=1)]

    def test_a_task_that_needs_more_than_we_have_goes_to_a_worker_that_has_it(self) -> None:
        """0 → 1, and 1 needs much memory"""
        core = Core([[], [0]], needs={1: BIG})
        core.begin(0)
        assert core.state.leaves(0)
        assert core.finish(0) == [Send((Finished(0, SMALL, keep=True),), claims=(flexible(1, resources=BIG),), ran=1)]
        assert core.answer(started=[("t1", 1)]) == [
            Invoke((flexible(1, resources=BIG),)),
            Discard((0,)),
            Leave(Status.RUNNING),
        ]


class TestReports:
    def test_one_report_is_under_way_at_a_time(self) -> None:
        """0, 1 and 2 are sinks"""
        core = Core([[], [], []])
        core.begin(0, 1, 2)
        core.finish(0)
        core.tell(FlushDue())
        assert core.finish(1) == [Run(2)]
        assert core.tell(FlushDue()) == []
        assert core.answer() == [Discard((0,)), Send((Finished(1, SMALL),), ran=1)]

    def test_an_output_on_its_way_stays_in_memory_though_its_last_consumer_has_run(self) -> None:
        """0 → 1, both are sinks"""
        core = Core([[], [0]], sinks=(0, 1))
        core.begin(0)
        core.finish(0)
        core.tell(FlushDue())
        assert core.finish(1) == []
        assert core.answer() == [Discard((0,)), Send((Finished(1, SMALL),), ran=1)]

    def test_what_finishes_while_tasks_run_shares_a_report(self) -> None:
        """0, 1 and 2 are sinks"""
        core = Core([[], [], []])
        core.begin(0, 1, 2)
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Run(2)]
        assert core.finish(2) == [Send((Finished(0, SMALL), Finished(1, SMALL), Finished(2, SMALL)), ran=3)]

    def test_while_an_output_is_stored_the_others_are_reported(self) -> None:
        """0 and 1 are sinks, and 0 is large"""
        core = Core([[], []])
        core.begin(0, 1)
        core.finish(0, LARGE)
        assert core.finish(1) == [Store(0), Send((Finished(1, SMALL),), ran=2)]

    def test_an_output_that_is_being_stored_is_nothing_to_be_flushed(self) -> None:
        """0 and 1 are sinks, and 0 is large"""
        core = Core([[], []])
        core.begin(0, 1)
        core.finish(0, LARGE)
        assert core.state.unreported
        assert core.tell(FlushDue()) == [Store(0)]  # no report, which the one that matters would have to wait for
        assert not core.state.unreported

    def test_progress_alone_is_reported_only_when_the_runner_asks(self) -> None:
        """0 → 1 → 2, all on one worker"""
        core = Core([[], [0], [1]])
        core.begin(0)
        assert core.finish(0) == [Run(1)]
        assert not core.state.unreported
        assert core.tell(FlushDue()) == [Send(ran=1)]
        assert core.answer() == []

    @pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED, Status.GONE])
    def test_a_run_that_is_over_is_left(self, status: Status) -> None:
        """0 and 1 are sinks"""
        core = Core([[], []])
        core.begin(0, 1)
        core.finish(0)
        core.tell(FlushDue())
        assert core.answer(status=status) == [Leave(status)]


class TestFailures:
    def test_a_task_is_tried_again_as_often_as_it_may_be(self) -> None:
        """0, with two retries"""
        core = Core([[]], retries=2)
        core.begin(0)
        assert core.tell(TaskRaised(0, b"first")) == [Run(0, attempt=2)]
        assert core.tell(TaskRaised(0, b"second")) == [Run(0, attempt=3)]
        assert core.tell(TaskRaised(0, b"third")) == [Fail(0, b"third"), Leave(Status.FAILED)]

    def test_a_retry_may_succeed(self) -> None:
        """0 → 1, with one retry each"""
        core = Core([[], [0]], retries=1)
        core.begin(0)
        core.tell(TaskRaised(0, b"first"))
        assert core.finish(0) == [Run(1)]
        assert core.tell(TaskRaised(1, b"first")) == [Run(1, attempt=2)]

    def test_what_cannot_succeed_is_not_tried_again(self) -> None:
        """0, with two retries"""
        core = Core([[]], retries=2)
        core.begin(0)
        assert core.tell(TaskRaised(0, b"never", retryable=False)) == [Fail(0, b"never"), Leave(Status.FAILED)]

    def test_a_stop_ends_the_worker_whatever_it_does(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        core = Core([[], [0]], "w1", planned={0: 0, 1: 1})
        core.begin()
        assert core.tell(StopRequested()) == [Leave(Status.GONE)]


class TestTaskSlots:
    TWO = Resources(cpus=2)

    def test_two_tasks_run_at_once(self) -> None:
        """0, 1 and 2 are sinks"""
        core = Core([[], [], []], has=self.TWO)
        assert core.begin(0, 1, 2) == [Run(0), Run(1)]
        assert core.finish(1) == [Run(2)]

    def test_a_fan_out_fills_our_own_slots_before_others_are_asked(self) -> None:
        """0 → 1, 2, 3"""
        core = Core([[], [0], [0], [0]], has=self.TWO)
        core.begin(0)
        commands = core.finish(0)
        assert commands[:2] == [Run(1), Run(2)]
        assert isinstance(commands[2], Send)
        assert commands[2].claims == (flexible(3),)

    def test_a_free_slot_does_not_send_a_report_while_another_task_runs(self) -> None:
        """0 and 1 are sinks"""
        core = Core([[], []], has=self.TWO)
        core.begin(0, 1)
        assert core.finish(0) == []
        assert core.state.unreported
        assert core.finish(1) == [Send((Finished(0, SMALL), Finished(1, SMALL)), ran=2)]

    def test_a_retry_keeps_its_slot(self) -> None:
        """0 and 1 are sinks, with one retry each"""
        core = Core([[], [], []], has=self.TWO, retries=1)
        core.begin(0, 1, 2)
        assert core.tell(TaskRaised(0, b"first")) == [Run(0, attempt=2)]


def test_sizes_are_asked_for_only_where_an_output_may_leave() -> None:
    """0 → 1 → 2 → 3, 4      w0: 1, 2"""
    core = Core([[], [0], [1], [2], [2]], planned={1: 0, 2: 0})
    assert [core.state.leaves(task) for task in range(5)] == [True, False, True, True, True]


def test_an_output_stays_in_memory_until_its_report_is_answered() -> None:
    """0 → 1, 2: the value of 0 is needed while it is stored and reported, though 1 has taken it already."""
    core = Core([[], [0], [0]])
    core.begin(0)
    core.finish(0, LARGE)
    assert core.finish(1) == [Send((Finished(1, SMALL),), ran=2)]
    assert core.answer() == [Discard((1,))]
    assert core.tell(OutputStored(0)) == [Send((Finished(0, LARGE, stored=True, keep=True),), claims=(flexible(2),))]
    assert core.answer(started=[("t2", 1)]) == [Invoke((flexible(2),)), Discard((0,)), Leave(Status.RUNNING)]


def test_a_broken_invariant_is_found() -> None:
    core = Core([[], [0]])
    core.begin(0)
    core.state._memory.values.add(1)
    with pytest.raises(AssertionError, match="values that nothing needs"):
        core.state.validate()
