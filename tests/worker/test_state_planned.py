"""Planned tasks in the worker core: local ones, foreign ones, flexible ones between them, and slots given up.

Graphs are drawn with task ids; `w0: 1, 2` says that the plan gives tasks 1 and 2 to worker 0. Tasks without a
worker are flexible. The platform runs four workers at once unless a test says otherwise.
"""

from augury.config import Resources
from augury.storage.protocols import Claim, Status
from augury.worker.messages import (
    Discard,
    Fetch,
    Fetched,
    Finished,
    FlushDue,
    InputsReady,
    Invoke,
    Leave,
    Listen,
    OutputStored,
    Run,
    Send,
    Store,
    Suspend,
    SuspendAnswered,
    WaitedLong,
)
from tests.worker.shapes import BIG, LARGE, SMALL, Core


class TestPlannedWorkers:
    def test_a_local_chain_costs_one_report_for_its_sink(self) -> None:
        """0 → 1 → 2      w0: 0, 1, 2"""
        core = Core([[], [0], [1]], "w0", planned={0: 0, 1: 0, 2: 0})
        assert core.begin() == [Run(0)]
        assert not core.state.leaves(0)
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Discard((0,)), Run(2)]
        assert core.finish(2) == [Discard((1,)), Send((Finished(2, SMALL),), ran=3)]

    def test_a_local_diamond_needs_no_round_trip(self) -> None:
        """0 → 1, 2 → 3      w0: all of them"""
        core = Core([[], [0], [0], [1, 2]], "w0", planned=dict.fromkeys(range(4), 0))
        assert core.begin() == [Run(0)]
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Run(2)]
        assert core.finish(2) == [Discard((0,)), Run(3)]

    def test_it_listens_if_a_task_waits_for_another_worker(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        core = Core([[], [0]], "w1", planned={0: 0, 1: 1})
        assert core.begin() == [Listen()]
        assert core.state.idle
        assert core.state.awaited == [1]
        assert core.tell(InputsReady(1)) == [Fetch((0,))]
        assert core.tell(Fetched((0,))) == [Run(1)]

    def test_small_inputs_come_with_the_wake_up(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        core = Core([[], [0]], "w1", planned={0: 0, 1: 1})
        core.begin()
        assert core.tell(InputsReady(1, (0,))) == [Run(1)]

    def test_a_wake_up_that_comes_again_changes_nothing(self) -> None:
        """0 → 1, 2      w0: 0      w1: 1, 2"""
        core = Core([[], [0], [0]], "w1", planned={0: 0, 1: 1, 2: 1})
        core.begin()
        core.tell(InputsReady(1, (0,)))
        assert core.tell(InputsReady(1, (0,))) == []

    def test_a_task_waits_for_its_local_and_its_foreign_inputs(self) -> None:
        """0, 1 → 2      w0: 0      w1: 1, 2"""
        core = Core([[], [], [0, 1]], "w1", planned={0: 0, 1: 1, 2: 1})
        assert core.begin() == [Listen(), Run(1)]
        assert core.finish(1) == []
        assert core.tell(InputsReady(2, (0,))) == [Run(2)]

    def test_an_input_that_several_tasks_share_is_fetched_once(self) -> None:
        """0 → 1, 2, 3      w0: 0      w1: 1, 2, 3"""
        core = Core([[], [0], [0], [0]], "w1", planned={0: 0, 1: 1, 2: 1, 3: 1})
        core.begin()
        assert core.tell(InputsReady(1)) == [Fetch((0,))]
        assert core.tell(InputsReady(2)) == []
        assert core.tell(InputsReady(3)) == []
        assert core.tell(Fetched((0,))) == [Run(1)]
        assert core.finish(1) == [Run(2)]
        assert core.finish(2) == [Run(3)]
        assert core.finish(3)[0] == Discard((0,))

    def test_the_inputs_of_many_tasks_are_fetched_in_one_round_trip(self) -> None:
        """0 … 9 → 10 … 19, one each      w0: 0 … 9      w1: 10 … 19"""
        deps = [*[[]] * 10, *([task] for task in range(10))]
        core = Core(deps, "w1", planned={task: task // 10 for task in range(20)})
        assert core.begin(done=range(10)) == [Fetch(tuple(range(10)))]
        assert core.tell(Fetched(tuple(range(10)))) == [Run(10)]

    def test_a_foreign_consumer_is_reported_and_its_worker_started_if_storage_says_so(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        core = Core([[], [0]], "w0", planned={0: 0, 1: 1})
        core.begin()
        assert core.finish(0) == [Send((Finished(0, SMALL, (1,)),), ran=1)]
        assert core.answer(started=[("w1", 1)]) == [
            Invoke((Claim("w1", (), Resources()),)),
            Discard((0,)),
            Leave(Status.RUNNING),
        ]

    def test_a_worker_that_was_suspended_is_started_with_its_next_attempt(self) -> None:
        """0 → 1      w0: 0      w1: 1, which has started twice"""
        core = Core([[], [0]], "w0", planned={0: 0, 1: 1}, needs={1: BIG})
        core.begin()
        core.finish(0)
        assert core.answer(started=[("w1", 3)])[0] == Invoke((Claim("w1", (), BIG, attempt=3),))

    def test_a_large_output_for_another_worker_is_stored_before_it_is_reported(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        core = Core([[], [0]], "w0", planned={0: 0, 1: 1})
        core.begin()
        assert core.finish(0, LARGE) == [Store(0)]
        assert core.tell(OutputStored(0)) == [Send((Finished(0, LARGE, (1,), stored=True),), ran=1)]


class TestMixedPlans:
    def test_a_planned_worker_goes_on_with_a_flexible_consumer(self) -> None:
        """0 → 1      w0: 0"""
        core = Core([[], [0]], "w0", planned={0: 0})
        core.begin()
        assert core.finish(0) == [Run(1)]

    def test_a_flexible_worker_reports_for_a_planned_consumer(self) -> None:
        """0 → 1      w0: 1"""
        core = Core([[], [0]], planned={1: 0})
        core.begin(0)
        assert core.finish(0) == [Send((Finished(0, SMALL, (1,)),), ran=1)]

    def test_a_flexible_task_that_a_planned_worker_ran_is_counted_in_storage_even_for_that_worker(self) -> None:
        """0 → 1 → 2      w0: 0, 2: the counters of 2 are in storage, as anyone might have run 1"""
        core = Core([[], [0], [1]], "w0", planned={0: 0, 2: 0})
        assert core.begin() == [Listen(), Run(0)]
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Discard((0,)), Send((Finished(1, SMALL, (2,)),), ran=2)]
        assert core.answer() == []
        assert core.tell(InputsReady(2, (1,))) == [Run(2)]

    def test_it_has_its_own_output_in_memory_then(self) -> None:
        """0 → 1 → 2      w0: 0, 2, and 1 is large"""
        core = Core([[], [0], [1]], "w0", planned={0: 0, 2: 0})
        core.begin()
        core.finish(0)
        assert core.finish(1, LARGE) == [Discard((0,)), Store(1)]
        core.tell(OutputStored(1))
        core.answer()
        assert core.tell(InputsReady(2)) == [Run(2)]


class TestGivingTheSlotUp:
    """
    0 → 1 ─┐
           ├─ 3      w0: 0, 1, 3      w1: 2
    2 ─────┘
    """

    @staticmethod
    def waiting() -> Core:
        """A worker that has run 0 and 1 and waits for 2."""
        core = Core([[], [0], [], [1, 2]], "w0", planned={0: 0, 1: 0, 2: 1, 3: 0})
        core.begin()
        core.finish(0)
        core.finish(1)
        return core

    def test_what_later_tasks_need_is_stored_and_what_is_done_is_reported(self) -> None:
        core = self.waiting()
        assert core.state.needed_later() == [1]
        assert core.tell(WaitedLong({1: SMALL})) == [Send((Finished(0), Finished(1, SMALL, keep=True)), ran=2)]
        assert core.answer() == [Suspend()]
        assert core.state.suspending

    def test_a_large_output_is_stored_first(self) -> None:
        core = self.waiting()
        assert core.tell(WaitedLong({1: LARGE})) == [Store(1), Send((Finished(0),), ran=2)]
        assert core.answer() == []
        assert core.tell(OutputStored(1)) == [Send((Finished(1, LARGE, stored=True, keep=True),))]
        assert core.answer() == [Suspend()]

    def test_granted_it_leaves(self) -> None:
        core = self.waiting()
        core.tell(WaitedLong({1: SMALL}))
        core.answer()
        assert core.tell(SuspendAnswered(granted=True)) == [Leave(Status.RUNNING, suspended=True)]

    def test_refused_it_goes_on_and_may_ask_again_at_once(self) -> None:
        core = self.waiting()
        core.tell(WaitedLong({1: SMALL}))
        core.answer()
        assert core.tell(SuspendAnswered(granted=False)) == []
        assert core.state.needed_later() == []
        assert core.tell(WaitedLong()) == [Suspend()]
        core.tell(SuspendAnswered(granted=False))
        assert core.tell(InputsReady(3, (2,))) == [Run(3)]

    def test_what_comes_before_it_is_carried_out_makes_it_pointless_too(self) -> None:
        core = self.waiting()
        core.tell(WaitedLong({1: SMALL}))
        assert core.answer() == [Suspend()]
        assert core.tell(InputsReady(3, (2,))) == [Run(3)]
        assert not core.state.suspending

    def test_even_if_its_inputs_must_be_fetched_first(self) -> None:
        core = self.waiting()
        core.tell(WaitedLong({1: SMALL}))
        core.answer()
        assert core.tell(InputsReady(3)) == [Fetch((2,))]
        assert not core.state.suspending

    def test_it_asks_once_at_a_time(self) -> None:
        core = self.waiting()
        core.tell(WaitedLong({1: SMALL}))
        core.answer()
        assert core.tell(FlushDue()) == []
        assert core.tell(WaitedLong()) == []

    def test_what_comes_before_the_question_makes_it_pointless(self) -> None:
        core = self.waiting()
        core.tell(WaitedLong({1: SMALL}))
        assert core.tell(InputsReady(3, (2,))) == [Run(3)]
        assert core.answer() == []
        core.finish(3)
        assert core.answer() == [Discard((3,)), Leave(Status.RUNNING)]

    def test_the_next_attempt_goes_on_from_what_is_done(self) -> None:
        core = Core([[], [0], [], [1, 2]], "w0", planned={0: 0, 1: 0, 2: 1, 3: 0})
        assert core.begin(done=[0, 1]) == [Listen()]
        assert core.tell(InputsReady(3, (2,))) == [Fetch((1,))]
        assert core.tell(Fetched((1,))) == [Run(3)]

    def test_the_next_attempt_does_not_wait_for_what_is_done(self) -> None:
        core = Core([[], [0], [], [1, 2]], "w0", planned={0: 0, 1: 0, 2: 1, 3: 0})
        assert core.begin(done=[0, 1, 2]) == [Fetch((1, 2))]

    def test_an_attempt_that_finds_everything_done_leaves(self) -> None:
        core = Core([[], [0], [], [1, 2]], "w0", planned={0: 0, 1: 0, 2: 1, 3: 0})
        assert core.begin(done=[0, 1, 2, 3]) == [Leave(Status.RUNNING)]

    def test_inputs_of_done_tasks_that_come_again_are_forgotten(self) -> None:
        core = Core([[], [0], [], [1, 2]], "w1", planned={0: 0, 1: 1, 2: 0, 3: 1})
        core.begin(done=[0, 1])
        assert core.tell(InputsReady(1, (0,))) == [Discard((0,))]

    def test_a_worker_that_is_busy_does_not_give_its_slot_up(self) -> None:
        core = Core([[], [0], [], [1, 2]], "w0", planned={0: 0, 1: 0, 2: 1, 3: 0})
        core.begin()
        assert core.tell(WaitedLong()) == []
