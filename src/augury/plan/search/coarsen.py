"""A smaller graph that stands for a large one: chains, small sub-trees and equal siblings become one task each.

    chain                small tree              equal siblings

    a ──▶ b ──▶ c        a ──┐                     ┌──▶ b₁ ──┐
    becomes              b ──┼──▶ c                a ──▶ …   ┼──▶ c      1,000 siblings become a few bundles
       abc               becomes abc               └──▶ b₉ ──┘

Chains lose nothing by it. Trees and siblings are merged only while a cluster is shorter than the grain: the parts of
one are then run one after another, on one worker. None of the three can close a circle, so what remains is a graph
of clusters, and a plan for it is a plan for the tasks in them. Linear in tasks and edges, for each round.
"""

from collections.abc import Sequence
from typing import NamedTuple

from augury.dag.graph import Graph

_ROUNDS = 8
_WORTH_IT = 0.95
"""Up to which share of the clusters must be left after a round for it to count."""


class Coarse(NamedTuple):
    """A graph of clusters.

    Attributes:
        graph: One task for each cluster.
        members: For each cluster its tasks, ascending.
        cluster_of: For each task its cluster.
    """

    graph: Graph
    members: list[list[int]]
    cluster_of: list[int]


def coarsen(graph: Graph, work_s: Sequence[float], most: int) -> Coarse:
    """Merge tasks until there are at most so many clusters, or until nothing more can be merged.

    Args:
        graph: The workflow.
        work_s: For each task how long it takes.
        most: How many clusters there should be at most.
    """
    coarse = _quotient(graph, _label_chains(graph, work_s, 0.0) or range(len(graph)))
    weight = _weights(coarse, work_s)
    grain_s = sum(work_s) / max(1, most)
    for _ in range(_ROUNDS):
        if len(coarse.members) <= most:
            break
        merged = _merged(coarse.graph, weight, grain_s)
        before = len(coarse.members)
        if merged is not None:
            coarse = _quotient(graph, [merged[cluster] for cluster in coarse.cluster_of])
            weight = _weights(coarse, work_s)
        grain_s *= 1.5 if len(coarse.members) < _WORTH_IT * before else 4
    return coarse


def _weights(coarse: Coarse, work_s: Sequence[float]) -> list[float]:
    return [sum([work_s[task] for task in tasks]) for tasks in coarse.members]


def _quotient(graph: Graph, label: Sequence[int]) -> Coarse:
    """The graph of clusters; clusters are numbered in topological order."""
    numbers: dict[int, int] = {}
    members: list[list[int]] = []
    for task, name in enumerate(label):
        number = numbers.setdefault(name, len(members))
        if number == len(members):
            members.append([])
        members[number].append(task)
    cluster_of = [numbers[name] for name in label]
    needed: list[set[int]] = [set() for _ in members]
    for task, inputs in enumerate(graph.deps):
        mine = cluster_of[task]
        for dep in inputs:
            if cluster_of[dep] != mine:
                needed[mine].add(cluster_of[dep])
    order = _topological(needed)
    place = {cluster: position for position, cluster in enumerate(order)}
    return Coarse(
        Graph(
            functions=graph.functions,
            function_of=tuple(graph.function_of[members[cluster][-1]] for cluster in order),
            deps=tuple(tuple(sorted(place[dep] for dep in needed[cluster])) for cluster in order),
            sinks=tuple(sorted({place[cluster_of[sink]] for sink in graph.sinks})),
        ),
        [members[cluster] for cluster in order],
        [place[cluster] for cluster in cluster_of],
    )


def _topological(needed: Sequence[set[int]]) -> list[int]:
    dependents: list[list[int]] = [[] for _ in needed]
    missing = [len(inputs) for inputs in needed]
    for cluster, inputs in enumerate(needed):
        for dep in inputs:
            dependents[dep].append(cluster)
    order = [cluster for cluster, count in enumerate(missing) if not count]
    for cluster in order:
        for consumer in dependents[cluster]:
            missing[consumer] -= 1
            if not missing[consumer]:
                order.append(consumer)
    return order


def _merged(graph: Graph, weight: Sequence[float], grain_s: float) -> list[int] | None:
    """A label for each cluster, equal for those that become one; None if none do.

    One kind of merger at a time, since two kinds together could close a circle: the first that gets anywhere.
    """
    for label_of in (_label_chains, _label_siblings, _label_in_trees, _label_out_trees):
        label = label_of(graph, weight, grain_s)
        if label is not None and len(set(label)) < _WORTH_IT * len(graph):
            return label
    return None


def _label_chains(graph: Graph, weight: Sequence[float], grain_s: float) -> list[int] | None:
    label = list(range(len(graph)))
    merged = False
    for task, inputs in enumerate(graph.deps):
        if len(inputs) == 1 and len(graph.dependents[inputs[0]]) == 1 and inputs[0] not in graph.sink_set:
            label[task] = label[inputs[0]]
            merged = True
    return label if merged else None


def _label_siblings(graph: Graph, weight: Sequence[float], grain_s: float) -> list[int] | None:
    """Bundle clusters of one function with the same inputs and the same consumers."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for task, inputs in enumerate(graph.deps):
        key = (graph.function_of[task], inputs, graph.dependents[task], task in graph.sink_set)
        alike.setdefault(key, []).append(task)
    label = list(range(len(graph)))
    merged = False
    for siblings in alike.values():
        if len(siblings) < 2:
            continue
        bundle, filled_s = siblings[0], weight[siblings[0]]
        for task in siblings[1:]:
            if filled_s + weight[task] <= grain_s:
                label[task] = bundle
                filled_s += weight[task]
                merged = True
            else:
                bundle, filled_s = task, weight[task]
    return label if merged else None


def _label_in_trees(graph: Graph, weight: Sequence[float], grain_s: float) -> list[int] | None:
    """Merge a cluster with all its inputs if it is their only consumer."""
    label = list(range(len(graph)))
    total_s = list(weight)
    taken: set[int] = set()
    for task, inputs in enumerate(graph.deps):
        if len(inputs) < 2 or any(dep in taken or dep in graph.sink_set for dep in inputs):
            continue
        if any(len(graph.dependents[dep]) > 1 for dep in inputs):
            continue
        together_s = total_s[task] + sum(total_s[dep] for dep in inputs)
        if together_s <= grain_s:
            for dep in inputs:
                label[dep] = task
            taken.add(task)
            taken.update(inputs)
    return label if taken else None


def _label_out_trees(graph: Graph, weight: Sequence[float], grain_s: float) -> list[int] | None:
    """Merge a cluster with all its consumers if it is their only input."""
    label = list(range(len(graph)))
    taken: set[int] = set()
    for task, consumers in enumerate(graph.dependents):
        if not consumers or task in taken or any(consumer in taken for consumer in consumers):
            continue
        if any(len(graph.deps[consumer]) > 1 for consumer in consumers):
            continue
        if weight[task] + sum(weight[consumer] for consumer in consumers) <= grain_s:
            for consumer in consumers:
                label[consumer] = task
            taken.add(task)
            taken.update(consumers)
    return label if taken else None
