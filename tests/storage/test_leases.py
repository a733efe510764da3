"""Who is expected to be heard of, who was lost, and who stands for whom; the same in memory and in Redis."""

import time
from collections.abc import Callable

import msgspec
import pytest

from augury.config import Resources
from augury.storage.protocols import (
    CLIENT,
    NEVER_UP_S,
    Beat,
    Care,
    Cause,
    Claim,
    Completion,
    Consumer,
    Coordination,
    Hopeless,
    Missing,
    Outcome,
    Remains,
    Report,
    Status,
    Storage,
    Stored,
    Tried,
    WorkerMissed,
    WorkerSummary,
)
from tests.storage.conftest import SPEC, Clock, beat_until_told, claim, new_run_id

SHORT_S = 0.01

NewRun = Callable[..., Coordination]


@pytest.fixture
def careful(storage: Storage) -> NewRun:
    """Makes runs with a worker `w` of the tasks 0 and 1, and a planned one, `p`, with how they are looked after."""

    def make(**care: object) -> Coordination:
        run = storage.coordination(new_run_id())
        spec = msgspec.structs.replace(SPEC, care=msgspec.convert({"lease_s": 1000.0, **care}, Care))
        run.create(spec, [9], [claim("w", 0, 1)], [Claim("p", (), Resources(2, 512))])
        return run

    return make


def restarted(*tasks: int, attempt: int, resources: Resources | None = None) -> Beat:
    return Beat(Status.RUNNING, (Claim("w", tasks, resources or Resources(), attempt),))


def missed(run: Coordination) -> list[WorkerMissed]:
    return [event for event in run.read(CLIENT, "0", 0)[1] if isinstance(event, WorkerMissed)]


class TestJoining:
    def test_a_claim_is_embodied_once(self, careful: NewRun) -> None:
        run = careful()
        assert run.join("w", 1).status is Status.RUNNING
        assert run.join("w", 1).status is Status.REPLACED

    def test_what_a_second_invocation_would_say_of_itself_is_not_the_first_ones(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        assert run.beat("w", 1).status is Status.RUNNING
        assert run.beat("w", 2).status is Status.REPLACED


class TestLive:
    def test_who_is_claimed_or_at_work_would_be_missing(self, careful: NewRun) -> None:
        run = careful()
        assert run.live() == (Missing("w", 1),)
        run.join("w", 1)
        assert run.live() == (Missing("w", 1),)

    def test_who_has_not_come_up_is_starting(self, careful: NewRun) -> None:
        run = careful()
        assert run.starting() == (Missing("w", 1),)
        run.join("w", 1)
        assert run.starting() == ()
        run.beat(lost=run.live())
        assert run.starting() == (Missing("w", 2),)

    def test_who_was_started_again_is_told_with_the_present_attempt(self, careful: NewRun) -> None:
        run = careful()
        run.beat(lost=run.live())
        assert run.live() == (Missing("w", 2),)

    def test_who_has_left_is_not_missing(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.leave(WorkerSummary(worker="w", attempt=1, cold=True, duration_s=1.0, memory_mb=1, tasks=1))
        assert run.live() == ()

    def test_a_run_that_is_gone_misses_nobody(self, careful: NewRun) -> None:
        run = careful()
        run.remove()
        assert run.live() == run.starting() == ()


class TestLosing:
    def test_a_lost_worker_is_claimed_again_for_whoever_told(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        assert run.beat(lost=[Missing("w", 1)]) == restarted(0, 1, attempt=2)
        assert missed(run) == [WorkerMissed("w", 1)]

    def test_it_is_lost_once(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.beat(lost=[Missing("w", 1)])
        run.join("w", 2)
        assert run.beat(lost=[Missing("w", 1)]) == Beat(Status.RUNNING)

    def test_who_stands_for_a_lost_one_learns_it(self, careful: NewRun) -> None:
        run = careful()
        assert not run.join("w", 1).restarted
        run.beat(lost=[Missing("w", 1)])
        assert run.join("w", 2).restarted

    def test_the_lost_one_counts_no_longer_as_live(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.beat(lost=[Missing("w", 1)])
        assert run.join("w", 2).live == 1

    def test_what_comes_from_it_later_changes_nothing(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.beat(lost=[Missing("w", 1)])
        late = Report("w", completions=(Completion(9, 1, b"x", sink=True),), claims=(claim("x", 5),))
        assert run.report(late) == Outcome(Status.REPLACED)
        assert run.outputs([9]) == {}
        assert run.beat("w", 1) == Beat(Status.REPLACED)
        assert run.report(msgspec.structs.replace(late, attempt=2)).status is Status.SUCCEEDED

    def test_its_leaving_later_does_not_take_the_lease_of_the_next(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.beat(lost=[Missing("w", 1)])
        run.join("w", 2)
        run.leave(WorkerSummary(worker="w", attempt=1, cold=True, duration_s=1, memory_mb=1, tasks=0))
        assert run.beat(lost=[Missing("w", 2)]) == restarted(0, 1, attempt=3)

    def test_one_that_has_left_is_not_lost(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.leave(WorkerSummary(worker="w", attempt=1, cold=True, duration_s=1, memory_mb=1, tasks=0))
        assert run.beat(lost=[Missing("w", 1)]) == Beat(Status.RUNNING)

    def test_with_a_loss_all_are_started_that_have_not_come_up(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.report(Report("w", completions=(Completion(0, consumers=(Consumer(5, 1, "p"),)),)))
        expected = (Claim("w", (0, 1), Resources(), 2), Claim("p", (), Resources(2, 512), 1))
        assert run.beat(lost=[Missing("w", 1)]) == Beat(Status.RUNNING, expected)

    def test_after_too_many_losses_in_a_row_there_is_no_hope(self, careful: NewRun) -> None:
        run = careful(restarts=1)
        run.join("w", 1)
        run.beat(lost=[Missing("w", 1)])
        run.join("w", 2)
        hopeless = (Hopeless("w", 2, 2, Resources()),)
        assert run.beat(lost=[Missing("w", 2)]) == Beat(Status.RUNNING, (), hopeless)

    def test_progress_gives_hope_again(self, careful: NewRun) -> None:
        run = careful(restarts=1)
        run.join("w", 1)
        run.beat(lost=[Missing("w", 1)])
        run.join("w", 2)
        run.report(Report("w", completions=(Completion(0),), attempt=2))
        assert run.beat(lost=[Missing("w", 2)]) == restarted(0, 1, attempt=3)

    def test_what_was_counted_before_is_no_progress(self, careful: NewRun) -> None:
        run = careful(restarts=1)
        run.join("w", 1)
        run.report(Report("w", completions=(Completion(0),)))
        run.beat(lost=[Missing("w", 1)])
        run.join("w", 2)
        run.report(Report("w", completions=(Completion(0),), attempt=2))
        assert run.beat(lost=[Missing("w", 2)]).hopeless

    def test_after_the_end_nobody_is_started(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.fail(Status.CANCELLED, b"")
        assert run.beat(lost=[Missing("w", 1)]) == Beat(Status.CANCELLED)

    def test_nor_if_the_run_is_gone(self, careful: NewRun) -> None:
        run = careful()
        run.remove()
        assert run.beat(lost=[Missing("w", 1)]) == Beat(Status.GONE)


class TestFencing:
    def test_an_invocation_whose_place_is_taken_cannot_end_the_run(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.beat(lost=[Missing("w", 1)])
        assert not run.fail(Status.FAILED, b"late", "w", 1)
        assert run.status() is Status.RUNNING
        assert run.fail(Status.FAILED, b"now", "w", 2)

    def test_a_beat_that_comes_after_its_leaving_does_not_bring_a_lease_back(self, careful: NewRun) -> None:
        run = careful()
        run.join("w", 1)
        run.leave(WorkerSummary(worker="w", attempt=1, cold=True, duration_s=1, memory_mb=1, tasks=0))
        run.beat("w", 1)
        assert run.beat(lost=[Missing("w", 1)]) == Beat(Status.RUNNING)

    def test_a_second_worker_for_a_task_is_no_reason_to_end_the_run(self, careful: NewRun) -> None:
        run = careful(restarts=0)
        run.join("w", 1)
        run.report(Report("w", claims=(claim("s1/w", 1),)))
        run.join("s1/w", 1)
        assert run.beat(lost=[Missing("s1/w", 1)]) == Beat(Status.RUNNING)
        assert run.join("s1/w", 1).status is Status.REPLACED

    def test_nor_is_one_that_needs_more_memory_than_there_is(self, careful: NewRun) -> None:
        run = careful(larger=(Resources(1, 64),))
        run.join("w", 1)
        run.report(Report("w", claims=(claim("s1/w", 1),)))
        run.join("s1/w", 1)
        assert run.beat(lost=[Missing("s1/w", 1, Cause.MEMORY)]) == Beat(Status.RUNNING)
        assert run.join("s1/w", 1).status is Status.REPLACED

    def test_nor_is_one_that_has_been_silent_for_too_long_as_well(self, clocked: Storage, clock: Clock) -> None:
        run = clocked.coordination(new_run_id())
        run.create(msgspec.structs.replace(SPEC, care=Care(lease_s=10.0, larger=())), [9], [claim("w", 0)])
        run.join("w", 1)
        run.report(Report("w", claims=(claim("s1/w", 1),)))
        run.join("s1/w", 1)
        for _ in range(3):
            clock.wait(2.5)
            assert run.beat("w", 1) == Beat(Status.RUNNING)
        clock.wait(2.5)
        assert run.beat("w", 1, [Missing("s1/w", 1, Cause.MEMORY)]) == Beat(Status.RUNNING)
        assert run.live() == (Missing("w", 1),)

    def test_unless_it_was_first_and_goes_on_with_what_follows(self, careful: NewRun) -> None:
        run = careful(restarts=0)
        run.join("w", 1)
        run.report(Report("w", claims=(claim("s1/w", 1),)))
        run.join("s1/w", 1)
        done = Completion(1, 1, b"x", consumers=(Consumer(2, 1),))
        assert run.report(Report("s1/w", completions=(done,))).ready == (2,)
        beat = run.beat(lost=[Missing("s1/w", 1)])
        assert [(one.worker, one.losses) for one in beat.hopeless] == [("s1/w", 1)]


class TestMemory:
    LADDER = (Resources(1, 2048), Resources(1, 4096), Resources(4, 8192))

    def test_who_ran_out_of_memory_gets_more(self, careful: NewRun) -> None:
        run = careful(larger=self.LADDER, restarts=0)
        run.join("w", 1)
        assert run.beat(lost=[Missing("w", 1, Cause.MEMORY)]) == restarted(0, 1, attempt=2, resources=self.LADDER[1])
        run.join("w", 2)
        assert run.beat(lost=[Missing("w", 2, Cause.MEMORY)]) == restarted(0, 1, attempt=3, resources=self.LADDER[2])

    def test_who_has_more_cpus_than_the_larger_ones_keeps_them(self, careful: NewRun) -> None:
        run = careful(larger=self.LADDER)
        run.report(Report("w", claims=(Claim("x", (7,), Resources(2.5, 1024)),)))
        run.join("x", 1)
        for attempt, more in enumerate((Resources(2.5, 2048), Resources(2.5, 4096), Resources(4, 8192)), start=1):
            beat = run.beat(lost=[Missing("x", attempt, Cause.MEMORY)])
            assert beat.start == (Claim("x", (7,), more, attempt + 1),)
            run.join("x", attempt + 1)

    def test_a_later_loss_does_not_take_it_away(self, careful: NewRun) -> None:
        run = careful(larger=self.LADDER)
        run.join("w", 1)
        run.beat(lost=[Missing("w", 1, Cause.MEMORY)])
        run.join("w", 2)
        assert run.beat(lost=[Missing("w", 2)]) == restarted(0, 1, attempt=3, resources=self.LADDER[1])

    def test_nor_does_a_slot_that_is_given_up(self, careful: NewRun) -> None:
        run = careful(larger=(Resources(2, 1024),))
        run.report(Report("w", completions=(Completion(0, consumers=(Consumer(5, 1, "p"),)),)))
        run.join("p", 1)
        run.beat(lost=[Missing("p", 1, Cause.MEMORY)])
        run.join("p", 2)
        run.report(Report("w", claims=(claim("x", 7),)))
        cursor, _ = run.read("p", "0", 0)
        assert run.suspend("p", 2, cursor, 0)
        woken = run.report(Report("w", completions=(Completion(1, consumers=(Consumer(6, 1, "p"),)),)))
        assert woken.started == (("p", 3),)
        assert woken.again == (Claim("p", (), Resources(2, 1024), 3),)

    def test_where_there_is_no_more_there_is_no_hope(self, careful: NewRun) -> None:
        run = careful(larger=self.LADDER[:1])
        run.join("w", 1)
        hopeless = Hopeless("w", 1, 0, Resources(), Cause.MEMORY)
        assert run.beat(lost=[Missing("w", 1, Cause.MEMORY)]) == Beat(Status.RUNNING, (), (hopeless,))


class TestHandingOver:
    def test_a_successor_is_no_loss(self, careful: NewRun) -> None:
        run = careful(restarts=0)
        for attempt in (1, 2, 3):
            run.join("w", attempt)
            answer = run.beat("w", attempt, [Missing("w", attempt, Cause.HANDOVER)])
            assert answer == restarted(0, 1, attempt=attempt + 1)
        assert run.join("w", 4).restarted

    def test_one_that_cuts_tasks_short_again_and_again_comes_to_nothing(self, careful: NewRun) -> None:
        run = careful(restarts=1)
        run.join("w", 1)
        assert run.beat("w", 1, [Missing("w", 1, Cause.CUT)]).start
        run.join("w", 2)
        hopeless = (Hopeless("w", 2, 2, Resources(), Cause.CUT),)
        assert run.beat("w", 2, [Missing("w", 2, Cause.CUT)]) == Beat(Status.RUNNING, (), hopeless)


class TestLeases:
    def test_who_is_silent_is_replaced(self, careful: NewRun) -> None:
        run = careful(lease_s=SHORT_S)
        run.join("w", 1)
        assert beat_until_told(run.beat) == restarted(0, 1, attempt=2)

    def test_who_beats_is_not(self, careful: NewRun) -> None:
        run = careful(lease_s=SHORT_S)
        run.report(Report("w", completions=(Completion(0, consumers=(Consumer(5, 1, "p"),)),)))
        run.join("w", 1)
        run.join("p", 1)
        answer = beat_until_told(lambda: run.beat("p", 1))
        assert [claim.worker for claim in answer.start] == ["w"]

    def test_if_nobody_could_beat_all_leases_begin_anew(self, careful: NewRun) -> None:
        run = careful(lease_s=SHORT_S)
        run.join("w", 1)
        time.sleep(2 * SHORT_S)
        assert run.beat() == Beat(Status.RUNNING)

    def test_a_lease_is_twice_as_long_after_a_loss(self, careful: NewRun) -> None:
        run = careful(lease_s=SHORT_S, restarts=100)
        run.join("w", 1)
        for attempt in range(1, 12):
            run.beat(lost=[Missing("w", attempt)])
            run.join("w", attempt + 1)
        time.sleep(2 * SHORT_S)
        assert run.beat() == run.beat() == Beat(Status.RUNNING)

    def test_who_does_not_come_up_is_started_again_under_the_same_attempt(self, careful: NewRun) -> None:
        run = careful(lease_s=SHORT_S)
        assert beat_until_told(run.beat) == restarted(0, 1, attempt=1)
        assert missed(run) == []

    @pytest.mark.parametrize("lease_s", [0.2, 10.0, 3600.0])
    def test_who_never_comes_up_is_hopeless_after_half_a_day(
        self, clocked: Storage, clock: Clock, lease_s: float
    ) -> None:
        began_s = clock()
        run = clocked.coordination(new_run_id())
        run.create(msgspec.structs.replace(SPEC, care=Care(lease_s=lease_s)), [9], [claim("w", 0)])
        answer = Beat(Status.RUNNING)
        while not answer.hopeless and clock() - began_s < 3 * NEVER_UP_S:
            clock.wait(60.0)
            answer = run.beat()
        assert answer.hopeless == (Hopeless("w", 1, 0, Resources(), Cause.START),)
        assert NEVER_UP_S < clock() - began_s < 2.1 * NEVER_UP_S

    def test_a_suspended_worker_holds_none(self, careful: NewRun) -> None:
        run = careful(lease_s=SHORT_S)
        run.join("w", 1)
        run.report(Report("w", completions=(Completion(0, consumers=(Consumer(5, 1, "p"),)),)))
        assert run.suspend("w", 1, "0", 0.0)
        run.join("p", 1)
        time.sleep(2 * SHORT_S)
        run.beat("p", 1)
        assert run.beat("p", 1) == Beat(Status.RUNNING)


class TestStalls:
    """Storage is away for a while: what is heard afterwards tells nothing of who is alive."""

    LEASE_S = 100.0

    @pytest.fixture
    def run(self, clocked: Storage) -> Coordination:
        """A run with three workers that have joined, and that is a while old."""
        run = clocked.coordination(new_run_id())
        spec = msgspec.structs.replace(SPEC, care=Care(lease_s=self.LEASE_S))
        run.create(spec, [9], [claim(worker, place) for place, worker in enumerate(("a", "b", "c"))])
        for worker in ("a", "b", "c"):
            run.join(worker, 1)
        return run

    def beat(self, run: Coordination, clock: Clock, times: int, *workers: str) -> list[Beat]:
        """Some workers beat, evenly spread over each quarter of a lease; what they were answered beside nothing."""
        answers = []
        for _ in range(times):
            for worker in workers:
                clock.wait(self.LEASE_S / 4 / len(workers))
                answers.append(run.beat(worker, 1))
        return [answer for answer in answers if answer != Beat(Status.RUNNING)]

    @pytest.mark.parametrize("leases", [0.3, 0.5, 0.76, 0.99, 1.01, 3.0])
    def test_nobody_is_replaced_after_a_stall(self, run: Coordination, clock: Clock, leases: float) -> None:
        for _ in range(3):
            assert self.beat(run, clock, 4, "a", "b", "c") == []
            clock.wait(leases * self.LEASE_S)
        assert self.beat(run, clock, 4, "c", "a", "b") == []

    def test_who_died_before_is_found_within_a_lease_after_it(self, run: Coordination, clock: Clock) -> None:
        clock.wait(0.8 * self.LEASE_S)
        assert self.beat(run, clock, 4, "a", "b") == []
        assert self.beat(run, clock, 1, "a", "b") == [Beat(Status.RUNNING, (Claim("c", (2,), Resources(), 2),))]

    @pytest.mark.parametrize("leases", [0.4, 0.6, 5.0])
    def test_who_is_dead_is_found_even_by_one_who_beats_rarely(
        self, run: Coordination, clock: Clock, leases: float
    ) -> None:
        started: set[str] = set()
        for _ in range(4):
            clock.wait(leases * self.LEASE_S)
            started |= {claim.worker for claim in run.beat().start}
        assert started == {"a", "b", "c"}


class TestRemains:
    def test_what_is_stored_and_whose_flexible_tasks_are(self, careful: NewRun) -> None:
        # 0 ─┬─ 3        4 has been taken by w, whose inputs finished there
        # 1 ─┘
        run = careful()
        run.join("w", 1)
        inputs = [Completion(task, 1, b"x", consumers=(Consumer(3, 2),)) for task in (0, 1)]
        outcome = run.report(Report("w", completions=tuple(inputs), claims=(claim("t7", 7, 8),), taken=(4,)))
        assert outcome.ready == (3,)
        remains = Remains(grants={3: "w", 4: "w"}, claims={"w": (0, 1), "t7": (7, 8)})
        assert run.remains() == remains
        run.report(Report("w", completions=(Completion(3, 1, b"y", keep=True),)))
        assert run.remains() == msgspec.structs.replace(remains, stored=frozenset({3}))
        assert run.outputs([3]) == {3: Stored(1, b"y")}

    def test_tasks_that_were_tried_are_remembered_with_the_time_that_is_left(self, careful: NewRun) -> None:
        run = careful()
        run.report(Report("w", tried=(Tried(4, 2, 60.0), Tried(3, 2, 60.0))))
        run.report(Report("w", tried=(Tried(3, 5, -1.5),)))
        three, four = run.remains().tried
        assert (three.task, three.tries, four.task, four.tries) == (3, 5, 4, 2)
        assert three.pause_s <= -1.5
        assert 1.5 < four.pause_s <= 60.0

    def test_what_a_replaced_worker_has_tried_is_not(self, careful: NewRun) -> None:
        run = careful()
        run.beat(lost=[Missing("w", 1)])
        run.report(Report("w", tried=(Tried(3, 2),)))
        assert run.remains().tried == ()

    def test_a_claim_that_was_not_granted_does_not_count(self, careful: NewRun) -> None:
        run = careful()
        run.report(Report("w", claims=(claim("t7", 7),)))
        run.report(Report("w", claims=(claim("t7", 7, 8),)))
        assert run.remains().claims == {"w": (0, 1), "t7": (7,)}

    def test_of_a_run_that_is_gone_nothing_is_left(self, storage: Storage) -> None:
        assert storage.coordination("never").remains() == Remains()
