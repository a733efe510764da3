"""From an outlook to a plan: ask the planner, apply optimizations, check, predict.

    planner.plan ──▶ planner.optimizations ──▶ those that tasks demand ──▶ validate ──▶ simulate

Pure: whoever calls this has read history and made the outlook.
"""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from augury.config import Resources
from augury.dag.graph import Graph
from augury.dag.task import Function, signature_of
from augury.errors import DefinitionError, PlanError
from augury.plan.hints import Hint, PreWarmHint
from augury.plan.outlook import Optimization, Outlook, Planner
from augury.plan.plan import Plan

_FEW = 500
"""Up to how many tasks a run is predicted at once, since that takes no time."""


def make_plan(planner: Planner, outlook: Outlook, *, predicts: bool = True) -> Plan:
    """Plan a workflow.

    Args:
        planner: Assigns tasks.
        outlook: What it sees; with it the workflow, and the optimizations that tasks demand.
        predicts: Whether the run must be predicted now. Else a large one that the planner has not simulated is
            predicted by whoever asks, with `plan.outlook`.

    Returns:
        A plan that fits the workflow, with what is predicted for it.

    Raises:
        PlanError: The planner or an optimization gave no plan, or one that does not fit.
    """
    graph = outlook.graph
    plan = _checked(_asked(planner, graph, outlook), f"the planner {planner.name}")
    plan = optimized(plan, planner, outlook)
    if plan.predicted is None and (predicts or len(graph) <= _FEW):
        plan = msgspec.structs.replace(plan, predicted=outlook.simulate(plan))  # refuses one that does not fit
    else:
        plan.validate(graph)
    return msgspec.structs.replace(plan, graph=graph, outlook=outlook)


def _asked(planner: Planner, graph: Graph, outlook: Outlook) -> object:
    """The planner's plan; one that takes nothing but the graph is given nothing else."""
    signature = signature_of(planner.plan)
    if signature is not None and not _takes_two(signature):
        return cast("Any", planner).plan(graph)
    return planner.plan(graph, outlook)


def _takes_two(signature: inspect.Signature) -> bool:
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True


def _checked(plan: object, source: str) -> Plan:
    if not isinstance(plan, Plan):
        raise PlanError(f"{source} gave {plan!r}, which is not a Plan")
    return plan


# Optimizations


def forced_optimizations(functions: Sequence[Function]) -> dict[int, tuple[Optimization, ...]]:
    """The optimizations that functions demand for their tasks, by the function's index.

    Raises:
        DefinitionError: Something that was demanded is no optimization; names the function.
    """
    return {
        index: tuple(instance_of(given, f"@task on {function.name}") for given in function.options.optimizations)
        for index, function in enumerate(functions)
        if function.options.optimizations
    }


def instance_of(given: Any, where: str) -> Optimization:
    """An optimization that was given as itself or as its class.

    Args:
        given: What was given.
        where: Who gave it, for the message.

    Raises:
        DefinitionError: It is none.
    """
    try:
        found = given() if isinstance(given, type) else given
    except TypeError as error:
        raise DefinitionError(f"{where}: {given.__name__} must be given with its settings ({error})") from error
    if isinstance(getattr(found, "name", None), str) and callable(getattr(found, "assign", None)):
        return cast("Optimization", found)
    raise DefinitionError(
        f"{where}: each of optimizations must have a name and an assign(plan, outlook, forced) method, as PreLoad() "
        f"has, not {given!r}"
    )


def optimized(plan: Plan, planner: Planner, outlook: Outlook) -> Plan:
    """A plan with the optimizations that its planner has, and those that tasks demand."""
    chosen = [instance_of(given, f"the planner {planner.name}") for given in getattr(planner, "optimizations", ())]
    names = {optimization.name for optimization in chosen}
    for optimization in chosen:
        plan = _assigned(plan, optimization, outlook, _demanding(outlook, optimization.name))
    for optimization, forced in _only_demanded(outlook, names):
        plan = _restricted(plan, _assigned(plan, optimization, outlook, forced), forced)
    return plan


def _assigned(plan: Plan, optimization: Optimization, outlook: Outlook, forced: Sequence[int]) -> Plan:
    """The plan with an optimization; what was predicted for it without counts no more."""
    better = _checked(optimization.assign(plan, outlook, forced), f"the optimization {optimization.name}")
    if better is plan or better.predicted is not plan.predicted:
        return better
    return msgspec.structs.replace(better, predicted=None)


def _demanding(outlook: Outlook, name: str) -> list[int]:
    """The tasks that demand an optimization of this name."""
    functions = {function for function, demanded in outlook.forced.items() if any(one.name == name for one in demanded)}
    return [task for task, function in enumerate(outlook.graph.function_of) if function in functions]


def _only_demanded(outlook: Outlook, names: set[str]) -> Iterator[tuple[Optimization, list[int]]]:
    """The optimizations that tasks demand and the planner does not bring, each with those tasks."""
    found: dict[str, Optimization] = {}
    for demanded in outlook.forced.values():
        for optimization in demanded:
            if optimization.name not in names:
                found.setdefault(optimization.name, optimization)
    for name, optimization in found.items():
        yield optimization, _demanding(outlook, name)


def _restricted(before: Plan, after: Plan, forced: Sequence[int]) -> Plan:
    """A plan whose new hints are for some tasks only: nobody asked for the others.

    Hints for pre-warming stand elsewhere than at the tasks that they serve; those stay that make workers like theirs.
    """
    if after is before:
        return before
    asked = set(forced)
    served = {after.assignments[task].resources for task in asked}
    hints: dict[int, tuple[Hint, ...]] = {}
    for task, found in after.hints.items():
        known = before.hints.get(task, ())
        kept = tuple(hint for hint in found if task in asked or hint in known or _serves(hint, served))
        if kept:
            hints[task] = kept
    launch = tuple(hint for hint in after.launch if hint in before.launch or _serves(hint, served))
    return msgspec.structs.replace(after, hints=hints, launch=launch, predicted=None)


def _serves(hint: Hint, resources: set[Resources]) -> bool:
    return isinstance(hint, PreWarmHint) and hint.resources in resources
