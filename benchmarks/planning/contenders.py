"""Everything that makes a plan here: the planners of Augury, each in several variants, and the classic schedulers.

A family is compared by its best variant. Who uses `WukongPlanner` or `UniformPlanner` chooses a configuration; here
all of them are tried. HEFT and CPoP take a number of workers, all alike, and know nothing of start-ups.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from heft import alike, cpop, heft

from augury.config import Resources
from augury.plan.outlook import Outlook, Planner
from augury.plan.plan import Plan
from augury.plan.planners.auto import AutoPlanner
from augury.plan.planners.nonuniform import NonUniformPlanner
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner

CLASSIC = {"heft": heft, "cpop": cpop}
WORKERS = (4, 8, 16, 64)
"""How many workers classic schedulers get; and as many as there are tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One plan to compare.

    Attributes:
        family: The name of what made it.
        variant: What it was told.
        plan: The plan.
        planning_s: How long it took to make.
        classic_s: For a classic scheduler, how long it thinks the run takes.
    """

    family: str
    variant: str
    plan: Plan
    planning_s: float
    classic_s: float | None = None

    @property
    def name(self) -> str:
        """Family and variant."""
        return f"{self.family} {self.variant}".strip()


def planners(outlook: Outlook) -> Iterator[tuple[str, str, Planner]]:
    """The planners of Augury, by family and variant."""
    for resources in outlook.platform.configurations:
        yield "wukong", _mb(resources), WukongPlanner(resources)
        yield "uniform", _mb(resources), UniformPlanner(resources)
    yield "nonuniform", "", NonUniformPlanner()
    yield "auto", "", AutoPlanner()
    yield "auto-cost", "", AutoPlanner("cost")


def planned(outlook: Outlook) -> Iterator[Candidate]:
    """What the planners of Augury make of a workflow."""
    for family, variant, planner in planners(outlook):
        start = time.perf_counter()
        plan = planner.plan(outlook.graph, outlook)
        yield Candidate(family=family, variant=variant, plan=plan, planning_s=time.perf_counter() - start)


def scheduled(outlook: Outlook) -> Iterator[Candidate]:
    """What classic schedulers make of a workflow: on one vCPU, and on the strongest configuration."""
    graph, configurations = outlook.graph, outlook.platform.configurations
    most = min(len(graph), outlook.platform.concurrency)
    counts = sorted({min(count, most) for count in (*WORKERS, most)})
    for family, schedule_with in CLASSIC.items():
        for resources in {configurations[len(configurations) // 2]: None, configurations[-1]: None}:
            for workers in counts:
                start = time.perf_counter()
                problem = alike(
                    graph,
                    outlook.execution_s(resources),
                    output_s(outlook, resources),
                    workers=workers,
                    slots=resources.task_slots,
                )
                schedule = schedule_with(problem)
                plan = schedule.plan(problem, resources, family)
                yield Candidate(
                    family=family,
                    variant=f"{workers} x {_mb(resources)}",
                    plan=plan,
                    planning_s=time.perf_counter() - start,
                    classic_s=schedule.makespan_s,
                )


def output_s(outlook: Outlook, resources: Resources) -> list[float]:
    """For each task, how long its output takes to another worker.

    Large ones are stored, reported and fetched; small ones ride in the report.
    """
    timing, inline_bytes = outlook.platform.timing_of(resources), outlook.platform.inline_bytes
    return [
        timing.latency_s + (2 * (timing.latency_s + size / timing.bandwidth_bytes_s) if size > inline_bytes else 0.0)
        for size in outlook.output_bytes
    ]


def _mb(resources: Resources) -> str:
    return f"{resources.memory_mb} MB"
