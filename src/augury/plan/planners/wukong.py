"""One configuration and no worker ids: every task is flexible, as in WUKONG.

Workers decide at run time: at a fan-out a worker goes on with one ready task and starts workers for the
others; at a fan-in the one whose completion makes the task ready goes on.
"""

from collections.abc import Sequence

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.outlook import Optimization, Outlook
from augury.plan.plan import Assignment, Plan, with_memory
from augury.plan.planners.checks import checked_optimizations, checked_resources


class WukongPlanner:
    """Flexible workers of one configuration.

    Args:
        resources: What every worker has; tasks of functions that need more memory get more.
        optimizations: What is applied to its plans.

    Example:
        >>> from augury import Resources, WukongPlanner, task
        >>> @task
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> plan = double(4).plan(planner=WukongPlanner(Resources(cpus=1, memory_mb=256)))
        >>> plan.assignments[0].worker is None
        True
    """

    name = "wukong"

    def __init__(self, resources: Resources | None = None, *, optimizations: Sequence[Optimization] = ()) -> None:
        self.resources = checked_resources("WukongPlanner", resources)
        self.optimizations = checked_optimizations("WukongPlanner", optimizations)
        self.settings = (self.resources, self.optimizations)

    def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
        """Assign every task to any worker of the configuration.

        Args:
            graph: The workflow.
            outlook: What is expected of its tasks: the memory that they need. Without one, what was declared counts.
        """
        by_function = [
            Assignment(resources=with_memory(self.resources, least_mb))
            for least_mb in _least_mb_by_function(graph, outlook)
        ]
        return Plan(
            fingerprint=graph.fingerprint,
            planner=self.name,
            assignments=tuple([by_function[function] for function in graph.function_of]),
        )


def _least_mb_by_function(graph: Graph, outlook: Outlook | None) -> list[int]:
    """For each function, what the most demanding of its tasks needs."""
    least_mb = [function.memory_mb or 0 for function in graph.functions]
    if outlook is not None:
        for function, task_mb in zip(graph.function_of, outlook.least_memory_mb, strict=True):
            least_mb[function] = max(least_mb[function], task_mb)
    return least_mb
