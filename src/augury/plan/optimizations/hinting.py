"""Putting hints into plans, and seeing whether they help."""

from collections.abc import Iterable, Mapping

import msgspec

from augury.errors import PlanError
from augury.plan.hints import Hint, PreWarmHint
from augury.plan.plan import Plan

BETTER = 1 - 1e-6
"""To which part of the makespan a change must bring it to count as an improvement."""


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


def checked_number(owner: str, name: str, value: object, *, least: float = 0.0) -> float:
    """A setting that must be a number of at least so much.

    Raises:
        PlanError: It is not.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= least:
        return float(value)
    raise PlanError(f"{owner}: {name} must be a number of at least {least:g}, not {value!r}")
