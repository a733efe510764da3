"""A workflow to plan: its graph, and what is known of its tasks.

How long a task runs with more or less than one vCPU is not in any trace. Here a law like Amdahl's says it. A program
waits for a part w of its time, which no processor shortens; of the rest, a fraction p runs in parallel:

    seconds(c) = seconds(1) · (w + (1 - w) · ((1 - p) / min(c, 1) + p / c))        c vCPUs

Less than one vCPU slows all but the waiting down, more than one speeds the parallel part up. So more memory is faster
and less memory cheaper, by how much depends on the program. Both numbers are drawn by the program's name, w up to 0.3
and p up to 0.95: they are the same in every workflow and on every machine.

The configurations are those of AWS Lambda with less than two vCPUs, which run one task at a time. With several slots
the law would have to know how many tasks share the processors, and predictions know tasks one by one.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.errors import DefinitionError
from augury.plan.model import PlatformModel
from augury.plan.predictions import FixedPredictions

FULL_CPU_MB = 1769
"""A worker with this much memory has one vCPU, as on AWS Lambda."""

MEMORY_MB = (512, 1024, 1769, 2654, 3520)
CONFIGURATIONS = tuple(Resources(cpus=round(mb / FULL_CPU_MB, 4), memory_mb=mb) for mb in MEMORY_MB)
MOST_WAITING = 0.3
MOST_PARALLEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """How the run time of a program depends on processors.

    Attributes:
        waiting: The part of its time, on one vCPU, that it waits.
        parallel: The part of the rest that more processors share.
    """

    waiting: float
    parallel: float

    def slowdown(self, cpus: float) -> float:
        """How many times as long as on one vCPU it takes.

        Example:
            >>> half = Law(waiting=0.5, parallel=0.5)
            >>> half.slowdown(2.0), half.slowdown(0.5)
            (0.875, 1.5)
        """
        computing = (1 - self.parallel) / min(cpus, 1.0) + self.parallel / cpus
        return self.waiting + (1 - self.waiting) * computing


def law_of(program: str) -> Law:
    """The law of a program; drawn by its name."""
    rng = Random(f"law of {program}")
    return Law(waiting=rng.uniform(0.0, MOST_WAITING), parallel=rng.uniform(0.0, MOST_PARALLEL))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedTask:
    """One task as a trace tells it.

    Attributes:
        program: What it runs; tasks of one program are calls of one function.
        seconds: How long it ran, on one vCPU.
        output_bytes: The files that it wrote, summed.
        parents: The tasks whose outputs it takes, as indices into the trace.
    """

    program: str
    seconds: float
    output_bytes: float
    parents: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A workflow with what is expected of its tasks.

    Attributes:
        name: Of the workflow.
        graph: Its structure; what no other task takes is asked for.
        seconds: For each task, how long it runs on one vCPU.
        output_bytes: For each task, the size of its output.
        laws: For each function of the graph, how its run time depends on processors.
    """

    name: str
    graph: Graph
    seconds: tuple[float, ...]
    output_bytes: tuple[float, ...]
    laws: tuple[Law, ...]

    def predictions(self) -> FixedPredictions:
        """What planners are told: exactly what will be."""
        return FixedPredictions(self.seconds_with, self.output_bytes.__getitem__)

    def scaled(self, factor: float) -> "Instance":
        """The same with tasks that run so many times as long."""
        return replace(self, seconds=tuple(seconds * factor for seconds in self.seconds))

    def seconds_with(self, task: int, resources: Resources) -> float:
        """How long a task runs with these resources."""
        law = self.laws[self.graph.function_of[task]]
        return self.seconds[task] * law.slowdown(resources.cpus)


def instance_of(name: str, tasks: Sequence[TracedTask]) -> Instance:
    """The workflow that a trace tells of; its tasks in topological order, those of the trace's order first.

    Raises:
        DefinitionError: There are no tasks, or they wait for each other in a circle.
    """
    if not tasks:
        raise DefinitionError(f"{name} has no tasks")
    order = topological(name, [task.parents for task in tasks])
    ids = {index: task for task, index in enumerate(order)}
    programs = list(dict.fromkeys(tasks[index].program for index in order))
    function_of = {program: function for function, program in enumerate(programs)}
    taken = {parent for task in tasks for parent in task.parents}
    return Instance(
        name=name,
        graph=Graph(
            functions=tuple(FunctionInfo(program, program) for program in programs),
            function_of=tuple(function_of[tasks[index].program] for index in order),
            deps=tuple(tuple(sorted({ids[parent] for parent in tasks[index].parents})) for index in order),
            sinks=tuple(sorted(ids[index] for index in range(len(tasks)) if index not in taken)),
        ),
        seconds=tuple(tasks[index].seconds for index in order),
        output_bytes=tuple(tasks[index].output_bytes for index in order),
        laws=tuple(law_of(program) for program in programs),
    )


def topological(name: str, parents: Sequence[Sequence[int]]) -> list[int]:
    """Indices in an order in which parents come first; those that are ready earlier come earlier."""
    children: list[list[int]] = [[] for _ in parents]
    missing = [len(set(own)) for own in parents]
    for index, own in enumerate(parents):
        for parent in set(own):
            children[parent].append(index)
    ready = deque(index for index, count in enumerate(missing) if not count)
    order = []
    while ready:
        index = ready.popleft()
        order.append(index)
        for child in children[index]:
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    if len(order) < len(parents):
        raise DefinitionError(f"{name} is no DAG: {len(parents) - len(order)} of its tasks wait for each other")
    return order


def platform(*, warm: bool) -> PlatformModel:
    """The platform of these benchmarks: one like AWS Lambda, with all its environments warm or none.

    Storage, start-ups and prices are those that `PlatformModel` has by default.
    """
    if not warm:
        return PlatformModel(configurations=CONFIGURATIONS)
    return PlatformModel(
        configurations=CONFIGURATIONS,
        warm=dict.fromkeys(CONFIGURATIONS, math.inf),
        keep_alive_s=math.inf,  # some of these workflows run for hours
    )
