"""What a worker does that stands for a lost one. Graphs are drawn with task ids."""

from typing import ClassVar

from augury.config import Resources
from augury.plan.hints import TaskDupHint
from augury.storage.protocols import Claim, Outcome, Status
from augury.worker.messages import (
    Finished,
    FlushDue,
    Invoke,
    Listen,
    Reported,
    Run,
    Send,
    Straggles,
    Suspend,
    TaskAbandoned,
    WaitedLong,
)
from tests.worker.shapes import SMALL, Core, Deps


class TestHandingOn:
    """
    0 ──┬─▶ 3      all are flexible; this worker was claimed with 0, 1 and 2, and was lost
    1 ──┤
    2 ──┘
    """

    def test_a_task_that_lost_ones_wait_for_here_is_not_handed_on(self) -> None:
        core = Core([[], [], [], [0, 1, 2]], concurrency=2)
        assert core.begin_again(claims={"t0": (0, 1, 2)}) == [Run(0)]
        assert core.tell(FlushDue(running_s=5.0)) == [Send()]
        core.answer()
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Run(2)]
        assert Run(3) in core.finish(2)

    def test_others_are(self) -> None:
        core = Core([[], [], []], concurrency=2)
        core.begin_again(claims={"t0": (0, 1, 2)})
        (sent,) = core.tell(FlushDue(running_s=5.0))
        assert isinstance(sent, Send)
        assert [claim.tasks for claim in sent.claims] == [(2,)]


class TestWaking:
    """
    0 ──▶ 1      0 is flexible, 1 planned for w0
    """

    def test_a_worker_that_needed_more_memory_gets_it_again(self) -> None:
        core = Core([[], [0]], planned={1: 0})
        core.begin(0)
        core.finish(0)
        larger = Claim("w0", (), Resources(2, 4096), 3)
        woken = Outcome(Status.RUNNING, started=(("w0", 3),), again=(larger,))
        assert Invoke((larger,)) in core.tell(Reported(woken))


class TestSecondWorkers:
    """
    0 ──┬─▶ 2 ──▶ 3      all are flexible; 1 took long, so that s1/t0 runs it too; then t0 was lost
    1 ──┘
    """

    DEPS: ClassVar[Deps] = ([], [], [0, 1], [2])
    CLAIMS: ClassVar = {"t0": (0, 1), "s1/t0": (1,)}

    def test_a_task_stays_with_its_own_worker(self) -> None:
        core = Core(self.DEPS)
        assert Run(1) in [*core.begin_again(claims=self.CLAIMS), *core.finish(0)]

    def test_both_report_it_with_all_who_take_it(self) -> None:
        for name in ("t0", "s1/t0"):
            core = Core(self.DEPS, name)
            core.begin_again(claims=self.CLAIMS, done=[0], stored=[0])
            (sent,) = [one for one in core.finish(1) if isinstance(one, Send)]
            other = {"t0": "s1/t0", "s1/t0": "t0"}[name]
            assert sent.completions == (Finished(1, SMALL, (2,), keep=True, watchers=(other,)),)

    def test_who_takes_it_does_not_wait_for_it_here(self) -> None:
        core = Core(self.DEPS)
        assert core.begin_again(claims=self.CLAIMS) == [Listen(), Run(0)]
        assert core.finish(0) == [Run(1)]
        core.hear(1)
        assert core.tell(TaskAbandoned(1)) == [Send((Finished(0, SMALL, (2,)),), ran=1)]
        core.answer(ready=[2])
        assert core.state.wants(1)

    def test_there_is_none_for_a_task_that_lost_ones_wait_for_here(self) -> None:
        core = Core(self.DEPS, concurrency=4)
        core.begin_again(claims={"t0": (0, 1)})
        assert core.tell(Straggles(0)) == []

    def test_nor_for_one_that_was_counted_before(self) -> None:
        core = Core([[], [0]], planned={1: 1}, concurrency=4)
        core.begin_again(done=[0], claims={"t0": (0,)})
        assert core.tell(Straggles(0)) == []


class TestDuplicable:
    """
    0 ──┬─▶ 2      2 is flexible, 0 and 1 are planned for w0, and 3 for w1
    1 ──┼─▶ 3
    """

    def test_who_takes_it_does_not_wait_for_it_here(self) -> None:
        hints = {1: (TaskDupHint(produce_s=0.0, arrives_s=0.0),)}
        core = Core([[], [], [0, 1], [1]], "w0", planned={0: 0, 1: 0, 3: 1}, hints=hints)
        core.begin_again()
        core.hear(1)
        commands = core.finish(0)
        assert Send((Finished(0, SMALL, (2,)),), ran=1) in commands


class TestBeginning:
    """
    0 ──▶ 2      0 and 2 are planned for w0, 1 for w1
    1 ──┘
    """

    def test_what_is_in_storage_was_counted_though_it_was_not_when_we_joined(self) -> None:
        core = Core([[], [], [0, 1]], "w0", planned={0: 0, 1: 1, 2: 0}, sinks=[0, 2])
        assert core.begin_again(done=[], stored=[0]) == [Listen()]
        assert core.tell(WaitedLong({})) == [Suspend()]
