"""The workflow as its plan sees it: a node for each task, coloured by worker, from left to right."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from augury.drawing import Drawing
from augury.errors import PlanError
from augury.plan.plan import Plan
from augury.plan.show import svg
from augury.plan.show.grouping import Grouping, group
from augury.plan.show.layout import Box, Layout, arrange
from augury.plan.show.view import Place, View
from augury.plan.show.words import ANY, hint_name, resources_text
from augury.wording import count, duration

_MARGIN = 24.0
_TITLE_HEIGHT = 44.0
_NODE_HEIGHT = 36.0
_BAND = 6.0
_LABEL, _NOTE = 12.0, 10.0
_MOST_LETTERS = 28
_MARK = 7.0
_MOST_WORKERS = 24
_LEGEND_LINE = 18.0
_MARKS = {"pre-warm": "W", "pre-load": "L", "task-dup": "D"}
_OWN_MARK = "O"


def picture(plan: Plan) -> Drawing:
    """Draw a plan.

    Raises:
        PlanError: The plan does not know its workflow.
    """
    return _Picture(View(plan)).draw()


class _Picture:
    """One picture while it is being drawn."""

    def __init__(self, view: View) -> None:
        if view.graph is None:
            raise PlanError(
                "this plan was read from text and does not know its workflow: draw the plan that .plan() made instead"
            )
        self._view = view
        self._graph = view.graph
        self._grouping: Grouping = group(view.graph, view.place_of, lambda task: view.plan.assignments[task].resources)
        self._lines = [(self._label(tasks), self._note(tasks)) for tasks in self._grouping.tasks]
        widths = [
            max(svg.text_width(label, _LABEL), svg.text_width(note, _NOTE)) + 2 * _BAND + 10 + self._marks_width(tasks)
            for (label, note), tasks in zip(self._lines, self._grouping.tasks, strict=True)
        ]
        self._layout: Layout = arrange(self._grouping.depth, self._grouping.edges, widths, _NODE_HEIGHT)

    def draw(self) -> Drawing:
        legend = _Legend(self._view, self._grouping)
        width = max(self._layout.width, legend.width, svg.text_width(self._view.title(), 14)) + 2 * _MARGIN
        top = _TITLE_HEIGHT + self._layout.height + _MARGIN
        origin = f"translate({_MARGIN:g} {_TITLE_HEIGHT:g})"
        return svg.drawing(
            width,
            top + legend.height + _MARGIN,
            svg.text(_MARGIN, 26, self._view.title(), size=14, font_weight="bold"),
            svg.element("g", *self._edges(), transform=origin, fill="none"),
            svg.element("g", *self._nodes(), transform=origin),
            svg.element("g", *legend.parts(), transform=f"translate({_MARGIN:g} {top:g})"),
        )

    # Nodes

    def _label(self, tasks: Sequence[int]) -> str:
        told = self._view.summarise(tasks)
        functions = {self._view.function(task) for task in tasks}
        if len(told) > _MOST_LETTERS and len(functions) > 1:
            return f"{count(len(tasks), 'task')} of {len(functions):,} functions"
        return svg.shortened(told, _MOST_LETTERS)

    def _note(self, tasks: Sequence[int]) -> str:
        """Where the tasks of a node run and how long."""
        places = {self._view.place_of[task] for task in tasks}
        where = self._place(places.pop()) if len(places) == 1 else count(len(places), "worker")
        predicted = self._view.predicted
        if predicted is None:
            return svg.shortened(where, _MOST_LETTERS)
        times_s = [predicted.timeline.executed_s[task] - predicted.timeline.execute_s[task] for task in tasks]
        alike = duration(min(times_s)) == duration(max(times_s))
        each = "" if len(tasks) == 1 else "each " if alike else "up to "
        return svg.shortened(f"{where} · {each}{duration(max(times_s))}", _MOST_LETTERS)

    def _place(self, place: int) -> str:
        return self._view.places[place].name if place >= 0 else ANY

    def _nodes(self) -> Iterator[str]:
        for tasks, box, (label, note) in zip(self._grouping.tasks, self._layout.boxes, self._lines, strict=True):
            colour = worker_colour(_only_place(self._view, tasks))
            critical = not self._view.critical.isdisjoint(tasks)
            frame = {"stroke": svg.INK, "stroke_width": 2.4} if critical else {"stroke": colour, "stroke_width": 1.0}
            shape = {"x": box.x, "y": box.y, "height": box.height}
            left = box.x + _BAND + 5
            yield svg.element(
                "g",
                svg.tooltip(*self._tooltip(tasks)),
                svg.element("rect", **shape, width=box.width, rx=4, fill=svg.tint(colour, 0.16), **frame),
                svg.element("rect", **shape, width=_BAND, rx=2, fill=colour),
                svg.text(left, box.y + 15, label, size=_LABEL, font_weight="bold" if critical else "normal"),
                svg.text(left, box.y + 29, note, size=_NOTE, fill="#444444"),
                *self._marks(tasks, box),
                **{"class": "node"},
            )

    def _kinds(self, tasks: Sequence[int]) -> list[str]:
        hints = self._view.plan.hints
        return sorted({_MARKS.get(hint_name(hint), _OWN_MARK) for task in tasks for hint in hints.get(task, ())})

    def _marks_width(self, tasks: Sequence[int]) -> float:
        return len(self._kinds(tasks)) * (2 * _MARK + 2)

    def _marks(self, tasks: Sequence[int], box: Box) -> Iterator[str]:
        """A letter for each kind of hint, at the right of a node."""
        for index, letter in enumerate(reversed(self._kinds(tasks))):
            x = box.x + box.width - _MARK - 4 - index * (2 * _MARK + 2)
            yield _mark(x, box.middle, letter)

    def _tooltip(self, tasks: Sequence[int]) -> Iterator[str]:
        view = self._view
        yield view.summarise(tasks)
        places = sorted({view.place_of[task] for task in tasks})
        shown = [_described(view.places[place]) if place >= 0 else ANY for place in places[:4]]
        yield f"on {'; '.join(shown)}{f'; {len(places) - 4:,} more' if len(places) > 4 else ''}"
        if view.predicted is not None:
            times = [view.predicted.timeline[task] for task in tasks]
            yield f"executes from {duration(min(one.execute_s for one in times))}"
            yield f"until {duration(max(one.executed_s for one in times))}"
        names = sorted({hint_name(hint) for task in tasks for hint in view.plan.hints.get(task, ())})
        if names:
            yield f"hints: {', '.join(names)}"
        if not view.critical.isdisjoint(tasks):
            yield "on the critical path"

    # Edges

    def _edges(self) -> Iterator[str]:
        node_of, edges = self._grouping.node_of, self._grouping.edges
        path = self._view.predicted.critical_path if self._view.predicted is not None else ()
        steps = {(node_of[first], node_of[then]) for first, then in pairwise(path)}
        here, moved = self._traffic()
        for edge, route in zip(edges, self._layout.routes, strict=True):
            if edge not in steps:
                local = not moved.get(edge)
                stroke = {"stroke": "#a8a8a8" if local else "#5c5c5c", "stroke_width": 1.0 if local else 1.3}
                yield self._edge(route, here.get(edge, 0), moved.get(edge, 0), stroke)
        known = dict(zip(edges, self._layout.routes, strict=True))
        for edge in sorted(steps):
            if edge in known:
                stroke = {"stroke": svg.INK, "stroke_width": 2.6}
                yield self._edge(known[edge], here.get(edge, 0), moved.get(edge, 0), stroke)
            elif edge[0] != edge[1]:
                yield self._turn(*edge)

    def _traffic(self) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
        """For each edge, how many outputs stay on their worker, and how many go through storage."""
        here: dict[tuple[int, int], int] = {}
        moved: dict[tuple[int, int], int] = {}
        place_of, node_of = self._view.place_of, self._grouping.node_of
        for task, deps in enumerate(self._graph.deps):
            for dep in deps:
                counts = here if place_of[dep] == place_of[task] >= 0 else moved
                edge = (node_of[dep], node_of[task])
                counts[edge] = counts.get(edge, 0) + 1
        return here, moved

    def _edge(self, route: Sequence[tuple[float, float]], here: int, moved: int, stroke: Mapping[str, object]) -> str:
        told = [f"{count(here, 'output')} on the same worker"] if here else []
        told += [f"{count(moved, 'output')} through storage"] if moved else []
        return svg.element("path", svg.tooltip(*told), d=svg.curve(route), **stroke)

    def _turn(self, first: int, then: int) -> str:
        """One node waits for the place of another."""
        source, target = self._layout.boxes[first], self._layout.boxes[then]
        if target.x > source.x + source.width:
            route = [(source.x + source.width, source.middle), (target.x, target.middle)]
        else:
            below = target.y >= source.y
            from_y, to_y = source.y + below * source.height, target.y + (not below) * target.height
            route = [(source.x + source.width / 2, from_y), (target.x + target.width / 2, to_y)]
        return svg.element(
            "path",
            svg.tooltip("waits for its turn on the worker"),
            d=svg.curve(route),
            stroke=svg.INK,
            stroke_width=1.6,
            stroke_dasharray="4 3",
        )


def _mark(x: float, y: float, letter: str) -> str:
    circle = svg.element("circle", cx=x, cy=y, r=_MARK, fill="#ffffff", stroke=svg.INK, stroke_width=1.0)
    return circle + svg.text(x, y + 3.5, letter, size=10, text_anchor="middle", font_weight="bold")


def _described(place: Place) -> str:
    return f"{place.name} ({resources_text(place.resources)})"


def _only_place(view: View, tasks: Sequence[int]) -> int:
    """Where some tasks run; -1 if they run in several places."""
    places = {view.place_of[task] for task in tasks}
    return places.pop() if len(places) == 1 else -1


def worker_colour(place: int) -> str:
    """A colour for a worker, grey for several; colours repeat, so a worker's name stands beside it."""
    return svg.PALETTE[place % len(svg.PALETTE)] if place >= 0 else svg.GREY


class _Legend:
    """What colours, lines and marks mean, below the picture."""

    def __init__(self, view: View, grouping: Grouping) -> None:
        self._view = view
        alone = {_only_place(view, tasks) for tasks in grouping.tasks} - {-1}
        self._shown = sorted(alone)[:_MOST_WORKERS]
        self._entries = [
            f"{_described(view.places[place])}: {count(len(view.places[place].tasks), 'task')}" for place in self._shown
        ]
        shown = frozenset(self._shown)
        others = [place for index, place in enumerate(view.places) if place.tasks and index not in shown]
        self._others = Counter(resources_text(place.resources) for place in others)
        self._column = max((svg.text_width(entry) for entry in self._entries), default=0.0) + 48
        self._columns = 3 if len(self._entries) > 6 else 2
        self._rows = -(-len(self._entries) // self._columns)
        notes = list(self._notes())
        widest = max(svg.text_width(words) for _, words in notes) + 40
        self.width = max(self._columns * self._column if self._entries else 0.0, widest)
        self.height = (self._rows + len(notes)) * _LEGEND_LINE

    def _kinds(self) -> list[tuple[str, str]]:
        """The letters of the hints that the plan has, and their names."""
        names = sorted({hint_name(hint) for hints in self._view.plan.hints.values() for hint in hints})
        return [(_MARKS.get(name, _OWN_MARK), name) for name in names]

    def parts(self) -> Iterator[str]:
        """The elements of the legend."""
        for index, (place, entry) in enumerate(zip(self._shown, self._entries, strict=True)):
            x, y = index // self._rows * self._column, index % self._rows * _LEGEND_LINE
            colour = worker_colour(place)
            yield svg.element("rect", x=x, y=y + 3, width=18, height=12, fill=svg.tint(colour, 0.16), stroke=colour)
            yield svg.element("rect", x=x, y=y + 3, width=_BAND, height=12, fill=colour)
            yield svg.text(x + 34, y + 13, entry)
        y = self._rows * _LEGEND_LINE
        for sample, words in self._notes():
            yield svg.element("g", sample, svg.text(34, 4, words), transform=f"translate(0 {y + 9:g})")
            y += _LEGEND_LINE

    def _notes(self) -> Iterator[tuple[str, str]]:
        for resources, number in self._others.items():
            sample = svg.element("rect", x=0, y=-6, width=18, height=12, fill=svg.tint(svg.GREY, 0.5), stroke=svg.GREY)
            yield sample, f"{count(number, 'more worker' if self._shown else 'worker')} ({resources})"
        yield _line("#5c5c5c", 1.3), "output through storage"
        yield _line("#a8a8a8", 1.0), "output on the same worker"
        yield _line(svg.INK, 2.6), "critical path; dashed: waits for its turn on the worker"
        for letter, name in self._kinds():
            yield _mark(9, 0, letter), f"hint: {name}"


def _line(colour: str, width: float) -> str:
    return svg.element("path", d="M0 0H26", stroke=colour, stroke_width=width)
