"""Random workflows with plans, costs and platforms; the same for the same seed."""

from random import Random
from typing import NamedTuple

import msgspec

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.plan.hints import Hint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.predictions import FixedPredictions

SIZES_MB = (512, 1024, 2048)


class Case(NamedTuple):
    """A workflow, a plan for it, and what to expect."""

    graph: Graph
    plan: Plan
    run_s: dict[int, float]
    size: dict[int, int]
    platform: PlatformModel

    def duration_s(self, task: int, resources: Resources) -> float:
        """How long a task takes: longer on workers with little memory."""
        return self.run_s[task] * (1 + 1024 / resources.memory_mb)

    @property
    def outlook(self) -> Outlook:
        """What a planner would see."""
        return Outlook(self.graph, FixedPredictions(self.duration_s, self.size.__getitem__), self.platform)


def random_graph(rng: Random, most: int = 40) -> Graph:
    """Anything, layers, a tree, a chain or a fan."""
    count = rng.choice([1, 3, 8, 20, most])
    shape = rng.choice(["any", "layers", "tree", "chain", "fan"])
    width = rng.randint(1, 8)
    deps = [_deps(rng, shape, task, count, width) for task in range(count)]
    taken = {dep for inputs in deps for dep in inputs}
    sinks = tuple(task for task in range(count) if task not in taken or rng.random() < 0.1)
    return Graph((FunctionInfo("f", "v"),), (0,) * count, tuple(deps), sinks)


def _deps(rng: Random, shape: str, task: int, count: int, width: int) -> tuple[int, ...]:
    if shape == "chain":
        return (task - 1,) if task else ()
    if shape == "fan":
        return (0,) if task else ()
    if shape == "tree":
        first = 2 * (task - count // 2)
        return tuple(dep for dep in (first, first + 1) if 0 <= dep < task) if task > count // 2 else ()
    if shape == "layers":
        start, end = max(0, (task // width - 1) * width), task // width * width
        return tuple(sorted(rng.sample(range(start, end), rng.randint(1, min(4, end - start))))) if end > start else ()
    return tuple(sorted(rng.sample(range(task), min(task, rng.randint(0, 4)))))


def random_case(seed: int, *, flexible: float | None = None, slots: int | None = None, most: int = 40) -> Case:
    """A case by its number.

    Args:
        seed: The number.
        flexible: Which share of the tasks is flexible; by default it is drawn.
        slots: How many workers run at once; by default it is drawn.
        most: How many tasks there are at most.
    """
    rng = Random(seed)
    graph = random_graph(rng, most)
    workers = rng.choice([1, 2, 3, len(graph)])
    resources = [Resources(cpus=rng.choice([1, 2, 3]), memory_mb=rng.choice(SIZES_MB)) for _ in range(workers)]
    anywhere = Resources(cpus=rng.choice([1, 2]), memory_mb=1024)
    share = rng.choice([0, 0, 0.3, 0.7, 1.0]) if flexible is None else flexible
    chosen = [None if rng.random() < share else rng.randrange(workers) for _ in range(len(graph))]
    assignments = [
        Assignment(None, anywhere) if worker is None else Assignment(worker, resources[worker]) for worker in chosen
    ]
    plan = Plan(
        fingerprint=graph.fingerprint,
        planner="random",
        assignments=tuple(assignments),
        spread=rng.choice([0, 0, 1, 3]),
    )
    scale_s = rng.choice([0.01, 0.1, 1.0, 10.0])
    run_s = {t: rng.choice([0.0, rng.random(), rng.expovariate(1)]) * scale_s for t in range(len(graph))}
    size = {t: int(rng.choice([10, 1000, 20_000, 1e6, 1e7]) * rng.random()) for t in range(len(graph))}
    platform = _platform(rng, plan, rng.choice([2, 4, 1000, 1000]) if slots is None else slots)
    return Case(graph, plan, run_s, size, platform)


def _platform(rng: Random, plan: Plan, slots: int) -> PlatformModel:
    latency_s, bandwidth = rng.choice([0.0005, 0.002, 0.01]), rng.choice([1e7, 1e8, 1e9])
    cold_s = rng.choice([0.0, 0.05, 0.5])
    used = sorted({assignment.resources for assignment in plan.assignments})
    timings = {
        one: Timing(
            cold_start_s=cold_s * (1 + rng.random()),
            warm_start_s=cold_s / 20,
            latency_s=latency_s * (1 + rng.random()),
            bandwidth_bytes_s=bandwidth * (1 + rng.random()),
            upload_bytes_s=rng.choice([0.0, bandwidth * (0.5 + rng.random())]),
            crowd_s=rng.choice([0.0, 0.01]),
        )
        for one in used
    }
    return PlatformModel(
        timings=timings,
        configurations=used,
        concurrency=slots,
        keep_alive_s=rng.choice([0.1, 1e9]),
        warm={rng.choice(used): rng.choice([0, 2])},
    )


def with_random_hints(case: Case, seed: int, kinds: str) -> Case:
    """The case with hints, by their first letters: (w)arm, (l)oad, (d)up; and (r)anks."""
    rng = Random(seed)
    count = len(case.graph)
    hints = {}
    for task in range(count):
        given: list[Hint] = []
        if "w" in kinds and rng.random() < 0.3:
            resources = rng.choice(case.plan.assignments).resources
            given.append(PreWarmHint(resources, rng.randint(1, 3), rng.choice([0.0, rng.random()])))
        if "l" in kinds and rng.random() < 0.5:
            given.append(PreLoadHint())
        if "d" in kinds and rng.random() < 0.5:
            produce_s, arrives_s = rng.choice([0.0, 0.01, 0.1, 1.0]), rng.choice([0.0, 0.1, 1.0, 10.0])
            given.append(TaskDupHint(produce_s * rng.random(), arrives_s * rng.random()))
        if given:
            hints[task] = tuple(given)
    ranks = tuple(rng.sample(range(count), count)) if "r" in kinds else ()
    launch = (PreWarmHint(rng.choice(case.plan.assignments).resources, 2),) if "w" in kinds else ()
    return case._replace(plan=msgspec.structs.replace(case.plan, hints=hints, ranks=ranks, launch=launch))
