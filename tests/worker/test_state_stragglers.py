"""A task that takes much longer than expected is run by a second worker too; what comes first counts."""

from augury.config import Resources
from augury.storage.protocols import Claim, Status
from augury.worker.messages import (
    Abandon,
    Discard,
    Fetch,
    Finished,
    FlushDue,
    Invoke,
    Leave,
    Listen,
    Run,
    Send,
    Straggles,
    TaskAbandoned,
    TaskFinished,
    TaskRaised,
    TasksCompleted,
    WindDown,
)
from tests.worker.shapes import SMALL, Core

SECOND = "s1/w0"
CLAIM = Claim(SECOND, (1,), Resources())


def first() -> Core:
    """0 → 1 → 2, all on w0, where 1 takes long."""
    core = Core([[], [0], [1]], "w0", planned={0: 0, 1: 0, 2: 0})
    core.begin()
    core.finish(0)
    return core


def second() -> Core:
    return Core([[], [0], [1]], SECOND, planned={0: 0, 1: 0, 2: 0})


class TestTheFirst:
    def test_a_second_worker_is_claimed_with_the_inputs_in_storage(self) -> None:
        core = first()
        expected = Send((Finished(0, SMALL, keep=True),), claims=(CLAIM,), ran=1)
        assert core.tell(Straggles(1, {0: SMALL})) == [Listen(), expected]
        assert core.answer(started=[(SECOND, 1)]) == [Invoke((CLAIM,))]

    def test_once(self) -> None:
        core = first()
        core.tell(Straggles(1, {0: SMALL}))
        core.answer(started=[(SECOND, 1)])
        assert core.tell(Straggles(1, {0: SMALL})) == []

    def test_not_if_its_inputs_cannot_be_stored(self) -> None:
        assert first().tell(Straggles(1)) == []

    def test_not_if_its_time_is_nearly_up(self) -> None:
        core = first()
        core.tell(WindDown())
        assert core.tell(Straggles(1, {0: SMALL})) == []

    def test_if_it_is_done_first_after_all_the_second_is_told(self) -> None:
        core = first()
        core.tell(Straggles(1, {0: SMALL}))
        core.answer(started=[(SECOND, 1)])
        assert core.finish(1) == [Discard((0,)), Run(2)]
        assert core.finish(2) == [
            Send((Finished(1, SMALL, keep=True, watchers=(SECOND,)), Finished(2, SMALL)), ran=2),
        ]

    def test_what_cannot_leave_and_need_not_stays(self) -> None:
        core = first()
        assert not core.state.may_stay(1)
        core.tell(Straggles(1, {0: SMALL}))
        core.answer(started=[(SECOND, 1)])
        assert core.state.may_stay(1)
        assert core.tell(TaskFinished(1, stays=True)) == [Discard((0,)), Run(2)]
        assert core.tell(TasksCompleted((1,))) == []
        assert core.finish(2) == [Discard((1,)), Send((Finished(2, SMALL),), ran=2)]

    def test_if_the_second_was_faster_it_goes_on_with_its_output(self) -> None:
        core = first()
        core.tell(Straggles(1, {0: SMALL}))
        core.answer(started=[(SECOND, 1)])
        assert core.tell(TasksCompleted((1,), (1,))) == [Abandon(1)]
        assert core.tell(TaskAbandoned(1)) == [Discard((0,)), Run(2)]


class TestNoRoom:
    """0 → 1, both on w0, on a platform with two slots; another worker of the run has the second one."""

    CLAIM = Claim("s0/w0", (0,), Resources())

    def full(self, retries: int = 0) -> Core:
        core = Core([[], [0]], "w0", planned={0: 0, 1: 0}, concurrency=2, retries=retries)
        core.begin(live=2)
        return core

    def test_what_is_known_may_be_old_so_it_is_asked_for(self) -> None:
        core = self.full()
        assert core.tell(Straggles(0)) == [Send()]
        assert core.answer(live=1) == [Listen(), Send(claims=(self.CLAIM,))]

    def test_it_is_asked_for_again_until_there_is_room(self) -> None:
        core = self.full()
        core.tell(Straggles(0))
        for _ in range(2):
            assert core.answer(live=2) == []
            assert core.tell(FlushDue(9.0)) == [Send()]
        assert core.answer(live=1) == [Listen(), Send(claims=(self.CLAIM,))]
        assert core.answer(live=2, started=[("s0/w0", 1)]) == [Invoke((self.CLAIM,))]
        assert core.tell(FlushDue(10.0)) == []

    def test_not_once_it_has_ended(self) -> None:
        core = self.full()
        core.tell(Straggles(0))
        core.answer(live=2)
        assert core.finish(0) == [Run(1)]
        assert core.tell(FlushDue(0.1)) == [Send(ran=1)]
        assert core.answer(live=1) == []

    def test_its_next_try_is_late_in_its_turn(self) -> None:
        core = self.full(retries=1)
        core.tell(Straggles(0))
        core.answer(live=2)
        assert core.tell(TaskRaised(0, b"why", retryable=True)) == [Run(0, 2)]
        assert core.tell(FlushDue(0.1)) == []
        assert core.tell(Straggles(0)) == [Send()]

    def test_those_that_there_is_room_for(self) -> None:
        core = Core([[], []], "w0", planned={0: 0, 1: 0}, concurrency=2, has=Resources(cpus=2))
        core.begin(live=2)
        core.tell(Straggles(0))
        core.tell(Straggles(1))
        assert core.answer(live=1) == [Listen(), Send(claims=(self.CLAIM,))]


class TestTheSecond:
    def test_it_fetches_its_inputs_and_listens(self) -> None:
        assert second().begin(1) == [Listen(), Fetch((0,))]

    def test_what_it_makes_has_to_leave(self) -> None:
        assert not second().state.may_stay(1)

    def test_its_failure_does_not_count(self) -> None:
        core = Core([[], [0]], "s0/w0", planned={0: 0, 1: 0})
        assert core.begin(0) == [Listen(), Run(0)]
        assert core.tell(TaskRaised(0, b"why")) == [Leave(Status.RUNNING)]

    def test_what_it_has_done_is_told_to_the_first_who_goes_on(self) -> None:
        core = Core([[], [0]], "s0/w0", planned={0: 0, 1: 0})
        core.begin(0)
        assert core.finish(0) == [Send((Finished(0, SMALL, keep=True, watchers=("w0",)),), ran=1)]
        assert core.answer() == [Discard((0,)), Leave(Status.RUNNING)]

    def test_if_the_first_was_faster_it_stops(self) -> None:
        core = Core([[], [0]], "s0/w0", planned={0: 0, 1: 0})
        core.begin(0)
        assert core.tell(TasksCompleted((0,))) == [Abandon(0)]
        assert core.tell(TaskAbandoned(0)) == [Leave(Status.RUNNING)]


class TestFlexible:
    """0 → 1, 2; 0 takes long on t0."""

    def test_all_consumers_are_counted_in_storage(self) -> None:
        core = Core([[], [0], [0]])
        core.begin(0)
        assert core.tell(Straggles(0)) == [
            Listen(),
            Send(claims=(Claim("s0/t0", (0,), Resources()),)),
        ]
        core.answer(started=[("s0/t0", 1)])
        assert core.finish(0) == [Send((Finished(0, SMALL, (1, 2), keep=True, watchers=("s0/t0",)),), ran=1)]

    def test_what_cannot_leave_is_taken_here_if_it_would_be_without_a_second(self) -> None:
        """0 → 1; 0 takes long on t0."""
        core = Core([[], [0]])
        core.begin(0)
        core.tell(Straggles(0))
        core.answer(started=[("s0/t0", 1)])
        assert core.tell(TaskFinished(0, stays=True)) == [Run(1)]

    def test_what_others_take_cannot_stay(self) -> None:
        core = Core([[], [0], [0]])
        core.begin(0)
        core.tell(Straggles(0))
        assert not core.state.may_stay(0)

    def test_if_the_second_was_faster_nothing_is_left_to_do(self) -> None:
        core = Core([[], [0], [0]])
        core.begin(0)
        core.tell(Straggles(0))
        core.answer(started=[("s0/t0", 1)])
        assert core.tell(TasksCompleted((0,))) == [Abandon(0)]
        assert core.tell(TaskAbandoned(0)) == [Leave(Status.RUNNING)]
