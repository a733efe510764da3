"""Tasks that look alike change places, so that those next to each other run on different workers.

Tasks of one function with the same inputs and consumers, of which the same is expected, are interchangeable: whichever
runs where, the plan comes to the same, and no data has another way to go. In fact they differ, in what they are told to
do, and it is often those next to each other that are alike: the first half of a list takes long, or each task longer
than the one before.

    tasks              ▓▓ ▓▓ ▓▓ ▓▓  ░  ░  ░  ░          ▓ takes longer than expected, ░ less
    filled one by one   0  0  0  0  1  1  1  1          worker 0 has all that is long
    dealt out           0  1  1  0  0  1  1  0          to and fro, as two who choose teams

The places of such tasks are put in order, by which part of its worker's places comes before each, to and fro; and the
tasks take them in order of their ids. Linear in tasks and edges, and done where there is more than one worker only.
"""

import math
from collections.abc import Sequence

import msgspec

from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan


class Dealing:
    """Deals out the tasks of one workflow.

    Args:
        outlook: What is expected of them.
    """

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook
        self._alike: list[list[int]] | None = None

    def dealt(self, plan: Plan) -> Plan:
        """The same plan with tasks that look alike dealt out in turn; itself if that changes nothing.

        Plans with hints stay as they are: hints are for tasks, not for places.
        """
        first = plan.assignments[0]
        if plan.hints or plan.launch or all(one is first for one in plan.assignments):
            return plan
        assignments, ranks = list(plan.assignments), list(plan.ranks)
        changed = False
        for tasks in self._groups():
            places = _in_turn(tasks, plan)
            if places == tasks:
                continue
            for task, place in zip(tasks, places, strict=True):
                changed = changed or plan.assignments[place].worker != plan.assignments[task].worker
                assignments[task] = plan.assignments[place]
                if ranks:
                    ranks[task] = plan.ranks[place]
        if not changed:
            return plan
        return msgspec.structs.replace(plan, assignments=tuple(assignments), ranks=tuple(ranks), predicted=None)

    def _groups(self) -> list[list[int]]:
        """Interchangeable tasks, ascending, where there are several."""
        if self._alike is None:
            outlook, graph = self._outlook, self._outlook.graph
            run_s = [list(map(_about, outlook.execution_s(one))) for one in outlook.platform.configurations]
            known: dict[tuple[object, ...], list[int]] = {}
            for task, told in enumerate(zip(outlook.output_bytes, outlook.least_memory_mb, *run_s, strict=True)):
                key = (graph.function_of[task], graph.deps[task], graph.dependents[task], task in graph.sink_set, told)
                known.setdefault(key, []).append(task)
            self._alike = [tasks for tasks in known.values() if len(tasks) > 1]
        return self._alike


def _about(seconds: float) -> float:
    """The same for times that differ by less than a thousandth: laws tell tasks apart that have a byte more to read."""
    return round(math.log(seconds), 3) if seconds > 0 else -math.inf


def _in_turn(tasks: Sequence[int], plan: Plan) -> list[int]:
    """The tasks whose places are taken by these, one by one."""
    if None in {plan.assignments[task].worker for task in tasks}:
        return list(tasks)
    by_worker: dict[Assignment, list[int]] = {}
    for task in tasks:
        by_worker.setdefault(plan.assignments[task], []).append(task)
    turns: list[tuple[float, int, int]] = []
    for number, places in enumerate(by_worker.values()):
        if plan.ranks:
            places.sort(key=plan.ranks.__getitem__)
        for turn, place in enumerate(places):
            turns.append(((turn + 0.5) / len(places), -number if turn % 2 else number, place))
    return [place for _, _, place in sorted(turns)]
