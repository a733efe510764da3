"""One seed, one case: a graph, a plan, a platform and an adversary; and what must be true of the run.

    python -m tests.simulation.soak --first 4711 --seeds 1

plays a case again, exactly as it was.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from zlib import crc32

from msgspec import structs

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import WorkerLost
from augury.plan.hints import Hint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.plan import Assignment, Plan
from augury.storage.protocols import Care
from augury.testing import Adversary, Mishap, VirtualPlatform, VirtualRun
from augury.worker.heart import BEATS
from tests.worker.shapes import graph_of

LARGER = (Resources(3, 1024), Resources(3, 2048))
RESTARTS = 3
RETRIES = 1
INLINE_BYTES = 1000
EPSILON_S = 1e-6
HARMLESS = {Mishap.REPEAT, Mishap.DROP, Mishap.DUPLICATE, Mishap.LATE, Mishap.ABSENT}
"""What costs time and nothing else: no task is executed twice for it."""


class Flaw(Exception):
    """What tasks raise here."""


@dataclass(frozen=True)
class Case:
    """What one seed stands for.

    Attributes:
        failures: Task → how many of its first tries fail. Each invocation tries it twice.
    """

    seed: int
    graph: Graph
    plan: Plan
    platform: VirtualPlatform
    durations_s: Mapping[int, float]
    sizes_bytes: Mapping[int, int]
    failures: Mapping[int, int]

    @property
    def has_second_workers(self) -> bool:
        """Whether tasks are run twice on purpose."""
        adversary = self.platform.adversary
        duplicable = any(isinstance(hint, TaskDupHint) for some in self.plan.hints.values() for hint in some)
        return duplicable or adversary is None or adversary.late_s < float("inf")

    @property
    def may_run_twice(self) -> bool:
        """Whether tasks are run twice on purpose, or begun anew at the platform's limit."""
        adversary = self.platform.adversary
        return self.has_second_workers or adversary is None or adversary.limit_s < float("inf")


@dataclass
class Tally:
    """What many cases came to.

    Attributes:
        seeds: How many cases there were.
        faults: What went wrong in them, by kind.
        tasks: How many tasks they had; `executions`: how often tasks were executed.
        failed: How many failed, as they may if workers are struck too often or tasks fail for good.
    """

    seeds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    tasks: int = 0
    executions: int = 0
    failed: int = 0


def case_of(seed: int) -> Case:
    """Draw a case."""
    rng = Random(seed)
    graph = _graph(rng)
    adversary = _adversary(rng)
    durations_s = rng.choice([(0.0,), (0.0, 0.0005, 0.02, 1.0), (0.3, 5.0)])
    sizes_bytes = rng.choice([(10,), (10, 10**6), (10**6,)])
    tasks = range(len(graph))
    failures = rng.choice([(0,), (0,), (0,), (0, 0, 1), (0,) * 20 + (2,)])
    plan, platform = _plan(rng, graph), _platform(rng)
    return Case(
        seed=seed,
        graph=graph,
        plan=plan,
        platform=replace(platform, adversary=adversary, upload_bytes_s=[0.0, 0.0, 0.0, 3e7][seed % 4]),
        durations_s={task: rng.choice(durations_s) for task in tasks},
        sizes_bytes={task: rng.choice(sizes_bytes) for task in tasks},
        failures={task: rng.choice(failures) for task in tasks},
    )


def _graph(rng: Random) -> Graph:
    size = rng.randint(1, 14)
    reach = rng.choice([2, 5, size])
    deps = []
    for task in range(size):
        near = range(max(0, task - reach), task)
        count = rng.choice([0, 1, 1, 1, 2, 3, len(near)])
        deps.append(sorted(rng.sample(near, min(count, len(near)))))
    taken = {dep for needed in deps for dep in needed}
    sinks = [task for task in range(size) if task not in taken or rng.random() < 0.1]
    return graph_of(deps, sinks=sinks, retries=RETRIES, backoff_s=rng.choice([0.0, 0.05]))


def _plan(rng: Random, graph: Graph) -> Plan:
    workers = rng.choice([1, 2, 3, len(graph)])
    resources = [_resources(rng) for _ in range(workers + 1)]
    flexible_of_ten = rng.choice([0, 0, 3, 5, 7, 10])

    def assignment() -> Assignment:
        if rng.randint(1, 10) <= flexible_of_ten:
            return Assignment(worker=None, resources=resources[workers])
        worker = rng.randrange(workers)
        return Assignment(worker=worker, resources=resources[worker])

    plan = Plan(
        fingerprint=graph.fingerprint, planner="random", assignments=tuple(assignment() for _ in range(len(graph)))
    )
    return _hinted(rng, graph, plan) if rng.random() < 0.5 else plan


def _resources(rng: Random) -> Resources:
    return Resources(cpus=rng.choice([1, 1, 2, 3]), memory_mb=rng.choice([128, 512]))


def _hinted(rng: Random, graph: Graph, plan: Plan) -> Plan:
    resources = sorted({assignment.resources for assignment in plan.assignments})

    def hint(kind: type[Hint]) -> Hint:
        if kind is PreWarmHint:
            return PreWarmHint(rng.choice(resources), rng.choice([1, 1, 3]), rng.choice([0.0, 0.0004, 0.3]))
        if kind is TaskDupHint:
            return TaskDupHint(produce_s=rng.choice((0.0, 0.0003, 0.1)), arrives_s=rng.choice((0.0, 0.2, 10.0)))
        return PreLoadHint()

    kinds: list[type[Hint]] = [kind for kind in (PreWarmHint, PreLoadHint, TaskDupHint) if rng.random() < 0.5]
    of_ten = rng.choice([2, 5, 10])
    hints = {task: tuple(hint(kind) for kind in kinds if rng.randint(1, 10) <= of_ten) for task in range(len(graph))}
    return structs.replace(
        plan,
        hints={task: some for task, some in hints.items() if some},
        ranks=tuple(rng.randint(0, len(graph)) for _ in range(len(graph))) if rng.random() < 0.3 else (),
    )


def _platform(rng: Random) -> VirtualPlatform:
    return VirtualPlatform(
        slots=rng.choice([1, 2, 3, 7]),
        cold_start_s=rng.choice([0.0, 0.1, 1.0]),
        latency_s=rng.choice([0.0, 0.001, 0.01, 0.1]),
        bandwidth_bytes_s=rng.choice([float("inf"), 1e8]),
        inline_bytes=rng.choice([0, INLINE_BYTES]),
        flush_s=rng.choice([0.001, 0.1]),
        seed=rng.randrange(2**32),
        interruptible=rng.random() < 0.5,
        check_invariants=True,
    )


def _adversary(rng: Random) -> Adversary:
    kinds = list(Mishap)
    chosen = kinds if rng.random() < 0.5 else rng.sample(kinds, rng.randint(1, 4))
    cruel = rng.random() < 0.1
    return Adversary(
        seed=rng.randrange(2**32),
        rate=rng.choice([0.02, 0.1, 0.3]),
        most=rng.choice([1, 3, 6, 12, 24]),
        most_losses=RESTARTS + 3 if cruel else RESTARTS,
        kinds=frozenset(chosen),
        late_s=rng.choice([float("inf"), float("inf"), 0.01, 0.4]),
        limit_s=rng.choice([float("inf"), float("inf"), 12.0]),
        care=Care(lease_s=rng.choice([0.5, 3.0]), restarts=RESTARTS, larger=LARGER),
    )


def evaluate(task: int, inputs: Mapping[int, Any]) -> tuple[int, int]:
    """A value that depends on the task and on every input of it, and a mark, which does not."""
    return crc32(repr((task, sorted((dep, value[0]) for dep, value in inputs.items()))).encode()), 0


def expected_values(graph: Graph) -> dict[int, Any]:
    """What the sinks must come to: one task after the other."""
    values: dict[int, Any] = {}
    for task, deps in enumerate(graph.deps):
        values[task] = evaluate(task, {dep: values[dep] for dep in deps})
    return {sink: values[sink][0] for sink in graph.sinks}


def play(case: Case) -> VirtualRun | None:
    """Let a case take place.

    Returns:
        The run; None if it failed, and may.
    """
    tries: Counter[int] = Counter()

    def fail_at_first(task: int, inputs: Mapping[int, Any]) -> tuple[int, int]:
        """No two executions give the same: what is read twice must come from one of them."""
        tries[task] += 1
        if tries[task] <= case.failures[task]:
            raise Flaw(task)
        return evaluate(task, inputs)[0], tries[task]

    try:
        return case.platform.run(
            case.graph, case.plan, fail_at_first, duration_s=case.durations_s, size_bytes=case.sizes_bytes
        )
    except WorkerLost:
        return None  # it is checked that this worker was struck so often
    except Flaw as flaw:
        if case.failures[flaw.args[0]] <= RETRIES:
            raise
        return None


def check(case: Case, run: VirtualRun) -> None:
    """What must be true of every run, whatever happened to it."""
    assert {task: value for task, (value, _) in run.values.items()} == expected_values(case.graph)
    adversary = case.platform.adversary
    assert adversary is not None
    if HARMLESS.issuperset(run.faults) and not case.has_second_workers:
        assert max(case.failures.values()) <= RETRIES  # whoever goes on with a task counts on
    if HARMLESS.issuperset(run.faults) and not case.may_run_twice:
        assert run.executions == {task: 1 + case.failures[task] for task in range(len(case.graph))}
        assert run.ran == len(case.graph)
    if not {Mishap.FREEZE, Mishap.DELAY} & set(run.faults):
        heard_s = run.makespan_s + adversary.care.lease_s / BEATS + 3 * case.platform.latency_s + EPSILON_S
        late = [span for span in run.timeline if span.start_s > heard_s]
        assert not late


def examine(seed: int, tally: Tally) -> None:
    """Play a case, and look at what came of it."""
    case = case_of(seed)
    run = play(case)
    tally.seeds += 1
    if run is None:
        tally.failed += 1
        return
    tally.tasks += len(case.graph)
    check(case, run)
    tally.faults.update(run.faults)
    tally.executions += sum(run.executions.values())
