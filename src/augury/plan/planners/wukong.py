"""One configuration and no worker ids: every task is flexible, as in WUKONG.

Workers decide at run time: at a fan-out a worker goes on with one ready task and starts workers for the
others; at a fan-in the one whose completion makes the task ready goes on.
"""

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan, fit_memory


class WukongPlanner:
    """Flexible workers of one configuration.

    Args:
        resources: What every worker has; tasks that were declared to need more memory get more.

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

    def __init__(self, resources: Resources | None = None) -> None:
        if not isinstance(resources, Resources | None):
            raise PlanError(f"WukongPlanner: resources must be Resources(cpus=…, memory_mb=…), not {resources!r}")
        self.resources = Resources() if resources is None else resources

    def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
        """Assign every task to any worker of the configuration."""
        first_task = {function: task for task, function in reversed(list(enumerate(graph.function_of)))}
        by_function = {
            function: Assignment(resources=fit_memory(self.resources, graph, [task]))
            for function, task in first_task.items()
        }
        return Plan(
            fingerprint=graph.fingerprint,
            planner=self.name,
            assignments=tuple([by_function[function] for function in graph.function_of]),
        )
