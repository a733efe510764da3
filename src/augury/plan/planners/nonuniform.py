"""Several configurations: strong workers where the run waits for them, weak ones where it does not.

First every task gets the strongest configuration, and workers by clustering (algorithm 1, in `uniform`). Then workers
off the critical path are made weaker as long as the run takes no longer (algorithm 2, in `downgrade`).

     0 ──▶ 1 ──▶ 2 ──▶ 5      worker 0, on the critical path: strong
     └───▶ 3 ──▶ 4 ────┘      worker 1 has time to spare: the weakest that brings 4 before 2 ends

What a worker must have is the memory that its tasks were declared or are expected to need. If no configuration has as
much, it gets the strongest with that much memory.
"""

from collections.abc import Sequence

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.outlook import Optimization, Outlook
from augury.plan.plan import Assignment, Plan, with_memory
from augury.plan.planners.checks import checked_clustering, checked_optimizations
from augury.plan.planners.downgrade import downgraded
from augury.plan.planners.uniform import cluster

_MAX_RAISED = 8
"""Into how many sizes workers are sorted that need more memory than any configuration has.

Run times are predicted for each size anew, and there may be as many needs as tasks.
"""


class NonUniformPlanner:
    """Workers of several configurations, each task on a worker that the plan names.

    Args:
        configurations: What workers may have; by default what the platform offers. If a task needs more memory than
            any of them has, its worker gets the strongest with that much.
        max_clustering: How many tasks of one fan-out share a worker at most.
        optimizations: What is applied to its plans.

    Example:
        >>> from augury import FixedPredictions, NonUniformPlanner, PlatformModel, Resources, task
        >>> @task
        ... def slow(x: int) -> int:
        ...     return x
        >>> @task
        ... def quick(x: int) -> int:
        ...     return x
        >>> @task
        ... def both(x: int, y: int) -> int:
        ...     return x + y
        >>> sizes = [Resources(cpus=1, memory_mb=mb) for mb in (512, 2048)]
        >>> by_hand = FixedPredictions({"slow": {512: 40.0, 2048: 10.0}, "quick": {512: 4.0, 2048: 1.0}})
        >>> planner = NonUniformPlanner(sizes, max_clustering=1)
        >>> plan = both(slow(1), quick(2)).plan(planner=planner, predictions=by_hand, platform=PlatformModel())
        >>> [assignment.resources.memory_mb for assignment in plan.assignments]
        [2048, 512, 2048]
    """

    name = "nonuniform"

    def __init__(
        self,
        configurations: Sequence[Resources] | None = None,
        max_clustering: int = 4,
        *,
        optimizations: Sequence[Optimization] = (),
    ) -> None:
        self.configurations = None if configurations is None else _checked(configurations)
        self.max_clustering = checked_clustering("NonUniformPlanner", max_clustering)
        self.optimizations = checked_optimizations("NonUniformPlanner", optimizations)
        self.settings = (self.configurations, self.max_clustering, self.optimizations)

    def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
        """Assign every task to a worker, and to every worker what it needs for the run to be as fast as it can be.

        Args:
            graph: The workflow.
            outlook: What is expected of its tasks. Without one, all take equally long whatever their workers have.
        """
        outlook = Outlook(graph) if outlook is None else outlook
        configurations = self.configurations or _checked(outlook.platform.configurations)
        runtimes_s = outlook.execution_s(configurations[-1])
        workers = cluster(graph, self.max_clustering, runtimes_s, outlook.output_bytes)
        needs_mb = _needs_mb(workers, outlook.least_memory_mb)
        strongest = _strongest(configurations, needs_mb)
        distinct = [Assignment(worker, resources) for worker, resources in enumerate(strongest)]
        strong = Plan(
            fingerprint=graph.fingerprint,
            planner=self.name,
            assignments=tuple([distinct[worker] for worker in workers]),
        )
        if len(configurations) == 1 or not workers:
            return strong
        return downgraded(strong, outlook, configurations, needs_mb)


def _checked(configurations: Sequence[Resources]) -> tuple[Resources, ...]:
    """The distinct configurations, weaker ones first."""
    given: object = configurations
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if not listed or not configurations or not all(isinstance(one, Resources) for one in configurations):
        raise PlanError(
            "NonUniformPlanner: configurations must be a list of Resources(cpus=…, memory_mb=…) with at least one, "
            f"not {configurations!r}"
        )
    return tuple(sorted(set(configurations)))


def _needs_mb(workers: Sequence[int], least_memory_mb: Sequence[int]) -> list[int]:
    """For each worker the memory that the most demanding of its tasks needs."""
    needs_mb = [0] * (max(workers, default=-1) + 1)
    for worker, least_mb in zip(workers, least_memory_mb, strict=True):
        needs_mb[worker] = max(needs_mb[worker], least_mb)
    return needs_mb


def _strongest(configurations: Sequence[Resources], needs_mb: Sequence[int]) -> list[Resources]:
    """For each worker the strongest configuration with the memory that it needs, or the strongest with more memory."""
    largest_mb = max(resources.memory_mb for resources in configurations)
    raised = sorted({need_mb for need_mb in needs_mb if need_mb > largest_mb})
    step = -(-len(raised) // _MAX_RAISED) or 1
    sizes_mb = raised[::-1][::step]
    by_need: dict[int, Resources] = {}
    for need_mb in set(needs_mb):
        fitting = [resources for resources in configurations if resources.memory_mb >= need_mb]
        enough_mb = min((size_mb for size_mb in sizes_mb if size_mb >= need_mb), default=need_mb)
        by_need[need_mb] = fitting[-1] if fitting else with_memory(configurations[-1], enough_mb)
    return [by_need[need_mb] for need_mb in needs_mb]
