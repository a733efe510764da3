"""A plan is data: the contract between planning and execution.

For each task it says which worker runs it, with which resources, and which hints optimizations left for the
workers. A task without a worker is *flexible*: workers decide at run time. Beside that stands what was predicted.

Outside of memory a plan is a table of its distinct assignments and, for each task, an index into it: many
tasks share an assignment, and 100,000 of them should not repeat it. Workers get it without what was predicted.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, overload

import msgspec

from augury.config import Resources
from augury.dag.flat import pack, unpack
from augury.dag.graph import Graph
from augury.dag.task import TaskNode
from augury.drawing import Drawing
from augury.errors import DefinitionError, PlanError
from augury.plan.hints import Hint, OwnHint, PreWarmHint
from augury.plan.numbers import mark, spell_out, unmark
from augury.plan.timeline import Simulation

if TYPE_CHECKING:
    from augury.plan.show.explanation import Explanation


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
    spread: int = 0


class _ForWorkers(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What workers need of a plan, in the order of `_Table`, with numbers as in `augury.dag.flat`.

    A plan has perhaps a thousand workers, each of which reads it, and few configurations. `workers` and
    `configurations` are those of distinct assignments: one more than the worker, or 0 for none; and an index.
    """

    fingerprint: str
    planner: str
    resources: tuple[Resources, ...]
    workers: bytes
    configurations: bytes
    tasks: bytes
    hints: dict[int, tuple[Hint, ...]] = {}
    launch: tuple[PreWarmHint, ...] = ()
    ranks: tuple[int, ...] = ()
    policies: dict[str, bytes] = {}
    spread: int = 0

    def places(self) -> "Places":
        """For each task, where it runs.

        Raises:
            ValueError: They refer to what is not there.
        """
        workers, configurations, tasks = unpack(self.workers), unpack(self.configurations), unpack(self.tasks)
        if len(workers) != len(configurations) or max(configurations, default=-1) >= len(self.resources):
            raise ValueError(f"it refers to resources that it does not have; it has {len(self.resources)}")
        if max(tasks, default=-1) >= len(workers):
            raise ValueError(f"it refers to an assignment that it does not have; it has {len(workers)}")
        return Places(workers, configurations, self.resources, tasks)


class Places(NamedTuple):
    """Where tasks run, as columns: a worker looks at few of perhaps a thousand distinct assignments.

    Attributes:
        workers: Of each distinct assignment, one more than the worker, or 0 for none.
        kinds: Of each, which of the resources it has.
        resources: The distinct ones.
        index_of: For each task, which assignment it has.
    """

    workers: Sequence[int]
    kinds: Sequence[int]
    resources: Sequence[Resources]
    index_of: Sequence[int]

    def worker(self, task: int) -> int | None:
        """Which worker must run a task; None: any may."""
        worker = self.workers[self.index_of[task]]
        return worker - 1 if worker else None

    def resources_of(self, task: int) -> Resources:
        """What a worker that runs a task must have."""
        return self.resources[self.kinds[self.index_of[task]]]

    def assignment(self, index: int) -> Assignment:
        """One of the distinct assignments."""
        worker = self.workers[index]
        return Assignment(worker - 1 if worker else None, self.resources[self.kinds[index]])


class _Assignments(Sequence[Assignment]):
    """The assignments of a plan as it was written: each is made when it is first asked for."""

    __slots__ = ("_known", "places")

    def __init__(self, places: Places) -> None:
        self.places = places
        self._known: dict[int, Assignment] = {}

    def __len__(self) -> int:
        return len(self.places.index_of)

    @overload
    def __getitem__(self, task: int) -> Assignment: ...

    @overload
    def __getitem__(self, task: slice) -> Sequence[Assignment]: ...

    def __getitem__(self, task: int | slice) -> Assignment | Sequence[Assignment]:
        if isinstance(task, slice):
            return tuple(self)[task]
        return self._distinct(self.places.index_of[task])

    def __iter__(self) -> Iterator[Assignment]:
        return map(self._distinct, self.places.index_of)

    def _distinct(self, index: int) -> Assignment:
        if index not in self._known:
            self._known[index] = self.places.assignment(index)
        return self._known[index]


_json = msgspec.json.Decoder(_Table)
_json_with_words = msgspec.json.Decoder(_Table, strict=False)
_msgpack = msgspec.msgpack.Decoder(_ForWorkers)

_MOST_WORKERS: Final = 2**63
_UNREADABLE: Final = (msgspec.MsgspecError, DefinitionError, UnicodeError, RecursionError)


def _read_json(text: str | bytes) -> _Table:
    """Strictly, unless infinity or NaN are among the numbers: those are words in JSON."""
    try:
        return _json.decode(text)
    except msgspec.ValidationError:
        if re.search('"(?:-?inf|nan)"', text if isinstance(text, str) else text.decode()) is None:
            raise
        return _json_with_words.decode(text)


def _each_own(
    hints: Mapping[int, tuple[Hint, ...]], change: Callable[[dict[str, Any]], Any]
) -> dict[int, tuple[Hint, ...]]:
    """Hints with what is in those of the user's own optimizations changed."""
    return {
        task: tuple(OwnHint(hint.policy, change(hint.data)) if isinstance(hint, OwnHint) else hint for hint in held)
        for task, held in hints.items()
    }


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
        spread: Among how many workers flexible tasks are shared out before it shows how long they take; then more
            workers take over what others have not come to. 0: among as many as the platform has room for.
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
    spread: int = 0
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

    # What a reader sees is loaded when it is asked for: workers read plans too, and never ask.

    def __str__(self) -> str:
        return cast("str", importlib.import_module("augury.plan.show.table").table(self))

    def __repr__(self) -> str:
        return f"<{importlib.import_module('augury.plan.show.view').title_of(self, self.predicted)}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("planner", self.planner), ("tasks", len(self.assignments))]  # msgspec's own shows every field

    def explain(self, task: "int | str | TaskNode[Any]") -> "Explanation":
        """Why a task stands where it stands, and what would happen elsewhere; `print` it, or read its fields.

        Args:
            task: Its id, its label, such as `resize[3]`, or the task itself.

        Raises:
            PlanError: The plan has no such task.
        """
        return cast("Explanation", importlib.import_module("augury.plan.show.explain").explain(self, task))

    def picture(self) -> Drawing:
        """The workflow as a picture, coloured by worker. Notebooks show it; `save` writes it to a file.

        Raises:
            PlanError: The plan was read from text and does not know its workflow.
        """
        return cast("Drawing", importlib.import_module("augury.plan.show.picture").picture(self))

    def timeline(self) -> Drawing:
        """The predicted run as a picture: a row for each worker. Notebooks show it; `save` writes it to a file.

        Raises:
            PlanError: Nothing was predicted for the plan.
        """
        return cast("Drawing", importlib.import_module("augury.plan.show.gantt").gantt(self))

    def pareto(self) -> "tuple[Plan, ...]":
        """Plans between fast and cheap, this one included if nothing beats it: each is dearer than those after it.

        Looks for them now, with what the plan was made with; each has its `predicted` makespan and cost.

        Raises:
            PlanError: The plan was read from text and does not know what it was made with.
        """
        if self.outlook is None:
            raise PlanError("this plan was read from text: plan the workflow again, then ask for its alternatives")
        found = importlib.import_module("augury.plan.planners.auto").pareto_front(self.outlook, self)
        return tuple([msgspec.structs.replace(one, graph=self.graph, outlook=self.outlook) for one in found])

    def validate(self, graph: Graph) -> None:
        """Refuse a plan that does not fit a workflow.

        Raises:
            PlanError: Says what does not fit.
        """
        self.check_shape(graph)
        resources: dict[int, Resources] = {}
        # Planners hand out the same assignment many times: each is looked at once for each function.
        pairs = zip(map(id, self.assignments), graph.function_of, strict=True)
        for task in sorted(dict(zip(pairs, range(len(graph)), strict=True)).values()):
            assignment = self.assignments[task]
            _validate_memory(graph, task, assignment.resources.memory_mb)
            if assignment.worker is not None:
                _validate_worker(graph, task, assignment.worker, assignment.resources, resources)

    def check_shape(self, graph: Graph) -> None:
        """Refuse a plan for another workflow, as `validate` does, without a look at what each task is given.

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
        if self.spread < 0:
            raise PlanError(f"the plan spreads flexible tasks over {self.spread} workers; that is no number of workers")
        if self.hints and not 0 <= min(self.hints) <= max(self.hints) < len(graph):
            raise PlanError(f"the plan has hints for tasks that the workflow does not have; it has {len(graph)}")
        for task, hints in self.hints.items():
            _validate_hints(graph, task, hints, self.policies)

    def to_json(self) -> str:
        """The plan as JSON; `from_json` reads it back."""
        table = self._table(predicted=self.predicted)
        told = msgspec.structs.replace(table, hints=_each_own(table.hints, mark))
        return msgspec.json.encode(spell_out(msgspec.to_builtins(told))).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Plan":
        """Read a plan that `to_json` wrote.

        Raises:
            PlanError: It is not one.
        """
        try:
            table = _read_json(text)
            return cls._from_table(msgspec.structs.replace(table, hints=_each_own(table.hints, unmark)))
        except _UNREADABLE as error:
            raise PlanError(f"this is not a plan: {error}") from error

    def encode(self) -> bytes:
        """What workers need of the plan, as bytes; `decode` reads it back."""
        places = self.places()
        return msgspec.msgpack.encode(
            _ForWorkers(
                self.fingerprint,
                self.planner,
                tuple(places.resources),
                pack(places.workers),
                pack(places.kinds),
                pack(places.index_of),
                dict(self.hints),
                self.launch,
                self.ranks,
                dict(self.policies),
                self.spread,
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> "Plan":
        """Read a plan that `encode` wrote.

        Raises:
            PlanError: It is not one.
        """
        try:
            read = _msgpack.decode(data)
            return cls(
                fingerprint=read.fingerprint,
                planner=read.planner,
                assignments=cast("tuple[Assignment, ...]", _Assignments(read.places())),  # which they can stand for
                hints=read.hints,
                launch=read.launch,
                ranks=read.ranks,
                policies=read.policies,
                spread=read.spread,
            )
        except (*_UNREADABLE, ValueError) as error:
            raise PlanError(f"these are not the bytes of a plan: {error}") from error

    def places(self) -> Places:
        """Where tasks run, as columns."""
        if isinstance(self.assignments, _Assignments):
            return self.assignments.places
        by_identity: dict[int, int] = {}  # planners hand out the same object many times, and hashing one is slow
        by_value: dict[Assignment, int] = {}
        tasks = []
        for assignment in self.assignments:
            index = by_identity.get(id(assignment))
            if index is None:
                index = by_value.setdefault(assignment, len(by_value))
                by_identity[id(assignment)] = index
            tasks.append(index)
        kind_of: dict[Resources, int] = {}
        kinds = [kind_of.setdefault(one.resources, len(kind_of)) for one in by_value]
        workers = [0 if one.worker is None else one.worker + 1 for one in by_value]
        return Places(workers, kinds, tuple(kind_of), tasks)

    def _table(self, predicted: Simulation | None = None) -> _Table:
        places = self.places()
        return _Table(
            self.fingerprint,
            self.planner,
            tuple(map(places.assignment, range(len(places.workers)))),
            tuple(places.index_of),
            dict(self.hints),
            self.launch,
            self.ranks,
            dict(self.policies),
            predicted,
            self.spread,
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
            spread=table.spread,
            predicted=table.predicted,
        )


def _validate_hints(graph: Graph, task: int, hints: tuple[Hint, ...], policies: Mapping[str, bytes]) -> None:
    for hint in hints:
        if isinstance(hint, OwnHint) and hint.policy not in policies:
            raise PlanError(
                f"{graph.label(task)} has a hint for the policy {hint.policy!r}, which the plan does not carry"
            )


def _validate_memory(graph: Graph, task: int, memory_mb: int) -> None:
    least = graph.info(task).memory_mb
    if least is not None and memory_mb < least:
        raise PlanError(f"{graph.label(task)} needs at least {least} MB and the plan gives it {memory_mb} MB")


def _validate_worker(graph: Graph, task: int, worker: int, own: Resources, known: dict[int, Resources]) -> None:
    if not 0 <= worker < _MOST_WORKERS:
        raise PlanError(f"{graph.label(task)} is on worker {worker}; worker ids are not negative, and below 2**63")
    if known.setdefault(worker, own) != own:
        raise PlanError(
            f"worker {worker} has {known[worker]} and, for {graph.label(task)}, {own}; a worker has one configuration"
        )


def fit_memory(resources: Resources, graph: Graph, tasks: Sequence[int]) -> Resources:
    """These resources, with at least the memory that the tasks were declared to need."""
    functions = {graph.function_of[task] for task in tasks}
    return with_memory(resources, max((graph.functions[function].memory_mb or 0 for function in functions), default=0))


def with_memory(resources: Resources, least_mb: int) -> Resources:
    """These resources, with at least so much memory."""
    return resources if least_mb <= resources.memory_mb else Resources(cpus=resources.cpus, memory_mb=least_mb)
