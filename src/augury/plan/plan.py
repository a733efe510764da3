"""A plan is data: the contract between planning and execution.

For each task it says which worker runs it, with which resources, and which hints optimizations left for the
workers. A task without a worker is *flexible*: workers decide at run time. Beside that stands what was predicted.

Outside of memory a plan is a table of its distinct assignments and, for each task, an index into it: many
tasks share an assignment, and 100,000 of them should not repeat it. Workers get it without what was predicted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import DefinitionError, PlanError
from augury.plan.hints import Hint, PreWarmHint
from augury.plan.timeline import Simulation


class Assignment(msgspec.Struct, frozen=True):
    """Where one task runs.

    Attributes:
        worker: The worker that must run it, or None: any worker may.
        resources: What a worker that runs it must have.
    """

    worker: int | None = None
    resources: Resources = Resources()


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan as it is written: `assignments` are distinct, `tasks` holds an index into them for each task."""

    fingerprint: str
    planner: str
    assignments: tuple[Assignment, ...]
    tasks: tuple[int, ...]
    hints: dict[int, tuple[Hint, ...]] = {}
    launch: tuple[PreWarmHint, ...] = ()
    ranks: tuple[int, ...] = ()
    policies: dict[str, bytes] = {}
    predicted: Simulation | None = None


_json = msgspec.json.Decoder(_Table)
_msgpack = msgspec.msgpack.Decoder(_Table)


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Task → worker, resources and hints, for one workflow; and what was predicted.

    Attributes:
        fingerprint: Of the workflow that it was made for.
        planner: The name of what made it.
        assignments: For each task, where it runs.
        hints: What optimizations ask of workers, by task.
        launch: What the client has started beside the first workers.
        ranks: For each task its place among those that are ready on its worker: lower ones first. Empty: first
            ready, first run.
        policies: What interprets hints of the user's own optimizations, by name; pickled.
        predicted: The run as it was expected to go; None if nobody asked.
        graph: The workflow, for labels. It is not written, nor is `outlook`: the `Outlook` that the plan was made
            with, for questions about it.
    """

    fingerprint: str
    planner: str
    assignments: tuple[Assignment, ...]
    hints: Mapping[int, tuple[Hint, ...]] = {}
    launch: tuple[PreWarmHint, ...] = ()
    ranks: tuple[int, ...] = ()
    policies: Mapping[str, bytes] = {}
    predicted: Simulation | None = None
    graph: Graph | None = None
    outlook: Any = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        mine, others = self._table(self.predicted), other._table(other.predicted)
        return mine == others

    def __hash__(self) -> int:
        return hash((self.fingerprint, self.planner, self.assignments))

    def validate(self, graph: Graph) -> None:
        """Refuse a plan that does not fit a workflow.

        Raises:
            PlanError: Says what does not fit.
        """
        if self.fingerprint != graph.fingerprint:
            raise PlanError(
                f"this plan ({self.planner}) was made for another workflow "
                f"({self.fingerprint[:8]}, not {graph.fingerprint[:8]}); plan again"
            )
        if len(self.assignments) != len(graph):
            raise PlanError(f"the plan has {len(self.assignments)} assignments for {len(graph)} tasks")
        if self.ranks and len(self.ranks) != len(graph):
            raise PlanError(f"the plan has {len(self.ranks)} ranks for {len(graph)} tasks")
        if self.hints and not 0 <= min(self.hints) <= max(self.hints) < len(graph):
            raise PlanError(f"the plan has hints for tasks that the workflow does not have; it has {len(graph)}")
        resources: dict[int, Resources] = {}
        for task, assignment in enumerate(self.assignments):
            _validate_memory(graph, task, assignment.resources.memory_mb)
            if assignment.worker is not None:
                _validate_worker(graph, task, assignment.worker, assignment.resources, resources)

    def to_json(self) -> str:
        """The plan as JSON; `from_json` reads it back."""
        return msgspec.json.encode(self._table(predicted=self.predicted)).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Plan":
        """Read a plan that `to_json` wrote.

        Raises:
            PlanError: It is not one.
        """
        try:
            return cls._from_table(_json.decode(text))
        except (msgspec.MsgspecError, DefinitionError, UnicodeDecodeError) as error:
            raise PlanError(f"this is not a plan: {error}") from error

    def encode(self) -> bytes:
        """What workers need of the plan, as bytes; `decode` reads it back."""
        return msgspec.msgpack.encode(self._table())

    @classmethod
    def decode(cls, data: bytes) -> "Plan":
        """Read a plan that `encode` wrote.

        Raises:
            PlanError: It is not one.
        """
        try:
            return cls._from_table(_msgpack.decode(data))
        except (msgspec.MsgspecError, DefinitionError, UnicodeDecodeError) as error:
            raise PlanError(f"these are not the bytes of a plan: {error}") from error

    def _table(self, predicted: Simulation | None = None) -> _Table:
        by_identity: dict[int, int] = {}  # planners hand out the same object many times, and hashing one is slow
        by_value: dict[Assignment, int] = {}
        tasks = []
        for assignment in self.assignments:
            index = by_identity.get(id(assignment))
            if index is None:
                index = by_value.setdefault(assignment, len(by_value))
                by_identity[id(assignment)] = index
            tasks.append(index)
        return _Table(
            self.fingerprint,
            self.planner,
            tuple(by_value),
            tuple(tasks),
            dict(self.hints),
            self.launch,
            self.ranks,
            dict(self.policies),
            predicted,
        )

    @classmethod
    def _from_table(cls, table: _Table) -> "Plan":
        if table.tasks and not 0 <= min(table.tasks) <= max(table.tasks) < len(table.assignments):
            raise PlanError(f"the plan refers to an assignment that it does not have; it has {len(table.assignments)}")
        return cls(
            fingerprint=table.fingerprint,
            planner=table.planner,
            assignments=tuple(map(table.assignments.__getitem__, table.tasks)),
            hints=table.hints,
            launch=table.launch,
            ranks=table.ranks,
            policies=table.policies,
            predicted=table.predicted,
        )


def _validate_memory(graph: Graph, task: int, memory_mb: int) -> None:
    least = graph.info(task).memory_mb
    if least is not None and memory_mb < least:
        raise PlanError(f"{graph.label(task)} needs at least {least} MB and the plan gives it {memory_mb} MB")


def _validate_worker(graph: Graph, task: int, worker: int, own: Resources, known: dict[int, Resources]) -> None:
    if worker < 0:
        raise PlanError(f"{graph.label(task)} is on worker {worker}; worker ids are not negative")
    if known.setdefault(worker, own) != own:
        raise PlanError(
            f"worker {worker} has {known[worker]} and, for {graph.label(task)}, {own}; a worker has one configuration"
        )


def fit_memory(resources: Resources, graph: Graph, tasks: Sequence[int]) -> Resources:
    """These resources, with at least the memory that the tasks were declared to need."""
    functions = {graph.function_of[task] for task in tasks}
    least = max((graph.functions[function].memory_mb or 0 for function in functions), default=0)
    return resources if least <= resources.memory_mb else Resources(cpus=resources.cpus, memory_mb=least)
