"""How much later each task of a simulated run could end without making the run longer.

From the last task back to the first, each task may be late by as much as those that wait for it may be, and by the
time that its output lies around before they begin:

    a ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓┐                a decides: 0 s
    b ▓▓▓▓┐          ├▓▓▓ c           c is last: 0 s
          └▓▓▓ d ····┘                d has time until a ends, and b as much

Who waits for a task: its consumers, the task that takes its place on its worker, and, after the last task of a worker
that others queue for a slot for, the worker that gets the slot. Transfers and starts take as long as they took. One
pass over tasks and edges, and a sort.
"""

import heapq
import math
from collections.abc import Sequence

from augury.dag.graph import Graph
from augury.plan.timeline import Simulation


def slack_s(graph: Graph, run: Simulation, deadline_s: float, *, keep_slots: bool = False) -> list[float]:
    """For each task, how many seconds later it could end; negative if it is too late as it is.

    Args:
        graph: The workflow.
        run: A simulated run of it.
        deadline_s: When the run must end: at its makespan, if it must not become longer.
        keep_slots: Whether a slot that somebody waits for must be free no later than in this run. If it is, all that
            queue get other slots than they did, and little can be said of what becomes of them.
    """
    times = run.timeline
    start_s, executed_s, end_s, worker_of = times.start_s, times.executed_s, times.end_s, times.worker
    follower = _followers(run)
    heir = _heirs(run)
    spare_s = [math.inf] * len(graph)
    worker_spare_s = [math.inf] * len(run.workers)
    for task in sorted(range(len(graph)), key=lambda task: (executed_s[task], task), reverse=True):
        worker = worker_of[task]
        least_s = deadline_s - end_s[task] if task in graph.sink_set else math.inf
        for consumer in graph.dependents[task]:
            other = worker_of[consumer]
            known_s = executed_s[task] if other == worker else _begins_s(run, other, end_s[task])
            least_s = min(least_s, spare_s[consumer] + max(0.0, start_s[consumer] - known_s))
        after = follower.get(task)
        if after is not None:
            least_s = min(least_s, spare_s[after] + max(0.0, times.execute_s[after] - executed_s[task]))
        elif worker in heir:
            least_s = min(least_s, 0.0 if keep_slots else worker_spare_s[heir[worker]])
        spare_s[task] = least_s
        worker_spare_s[worker] = min(worker_spare_s[worker], spare_s[task])
    return spare_s


def _begins_s(run: Simulation, worker: int, told_s: float) -> float:
    """When a worker that is told of an input can begin: at once, or if it has yet to start, when it has."""
    times = run.workers[worker]
    return told_s if told_s > times.asked_s else told_s + times.start_s - times.granted_s


def _followers(run: Simulation) -> dict[int, int]:
    """For each task the one that takes its place on its worker, if there is one."""
    times = run.timeline
    by_worker: list[list[int]] = [[] for _ in run.workers]
    for task in sorted(range(len(times)), key=times.execute_s.__getitem__):
        by_worker[times.worker[task]].append(task)
    follower: dict[int, int] = {}
    for worker, tasks in zip(run.workers, by_worker, strict=True):
        running: list[tuple[float, int]] = []
        for task in tasks:
            if len(running) == worker.resources.task_slots:
                _, before = heapq.heappop(running)
                follower[before] = task
            heapq.heappush(running, (times.executed_s[task], task))
    return follower


def _heirs(run: Simulation) -> dict[int, int]:
    """For each worker the one that gets its slot, if that one waited for it."""
    waiting: dict[float, list[int]] = {}
    for index, worker in enumerate(run.workers):
        if worker.granted_s > worker.asked_s:
            waiting.setdefault(worker.granted_s, []).append(index)
    heir: dict[int, int] = {}
    for index, worker in enumerate(run.workers):
        heirs: Sequence[int] = waiting.get(worker.end_s, ())
        if heirs:
            heir[index] = waiting[worker.end_s].pop()
    return heir
