"""What no plan can beat: lower bounds of makespan and cost.

    makespan    the longest path, every task with the configuration it is fastest with, and nothing in between:
                no start-up, no transfer; and if workers are few, all work spread evenly over all their slots
    cost        every task with the configuration it is cheapest with, on a worker whose slots are all busy all of
                the time: no start-up, no transfer, no request, no waiting

They hold for every planner. How close one can come is another question: a bound that nothing reaches is still one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.outlook import Outlook

MB_PER_GB = 1024

Measure = Callable[[Resources, float], float]
"""Of a configuration, and how many seconds a task runs with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What no plan of a workflow beats."""

    makespan_s: float
    cost_usd: float


def bounds_of(outlook: Outlook) -> Bounds:
    """The bounds of a workflow on a platform."""
    return Bounds(makespan_s=makespan_bound_s(outlook), cost_usd=cost_bound_usd(outlook))


def makespan_bound_s(outlook: Outlook) -> float:
    """The least time that a workflow can take."""
    slots = outlook.platform.concurrency
    fastest_s = least_per_task(outlook, lambda _, seconds: seconds)
    least_work_s = least_per_task(outlook, lambda resources, seconds: seconds / resources.task_slots)
    return max(longest_path_s(outlook.graph, fastest_s), sum(least_work_s) / slots)


def cost_bound_usd(outlook: Outlook) -> float:
    """The least that a workflow can cost."""
    price = outlook.platform.price.usd_per_gb_s

    def usd(resources: Resources, seconds: float) -> float:
        return price * resources.memory_mb / MB_PER_GB * seconds / resources.task_slots

    return sum(least_per_task(outlook, usd))


def least_per_task(outlook: Outlook, measure: Measure) -> list[float]:
    """For each task the least of a measure, over all configurations that have enough memory for it."""
    least_mb = outlook.least_memory_mb
    least = [float("inf")] * len(outlook.graph)
    for resources in outlook.platform.configurations:
        for task, seconds in enumerate(outlook.execution_s(resources)):
            if least_mb[task] <= resources.memory_mb:
                least[task] = min(least[task], measure(resources, seconds))
    return least


def longest_path_s(graph: Graph, seconds: Sequence[float]) -> float:
    """The longest path through a graph whose tasks take so long."""
    end_s = [0.0] * len(graph)
    for task, deps in enumerate(graph.deps):
        end_s[task] = max((end_s[dep] for dep in deps), default=0.0) + seconds[task]
    return max(end_s, default=0.0)
