"""Chains, small trees and equal siblings become one task each, and what is found for these holds for all."""

from random import Random

import pytest

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.plan.model import PlatformModel
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.predictions import FixedPredictions
from augury.plan.search.clusters import expanded, outlook_on
from augury.plan.search.coarsen import coarsen
from tests.plan.graphs import graph_of
from tests.plan.random_runs import random_graph

ONE = Resources(cpus=1, memory_mb=1024)


def test_a_chain_becomes_one_task() -> None:
    """0 ──▶ 1 ──▶ 2"""
    coarse = coarsen(graph_of((), (0,), (1,)), [1.0, 2.0, 3.0], most=3)
    assert coarse.members == [[0, 1, 2]]
    assert coarse.graph.deps == ((),)
    assert coarse.graph.sinks == (0,)


def test_chains_between_forks_are_merged_whatever_their_length() -> None:
    """
    0 ──▶ 1 ─┬▶ 2 ──▶ 3 ─┬▶ 5
             └▶ 4 ───────┘
    """
    coarse = coarsen(graph_of((), (0,), (1,), (2,), (1,), (3, 4)), [9.0] * 6, most=100)
    assert coarse.members == [[0, 1], [2, 3], [4], [5]]
    assert coarse.graph.deps == ((), (0,), (0,), (1, 2))


def test_what_the_user_asked_for_ends_a_chain() -> None:
    """0 ──▶ 1, and both are asked for"""
    graph = Graph((FunctionInfo("f", "v"),), (0, 0), ((), (0,)), (0, 1))
    assert coarsen(graph, [1.0, 1.0], most=2).members == [[0], [1]]


def test_equal_siblings_are_bundled_evenly() -> None:
    """0 ──▶ 1 … 100 ──▶ 101"""
    graph = graph_of((), *[(0,)] * 100, tuple(range(1, 101)))
    coarse = coarsen(graph, [1.0] * 102, most=12)
    sizes = [len(tasks) for tasks in coarse.members[1:-1]]
    assert len(coarse.members) <= 12
    assert max(sizes) <= 2 * min(sizes)
    assert coarse.graph.deps[-1] == tuple(range(1, len(coarse.members) - 1))


def test_long_siblings_stay_apart_from_short_ones() -> None:
    """Ten tasks without inputs and consumers; 0 is as long as all others together."""
    coarse = coarsen(graph_of(*[()] * 10), [9.0, *[1.0] * 9], most=3)
    assert [0] in coarse.members


def test_siblings_of_another_function_are_no_equals() -> None:
    graph = Graph((FunctionInfo("f", "v"), FunctionInfo("g", "v")), (0, 1, 0, 1), ((),) * 4, (0, 1, 2, 3))
    assert sorted(coarsen(graph, [1.0] * 4, most=2).members) == [[0, 2], [1, 3]]


def test_small_trees_are_merged_from_their_leaves() -> None:
    """
    0 ─┐             the four leaves have two different consumers; a pair and its sum become one
    1 ─┴▶ 4 ─┐
    2 ─┐     ├▶ 6
    3 ─┴▶ 5 ─┘
    """
    graph = Graph(
        tuple(FunctionInfo(name, name) for name in "abcdefg"),  # no equals among them
        tuple(range(7)),
        ((), (), (), (), (0, 1), (2, 3), (4, 5)),
        (6,),
    )
    assert coarsen(graph, [1.0] * 7, most=3).members == [[0, 1, 4], [2, 3, 5], [6]]


@pytest.mark.parametrize("seed", range(300))
def test_clusters_are_a_partition_and_form_a_graph(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, most=60)
    work_s = [rng.expovariate(1) for _ in range(len(graph))]
    coarse = coarsen(graph, work_s, most=rng.choice([1, 3, 10]))
    assert sorted(task for tasks in coarse.members for task in tasks) == list(range(len(graph)))
    assert all(coarse.cluster_of[task] == cluster for cluster, tasks in enumerate(coarse.members) for task in tasks)
    for cluster, deps in enumerate(coarse.graph.deps):
        assert list(deps) == sorted(set(deps))
        assert all(dep < cluster for dep in deps)  # so there is no circle
    for task, inputs in enumerate(graph.deps):
        mine = coarse.cluster_of[task]
        assert all(coarse.cluster_of[dep] in (*coarse.graph.deps[mine], mine) for dep in inputs)
    assert coarse.graph.sinks == tuple(sorted({coarse.cluster_of[sink] for sink in graph.sinks}))


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_for_clusters_is_a_plan_for_tasks(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, most=60)
    run_s = [rng.random() for _ in range(len(graph))]
    given = FixedPredictions(lambda task, _: run_s[task], 10.0, peak_mb=lambda task: 100.0 * task)
    outlook = Outlook(graph, given, PlatformModel())
    coarse = coarsen(graph, run_s, most=5)
    clusters = outlook_on(coarse, outlook)
    workers = [rng.randrange(3) for _ in coarse.members]
    roomy = Resources(cpus=1, memory_mb=max(1, *clusters.least_memory_mb))
    plan = Plan(
        fingerprint=coarse.graph.fingerprint,
        planner="test",
        assignments=tuple(Assignment(worker, roomy) for worker in workers),
        ranks=tuple(rng.sample(range(len(workers)), len(workers))),
    )
    whole = expanded(plan, coarse, graph)
    whole.validate(graph)
    assert [one.worker for one in whole.assignments] == [workers[cluster] for cluster in coarse.cluster_of]
    assert sorted(whole.ranks) == list(range(len(graph)))
    for task, inputs in enumerate(graph.deps):  # of a cluster, inputs come first
        same = [dep for dep in inputs if coarse.cluster_of[dep] == coarse.cluster_of[task]]
        assert all(whole.ranks[dep] < whole.ranks[task] for dep in same)
    assert outlook.simulate(whole).makespan_s > 0


def test_clusters_take_what_their_tasks_take() -> None:
    """
    0 ──▶ 1 ─┬▶ 2
             └▶ 3        0 and 1 are one: only what 1 gives leaves it
    """
    graph = graph_of((), (0,), (1,), (1,), memory_mb={0: 700})
    given = FixedPredictions(lambda task, _: task + 1.0, lambda task: 10.0 ** (task + 1))
    outlook = Outlook(graph, given, PlatformModel())
    clusters = outlook_on(coarsen(graph, [1.0] * 4, most=100), outlook)
    assert list(clusters.execution_s(ONE)) == [3.0, 3.0, 4.0]
    assert list(clusters.output_bytes) == [100.0, 1000.0, 10000.0]
    assert list(clusters.least_memory_mb) == [700, 0, 0]
    assert len(clusters.evidence) == len(graph.functions)
