"""Pre-warming, pre-loading and ranks in the worker core: events in, commands out.

Graphs are drawn with task ids; `w0: 1, 2` says that the plan gives tasks 1 and 2 to worker 0.
"""

from augury.config import Resources
from augury.plan.hints import PreLoadHint, PreWarmHint
from augury.storage.protocols import Status
from augury.worker.messages import (
    Alarm,
    AlarmRang,
    Discard,
    Fetch,
    Fetched,
    Finished,
    InputsReady,
    Leave,
    Listen,
    OutputStored,
    Prewarm,
    Run,
    Send,
    StopRequested,
    Store,
    Suspend,
    SuspendAnswered,
    TaskRaised,
    WaitedLong,
)
from tests.worker.shapes import BIG, LARGE, SMALL, Core


class TestPreWarming:
    def test_it_is_asked_for_when_the_task_starts(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        core = Core([[], [0]], "w0", planned={0: 0, 1: 1}, hints={0: (PreWarmHint(BIG, 2),)})
        assert core.begin() == [Run(0), Prewarm(BIG, 2)]

    def test_a_task_may_have_several_hints(self) -> None:
        """0 on w0"""
        core = Core([[]], "w0", planned={0: 0}, hints={0: (PreWarmHint(BIG), PreWarmHint(Resources()))})
        assert core.begin() == [Run(0), Prewarm(BIG), Prewarm(Resources())]

    def test_a_task_without_a_hint_asks_for_nothing(self) -> None:
        """0 → 1      w0: both"""
        core = Core([[], [0]], "w0", planned={0: 0, 1: 0}, hints={1: (PreWarmHint(BIG),)})
        assert core.begin() == [Run(0)]
        assert core.finish(0) == [Run(1), Prewarm(BIG)]

    def test_a_retry_does_not_ask_again(self) -> None:
        """0 on w0"""
        core = Core([[]], "w0", planned={0: 0}, retries=1, hints={0: (PreWarmHint(BIG),)})
        core.begin()
        assert core.tell(TaskRaised(0, b"")) == [Run(0, 2)]

    def test_it_may_be_due_later(self) -> None:
        """0 on w0"""
        core = Core([[]], "w0", planned={0: 0}, hints={0: (PreWarmHint(BIG, after_s=2.0),)})
        assert core.begin(now_s=10.0) == [Run(0, ready_s=10.0), Alarm(12.0)]
        assert core.tell(AlarmRang(), 12.0) == [Prewarm(BIG)]

    def test_alarms_follow_each_other(self) -> None:
        """0 on w0"""
        hints = (PreWarmHint(BIG, 1, after_s=2.0), PreWarmHint(BIG, 2, after_s=1.0), PreWarmHint(BIG, 3, after_s=2.0))
        core = Core([[]], "w0", planned={0: 0}, hints={0: hints})
        assert core.begin() == [Run(0), Alarm(1.0)]
        assert core.tell(AlarmRang(), 1.0) == [Prewarm(BIG, 2), Alarm(2.0)]
        assert core.tell(AlarmRang(), 2.0) == [Prewarm(BIG, 1), Prewarm(BIG, 3)]

    def test_an_earlier_one_replaces_the_alarm_that_is_set(self) -> None:
        """0, 1 on w0, which has two CPUs"""
        hints = {0: (PreWarmHint(BIG, 1, after_s=9.0),), 1: (PreWarmHint(BIG, 2, after_s=1.0),)}
        two = Resources(cpus=2)
        core = Core([[], [0], [0]], "w0", planned=dict.fromkeys(range(3), 0), has=two, hints=hints)
        assert core.begin() == [Run(0), Alarm(9.0)]
        assert core.finish(0, now_s=3.0) == [Run(1, ready_s=3.0), Run(2, ready_s=3.0), Alarm(4.0)]
        assert core.tell(AlarmRang(), 4.0) == [Prewarm(BIG, 2), Alarm(9.0)]

    def test_an_alarm_that_was_replaced_says_nothing(self) -> None:
        """0 on w0"""
        core = Core([[]], "w0", planned={0: 0}, hints={0: (PreWarmHint(BIG, after_s=5.0),)})
        core.begin()
        assert core.tell(AlarmRang(), 3.0) == []
        assert core.tell(AlarmRang(), 5.0) == [Prewarm(BIG)]

    def test_a_worker_that_leaves_asks_before(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        core = Core([[], [0]], "w0", planned={0: 0, 1: 1}, hints={0: (PreWarmHint(BIG, after_s=60.0),)})
        core.begin()
        core.finish(0)
        assert core.answer() == [Discard((0,)), Prewarm(BIG), Leave(Status.RUNNING)]

    def test_after_the_run_nobody_needs_it(self) -> None:
        """0 on w0"""
        core = Core([[]], "w0", planned={0: 0}, hints={0: (PreWarmHint(BIG, after_s=60.0),)})
        core.begin()
        assert core.tell(StopRequested()) == [Leave(Status.GONE)]

    def test_a_flexible_task_may_have_the_hint(self) -> None:
        """0"""
        core = Core([[]], hints={0: (PreWarmHint(BIG),)})
        assert core.begin(0) == [Run(0), Prewarm(BIG)]


class TestPreLoading:
    """
    0 ───┐
    1 ───┼─ 3      w0: 0, 1      w1: 2, 3
    2 ───┘
    """

    @staticmethod
    def loading() -> Core:
        hints = {3: (PreLoadHint(),)}
        return Core([[], [], [], [0, 1, 2]], "w1", planned={0: 0, 1: 0, 2: 1, 3: 1}, hints=hints)

    def test_a_large_input_is_fetched_while_another_task_runs(self) -> None:
        core = self.loading()
        assert core.begin() == [Listen(), Run(2)]
        assert core.hear(0) == [Fetch((0,), early=True)]
        assert core.tell(Fetched((0,))) == []
        assert core.finish(2) == []
        assert core.hear(1) == [Fetch((1,), early=True)]

    def test_only_what_still_lacks_is_fetched_when_the_task_is_ready(self) -> None:
        core = self.loading()
        core.begin()
        core.hear(0)
        core.tell(Fetched((0,)))
        core.finish(2)
        assert core.tell(InputsReady(3)) == [Fetch((1,))]
        assert core.tell(Fetched((1,))) == [Run(3)]

    def test_what_is_under_way_is_not_fetched_twice(self) -> None:
        core = self.loading()
        core.begin()
        core.finish(2)
        assert core.hear(0, 1) == [Fetch((0,), early=True), Fetch((1,), early=True)]
        assert core.tell(InputsReady(3)) == []
        assert core.tell(Fetched((1,))) == []
        assert core.tell(Fetched((0,))) == [Run(3)]

    def test_a_small_input_is_in_memory_at_once(self) -> None:
        core = self.loading()
        core.begin()
        assert core.hear(0, 1, small=True) == []
        core.finish(2)
        assert core.tell(InputsReady(3)) == [Run(3)]

    def test_one_that_also_comes_with_the_wake_up_is_kept_once(self) -> None:
        core = self.loading()
        core.begin()
        core.finish(2)
        core.hear(0)
        assert core.tell(InputsReady(3, (0, 1))) == [Run(3)]
        assert core.finish(3)[:2] == [Discard((1,)), Discard((2,))]  # 0 would come back
        assert core.tell(Fetched((0,))) == [Discard((0,))]

    def test_news_that_come_again_change_nothing(self) -> None:
        core = self.loading()
        core.begin()
        core.hear(0)
        assert core.hear(0) == []
        core.tell(Fetched((0,)))
        assert core.hear(0) == []

    def test_who_starts_late_fetches_what_is_there_in_one_round_trip(self) -> None:
        core = self.loading()
        assert core.begin(done=[0, 1]) == [Fetch((0, 1), early=True), Run(2)]
        assert core.hear(0, 1) == []

    def test_what_nothing_here_takes_is_left_alone(self) -> None:
        core = self.loading()
        core.begin(done=[0, 1, 3])
        assert core.hear(0) == []

    def test_other_tasks_of_the_worker_are_not_concerned(self) -> None:
        """0 → 1, 2      w0: 0      w1: 1, 2, and the hint is on neither"""
        core = Core([[], [0], [0]], "w1", planned={0: 0, 1: 1, 2: 1}, hints={0: (PreLoadHint(),)})
        core.begin()
        assert core.hear(0) == []

    def test_a_worker_that_gave_its_slot_up_fetches_again(self) -> None:
        core = self.loading()
        core.begin()
        core.hear(0)
        core.tell(Fetched((0,)))
        core.finish(2)
        assert core.tell(WaitedLong({2: SMALL})) == [Send((Finished(2, SMALL, keep=True),), ran=1)]
        assert core.answer() == [Suspend()]
        assert core.tell(SuspendAnswered(granted=True)) == [Leave(Status.RUNNING, suspended=True)]
        again = self.loading()
        assert again.begin(done=[0, 2]) == [Listen(), Fetch((0,), early=True)]
        assert again.tell(InputsReady(3)) == [Fetch((1, 2))]

    def test_who_makes_an_input_tells_the_worker_that_watches_it(self) -> None:
        hints = {3: (PreLoadHint(),)}
        core = Core([[], [], [], [0, 1, 2]], "w0", planned={0: 0, 1: 0, 2: 1, 3: 1}, hints=hints)
        core.begin()
        core.finish(0)
        assert core.finish(1, LARGE) == [
            Store(1),
            Send((Finished(0, SMALL, (3,), keep=True, watchers=("w1",)),), ran=2),
        ]
        assert core.answer() == [Discard((0,))]
        assert core.tell(OutputStored(1)) == [
            Send((Finished(1, LARGE, (3,), stored=True, keep=True, watchers=("w1",)),)),
        ]

    def test_a_flexible_task_is_not_loaded_for(self) -> None:
        """0 → 1      the worker that will run 1 is not known"""
        core = Core([[], [0]], hints={1: (PreLoadHint(),)})
        core.begin(0)
        assert core.finish(0) == [Run(1)]


class TestRanks:
    def test_the_lowest_rank_goes_first(self) -> None:
        """0 → 1, 2, 3      all on w0"""
        core = Core([[], [0], [0], [0]], "w0", planned=dict.fromkeys(range(4), 0), ranks=(0, 30, 10, 20))
        core.begin()
        assert core.finish(0) == [Run(2)]
        assert core.finish(2) == [Run(3)]

    def test_equals_go_in_the_order_in_which_they_became_ready(self) -> None:
        """0, 1 → 3; 2      w0: all but 1      w1: 1"""
        core = Core([[], [], [], [1], []], "w0", planned={0: 0, 1: 1, 2: 0, 3: 0, 4: 0}, ranks=(0, 0, 5, 5, 5))
        assert core.begin() == [Listen(), Run(0)]
        core.tell(InputsReady(3, (1,)))
        assert core.finish(0) == [Run(2)]
        assert core.finish(2) == [Run(4)]
        assert core.finish(4)[0] == Run(3)

    def test_one_that_becomes_ready_later_may_still_go_first(self) -> None:
        """0, 1, 2 and 3 → 4      w0: all but 3      w1: 3"""
        planned = {0: 0, 1: 0, 2: 0, 3: 1, 4: 0}
        core = Core([[], [], [], [], [3]], "w0", planned=planned, ranks=(1, 2, 3, 0, 0))
        core.begin()
        core.tell(InputsReady(4, (3,)))
        assert core.finish(0) == [Run(4)]

    def test_of_tasks_whose_inputs_were_fetched_the_lowest_goes_first(self) -> None:
        """0 → 1, 2 and 3 → 4      w0: 0, 3      w1: 1, 2, 4"""
        planned = {0: 0, 1: 1, 2: 1, 3: 0, 4: 1}
        core = Core([[], [0], [0], [], [3]], "w1", planned=planned, ranks=(0, 2, 1, 0, 0))
        assert core.begin(done=[0]) == [Listen(), Fetch((0,))]
        core.tell(InputsReady(4))
        assert core.tell(Fetched((3,))) == [Run(4)]
        assert core.tell(Fetched((0,))) == []
        assert core.finish(4)[-1] == Run(2)

    def test_flexible_tasks_of_a_planned_worker_are_next_up_as_ever(self) -> None:
        """0 → 1; 2      w0: 0, 2"""
        core = Core([[], [0], []], "w0", planned={0: 0, 2: 0}, ranks=(1, 9, 0))
        assert core.begin() == [Run(2)]
        assert core.finish(2)[0] == Run(0)
        assert core.finish(0)[-1] == Run(1)

    def test_a_flexible_worker_does_not_look_at_them(self) -> None:
        """0, 1"""
        core = Core([[], []], ranks=(2, 1))
        assert core.begin(0, 1) == [Run(0)]
