"""Putting hints into plans, and seeing whether they help."""

import math
from collections.abc import Iterable, Mapping

import msgspec

from augury.config import LARGEST_FLOAT, but_not, is_number, is_whole
from augury.errors import PlanError
from augury.plan.hints import Hint, PreWarmHint
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.timeline import Simulation

BETTER = 1 - 1e-6
"""To which part of the makespan a change must bring it to count as an improvement."""
MANY_TASKS = 2000
"""From how many tasks on simulations take so long that an optimization makes few of them."""


def with_hints(plan: Plan, hints: Mapping[int, Iterable[Hint]], launch: Iterable[PreWarmHint] = ()) -> Plan:
    """A plan with further hints; what was predicted for it without them counts no more."""
    merged = dict(plan.hints)
    for task, more in hints.items():
        merged[task] = (*merged.get(task, ()), *more)
    launched = (*plan.launch, *launch)
    if merged == plan.hints and launched == plan.launch:
        return plan
    return msgspec.structs.replace(plan, hints=merged, launch=launched, predicted=None)


def has_hint(plan: Plan, task: int, kind: type[Hint]) -> bool:
    """Whether a task has a hint of a kind."""
    return any(isinstance(hint, kind) for hint in plan.hints.get(task, ()))


def names_workers(plan: Plan) -> bool:
    """Whether a plan names a worker for any task."""
    return any(assignment.worker is not None for assignment in {id(one): one for one in plan.assignments}.values())


def predicted(plan: Plan, outlook: Outlook) -> tuple[Plan, Simulation]:
    """A plan with what is predicted for it, which is simulated unless it is there."""
    if plan.predicted is not None:
        return plan, plan.predicted
    simulated = outlook.simulate(plan)
    return msgspec.structs.replace(plan, predicted=simulated), simulated


def check_number(owner: str, name: str, value: object, *, least: float = 0.0) -> None:
    """Refuse a setting that is no number of at least so much.

    Raises:
        PlanError: It is not.
    """
    if not is_number(value, least=least, most=math.inf):
        raise PlanError(f"{owner}: {name} must be a number of at least {least:g}, {but_not(value, LARGEST_FLOAT)}")


def check_count(owner: str, name: str, value: object, *, least: int = 0) -> None:
    """Refuse a setting that is no whole number of at least so much.

    Raises:
        PlanError: It is not.
    """
    if not is_whole(value, least=least):
        raise PlanError(f"{owner}: {name} must be a whole number of at least {least}, {but_not(value)}")
