"""Strong workers where the run waits for them, weak ones where it does not; case by case, each DAG drawn."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.config import Resources
from augury.dag.graph import Graph, build_workflow
from augury.errors import PlanError
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.planners import downgrade
from augury.plan.planners.nonuniform import NonUniformPlanner
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.predictions import FixedPredictions, Seconds
from tests.plan.graphs import graph_of
from tests.strategies import workflows

WEAK = Resources(cpus=1, memory_mb=512)
MIDDLE = Resources(cpus=1, memory_mb=1024)
STRONG = Resources(cpus=1, memory_mb=2048)
ALL = (WEAK, MIDDLE, STRONG)
INSTANT = PlatformModel(
    timing=Timing(cold_start_s=0, warm_start_s=0, latency_s=0, bandwidth_bytes_s=math.inf), flush_s=0.0
)


def memory_of(plan: Plan) -> list[int]:
    """For each task the memory of its worker, in MiB."""
    return [assignment.resources.memory_mb for assignment in plan.assignments]


# ── the planner ────────────────────────────────────────────────────────────────────────────────────────────────

TWO_BRANCHES = graph_of((), (), (0, 1))
#   0 ──┐            worker 0
#   1 ──┴▶ 2         worker 1; 2 is on worker 0


def planned(
    graph: Graph,
    seconds: Seconds,
    *,
    sizes: Any = 0.0,
    peak_mb: Any = 0.0,
    configurations: Sequence[Resources] | None = ALL,
    platform: PlatformModel = INSTANT,
    most: int = 1,
) -> Plan:
    outlook = Outlook(graph, FixedPredictions(seconds, sizes, peak_mb), platform)
    plan = NonUniformPlanner(configurations, most).plan(graph, outlook)
    plan.validate(graph)
    return plan


def cpu_bound(seconds: float) -> dict[int, float]:
    """A task that takes so long with 2048 MB, and longer with less, as its share of the CPU shrinks."""
    return {512: 4 * seconds, 1024: 2 * seconds, 2048: seconds}


def test_a_worker_with_time_to_spare_becomes_as_weak_as_can_be() -> None:
    #   0 ──┐            10 s with 2048 MB
    #   1 ──┴▶ 2         1 s with 2048 MB, 4 s with 512 MB
    plan = planned(TWO_BRANCHES, {0: cpu_bound(10), 1: cpu_bound(1), 2: cpu_bound(1)})
    assert memory_of(plan) == [2048, 512, 2048]
    assert plan.planner == "nonuniform"


def test_a_change_that_would_be_a_new_critical_path_is_refused() -> None:
    #   0 ──┐            10 s
    #   1 ──┴▶ 2         4 s with 2048 MB, 8 s with 1024 MB; with 512 MB 16 s, which all would wait for
    plan = planned(TWO_BRANCHES, {0: cpu_bound(10), 1: cpu_bound(4), 2: cpu_bound(1)})
    assert memory_of(plan) == [2048, 1024, 2048]


def test_no_worker_can_be_weaker() -> None:
    #   0 ──┐            10 s
    #   1 ──┴▶ 2         9 s with 2048 MB, 18 s with 1024 MB
    plan = planned(TWO_BRANCHES, {0: cpu_bound(10), 1: cpu_bound(9), 2: cpu_bound(1)})
    assert memory_of(plan) == [2048, 2048, 2048]


def test_all_workers_but_the_critical_one_become_weak() -> None:
    #   0 ──┐            10 s
    #   1 ──┤            1 s
    #   2 ──┤            2 s
    #   3 ──┴▶ 4         2.5 s
    graph = graph_of((), (), (), (), (0, 1, 2, 3))
    plan = planned(graph, {0: cpu_bound(10), 1: cpu_bound(1), 2: cpu_bound(2), 3: cpu_bound(2.5)})
    assert memory_of(plan) == [2048, 512, 512, 512, 2048]


def test_ending_at_the_same_moment_is_soon_enough() -> None:
    #   0 ──┐            10 s
    #   1 ──┴▶ 2         2.5 s with 2048 MB, 10 s with 512 MB
    plan = planned(TWO_BRANCHES, {0: cpu_bound(10), 1: cpu_bound(2.5), 2: cpu_bound(1)})
    assert memory_of(plan) == [2048, 512, 2048]


def test_workers_on_the_critical_path_keep_the_strongest() -> None:
    #   0 ──▶ 1 ──▶ 2    one worker, and nothing beside it; weaker would be as fast
    plan = planned(graph_of((), (0,), (1,)), 1.0)
    assert memory_of(plan) == [2048] * 3


def test_declared_memory_holds() -> None:
    graph = graph_of((), (), (0, 1), memory_mb={1: 600})
    plan = planned(graph, {0: cpu_bound(10), 1: cpu_bound(1), 2: cpu_bound(1)})
    assert memory_of(plan) == [2048, 1024, 2048]


def test_predicted_memory_holds() -> None:
    plan = planned(TWO_BRANCHES, {0: cpu_bound(10), 1: cpu_bound(1), 2: cpu_bound(1)}, peak_mb={1: 1024.5})
    assert memory_of(plan) == [2048, 2048, 2048]


def test_every_task_of_a_worker_counts() -> None:
    #   0 ──────┐        10 s
    #   1 ─▶ 2 ─┴▶ 3     1 and 2 are on one worker; 2 needs 600 MB
    graph = graph_of((), (), (1,), (0, 2))
    seconds: Seconds = {0: cpu_bound(10), 1: cpu_bound(0.1), 2: cpu_bound(0.1)}
    assert memory_of(planned(graph, seconds)) == [2048, 512, 512, 2048]
    assert memory_of(planned(graph, seconds, peak_mb={2: 600})) == [2048, 1024, 1024, 2048]


def test_the_strongest_is_raised_to_what_a_task_needs() -> None:
    #   0 ──┐            10 s
    #   1 ──┴▶ 2         1 s, and 5000 MB
    plan = planned(TWO_BRANCHES, {0: cpu_bound(10), 1: cpu_bound(1), 2: cpu_bound(1)}, peak_mb={1: 5000})
    assert [assignment.resources for assignment in plan.assignments] == [
        STRONG,
        Resources(cpus=1, memory_mb=5000),
        STRONG,
    ]


def test_a_configuration_with_the_memory_is_preferred_to_raising_one() -> None:
    #   0 ──┐            needs 3000 MB, which the one with fewer CPUs has
    #   1 ──┴▶ 2
    roomy, fast = Resources(cpus=1, memory_mb=4096), Resources(cpus=2, memory_mb=2048)
    plan = planned(TWO_BRANCHES, {0: 10.0, 1: 9.0, 2: 1.0}, peak_mb={0: 3000}, configurations=[fast, roomy])
    assert [assignment.resources for assignment in plan.assignments] == [roomy, fast, roomy]


def test_many_sizes_of_raised_memory_become_few() -> None:
    # Run times are predicted for each configuration, so there must not be as many as tasks.
    graph = graph_of(*[()] * 100)
    plan = planned(graph, 1.0, peak_mb=lambda task: 3000.0 + task)
    given_mb = memory_of(plan)
    assert len(set(given_mb)) <= 8
    assert all(3000 + task <= memory_mb <= 3000 + task + 13 for task, memory_mb in enumerate(given_mb))


def test_a_weaker_worker_that_would_cost_more_is_no_choice() -> None:
    #   0 ──┐            10 s
    #   1 ──┴▶ 2         2 GiB for 1.9 s, 1 GiB for 2 s, or half a GiB for 9 s
    seconds: Seconds = {0: cpu_bound(10), 1: {512: 9.0, 1024: 2.0, 2048: 1.9}, 2: cpu_bound(1)}
    assert memory_of(planned(TWO_BRANCHES, seconds)) == [2048, 1024, 2048]


def test_a_weaker_worker_that_costs_as_much_is_one() -> None:
    #   0 ──┐            10 s
    #   1 ──┴▶ 2         2 GiB for 2 s, or half a GiB for 8 s
    plan = planned(TWO_BRANCHES, {0: cpu_bound(10), 1: cpu_bound(2), 2: cpu_bound(1)})
    assert memory_of(plan) == [2048, 512, 2048]


def test_time_to_spare_goes_to_the_worker_that_saves_most() -> None:
    #   0 ─────────┐         10 s                        worker 0
    #   1 ──┐      │         3 s, with 512 MB 4.5 s      worker 2
    #   2 ──┴▶ 3 ──┴▶ 4      0 s and 3 s, or 0 and 6     worker 1; it waits for 1, too
    #
    # Either is soon enough, but not both: 3 would begin after 4.5 s and end after 10.5 s.
    graph = graph_of((), (), (), (1, 2), (0, 3))
    seconds: Seconds = {0: cpu_bound(10), 1: {512: 4.5, 2048: 3.0}, 2: 0.0, 3: {512: 6.0, 2048: 3.0}}
    plan = planned(graph, seconds, sizes={0: 9, 1: 1, 2: 2}, configurations=[WEAK, STRONG])
    assert [assignment.worker for assignment in plan.assignments] == [0, 2, 1, 1, 0]
    assert memory_of(plan) == [2048, 2048, 512, 512, 2048]


def test_starts_count() -> None:
    #   0 ──┐            10 s
    #   1 ──┴▶ 2         1 s or 4 s; but a weak worker takes 9 s to start
    slow_start = PlatformModel(timing=INSTANT.timing, timings={WEAK: Timing(cold_start_s=9, latency_s=0)}, flush_s=0)
    seconds: Seconds = {0: cpu_bound(10), 1: cpu_bound(1), 2: cpu_bound(1)}
    assert memory_of(planned(TWO_BRANCHES, seconds, platform=slow_start)) == [2048, 1024, 2048]


def test_an_environment_that_is_used_again_stays_strong_if_the_run_would_wait_for_a_new_one() -> None:
    #   0 ─┬▶ 1         5 s and 1 s           worker 0
    #      └▶ 2         2 s                   worker 2: starts in the environment that worker 1 has left
    #   3               1 s                   worker 1: has time to spare
    #
    # A cold start takes 20 s. If worker 1 were weak there would be no strong environment for worker 2.
    graph = graph_of((), (0,), (0,), ())
    cold = PlatformModel(timing=Timing(cold_start_s=20, warm_start_s=0, latency_s=0), flush_s=0)
    seconds: Seconds = {0: cpu_bound(5), 1: cpu_bound(1), 2: cpu_bound(2), 3: cpu_bound(1)}
    plan = planned(graph, seconds, platform=cold)
    assert [assignment.worker for assignment in plan.assignments] == [0, 0, 2, 1]
    assert memory_of(plan) == [2048] * 4
    run = Outlook(graph, FixedPredictions(seconds), cold).simulate(plan)
    assert (run.makespan_s, run.cold_starts) == (27, 2)


def test_one_configuration_is_algorithm_1_alone() -> None:
    graph = graph_of((), *[(0,)] * 6, (1, 2, 3))
    seconds: Seconds = dict(enumerate([0, 1, 2, 2, 9, 9, 9, 1]))
    plan = planned(graph, seconds, configurations=[MIDDLE], most=2)
    uniform = UniformPlanner(MIDDLE, 2).plan(graph, Outlook(graph, FixedPredictions(seconds)))
    assert plan.assignments == uniform.assignments


def test_by_default_the_platform_says_what_there_is() -> None:
    platform = replace(INSTANT, configurations=[STRONG, WEAK])
    seconds: Seconds = {0: cpu_bound(10), 1: cpu_bound(2), 2: 0.0}
    plan = planned(TWO_BRANCHES, seconds, configurations=None, platform=platform)
    assert memory_of(plan) == [2048, 512, 2048]


def test_the_order_of_configurations_and_repeats_do_not_matter() -> None:
    seconds: Seconds = {0: cpu_bound(10), 1: cpu_bound(4), 2: cpu_bound(1)}
    plan = planned(TWO_BRANCHES, seconds, configurations=[MIDDLE, STRONG, WEAK, MIDDLE])
    assert plan == planned(TWO_BRANCHES, seconds)


def test_without_tasks_there_is_nothing_to_plan() -> None:
    assert NonUniformPlanner(ALL).plan(graph_of()).assignments == ()


def test_without_an_outlook_all_tasks_are_alike() -> None:
    plan = NonUniformPlanner(ALL).plan(TWO_BRANCHES)
    plan.validate(TWO_BRANCHES)
    assert [assignment.worker for assignment in plan.assignments] == [0, 0, 0]


@pytest.mark.parametrize(
    "changed",
    [{}, {"_LEAST_EFFORT": -1_000}, {"_LEAST_EFFORT": -1_000, "_LARGE": 0}],
    ids=["one by one", "in batches", "in few batches"],
)
@settings(max_examples=40, deadline=None)
@given(outputs=workflows(max_tasks=10), rng=st.randoms(use_true_random=False), most=st.integers(1, 3))
def test_a_plan_is_neither_slower_nor_dearer_than_with_strong_workers_alone(
    changed: Mapping[str, int], outputs: Any, rng: Random, most: int
) -> None:
    graph = build_workflow(outputs).graph
    slower = [(rng.uniform(0.01, 3), rng.uniform(1, 5)) for _ in range(len(graph))]

    def seconds(task: int, resources: Resources) -> float:
        strong_s, factor = slower[task]
        return strong_s * math.pow(factor, {512: 2, 1024: 1}.get(resources.memory_mb, 0))

    peak_mb = [rng.choice([0.0, 700.0, 1500.0, 2500.0]) for _ in range(len(graph))]
    by_hand = FixedPredictions(seconds, lambda task: 1e5 * task, peak_mb.__getitem__)
    outlook = Outlook(graph, by_hand, PlatformModel(concurrency=rng.choice([2, 1000])))
    with pytest.MonkeyPatch.context() as patched:
        for name, value in changed.items():
            patched.setattr(downgrade, name, value)
        plan = NonUniformPlanner(ALL, most).plan(graph, outlook)
    plan.validate(graph)
    given_mb = memory_of(plan)
    assert all(mb >= least_mb for mb, least_mb in zip(given_mb, outlook.least_memory_mb, strict=True))
    strong = NonUniformPlanner([STRONG], most).plan(graph, outlook)
    assert [one.worker for one in plan.assignments] == [one.worker for one in strong.assignments]
    ours, theirs = outlook.simulate(plan), outlook.simulate(strong)
    assert ours.makespan_s <= theirs.makespan_s * (1 + 1e-9)
    assert ours.cost_usd <= theirs.cost_usd * (1 + 1e-9)


# ── settings ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("configurations", [[], (), "strong", STRONG, [512, 1024], [STRONG, None], 3])
def test_configurations_must_be_a_list_of_resources(configurations: Any) -> None:
    with pytest.raises(PlanError, match=r"NonUniformPlanner: configurations must be a list of Resources"):
        NonUniformPlanner(configurations)


@pytest.mark.parametrize("most", [0, -1, 1.5, True, "4", None])
def test_the_size_of_clusters_must_be_a_positive_whole_number(most: Any) -> None:
    with pytest.raises(PlanError, match="NonUniformPlanner: max_clustering must be a whole number of at least 1"):
        NonUniformPlanner(max_clustering=most)


class Named:
    name = "named"

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        return plan


def test_optimizations_are_kept_for_whoever_applies_them() -> None:
    wanted = Named()
    assert NonUniformPlanner(optimizations=[wanted]).optimizations == (wanted,)


@pytest.mark.parametrize("optimizations", [Named(), Named, "named", [Named], [3]])
def test_what_is_no_optimization_is_refused(optimizations: Any) -> None:
    with pytest.raises(PlanError, match=r"NonUniformPlanner: .*optimizations must be"):
        NonUniformPlanner(optimizations=optimizations)


# ── speed ──────────────────────────────────────────────────────────────────────────────────────────────────────

MANY = 3_000
FIVE = [Resources(cpus=1, memory_mb=512 * 2**step) for step in range(5)]


def layers(width: int) -> list[tuple[int, ...]]:
    """Layers of tasks that each take up to three outputs of the layer before: every change reaches many workers."""
    rng = Random(1)
    return [
        tuple(sorted({task - task % width - width + rng.randrange(width) for _ in range(3)})) if task >= width else ()
        for task in range(MANY)
    ]


@pytest.mark.parametrize("concurrency", [100, 10_000], ids=["few slots", "many slots"])
@pytest.mark.parametrize(
    "deps",
    [
        [(), *[(max(0, task - MANY // 10),) for task in range(MANY - 1)]],
        [(), *[((task - 1) // 4,) for task in range(1, MANY)]],
        layers(MANY // 10),
    ],
    ids=["chains", "tree", "layers"],
)
def test_thousands_of_tasks_are_planned_quickly(deps: list[tuple[int, ...]], concurrency: int) -> None:
    graph = graph_of(*deps)
    rng = Random(2)
    strong_s = [rng.lognormvariate(0, 1) for _ in deps]
    by_hand = FixedPredictions(lambda task, has: strong_s[task] * (8192 / has.memory_mb) ** 0.7, 1e5)
    outlook = Outlook(graph, by_hand, PlatformModel(concurrency=concurrency, configurations=FIVE))
    began = time.process_time()
    plan = NonUniformPlanner().plan(graph, outlook)
    assert time.process_time() - began < 10, "a tenth of it when the machine is idle; simulating all each time: minutes"
    plan.validate(graph)
