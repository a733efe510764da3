"""What is queued behind running tasks goes to other workers, once there is room for them and it is worth a start.

Graphs are drawn with task ids. The platform runs two workers at once, and takes a second to start one.
"""

import pytest

from augury.config import Resources
from augury.storage.protocols import Claim, Published
from augury.worker.messages import Command, Discard, Finished, FlushDue, Invoke, OutputStored, Run, Send, Store
from augury.worker.sharing import handed_on
from tests.worker.shapes import LARGE, SMALL, Core


def second_hand(*tasks: int, generation: int = 1) -> Claim:
    """A worker for tasks that another one had in its queue."""
    return Claim(f"t{tasks[0]}.{generation}", tasks, Resources())


class TestRoots:
    """0, 1, 2, 3 and 4 are sinks; all of them came to this worker, as there was no room for another"""

    @staticmethod
    def busy(live: int = 1) -> Core:
        core = Core([[]] * 5, concurrency=2)
        assert core.begin(0, 1, 2, 3, 4, live=live) == [Run(0)]
        assert core.state.queued
        return core

    def test_half_of_a_long_queue_is_handed_on(self) -> None:
        core = self.busy()
        assert core.tell(FlushDue(running_s=5.0)) == [Send(claims=(second_hand(3, 4),))]
        assert core.answer(started=[("t3.1", 1)], live=2) == [Invoke((second_hand(3, 4),))]
        assert core.finish(0) == [Run(1)]

    def test_how_long_tasks_took_tells_how_long_the_queue_is(self) -> None:
        core = self.busy()
        core.finish(0, duration_s=5.0)
        commands = core.tell(FlushDue())
        assert commands == [Send((Finished(0, SMALL),), claims=(second_hand(3, 4),), ran=1)]

    def test_what_a_start_would_take_longer_than_stays(self) -> None:
        core = self.busy()
        assert core.tell(FlushDue(running_s=0.1)) == []

    def test_without_room_everything_stays(self) -> None:
        core = self.busy(live=2)
        assert second_hand(3, 4) not in claims_in(core.tell(FlushDue(running_s=5.0)))

    def test_room_is_noticed_with_the_next_report(self) -> None:
        core = self.busy(live=2)
        assert core.tell(FlushDue(running_s=5.0)) == [Send()]
        assert core.answer(live=1) == [Send(claims=(second_hand(3, 4),))]

    def test_what_was_handed_on_may_be_handed_on_again_under_another_name(self) -> None:
        core = Core([[]] * 3, "t1.1", concurrency=2)
        core.begin(1, 2)
        assert claims_in(core.tell(FlushDue(running_s=5.0))) == [second_hand(2, generation=2)]

    def test_nobody_asks_for_room_for_tasks_that_only_this_worker_may_run(self) -> None:
        core = Core([[]] * 5, "w0", planned=dict.fromkeys(range(5), 0), concurrency=2)
        assert core.begin(live=2) == [Run(0)]
        assert not core.state.queued
        assert core.tell(FlushDue(running_s=5.0)) == []

    def test_nor_where_others_may_run_other_tasks(self) -> None:
        core = Core([[]] * 5, "w0", planned=dict.fromkeys(range(4), 0), concurrency=2)
        assert core.begin(live=2) == [Run(0)]
        assert core.tell(FlushDue(running_s=5.0)) == []

    def test_planned_tasks_stay(self) -> None:
        core = Core([[]] * 3, "w0", planned=dict.fromkeys(range(3), 0), concurrency=2)
        core.begin()
        assert claims_in(core.tell(FlushDue(running_s=5.0))) == []


class TestInputs:
    """0 → 1, 2, 3, which all stay here, as there is no room: 1 runs and 2 and 3 are queued"""

    @staticmethod
    def busy(size_bytes: int) -> Core:
        core = Core([[], [0], [0], [0]], concurrency=2)
        core.begin(0, live=2)
        assert core.finish(0, size_bytes) == [Run(1)]
        core.tell(FlushDue())
        core.answer(live=1)
        return core

    def test_they_are_put_into_storage_with_the_claim(self) -> None:
        core = self.busy(SMALL)
        assert core.tell(FlushDue(running_s=5.0)) == [
            Send((Finished(0, SMALL, keep=True),), claims=(second_hand(3),)),
        ]

    def test_large_ones_before_it(self) -> None:
        core = self.busy(LARGE)
        assert core.tell(FlushDue(running_s=5.0)) == [Store(0), Send()]  # is there more room?
        assert core.answer(live=1) == []
        assert core.tell(OutputStored(0)) == [
            Send((Finished(0, LARGE, stored=True, keep=True),), claims=(second_hand(3),)),
        ]

    def test_they_are_forgotten_when_nothing_here_takes_them_any_more(self) -> None:
        core = self.busy(SMALL)
        core.tell(FlushDue(running_s=5.0))
        core.answer(started=[("t3.1", 1)], live=2)
        core.finish(1)
        assert Discard((0,)) in core.finish(2)


@pytest.mark.parametrize("size_bytes", [SMALL, LARGE])
def test_an_input_on_its_way_that_storage_may_not_keep_is_published(size_bytes: int) -> None:
    """0 → 1, 2, 3 and 0, 4 → 5; 6 is a sink: 5 becomes ready for us with 0, so that storage does not keep 0"""
    core = Core([[], [0], [0], [0], [], [0, 4], []], concurrency=2)
    core.begin(6, 0, live=2)
    core.finish(6)
    core.tell(FlushDue())
    core.finish(0, size_bytes)
    core.answer(live=1)
    assert core.tell(FlushDue()) == [Send((Finished(0, size_bytes, (5,)),), ran=1)]
    handed_on = core.tell(FlushDue(running_s=5.0))
    answered = core.answer(ready=[5], live=1)
    published = Send(published=(Published(0, size_bytes),), claims=(second_hand(3),))
    if size_bytes == SMALL:
        assert (handed_on, answered) == ([], [published])
    else:
        assert (handed_on, answered) == ([Store(0)], [Send()])  # is there more room?
        assert core.tell(OutputStored(0)) == []
        assert core.answer(live=1) == [published]


def claims_in(commands: list[Command]) -> list[Claim]:
    return [claim for command in commands if isinstance(command, Send) for claim in command.claims]


class TestSeveralSlots:
    """Workers that run four tasks at once: those that are given tasks are given as many as keep them busy."""

    FOUR = Resources(cpus=4)

    def core(self, tasks: int, concurrency: int) -> Core:
        core = Core([[]] * tasks, concurrency=concurrency, has=self.FOUR, needs=dict.fromkeys(range(tasks), self.FOUR))
        core.begin(*range(tasks))
        return core

    def test_nobody_gets_one_task_if_four_are_queued(self) -> None:
        (claim,) = claims_in(self.core(8, concurrency=100).tell(FlushDue(running_s=5.0)))
        assert claim.tasks == (4, 5, 6, 7)

    def test_what_is_more_than_there_is_room_for_is_shared_evenly(self) -> None:
        """4 run, and 14 are queued; two others and this one have six each"""
        claims = claims_in(self.core(18, concurrency=3).tell(FlushDue(running_s=5.0)))
        assert [len(claim.tasks) for claim in claims] == [6, 6]

    @pytest.mark.parametrize(
        ("tasks", "slots", "room", "found"),
        [(4, 1, 1, (2, 1)), (3, 1, 100, (0, 3)), (13, 4, 100, (0, 4)), (1, 4, 100, (0, 1)), (14, 4, 2, (2, 2))],
    )
    def test_how_many_stay(self, tasks: int, slots: int, room: int, found: tuple[int, int]) -> None:
        assert handed_on(tasks, slots, room) == found
