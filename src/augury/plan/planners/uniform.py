"""One configuration; worker ids by clustering (algorithm 1 of the Serverless Dataflows paper).

    roots            ──▶ groups of at most `max_clustering` tasks, a new worker each
    1 → 1            ──▶ on the worker of its only input
    1 → N            ──▶ the short ones with the largest outputs stay on the worker of their input, the others in groups
    N → 1            ──▶ on the worker that holds most of its input

A task is *long* if it takes more than the median of its group; a group on a new worker has at most one long
task as long as there are short ones to go with it. Long tasks that are left over are grouped by half as many.

             u                               worker 0, `max_clustering` = 2
     ┌───┬───┼───┬───┐
     a   b   c   d   e                       seconds 1 1 1 9 9, bytes 30 10 20 0 0
     0   1   0   1   2                       workers: a and c stay, b goes with d, e is alone

So few workers are started, long tasks do not queue behind each other, and large outputs stay where they are made.
Without predictions every task takes the same time and gives as much output as every other, so all are short.
Linear in tasks and edges, but for sorting the short tasks of each group.
"""

from collections import deque
from collections.abc import Sequence
from statistics import median

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.outlook import Optimization, Outlook
from augury.plan.plan import Assignment, Plan, fit_memory, with_memory
from augury.plan.planners.checks import checked_clustering, checked_optimizations, checked_resources


class UniformPlanner:
    """Workers of one configuration, each task on a worker that the plan names.

    Args:
        resources: What every worker has; if a task needs more memory, all get that much.
        max_clustering: How many tasks of one fan-out share a worker at most.
        optimizations: What is applied to its plans.

    Example:
        >>> from augury import UniformPlanner, task
        >>> @task
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> plan = double(double(4)).plan(planner=UniformPlanner())
        >>> [assignment.worker for assignment in plan.assignments]
        [0, 0]
    """

    name = "uniform"

    def __init__(
        self,
        resources: Resources | None = None,
        max_clustering: int = 4,
        *,
        optimizations: Sequence[Optimization] = (),
    ) -> None:
        self.resources = checked_resources("UniformPlanner", resources)
        self.max_clustering = checked_clustering("UniformPlanner", max_clustering)
        self.optimizations = checked_optimizations("UniformPlanner", optimizations)
        self.settings = (self.resources, self.max_clustering, self.optimizations)

    def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
        """Assign every task to a worker.

        Args:
            graph: The workflow.
            outlook: What is expected of its tasks. Without one, only the shape of the graph counts.
        """
        if outlook is None:
            resources = fit_memory(self.resources, graph, range(len(graph)))
            workers = cluster(graph, self.max_clustering)
        else:
            resources = with_memory(self.resources, max(outlook.least_memory_mb, default=0))
            runtimes_s = outlook.execution_s(resources)
            workers = cluster(graph, self.max_clustering, runtimes_s, outlook.output_bytes)
        distinct = [Assignment(worker=worker, resources=resources) for worker in range(max(workers, default=-1) + 1)]
        return Plan(
            fingerprint=graph.fingerprint,
            planner=self.name,
            assignments=tuple([distinct[worker] for worker in workers]),
        )


def cluster(
    graph: Graph,
    max_clustering: int,
    runtimes_s: Sequence[float] | None = None,
    outputs_bytes: Sequence[float] | None = None,
) -> list[int]:
    """The worker of each task; workers are numbered from 0 without gaps.

    Args:
        graph: The workflow.
        max_clustering: How many tasks of one group share a worker at most.
        runtimes_s: For each task how long it is expected to take; all the same if not given.
        outputs_bytes: For each task how much output is expected; all the same if not given.
    """
    clustering = _Clustering(graph, max_clustering, runtimes_s, outputs_bytes)
    for task in range(len(graph)):
        if clustering.worker_of[task] is None:
            clustering.assign(task)
    return [worker for worker in clustering.worker_of if worker is not None]


class _Clustering:
    """One run of the algorithm; tasks are visited in topological order."""

    def __init__(
        self,
        graph: Graph,
        max_clustering: int,
        runtimes_s: Sequence[float] | None,
        outputs_bytes: Sequence[float] | None,
    ) -> None:
        self.worker_of: list[int | None] = [None] * len(graph)
        self._graph = graph
        self._most = max_clustering
        self._runtimes_s = runtimes_s
        self._outputs_bytes = outputs_bytes
        self._workers = 0

    def assign(self, task: int) -> None:
        """Give a task a worker, and with it every task of its group."""
        deps = self._graph.deps[task]
        if not deps:
            self._assign_group(None, self._unassigned(self._graph.roots))
        elif len(deps) > 1:
            self.worker_of[task] = self._richest_worker(deps)
        elif len(self._graph.dependents[deps[0]]) == 1:
            self.worker_of[task] = self.worker_of[deps[0]]
        else:
            self._assign_group(self.worker_of[deps[0]], self._unassigned(self._graph.dependents[deps[0]]))

    def _unassigned(self, tasks: Sequence[int]) -> list[int]:
        return [task for task in tasks if self.worker_of[task] is None]

    def _richest_worker(self, deps: Sequence[int]) -> int | None:
        """The worker that holds most of the input; of equals the one with more outputs, then the first."""
        held: dict[int | None, tuple[float, int]] = {}
        for dep in deps:
            worker = self.worker_of[dep]
            size_bytes, count = held.get(worker, (0.0, 0))
            own_bytes = 0.0 if self._outputs_bytes is None else self._outputs_bytes[dep]
            held[worker] = (size_bytes + own_bytes, count + 1)
        return max(held, key=held.__getitem__)

    def _assign_group(self, upstream: int | None, tasks: Sequence[int]) -> None:
        longs, shorts = self._by_length(tasks)
        if upstream is not None:
            self._put(_take(shorts, self._most), upstream)
        while longs and shorts:
            self._put_on_new_worker([longs.popleft(), *_take(shorts, self._most - 1)])
        while shorts:
            self._put_on_new_worker(_take(shorts, self._most))
        while longs:
            self._put_on_new_worker(_take(longs, max(1, self._most // 2)))

    def _by_length(self, tasks: Sequence[int]) -> tuple[deque[int], deque[int]]:
        """The long tasks of a group, and the short ones with larger outputs first."""
        runtimes_s, outputs_bytes = self._runtimes_s, self._outputs_bytes
        longs: Sequence[int] = ()
        shorts: Sequence[int] = tasks
        if runtimes_s is not None:
            middle_s = median(runtimes_s[task] for task in tasks)
            longs = [task for task in tasks if runtimes_s[task] > middle_s]
            shorts = [task for task in tasks if runtimes_s[task] <= middle_s]
        if outputs_bytes is not None:
            shorts = sorted(shorts, key=lambda task: -outputs_bytes[task])
        return deque(longs), deque(shorts)

    def _put(self, tasks: Sequence[int], worker: int) -> None:
        for task in tasks:
            self.worker_of[task] = worker

    def _put_on_new_worker(self, tasks: Sequence[int]) -> None:
        self._put(tasks, self._workers)
        self._workers += 1


def _take(tasks: deque[int], count: int) -> list[int]:
    return [tasks.popleft() for _ in range(min(count, len(tasks)))]
