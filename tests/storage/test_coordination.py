"""What a run remembers, counts and grants; the same in memory and in Redis."""

from typing import Any

import pytest

from augury.errors import StorageError
from augury.storage.protocols import (
    CLIENT,
    Completion,
    Consumer,
    Coordination,
    Joined,
    Outcome,
    Progress,
    Published,
    Report,
    RunEnded,
    Status,
    Stop,
    Storage,
    Stored,
    TaskCompleted,
    TaskReady,
    WorkerLeft,
    WorkerSummary,
)
from tests.storage.conftest import SPEC, claim, new_run_id


def done(*completions: Completion, worker: str = "first", ran: int = 0) -> Report:
    return Report(worker, completions=completions, ran=ran)


def events(run: Coordination, inbox: str) -> list[object]:
    return list(run.read(inbox, "0", 0)[1])


def summary(worker: str, attempt: int = 1) -> WorkerSummary:
    return WorkerSummary(worker=worker, attempt=attempt, cold=True, duration_s=0.5, memory_mb=128, tasks=3)


class TestCreate:
    def test_a_new_run_is_running_and_has_its_workers_claimed(self, run: Coordination) -> None:
        assert run.status() is Status.RUNNING
        assert run.progress() == Progress(ran=0, invocations=1, starting=1)

    def test_the_spec_comes_back_as_it_was_given(self, run: Coordination) -> None:
        assert run.spec() == SPEC

    def test_a_run_is_not_created_twice(self, run: Coordination, storage: Storage) -> None:
        run_id = new_run_id()
        storage.coordination(run_id).create(SPEC, [1], [])
        again = storage.coordination(run_id)
        with pytest.raises(StorageError, match="exists already"):
            again.create(SPEC, [1], [])
        assert again.follow()

    def test_a_worker_that_is_claimed_twice_counts_once(self, storage: Storage) -> None:
        run = storage.coordination(new_run_id())
        run.create(SPEC, [1], [claim("w", 0), claim("w", 1)])
        assert run.progress().invocations == 1

    def test_an_unknown_run_is_gone(self, storage: Storage) -> None:
        run = storage.coordination("never")
        assert run.status() is Status.GONE
        assert run.spec() is None
        assert run.progress() == Progress(0, 0, 0)
        assert run.objects_stored() == []


class TestJoin:
    def test_a_worker_that_joins_no_longer_counts_as_starting(self, run: Coordination) -> None:
        assert run.join("first", 1) == Joined(Status.RUNNING, frozenset(), live=1, starting=1)
        assert run.progress() == Progress(ran=0, invocations=1, starting=0)

    def test_it_learns_how_many_were_starting_with_it(self, run: Coordination) -> None:
        run.report(Report("first", claims=(claim("second", 1), claim("third", 2))))
        assert run.join("third", 1).starting == 3
        assert run.join("second", 1).starting == 2

    def test_it_learns_which_tasks_are_done(self, run: Coordination) -> None:
        tasks = (0, 3, 7, 8, 1000)
        run.report(done(*(Completion(task, 1, b"x") for task in tasks)))
        assert run.join("first", 1).done == frozenset(tasks)

    def test_an_earlier_attempt_is_told_to_end_and_the_later_one_still_starts(self, run: Coordination) -> None:
        suspend(run)
        run.report(done(Completion(1, consumers=(Consumer(5, 1, "w"),))))
        assert run.join("w", 1).status is Status.REPLACED
        assert run.progress().starting == 2
        assert run.join("w", 2).status is Status.RUNNING

    def test_an_attempt_that_was_suspended_does_not_come_back(self, run: Coordination) -> None:
        suspend(run)
        assert run.join("w", 1).status is Status.REPLACED

    def test_after_the_end_it_learns_how_the_run_ended(self, run: Coordination) -> None:
        run.fail(Status.CANCELLED, b"")
        assert run.join("first", 1).status is Status.CANCELLED


class TestCompletion:
    def test_a_flexible_task_is_ready_for_the_one_who_completes_its_last_input(self, run: Coordination) -> None:
        # 0 ─┐
        # 1 ─┴─ 2
        assert run.report(done(Completion(0, 1, b"a", consumers=(Consumer(2, 2),)))).ready == ()
        assert run.report(done(Completion(1, 1, b"b", consumers=(Consumer(2, 2),)))).ready == (2,)

    def test_a_repeated_completion_counts_once(self, run: Coordination) -> None:
        report = done(Completion(0, 1, b"a", consumers=(Consumer(2, 2),)))
        run.report(report)
        assert run.report(report).ready == ()
        assert run.report(done(Completion(1, 1, b"b", consumers=(Consumer(2, 2),)))).ready == (2,)

    def test_what_is_ready_is_told_once(self, run: Coordination) -> None:
        report = done(Completion(0, 1, b"a", consumers=(Consumer(2, 1), Consumer(3, 1, "w"))))
        assert run.report(report).ready == (2,)
        assert run.report(report) == Outcome(Status.RUNNING, live=2)
        assert events(run, "w") == [TaskReady(3, {0: b"a"})]

    def test_a_task_listed_twice_in_one_report_counts_once(self, run: Coordination) -> None:
        twice = [Completion(0, 1, data, consumers=(Consumer(2, 2, "w"),)) for data in (b"a", b"b")]
        assert run.report(done(*twice)).started == ()
        assert run.outputs([0]) == {0: Stored(1, b"a")}

    def test_the_first_output_wins(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a")))
        run.report(done(Completion(0, 2, b"bb")))
        run.report(Report("first", published=(Published(0, 3, b"ccc"),)))
        assert run.outputs([0]) == {0: Stored(1, b"a")}

    def test_ready_tasks_come_in_the_order_of_completions(self, run: Coordination) -> None:
        report = done(
            Completion(1, consumers=(Consumer(5, 1), Consumer(3, 1))), Completion(0, consumers=(Consumer(4, 1),))
        )
        assert run.report(report).ready == (5, 3, 4)

    def test_tasks_that_ran_are_counted(self, run: Coordination) -> None:
        run.report(done(ran=3))
        run.report(done(Completion(0, 1, b"x"), ran=2))
        assert run.progress().ran == 5


class TestOutputs:
    def test_a_small_output_is_stored_with_its_bytes(self, run: Coordination) -> None:
        data = bytes(range(256)) + b":\r\n$5"
        run.report(done(Completion(0, len(data), data)))
        assert run.outputs([0, 1]) == {0: Stored(len(data), data)}

    def test_an_empty_output_is_stored(self, run: Coordination) -> None:
        run.report(done(Completion(0, 0, b"")))
        assert run.outputs([0]) == {0: Stored(0, b"")}

    def test_a_large_output_is_known_by_its_size(self, run: Coordination) -> None:
        run.report(done(Completion(0, 10**10, keep=True), Completion(1, 1, b"x")))
        assert run.outputs([0]) == {0: Stored(10**10, None)}
        assert run.objects_stored() == [0]

    def test_asking_for_no_outputs_gives_none(self, run: Coordination) -> None:
        assert run.outputs([]) == {}

    def test_many_outputs_can_be_asked_for(self, run: Coordination) -> None:
        run.report(done(*(Completion(task, 1, b"x") for task in range(0, 5000, 2))))
        assert sorted(run.outputs(range(5000))) == list(range(0, 5000, 2))

    def test_an_output_whose_consumers_are_all_ready_for_the_reporter_is_not_stored(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a", consumers=(Consumer(1, 1), Consumer(2, 1)))))
        assert run.outputs([0]) == {}

    def test_it_is_stored_if_one_of_them_still_waits(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a", consumers=(Consumer(1, 1), Consumer(2, 2)))))
        assert 0 in run.outputs([0])

    def test_it_is_stored_if_one_of_them_has_a_worker(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a", consumers=(Consumer(1, 1), Consumer(2, 1, "w")))))
        assert 0 in run.outputs([0])

    @pytest.mark.parametrize("needed", [Completion(0, 1, b"a", keep=True, consumers=(Consumer(1, 1),)),
                                        Completion(0, 1, b"a", sink=True, consumers=(Consumer(1, 1),)),
                                        Completion(0, 1, b"a")])  # fmt: skip
    def test_it_is_stored_if_it_must_be_kept_or_has_no_consumers(self, run: Coordination, needed: Completion) -> None:
        run.report(done(needed))
        assert 0 in run.outputs([0])

    def test_a_later_completion_of_the_same_report_may_make_the_consumer_ready(self, run: Coordination) -> None:
        # 0 ─┐
        # 1 ─┴─ 2, all at once: nobody else needs either output
        both = [Completion(task, 1, b"x", consumers=(Consumer(2, 2),)) for task in (0, 1)]
        assert run.report(done(*both)).ready == (2,)
        assert run.outputs([0, 1]) == {}

    def test_an_object_is_recorded_even_if_the_reporter_is_its_only_reader(self, run: Coordination) -> None:
        run.report(done(Completion(0, 99, consumers=(Consumer(1, 1),))))
        assert run.outputs([0]) == {0: Stored(99)}

    def test_an_output_can_be_published_after_its_completion(self, run: Coordination) -> None:
        run.report(done(Completion(0, 99, held=True, consumers=(Consumer(1, 1),))))
        assert run.outputs([0]) == {}
        run.report(Report("first", published=(Published(0, 99), Published(1, 2, b"ab"))))
        assert run.outputs([0, 1]) == {0: Stored(99), 1: Stored(2, b"ab")}
        assert run.objects_stored() == [0]


class TestHeld:
    def test_a_held_output_counts_if_all_its_consumers_become_ready_for_the_reporter(self, run: Coordination) -> None:
        outcome = run.report(done(Completion(0, 99, held=True, consumers=(Consumer(1, 1), Consumer(2, 1)))))
        assert (outcome.ready, outcome.store_first) == ((1, 2), ())
        assert run.outputs([0]) == {}
        assert run.join("first", 1).done == {0}

    @pytest.mark.parametrize("consumers", [(Consumer(1, 2),), (Consumer(1, 1), Consumer(2, 1, "w"))])
    def test_else_it_is_refused_as_a_whole(self, run: Coordination, consumers: tuple[Consumer, ...]) -> None:
        outcome = run.report(done(Completion(0, 99, held=True, consumers=consumers)))
        assert outcome == Outcome(Status.RUNNING, store_first=(0,), live=1)
        assert run.join("first", 1).done == frozenset()
        assert events(run, "w") == []

    def test_a_refused_one_counts_once_it_is_stored(self, run: Coordination) -> None:
        consumers = (Consumer(1, 1), Consumer(2, 2))
        run.report(done(Completion(0, 99, held=True, consumers=consumers)))
        assert run.report(done(Completion(0, 99, consumers=consumers))).ready == (1,)
        assert run.outputs([0]) == {0: Stored(99)}

    @pytest.mark.parametrize(("keep", "sink"), [(True, False), (False, True)])
    def test_one_that_must_be_in_storage_is_refused(self, run: Coordination, keep: bool, sink: bool) -> None:
        completion = Completion(0, 99, held=True, keep=keep, sink=sink, consumers=(Consumer(1, 1),))
        assert run.report(done(completion)).store_first == (0,)

    def test_others_of_the_report_are_counted_first(self, run: Coordination) -> None:
        # 0 (held) ─┐
        # 1 ────────┴─ 2
        held = Completion(0, 99, held=True, consumers=(Consumer(2, 2),))
        outcome = run.report(done(held, Completion(1, 1, b"x", consumers=(Consumer(2, 2),))))
        assert (outcome.ready, outcome.store_first) == ((2,), ())
        assert run.outputs([0, 1]) == {}

    def test_two_that_need_each_other_are_both_refused(self, run: Coordination) -> None:
        both = [Completion(task, 99, held=True, consumers=(Consumer(2, 2),)) for task in (0, 1)]
        outcome = run.report(done(*both))
        assert (outcome.ready, outcome.store_first) == ((), (0, 1))

    def test_one_listed_twice_is_refused_once(self, run: Coordination) -> None:
        held = Completion(0, 99, held=True, consumers=(Consumer(2, 2),))
        assert run.report(done(held, held)).store_first == (0,)

    def test_one_that_was_refused_is_not_judged_again_in_the_same_report(self, run: Coordination) -> None:
        kept, other = (Completion(0, 99, held=True, keep=keep, consumers=(Consumer(2, 1),)) for keep in (True, False))
        assert run.report(done(kept, other)) == Outcome(Status.RUNNING, store_first=(0,), live=1)
        assert run.join("first", 1).done == frozenset()

    def test_one_that_was_counted_before_is_ignored(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"x", consumers=(Consumer(2, 2),))))
        assert run.report(done(Completion(0, 1, held=True, consumers=(Consumer(2, 2),)))).store_first == ()


class TestPlannedTasks:
    def test_the_worker_is_told_when_its_task_has_what_it_needs(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a", consumers=(Consumer(2, 2, "w"),))))
        assert events(run, "w") == []
        run.report(done(Completion(1, 1, b"b", consumers=(Consumer(2, 2, "w"),))))
        assert events(run, "w") == [TaskReady(2, {1: b"b"})]

    def test_it_is_told_the_small_inputs_of_the_same_report(self, run: Coordination) -> None:
        consumers = (Consumer(5, 3, "w"),)
        run.report(done(Completion(0, 1, b"\x00a", consumers=consumers), Completion(1, 99, consumers=consumers),
                        Completion(2, 1, b"", consumers=consumers), Completion(3, 1, b"c")))  # fmt: skip
        assert events(run, "w") == [TaskReady(5, {0: b"\x00a", 2: b""})]

    def test_a_task_may_have_thousands_of_small_inputs(self, run: Coordination) -> None:
        inputs = {task: b"%d" % task for task in range(20_000)}
        consumers = (Consumer(30_000, len(inputs), "w"),)
        run.report(done(*(Completion(task, len(data), data, consumers=consumers) for task, data in inputs.items())))
        assert events(run, "w") == [TaskReady(30_000, inputs)]

    def test_a_worker_that_was_never_started_is_claimed_for_the_reporter(self, run: Coordination) -> None:
        outcome = run.report(done(Completion(0, consumers=(Consumer(2, 1, "w"), Consumer(3, 1, "w")))))
        assert outcome.started == (("w", 1),)
        assert run.progress() == Progress(ran=0, invocations=2, starting=2)
        assert events(run, "w") == [TaskReady(2), TaskReady(3)]

    def test_a_worker_that_was_claimed_is_not_claimed_again(self, run: Coordination) -> None:
        run.report(done(Completion(0, consumers=(Consumer(2, 1, "w"),))))
        assert run.report(done(Completion(1, consumers=(Consumer(3, 1, "w"),)))).started == ()

    def test_a_worker_that_only_has_mail_counts_as_never_started(self, run: Coordination) -> None:
        run.post("w", [Stop(Status.CANCELLED)])
        assert run.report(done(Completion(0, consumers=(Consumer(2, 1, "w"),)))).started == (("w", 1),)


class TestWatching:
    def test_those_who_watch_are_told_of_the_completion_and_its_output(self, run: Coordination) -> None:
        run.report(done(Completion(0, 2, b"\x00a", watchers=("v", "w")), Completion(1, 10**15, watchers=("w",))))
        assert events(run, "v") == [TaskCompleted(0, 2, b"\x00a")]
        assert events(run, "w") == [TaskCompleted(0, 2, b"\x00a"), TaskCompleted(1, 10**15)]

    def test_an_empty_output_is_enclosed_too(self, run: Coordination) -> None:
        run.report(done(Completion(0, 0, b"", watchers=("w",))))
        assert events(run, "w") == [TaskCompleted(0, 0, b"")]

    def test_they_are_told_once(self, run: Coordination) -> None:
        report = done(Completion(0, 1, b"a", watchers=("w",)))
        run.report(report)
        run.report(report)
        run.report(done(Completion(0, 1, b"b", watchers=("v", "w"))))
        assert events(run, "w") == [TaskCompleted(0, 1, b"a")]
        assert events(run, "v") == []

    def test_it_starts_nobody(self, run: Coordination) -> None:
        outcome = run.report(done(Completion(0, 1, b"a", watchers=("w",))))
        assert outcome == Outcome(Status.RUNNING, live=1)
        assert run.progress().invocations == 1

    def test_who_is_started_later_finds_it_in_the_inbox(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a", watchers=("w",))))
        assert run.report(done(Completion(1, consumers=(Consumer(2, 1, "w"),)))).started == (("w", 1),)
        run.join("w", 1)
        assert events(run, "w") == [TaskCompleted(0, 1, b"a"), TaskReady(2)]

    def test_it_comes_before_the_wake_up_of_the_same_report(self, run: Coordination) -> None:
        consumers = (Consumer(2, 1, "w"),)
        run.report(done(Completion(0, 1, b"a", consumers=consumers), Completion(1, 1, b"b", watchers=("w",))))
        assert events(run, "w") == [TaskCompleted(1, 1, b"b"), TaskReady(2, {0: b"a"})]

    def test_what_is_watched_is_stored_though_the_reporter_goes_on_with_it(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a", consumers=(Consumer(1, 1),), watchers=("w",))))
        assert run.outputs([0]) == {0: Stored(1, b"a")}

    def test_it_cannot_be_held(self, run: Coordination) -> None:
        held = Completion(0, 99, held=True, consumers=(Consumer(1, 1),), watchers=("w",))
        assert run.report(done(held)) == Outcome(Status.RUNNING, store_first=(0,), live=1)
        assert events(run, "w") == []

    def test_it_keeps_a_worker_from_giving_its_slot_up_unread(self, run: Coordination) -> None:
        run.report(Report("x", claims=(claim("w", 5),)))
        run.join("w", 1)
        run.report(done(Completion(0, 1, b"a", watchers=("w",))))
        assert not run.suspend("w", 1, "0", 0)
        cursor, _ = run.read("w", "0", 0)
        assert run.suspend("w", 1, cursor, 0)

    def test_a_suspended_worker_is_not_started_by_it(self, run: Coordination) -> None:
        suspend(run)
        assert run.report(done(Completion(0, 1, b"a", watchers=("w",)))).started == ()

    def test_a_task_that_ran_twice_is_one_that_ran(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a"), ran=1))
        run.report(done(Completion(0, 1, b"a"), Completion(1, 1, b"b"), ran=2))
        run.report(done(Completion(1, 1, held=True), ran=1))
        assert run.progress().ran == 2


class TestClaims:
    def test_a_flexible_worker_is_granted_once_by_name(self, run: Coordination) -> None:
        report = Report("first", claims=(claim("f1", 3), claim("f2", 4), claim("f1", 5)))
        assert run.report(report).started == (("f1", 1), ("f2", 1))
        assert run.report(report).started == ()
        assert run.progress() == Progress(ran=0, invocations=3, starting=3)

    def test_a_worker_claimed_at_creation_is_not_granted_again(self, run: Coordination) -> None:
        assert run.report(Report("x", claims=(claim("first", 0),))).started == ()


class TestLive:
    def test_claimed_invocations_are_live_until_they_leave(self, run: Coordination) -> None:
        assert run.report(Report("first", claims=(claim("f1", 3),))).live == 2
        run.leave(summary("first"))
        assert run.join("f1", 1).live == 1

    def test_an_invocation_leaves_once(self, run: Coordination) -> None:
        run.report(Report("first", claims=(claim("f1", 3),)))
        run.leave(summary("first"))
        run.leave(summary("first"))
        assert run.report(Report("f1")).live == 1

    def test_one_that_left_without_joining_is_not_waited_for(self, run: Coordination) -> None:
        run.leave(summary("first"))
        assert run.progress().starting == 0

    def test_an_earlier_attempt_that_leaves_late_says_nothing_of_the_later_one(self, run: Coordination) -> None:
        suspend(run)
        run.report(done(Completion(1, consumers=(Consumer(5, 1, "w"),))))
        run.leave(summary("w", 1))
        assert run.progress().starting == 2

    def test_the_client_is_told_even_after_the_end(self, run: Coordination) -> None:
        run.fail(Status.FAILED, b"why")
        run.leave(summary("first"))
        assert events(run, CLIENT) == [RunEnded(Status.FAILED, b"why"), WorkerLeft(summary("first"))]


class TestLeavingWithAReport:
    """Who has nothing left to do unless the report leads to it says both at once."""

    LAST = Completion(0, 1, b"a")

    def leave_with(self, run: Coordination, *completions: Completion, **rest: Any) -> Outcome:
        return run.report(Report("first", completions=completions, leaving=summary("first"), **rest))

    def test_the_client_is_told_and_nobody_waits_for_it(self, run: Coordination) -> None:
        run.report(Report("first", claims=(claim("f1", 3),)))
        run.join("first", 1)
        outcome = self.leave_with(run, self.LAST, ran=1)
        assert outcome.left
        assert outcome.live == 1
        assert events(run, CLIENT) == [WorkerLeft(summary("first"))]
        assert [missing.worker for missing in run.live()] == ["f1"]
        assert run.progress().ran == 1

    def test_it_is_one_invocation_that_left(self, run: Coordination) -> None:
        run.report(Report("first", claims=(claim("f1", 3),)))
        self.leave_with(run, self.LAST)
        run.leave(summary("first"))
        assert run.report(Report("f1")).live == 1

    def test_not_if_a_task_became_ready_for_it(self, run: Coordination) -> None:
        outcome = self.leave_with(run, Completion(0, 1, b"a", consumers=(Consumer(5, 1),)))
        assert (outcome.left, outcome.ready, outcome.live) == (False, (5,), 1)
        assert events(run, CLIENT) == []

    def test_not_if_it_is_to_start_a_worker(self, run: Coordination) -> None:
        outcome = self.leave_with(run, Completion(0, 1, b"a", consumers=(Consumer(5, 1, "w"),)))
        assert (outcome.left, outcome.started) == (False, (("w", 1),))

    def test_not_if_it_is_to_store_something_first(self, run: Coordination) -> None:
        held = Completion(0, 1, held=True, consumers=(Consumer(5, 2, "w"),))
        outcome = self.leave_with(run, held)
        assert (outcome.left, outcome.store_first) == (False, (0,))

    def test_not_if_the_run_ends_with_it(self, run: Coordination) -> None:
        outcome = self.leave_with(run, Completion(9, 1, b"a", sink=True))
        assert (outcome.left, outcome.status) == (False, Status.SUCCEEDED)
        assert events(run, CLIENT) == [RunEnded(Status.SUCCEEDED)]

    def test_not_if_another_has_its_place(self, run: Coordination) -> None:
        outcome = self.leave_with(run, self.LAST, attempt=7)
        assert (outcome.left, outcome.status) == (False, Status.REPLACED)
        assert events(run, CLIENT) == []


def suspend(run: Coordination) -> None:
    """Have a worker `w` suspend itself for the sake of `first`."""
    run.report(Report("x", claims=(claim("w", 5),)))
    run.join("w", 1)
    assert run.suspend("w", 1, "0", 0)


class TestSuspend:
    def test_nobody_suspends_unless_someone_waits_for_a_slot(self, run: Coordination) -> None:
        run.join("first", 1)
        assert not run.suspend("first", 1, "0", 0)

    def test_nobody_suspends_before_the_grace_is_over(self, run: Coordination) -> None:
        run.report(Report("first", claims=(claim("w", 5),)))
        run.join("w", 1)
        assert not run.suspend("w", 1, "0", 1000)

    def test_nobody_suspends_with_unread_events(self, run: Coordination) -> None:
        run.report(done(Completion(0, consumers=(Consumer(2, 1, "w"),))))
        run.join("w", 1)
        assert not run.suspend("w", 1, "0", 0)
        cursor, _ = run.read("w", "0", 0)
        assert run.suspend("w", 1, cursor, 0)

    def test_a_suspended_worker_is_claimed_when_a_task_of_it_becomes_ready(self, run: Coordination) -> None:
        suspend(run)
        assert run.report(done(Completion(1, consumers=(Consumer(5, 1, "w"),)))).started == (("w", 2),)
        assert run.join("w", 2).status is Status.RUNNING
        assert events(run, "w") == [TaskReady(5)]

    def test_a_suspended_worker_is_claimed_once(self, run: Coordination) -> None:
        suspend(run)
        run.report(done(Completion(1, consumers=(Consumer(5, 1, "w"),))))
        assert run.report(done(Completion(2, consumers=(Consumer(6, 1, "w"),)))).started == ()

    def test_who_asks_again_is_told_again_to_end(self, run: Coordination) -> None:
        suspend(run)
        assert run.suspend("w", 1, "0", 0)

    def test_an_earlier_attempt_must_end(self, run: Coordination) -> None:
        suspend(run)
        run.report(done(Completion(1, consumers=(Consumer(5, 1, "w"),))))
        assert run.suspend("w", 1, "0", 1000)

    def test_a_worker_that_was_never_claimed_has_nothing_to_give_up(self, run: Coordination) -> None:
        assert not run.suspend("stranger", 1, "0", 0)


class TestEnd:
    def test_the_last_sink_ends_the_run(self, storage: Storage) -> None:
        run = storage.coordination(new_run_id())
        run.create(SPEC, [1, 2], [])
        assert run.report(done(Completion(1, 1, b"a", sink=True))).status is Status.RUNNING
        assert run.report(done(Completion(1, 1, b"a", sink=True))).status is Status.RUNNING
        assert run.report(done(Completion(2, 99, sink=True))).status is Status.SUCCEEDED
        assert run.status() is Status.SUCCEEDED
        assert events(run, CLIENT) == [RunEnded(Status.SUCCEEDED)]

    def test_no_worker_is_granted_in_the_report_that_ends_the_run(self, run: Coordination) -> None:
        report = Report("first", completions=(Completion(9, 1, b"r", sink=True),), claims=(claim("f1", 3),))
        assert run.report(report).started == ()

    def test_a_report_after_success_changes_nothing(self, run: Coordination) -> None:
        run.report(done(Completion(9, 1, b"r", sink=True)))
        late = Report(
            "first",
            published=(Published(7, 1, b"x"),),
            completions=(Completion(8, 1, b"x", consumers=(Consumer(5, 1), Consumer(6, 1, "w"))),),
            claims=(claim("f1", 3),),
            ran=4,
        )
        assert run.report(late) == Outcome(Status.SUCCEEDED)
        assert run.outputs([7, 8]) == {}
        assert run.progress() == Progress(ran=0, invocations=1, starting=1)
        assert events(run, CLIENT) == [RunEnded(Status.SUCCEEDED)]

    @pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
    def test_a_failure_ends_the_run_and_stops_every_worker_claimed(self, run: Coordination, status: Status) -> None:
        run.report(done(Completion(0, consumers=(Consumer(2, 1, "w"),))))
        assert run.fail(status, b"\xffwhy")
        assert run.status() is status
        assert events(run, CLIENT) == [RunEnded(status, b"\xffwhy")]
        assert events(run, "first") == [Stop(status)]
        assert events(run, "w") == [TaskReady(2), Stop(status)]

    def test_who_was_never_claimed_is_not_stopped(self, run: Coordination) -> None:
        run.post("stranger", [TaskReady(1)])
        run.fail(Status.FAILED, b"")
        assert events(run, "stranger") == [TaskReady(1)]

    def test_the_first_failure_wins(self, run: Coordination) -> None:
        assert run.fail(Status.FAILED, b"first")
        assert not run.fail(Status.CANCELLED, b"second")
        assert events(run, CLIENT) == [RunEnded(Status.FAILED, b"first")]

    def test_a_run_that_succeeded_does_not_fail(self, run: Coordination) -> None:
        run.report(done(Completion(9, 1, b"r", sink=True)))
        assert not run.fail(Status.FAILED, b"")
        assert run.status() is Status.SUCCEEDED

    def test_after_a_failure_reports_are_not_applied(self, run: Coordination) -> None:
        run.fail(Status.FAILED, b"")
        assert run.report(done(Completion(9, 1, b"r", sink=True), ran=1)) == Outcome(Status.FAILED)
        assert run.outputs([9]) == {}
        assert run.progress().ran == 0

    def test_a_run_cannot_fail_as_succeeded(self, run: Coordination) -> None:
        with pytest.raises(ValueError, match="SUCCEEDED"):
            run.fail(Status.SUCCEEDED, b"")


class TestPrune:
    def test_it_keeps_the_status_the_progress_the_sinks_and_the_clients_inbox(self, run: Coordination) -> None:
        run.report(
            done(Completion(0, 1, b"a"), Completion(1, 99), Completion(2, consumers=(Consumer(3, 1, "w"),)), ran=3)
        )
        run.leave(summary("w"))
        run.report(done(Completion(9, 99, sink=True)))
        before = run.progress()
        run.prune()
        assert run.status() is Status.SUCCEEDED
        assert run.progress() == before
        assert run.outputs(range(10)) == {9: Stored(99)}
        assert run.objects_stored() == [9]
        assert events(run, CLIENT) == [WorkerLeft(summary("w")), RunEnded(Status.SUCCEEDED)]
        assert run.spec() == SPEC
        assert events(run, "w") == []

    def test_a_worker_that_has_not_left_keeps_its_inbox(self, run: Coordination) -> None:
        """Others did its task 3: it may wait for that news, and would wait for ever."""
        run.report(done(Completion(2, consumers=(Consumer(3, 1, "w"),))))
        run.report(done(Completion(3, 1, b"c", watchers=("w", "v")), Completion(9, 1, b"r", sink=True), worker="v"))
        run.prune()
        assert events(run, "w") == [TaskReady(3), TaskCompleted(3, 1, b"c")]
        assert events(run, "v") == []

    def test_a_running_run_is_not_pruned(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a")))
        run.prune()
        assert run.outputs([0]) == {0: Stored(1, b"a")}
        assert run.spec() == SPEC


class TestFollowers:
    def test_the_run_of_one_client_is_removed_when_that_has_done(self, run: Coordination) -> None:
        assert run.unfollow()
        assert run.status() is Status.GONE
        assert events(run, "first") == [Stop(Status.GONE)]

    def test_a_run_is_there_until_the_last_has_done(self, run: Coordination) -> None:
        assert run.follow()
        assert run.follow()
        assert not run.unfollow(creator=False)
        assert not run.unfollow()
        assert not run.unfollow()  # the creator counts once
        assert run.status() is Status.RUNNING
        assert run.unfollow(creator=False)
        assert run.status() is Status.GONE

    def test_a_run_that_is_left_for_others_is_there_until_one_of_them_has_done(self, run: Coordination) -> None:
        assert not run.unfollow(keep=True)
        assert run.status() is Status.RUNNING
        for keep in (True, False):
            assert run.follow()
            assert run.unfollow(creator=False, keep=keep) is not keep
        assert run.status() is Status.GONE

    def test_what_somebody_has_had_is_kept_for_nobody(self, run: Coordination) -> None:
        assert run.follow()
        assert not run.unfollow(creator=False)
        assert run.unfollow(keep=True)
        assert run.status() is Status.GONE

    def test_a_client_that_never_followed_takes_nobody_elses_place(self, run: Coordination) -> None:
        assert not run.unfollow(creator=False)
        assert run.follow()
        assert not run.unfollow()
        assert run.unfollow(creator=False)

    def test_a_run_that_is_gone_cannot_be_followed(self, run: Coordination) -> None:
        run.remove()
        assert not run.follow()
        assert run.unfollow()
        assert run.status() is Status.GONE


class TestRemove:
    def test_a_removed_run_is_gone_for_everyone(self, run: Coordination) -> None:
        run.report(done(Completion(0, 1, b"a", consumers=(Consumer(3, 1, "w"),))))
        run.remove()
        assert run.status() is Status.GONE
        assert run.spec() is None
        assert run.join("first", 1) == Joined(Status.GONE)
        assert run.report(done(Completion(1, 1, b"b"))) == Outcome(Status.GONE)
        assert run.outputs([0]) == {}
        assert not run.suspend("w", 1, "0", 0)
        assert not run.fail(Status.FAILED, b"")
        assert run.progress() == Progress(0, 0, 0)

    def test_every_inbox_of_a_run_that_is_gone_holds_a_stop(self, run: Coordination) -> None:
        cursor, _ = run.read("first", "0", 0)
        run.remove()
        assert run.read("first", cursor, 60) == (cursor, [Stop(Status.GONE)])
        assert events(run, CLIENT) == [Stop(Status.GONE)]

    def test_removing_twice_does_not_matter(self, run: Coordination) -> None:
        run.remove()
        run.remove()

    def test_runs_do_not_touch_each_other(self, storage: Storage, run: Coordination) -> None:
        other = storage.coordination(new_run_id())
        other.create(SPEC, [9], [])
        other.report(done(Completion(0, 1, b"theirs")))
        run.remove()
        assert other.outputs([0]) == {0: Stored(1, b"theirs")}
