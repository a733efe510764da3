"""Algorithm 2 by itself: which workers are weakened, in which order, and what is taken back."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import pytest

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.planners import downgrade as module
from augury.plan.planners.downgrade import Choice, WholeTrials, culprits_of, downgrade, downgraded, resized
from augury.plan.predictions import FixedPredictions, PerMemory
from augury.plan.timeline import Simulation
from tests.plan.graphs import graph_of

WEAK = Resources(cpus=1, memory_mb=512)
MIDDLE = Resources(cpus=1, memory_mb=1024)
STRONG = Resources(cpus=1, memory_mb=2048)


# ── one by one, on scripted trials ──────────────────────────────────────────────────────────────────


class ScriptedTrial(NamedTuple):
    worker: int
    memory_mb: int
    makespan_s: float
    cost_usd: float


class ScriptedTrials:
    """Trials with known makespans and costs: by worker and memory; what the script leaves out changes nothing."""

    def __init__(
        self,
        script: Mapping[tuple[int, int], float],
        critical_workers: Sequence[int] = (),
        costs: Mapping[tuple[int, int], float] | None = None,
    ) -> None:
        self.makespan_s = 10.0
        self.cost_usd = 1.0
        self._costs = costs or {}
        self.critical_workers = set(critical_workers)
        self.redone = 0
        self.tried: list[tuple[int, int]] = []
        self.accepted: list[tuple[int, int]] = []
        self.limits_s: set[float] = set()
        self._script = script

    def resize(self, worker: int, resources: Resources, limit_s: float) -> ScriptedTrial:
        change = (worker, resources.memory_mb)
        self.redone += 3
        self.tried.append(change)
        self.limits_s.add(limit_s)
        return ScriptedTrial(*change, self._script.get(change, self.makespan_s), self._costs.get(change, self.cost_usd))

    def accept(self, trial: ScriptedTrial) -> None:
        self.accepted.append((trial.worker, trial.memory_mb))
        self.makespan_s, self.cost_usd = trial.makespan_s, trial.cost_usd


def choices(*workers: int) -> list[Choice]:
    return [Choice(worker=worker, savings_gb_s={WEAK: 2.0, MIDDLE: 1.0}) for worker in workers]


def test_all_workers_off_the_critical_path_become_as_weak_as_can_be() -> None:
    trials = ScriptedTrials({}, critical_workers=[1])
    assert downgrade(trials, choices(0, 1, 2)).changes == {0: WEAK, 2: WEAK}
    assert trials.tried == trials.accepted == [(0, 512), (2, 512)]


def test_workers_on_the_critical_path_are_not_even_tried() -> None:
    trials = ScriptedTrials({}, critical_workers=[0, 1])
    assert downgrade(trials, choices(0, 1)).changes == {}
    assert trials.tried == []


def test_a_change_that_creates_a_new_critical_path_is_refused_and_the_next_one_is_tried() -> None:
    trials = ScriptedTrials({(0, 512): 10.5})
    assert downgrade(trials, choices(0)).changes == {0: MIDDLE}
    assert trials.tried == [(0, 512), (0, 1024)]
    assert trials.accepted == [(0, 1024)]


def test_a_worker_that_can_have_nothing_less_stays_as_it_is() -> None:
    trials = ScriptedTrials({(0, 512): 12.0, (0, 1024): 11.0})
    assert downgrade(trials, choices(0, 1)).changes == {1: WEAK}
    assert trials.accepted == [(1, 512)]


def test_no_worker_can_have_less() -> None:
    trials = ScriptedTrials({(worker, memory_mb): 11.0 for worker in (0, 1) for memory_mb in (512, 1024)})
    assert downgrade(trials, choices(0, 1)).changes == {}
    assert trials.accepted == []


def test_an_equal_makespan_is_accepted() -> None:
    assert downgrade(ScriptedTrials({(0, 512): 10.0}), choices(0)).changes == {0: WEAK}


def test_rounding_is_no_growth_and_anything_more_is() -> None:
    assert downgrade(ScriptedTrials({(0, 512): math.nextafter(10.0, 11.0)}), choices(0)).changes == {0: WEAK}
    assert downgrade(ScriptedTrials({(0, 512): 10.0001}), choices(0)).changes == {0: MIDDLE}


def test_a_shorter_makespan_is_accepted_and_the_limit_stays_that_of_strong_workers() -> None:
    trials = ScriptedTrials({(0, 512): 9.0, (1, 512): 10.0})
    assert downgrade(trials, choices(0, 1)).changes == {0: WEAK, 1: WEAK}
    assert all(limit_s == pytest.approx(10.0) for limit_s in trials.limits_s)


def test_a_change_that_costs_more_is_refused() -> None:
    trials = ScriptedTrials({}, costs={(0, 512): 1.1, (0, 1024): 0.9})
    assert downgrade(trials, choices(0)).changes == {0: MIDDLE}


def test_a_change_that_costs_as_much_is_accepted() -> None:
    assert downgrade(ScriptedTrials({}, costs={(0, 512): 1.0}), choices(0)).changes == {0: WEAK}


def test_what_was_saved_before_is_not_spent() -> None:
    trials = ScriptedTrials({}, costs={(0, 512): 0.7, (1, 512): 0.9, (1, 1024): 0.6})
    assert downgrade(trials, choices(0, 1)).changes == {0: WEAK, 1: MIDDLE}


def test_workers_are_tried_in_the_order_that_was_given() -> None:
    trials = ScriptedTrials({})
    downgrade(trials, choices(2, 0, 1))
    assert [worker for worker, _ in trials.tried] == [2, 0, 1]


def test_trials_end_when_the_effort_is_spent() -> None:
    # Each trial simulates three tasks again. After the third there is no effort left for another worker.
    trials = ScriptedTrials({(1, 512): 11.0})
    settled = downgrade(trials, choices(0, 1, 2), effort=7)
    assert trials.tried == [(0, 512), (1, 512), (1, 1024)]
    assert settled.changes == {0: WEAK, 1: MIDDLE}
    assert not settled.complete


def test_trials_end_early_if_they_would_take_far_too_long() -> None:
    # Three tasks for each of eight workers: for all 1,000 it would be 3,000, and four times the effort is less.
    trials = ScriptedTrials({})
    assert not downgrade(trials, choices(*range(1000)), effort=740).complete
    assert len(trials.tried) == 8
    trials = ScriptedTrials({})
    assert not downgrade(trials, choices(*range(1000)), effort=760).complete
    assert len(trials.tried) == 254, "the effort is spent"


def test_effort_that_is_enough_completes_the_trials() -> None:
    trials = ScriptedTrials({(1, 512): 11.0})
    assert downgrade(trials, choices(0, 1, 2), effort=9).complete


def test_critical_workers_take_no_effort() -> None:
    trials = ScriptedTrials({}, critical_workers=[1, 2])
    assert downgrade(trials, choices(0, 1, 2), effort=2).complete


def test_a_worker_without_a_choice_stays_as_it_is() -> None:
    settled = downgrade(ScriptedTrials({}), [Choice(worker=0, savings_gb_s={})])
    assert settled.changes == {}
    assert settled.complete


# ── plans to be changed ────────────────────────────────────────────────────────────────────────────────────────


def plan_on(graph: Graph, workers: Sequence[int]) -> Plan:
    """A plan with strong workers."""
    assignments = tuple(Assignment(worker, STRONG) for worker in workers)
    return Plan(fingerprint=graph.fingerprint, planner="test", assignments=assignments)


def outlook_of(
    graph: Graph,
    seconds: Mapping[int, Mapping[int, float]],
    *,
    cold_start_s: float = 0.0,
    concurrency: int = 100,
) -> Outlook:
    timing = Timing(cold_start_s=cold_start_s, warm_start_s=0, latency_s=0, bandwidth_bytes_s=math.inf)
    platform = PlatformModel(timing=timing, concurrency=concurrency, flush_s=0)
    by_task: dict[int | str, PerMemory] = dict(seconds.items())
    return Outlook(graph, FixedPredictions(by_task), platform)


def cpu_bound(seconds: float) -> dict[int, float]:
    """A task that takes so long with 2048 MB, and longer with less, as its share of the CPU shrinks."""
    return {512: 4 * seconds, 1024: 2 * seconds, 2048: seconds}


def memory_of(plan: Plan) -> list[int]:
    """For each task the memory of its worker, in MiB."""
    return [assignment.resources.memory_mb for assignment in plan.assignments]


def test_resizing_leaves_all_else_as_it_was() -> None:
    plan = msgspec.structs.replace(plan_on(graph_of((), (), ()), [0, 1, 2]), ranks=(2, 1, 0))
    changed = resized(plan, {1: WEAK})
    assert memory_of(changed) == [2048, 512, 2048]
    assert changed.ranks == (2, 1, 0)
    assert changed.assignments[0] is plan.assignments[0]
    assert memory_of(plan) == [2048] * 3


def test_a_trial_of_the_whole_plan_tells_makespan_and_cost() -> None:
    #   0 (10) ──┐
    #   1 (4) ───┴▶ 2 (1)
    graph = graph_of((), (), (0, 1))
    outlook = outlook_of(graph, {0: cpu_bound(10), 1: cpu_bound(4), 2: cpu_bound(1)})
    plan = plan_on(graph, [0, 1, 0])
    trials = WholeTrials(plan, outlook.simulate)
    assert trials.makespan_s == 11
    assert trials.critical_workers == {0}
    late = trials.resize(1, WEAK, limit_s=11)
    assert late.makespan_s == 17
    good = trials.resize(1, MIDDLE, limit_s=11)
    assert (good.makespan_s, good.cost_usd) == (11, outlook.simulate(resized(plan, {1: MIDDLE})).cost_usd)
    trials.accept(good)
    assert trials.cost_usd == good.cost_usd
    assert trials.resize(0, WEAK, limit_s=11).makespan_s == 44, "the accepted change is still there"
    assert trials.redone == 9, "three tasks for each trial"


# ── the whole run has the last word ────────────────────────────────────────────────────────────────────────────

REUSE = graph_of((), (0,), (0,), (), ())
#   0 ─┬▶ 1         5 s and 1 s      worker 0
#      └▶ 2         2 s              worker 1: starts in the environment that worker 2 has left
#   3               2 s              worker 2
#   4               1 s              worker 3
REUSING = plan_on(REUSE, [0, 0, 1, 2, 3])
REUSE_TIMES = {0: cpu_bound(5), 1: cpu_bound(1), 2: cpu_bound(2), 3: cpu_bound(2), 4: cpu_bound(1)}


def test_who_left_the_environment_that_is_missing_is_to_blame() -> None:
    outlook = outlook_of(REUSE, REUSE_TIMES, cold_start_s=20)
    before = outlook.simulate(REUSING)
    assert before.makespan_s == 27
    changes = {2: WEAK, 3: WEAK}
    run = outlook.simulate(resized(REUSING, changes))
    assert run.makespan_s == 47, "worker 1 has to start cold"
    assert culprits_of(REUSE, run, before, changes) == {2}, "its environment became free last"


def test_who_is_slow_itself_is_to_blame() -> None:
    #   0 (10) ──┐
    #   1 (4) ───┼▶ 3 (1)     16 s with 512 MB
    #   2 (1) ───┘            4 s with 512 MB
    graph = graph_of((), (), (), (0, 1, 2))
    outlook = outlook_of(graph, {0: cpu_bound(10), 1: cpu_bound(4), 2: cpu_bound(1), 3: cpu_bound(1)})
    plan = plan_on(graph, [0, 1, 2, 0])
    changes = {1: WEAK, 2: WEAK}
    run = outlook.simulate(resized(plan, changes))
    assert culprits_of(graph, run, outlook.simulate(plan), changes) == {1}


def test_nobody_is_to_blame_for_a_run_in_time() -> None:
    outlook = outlook_of(REUSE, REUSE_TIMES, cold_start_s=20)
    before = outlook.simulate(REUSING)
    run = outlook.simulate(resized(REUSING, {3: WEAK}))
    assert run.makespan_s == before.makespan_s
    assert culprits_of(REUSE, run, before, {3: WEAK}) == set()


def test_changes_that_leave_no_environment_are_taken_back_and_the_others_stay() -> None:
    outlook = outlook_of(REUSE, REUSE_TIMES, cold_start_s=20)
    plan = downgraded(REUSING, outlook, [WEAK, MIDDLE, STRONG], [0] * 4)
    assert memory_of(plan) == [2048, 2048, 2048, 2048, 512]
    assert outlook.simulate(plan).makespan_s == 27


def test_a_change_that_costs_a_cold_start_is_taken_back_though_nothing_is_late() -> None:
    # As above, but worker 3 runs for 100 s, and only worker 1 may be weaker. It would find no weak environment, and
    # have to pay for 20 s of a start: trials, which leave it warm, do not see that.
    seconds = REUSE_TIMES | {2: {512: 3.0, 1024: 2.5, 2048: 2.0}, 4: cpu_bound(100)}
    outlook = outlook_of(REUSE, seconds, cold_start_s=20)
    needs_mb = [2048, 0, 2048, 2048]
    trial = outlook.trials(REUSING).resize(1, WEAK)
    before, after = outlook.simulate(REUSING), outlook.simulate(resized(REUSING, {1: WEAK}))
    assert trial.cost_usd < before.cost_usd < after.cost_usd
    assert before.makespan_s == after.makespan_s == 120
    assert downgraded(REUSING, outlook, [WEAK, MIDDLE, STRONG], needs_mb) == REUSING


# ── few slots ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_slots_are_few_a_weak_worker_must_not_keep_others_waiting() -> None:
    #   0 (10) ──┐               there are two slots
    #   1 (2) ───┼▶ 3 (1)        worker 1; 8 s with 512 MB, 4 s with 1024 MB
    #   2 (4) ───┘               worker 2 gets the slot of worker 1; 9 s with 512 MB, 5 s with 1024 MB
    #
    # By itself each could have 512 MB. Together they have 10 s.
    graph = graph_of((), (), (), (0, 1, 2))
    seconds = {0: cpu_bound(10), 1: cpu_bound(2), 2: {512: 9.0, 1024: 5.0, 2048: 4.0}, 3: cpu_bound(1)}
    plan = plan_on(graph, [0, 1, 2, 0])
    roomy, tight = outlook_of(graph, seconds), outlook_of(graph, seconds, concurrency=2)
    assert memory_of(downgraded(plan, roomy, [WEAK, MIDDLE, STRONG], [0] * 3)) == [2048, 512, 512, 2048]
    changed = downgraded(plan, tight, [WEAK, MIDDLE, STRONG], [0] * 3)
    assert memory_of(changed) == [2048, 1024, 1024, 2048]
    assert tight.simulate(changed).makespan_s == 11


# ── many at once ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no effort for trials: all is decided in batches."""
    monkeypatch.setattr(module, "_EFFORT", 0)
    monkeypatch.setattr(module, "_LEAST_EFFORT", -1)


BRANCHES = graph_of((), (), (), (), (0, 1, 2, 3))
#   0 ──┐
#   1 ──┤
#   2 ──┤
#   3 ──┴▶ 4
ON_BRANCHES = plan_on(BRANCHES, [0, 1, 2, 3, 0])


@pytest.mark.usefixtures("hurried")
def test_a_batch_gives_every_worker_what_it_has_time_for() -> None:
    seconds = {0: cpu_bound(10), 1: cpu_bound(1), 2: cpu_bound(4), 3: cpu_bound(9), 4: cpu_bound(1)}
    plan = downgraded(ON_BRANCHES, outlook_of(BRANCHES, seconds), [WEAK, MIDDLE, STRONG], [0] * 4)
    assert memory_of(plan) == [2048, 512, 1024, 2048, 2048]


@pytest.mark.usefixtures("hurried")
def test_a_batch_keeps_to_what_workers_need() -> None:
    seconds = {0: cpu_bound(10), 1: cpu_bound(1), 2: cpu_bound(1), 3: cpu_bound(1), 4: cpu_bound(1)}
    plan = downgraded(ON_BRANCHES, outlook_of(BRANCHES, seconds), [WEAK, MIDDLE, STRONG], [0, 600, 1100, 0])
    assert memory_of(plan) == [2048, 1024, 2048, 512, 2048]


@pytest.mark.usefixtures("hurried")
def test_a_batch_leaves_out_what_would_cost_more() -> None:
    dear: Mapping[int, float] = {512: 9.0, 1024: 2.0, 2048: 1.9}
    seconds = {0: cpu_bound(10), 1: dear, 2: cpu_bound(1), 3: cpu_bound(1), 4: cpu_bound(1)}
    plan = downgraded(ON_BRANCHES, outlook_of(BRANCHES, seconds), [WEAK, MIDDLE, STRONG], [0] * 4)
    assert memory_of(plan) == [2048, 1024, 512, 512, 2048]


@pytest.mark.usefixtures("hurried")
def test_workers_in_a_row_that_take_too_long_together_get_a_third_of_the_time() -> None:
    #   0 (20) ───────────────────────┐        worker 0
    #   1 (3) ──▶ 2 (3) ──▶ 3 (0.5) ──┴▶ 4     workers 1, 2 and 3: 13.5 s to spare, which 1 and 2 would use twice
    graph = graph_of((), (), (1,), (2,), (0, 3))
    seconds = {0: cpu_bound(20), 1: cpu_bound(3), 2: cpu_bound(3), 3: cpu_bound(0.5), 4: cpu_bound(0)}
    outlook = outlook_of(graph, seconds)
    simulated: list[float] = []

    def simulate(plan: Plan) -> Simulation:
        run = Outlook.simulate(outlook, plan)
        simulated.append(run.makespan_s)
        return run

    outlook.simulate = simulate  # type: ignore[method-assign]
    plan = downgraded(plan_on(graph, [0, 1, 2, 3, 0]), outlook, [WEAK, MIDDLE, STRONG], [0] * 4)
    # 3 times 4 for each of both is 24 s. A third of 13.5 s is enough to double them, and then 7 s are left.
    assert simulated[:3] == [20, 26, 20]
    assert memory_of(plan) == [2048, 1024, 1024, 512, 2048]


@pytest.mark.usefixtures("hurried")
def test_if_no_batch_holds_workers_stay_strong() -> None:
    # Worker 2 has time, but if it is weak, there is no strong environment for worker 1.
    outlook = outlook_of(REUSE, REUSE_TIMES | {4: cpu_bound(8)}, cold_start_s=20)
    plan = downgraded(REUSING, outlook, [WEAK, MIDDLE, STRONG], [0] * 4)
    assert memory_of(plan) == [2048] * 5
