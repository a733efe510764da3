"""Why a task stands where it stands, and what would happen elsewhere.

What is told of the task itself is read off the plan and its prediction. What its hints are worth, and what other places
would bring, is simulated: the same plan with one thing changed, compared with the plan as it is.
"""

import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from augury.config import Resources
from augury.dag.task import TaskNode
from augury.errors import PlanError
from augury.plan.hints import Hint
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.show.explanation import NOT_KNOWN, Difference, Explanation, Input
from augury.plan.show.slack import slack_s
from augury.plan.show.table import evidence_text
from augury.plan.show.view import View
from augury.plan.show.words import ANY, hint_name, resources_text
from augury.plan.timeline import Simulation
from augury.wording import plain

_MOST_OWNERS = 3


def explain(plan: Plan, task: object) -> Explanation:
    """Why a task of a plan stands where it stands.

    Args:
        plan: The plan.
        task: Its id, its label, or the task itself.

    Raises:
        PlanError: The plan has no such task.
    """
    view = View(plan)
    chosen = find_task(view, task)
    place = view.places[view.place_of[chosen]] if view.place_of[chosen] >= 0 else None
    assignment = plan.assignments[chosen]
    beside = tuple(other for other in place.tasks if other != chosen) if place is not None else ()
    known_inputs = _inputs(view, chosen)
    inputs = known_inputs or ()
    predicted = view.predicted
    evidence = view.outlook.evidence[view.outlook.graph.function_of[chosen]] if view.outlook is not None else None
    return Explanation(
        task=chosen,
        label=view.label(chosen),
        worker=place.name if place is not None else ANY,
        flexible=assignment.worker is None,
        resources=place.resources if place is not None else assignment.resources,
        beside=beside,
        beside_text=f"with {view.summarise(beside)}" if beside else "alone",
        inputs=known_inputs,
        local_bytes=math.fsum(one.size_bytes for one in inputs if one.here),
        stored_bytes=math.fsum(one.size_bytes for one in inputs if not one.here),
        times=predicted.timeline[chosen] if predicted is not None else None,
        waits_for=_last_input(view, chosen, inputs),
        follows=_predecessor(view, predicted, chosen, beside),
        critical=chosen in view.critical,
        slack_s=slack_s(view.graph, predicted)[chosen] if view.graph is not None and predicted is not None else None,
        evidence=evidence_text(evidence) if evidence is not None else NOT_KNOWN,
        measurements=evidence.n if evidence is not None else 0,
        hints=tuple(plan.hints.get(chosen, ())),
        makespan_s=predicted.makespan_s if predicted is not None else None,
        **_what_if(view, chosen, inputs),
    )


# Finding the task


def find_task(view: View, task: object) -> int:
    """The id of a task that was given by its id, its label, or itself.

    Raises:
        PlanError: There is none.
    """
    if isinstance(task, TaskNode):
        found = view.graph.id_of(task) if view.graph is not None else None
        if found is None:
            raise PlanError(f"{task!r} is not a task of the workflow that this plan was made for")
        return found
    if isinstance(task, str):
        return _labelled(view, task)
    if isinstance(task, int) and not isinstance(task, bool) and 0 <= task < len(view):
        return task
    raise PlanError(
        f"the plan has no task={task!r}: give a number from 0 to {len(view) - 1}, a label such as {view.label(0)!r}, "
        "or the task itself"
    )


def _labelled(view: View, label: str) -> int:
    if view.graph is None:
        raise PlanError(f"this plan was read from text and does not know labels: give the number of task={label!r}")
    graph = view.graph
    name, _, _ = label.rpartition("[")
    alike = [task for task in range(len(graph)) if graph.info(task).name == name]
    match = re.fullmatch(r"\[(\d+)\]", label[len(name) :])
    if match is not None and alike and int(match[1]) < len(alike):
        return alike[int(match[1])]
    if alike:
        raise PlanError(
            f"the workflow has no task={label!r}; its tasks of {name} are {name}[0] to {name}[{len(alike) - 1}]"
        )
    names = sorted({plain(function.name) for function in graph.functions})
    raise PlanError(
        f"the workflow has no task={label!r}; labels look like {graph.label(0)!r}, and its functions are "
        f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
    )


# What the task waits for


def _inputs(view: View, task: int) -> tuple[Input, ...] | None:
    if view.graph is None:
        return None
    sizes = view.outlook.output_bytes if view.outlook is not None else None
    found = [
        Input(
            task=dep,
            label=view.label(dep),
            size_bytes=float(sizes[dep]) if sizes is not None else math.nan,
            here=view.place_of[dep] == view.place_of[task] >= 0,
        )
        for dep in view.graph.deps[task]
    ]
    return tuple(sorted(found, key=lambda one: (-one.size_bytes if one.size_bytes > 0 else 0.0, one.task)))


def _last_input(view: View, task: int, inputs: Sequence[Input]) -> str:
    """The input that a task waits for longest; of several, the one on the critical path."""
    if view.predicted is None or not inputs:
        return ""
    timeline, path = view.predicted.timeline, view.predicted.critical_path
    before = path[path.index(task) - 1] if task in path[1:] else -1
    last = max(
        inputs,
        key=lambda one: (one.task == before, timeline.executed_s[one.task] if one.here else timeline.end_s[one.task]),
    )
    return last.label


def _predecessor(view: View, predicted: Simulation | None, task: int, beside: Sequence[int]) -> str:
    """Whose place a task takes that had to queue."""
    if predicted is None:
        return ""
    timeline = predicted.timeline
    start_s = timeline.start_s[task]
    before = [other for other in beside if timeline.ready_s[task] < timeline.executed_s[other] <= start_s]
    return view.label(max(before, key=timeline.executed_s.__getitem__)) if before else ""


# What if


def _what_if(view: View, task: int, inputs: Sequence[Input]) -> dict[str, tuple[Difference, ...]]:
    outlook = view.outlook
    if outlook is None:
        return {"without_hints": (), "elsewhere": ()}
    now = outlook.simulate(view.plan)
    without = [_compare(outlook, now, hint_name(hint), changed) for hint, changed in _without_hints(view.plan, task)]
    elsewhere = [_compare(outlook, now, what, changed) for what, changed in _alternatives(view, outlook, task, inputs)]
    return {
        "without_hints": tuple(one for one in without if one is not None),
        "elsewhere": tuple(one for one in elsewhere if one is not None),
    }


def _compare(outlook: Outlook, now: Simulation, what: str, changed: Plan) -> Difference | None:
    """What a changed plan would bring; None if it cannot be carried out."""
    try:
        then = outlook.simulate(changed)
    except PlanError:
        return None
    return Difference(
        what=what,
        makespan_s=_rounded(then.makespan_s - now.makespan_s),
        cost_usd=_rounded(then.cost_usd - now.cost_usd),
        simulation=then,
    )


def _rounded(difference: float) -> float:
    """A difference without what floating-point sums leave of zero."""
    return 0.0 if abs(difference) < 1e-12 else difference


def _without_hints(plan: Plan, task: int) -> Iterator[tuple[Hint, Plan]]:
    hints = plan.hints.get(task, ())
    for index, hint in enumerate(hints):
        rest = (*hints[:index], *hints[index + 1 :])
        others = {other: kept for other, kept in plan.hints.items() if other != task}
        yield hint, msgspec.structs.replace(plan, hints=others | ({task: rest} if rest else {}), predicted=None)


def _alternatives(view: View, outlook: Outlook, task: int, inputs: Sequence[Input]) -> Iterator[tuple[str, Plan]]:
    plan = view.plan
    own = plan.assignments[task]
    together = [other for other, assignment in enumerate(plan.assignments) if assignment.worker == own.worker]
    if own.worker is None or len(together) > 1:
        alone = Assignment(worker=_new_worker(plan), resources=own.resources)
        yield "alone on a worker of its own", _moved(plan, [task], alone)
    owners: dict[int, str] = {}
    for one in inputs:
        worker = plan.assignments[one.task].worker
        if worker is not None and worker != own.worker and len(owners) < _MOST_OWNERS:
            owners.setdefault(worker, one.label)
    for worker, label in owners.items():
        there = next(assignment for assignment in plan.assignments if assignment.worker == worker)
        if there.resources.memory_mb >= outlook.least_memory_mb[task]:
            yield f"on w{worker} with {label}", _moved(plan, [task], there)
    moving = [task] if own.worker is None else together
    least_mb = max(outlook.least_memory_mb[other] for other in moving)
    whole = f"all of w{own.worker}" if own.worker is not None and len(together) > 1 else "its worker"
    for resources in _neighbours(own.resources, outlook.platform.configurations):
        if resources.memory_mb >= least_mb:
            changed = Assignment(worker=own.worker, resources=resources)
            yield f"{whole} with {resources_text(resources)}", _moved(plan, moving, changed)


def _new_worker(plan: Plan) -> int:
    return max((one.worker for one in plan.assignments if one.worker is not None), default=-1) + 1


def _moved(plan: Plan, tasks: Sequence[int], to: Assignment) -> Plan:
    assignments = list(plan.assignments)
    for task in tasks:
        assignments[task] = to
    return msgspec.structs.replace(plan, assignments=tuple(assignments), predicted=None)


def _neighbours(own: Resources, configurations: Sequence[Resources]) -> list[Resources]:
    """The next smaller configuration and the next larger one, as far as the platform has them."""
    ordered = sorted(set(configurations), key=lambda one: (one.memory_mb, one.cpus))
    smaller = [one for one in ordered if (one.memory_mb, one.cpus) < (own.memory_mb, own.cpus)]
    larger = [one for one in ordered if (one.memory_mb, one.cpus) > (own.memory_mb, own.cpus)]
    return [*smaller[-1:], *larger[:1]]
