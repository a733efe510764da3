"""A plan is data: the contract between planning and execution.

For each task it says which worker runs it, with which resources, and which hints optimizations left for the
workers. A task without a worker is *flexible*: workers decide at run time.

Outside of memory a plan is a table of its distinct assignments and, for each task, an index into it: many
tasks share an assignment, and 100,000 of them should not repeat it.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import DefinitionError, PlanError


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


_json = msgspec.json.Decoder(_Table)
_msgpack = msgspec.msgpack.Decoder(_Table)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Task → worker and resources, for one workflow.

    Attributes:
        fingerprint: Of the workflow that it was made for.
        planner: The name of what made it.
        assignments: For each task, where it runs.
    """

    fingerprint: str
    planner: str
    assignments: tuple[Assignment, ...]

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
        resources: dict[int, Resources] = {}
        for task, assignment in enumerate(self.assignments):
            _validate_memory(graph, task, assignment.resources.memory_mb)
            if assignment.worker is not None:
                _validate_worker(graph, task, assignment.worker, assignment.resources, resources)

    def to_json(self) -> str:
        """The plan as JSON; `from_json` reads it back."""
        return msgspec.json.encode(self._table()).decode()

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
        """The plan as bytes; `decode` reads it back."""
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

    def _table(self) -> _Table:
        by_identity: dict[int, int] = {}  # planners hand out the same object many times, and hashing one is slow
        by_value: dict[Assignment, int] = {}
        tasks = []
        for assignment in self.assignments:
            index = by_identity.get(id(assignment))
            if index is None:
                index = by_value.setdefault(assignment, len(by_value))
                by_identity[id(assignment)] = index
            tasks.append(index)
        return _Table(self.fingerprint, self.planner, tuple(by_value), tuple(tasks))

    @classmethod
    def _from_table(cls, table: _Table) -> "Plan":
        if table.tasks and not 0 <= min(table.tasks) <= max(table.tasks) < len(table.assignments):
            raise PlanError(f"the plan refers to an assignment that it does not have; it has {len(table.assignments)}")
        return cls(
            fingerprint=table.fingerprint,
            planner=table.planner,
            assignments=tuple(map(table.assignments.__getitem__, table.tasks)),
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


class Planner(Protocol):
    """What makes plans. Implement this to bring your own."""

    @property
    def name(self) -> str:
        """How reports and records call it."""
        ...

    def plan(self, graph: Graph) -> Plan:
        """Assign every task of a workflow.

        Args:
            graph: The workflow. Ids are dense and topological; `graph.info(task).memory_mb` is the least
                memory that a task needs.
        """
        ...


def fit_memory(resources: Resources, graph: Graph, tasks: Sequence[int]) -> Resources:
    """These resources, with at least the memory that the tasks were declared to need."""
    functions = {graph.function_of[task] for task in tasks}
    least = max((graph.functions[function].memory_mb or 0 for function in functions), default=0)
    return resources if least <= resources.memory_mb else Resources(cpus=resources.cpus, memory_mb=least)
