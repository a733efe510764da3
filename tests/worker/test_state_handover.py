"""Near the platform's time limit a worker puts what is needed into storage and has a successor go on."""

import pytest

from augury.dag.graph import FunctionInfo
from augury.storage.protocols import Published, Status, Tried
from augury.worker.messages import (
    Abandon,
    Alarm,
    AlarmRang,
    Discard,
    Fail,
    Finished,
    FlushDue,
    HandedOver,
    HandOver,
    HandOverDue,
    Leave,
    OutputStored,
    Run,
    Send,
    Store,
    TaskAbandoned,
    TaskRaised,
    WindDown,
)
from augury.worker.retries import pause_s
from tests.worker.shapes import LARGE, SMALL, Core


class TestChain:
    """0 → 1 → 2."""

    DEPS = ((), (0,), (1,))

    def test_a_worker_that_winds_down_starts_no_more_tasks(self) -> None:
        core = Core(self.DEPS)
        assert core.begin(0) == [Run(0)]
        assert core.tell(WindDown()) == []
        assert core.finish(0) == []
        assert core.state.quiet

    def test_what_the_successor_needs_is_stored_before_it_is_asked_for(self) -> None:
        core = Core(self.DEPS)
        core.begin(0)
        core.tell(WindDown())
        core.finish(0)
        assert core.state.needed_later() == [0]
        assert core.tell(HandOverDue({0: SMALL})) == [Send((Finished(0, SMALL, keep=True),), ran=1)]
        assert core.answer() == [HandOver()]
        assert core.tell(HandedOver()) == [Leave(Status.RUNNING, suspended=True)]

    def test_what_the_successor_needs_is_stored_while_the_last_task_runs(self) -> None:
        core = Core(self.DEPS)
        core.begin(0)
        assert core.finish(0) == [Run(1)]
        assert core.tell(WindDown({0: LARGE})) == [Store(0)]
        assert core.tell(WindDown({0: LARGE})) == []
        core.tell(OutputStored(0))
        core.answer()
        assert core.state.needed_later() == []
        assert core.tell(HandOverDue()) == [Abandon(1), HandOver(cut=True)]

    def test_a_large_output_is_written_first(self) -> None:
        core = Core(self.DEPS)
        core.begin(0)
        core.tell(WindDown())
        core.finish(0)
        assert core.tell(HandOverDue({0: LARGE})) == [Store(0)]
        assert core.tell(OutputStored(0)) == [Send((Finished(0, LARGE, stored=True, keep=True),), ran=1)]
        assert core.answer() == [HandOver()]

    def test_what_cannot_be_stored_is_left_to_the_successor_to_do_again(self) -> None:
        core = Core(self.DEPS)
        core.begin(0)
        core.tell(WindDown())
        core.finish(0)
        assert core.tell(HandOverDue({})) == [HandOver()]

    def test_what_still_runs_is_stopped_and_the_successor_does_not_wait_for_that(self) -> None:
        core = Core(self.DEPS)
        core.begin(0)
        core.tell(WindDown())
        assert core.tell(HandOverDue()) == [Abandon(0), HandOver(cut=True)]
        assert core.tell(TaskAbandoned(0)) == []
        assert core.tell(HandedOver()) == [Leave(Status.RUNNING, suspended=True)]

    def test_a_worker_with_nothing_left_to_do_needs_no_successor(self) -> None:
        core = Core(self.DEPS[:1])
        core.begin(0)
        core.tell(WindDown())
        core.finish(0)
        assert core.tell(HandOverDue()) == []
        assert core.answer() == [Discard((0,)), Leave(Status.RUNNING)]


def test_a_planned_worker_tells_what_is_done_so_that_it_is_not_done_again() -> None:
    """0 → 1 → 2, all on w0."""
    core = Core(TestChain.DEPS, "w0", planned={0: 0, 1: 0, 2: 0})
    core.begin()
    core.finish(0)
    core.tell(WindDown())
    core.finish(1)
    assert core.tell(HandOverDue({1: SMALL})) == [Send((Finished(0), Finished(1, SMALL, keep=True)), ran=2)]
    assert core.answer() == [HandOver()]


def test_what_is_being_told_is_not_told_again_but_published_once_it_is_stored() -> None:
    """0 → 1 on w0, 2 on w1; 0, 2 → 3, flexible. Storage stores no output with a completion that it has counted."""
    core = Core([[], [0], [], [0, 2]], "w0", planned={0: 0, 1: 0, 2: 1})
    core.begin()
    core.finish(0, LARGE)
    told = Finished(0, LARGE, consumers=(3,))
    assert core.tell(FlushDue(0.0)) == [Send((told,), ran=1)]
    assert core.tell(WindDown({0: LARGE})) == [Store(0)]
    core.answer(ready=[3])
    assert core.tell(OutputStored(0)) == [Send(published=(Published(0, LARGE),))]


def test_what_was_told_without_its_value_is_still_to_be_stored() -> None:
    """0 → 2, 3 and 1 → 4, all on w0: 0 is first told for its completion alone, and meanwhile turns out to be needed."""
    core = Core([[], [], [0], [0], [1]], "w0", planned=dict.fromkeys(range(5), 0))
    core.begin()
    core.finish(0)
    assert core.finish(1) == [Run(2)]
    assert core.tell(WindDown({1: LARGE})) == [Store(1), Send((Finished(0),), ran=2)]
    core.finish(2)
    assert core.tell(WindDown({0: LARGE})) == [Store(0)]
    core.answer()
    core.tell(OutputStored(0))
    assert core.answer()[-1] == Send(published=(Published(0, LARGE),))


class TestTries:
    """0, which may be tried three times, with 8 s, and then 16 s in between."""

    def core(self) -> Core:
        return Core([[]], retries=2, backoff_s=8.0)

    def test_a_successor_is_told_how_often_a_task_was_tried_and_how_long_it_still_waits(self) -> None:
        core = self.core()
        core.begin(0)
        core.tell(TaskRaised(0, b""), now_s=1.0)
        core.tell(WindDown(), now_s=3.0)
        (sent,) = core.tell(HandOverDue(), now_s=3.0)
        assert isinstance(sent, Send)
        (tried,) = sent.tried
        left_s = pause_s(FunctionInfo("f", "1", backoff_s=8.0), "", 0, 1) - 2.0
        assert (tried.task, tried.tries) == (0, 2)
        assert tried.pause_s == pytest.approx(left_s)
        assert core.answer() == [HandOver()]

    def test_a_task_that_is_cut_is_not_told_to_have_failed(self) -> None:
        core = Core([[]], retries=2)
        core.begin(0)
        assert core.tell(TaskRaised(0, b"")) == [Run(0, attempt=2)]
        core.tell(WindDown())
        assert core.tell(HandOverDue()) == [Abandon(0), Send(tried=(Tried(0, 2),))]
        assert core.answer() == [HandOver(cut=True)]

    def test_of_tasks_that_never_failed_nothing_is_told(self) -> None:
        core = self.core()
        core.begin(0)
        core.tell(WindDown())
        assert core.tell(HandOverDue()) == [Abandon(0), HandOver(cut=True)]

    def test_the_successor_waits_for_as_long_as_is_left_and_counts_on(self) -> None:
        core = self.core()
        assert core.begin_again(claims={"t0": (0,)}, tried=[Tried(0, 3, 5.0)]) == [Alarm(5.0)]
        assert core.tell(AlarmRang(), now_s=5.0) == [Run(0, attempt=3, ready_s=5.0)]
        commands = core.tell(TaskRaised(0, b"why"), now_s=6.0)
        assert commands == [Fail(0, b"why"), Leave(Status.FAILED)]

    def test_a_pause_that_is_over_is_no_reason_to_wait(self) -> None:
        core = self.core()
        assert core.begin_again(claims={"t0": (0,)}, tried=[Tried(0, 2, -3.0)]) == [Run(0, attempt=2)]

    def test_what_is_done_is_not_tried_again(self) -> None:
        core = Core([[], [0]], retries=2)
        commands = core.begin_again(claims={"t0": (0, 1)}, done=[0], stored=[0], tried=[Tried(0, 3, 5.0)])
        assert not any(isinstance(command, Alarm) for command in commands)
