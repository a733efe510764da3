"""Workflows and plans of any size, whose costs can be counted by hand.

    fan-out    n - 1 tasks and a sum of them all
    layers     ten layers; each task takes what stands before it, and both neighbours of that
    tree       pairs of pairs, down to one task
    chains     one for each worker; nobody takes anything from anybody else

Plans give each worker a block of neighbours, as a good planner would: in layers only what stands at the border of a
block is needed elsewhere, in a tree only the top of each block.
"""

from collections.abc import Callable
from dataclasses import dataclass

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.plan.plan import Assignment, Plan

DEPTH = 10
"""How many layers there are."""

_FEW = 8

Deps = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A workflow of one shape and size, and the worker that a plan gives each task to."""

    name: str
    workers: int
    deps: Deps
    worker_of: tuple[int, ...]

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.deps)

    @property
    def edges(self) -> int:
        """How many outputs are taken."""
        return sum(map(len, self.deps))

    def graph(self) -> Graph:
        """The structure; who takes nobody's output is a sink."""
        taken = bytearray(len(self.deps))
        for deps in self.deps:
            for dep in deps:
                taken[dep] = 1
        return Graph(
            functions=(FunctionInfo("step", "1"),),
            function_of=(0,) * len(self.deps),
            deps=self.deps,
            sinks=tuple(task for task, is_taken in enumerate(taken) if not is_taken),
        )

    def plan(self, graph: Graph, *, planned: bool) -> Plan:
        """Blocks of neighbours for each worker; or, if nothing is planned, any task for any worker."""
        workers = [Assignment(worker=worker, resources=Resources()) for worker in range(self.workers)]
        anywhere = Assignment()
        return Plan(
            fingerprint=graph.fingerprint,
            planner="blocks" if planned else "flexible",
            assignments=tuple([workers[one] if planned else anywhere for one in self.worker_of]),
        )

    def calls(self, step: Callable[..., object]) -> list[object]:
        """The same workflow as a user writes it: calls of a decorated function; gives those that nobody takes."""
        nodes: list[object] = []
        taken = bytearray(len(self.deps))
        for task, deps in enumerate(self.deps):
            inputs = [nodes[dep] for dep in deps]
            nodes.append(step(task, *inputs) if len(inputs) <= _FEW else step(task, inputs))
            for dep in deps:
                taken[dep] = 1
        return [node for node, is_taken in zip(nodes, taken, strict=True) if not is_taken]


def fan_out(tasks: int, workers: int) -> Shape:
    parts = tasks - 1
    deps = ((),) * parts + (tuple(range(parts)),)
    return _shape("fan-out", workers, deps, [*_blocks(parts, workers), 0])


def layers(tasks: int, workers: int) -> Shape:
    width = tasks // DEPTH
    deps: list[tuple[int, ...]] = [()] * width
    for first in range(0, width * (DEPTH - 1), width):
        deps += (tuple(sorted({first + (place + step) % width for step in (-1, 0, 1)})) for place in range(width))
    return _shape("layers", workers, tuple(deps), _blocks(width, workers) * DEPTH)


def tree(tasks: int, workers: int) -> Shape:
    leaves = (tasks + 1) // 2
    deps: list[tuple[int, ...]] = [()] * leaves
    worker_of = _blocks(leaves, workers)
    level = list(range(leaves))
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2], strict=False))
        level = [*range(len(deps), len(deps) + len(pairs)), *level[2 * len(pairs) :]]
        deps += pairs
        worker_of += [worker_of[left] for left, _ in pairs]
    return _shape("tree", workers, tuple(deps), worker_of)


def chains(tasks: int, workers: int) -> Shape:
    length = tasks // workers
    deps = [(task - 1,) if task % length else () for task in range(length * workers)]
    return _shape("chains", workers, tuple(deps), [task // length for task in range(length * workers)])


SHAPES: dict[str, Callable[[int, int], Shape]] = {"fan-out": fan_out, "layers": layers, "tree": tree, "chains": chains}


def _blocks(tasks: int, workers: int) -> list[int]:
    return [task * workers // tasks for task in range(tasks)]


def _shape(name: str, workers: int, deps: Deps, worker_of: list[int]) -> Shape:
    return Shape(name=name, workers=workers, deps=deps, worker_of=tuple(worker_of))
