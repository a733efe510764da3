"""Which tasks share a node of the picture: none while there are few, and siblings that are alike when there are many.

    load[0] ─▶ resize[0] ─┐
    load[1] ─▶ resize[1] ─┼▶ total      becomes      load × 500 ─▶ resize × 500 ─▶ total
       ⋮                  │
    load[499] ─▶ resize[499]

Tasks are alike if they have the same function, depth and resources, and what they take and who takes theirs is alike.
That is found by splitting: start with classes of function and depth, and split a class whose members have neighbours in
different classes, again and again. What is too much for a picture even then is cut more coarsely:

    siblings on one worker → siblings → and chains of them → all of a function and depth → bands of depth

Every step keeps the graph without circles: classes lie within one depth, and a chain has one way in and one way out.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count as numbers

from augury.dag.graph import Graph

MOST_SINGLE = 400
"""Up to how many tasks each has a node of its own."""
MOST_NODES = 150
"""How many nodes there are at most, once tasks share them."""
MOST_COLUMNS = 60
MOST_ROWS = 100
_BANDS = 15
_SPLITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Tasks by node.

    Attributes:
        tasks: For each node, its tasks, ascending; nodes are in topological order.
        node_of: For each task, its node.
        edges: From which node to which outputs go; sorted, without repeats.
        depth: For each node the length of the longest path to it.
    """

    tasks: tuple[tuple[int, ...], ...]
    node_of: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    depth: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tasks)


def group(graph: Graph, place_of: Sequence[int], kind_of: Callable[[int], Hashable]) -> Grouping:
    """The finest grouping that makes a readable picture.

    Args:
        graph: The workflow.
        place_of: For each task, where it runs.
        kind_of: What else tells a task from others, such as its resources.
    """
    depth = _depths(graph.deps)
    single = range(len(graph))
    if len(graph) <= MOST_SINGLE and _fits(depth, MOST_SINGLE):
        return _grouping(graph.deps, single)
    function = graph.function_of
    there = [(depth[task], function[task], kind_of(task), place_of[task]) for task in single]
    alike = [(depth[task], function[task], kind_of(task)) for task in single]
    siblings = cache(lambda: _split(graph, alike))
    steps: tuple[Callable[[], Sequence[int]], ...] = (
        lambda: _split(graph, there),
        lambda: _chained(graph, siblings(), there),
        lambda: _chained(graph, siblings(), alike),
        lambda: _numbered([(depth[task], function[task]) for task in single]),
    )
    for step in steps:
        classes = step()
        if max(classes) < MOST_NODES:
            grouping = _grouping(graph.deps, classes)
            if _fits(grouping.depth, MOST_NODES):
                return grouping
    deepest = max(depth) + 1
    return _grouping(graph.deps, _numbered([depth[task] * _BANDS // max(_BANDS, deepest) for task in single]))


def _fits(depth: Sequence[int], most: int) -> bool:
    rows = [0] * (max(depth, default=-1) + 1)
    for place in depth:
        rows[place] += 1
    return len(depth) <= most and len(rows) <= MOST_COLUMNS and max(rows, default=0) <= MOST_ROWS


def _depths(deps: Sequence[Sequence[int]]) -> list[int]:
    depth: list[int] = []
    for needed in deps:
        depth.append(1 + max((depth[dep] for dep in needed), default=-1))
    return depth


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    """Keys as numbers from 0 on, in the order of their first use."""
    fresh = numbers()
    known: dict[Hashable, int] = {}
    return [known[key] if key in known else known.setdefault(key, next(fresh)) for key in keys]


def _split(graph: Graph, keys: Sequence[Hashable]) -> Sequence[int]:
    """Classes of tasks that are alike, and whose neighbours are; stops when there are too many for a picture."""
    classes = _numbered(keys)
    for _ in range(_SPLITS):
        finer = _numbered(
            [
                (own, frozenset(map(classes.__getitem__, deps)), frozenset(map(classes.__getitem__, dependents)))
                for own, deps, dependents in zip(classes, graph.deps, graph.dependents, strict=True)
            ]
        )
        if max(finer) == max(classes):
            break
        classes = finer
        if max(classes) >= MOST_NODES * MOST_COLUMNS:
            break
    return classes


def _chained(graph: Graph, classes: Sequence[int], keys: Sequence[Hashable]) -> Sequence[int]:
    """The same with chains of classes as one: each but the last has one follower, which follows nothing else.

    Only classes that do the same in the same place are chained.
    """
    whole = _grouping(graph.deps, classes)
    traits = [frozenset(_traits(keys[task]) for task in tasks) for tasks in whole.tasks]
    after: list[list[int]] = [[] for _ in whole.tasks]
    before: list[list[int]] = [[] for _ in whole.tasks]
    for source, target in whole.edges:
        after[source].append(target)
        before[target].append(source)
    head = list(range(len(whole)))
    for node in range(len(whole)):
        if len(before[node]) == 1:
            (source,) = before[node]
            if len(after[source]) == 1 and traits[source] == traits[node]:
                head[node] = head[source]
    return _numbered([head[node] for node in whole.node_of])


def _traits(key: Hashable) -> Hashable:
    """What a task does and where, without its depth."""
    return key[1:] if isinstance(key, tuple) else key


def _grouping(deps: Sequence[Sequence[int]], classes: Sequence[int]) -> Grouping:
    """Classes as nodes in topological order, which that of their first tasks is not always."""
    tasks: dict[int, list[int]] = {}
    for task, own in enumerate(classes):
        tasks.setdefault(own, []).append(task)
    edges = {(classes[dep], own) for own, needed in zip(classes, deps, strict=True) for dep in needed}
    edges = {(source, target) for source, target in edges if source != target}
    order = _topological(list(tasks), edges)
    node = {own: index for index, own in enumerate(order)}
    numbered = sorted((node[source], node[target]) for source, target in edges)
    needs: list[list[int]] = [[] for _ in order]
    for source, target in numbered:
        needs[target].append(source)
    return Grouping(
        tasks=tuple(tuple(tasks[own]) for own in order),
        node_of=tuple(node[own] for own in classes),
        edges=tuple(numbered),
        depth=tuple(_depths(needs)),
    )


def _topological(classes: Sequence[int], edges: set[tuple[int, int]]) -> list[int]:
    """Classes with sources before targets, in the order in which they can begin."""
    missing = dict.fromkeys(classes, 0)
    after: dict[int, list[int]] = {own: [] for own in classes}
    for source, target in sorted(edges):
        missing[target] += 1
        after[source].append(target)
    order = [own for own in classes if not missing[own]]
    for own in order:  # grows while it is walked
        for target in after[own]:
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return order
