"""Near the platform's time limit a worker puts what is needed into storage and has a successor go on."""

from augury.storage.protocols import Status
from augury.worker.messages import (
    Abandon,
    Discard,
    Finished,
    HandedOver,
    HandOver,
    HandOverDue,
    Leave,
    OutputStored,
    Run,
    Send,
    Store,
    TaskAbandoned,
    WindDown,
)
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
