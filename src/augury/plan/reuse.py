"""Plans that were made before, to be used again while what they rest on has not moved.

A plan rests on the workflow's structure, the platform and the planner, which are its *key* and must be equal; and on
sizes and measurements, its *basis*, which never are: a new run brings new measurements. So a basis is compared with
tolerance. Nothing is fitted or predicted for that.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from augury.dag.graph import Graph
from augury.plan.plan import Plan
from augury.predict.levels import Levels, moved

_TOLERANCE = 0.1
_UNFELT_BYTES = 1024
_MOST_PLANS = 256
_MOST_TASKS = 250_000  # some hundred bytes each, with what was predicted


class Basis(NamedTuple):
    """What a plan rests on, in a few numbers.

    Attributes:
        argument_bytes: For each function, how large the arguments of all its tasks are together, and those of one at
            most.
        tasks: How many tasks each function has.
        levels: What history says.
    """

    argument_bytes: tuple[tuple[float, float], ...]
    tasks: tuple[int, ...]
    levels: Levels

    def moved_to(self, now: "Basis") -> bool:
        """Whether what is known now asks for another plan."""
        if len(now.argument_bytes) != len(self.argument_bytes):
            return True
        for (total, most), (total_now, most_now), tasks in zip(
            self.argument_bytes, now.argument_bytes, self.tasks, strict=True
        ):
            if _differ(total, total_now, _UNFELT_BYTES * tasks) or _differ(most, most_now, _UNFELT_BYTES):
                return True
        return moved(self.levels, now.levels)


def basis_of(graph: Graph, argument_bytes: Sequence[float], levels: Levels) -> Basis:
    """What a plan for a workflow rests on."""
    totals = [0.0] * len(graph.functions)
    most = [0.0] * len(graph.functions)
    tasks = [0] * len(graph.functions)
    for function, size in zip(graph.function_of, argument_bytes, strict=True):
        totals[function] += size
        tasks[function] += 1
        if size > most[function]:
            most[function] = size
    return Basis(tuple(zip(totals, most, strict=True)), tuple(tasks), levels)


def _differ(before: float, now: float, unfelt: float) -> bool:
    return abs(now - before) > max(_TOLERANCE * before, unfelt)


class _Known(NamedTuple):
    """A plan with its basis, and what must live as long as it: what the key knows by identity only."""

    plan: Plan
    basis: Basis
    held: Any


class KnownPlans:
    """Remembers plans; so many, and of so many tasks in all. May be shared by threads."""

    def __init__(self, most_plans: int = _MOST_PLANS, most_tasks: int = _MOST_TASKS) -> None:
        self._most_plans = most_plans
        self._most_tasks = most_tasks
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: Hashable, basis: Basis) -> Plan | None:
        """The plan that was kept under a key, if its basis has not moved; else None."""
        known = self._known.pop(key, None)
        if known is None or known.basis.moved_to(basis):
            return None
        self._known[key] = known  # as the one that was used last
        return known.plan

    def keep(self, key: Hashable, basis: Basis, plan: Plan, held: Any = None) -> None:
        """Remember a plan.

        Args:
            key: What it is for.
            basis: What it rests on.
            plan: The plan.
            held: What the key refers to by identity, so that nothing else gets that identity.
        """
        self._known.pop(key, None)
        self._known[key] = _Known(plan, basis, held)
        tasks = sum(len(known.plan.assignments) for known in list(self._known.values()))
        while len(self._known) > 1 and (len(self._known) > self._most_plans or tasks > self._most_tasks):
            _, dropped = self._known.popitem(last=False)
            tasks -= len(dropped.plan.assignments)
