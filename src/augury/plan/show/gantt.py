"""The predicted run: a row for each worker, what it does from left to right, and what decides when it ends.

    w0  ▒▒▒▒████████░░███████████          ▒ start-up   █ execute   ░ download, upload
    w1  ▒▒▒▒█████████████
        0        0.5        1.0 s

A worker that runs several tasks at once has a lane for each. Bars that would be too thin to be seen are drawn together
with their neighbours, so that the picture stays small however many tasks there are.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from augury.drawing import Drawing
from augury.errors import PlanError
from augury.plan.plan import Plan
from augury.plan.show import svg
from augury.plan.show.view import Place, View
from augury.plan.show.words import Moments, resources_text
from augury.plan.timeline import Simulation
from augury.wording import count, duration

_MARGIN = 24.0
_TOP = 84.0
_CHART = 960.0
_LANE, _ROW_GAP = 16.0, 6.0
_SMALL_LANE, _SMALL_GAP = 9.0, 2.0
_MOST_LARGE = 40
_MOST_ROWS = 300
_MOST_NAME = 36
_THINNEST = 0.75
_MOST_LINKS = 400

_WAITS, _COLD, _WARM, _DOWNLOADS, _EXECUTES, _UPLOADS, _IDLE = (
    *("#ffffff", svg.RED, svg.ORANGE, svg.SKY, svg.GREEN, svg.PURPLE, svg.PALE),
)
_KEY = (
    ("waits for a slot", _WAITS),
    ("starts cold", _COLD),
    ("starts warm", _WARM),
    ("downloads", _DOWNLOADS),
    ("executes", _EXECUTES),
    ("uploads", _UPLOADS),
    ("idle", _IDLE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stretch of time in a lane.

    Attributes:
        from_s: From when; `to_s`: until when.
        tasks: How many tasks it stands for; `task`: the first of them.
        critical: Whether it is on the critical path.
    """

    from_s: float
    to_s: float
    task: int
    tasks: int = 1
    critical: bool = False


def gantt(plan: Plan) -> Drawing:
    """Draw the predicted run of a plan.

    Raises:
        PlanError: Nothing was predicted for it.
    """
    view = View(plan)
    if view.predicted is None:
        raise PlanError("nothing was predicted for this plan, so there is no timeline: draw the one that .plan() made")
    return _Gantt(view, view.predicted).draw()


def lanes(tasks: Sequence[int], predicted: Simulation) -> list[list[int]]:
    """Tasks of a worker in as few lanes as possible, each with one running at a time."""
    timeline = predicted.timeline
    found: list[list[int]] = []
    free_s: list[float] = []
    for task in sorted(tasks, key=lambda task: (timeline.execute_s[task], task)):
        from_s = timeline.execute_s[task] + 1e-9
        lane = next((lane for lane, end_s in enumerate(free_s) if end_s <= from_s), len(found))
        if lane == len(found):
            found.append([])
            free_s.append(0.0)
        found[lane].append(task)
        free_s[lane] = timeline.executed_s[task]
    return found or [[]]


def joined(bars: Sequence[Bar], least_s: float) -> list[Bar]:
    """Bars with those drawn together that are shorter than can be seen, and closer to each other than that."""
    found: list[Bar] = []
    for bar in bars:
        last = found[-1] if found else None
        tiny = last is not None and (bar.to_s - bar.from_s < least_s or last.to_s - last.from_s < least_s)
        if last is not None and tiny and bar.from_s - last.to_s < least_s and bar.critical == last.critical:
            found[-1] = Bar(
                from_s=last.from_s,
                to_s=max(last.to_s, bar.to_s),
                task=last.task,
                tasks=last.tasks + bar.tasks,
                critical=last.critical,
            )
        else:
            found.append(bar)
    return found


def ticks(span_s: float, most: int = 10) -> list[float]:
    """Round moments from 0 on, so many at most."""
    if not 0 < span_s < math.inf:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(span_s / most))
    step_s = next(power * factor for factor in (1, 2, 5, 10, 20) if span_s / (power * factor) < most)
    return [number * step_s for number in range(int(span_s / step_s + 1e-9) + 1)]


class _Gantt:
    """One picture while it is being drawn."""

    def __init__(self, view: View, predicted: Simulation) -> None:
        self._view = view
        self._predicted = predicted
        self._shown: Sequence[Place] = view.places[:_MOST_ROWS]
        self._lanes = [lanes(place.tasks, predicted) for place in self._shown]
        small = sum(map(len, self._lanes)) > _MOST_LARGE
        self._lane, self._gap = (_SMALL_LANE, _SMALL_GAP) if small else (_LANE, _ROW_GAP)
        self._size = 8.0 if small else 11.0
        ends_s = [predicted.makespan_s, *(times.end_s for times in predicted.workers), 1e-9]
        self._span_s = max(end_s for end_s in ends_s if math.isfinite(end_s))
        self._moments = Moments(self._span_s)
        names = [self._name(place) for place in self._shown]
        self._left = _MARGIN + max((svg.text_width(name, self._size) for name in names), default=0.0) + 10
        self._tops = self._stack()

    def draw(self) -> Drawing:
        bottom = self._tops[-1]
        more = len(self._view.places) - len(self._shown)
        note = [svg.text(_MARGIN, bottom + 40, f"… and {count(more, 'more worker')}")] if more else []
        width = max(self._left + _CHART, _MARGIN + svg.text_width(self._view.title(), 14), self._key_width())
        return svg.drawing(
            width + 3 * _MARGIN,
            bottom + 34 + 24 * bool(more),
            svg.text(_MARGIN, 26, self._view.title(), size=14, font_weight="bold"),
            *self._key(),
            *self._axis(bottom),
            *self._rows(),
            *self._path(),
            *note,
        )

    def _stack(self) -> list[float]:
        """Where each row begins, and where the last one ends."""
        tops = [_TOP]
        for held in self._lanes:
            tops.append(tops[-1] + len(held) * self._lane + self._gap)
        return tops

    def _x(self, time_s: float) -> float:
        return self._left + min(max(time_s, 0.0), self._span_s) / self._span_s * _CHART

    def _name(self, place: Place) -> str:
        return svg.shortened(f"{place.name} {resources_text(place.resources)}", _MOST_NAME)

    # Around the rows

    def _key_width(self) -> float:
        return _MARGIN + sum(svg.text_width(name) + 34 for name, _ in _KEY) + svg.text_width("critical path") + 34

    def _key(self) -> Iterator[str]:
        x = _MARGIN
        for name, colour in _KEY:
            yield svg.element("rect", x=x, y=38, width=14, height=12, fill=colour, stroke=svg.GREY, stroke_width=0.6)
            yield svg.text(x + 19, 48, name)
            x += svg.text_width(name) + 34
        yield svg.element("rect", x=x, y=39, width=14, height=10, fill="none", stroke=svg.INK, stroke_width=2.2)
        yield svg.text(x + 19, 48, "critical path")

    def _axis(self, bottom: float) -> Iterator[str]:
        for time_s in ticks(self._span_s):
            x = self._x(time_s)
            yield svg.element("path", d=f"M{x:.1f} {_TOP - 6:.1f}V{bottom:.1f}", stroke=svg.PALE, stroke_width=1)
            for y in (_TOP - 10, bottom + 14):
                yield svg.text(x, y, self._moments.say(time_s), size=10, text_anchor="middle", fill="#444444")
        end = self._x(self._predicted.makespan_s)
        yield svg.element(
            "path",
            svg.tooltip(f"the result is there: {self._moments.say(self._predicted.makespan_s)}"),
            d=f"M{end:.1f} {_TOP - 6:.1f}V{bottom:.1f}",
            stroke=svg.INK,
            stroke_width=1.4,
        )

    # Rows

    def _rows(self) -> Iterator[str]:
        for place, held, top in zip(self._shown, self._lanes, self._tops, strict=False):
            height = len(held) * self._lane
            name = self._name(place)
            baseline = top + height / 2 + self._size * 0.36
            yield svg.text(self._left - 8, baseline, name, size=self._size, text_anchor="end")
            yield from self._environment(place, top, height)
            up_s = place.times.start_s if place.times is not None else 0.0
            for lane, tasks in enumerate(held):
                yield from self._bars(tasks, top + lane * self._lane, up_s)

    def _environment(self, place: Place, top: float, height: float) -> Iterator[str]:
        """Waiting for a slot, starting, and being there."""
        times = place.times
        if times is None:
            return
        kind, colour = ("cold", _COLD) if times.cold else ("warm", _WARM)
        parts = (
            (times.asked_s, times.granted_s, _WAITS, f"{place.name} waits for a slot"),
            (times.granted_s, times.start_s, colour, f"{place.name} starts {kind}"),
            (times.start_s, times.end_s, _IDLE, f"{place.name} is up; {times.busy_s:.3g} s busy"),
        )
        for from_s, to_s, fill, words in parts:
            if to_s > from_s:
                edge = {"stroke": svg.GREY, "stroke_width": 0.6, "stroke_dasharray": "2 2"} if fill == _WAITS else {}
                yield self._bar(from_s, to_s, top, height, fill, words, **edge)

    def _bars(self, tasks: Sequence[int], top: float, up_s: float) -> Iterator[str]:
        """What the tasks of a lane do; downloads and uploads are narrow, since other tasks may run meanwhile."""
        timeline, critical = self._predicted.timeline, self._view.critical
        least_s = _THINNEST / _CHART * self._span_s
        height = self._lane - 1
        phases = (
            (timeline.execute_s, timeline.executed_s, _EXECUTES, "executes", 0.0, 1.0),
            (timeline.start_s, timeline.execute_s, _DOWNLOADS, "downloads", 0.0, 0.4),
            (timeline.executed_s, timeline.end_s, _UPLOADS, "uploads", 0.6, 0.4),
        )
        for from_s, to_s, fill, verb, offset, share in phases:
            bars = [
                Bar(
                    from_s=max(from_s[task], up_s),  # another worker may have had it in its queue before
                    to_s=to_s[task],
                    task=task,
                    critical=verb == "executes" and task in critical,
                )
                for task in tasks
                if to_s[task] > max(from_s[task], up_s) or verb == "executes"
            ]
            for bar in joined(bars, least_s):
                colour, width = (svg.INK, 1.6) if bar.critical else ("#ffffff", 0.5)
                words = f"{self._who(bar)} {verb}"
                yield self._bar(
                    bar.from_s,
                    bar.to_s,
                    top + offset * height,
                    share * height,
                    fill,
                    words,
                    stroke=colour,
                    stroke_width=width,
                )

    def _who(self, bar: Bar) -> str:
        label = self._view.label(bar.task)
        return f"{label} and {count(bar.tasks - 1, 'more task')}" if bar.tasks > 1 else label

    def _bar(
        self, from_s: float, to_s: float, top: float, height: float, fill: str, words: str, **attributes: object
    ) -> str:
        x, end = self._x(from_s), self._x(to_s)
        when = f"{self._moments.between(from_s, to_s)} ({duration(to_s - from_s)})"
        return svg.element(
            "rect",
            svg.tooltip(words, when),
            x=x,
            y=float(top),
            width=max(end - x, 0.4),
            height=float(height),
            fill=fill,
            **attributes,
        )

    # The critical path

    def _path(self) -> Iterator[str]:
        """Lines from each task of the critical path to the next, where that is on another worker."""
        path, timeline = self._predicted.critical_path, self._predicted.timeline
        middle = self._middles(path)
        links = [
            (first, then)
            for first, then in pairwise(path)
            if first in middle and then in middle and timeline.worker[first] != timeline.worker[then]
        ]
        for first, then in links[:_MOST_LINKS]:
            x, to_x = self._x(timeline.executed_s[first]), self._x(timeline.execute_s[then])
            yield svg.element(
                "path",
                svg.tooltip(f"{self._view.label(then)} waits for {self._view.label(first)}"),
                d=f"M{x:.1f} {middle[first]:.1f}L{to_x:.1f} {middle[then]:.1f}",
                stroke=svg.INK,
                stroke_width=1.4,
                fill="none",
            )

    def _middles(self, path: Sequence[int]) -> dict[int, float]:
        """For the tasks of the critical path, the heights of their lanes."""
        wanted = frozenset(path)
        return {
            task: top + lane * self._lane + self._lane / 2
            for held, top in zip(self._lanes, self._tops, strict=False)
            for lane, tasks in enumerate(held)
            for task in tasks
            if task in wanted
        }
