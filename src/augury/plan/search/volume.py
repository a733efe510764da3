"""How many bytes a run moves and holds, and plans that do with few.

An output is held from when its task returns until its last consumer has; one that is stored for other workers, until
the run ends. Tasks that are started by how long a way they have still to go make all blocks of a matrix before the
first product, and all products before the first sum: each step of the graph at once. Depth first, what belongs
together is done together:

    a0 ─┬▶ p0 ─┐                     by the longest way     a0 a1 a2 a3 p0 p1 s      up to five are held
    a1 ─┘      ├▶ s                  depth first            a0 a1 p0 a2 a3 p1 s      up to four
    a2 ─┬▶ p1 ─┘
    a3 ─┘

And if this order is cut into parts of equal work, one for each worker, each of them does what lies together, and little
has to be moved. Time is often the same, as long as all workers have enough to do; then fewer bytes are better. They
are also what memory runs out of.
"""

from collections.abc import Sequence
from typing import NamedTuple

from augury.dag.graph import Graph
from augury.plan.timeline import Simulation

WORTHWHILE_BYTES = 64e6
"""If all outputs together are smaller, it does not matter which of them there are at once."""

_UNSEEN, _ENTERED = -1, -2


def depth_first(graph: Graph) -> tuple[int, ...]:
    """For each task its place in an order in which what one task takes is made one after the other, and just before."""
    places, deps, place = [_UNSEEN] * len(graph), graph.deps, 0
    for sink in graph.sinks:
        way = [sink]
        while way:
            task = way[-1]
            if places[task] == _UNSEEN:
                places[task] = _ENTERED
                way.extend([dep for dep in reversed(deps[task]) if places[dep] == _UNSEEN])
                continue
            way.pop()
            if places[task] == _ENTERED:
                places[task] = place
                place += 1
    return tuple(places)


class Parts(NamedTuple):
    """Tasks in as many parts as there are to be workers.

    Attributes:
        part_of: For each task its part.
        ranks: For each task its place in the order in which they are done.
    """

    part_of: Sequence[int]
    ranks: tuple[int, ...]


def parts(graph: Graph, places: Sequence[int], work_s: Sequence[float], count: int) -> Parts:
    """An order that is cut into so many parts of equal work.

    Tasks without inputs are where they are needed. Those that several parts need are moved wherever they are made: they
    are dealt out, so that no part has to wait until another one has made all of them.

    Args:
        graph: The workflow.
        places: For each task its place in the order.
        work_s: For each task how long it takes.
        count: How many parts there are to be.
    """
    order = sorted(range(len(graph)), key=places.__getitem__)
    if not any(work_s):
        work_s = [1.0] * len(graph)
    sources = _light_sources(graph, order, work_s, sum(work_s) / count)
    weights_s = list(work_s)
    for task in sources:
        weights_s[task] = 0.0
        if len(graph.dependents[task]) == 1:
            weights_s[graph.dependents[task][0]] += work_s[task]
    part_of, begin_s = _cut(graph, order, weights_s, count)
    dealt_s = [0.0] * count
    for task in sources:
        takers = {part_of[consumer] for consumer in graph.dependents[task]}
        part = part_of[task] = min(takers, key=lambda part: (dealt_s[part], part))
        if len(takers) > 1:
            dealt_s[part] += work_s[task]
        begin_s[task] = min([begin_s[consumer] for consumer in graph.dependents[task]])  # wherever that is
    ranks = [0] * len(order)
    for rank, task in enumerate(sorted(order, key=lambda task: (begin_s[task], bool(graph.deps[task]), places[task]))):
        ranks[task] = rank
    return Parts(part_of, tuple(ranks))


def _light_sources(graph: Graph, order: Sequence[int], work_s: Sequence[float], most_s: float) -> list[int]:
    """The tasks without inputs that are where they are needed: not those that are much of the work for one task."""
    own_s: dict[int, float] = {}  # a task → how long those take that only it needs
    sources = [task for task in order if graph.dependents[task] and not graph.deps[task]]
    alone = [task for task in sources if len(graph.dependents[task]) == 1]
    for task in alone:
        consumer = graph.dependents[task][0]
        own_s[consumer] = own_s.get(consumer, 0.0) + work_s[task]
    heavy = {consumer for consumer, seconds in own_s.items() if seconds > most_s / 2 and len(graph.deps[consumer]) > 1}
    return [task for task in sources if len(graph.dependents[task]) > 1 or graph.dependents[task][0] not in heavy]


def _cut(graph: Graph, order: Sequence[int], weights_s: Sequence[float], count: int) -> tuple[list[int], list[float]]:
    """For each task the part in which its middle is, and how much of the part comes before it; chains stay together."""
    part_of, begin_s = [0] * len(order), [0.0] * len(order)
    all_s, done_s, parts_s = sum(weights_s), 0.0, [0.0] * count
    for task in order:
        middle = (done_s + weights_s[task] / 2) / all_s if all_s else 0.0
        deps = graph.deps[task]
        is_linked = len(deps) == 1 and len(graph.dependents[deps[0]]) == 1
        part = part_of[task] = part_of[deps[0]] if is_linked else min(count - 1, int(middle * count))
        begin_s[task] = parts_s[part]
        parts_s[part] += weights_s[task]
        done_s += weights_s[task]
    return part_of, begin_s


def bytes_of(graph: Graph, output_bytes: Sequence[float], simulation: Simulation) -> float:
    """How many bytes a run moves, and holds at its peak."""
    return simulation.moved_bytes + most_held(graph, output_bytes, simulation)


def most_held(graph: Graph, output_bytes: Sequence[float], simulation: Simulation) -> float:
    """How many bytes there are of outputs when there are most."""
    executed_s, worker = simulation.timeline.executed_s, simulation.timeline.worker
    changes = []
    for task, size in enumerate(output_bytes):
        consumers = graph.dependents[task]
        changes.append((executed_s[task], size))
        if consumers and all(worker[consumer] == worker[task] for consumer in consumers):
            changes.append((max([executed_s[consumer] for consumer in consumers]), -size))
    held = most = 0.0
    # A task has its inputs until it has returned, so at one moment what comes is there before what goes.
    for _, change in sorted(changes, key=lambda one: (one[0], -one[1])):
        held += change
        most = max(most, held)
    return most
