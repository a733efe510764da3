"""How much later tasks could end without making the run longer.

A task holds up those that take its output, and the one that takes its place on the worker:

    load ──▶ resize ──────────▶ total          slack(load) = least of   gap to resize + slack(resize)
      └─(same worker)─▶ load'                                           gap to load'  + slack(load')

The gaps are those of the simulated run, so this is an estimate: a delay may also change who runs what. Where a worker
runs several tasks at once, the next one to start there counts as held up, though another may make room for it: the true
slack may be more. Linear in tasks and edges, but for sorting tasks by time.
"""

import math
from collections.abc import Sequence

from augury.dag.graph import Graph
from augury.plan.timeline import Simulation


def slack_s(graph: Graph, predicted: Simulation) -> Sequence[float]:
    """For each task, how many seconds later it could end; 0 on the critical path."""
    timeline, critical = predicted.timeline, frozenset(predicted.critical_path)
    successor = _successors(predicted)
    slack = [0.0] * len(graph)
    # Whoever is held up executes later, so going back in time finds every successor done.
    for task in sorted(range(len(graph)), key=lambda task: (timeline.execute_s[task], task), reverse=True):
        if task in critical or not math.isfinite(timeline.executed_s[task]):
            continue
        gaps = [predicted.makespan_s - timeline.end_s[task]] if task in graph.sink_set else []
        for dependent in graph.dependents[task]:
            here = timeline.worker[dependent] == timeline.worker[task]
            told_s = timeline.executed_s[task] if here else timeline.end_s[task]
            gaps.append(timeline.ready_s[dependent] - told_s + slack[dependent])
        follower = successor.get(task)
        if follower is not None:
            gaps.append(timeline.start_s[follower] - timeline.executed_s[task] + slack[follower])
        slack[task] = max(0.0, min(gaps, default=0.0))
    return slack


def _successors(predicted: Simulation) -> dict[int, int]:
    """For each task the next one to start on its worker once it has ended."""
    timeline = predicted.timeline
    by_worker: dict[int, list[int]] = {}
    for task in sorted(range(len(timeline)), key=timeline.start_s.__getitem__):
        by_worker.setdefault(timeline.worker[task], []).append(task)
    found: dict[int, int] = {}
    for tasks in by_worker.values():
        turn = {task: index for index, task in enumerate(tasks)}
        place = 0
        for task in sorted(tasks, key=timeline.executed_s.__getitem__):
            while place < len(tasks) and timeline.start_s[tasks[place]] < timeline.executed_s[task]:
                place += 1
            following = max(place, turn[task] + 1)  # of tasks that take no time, each has its turn
            if following < len(tasks):
                found[task] = tasks[following]
    return found
