"""A plan as it is talked about: labels for its tasks, and the places where they run.

A plan that was read from text knows neither its workflow nor what it was predicted from. Everything here works without
them, only that tasks are called by their numbers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.show.words import ANY
from augury.plan.timeline import Simulation, WorkerTimes
from augury.wording import count, plain, seconds

_MOST_NAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where tasks run: one invocation of a worker as it is predicted, or else what the plan says of a worker.

    Attributes:
        name: The worker, as reports call it.
        resources: What it has.
        tasks: The tasks that run there, by when they do.
        times: When it does what; None if that was not predicted.
    """

    name: str
    resources: Resources
    tasks: tuple[int, ...]
    times: WorkerTimes | None = None


class View:
    """A plan with everything that is known about it.

    Args:
        plan: The plan.

    Attributes:
        plan: The plan.
        outlook: What it was made with, if that is known.
        graph: Its workflow, if that is known.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.outlook: Outlook | None = plan.outlook
        self.graph: Graph | None = plan.graph or (self.outlook.graph if self.outlook is not None else None)

    def __len__(self) -> int:
        return len(self.plan.assignments)

    @cached_property
    def predicted(self) -> Simulation | None:
        """The run as it is expected to go; simulated now if that was not done before and can be done."""
        known = self.plan.predicted
        if known is not None and _fits(known, len(self)):
            return known
        try:
            return self.outlook.simulate(self.plan) if self.outlook is not None else None
        except PlanError:
            return None  # it cannot be carried out; whoever tries is told why

    @cached_property
    def places(self) -> Sequence[Place]:
        """Where tasks run."""
        if self.predicted is None:
            return _assigned_places(self.plan)
        timeline = self.predicted.timeline
        tasks: list[list[int]] = [[] for _ in self.predicted.workers]
        for task in sorted(range(len(self)), key=timeline.execute_s.__getitem__):
            if timeline.worker[task] >= 0:
                tasks[timeline.worker[task]].append(task)
        return [
            Place(name=times.name, resources=times.resources, tasks=tuple(held), times=times)
            for times, held in zip(self.predicted.workers, tasks, strict=True)
        ]

    @cached_property
    def place_of(self) -> Sequence[int]:
        """For each task, the index of its place; -1 if it has none."""
        places = [-1] * len(self)
        for index, place in enumerate(self.places):
            for task in place.tasks:
                places[task] = index
        return places

    @cached_property
    def critical(self) -> frozenset[int]:
        """The tasks that decide when the run ends."""
        return frozenset(self.predicted.critical_path if self.predicted is not None else ())

    def label(self, task: int) -> str:
        """How a task is called."""
        return plain(self.graph.label(task)) if self.graph is not None else f"task {task}"

    def function(self, task: int) -> str:
        """How the function of a task is called; the same for all tasks if the workflow is not known."""
        return self._names[self.graph.function_of[task]] if self.graph is not None else "task"

    @cached_property
    def _names(self) -> Sequence[str]:
        return [plain(function.name) for function in self.graph.functions] if self.graph is not None else []

    def summarise(self, tasks: Sequence[int], *, by_name: bool = False) -> str:
        """Tasks by their functions, such as `load[3], resize × 40`.

        Args:
            tasks: The tasks.
            by_name: Whether the only task of a function is called by the function's name rather than by its own.
        """
        if self.graph is None:
            return self.label(tasks[0]) if len(tasks) == 1 else count(len(tasks), "task")
        found = Counter(map(self.function, tasks))
        alone = {} if by_name else {name: "" for name, number in found.items() if number == 1}
        for task in tasks if alone else ():
            if self.function(task) in alone:
                alone[self.function(task)] = self.label(task)
        parts = [f"{name} × {number:,}" if number > 1 else alone.get(name, name) for name, number in found.items()]
        more = len(parts) - _MOST_NAMES
        return ", ".join(parts if more <= 1 else [*parts[:_MOST_NAMES], f"{more:,} more functions"])

    def title(self) -> str:
        """The plan in one line, such as `plan of uniform: 9 tasks on 2 workers, 0.31 s predicted`."""
        return title_of(self.plan, self.predicted)


def title_of(plan: Plan, predicted: Simulation | None) -> str:
    """A plan in one line."""
    planned = {assignment.worker for assignment in plan.assignments}
    flexible = None in planned
    workers = len({times.name for times in predicted.workers}) if predicted is not None else len(planned - {None})
    on = f" on {count(workers, 'worker')}" if workers else ""
    kind = ", flexible" if flexible else ""
    told = f", {seconds(predicted.makespan_s)} predicted" if predicted is not None else ""
    return f"plan of {plain(plan.planner)}: {count(len(plan.assignments), 'task')}{on}{kind}{told}"


def _fits(predicted: Simulation, tasks: int) -> bool:
    """Whether a prediction speaks of so many tasks; one that somebody edited may not."""
    timeline, workers = predicted.timeline, len(predicted.workers)
    columns = (timeline.worker, timeline.ready_s, timeline.start_s, timeline.execute_s, timeline.executed_s)
    return (
        all(len(column) == tasks for column in (*columns, timeline.end_s))
        and all(-1 <= worker < workers for worker in timeline.worker)
        and all(0 <= task < tasks for task in predicted.critical_path)
    )


def _assigned_places(plan: Plan) -> list[Place]:
    tasks: dict[tuple[int | None, Resources], list[int]] = {}
    for task, assignment in enumerate(plan.assignments):
        tasks.setdefault((assignment.worker, assignment.resources), []).append(task)
    return [
        Place(name=ANY if worker is None else f"w{worker}", resources=resources, tasks=tuple(held))
        for (worker, resources), held in tasks.items()
    ]
