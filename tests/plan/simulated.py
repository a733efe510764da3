"""Random plans that are both simulated and carried out in virtual time."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Literal

from msgspec import structs

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.plan.hints import Hint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.model import PlatformModel, Price, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.predictions import FixedPredictions
from augury.plan.timeline import Simulation
from augury.testing import VirtualPlatform, VirtualRun

Kind = Literal["pre-warm", "pre-load", "task-dup", "ranks"]
KINDS: tuple[Kind, ...] = ("pre-warm", "pre-load", "task-dup", "ranks")

Shape = Callable[[Random, int], list[list[int]]]


def _any(rng: Random, count: int) -> list[list[int]]:
    return [rng.sample(range(task), min(task, rng.randint(0, 4))) for task in range(count)]


def _layers(rng: Random, count: int) -> list[list[int]]:
    width = rng.randint(1, 8)
    deps: list[list[int]] = []
    for task in range(count):
        before = range(max(0, (task // width - 1) * width), task // width * width)
        deps.append(rng.sample(before, rng.randint(1, min(4, len(before)))) if before else [])
    return deps


def _tree(_: Random, count: int) -> list[list[int]]:
    leaves = count // 2 + 1
    return [[] if task < leaves else [2 * (task - leaves), 2 * (task - leaves) + 1] for task in range(count)]


def _chain(_: Random, count: int) -> list[list[int]]:
    return [[task - 1] if task else [] for task in range(count)]


def _fan_out(_: Random, count: int) -> list[list[int]]:
    return [[0] if task else [] for task in range(count)]


def _fan_in(_: Random, count: int) -> list[list[int]]:
    return [[] if task < count - 1 else list(range(count - 1)) for task in range(count)]


SHAPES: tuple[Shape, ...] = (_any, _any, _layers, _layers, _tree, _chain, _fan_out, _fan_in)


@dataclass(frozen=True)
class Case:
    """A workflow, a plan and a platform; what is predicted, and what happens."""

    graph: Graph
    plan: Plan
    platform: PlatformModel
    seconds: Mapping[int, float]
    sizes_bytes: Mapping[int, int]

    def run_s(self, task: int, resources: Resources) -> float:
        """How long a task runs: less long with more memory."""
        return self.seconds[task] * (1 + 1024 / resources.memory_mb)

    @cached_property
    def outlook(self) -> Outlook:
        return Outlook(self.graph, FixedPredictions(self.run_s, self.sizes_bytes), self.platform)

    @cached_property
    def simulated(self) -> Simulation:
        return self.outlook.simulate(self.plan)

    @cached_property
    def happened(self) -> VirtualRun:
        platform = VirtualPlatform.of(self.platform)
        return platform.run(
            self.graph, self.plan, lambda _, __: 0, duration_s=self.run_s, size_bytes=self.sizes_bytes
        )

    @cached_property
    def happened_gb_s(self) -> float:
        """What the run in virtual time is billed for, by the same rules as a simulated one."""
        price = self.platform.price
        run = self.happened
        spans = [
            (one.end_s - (one.granted_s if one.cold and price.start_billed else one.start_s), one.resources)
            for one in run.invocations
        ]
        if price.start_billed:
            spans += [(one.end_s - one.start_s, one.resources) for one in run.prewarms]
        return math.fsum(_billed_s(span_s, price) * resources.memory_mb / 1024 for span_s, resources in spans)

    @property
    def makespan_error(self) -> float:
        """How far the predicted makespan is off, as a part of what it is."""
        return abs(self.simulated.makespan_s / self.happened.makespan_s - 1)

    @property
    def gb_s_error(self) -> float:
        """The same of the GB-seconds."""
        return abs(self.simulated.gb_seconds / self.happened_gb_s - 1)


def _billed_s(span_s: float, price: Price) -> float:
    return math.ceil(span_s / price.step_s - 1e-6) * price.step_s if price.step_s else span_s


def random_case(seed: int, *, flexible: float | None = None, slots: int | None = None) -> Case:
    """A random workflow with a random plan on a random platform; the same for the same seed.

    Latencies and durations are above zero. Without that several things happen at one instant, and their order, which
    then decides who goes on with what, is arbitrary: both orders are right.

    Args:
        seed: Which.
        flexible: The share of tasks without a worker; drawn if it is not given.
        slots: How many workers run at once; drawn if it is not given.
    """
    rng = Random(seed)
    count = rng.choice([1, 3, 8, 20, 40])
    graph = _graph(rng, rng.choice(SHAPES)(rng, count))
    share = rng.choice([0, 0, 0.3, 0.7, 1.0]) if flexible is None else flexible
    plan = _plan(rng, graph, share)
    scale_s = rng.choice([0.01, 0.1, 1.0, 10.0])
    seconds = {task: rng.choice([rng.random() * 0.01, rng.random(), rng.expovariate(1)]) * scale_s + 1e-6 for task in range(count)}
    sizes_bytes = {task: int(rng.choice([10, 1000, 20_000, 1e6, 1e7]) * rng.random()) for task in range(count)}
    platform = _platform(rng, plan, rng.choice([2, 4, 1000, 1000]) if slots is None else slots)
    return Case(graph, plan, platform, seconds, sizes_bytes)


def _graph(rng: Random, deps: list[list[int]]) -> Graph:
    taken = {dep for needed in deps for dep in needed}
    sinks = [task for task in range(len(deps)) if task not in taken or rng.random() < 0.1]
    ordered = tuple(tuple(sorted(needed)) for needed in deps)
    return Graph((FunctionInfo("f", "version"),), (0,) * len(deps), ordered, tuple(sinks))


def _plan(rng: Random, graph: Graph, flexible: float) -> Plan:
    workers = rng.choice([1, 2, 3, len(graph)])
    resources = [Resources(rng.choice([1, 2, 3]), rng.choice([512, 1024, 2048])) for _ in range(workers)]
    anywhere = Assignment(None, Resources(rng.choice([1, 2]), 1024))
    named = [Assignment(worker, one) for worker, one in enumerate(resources)]
    places = [anywhere if rng.random() < flexible else rng.choice(named) for _ in range(len(graph))]
    return Plan(fingerprint=graph.fingerprint, planner="random", assignments=tuple(places))


def _platform(rng: Random, plan: Plan, slots: int) -> PlatformModel:
    cold_s = rng.choice([0.0, 0.05, 0.5])
    timing = Timing(
        cold_start_s=cold_s,
        warm_start_s=cold_s / 20,
        latency_s=rng.choice([0.0005, 0.002, 0.01]),
        bandwidth_bytes_s=rng.choice([1e7, 1e8, 1e9]),
    )
    used = sorted({assignment.resources for assignment in plan.assignments})
    timings = {
        resources: _slower(timing, rng, crowd_s=rng.choice([0.0, 0.0, 0.01])) for resources in used if rng.random() < 0.7
    }
    return PlatformModel(
        timing=timing,
        timings=timings,
        configurations=used,
        concurrency=slots,
        keep_alive_s=rng.choice([0.1, 600.0]),
        warm={rng.choice(used): rng.choice([0, 2])},
        price=Price(step_s=rng.choice([0.0, 0.001]), start_billed=rng.random() < 0.7),
    )


def _slower(timing: Timing, rng: Random, *, crowd_s: float) -> Timing:
    """The timing of a configuration: up to twice as slow in each respect."""
    return Timing(
        cold_start_s=timing.cold_start_s * (1 + rng.random()),
        warm_start_s=timing.warm_start_s * (1 + rng.random()),
        latency_s=timing.latency_s * (1 + rng.random()),
        bandwidth_bytes_s=timing.bandwidth_bytes_s * (1 + rng.random()),
        crowd_s=crowd_s,
    )


def hinted_case(seed: int, kinds: Collection[Kind], *, flexible: float | None = None, slots: int | None = None) -> Case:
    """A random case whose plan has some kinds of hints."""
    case = random_case(seed, flexible=flexible, slots=slots)
    rng = Random(~seed)
    everything = sorted({assignment.resources for assignment in case.plan.assignments})
    hints = {task: hint for task in range(len(case.graph)) if (hint := _hints(rng, kinds, everything))}
    launch = ()
    if "pre-warm" in kinds and rng.random() < 0.5:
        launch = (PreWarmHint(rng.choice(everything), rng.randint(1, 3), rng.choice([0.0, rng.random()])),)
    ranks = tuple(rng.sample(range(len(case.graph)), len(case.graph))) if "ranks" in kinds else ()
    plan = structs.replace(case.plan, hints=hints, launch=launch, ranks=ranks)
    return Case(case.graph, plan, case.platform, case.seconds, case.sizes_bytes)


def _hints(rng: Random, kinds: Collection[Kind], resources: list[Resources]) -> tuple[Hint, ...]:
    hints: list[Hint] = []
    if "pre-warm" in kinds and rng.random() < 0.3:
        hints.append(PreWarmHint(rng.choice(resources), rng.randint(1, 3), rng.choice([0.0, rng.random()])))
    if "pre-load" in kinds and rng.random() < 0.5:
        hints.append(PreLoadHint())
    if "task-dup" in kinds and rng.random() < 0.5:
        produce_s, arrives_s = rng.choice([0.0, 0.01, 0.1, 1.0]), rng.choice([0.0, 0.1, 1.0, 10.0])
        hints.append(TaskDupHint(produce_s * rng.random(), arrives_s * rng.random()))
    return tuple(hints)
