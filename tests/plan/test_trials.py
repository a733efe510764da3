"""A small change is tried without simulating everything, and comes to the same."""

from random import Random

import pytest

from augury.config import Resources
from augury.errors import PlanError
from augury.plan.model import PlatformModel, Price, Timing
from augury.plan.simulate.trials import Trials
from tests.plan.random_runs import Case, random_case

SMALL, LARGE = Resources(cpus=1, memory_mb=256), Resources(cpus=2, memory_mb=4096)


def steady(seed: int) -> Case:
    """A case in which it does not matter who starts cold, since trials leave that as it was."""
    case = random_case(seed, flexible=0, slots=1000)
    slowest = max(case.platform.timings.values(), key=lambda timing: timing.latency_s)
    timing = Timing(
        cold_start_s=0.1, warm_start_s=0.1, latency_s=slowest.latency_s, bandwidth_bytes_s=slowest.bandwidth_bytes_s
    )
    return case._replace(platform=PlatformModel(timing=timing, concurrency=1000, price=Price(start_billed=False)))


def change(trials: Trials, rng: Random) -> None:
    """Try a random change, and keep it or not."""
    if rng.random() < 0.5:
        trial = trials.resize(rng.choice(sorted(trials.workers)), rng.choice([SMALL, LARGE]))
    else:
        count = len(trials.graph)
        tasks = rng.sample(range(count), rng.randint(1, min(3, count)))
        trial = trials.move(tasks, rng.choice([*sorted(trials.workers), max(trials.workers) + 1]))
    if rng.random() < 0.6:
        trials.accept(trial)


def test_trials_come_to_what_whole_simulations_say() -> None:
    off = 0
    for seed in range(150):
        case, rng = steady(seed), Random(seed)
        outlook = case.outlook
        trials = outlook.trials(case.plan)
        for _ in range(4):
            change(trials, rng)
            simulated = outlook.simulate(trials.plan_now())
            same = trials.makespan_s == pytest.approx(simulated.makespan_s, rel=1e-9)
            off += not same
            assert trials.makespan_s == pytest.approx(simulated.makespan_s, rel=0.05)
            assert trials.cost_usd == pytest.approx(simulated.cost_usd, rel=0.05)
    assert off <= 6  # reports of several workers at one instant may be taken in another order


def test_what_is_not_accepted_is_taken_back() -> None:
    """0 on worker 0 ──▶ 1 on worker 1"""
    case = steady(3)
    trials = case.outlook.trials(case.plan)
    before = (trials.makespan_s, trials.cost_usd, trials.plan_now())
    worker = next(iter(trials.workers))
    trials.resize(worker, SMALL)
    assert (trials.plan_now(), trials.makespan_s, trials.cost_usd) == (before[2], before[0], before[1])


def test_a_change_beyond_the_limit_is_of_no_interest() -> None:
    case = steady(7)
    trials = case.outlook.trials(case.plan)
    worker = trials.worker_with(trials.critical_tasks[-1])
    slower = trials.resize(worker, SMALL)
    if slower.makespan_s > trials.makespan_s:
        assert trials.resize(worker, SMALL, limit_s=trials.makespan_s).makespan_s == float("inf")


def test_plans_with_flexible_tasks_are_refused() -> None:
    case = random_case(1, flexible=1.0)
    with pytest.raises(PlanError, match="names a worker for each task"):
        case.outlook.trials(case.plan)
