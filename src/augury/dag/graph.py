"""The immutable graph behind a run: what planners, workers and the simulator know of a workflow.

Tasks have dense integer ids in topological order (the order in which they were defined), so everything
about them fits into lists. A graph holds structure only; code and arguments are in `program`.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, cast

import msgspec

from augury.dag.flat import Rows, pack, pack_rows, unpack, unpack_rows
from augury.dag.refs import ATOMS, Ref, lower, tasks_in
from augury.dag.task import Function, TaskNode, exception_name
from augury.errors import DefinitionError, SerializationError


class FunctionInfo(msgspec.Struct, frozen=True, array_like=True):
    """What the graph knows of a function: its name, its code's version and what its tasks demand."""

    name: str
    version: str
    retries: int = 0
    timeout_s: float | None = None
    memory_mb: int | None = None
    backoff_s: float = 0.0
    retry_on: tuple[str, ...] = (exception_name(Exception),)
    cache_s: float = 0.0


class Graph(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The structure of a workflow; a value that travels.

    Attributes:
        functions: The distinct functions of the workflow.
        function_of: For each task, the index of its function.
        deps: For each task, the tasks whose outputs it takes: ascending, without repeats, all smaller ids.
        sinks: The tasks whose outputs the user asked for; ascending, without repeats.
    """

    functions: tuple[FunctionInfo, ...]
    function_of: tuple[int, ...]
    deps: tuple[tuple[int, ...], ...]
    sinks: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.deps)

    @cached_property
    def dependents(self) -> tuple[tuple[int, ...], ...]:
        """For each task, the tasks that take its output; ascending."""
        dependents: list[list[int]] = [[] for _ in self.deps]
        for task, deps in enumerate(self.deps):
            for dep in deps:
                dependents[dep].append(task)
        return tuple(map(tuple, dependents))

    @cached_property
    def sink_set(self) -> frozenset[int]:
        """The sinks, for membership tests."""
        return frozenset(self.sinks)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """The tasks that depend on nothing."""
        return tuple(task for task, deps in enumerate(self.deps) if not deps)

    @cached_property
    def _index_of(self) -> tuple[int, ...]:
        """For each task, how many earlier tasks have the same name."""
        first = {function.name: index for index, function in reversed(list(enumerate(self.functions)))}
        alike = [first[function.name] for function in self.functions]
        seen = [0] * len(self.functions)
        indices = []
        for function in self.function_of:
            indices.append(seen[alike[function]])
            seen[alike[function]] += 1
        return tuple(indices)

    def label(self, task: int) -> str:
        """A readable name, such as `resize[3]`."""
        return f"{self.info(task).name}[{self._index_of[task]}]"

    def id_of(self, node: TaskNode[Any]) -> int | None:
        """The id of a call of the user's, in the process where the workflow was built; None if it is not of it."""
        orders: Sequence[int] = self.__dict__.get("orders", ())
        place = bisect_left(orders, node.order)
        return place if place < len(orders) and orders[place] == node.order else None

    def info(self, task: int) -> FunctionInfo:
        """What is known of the function that a task calls."""
        return self.functions[self.function_of[task]]

    @cached_property
    def fingerprint(self) -> str:
        """Equal for workflows of the same functions and the same structure, whatever their data."""
        shape = (tuple(f.version for f in self.functions), self.function_of, self.deps, self.sinks)
        return hashlib.blake2b(msgspec.msgpack.encode(shape), digest_size=16).hexdigest()

    def encode(self) -> bytes:
        """The graph as bytes, with what follows from it; `decode` reads it back."""
        written = _Written(
            self.functions,
            pack(self.function_of),
            pack_rows(self.deps),
            pack_rows(self.dependents),
            self.sinks,
            self.fingerprint,
        )
        return msgspec.msgpack.encode(written)

    @classmethod
    def decode(cls, data: bytes, *, piecemeal: bool = False) -> "Graph":
        """Read a graph that `encode` wrote.

        Args:
            data: What it wrote.
            piecemeal: Whether few of its tasks will be looked at: what is known of each is then read when it is asked
                for.

        Raises:
            SerializationError: It is not one.
        """
        try:
            written = _decoder.decode(data)
            function_of, deps, dependents = written.read()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise SerializationError(f"these are not the bytes of a graph: {error}") from error
        if piecemeal:  # the types are those of whole graphs, which these can stand for
            graph = cls(written.functions, cast("Any", function_of), cast("Any", deps), written.sinks)
        else:
            graph = cls(written.functions, tuple(function_of), tuple(iter(deps)), written.sinks)
        known = vars(graph)
        known["dependents"] = dependents if piecemeal else tuple(iter(dependents))
        known["fingerprint"] = written.fingerprint
        return graph

    def chain_to_sink(self, task: int) -> tuple[int, ...]:
        """The tasks that lead from a task to a sink: each one needs the one before it."""
        chain = [task]
        while self.dependents[chain[-1]] and len(chain) < len(self):
            chain.append(self.dependents[chain[-1]][0])
        return tuple(chain)


class _Written(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A graph as it is written: see `augury.dag.flat`."""

    functions: tuple[FunctionInfo, ...]
    function_of: bytes
    deps: tuple[bytes, bytes]
    dependents: tuple[bytes, bytes]
    sinks: tuple[int, ...]
    fingerprint: str

    def read(self) -> tuple[Sequence[int], Rows, Rows]:
        """For each task its function, what it takes, and what takes its output.

        Raises:
            ValueError: They do not go together.
        """
        function_of, deps, dependents = unpack(self.function_of), unpack_rows(self.deps), unpack_rows(self.dependents)
        if not len(function_of) == len(deps) == len(dependents):
            raise ValueError("there are not as many of one thing as of another")
        return function_of, deps, dependents


_decoder = msgspec.msgpack.Decoder(_Written)


class Workflow(NamedTuple):
    """A graph with the calls it was built from, on the machine where they were defined.

    Attributes:
        graph: The structure.
        nodes: For each task, the call.
        functions: The functions, in the order of `graph.functions`.
        ids: The id of each node, by its identity.
        template: What the user asked for, with a `Ref` for each task in it.
    """

    graph: Graph
    nodes: Sequence[TaskNode[Any]]
    functions: Sequence[Function]
    ids: dict[int, int]
    template: Any


def build_workflow(outputs: Any) -> Workflow:
    """The workflow behind any nesting of tasks.

    Raises:
        DefinitionError: There is no task in it, or the arguments of one do not form a DAG.
    """
    asked = tasks_in(outputs)
    if not asked:
        raise DefinitionError("nothing to compute: there is no task in what was given")
    nodes, needs = _reach(asked)
    ids = {id(node): index for index, node in enumerate(nodes)}
    functions, function_of = _number_functions(nodes)
    graph = Graph(
        functions=tuple(_info(function) for function in functions),
        function_of=function_of,
        deps=_number_needs(nodes, needs, ids),
        sinks=tuple(sorted({ids[id(task)] for task in asked})),
    )
    graph.__dict__["orders"] = [node.order for node in nodes]  # for `id_of`; as caches, it does not travel
    template, _ = lower(outputs, lambda task: Ref(ids[id(task)]), lambda part: part)
    return Workflow(graph, nodes, functions, ids, template)


_Needs = dict[int, list[TaskNode[Any]]]
"""What tasks take, by the identity of the task; tasks that take nothing are left out."""


def _reach(asked: Sequence[TaskNode[Any]]) -> tuple[list[TaskNode[Any]], _Needs]:
    """Every task that the asked ones need, in topological order, and what each takes; no recursion over depth."""
    found: dict[int, TaskNode[Any]] = {}
    needs: _Needs = {}
    within: dict[int, list[TaskNode[Any]]] = {}  # by argument: one that many tasks share is searched once
    pending = list(asked)
    while pending:
        node = pending.pop()
        key = id(node)
        if key in found:
            continue
        found[key] = node
        taken: list[TaskNode[Any]] = []
        for value in (*node.args, *node.kwargs.values()) if node.kwargs else node.args:
            if type(value) in ATOMS:
                continue
            if isinstance(value, TaskNode):
                taken.append(value)
                continue
            if id(value) not in within:
                within[id(value)] = tasks_in(value)
            taken += within[id(value)]
        if taken:
            needs[key] = taken
            pending += taken
    return sorted(found.values(), key=attrgetter("order")), needs


def _number_functions(nodes: Sequence[TaskNode[Any]]) -> tuple[list[Function], tuple[int, ...]]:
    """The distinct functions in the order of their first use, and for each task the index of its own."""
    indices: dict[int, int] = {}
    functions: list[Function] = []
    function_of = []
    for node in nodes:
        index = indices.setdefault(id(node.function), len(functions))
        if index == len(functions):
            functions.append(node.function)
        function_of.append(index)
    return functions, tuple(function_of)


def _number_needs(nodes: Sequence[TaskNode[Any]], needs: _Needs, ids: dict[int, int]) -> tuple[tuple[int, ...], ...]:
    deps: list[tuple[int, ...]] = [()] * len(nodes)
    for key, taken in needs.items():
        task = ids[key]
        deps[task] = tuple(sorted({ids[id(need)] for need in taken}))
        if deps[task][-1] >= task:
            raise DefinitionError(
                f"an argument of {nodes[task].function.name} was changed after the call: it now holds a task that was "
                "made later; build the argument first, then call"
            )
    return tuple(deps)


def _info(function: Function) -> FunctionInfo:
    options = function.options
    return FunctionInfo(
        name=function.name,
        version=function.version(),
        retries=options.retries,
        timeout_s=options.timeout_s,
        memory_mb=options.memory_mb,
        backoff_s=options.backoff_s,
        retry_on=tuple(map(exception_name, options.retry_on)),
        cache_s=options.cache.expires_s if options.cache is not None else 0.0,
    )
