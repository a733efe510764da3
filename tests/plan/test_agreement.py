"""The simulator does what the worker core does: both are given the same plans, durations and platforms.

Latencies are above zero: without any, what happens at one instant has no order that both must share.
"""

from itertools import combinations

import pytest

from augury.plan.timeline import Simulation
from augury.testing import VirtualPlatform, VirtualRun
from tests.plan.random_runs import Case, random_case, with_random_hints

CASES = 1000
HINTED_CASES = 60
SUBSETS = ["".join(kinds) for count in range(1, 5) for kinds in combinations("wldr", count)]


def both(case: Case) -> tuple[Simulation, VirtualRun]:
    simulated = case.outlook.simulate(case.plan)
    platform = VirtualPlatform.of(case.platform)
    run = platform.run(case.graph, case.plan, lambda task, _: task, duration_s=case.duration_s, size_bytes=case.size)
    return simulated, run


def deviation(simulated: Simulation, run: VirtualRun) -> float:
    return abs(simulated.makespan_s - run.makespan_s) / max(run.makespan_s, 1e-9)


def test_makespans_of_a_thousand_random_plans_are_those_of_the_worker_core() -> None:
    off = {seed: deviation(*both(random_case(seed))) for seed in range(CASES)}
    assert {seed: share for seed, share in off.items() if share > 0.01} == {}
    assert sum(share < 1e-9 for share in off.values()) >= 0.98 * CASES


def test_starts_and_bills_agree() -> None:
    for seed in range(200):
        case = random_case(seed)
        simulated, run = both(case)
        if deviation(simulated, run) > 1e-9:
            continue
        assert simulated.cold_starts == run.cold_starts, seed
        assert len(simulated.workers) == len(run.invocations), seed
        taken = sum(one.end_s - (one.granted_s if one.cold else one.start_s) for one in run.invocations)
        assert sum(worker.billed_s for worker in simulated.workers) == pytest.approx(
            taken, abs=0.001 * len(run.invocations) + 1e-6
        ), seed


@pytest.mark.parametrize("kinds", SUBSETS)
def test_every_subset_of_hints_agrees(kinds: str) -> None:
    base = sum(map(ord, kinds)) * 1000
    off = {
        seed: deviation(*both(with_random_hints(random_case(seed), seed, kinds)))
        for seed in range(base, base + HINTED_CASES)
    }
    assert len([seed for seed, share in off.items() if share > 0.01]) <= 0.05 * HINTED_CASES, off
