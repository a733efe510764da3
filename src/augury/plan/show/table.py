"""A plan as a table: a line for each worker, then what it all comes to, and what that rests on.

Workers that are alike share a line when there are many of them, so that a plan fits a screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.predictions import Evidence
from augury.plan.show.view import Place, View
from augury.plan.show.words import Moments, hint_counts, resources_text, sla_name
from augury.plan.timeline import Simulation
from augury.predict.sla import Percentile
from augury.wording import NOTHING, aligned, amount, count, dollars, plain, size

LOW, HIGH = Percentile(10), Percentile(90)
"""The interval that is told beside a prediction."""
MOST_SINGLE = 15
"""Up to how many workers each has a line of its own."""
MOST_LINES = 25
_MOST_STEPS = 8
_MOST_FUNCTIONS = 12
_WIDTH = 84
_WIDEST_CELL = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The same plan with quick and with slow tasks: simulated at the 10th and at the 90th percentile."""

    low: Simulation
    high: Simulation


def interval(plan: Plan) -> Interval | None:
    """How far the prediction of a plan may be off; None if its predictions know only one number."""
    outlook: Outlook | None = plan.outlook
    if outlook is None or outlook.predictions.at(LOW) is outlook.predictions:
        return None
    return Interval(low=outlook.at(LOW).simulate(plan), high=outlook.at(HIGH).simulate(plan))


def table(plan: Plan) -> str:
    """A plan as text."""
    view = View(plan)
    return "\n".join([view.title(), *_worker_lines(view), *_total_lines(view), *_evidence_lines(view)])


# Workers


def _worker_lines(view: View) -> list[str]:
    groups = [[place] for place in view.places] if len(view.places) <= MOST_SINGLE else _alike(view)
    shown = groups[:MOST_LINES]
    moments = Moments(view.predicted.makespan_s if view.predicted is not None else 0.0)
    rows = [_row(view, group, moments) for group in shown]
    head = ("worker", "resources", "tasks", "hints", "start", "from–to", "busy")
    kept = [place for place, title in enumerate(head) if title != "hints" or any(row[place] for row in rows)]
    if view.predicted is None:
        kept = [place for place in kept if head[place] not in ("start", "from–to", "busy")]
    lines = aligned(
        [[row[place] for place in kept] for row in (head, *rows)],
        left=[place for place, column in enumerate(kept) if head[column] != "busy"],
    )
    more = sum(map(len, groups[MOST_LINES:]))
    return [*lines, *([f"  … and {count(more, 'more worker')}"] if more else [])]


def _alike(view: View) -> list[list[Place]]:
    """Workers that do the same with the same."""
    found: dict[object, list[Place]] = {}
    for place in view.places:
        functions = view.summarise(place.tasks, by_name=True)
        cold = place.times.cold if place.times is not None else None
        key = (place.resources, functions, hint_counts(view.plan.hints, place.tasks), cold)
        found.setdefault(key, []).append(place)
    return list(found.values())


def _row(view: View, group: Sequence[Place], moments: Moments) -> tuple[str, ...]:
    first, many = group[0], len(group) > 1
    name = f"{first.name}…{group[-1].name} ({len(group):,})" if many else first.name
    hints = ", ".join(
        f"{name} × {number}" if number > 1 else name for name, number in hint_counts(view.plan.hints, first.tasks)
    )
    each = "each " if many else ""
    what = each + view.summarise(first.tasks, by_name=many) if first.tasks else NOTHING
    return (plain(name), resources_text(first.resources), _short(what), _short(hints), *_times(group, moments))


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST_CELL else f"{text[: _WIDEST_CELL - 1]}…"


def _times(group: Sequence[Place], moments: Moments) -> tuple[str, str, str]:
    known = [place.times for place in group if place.times is not None]
    if not known:
        return NOTHING, NOTHING, NOTHING
    slots = [times.resources.task_slots * (times.end_s - times.start_s) for times in known]
    busy = sum(times.busy_s for times in known) / sum(slots) if sum(slots) else 0.0
    span = moments.between(min(times.granted_s for times in known), max(times.end_s for times in known))
    return "cold" if known[0].cold else "warm", span, f"{busy:.0%}"


# Totals


def _total_lines(view: View) -> list[str]:
    predicted = view.predicted
    if predicted is None:
        return []
    moments = Moments(predicted.makespan_s)
    around = interval(view.plan)
    makespan, cost = moments.say(predicted.makespan_s), dollars(predicted.cost_usd)
    if view.outlook is not None and view.outlook.sla != "median":
        makespan += f" at {sla_name(view.outlook.sla)}" if view.outlook.sla != "average" else " on average"
    if around is not None:
        makespan += f" ({moments.between(around.low.makespan_s, around.high.makespan_s)} from p10 to p90)"
        cost += f" ({dollars(around.low.cost_usd)}–{dollars(around.high.cost_usd)} from p10 to p90)"
    told = [
        ("makespan", makespan),
        ("cost", cost),
        ("GB-seconds", amount(predicted.gb_seconds)),
        ("requests", f"{predicted.requests:,}, {count(predicted.cold_starts, 'cold start')}"),
        ("moved", size(predicted.moved_bytes)),
    ]
    launched = sum(hint.count for hint in view.plan.launch)
    if launched:
        told.append(("at launch", f"{count(launched, 'environment')} pre-warmed"))
    if predicted.duplicated:
        told.append(("run twice", view.summarise(predicted.duplicated)))
    steps = _wrapped(_steps(view, moments), " → ", _WIDTH)
    lines = [f"  {name:<13}  {text}" for name, text in told]
    lines += [f"  {'' if index else 'critical path':<13}  {text}" for index, text in enumerate(steps)]
    return lines


def _steps(view: View, moments: Moments) -> list[str]:
    """The critical path, shortened in the middle."""
    if view.predicted is None:
        return []
    path, timeline = view.predicted.critical_path, view.predicted.timeline
    steps = [
        f"{view.label(task)} {moments.between(timeline.execute_s[task], timeline.executed_s[task])}" for task in path
    ]
    half = _MOST_STEPS // 2
    if len(steps) <= _MOST_STEPS + 1:
        return steps
    return [*steps[:half], f"… {len(steps) - 2 * half:,} more …", *steps[-half:]]


def _wrapped(parts: Sequence[str], separator: str, width: int) -> list[str]:
    """Parts in lines, broken between two of them only."""
    lines: list[str] = []
    for index, part in enumerate(parts):
        piece = part if index == len(parts) - 1 else f"{part}{separator}"
        if lines and len(lines[-1]) + len(piece.rstrip()) <= width:
            lines[-1] += piece
        else:
            lines.append(piece)
    return [line.rstrip() for line in lines]


# Evidence


def evidence_text(known: Evidence) -> str:
    """What a prediction rests on, in words."""
    return f"{count(known.n, 'measurement')}: {known.basis}" if known.n else known.basis


def _evidence_lines(view: View) -> list[str]:
    """What the predictions of each function rest on."""
    if view.outlook is None:
        return []
    functions = view.outlook.graph.functions
    found = zip(functions, view.outlook.evidence, strict=True)
    rows = [(plain(function.name), evidence_text(known)) for function, known in found]
    more = len(rows) - _MOST_FUNCTIONS
    shown = rows if more <= 1 else rows[:_MOST_FUNCTIONS]
    lines = [line.strip() for line in aligned(shown, left=(0, 1))]
    lines += [f"… and {more:,} more functions"] if more > 1 else []
    return [f"  {'' if index else 'evidence':<13}  {line}" for index, line in enumerate(lines)]
