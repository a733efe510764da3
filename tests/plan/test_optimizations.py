"""The planning halves of optimizations: where they put hints, and that these pay or stay away."""

from itertools import chain, combinations

import msgspec
import pytest

from augury import PreLoad, PreWarm, TaskDup
from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.hints import PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Optimization, Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.predictions import FixedPredictions
from augury.testing import VirtualPlatform
from tests.plan.graphs import graph_of
from tests.plan.random_runs import Case, random_case

ONE = Resources(cpus=1, memory_mb=1024)


def plan_of(graph: Graph, *workers: int | None) -> Plan:
    assignments = tuple(Assignment(worker, ONE) for worker in workers)
    return Plan(fingerprint=graph.fingerprint, planner="by hand", assignments=assignments)


def outlook_of(graph: Graph, seconds: dict[int, float], size: float = 100.0, cold_s: float = 1.0) -> Outlook:
    timing = Timing(cold_start_s=cold_s, warm_start_s=0.01, latency_s=0.01, bandwidth_bytes_s=1e6)
    given = FixedPredictions(lambda task, _: seconds.get(task, 0.0), size)
    return Outlook(graph, given, PlatformModel(timing=timing))


def makespans(outlook: Outlook, plan: Plan) -> tuple[float, float]:
    """As simulated, and as carried out by the worker core."""
    run_s = outlook.execution_s(ONE)
    size = [int(one) for one in outlook.output_bytes]
    platform = VirtualPlatform.of(outlook.platform)
    run = platform.run(
        outlook.graph,
        plan,
        lambda task, _: task,
        duration_s=lambda task: run_s[task],
        size_bytes=lambda task: size[task],
    )
    return outlook.simulate(plan).makespan_s, run.makespan_s


def same(one: Plan, other: Plan) -> bool:
    """Whether two plans have the same hints."""
    return (one.hints, one.launch) == (other.hints, other.launch)


class TestPreWarm:
    def test_a_cold_start_on_the_critical_path_is_hidden(self) -> None:
        """
        0 (5 s) on w0 ──▶ 1 on w1, asked for after 6 s: cold without, warm with
        """
        graph = graph_of((), (0,))
        outlook, plan = outlook_of(graph, {0: 5.0, 1: 1.0}), plan_of(graph, 0, 1)
        better = PreWarm(margin_s=0.1).assign(plan, outlook, ())
        (hint,) = better.hints[0]
        assert isinstance(hint, PreWarmHint)
        assert (hint.resources, hint.count) == (ONE, 1)
        before, after = makespans(outlook, plan), makespans(outlook, better)
        assert before[0] - after[0] == pytest.approx(0.99)
        assert before[1] - after[1] == pytest.approx(0.99)

    def test_nothing_is_warmed_that_would_grow_cold_again(self) -> None:
        """0 (5 s) on w0 ──▶ 1 on w1; environments stay warm for 0.2 s: it is asked for at the end of the window"""
        graph = graph_of((), (0,))
        outlook = outlook_of(graph, {0: 5.0, 1: 1.0})
        timing = outlook.platform.timing
        brief = Outlook(graph, outlook.predictions, PlatformModel(timing=timing, keep_alive_s=0.2))
        better = PreWarm(margin_s=0.05).assign(plan_of(graph, 0, 1), brief, ())
        assert brief.simulate(better).makespan_s < brief.simulate(plan_of(graph, 0, 1)).makespan_s

    def test_what_is_asked_for_at_the_start_cannot_be_warmed_before(self) -> None:
        """0 on w0, 1 on w1: both are asked for by the client"""
        graph = graph_of((), ())
        plan = plan_of(graph, 0, 1)
        assert same(PreWarm().assign(plan, outlook_of(graph, {0: 1.0, 1: 1.0}), ()), plan)

    def test_a_start_off_the_critical_path_stays_cold(self) -> None:
        """
        0 (1 s) on w0 ──▶ 1 (20 s) on w0
                     └──▶ 2 (1 s) on w1: it has time
        """
        graph = graph_of((), (0,), (0,))
        plan = plan_of(graph, 0, 0, 1)
        assert same(PreWarm().assign(plan, outlook_of(graph, {0: 1.0, 1: 20.0, 2: 1.0}), ()), plan)


class TestPreLoad:
    def test_tasks_with_many_inputs_get_it(self) -> None:
        """
        0 on w0, 1 on w1, 2 on w2 ──▶ 3 on w0
        """
        graph = graph_of((), (), (), (0, 1, 2))
        outlook, plan = outlook_of(graph, {0: 3.0, 1: 1.0, 2: 2.0, 3: 1.0}, size=1e6), plan_of(graph, 0, 1, 2, 0)
        better = PreLoad(min_inputs=2, max_rounds=0).assign(plan, outlook, ())
        assert dict(better.hints) == {3: (PreLoadHint(),)}
        before, after = makespans(outlook, plan), makespans(outlook, better)
        assert after[0] < before[0] - 0.9
        assert after[1] == pytest.approx(after[0], rel=0.01)

    def test_tasks_on_the_critical_path_get_it_if_that_helps(self) -> None:
        """
        0 (1 s) on w1 ─┐
        1 (5 s) on w0 ─┴▶ 2 on w0: 0 is there long before, and is fetched only after 1 without the hint
        """
        graph = graph_of((), (), (0, 1))
        outlook, plan = outlook_of(graph, {0: 1.0, 1: 5.0, 2: 1.0}, size=1e6), plan_of(graph, 1, 0, 0)
        better = PreLoad().assign(plan, outlook, ())
        assert dict(better.hints) == {2: (PreLoadHint(),)}
        assert makespans(outlook, plan)[1] - makespans(outlook, better)[1] > 0.9

    def test_it_stays_away_where_it_does_not_help(self) -> None:
        """0 on w0 ──▶ 1 on w1, which is started for it: there is nothing to overlap with"""
        graph = graph_of((), (0,))
        plan = plan_of(graph, 0, 1)
        assert same(PreLoad().assign(plan, outlook_of(graph, {0: 1.0, 1: 1.0}), ()), plan)

    def test_demanded_it_is_given(self) -> None:
        graph = graph_of((), (0,))
        better = PreLoad().assign(plan_of(graph, 0, 1), outlook_of(graph, {0: 1.0, 1: 1.0}), [1])
        assert dict(better.hints) == {1: (PreLoadHint(),)}

    def test_flexible_tasks_have_no_worker_to_load_for(self) -> None:
        graph = graph_of((), (), (0, 1))
        plan = plan_of(graph, None, None, None)
        assert not PreLoad(min_inputs=1).assign(plan, outlook_of(graph, {}), [2]).hints


class TestTaskDup:
    def test_a_short_task_is_run_by_who_waits_for_it(self) -> None:
        """
        0 (0.05 s) on w1, behind 1 (10 s) ──▶ 3 on w0, which has nothing else to do once 2 is done
        """
        graph = graph_of((), (), (), (1, 2))
        outlook = outlook_of(graph, {0: 10.0, 1: 0.05, 2: 1.0, 3: 1.0})
        plan = plan_of(graph, 1, 1, 0, 0)
        better = TaskDup(max_seconds=0.1).assign(plan, outlook, ())
        (hint,) = better.hints[1]
        assert isinstance(hint, TaskDupHint)
        assert hint.produce_s == pytest.approx(0.06)
        before, after = makespans(outlook, plan), makespans(outlook, better)
        assert before[1] > 12
        assert after[1] == pytest.approx(after[0], rel=0.01)
        assert outlook.simulate(better).duplicated == (1,)

    def test_long_tasks_and_large_inputs_are_left_alone(self) -> None:
        """0 ──▶ 1 ──▶ 2, each on a worker of its own"""
        graph = graph_of((), (0,), (1,))
        plan = plan_of(graph, 0, 1, 2)
        assert same(TaskDup(max_seconds=0.5).assign(plan, outlook_of(graph, {0: 1.0, 1: 1.0, 2: 1.0}), ()), plan)
        heavy = TaskDup(max_seconds=5, max_input_bytes=10).assign(plan, outlook_of(graph, {0: 9.0, 1: 1.0}), ())
        assert 1 not in heavy.hints

    def test_what_nobody_else_takes_is_left_alone(self) -> None:
        """0 ──▶ 1, both on w0"""
        graph = graph_of((), (0,))
        plan = plan_of(graph, 0, 0)
        assert same(TaskDup().assign(plan, outlook_of(graph, {0: 0.01, 1: 0.01}), ()), plan)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: PreLoad(min_inputs=0), "min_inputs"),
        (lambda: PreLoad(max_rounds=-1), "max_rounds"),
        (lambda: PreWarm(margin_s=-0.1), "margin_s"),
        (lambda: TaskDup(max_seconds=float("nan")), "max_seconds"),
        (lambda: TaskDup(max_input_bytes=-5), "max_input_bytes"),
    ],
)
def test_bad_settings_are_refused_by_name(make: object, named: str) -> None:
    with pytest.raises(PlanError, match=named):
        make()  # type: ignore[operator]


SUBSETS = list(chain.from_iterable(combinations((PreWarm, PreLoad, TaskDup), count) for count in range(1, 4)))


@pytest.mark.parametrize("kinds", SUBSETS, ids=lambda kinds: "+".join(kind.name for kind in kinds))
def test_every_subset_pays_or_stays_away_and_computes_the_same(kinds: tuple[type[Optimization], ...]) -> None:
    for seed in range(12):
        case = random_case(seed, flexible=0)
        outlook = case.outlook
        plan = case.plan
        for kind in kinds:
            plan = kind().assign(plan, outlook, ())
        assert outlook.simulate(plan).makespan_s <= outlook.simulate(case.plan).makespan_s * 1.001
        assert computed(case, plan) == computed(case, case.plan)


def computed(case: Case, plan: Plan) -> dict[int, int]:
    """The sinks, each a number that depends on all that led to it."""
    run = VirtualPlatform.of(case.platform).run(
        case.graph,
        plan,
        lambda task, inputs: hash((task, tuple(sorted(inputs.items())))),
        duration_s=case.duration_s,
        size_bytes=case.size,
    )
    assert not run.leftovers
    return dict(run.values)


def test_hints_are_added_to_those_that_are_there() -> None:
    """0 on w1 ─┬▶ 2 on w0, with a hint of another kind"""
    graph = graph_of((), (), (0, 1))
    outlook = outlook_of(graph, {0: 1.0, 1: 5.0, 2: 1.0}, size=1e6)
    warm = PreWarmHint(ONE)
    plan = msgspec.structs.replace(plan_of(graph, 1, 0, 0), hints={2: (warm,)})
    assert PreLoad().assign(plan, outlook, [2]).hints[2] == (warm, PreLoadHint())
