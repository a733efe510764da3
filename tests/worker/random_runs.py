"""Random runs in virtual time: any graph, any plan, any platform, any order of events."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any
from zlib import crc32

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.plan import Plan
from augury.testing import VirtualPlatform, VirtualRun
from tests.strategies import plans
from tests.worker.shapes import graph_of

EXAMPLES = int(os.environ.get("AUGURY_EXAMPLES", "0"))
"""Set it to go through so many random examples; otherwise they are few, and always the same."""

random_runs = settings(
    max_examples=EXAMPLES or 120,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def evaluate(task: int, inputs: Mapping[int, Any]) -> int:
    """A value that depends on the task and on every input of it."""
    return crc32(repr((task, sorted(inputs.items()))).encode())


def expected_values(graph: Graph) -> dict[int, Any]:
    """What the sinks must come to: one task after the other."""
    values: dict[int, Any] = {}
    for task, deps in enumerate(graph.deps):
        values[task] = evaluate(task, {dep: values[dep] for dep in deps})
    return {sink: values[sink] for sink in graph.sinks}


@dataclass(frozen=True)
class Case:
    """A graph, a plan and a platform, and the run that they lead to."""

    graph: Graph
    plan: Plan
    platform: VirtualPlatform
    durations_s: Mapping[int, float]
    sizes_bytes: Mapping[int, int]

    @cached_property
    def run(self) -> VirtualRun:
        return self.platform.run(
            self.graph, self.plan, evaluate, duration_s=self.durations_s, size_bytes=self.sizes_bytes
        )

    @cached_property
    def place_of(self) -> dict[int, tuple[str, int]]:
        """In which invocation each task ran: worker and attempt."""
        return {span.task: (span.worker, span.attempt) for span in self.run.timeline}

    def resources_of(self, worker: str) -> Resources:
        """What a worker has: the first task of a flexible one is in its name, any task of a planned one will do."""
        number = int(worker[1:].partition(".")[0])
        tasks = [number] if worker.startswith("t") else [t for t in self.place_of if self.worker_of(t) == number]
        return self.plan.assignments[tasks[0]].resources

    def worker_of(self, task: int) -> int | None:
        return self.plan.assignments[task].worker


@st.composite
def graphs(draw: st.DrawFn, max_tasks: int = 24) -> Graph:
    """A DAG in which tasks take the outputs of near tasks, of far ones, or of all."""
    size = draw(st.integers(1, max_tasks))
    reach = draw(st.sampled_from([2, 5, max_tasks]))
    rng = Random(draw(st.integers(0, 2**32)))
    deps = []
    for task in range(size):
        near = range(max(0, task - reach), task)
        count = rng.choice([0, 1, 1, 1, 2, 3, len(near)])
        deps.append(sorted(rng.sample(near, min(count, len(near)))))
    taken = {dep for needed in deps for dep in needed}
    sinks = [task for task in range(size) if task not in taken or rng.random() < 0.1]
    return graph_of(deps, sinks=sinks)


@st.composite
def platforms(draw: st.DrawFn) -> VirtualPlatform:
    """Few slots or many, near storage or far, small outputs or none, and any order of what happens at once."""
    return VirtualPlatform(
        slots=draw(st.sampled_from([1, 2, 7])),
        cold_start_s=draw(st.sampled_from([0.0, 0.1])),
        latency_s=draw(st.sampled_from([0.0, 0.0005, 0.01])),
        bandwidth_bytes_s=draw(st.sampled_from([float("inf"), 1e8])),
        upload_bytes_s=draw(st.sampled_from([0.0, 3e7])),
        inline_bytes=draw(st.sampled_from([0, 16 * 1024])),
        flush_s=draw(st.sampled_from([0.001, 0.1])),
        seed=draw(st.one_of(st.none(), st.integers(0, 2**32))),
        check_invariants=True,
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A run to be looked at."""
    graph = draw(graphs())
    rng = Random(draw(st.integers(0, 2**32)))
    durations_s = draw(st.sampled_from([(0.0,), (0.0, 0.0005, 0.02, 1.0)]))
    sizes_bytes = draw(st.sampled_from([(10,), (10, 10**6), (10**6,)]))
    return Case(
        graph=graph,
        plan=draw(plans(graph)),
        platform=draw(platforms()),
        durations_s={task: rng.choice(durations_s) for task in range(len(graph))},
        sizes_bytes={task: rng.choice(sizes_bytes) for task in range(len(graph))},
    )
