"""What the pool decides: who runs where, who stays warm, in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.config import Resources
from augury.invoke.embedded.pool import Pool, Start
from augury.invoke.gateway import Invocation
from tests.invoke.stage import invocation


def a_pool(slots: int = 2, keep_alive_s: float = 60.0, max_idle: int = 10) -> Pool:
    return Pool(slots, keep_alive_s, max_idle)


def begin(pool: Pool, *workers: str, stamp: str = "s") -> list[Start]:
    """Submit invocations and start what can be started."""
    pool.submit([invocation(worker, stamp=stamp) for worker in workers], received_s=0.0)
    return drain(pool)


def drain(pool: Pool) -> list[Start]:
    return list(iter(pool.start_next, None))


def names(starts: list[Start]) -> list[str]:
    return [start.job.invocation.worker for start in starts]


def test_what_finds_no_slot_waits_in_the_order_it_came() -> None:
    pool = a_pool(slots=2)
    first = begin(pool, "a", "b", "c", "d", "e")
    assert names(first) == ["a", "b"]
    assert pool.queued == 3
    pool.finish(first[1].worker, now_s=1.0)
    assert names(drain(pool)) == ["c"]


def test_the_worker_that_was_used_last_is_reused_first() -> None:
    pool = a_pool(slots=2)
    old, young = begin(pool, "a", "b")
    pool.finish(old.worker, now_s=1.0)
    pool.finish(young.worker, now_s=2.0)
    (start,) = begin(pool, "c")
    assert (start.worker, start.cold) == (young.worker, False)


def test_a_worker_that_has_seen_other_code_is_not_reused() -> None:
    pool = a_pool()
    (first,) = begin(pool, "a", stamp="old")
    pool.finish(first.worker, now_s=1.0)
    (second,) = begin(pool, "b", stamp="new")
    assert second.cold


def test_a_prewarmed_worker_fits_any_code_but_is_fresh_only_once() -> None:
    pool = a_pool()
    resources = invocation().resources
    (number,) = pool.prewarm(resources, 1)
    assert pool.warmed(number, resources, now_s=0.0) == []
    (first,) = begin(pool, "a", stamp="one")
    assert (first.worker, first.cold) == (number, False)
    pool.finish(number, now_s=1.0)
    (second,) = begin(pool, "b", stamp="two")
    assert second.cold


def test_prewarming_makes_up_what_is_missing() -> None:
    pool = a_pool(max_idle=3)
    resources = Resources()
    for number in pool.prewarm(resources, 2):
        pool.warmed(number, resources, now_s=0.0)
    assert len(pool.prewarm(resources, 2)) == 0
    assert len(pool.prewarm(resources, 9)) == 1


def test_what_is_being_prewarmed_is_not_missing() -> None:
    pool = a_pool(max_idle=4)
    first, second = pool.prewarm(Resources(1, 256), 2)
    assert len(pool.prewarm(Resources(1, 256), 3)) == 1
    assert pool.prewarm(Resources(1, 256), 3) == []
    assert len(pool.prewarm(Resources(1, 512), 3)) == 1, "no more start than can wait"
    pool.lose(first)
    pool.warmed(second, Resources(1, 256), now_s=0.0)
    assert len(pool.prewarm(Resources(1, 256), 3)) == 1


def test_what_waits_and_has_seen_the_present_code_need_not_be_prewarmed() -> None:
    pool = a_pool()
    used, other = begin(pool, "a", stamp="old") + begin(pool, "b", stamp="new")
    pool.finish(used.worker, now_s=1.0)
    for number in pool.prewarm(used.job.invocation.resources, 2):
        pool.lose(number)
    assert pool.counters.prewarmed == 2
    pool.finish(other.worker, now_s=1.0)
    assert len(pool.prewarm(used.job.invocation.resources, 2)) == 1


def test_an_invocation_does_not_wait_for_a_worker_that_is_being_prewarmed() -> None:
    pool = a_pool()
    resources = invocation().resources
    (number,) = pool.prewarm(resources, 1)
    (start,) = begin(pool, "a")
    assert start.cold
    pool.warmed(number, resources, now_s=0.0)
    (second,) = begin(pool, "b")
    assert (second.worker, second.cold) == (number, False)


def test_nothing_is_prewarmed_where_nothing_is_kept() -> None:
    assert a_pool(keep_alive_s=0).prewarm(Resources(), 3) == []


def test_idle_workers_expire_in_their_order() -> None:
    pool = a_pool(keep_alive_s=10.0)
    old, young = begin(pool, "a", "b")
    pool.finish(old.worker, now_s=1.0)
    pool.finish(young.worker, now_s=5.0)
    assert pool.next_expiry_s() == 11.0
    assert pool.expire(now_s=10.9) == []
    assert pool.expire(now_s=11.0) == [old.worker]
    assert pool.next_expiry_s() == 15.0
    assert pool.expire(now_s=99.0) == [young.worker]
    assert pool.next_expiry_s() is None


def test_the_least_recently_used_worker_is_evicted() -> None:
    pool = a_pool(slots=3, max_idle=2)
    first, second, third = begin(pool, "a", "b", "c")
    assert pool.finish(first.worker, now_s=1.0) == []
    assert pool.finish(second.worker, now_s=2.0) == []
    assert pool.finish(third.worker, now_s=3.0) == [first.worker]
    assert pool.idle == 2


def test_without_keep_alive_a_worker_is_retired_at_once() -> None:
    pool = a_pool(keep_alive_s=0)
    (start,) = begin(pool, "a")
    assert pool.finish(start.worker, now_s=0.0) == [start.worker]
    assert pool.idle == 0


def test_an_invocation_is_taken_once() -> None:
    pool = a_pool(slots=9)
    begin(pool, "a")
    assert begin(pool, "a") == []
    pool.submit([invocation("a", attempt=2)], received_s=0.0)
    assert len(drain(pool)) == 1
    assert pool.counters.invocations == 2


def test_an_invocation_whose_worker_was_lost_may_come_again() -> None:
    pool = a_pool()
    (start,) = begin(pool, "a")
    pool.lose(start.worker)
    (again,) = begin(pool, "a")
    assert again.cold
    assert pool.drop_workers() == [again]
    assert names(begin(pool, "a")) == ["a"]


def test_what_is_put_back_is_not_taken_twice() -> None:
    pool = a_pool()
    (start,) = begin(pool, "a")
    pool.lose(start.worker)
    pool.requeue(start.job)
    assert names(begin(pool, "a")) == ["a"]


def test_an_invocation_that_came_to_its_end_does_not_come_again() -> None:
    pool = a_pool()
    spent, other = begin(pool, "a", "b")
    assert not pool.has_ended(invocation("a"))
    assert pool.finish(spent.worker, now_s=1.0, spent=True) == [spent.worker]
    pool.finish(other.worker, now_s=1.0)
    assert pool.has_ended(invocation("a"))
    assert begin(pool, "a", "b") == []


def test_what_waits_has_not_ended() -> None:
    pool = a_pool(slots=1)
    begin(pool, "a", "b")
    assert not pool.has_ended(invocation("b"))
    pool.drop_run("run")
    assert not pool.has_ended(invocation("b")), "nor has what was stopped"


def test_a_long_queue_is_not_searched_for_an_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    names_of: list[Invocation] = []

    def counted(one: Invocation) -> tuple[str, str, int]:
        names_of.append(one)
        return one.run_id, one.worker, one.attempt

    pool = a_pool(slots=50)
    begin(pool, *map(str, range(100)))
    monkeypatch.setattr("augury.invoke.embedded.pool._name", counted)
    asked = invocation("49"), invocation("99")
    assert [pool.running_as(one) is None for one in asked] == [False, True]
    assert not any(map(pool.has_ended, asked))
    assert names_of == [*asked, *asked]


def test_a_run_is_remembered_though_its_worker_was_lost() -> None:
    pool = a_pool()
    (start,) = begin(pool, "a")
    pool.lose(start.worker)
    assert pool.runs() == ({"run"}, set())


def test_what_is_remembered_of_past_invocations_is_bounded() -> None:
    pool = a_pool(slots=1)
    pool.submit([invocation(f"w{number}") for number in range(70_000)], received_s=0.0)
    assert len(pool._accepted) == 65_536


def test_a_lost_worker_frees_its_slot_and_says_what_it_ran() -> None:
    pool = a_pool(slots=1)
    (start,) = begin(pool, "a", "b")
    assert pool.lose(start.worker) is start
    assert names(drain(pool)) == ["b"]


def test_a_lost_idle_worker_is_not_reused() -> None:
    pool = a_pool()
    (start,) = begin(pool, "a")
    pool.finish(start.worker, now_s=0.0)
    assert pool.lose(start.worker) is None
    (again,) = begin(pool, "b")
    assert again.cold


def test_what_is_put_back_goes_first() -> None:
    pool = a_pool(slots=1)
    (start,) = begin(pool, "a", "b")
    pool.lose(start.worker)
    pool.requeue(start.job)
    assert names(drain(pool)) == ["a"]


def test_a_stopped_run_gives_its_slots_back_and_comes_to_nothing_later() -> None:
    pool = a_pool(slots=2)
    pool.submit([invocation("a", "doomed"), invocation("b", "doomed"), invocation("c", "doomed")], received_s=0.0)
    pool.submit([invocation("d", "other")], received_s=0.0)
    running = drain(pool)
    dropped, killed = pool.drop_run("doomed")
    assert (dropped, killed) == (1, running)
    assert names(drain(pool)) == ["d"]
    pool.submit([invocation("late", "doomed")], received_s=0.0)
    assert pool.queued == 0
    assert pool.finish(running[0].worker, now_s=0.0) == []
    assert pool.idle == 0


@given(
    slots=st.integers(1, 5),
    max_idle=st.integers(0, 4),
    steps=st.lists(st.tuples(st.sampled_from(["submit", "finish", "lose", "expire"]), st.integers(0, 9)), max_size=60),
)
def test_slots_order_and_bounds_hold_whatever_happens(slots: int, max_idle: int, steps: list[tuple[str, int]]) -> None:
    pool = Pool(slots, 3.0, max_idle)
    submitted: list[str] = []
    began: list[Start] = []
    busy: list[Start] = []
    for now_s, (step, choice) in enumerate(steps):
        if step == "submit":
            submitted.append(f"w{now_s}")
            pool.submit([invocation(f"w{now_s}", stamp=str(choice % 2))], received_s=0.0)
        elif step == "expire":
            pool.expire(float(now_s))
        elif busy:
            start = busy.pop(choice % len(busy))
            if step == "finish":
                pool.finish(start.worker, float(now_s))
            else:
                assert pool.lose(start.worker) is start
        for start in drain(pool):
            began.append(start)
            busy.append(start)
        assert pool.running == len(busy) <= slots
        assert pool.idle <= max_idle
        assert pool.queued == 0 or pool.running == slots
        assert len({start.worker for start in busy}) == len(busy)
        assert [start for start in began if pool.running_as(start.job.invocation) == start.worker] == [
            start for start in began if start in busy
        ]
        assert names(began) == submitted[: len(began)]


def test_an_older_attempt_gives_its_slot_up_for_the_one_that_has_its_place() -> None:
    pool = Pool(slots=2, keep_alive_s=60, max_idle=4)
    pool.submit([invocation("w"), invocation("x"), invocation("w", attempt=2)], 0.0)
    first, other = pool.start_next(), pool.start_next()
    assert first is not None
    assert other is not None
    assert pool.start_next() is None
    assert pool.older_than(invocation("w", attempt=2)) == [first]
    assert pool.older_than(invocation("w", attempt=2)) == []
    successor = pool.start_next()
    assert successor is not None
    assert successor.job.invocation.attempt == 2
    assert pool.busy_with(other.worker) == other


def test_the_worker_of_an_invocation_is_found() -> None:
    pool = Pool(slots=2, keep_alive_s=60, max_idle=4)
    pool.submit([invocation("w")], 0.0)
    assert pool.running_as(invocation("w")) is None
    start = pool.start_next()
    assert start is not None
    assert pool.running_as(invocation("w")) == start.worker
    assert pool.running_as(invocation("w", attempt=2)) is None
    pool.finish(start.worker, now_s=1.0)
    assert pool.running_as(invocation("w")) is None
