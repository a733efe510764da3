"""HEFT and CPoP against schedules that were worked out by hand, and against what every schedule must keep."""

import pytest
from heft import DIGITS, Problem, Schedule, alike, cpop, critical_path, downward_ranks, heft, upward_ranks
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from tests.plan.graphs import graph_of

# ── the example of the paper ───────────────────────────────────────────────────────────────────────────────────
#
#              0
#     ┌────┬───┼───┬────┐          costs on three processors, and transfers beside the edges:
#     1    2   3   4    5          see the tables below
#     ├─┐  │  ┌┴┐  │    │
#     │ │  6  │ │  │    │          7 takes 1, 3, 5;  8 takes 1, 3, 4;  9 takes 6, 7, 8
#     7 8     7 8  8    7
#     └─┴──┬──┴─┴──┴────┘
#          9

EXAMPLE = Problem(
    graph=graph_of((), (0,), (0,), (0,), (0,), (0,), (2,), (1, 3, 5), (1, 3, 4), (6, 7, 8)),
    execution_s=[
        [14, 13, 11, 13, 12, 13, 7, 5, 18, 21],
        [16, 19, 13, 8, 13, 16, 15, 11, 12, 7],
        [9, 18, 19, 17, 10, 9, 11, 14, 20, 16],
    ],
    transfer_s=[[], [18], [12], [9], [11], [14], [23], [19, 27, 15], [16, 23, 13], [17, 11, 13]],
    worker_of=[0, 1, 2],
)


def test_ranks_are_those_of_the_paper() -> None:
    upward = [round(rank, 3) for rank in upward_ranks(EXAMPLE)]
    assert upward == [108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]
    downward = [round(rank, 3) for rank in downward_ranks(EXAMPLE)]
    assert downward == [0.0, 31.0, 25.0, 22.0, 24.0, 27.0, 62.333, 66.667, 63.667, 93.333]


def test_heft_takes_80_and_cpop_86() -> None:
    assert heft(EXAMPLE).makespan_s == 80
    assert cpop(EXAMPLE).makespan_s == 86


def test_heft_runs_the_example_as_the_paper_draws_it() -> None:
    schedule = heft(EXAMPLE)
    assert schedule.processor == (2, 0, 2, 1, 2, 1, 2, 0, 1, 1)
    assert schedule.start_s == (0, 27, 9, 18, 28, 26, 38, 57, 56, 73)


def test_the_critical_path_of_the_example_stays_on_one_processor() -> None:
    upward, downward = upward_ranks(EXAMPLE), downward_ranks(EXAMPLE)
    path = critical_path(EXAMPLE.graph, [up + down for up, down in zip(upward, downward, strict=True)])
    assert path == [0, 1, 8, 9]
    assert {cpop(EXAMPLE).processor[task] for task in path} == {1}


# ── by hand ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_chain_stays_where_it_is() -> None:
    #  0 ──▶ 1 ──▶ 2      each 1 s; an output takes 5 s to another worker
    problem = alike(graph_of((), (0,), (1,)), [1.0] * 3, [5.0] * 3, workers=3)
    for schedule in (heft(problem), cpop(problem)):
        assert len(set(schedule.processor)) == 1
        assert schedule.makespan_s == 3


def test_a_fan_out_spreads_if_transfers_are_short() -> None:
    #        ┌─▶ 1 (4 s) ─┐
    #  0 ────┼─▶ 2 (4 s) ─┼─▶ 4      0 and 4 take 1 s; an output takes 1 s to another worker
    #        └─▶ 3 (4 s) ─┘
    problem = alike(graph_of((), (0,), (0,), (0,), (1, 2, 3)), [1, 4, 4, 4, 1], [1.0] * 5, workers=3)
    schedule = heft(problem)
    assert sorted(schedule.processor[1:4]) == [0, 1, 2]
    assert schedule.start_s == (0, 1, 2, 2, 7)
    assert schedule.makespan_s == 8


def test_a_fan_out_stays_together_if_transfers_are_long() -> None:
    problem = alike(graph_of((), (0,), (0,), (0,), (1, 2, 3)), [1, 4, 4, 4, 1], [9.0] * 5, workers=3)
    schedule = heft(problem)
    assert set(schedule.processor) == {0}
    assert schedule.makespan_s == 14


def test_nothing_is_transferred_between_the_slots_of_a_worker() -> None:
    #  0 ─┬─▶ 1       the workers have two slots; an output takes 9 s to another worker
    #     └─▶ 2
    problem = alike(graph_of((), (0,), (0,)), [1.0, 4.0, 4.0], [9.0] * 3, workers=2, slots=2)
    schedule = heft(problem)
    assert schedule.processor == (0, 0, 1)
    assert schedule.makespan_s == 5


def test_a_short_task_goes_into_a_gap() -> None:
    #  0 ──▶ 1 ──▶ 3     on one processor; 0 and 3 run on it, 1 can run on the other one only.
    #  2                 2 has the lowest rank, and fits between 0 and 3
    forbidden = 1000.0
    problem = Problem(
        graph=graph_of((), (0,), (), (1,)),
        execution_s=[[2, forbidden, 3, 2], [forbidden, 4, forbidden, forbidden]],
        transfer_s=[[], [1], [], [1]],
        worker_of=[0, 1],
    )
    schedule = heft(problem)
    assert schedule.processor == (0, 1, 0, 0)
    assert schedule.start_s == (0, 3, 2, 8)
    assert schedule.makespan_s == 10


def test_without_workers_there_is_no_problem() -> None:
    with pytest.raises(PlanError, match="at least 1 worker and 1 slot, not 0 and 1"):
        alike(graph_of(()), [1.0], [1.0], workers=0)


def test_a_schedule_becomes_a_plan() -> None:
    #  0 ─┬─▶ 1 (1 s)       one worker with one slot: 2 is longer and leads to 3, so it comes before 1
    #     └─▶ 2 (4 s) ─▶ 3
    small = Resources(cpus=1, memory_mb=512)
    graph = graph_of((), (0,), (0,), (2,))
    problem = alike(graph, [1, 1, 4, 1], [9.0] * 4, workers=1)
    plan = heft(problem).plan(problem, small, "heft")
    plan.validate(graph)
    assert [assignment.worker for assignment in plan.assignments] == [0, 0, 0, 0]
    assert plan.assignments[0].resources is small
    assert plan.ranks == (0, 2, 1, 3)


# ── what every schedule keeps ──────────────────────────────────────────────────────────────────────────────────


@st.composite
def graphs(draw: st.DrawFn, most: int = 12) -> Graph:
    count = draw(st.integers(1, most))
    deps = [draw(st.sets(st.integers(0, task - 1), max_size=3)) if task else set() for task in range(count)]
    return graph_of(*[tuple(sorted(own)) for own in deps])


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    graph = draw(graphs())
    seconds = st.lists(st.integers(0, 9), min_size=len(graph), max_size=len(graph))
    kinds = draw(st.lists(seconds, min_size=1, max_size=3))
    processors = draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 3)), min_size=1, max_size=6))
    return Problem(
        graph=graph,
        execution_s=[column for column, _ in processors],
        transfer_s=[[draw(st.integers(0, 9)) for _ in deps] for deps in graph.deps],
        worker_of=[worker for _, worker in processors],
    )


def check(problem: Problem, schedule: Schedule) -> None:
    worker_of = [problem.worker_of[processor] for processor in schedule.processor]
    for task, deps in enumerate(problem.graph.deps):
        assert schedule.end_s[task] - schedule.start_s[task] == problem.execution_s[schedule.processor[task]][task]
        for dep, took_s in zip(deps, problem.transfer_s[task], strict=True):
            arrived_s = schedule.end_s[dep] + (0 if worker_of[dep] == worker_of[task] else took_s)
            assert schedule.start_s[task] >= arrived_s
    tasks = range(len(problem.graph))
    for one in tasks:
        for other in range(one):
            if schedule.processor[one] == schedule.processor[other]:
                first, second = sorted((one, other), key=lambda task: (schedule.start_s[task], schedule.end_s[task]))
                assert schedule.end_s[first] <= schedule.start_s[second]


@settings(max_examples=200, deadline=None)
@given(problems())
def test_schedules_keep_order_transfers_and_slots(problem: Problem) -> None:
    check(problem, heft(problem))
    check(problem, cpop(problem))


def by_trying_everything(problem: Problem) -> Schedule:
    """HEFT as the paper words it: every processor is tried for every task, gaps by their definition."""
    graph, ranks = problem.graph, upward_ranks(problem)
    placed: dict[int, tuple[int, float, float]] = {}
    for task in sorted(range(len(graph)), key=lambda task: (-round(ranks[task], DIGITS), task)):
        ends = []
        for processor, column in enumerate(problem.execution_s):
            ready_s = 0.0
            for dep, took_s in zip(graph.deps[task], problem.transfer_s[task], strict=True):
                at, _, end_s = placed[dep]
                near = problem.worker_of[at] == problem.worker_of[processor]
                ready_s = max(ready_s, end_s + (0 if near else took_s))
            busy = [(start_s, end_s) for at, start_s, end_s in placed.values() if at == processor]
            starts = [ready_s, *(end_s for _, end_s in busy if end_s >= ready_s)]
            free = [
                start_s
                for start_s in starts
                if all(start_s + column[task] <= from_s or start_s >= to_s for from_s, to_s in busy)
            ]
            ends.append((min(free) + column[task], processor, min(free)))
        end_s, processor, start_s = min(ends)
        placed[task] = (processor, start_s, end_s)
    tasks = range(len(graph))
    return Schedule(
        processor=tuple(placed[task][0] for task in tasks),
        start_s=tuple(placed[task][1] for task in tasks),
        end_s=tuple(placed[task][2] for task in tasks),
    )


@settings(max_examples=200, deadline=None)
@given(problems())
def test_the_first_task_that_finds_no_tie_is_placed_as_the_paper_says(problem: Problem) -> None:
    """Ties may be broken either way and then everything differs; up to the first one, ends are the same."""
    ours, paper = heft(problem), by_trying_everything(problem)
    ranks = upward_ranks(problem)
    for task in sorted(range(len(problem.graph)), key=lambda task: (-round(ranks[task], DIGITS), task)):
        assert ours.end_s[task] == paper.end_s[task]
        if ours.processor[task] != paper.processor[task]:
            return
