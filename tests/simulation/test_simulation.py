"""A thousand runs against a seeded adversary: whatever happens, the result is right, and in time, and nothing is left.

`make soak` goes through many more. What is checked of each run is in `cases.py`, in `augury.testing.adverse` (the
bound, how often a run ends, what is left behind) and in `augury.testing.mortal` (what is done again).
"""

import pytest

from augury.testing import Adversary, Mishap, VirtualPlatform
from tests.simulation.cases import Tally, case_of, check, evaluate, examine, play
from tests.worker.shapes import graph_of, plan_of

SEEDS = 1000
BATCH = 50


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_faults_change_nothing(first: int) -> None:
    tally = Tally()
    for seed in range(first, first + BATCH):
        try:
            examine(seed, tally)
        except Exception as error:
            raise AssertionError(f"python -m tests.simulation.soak --first {seed} --seeds 1 --tell") from error
    assert tally.faults.total() > BATCH
    assert tally.executions > tally.tasks * 0.9


def test_a_task_with_two_reasons_to_be_stopped_is_stopped_once() -> None:
    examine(1_017_967, Tally())


def test_a_duplicate_that_is_told_of_before_its_input_leaves_nobody_waiting() -> None:
    examine(5_082_950, Tally())


def test_what_a_restarted_worker_has_taken_looks_like_nobody_elses() -> None:
    examine(7_031_776, Tally())


def test_a_second_worker_that_came_first_and_is_lost_for_good_ends_the_run() -> None:
    examine(9_011_956, Tally())


def test_every_kind_of_fault_happens() -> None:
    tally = Tally()
    for seed in range(100):
        examine(seed, tally)
    assert set(tally.faults) == set(map(str, Mishap))


def test_a_case_is_the_same_each_time() -> None:
    for seed in range(20):
        assert play(case_of(seed)) == play(case_of(seed))


def test_a_lost_worker_is_found_when_its_lease_has_run_out() -> None:
    graph = graph_of([[]])
    adversary = Adversary(seed=0, rate=1.0, most=1, kinds=frozenset({Mishap.CRASH_UNSEEN}))
    platform = VirtualPlatform(adversary=adversary)
    run = platform.run(graph, plan_of(graph, {0: 0}), evaluate, duration_s=1.0)
    assert dict(run.faults) == {"crash, unseen": 1}
    lease_s = adversary.care.lease_s
    assert lease_s + 1 <= run.makespan_s <= 2 * lease_s + 1


def test_without_faults_an_adversary_changes_nothing() -> None:
    graph = graph_of([[], [0], [0], [1, 2]])
    plan = plan_of(graph, {0: 0, 1: 0, 2: 1, 3: 0})
    harmless = Adversary(seed=0, most=0)
    runs = [
        VirtualPlatform(latency_s=0.01, adversary=adversary).run(graph, plan, evaluate, duration_s=1.0)
        for adversary in (None, harmless)
    ]
    assert runs[0].values == runs[1].values
    assert runs[0].executions == runs[1].executions
    assert runs[1].makespan_s == pytest.approx(runs[0].makespan_s, abs=0.05)


def test_what_is_checked_can_be_wrong() -> None:
    case = case_of(3)
    run = play(case)
    assert run is not None
    check(case, run)
    other = case_of(4)
    with pytest.raises(AssertionError):
        check(other, run)
