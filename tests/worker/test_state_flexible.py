"""Flexible tasks in the worker core: who goes on with them, who is asked to, and what travels.

Graphs are drawn with task ids; `w0: 1, 2` says that the plan gives tasks 1 and 2 to worker 0. Tasks without a
worker are flexible. The platform runs four workers at once unless a test says otherwise.
"""

from augury.storage.protocols import Published, Status
from augury.worker.messages import (
    Discard,
    Fetch,
    Fetched,
    Finished,
    FlushDue,
    Invoke,
    Leave,
    OutputStored,
    Run,
    Send,
    Store,
)
from tests.worker.shapes import BIG, LARGE, SMALL, Core, flexible


class TestFanOut:
    """
    0 ─┬─ 1
       ├─ 2
       └─ … n
    """

    @staticmethod
    def core(consumers: int, concurrency: int = 4) -> Core:
        return Core([[], *[[0]] * consumers], concurrency=concurrency)

    def test_one_consumer_is_kept_and_the_others_are_claimed(self) -> None:
        core = self.core(3)
        core.begin(0)
        assert core.finish(0) == [
            Run(1),
            Send((Finished(0, SMALL, keep=True),), claims=(flexible(2), flexible(3)), ran=1),
        ]
        assert core.answer(started=[("t2", 1), ("t3", 1)], live=3) == [Invoke((flexible(2), flexible(3)))]

    def test_ten_ready_tasks_are_split_into_three_shares_on_a_platform_of_three(self) -> None:
        core = self.core(10, concurrency=3)
        core.begin(0)
        commands = core.finish(0)
        assert commands[0] == Run(1)
        assert isinstance(commands[1], Send)
        assert [claim.tasks for claim in commands[1].claims] == [(5, 6, 7), (8, 9, 10)]

    def test_few_tasks_stay_here_when_the_platform_has_no_room(self) -> None:
        core = self.core(3, concurrency=2)
        core.begin(0, live=2)
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Run(2)]

    def test_many_tasks_are_split_even_if_there_is_no_room_for_whoever_ends_first(self) -> None:
        core = self.core(10, concurrency=2)
        core.begin(0, live=2)
        commands = core.finish(0)
        assert commands[0] == Run(1)
        assert isinstance(commands[1], Send)
        assert [claim.tasks for claim in commands[1].claims] == [(6, 7, 8, 9, 10)]

    def test_on_a_platform_of_one_everything_stays_here(self) -> None:
        core = self.core(100, concurrency=1)
        core.begin(0)
        assert core.finish(0) == [Run(1)]
        assert not core.state.unreported

    def test_claims_on_their_way_count_as_workers(self) -> None:
        """0 → 1, 2, 3 and then 1 → 4, 5: three workers are on their way when 4 and 5 become ready."""
        core = Core([[], [0], [0], [0], [1], [1]], concurrency=3)
        core.begin(0)
        core.finish(0)
        core.finish(1)
        claims = (flexible(2), flexible(3))
        assert core.answer(started=[("t2", 1), ("t3", 1)], live=3) == [Invoke(claims), Discard((0,))]
        assert core.finish(4) == [Run(5)]

    def test_claims_that_wait_for_their_inputs_count_as_workers(self) -> None:
        """0 → 1, 2, 3 and then 1 → 4, 5: three workers are on their way when 4 and 5 become ready."""
        core = Core([[], [0], [0], [0], [1], [1]], concurrency=3)
        core.begin(0)
        core.finish(0, LARGE)  # the claims wait until 0 is stored
        core.tell(FlushDue())
        core.answer(live=1)
        assert core.finish(1) == [Run(4)]

    def test_a_large_input_is_stored_before_workers_are_claimed_for_its_consumers(self) -> None:
        core = self.core(2)
        core.begin(0)
        assert core.finish(0, LARGE) == [Store(0), Run(1)]
        assert not core.state.unreported
        assert core.tell(OutputStored(0)) == [
            Send((Finished(0, LARGE, stored=True, keep=True),), claims=(flexible(2),), ran=1)
        ]

    def test_the_value_is_forgotten_when_it_is_reported_and_no_consumer_is_left_here(self) -> None:
        core = self.core(2)
        core.begin(0)
        core.finish(0)
        core.answer(started=[("t2", 1)], live=2)
        assert core.finish(1) == [Discard((0,)), Send((Finished(1, SMALL),), ran=1)]

    def test_consumers_with_different_needs_get_different_workers(self) -> None:
        """0 → 1, 2, 3; 3 needs much memory"""
        core = Core([[], [0], [0], [0]], needs={3: BIG})
        core.begin(0)
        commands = core.finish(0)
        assert isinstance(commands[1], Send)
        assert commands[1].claims == (flexible(2), flexible(3, resources=BIG))


class TestFanIn:
    """
    0 ─┐
       ├─ 2
    1 ─┘
    """

    DEPS = ((), (), (0, 1))

    def test_who_makes_it_ready_goes_on(self) -> None:
        core = Core(self.DEPS, "t1")
        core.begin(1)
        assert core.finish(1) == [Send((Finished(1, SMALL, (2,)),), ran=1)]
        assert core.answer(ready=[2]) == [Fetch((0,))]
        assert core.tell(Fetched((0,))) == [Run(2)]

    def test_who_does_not_leaves(self) -> None:
        core = Core(self.DEPS)
        core.begin(0)
        core.finish(0)
        assert core.answer() == [Discard((0,)), Leave(Status.RUNNING)]

    def test_a_large_output_is_held_until_it_is_known_who_needs_it(self) -> None:
        core = Core(self.DEPS, "t1")
        core.begin(1)
        assert core.finish(1, LARGE) == [Send((Finished(1, LARGE, (2,)),), ran=1)]
        assert core.answer(ready=[2]) == [Fetch((0,))]
        core.tell(Fetched((0,)))
        assert core.finish(2) == [Discard((0,)), Discard((1,)), Send((Finished(2, SMALL),), ran=1)]

    def test_a_refused_one_is_stored_and_reported_again(self) -> None:
        core = Core(self.DEPS)
        core.begin(0)
        core.finish(0, LARGE)
        assert core.answer(store_first=[0]) == [Store(0)]
        assert core.tell(OutputStored(0)) == [Send((Finished(0, LARGE, (2,), stored=True, keep=True),))]
        assert core.answer() == [Discard((0,)), Leave(Status.RUNNING)]

    def test_if_all_inputs_are_made_here_before_a_report_nobody_is_told(self) -> None:
        core = Core(self.DEPS)
        core.begin(0, 1)
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Run(2)]
        assert core.finish(2) == [Discard((0,)), Discard((1,)), Send((Finished(2, SMALL),), ran=3)]

    def test_if_all_inputs_are_made_here_it_is_ours_though_one_was_reported(self) -> None:
        """Nobody else can make it ready, as 1 is never reported for it"""
        core = Core(self.DEPS)
        core.begin(0, 1)
        core.finish(0)
        assert core.tell(FlushDue()) == [Send((Finished(0, SMALL, (2,)),), ran=1)]
        assert core.finish(1) == [Run(2)]
        assert core.answer() == []

    def test_an_input_that_was_done_before_we_began_need_not_be_made_here(self) -> None:
        core = Core(self.DEPS, "t1")
        core.begin(1, done=[0])
        assert core.finish(1) == [Fetch((0,))]

    def test_a_task_that_is_run_again_is_reported_as_others_may_have_gone_on(self) -> None:
        core = Core(self.DEPS, "t1")
        core.begin(1, done=[1])
        assert core.finish(1) == [Send((Finished(1, SMALL, (2,)),), ran=1)]

    def test_an_output_that_is_refused_when_all_who_take_it_are_ours_is_not_stored(self) -> None:
        core = Core(self.DEPS)
        core.begin(0, 1)
        core.finish(0, LARGE)
        assert core.tell(FlushDue()) == [Send((Finished(0, LARGE, (2,)),), ran=1)]
        assert core.finish(1) == [Run(2)]
        assert core.answer(store_first=[0]) == []

    def test_while_an_input_is_stored_for_it_its_other_input_is_reported(self) -> None:
        core = Core(self.DEPS)
        core.begin(0, 1)
        core.finish(0, LARGE)
        core.tell(FlushDue())
        assert core.answer(store_first=[0]) == [Store(0)]
        assert core.finish(1) == [Send((Finished(1, SMALL, (2,)),), ran=1)]

    def test_a_large_input_on_its_way_is_stored_before_another_worker_is_claimed(self) -> None:
        core = Core(self.DEPS, needs={2: BIG})
        core.begin(0, 1)
        core.finish(0, LARGE)
        core.tell(FlushDue())
        assert core.finish(1) == [Store(0)]
        assert core.answer(store_first=[0]) == [Send((Finished(1, SMALL, keep=True),), taken=(2,), ran=1)]
        assert core.tell(OutputStored(0)) == []
        claims = (flexible(2, resources=BIG),)
        assert core.answer() == [Discard((1,)), Send(published=(Published(0, LARGE),), claims=claims)]

    def test_one_that_needs_more_than_we_have_is_handed_on_with_its_inputs(self) -> None:
        core = Core(self.DEPS, needs={2: BIG})
        core.begin(0, 1)
        core.finish(0)
        assert core.finish(1) == [
            Send(
                (Finished(0, SMALL, keep=True), Finished(1, SMALL, keep=True)),
                claims=(flexible(2, resources=BIG),),
                ran=2,
            )
        ]

    def test_inputs_that_another_consumer_needs_are_still_reported_for_that_one(self) -> None:
        """0, 1 → 2 and 1, 3 → 4; here run 0 and 1"""
        core = Core([[], [], [0, 1], [], [1, 3]])
        core.begin(0, 1)
        core.finish(0)
        assert core.finish(1) == [Run(2)]
        assert core.tell(FlushDue()) == [Send((Finished(1, SMALL, (4,)),), taken=(2,), ran=2)]

    def test_an_input_that_is_a_sink_is_reported_all_the_same(self) -> None:
        """0, 1 → 2, and 0 is a sink too"""
        core = Core(self.DEPS, sinks=(0, 2))
        core.begin(0, 1)
        core.finish(0)
        assert core.finish(1) == [Run(2)]
        assert core.tell(FlushDue()) == [Send((Finished(0, SMALL),), taken=(2,), ran=2)]

    def test_an_output_that_was_stored_while_its_report_was_refused_is_not_stored_again(self) -> None:
        """0, 1 → 2, which needs much memory; 0, 3 → 4, and 3 runs elsewhere"""
        core = Core([[], [], [0, 1], [], [0, 3]], needs={2: BIG})
        core.begin(0, 1)
        core.finish(0, LARGE)
        assert core.tell(FlushDue()) == [Send((Finished(0, LARGE, (2, 4)),), ran=1)]
        assert core.finish(1) == [Store(0)]
        assert core.tell(OutputStored(0)) == []
        assert core.answer(store_first=[0]) == [
            Send(
                (Finished(1, SMALL, keep=True), Finished(0, LARGE, (4,), stored=True, keep=True)),
                claims=(flexible(2, resources=BIG),),
                taken=(2,),
                ran=1,
            )
        ]

    def test_an_input_that_was_stored_meanwhile_is_not_stored_again_to_be_handed_on(self) -> None:
        """0, 1 → 2, which needs much memory; 0 → 3      w1: 3"""
        core = Core([[], [], [0, 1], [0]], planned={3: 1}, needs={2: BIG})
        core.begin(0, 1)
        core.finish(0, LARGE)
        assert core.tell(FlushDue()) == [Store(0)]
        assert core.tell(FlushDue()) == [Send(ran=1)]
        core.tell(OutputStored(0))
        assert core.finish(1) == []
        assert core.answer() == [
            Send(
                (Finished(0, LARGE, (3,), stored=True, keep=True), Finished(1, SMALL, keep=True)),
                claims=(flexible(2, resources=BIG),),
                taken=(2,),
                ran=1,
            )
        ]

    def test_what_became_ready_for_us_is_published_if_others_get_a_share(self) -> None:
        """0 and 1 → 2, 3: both are ready for whoever comes last, who hands one of them on"""
        core = Core([[], [], [0, 1], [0, 1]], "t1")
        core.begin(1)
        assert core.finish(1) == [Send((Finished(1, SMALL, (2, 3)),), ran=1)]
        assert core.answer(ready=[2, 3]) == [
            Fetch((0,)),
            Send(published=(Published(1, SMALL),), claims=(flexible(3),)),
        ]
        assert core.answer(started=[("t3", 1)], live=2) == [Invoke((flexible(3),))]

    def test_what_became_ready_for_us_is_stored_first_if_it_is_large_and_others_get_a_share(self) -> None:
        """0 and 1 → 2, 3"""
        core = Core([[], [], [0, 1], [0, 1]], "t1")
        core.begin(1)
        core.finish(1, LARGE)
        assert core.answer(ready=[2, 3]) == [Store(1), Fetch((0,))]
        assert core.tell(Fetched((0,))) == [Run(2)]
        assert core.tell(OutputStored(1)) == [Send(published=(Published(1, LARGE),), claims=(flexible(3),))]
        assert core.answer(started=[("t3", 1)], live=2) == [Invoke((flexible(3),))]

    def test_an_input_that_the_next_step_takes_too_stays_in_memory(self) -> None:
        """data 0 → step 1 → step 3, and 0 → 3; 2 → 3 too, which runs elsewhere"""
        core = Core([[], [0], [], [0, 1, 2]])
        core.begin(0)
        assert core.finish(0, LARGE) == [Run(1)]
        assert core.tell(FlushDue()) == [Send((Finished(0, LARGE, (3,)),), ran=1)]
        assert core.answer(store_first=[0]) == [Store(0)]
        core.tell(OutputStored(0))
        assert core.answer() == []
        assert core.finish(1) == [Send((Finished(1, SMALL, (3,)),), ran=1)]
        assert core.answer(ready=[3]) == [Fetch((2,))]

    def test_steps_over_the_same_data_need_no_round_trip(self) -> None:
        """data 0 → step 1 → step 2 → step 3, and 0 → 2, 3"""
        core = Core([[], [0], [0, 1], [0, 2]])
        core.begin(0)
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Run(2)]
        assert core.finish(2) == [Discard((1,)), Run(3)]

    def test_it_stays_until_an_output_that_was_refused_is_stored_and_reported(self) -> None:
        """data 0 → step 1 → step 3, and 0 → 3; 2 → 3 too, which runs elsewhere"""
        core = Core([[], [0], [], [0, 1, 2]])
        core.begin(0)
        core.finish(0)
        core.tell(FlushDue())
        core.answer()
        core.finish(1, LARGE)
        assert core.answer(store_first=[1]) == [Store(1)]
        core.tell(OutputStored(1))
        assert core.answer(ready=[3]) == [Fetch((2,))]

    def test_it_is_forgotten_after_the_next_step_if_that_turns_out_to_be_ours(self) -> None:
        """data 0 → step 1 → step 3, and 0 → 3; 2 → 3 too, which runs here as well"""
        core = Core([[], [0], [], [0, 1, 2]])
        core.begin(0, 2)
        core.finish(0)
        core.finish(1)
        assert core.finish(2) == [Run(3)]
        forgotten = [Discard((0,)), Discard((1,)), Discard((2,))]
        assert core.finish(3) == [*forgotten, Send((Finished(3, SMALL),), ran=4)]

    def test_it_is_let_go_when_the_next_step_is_for_someone_else(self) -> None:
        """data 0 → step 1 → step 3, and 0 → 3; 2 → 3 too, which runs elsewhere"""
        core = Core([[], [0], [], [0, 1, 2]])
        core.begin(0)
        core.finish(0)
        core.tell(FlushDue())
        core.answer()
        core.finish(1)
        assert core.answer() == [Discard((0,)), Discard((1,)), Leave(Status.RUNNING)]
