"""Duplicated tasks in the worker core: who runs what, who hears what, and who stops.

Unless a test says otherwise, the workflow is

    0 ─── 1 ───┐
               ├─ 3      w0: 0, 1      w1: 2, 3
    2 ─────────┘

and task 1 may be duplicated: w1 waits for it, and hears of 0, its input, and of 1 itself; w0 hears of 1.
"""

from typing import Any

import pytest

from augury.config import Resources
from augury.plan.hints import PreLoadHint, TaskDupHint
from augury.storage.protocols import Status
from augury.worker.messages import (
    Abandon,
    Alarm,
    AlarmRang,
    Discard,
    Fail,
    Fetch,
    Fetched,
    FetchFailed,
    Finished,
    InputsReady,
    Leave,
    Listen,
    OutputStored,
    Run,
    Send,
    StopRequested,
    Store,
    Suspend,
    SuspendAnswered,
    TaskAbandoned,
    TaskFinished,
    TaskRaised,
    TasksCompleted,
    WaitedLong,
)
from tests.worker.shapes import LARGE, SMALL, Core

NOW = TaskDupHint(produce_s=0.0, arrives_s=1000.0)
"""Whoever waits is faster."""
DEPS = [[], [0], [], [1, 2]]
PLANNED = {0: 0, 1: 0, 2: 1, 3: 1}


def worker(name: str, hint: TaskDupHint = NOW, **more: Any) -> Core:
    return Core(DEPS, name, planned=PLANNED, **{"hints": {1: (hint,)}, **more})


def waiting(hint: TaskDupHint = NOW, **more: Any) -> Core:
    """The worker w1, which has done 2 and has nothing else to do."""
    core = worker("w1", hint, **more)
    assert core.begin() == [Listen(), Run(2)]
    assert core.finish(2) == []
    return core


def duplicating() -> Core:
    """The worker w1, while it runs 1 too."""
    core = waiting()
    core.hear(0)
    assert core.tell(Fetched((0,))) == [Run(1, duplicate=True)]
    return core


class TestWhen:
    def test_a_worker_that_waits_runs_the_task_as_soon_as_its_inputs_are_there(self) -> None:
        core = waiting()
        assert core.hear(0) == [Fetch((0,))]
        assert core.tell(Fetched((0,)), 3.0) == [Run(1, fetch_s=3.0, duplicate=True)]

    def test_it_does_not_if_it_would_not_be_faster(self) -> None:
        core = waiting(TaskDupHint(produce_s=2.0, arrives_s=2.0))
        assert core.hear(0, now_s=10.0) == [Alarm(14.0)]

    def test_it_does_when_the_output_is_late(self) -> None:
        core = waiting(TaskDupHint(produce_s=2.0, arrives_s=1.0))
        assert core.hear(0, now_s=10.0) == [Alarm(13.0)]
        assert core.tell(AlarmRang(), 13.0) == [Fetch((0,))]

    def test_not_if_it_has_come_meanwhile(self) -> None:
        core = waiting(TaskDupHint(produce_s=2.0, arrives_s=1.0))
        core.hear(0, now_s=10.0)
        core.hear(1, now_s=12.0)
        assert core.tell(AlarmRang(), 13.0) == []

    def test_a_busy_worker_decides_when_it_is_free(self) -> None:
        """Task 2 takes until 15: by then 1 is expected at 20, and could be had at 18."""
        core = worker("w1", TaskDupHint(produce_s=3.0, arrives_s=10.0))
        core.begin()
        assert core.hear(0, now_s=10.0) == []
        assert core.finish(2, now_s=15.0) == [Fetch((0,))]

    def test_and_may_find_that_it_is_too_late_for_it(self) -> None:
        core = worker("w1", TaskDupHint(produce_s=3.0, arrives_s=10.0))
        core.begin()
        core.hear(0, now_s=10.0)
        assert core.finish(2, now_s=18.0) == [Alarm(23.0)]

    def test_the_inputs_of_a_root_are_complete_when_the_worker_begins(self) -> None:
        """0 → 2; 1 → 2      w0: 0      w1: 1, 2"""
        hint = TaskDupHint(produce_s=1.0, arrives_s=4.0)
        core = Core([[], [], [0, 1]], "w1", planned={0: 0, 1: 1, 2: 1}, hints={0: (hint,)})
        core.begin(now_s=10.0)
        assert core.finish(1, now_s=12.9) == [Run(0, ready_s=12.9, duplicate=True)]

    def test_inputs_that_were_made_here_need_not_be_fetched(self) -> None:
        """0 → 1 → 2      w0: 1      w1: 0, 2"""
        core = Core([[], [0], [1]], "w1", planned={0: 1, 1: 0, 2: 1}, hints={1: (NOW,)})
        assert core.begin() == [Listen(), Run(0)]
        assert core.finish(0) == [Run(1, duplicate=True)]

    def test_nothing_runs_while_an_input_is_missing(self) -> None:
        """0, 1 → 2 → 3      w0: 0, 1, 2      w1: 3"""
        core = Core([[], [], [0, 1], [2]], "w1", planned={0: 0, 1: 0, 2: 0, 3: 1}, hints={2: (NOW,)})
        core.begin()
        assert core.hear(0) == []
        assert core.hear(1) == [Fetch((0, 1))]

    def test_an_input_that_its_own_worker_made_before_must_be_heard_of(self) -> None:
        """It may have been done without being stored."""
        core = worker("w1")
        core.begin(done=[0])
        assert core.finish(2) == []
        assert core.hear(0) == [Fetch((0,))]

    def test_a_worker_that_begins_with_everything_done_has_nothing_to_run_twice(self) -> None:
        core = worker("w1")
        assert core.begin(done=[0, 1, 2]) == [Fetch((1, 2))]

    def test_own_tasks_go_first(self) -> None:
        """4 → 5 is there too, on w1, and becomes ready while 0 is fetched"""
        core = Core([*DEPS, [], [4]], "w1", planned={**PLANNED, 4: 2, 5: 1}, hints={1: (NOW,)})
        core.begin()
        core.finish(2)
        core.hear(0)
        assert core.tell(InputsReady(5, (4,))) == [Run(5)]
        assert core.tell(Fetched((0,))) == []
        assert Run(1, duplicate=True) in core.finish(5)

    def test_each_slot_takes_one(self) -> None:
        """0, 1, 2 → 3      w0: 0, 1, 2      w1: 3, with two CPUs"""
        hints = dict.fromkeys(range(3), (NOW,))
        planned = {0: 0, 1: 0, 2: 0, 3: 1}
        core = Core([[], [], [], [0, 1, 2]], "w1", planned=planned, has=Resources(cpus=2), hints=hints)
        assert core.begin() == [Listen(), Run(0, duplicate=True), Run(1, duplicate=True)]
        assert core.finish(0)[0] == Run(2, duplicate=True)

    def test_a_task_that_needs_more_memory_than_there_is_is_left_alone(self) -> None:
        assert waiting(has=Resources(memory_mb=100), memory_mb=101).hear(0) == []
        assert waiting(has=Resources(memory_mb=101), memory_mb=101).hear(0) == [Fetch((0,))]

    def test_a_task_whose_consumers_are_all_flexible_is_not_duplicated(self) -> None:
        """0 → 1      w0: 0"""
        core = Core([[], [0]], "w0", planned={0: 0}, hints={0: (NOW,)})
        assert core.begin() == [Run(0)]
        assert core.finish(0) == [Run(1)]

    def test_who_has_no_task_that_takes_it_does_not_hear_of_it(self) -> None:
        """4 is on w2"""
        core = Core([*DEPS, []], "w2", planned={**PLANNED, 4: 2}, hints={1: (NOW,)})
        assert core.begin() == [Run(4)]


class TestWhoIsFaster:
    def test_a_duplicate_is_reported_as_its_own_worker_would(self) -> None:
        core = duplicating()
        assert core.finish(1) == [
            Discard((0,)),
            Send((Finished(1, SMALL, (3,), keep=True, watchers=("w0",)),), ran=2),
        ]
        assert core.answer() == []
        assert core.tell(InputsReady(3)) == [Run(3)]

    def test_a_large_one_is_stored_before(self) -> None:
        core = duplicating()
        assert core.finish(1, LARGE) == [Discard((0,)), Store(1)]
        assert core.tell(OutputStored(1)) == [
            Send((Finished(1, LARGE, (3,), stored=True, keep=True, watchers=("w0",)),), ran=2)
        ]

    def test_what_its_own_worker_says_later_changes_nothing(self) -> None:
        core = duplicating()
        core.finish(1)
        core.answer()
        assert core.hear(1) == []
        assert core.tell(InputsReady(3)) == [Run(3)]

    def test_it_may_be_heard_of_while_the_duplicate_is_being_reported(self) -> None:
        core = duplicating()
        core.finish(1)
        assert core.hear(1, small=True) == []
        assert core.tell(InputsReady(3)) == [Run(3)]
        assert core.answer() == []

    def test_flexible_consumers_are_counted_by_both(self) -> None:
        """0 → 1, 2      w0: 0      w1: 1      2 is flexible, and whoever is first goes on with it"""
        planned, hints = {0: 0, 1: 1}, {0: (NOW,)}
        owner = Core([[], [0], [0]], "w0", planned=planned, hints=hints)
        owner.begin()
        assert owner.finish(0) == [Send((Finished(0, SMALL, (1, 2), keep=True, watchers=("w1",)),), ran=1)]
        other = Core([[], [0], [0]], "w1", planned=planned, hints=hints)
        assert other.begin() == [Listen(), Run(0, duplicate=True)]
        assert other.finish(0) == [Send((Finished(0, SMALL, (1, 2), keep=True, watchers=("w0",)),), ran=1)]
        assert other.answer(ready=[2]) == [Run(2)]

    def test_nor_are_they_gathered(self) -> None:
        """0, 1 → 2; 0 → 3      w0: 0, 1      w1: 3      2 is flexible: both its inputs finished on w0"""
        core = Core([[], [], [0, 1], [0]], "w0", planned={0: 0, 1: 0, 3: 1}, hints={0: (NOW,)})
        core.begin()
        core.finish(0)
        assert core.finish(1) == [
            Send(
                (Finished(0, SMALL, (2, 3), keep=True, watchers=("w1",)), Finished(1, SMALL, (2,))),
                ran=2,
            )
        ]


class TestWhoIsSlower:
    def test_a_duplicate_that_waits_for_its_inputs_is_dropped(self) -> None:
        core = waiting()
        core.hear(0)
        assert core.hear(1, small=True) == []
        assert core.tell(Fetched((0,))) == [Discard((0,))]
        assert core.tell(InputsReady(3)) == [Run(3)]

    def test_one_that_waits_for_its_turn_too(self) -> None:
        """4 → 5 is there too, on w1, and runs when 0 is fetched"""
        core = Core([*DEPS, [], [4]], "w1", planned={**PLANNED, 4: 2, 5: 1}, hints={1: (NOW,)})
        core.begin()
        core.finish(2)
        core.hear(0)
        core.tell(InputsReady(5, (4,)))
        core.tell(Fetched((0,)))
        assert core.hear(1) == [Discard((0,))]

    def test_one_that_runs_is_stopped_and_its_slot_is_free_again(self) -> None:
        core = duplicating()
        assert core.hear(1, small=True) == [Abandon(1)]
        assert core.tell(InputsReady(3)) == []
        assert core.tell(TaskAbandoned(1)) == [Discard((0,)), Run(3)]

    def test_one_that_cannot_be_stopped_is_ignored(self) -> None:
        core = duplicating()
        core.hear(1)
        assert core.tell(InputsReady(3)) == []
        assert core.tell(TaskFinished(1, SMALL)) == [Discard((0,)), Discard((1,)), Fetch((1,))]
        assert core.tell(Fetched((1,))) == [Run(3)]

    def test_what_it_raises_then_does_not_matter(self) -> None:
        core = duplicating()
        core.hear(1, small=True)
        assert core.tell(TaskRaised(1, b"")) == [Discard((0,))]

    def test_the_owner_forgets_a_task_that_waits(self) -> None:
        """0 → 1 → 2, 3      w0: 1, 2      w1: 0, 3"""
        core = Core([[], [0], [1], [1]], "w0", planned={0: 1, 1: 0, 2: 0, 3: 1}, hints={1: (NOW,)})
        assert core.begin() == [Listen()]
        assert core.hear(1, small=True) == [Run(2)]
        assert core.tell(InputsReady(1, (0,))) == [Discard((0,))]

    def test_one_that_is_queued(self) -> None:
        """0; 1 → 2, 3      w0: 0, 1, 2      w1: 3"""
        core = Core([[], [], [1], [1]], "w0", planned={0: 0, 1: 0, 2: 0, 3: 1}, hints={1: (NOW,)})
        assert core.begin() == [Listen(), Run(0)]
        assert core.hear(1) == []
        assert core.finish(0)[0] == Fetch((1,))
        assert Run(2) in core.tell(Fetched((1,)))

    def test_one_that_is_blocked(self) -> None:
        """0 → 1 → 2      w0: 1      w1: 0, 2"""
        core = Core([[], [0], [1]], "w0", planned={0: 1, 1: 0, 2: 1}, hints={1: (NOW,)})
        core.begin()
        assert core.tell(InputsReady(1)) == [Fetch((0,))]
        assert core.hear(1) == [Leave(Status.RUNNING)]

    def test_one_that_runs(self) -> None:
        """0 → 1, 2      w0: 0, 1      w1: 2"""
        core = Core([[], [0], [0]], "w0", planned={0: 0, 1: 0, 2: 1}, hints={0: (NOW,)})
        assert core.begin() == [Listen(), Run(0)]
        assert core.hear(0) == [Abandon(0)]
        assert core.tell(TaskAbandoned(0)) == [Fetch((0,))]
        assert core.tell(Fetched((0,))) == [Run(1)]

    def test_and_whoever_takes_it_there_need_not_wait_for_that_if_there_is_room(self) -> None:
        """0 → 1, 2      w0: 0, 1, with two CPUs      w1: 2"""
        planned = {0: 0, 1: 0, 2: 1}
        core = Core([[], [0], [0]], "w0", planned=planned, has=Resources(cpus=2), hints={0: (NOW,)})
        core.begin()
        assert core.hear(0, small=True) == [Abandon(0), Run(1)]
        assert core.tell(TaskFinished(0, SMALL)) == []
        assert core.finish(1)[0] == Discard((0,))

    def test_a_task_that_was_done_before_the_worker_began_is_not_concerned(self) -> None:
        core = worker("w0")
        assert core.begin(done=[0, 1]) == [Leave(Status.RUNNING)]

    def test_news_of_a_task_that_finished_here_change_nothing(self) -> None:
        core = worker("w0")
        core.begin()
        core.finish(0)
        assert core.finish(1)[-1] == Send(
            (
                Finished(0, SMALL, keep=True, watchers=("w1",)),
                Finished(1, SMALL, (3,), keep=True, watchers=("w1",)),
            ),
            ran=2,
        )
        assert core.hear(1) == []
        assert core.answer() == [Discard((0,)), Discard((1,)), Leave(Status.RUNNING)]


class TestFailures:
    def test_a_duplicate_that_fails_is_forgotten_and_not_tried_again(self) -> None:
        core = duplicating()
        assert core.tell(TaskRaised(1, b"")) == [Discard((0,))]
        assert core.tell(AlarmRang(), 5000.0) == []
        assert core.hear(1, small=True) == []
        assert core.tell(InputsReady(3)) == [Run(3)]

    def test_its_retries_are_those_of_its_own_worker(self) -> None:
        core = waiting(retries=1)
        core.hear(0)
        core.tell(Fetched((0,)))
        assert core.tell(TaskRaised(1, b"")) == [Discard((0,))]

    def test_a_task_that_waits_for_its_next_try_is_left_to_who_was_faster(self) -> None:
        core = worker("w0", retries=1, backoff_s=8.0)
        core.begin()
        core.finish(0)
        assert isinstance(core.tell(TaskRaised(1, b""))[-1], Alarm)
        core.answer()
        assert core.hear(1) == [Discard((0,)), Leave(Status.RUNNING)]

    def test_the_failure_of_its_own_worker_counts(self) -> None:
        core = worker("w0")
        core.begin()
        core.finish(0)
        assert core.tell(TaskRaised(1, b"why")) == [Fail(1, b"why"), Leave(Status.FAILED)]

    @pytest.mark.parametrize("prepare", [waiting, duplicating])
    def test_a_stop_ends_everything(self, prepare: Any) -> None:
        assert prepare().tell(StopRequested()) == [Leave(Status.GONE)]

    def test_one_that_nothing_here_needs_any_more_is_stopped_and_the_worker_leaves(self) -> None:
        """3 may be duplicated too, by w2, which takes it for 4"""
        hints = {1: (NOW,), 3: (NOW,)}
        core = Core([*DEPS, [3]], "w1", planned={**PLANNED, 4: 2}, hints=hints)
        core.begin()
        core.finish(2)
        core.answer()
        core.hear(0)
        core.tell(Fetched((0,)))
        assert core.hear(3) == [Discard((2,)), Abandon(1)]
        assert core.tell(TaskAbandoned(1)) == [Discard((0,)), Leave(Status.RUNNING)]


class TestWhatCannotBeFetched:
    FAILED = FetchFailed((0,), b"why")

    def test_a_duplicate_whose_inputs_do_not_come_is_forgotten_and_not_tried_again(self) -> None:
        core = waiting()
        assert core.hear(0) == [Fetch((0,))]
        assert core.tell(self.FAILED) == [Discard((0,))]
        assert core.tell(AlarmRang(), 5000.0) == []
        assert core.hear(1, small=True) == []
        assert core.tell(InputsReady(3)) == [Run(3)]

    def test_the_inputs_of_a_task_of_its_own_have_to_come(self) -> None:
        core = Core([[], [0]], "w1", planned={0: 0, 1: 1})
        core.begin()
        assert core.tell(InputsReady(1)) == [Fetch((0,))]
        assert core.tell(self.FAILED) == [Discard((0,)), Fail(1, b"why"), Leave(Status.FAILED)]

    def test_but_not_the_first_time_if_they_are_fetched_early(self) -> None:
        core = Core([[], [0]], "w1", planned={0: 0, 1: 1}, hints={1: (PreLoadHint(),)})
        core.begin()
        assert core.hear(0) == [Fetch((0,), early=True)]
        assert core.tell(self.FAILED) == [Discard((0,))]
        assert core.tell(InputsReady(1)) == [Fetch((0,))]

    def test_nor_if_they_came_in_another_way(self) -> None:
        core = waiting()
        core.hear(0)
        core.tell(TasksCompleted((), (0,)))
        assert core.tell(self.FAILED) == [Run(1, duplicate=True)]

    def test_a_second_worker_leaves_the_task_to_the_first(self) -> None:
        core = Core([[], [0], [1]], "s1/w0", planned={0: 0, 1: 0, 2: 0})
        assert core.begin(1) == [Listen(), Fetch((0,))]
        assert core.tell(self.FAILED) == [Discard((0,)), Leave(Status.RUNNING)]


class TestGivingTheSlotUp:
    def test_a_worker_that_runs_a_duplicate_keeps_its_slot(self) -> None:
        assert duplicating().tell(WaitedLong()) == []

    def test_one_that_could_run_one_gives_it_up_and_is_told_all_again(self) -> None:
        core = waiting(TaskDupHint(produce_s=9.0, arrives_s=1.0))
        core.hear(0)
        assert core.tell(WaitedLong({2: SMALL})) == [Send((Finished(2, SMALL, keep=True),), ran=1)]
        assert core.answer() == [Suspend()]
        assert core.tell(SuspendAnswered(granted=True)) == [Leave(Status.RUNNING, suspended=True)]
        again = worker("w1", TaskDupHint(produce_s=9.0, arrives_s=1.0))
        assert again.begin(done=[0, 2], now_s=50.0) == [Listen(), Alarm(60.0)]
        again.hear(0, now_s=51.0)
        assert again.tell(AlarmRang(), 60.0) == [Fetch((0,))]

    def test_what_others_did_is_not_reported_before(self) -> None:
        """0 → 1; 2 → 3      w0: 0, 3      w1: 1, 2"""
        core = Core([[], [0], [], [2]], "w0", planned={0: 0, 1: 1, 2: 1, 3: 0}, hints={0: (NOW,)})
        core.begin()
        core.hear(0)
        core.tell(TaskAbandoned(0))
        assert core.tell(WaitedLong()) == [Suspend()]

    def test_a_duplicate_that_begins_meanwhile_makes_the_question_pointless(self) -> None:
        core = waiting()
        core.tell(WaitedLong({2: SMALL}))
        assert core.answer() == [Suspend()]
        assert core.hear(0) == [Fetch((0,))]
        assert not core.state.suspending
