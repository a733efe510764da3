"""Random workflows and plans for property tests, and what a workflow must come to.

    @given(workflows(), st.data())
    def test_anything_computes_what_one_process_would(outputs, data):
        workflow = build_workflow(outputs)
        plan = data.draw(plans(workflow.graph))
        assert same(run_somehow(workflow, plan), evaluate(outputs))

Every task depends on all that it was given, down to the last byte, so a wrong or missing input anywhere
changes what comes out at the end.
"""

import dataclasses
import zlib
from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from msgspec import structs

from augury.config import Resources
from augury.dag.graph import Graph
from augury.dag.task import Function, TaskNode, TaskOptions
from augury.plan.hints import Hint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.plan import Assignment, Plan

# ── what tasks do ──────────────────────────────────────────────────────────────────────────────────────────────


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    content: Any
    tag: int = 0


def digest(value: Any) -> int:
    """A number that depends on all of a value: its types, its order, every byte of its arrays."""
    kind = type(value).__name__
    if isinstance(value, dict):
        parts = sorted((digest(key), digest(item)) for key, item in value.items())
    elif isinstance(value, set | frozenset):
        parts = sorted((digest(item), 0) for item in value)
    elif isinstance(value, list | tuple) and len(value) < 1000:
        parts = [(digest(item), 0) for item in value]
    elif isinstance(value, Box):
        parts = [(digest(value.content), value.tag)]
    elif isinstance(value, np.ndarray):
        return zlib.crc32(f"{kind}{value.dtype}{value.shape}".encode() + value.tobytes())
    else:
        return zlib.crc32(kind.encode() + (value if isinstance(value, bytes) else repr(value).encode()))
    return zlib.crc32(f"{kind}{parts}".encode())


def same(left: Any, right: Any) -> bool:
    """Whether two results are equal, arrays included."""
    return digest(left) == digest(right)


def number(*args: Any, **kwargs: Any) -> int:
    return digest((args, kwargs))


def text(*args: Any, **kwargs: Any) -> str:
    return f"text {digest((args, kwargs))}"


def few_bytes(*args: Any, **kwargs: Any) -> bytes:
    return digest((args, kwargs)).to_bytes(4, "little") * 10


def many_bytes(*args: Any, **kwargs: Any) -> bytes:
    return digest((args, kwargs)).to_bytes(4, "little") * 20_000


def pair(*args: Any, **kwargs: Any) -> Pair:
    return Pair(digest(args), digest(kwargs))


def listing(*args: Any, **kwargs: Any) -> list[Any]:
    return [len(args), {"digest": digest((args, kwargs))}]


def array(*args: Any, **kwargs: Any) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return np.arange(100, dtype=np.int64).reshape(10, 10) + digest((args, kwargs))


def large_array(*args: Any, **kwargs: Any) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return np.arange(10_000, dtype=np.int64) + digest((args, kwargs))


HASHABLE: tuple[Callable[..., Any], ...] = (number, text, few_bytes, many_bytes, pair)
FUNCTIONS = {
    fn: Function(fn, TaskOptions()) for fn in (number, text, few_bytes, many_bytes, pair, listing, array, large_array)
}
LARGE_CONSTANTS: tuple[Any, ...] = (
    b"constant" * 10_000,
    np.arange(20_000, dtype=np.float64),
    list(range(40_000)),
    {"name": "x" * 70_000},
)


def call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> TaskNode[Any]:
    """A task of one of the functions here."""
    return TaskNode(FUNCTIONS[fn], args, kwargs)


# ── what a workflow must come to ───────────────────────────────────────────────────────────────────────────────


def evaluate(outputs: Any) -> Any:
    """Run a workflow in this process, one task after the other: no recursion over its depth, nothing of the engine."""
    results: dict[int, Any] = {}
    for node in _reachable(outputs):
        args = [_substitute(value, results) for value in node.args]
        kwargs = {name: _substitute(value, results) for name, value in node.kwargs.items()}
        results[id(node)] = node.function.fn(*args, **kwargs)
    return _substitute(outputs, results)


def _reachable(outputs: Any) -> list[TaskNode[Any]]:
    found: dict[int, TaskNode[Any]] = {}
    pending = _tasks(outputs)
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            pending += _tasks([*node.args, *node.kwargs.values()])
    return sorted(found.values(), key=lambda node: node.order)


def _tasks(value: Any) -> list[TaskNode[Any]]:
    if isinstance(value, TaskNode):
        return [value]
    if isinstance(value, dict):
        return _tasks([*value.keys(), *value.values()])
    if isinstance(value, list | tuple | set | frozenset):
        return [task for item in value for task in _tasks(item)]
    return _tasks(value.content) if isinstance(value, Box) else []


def _substitute(value: Any, results: dict[int, Any]) -> Any:
    if isinstance(value, TaskNode):
        return results[id(value)]
    if isinstance(value, dict):
        return {_substitute(key, results): _substitute(item, results) for key, item in value.items()}
    if isinstance(value, Pair):
        return Pair(*(_substitute(item, results) for item in value))
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_substitute(item, results) for item in value)
    return Box(_substitute(value.content, results), value.tag) if isinstance(value, Box) else value


# ── random workflows ───────────────────────────────────────────────────────────────────────────────────────────

Deps = list[list[int]]
"""For each task the earlier tasks that it takes."""


def _chain(draw: st.DrawFn, size: int) -> Deps:
    return [[task - 1] if task else [] for task in range(size)]


def _fan_out(draw: st.DrawFn, size: int) -> Deps:
    return [[0] if task else [] for task in range(size)]


def _fan_in(draw: st.DrawFn, size: int) -> Deps:
    return [list(range(task)) if task == size - 1 else [] for task in range(size)]


def _diamonds(draw: st.DrawFn, size: int) -> Deps:
    """0 → 1, 2 → 3 → 4, 5 → 6 …"""
    return [[[task - 2, task - 1], [task - 1], [task - 2]][task % 3] if task else [] for task in range(size)]


def _tree(draw: st.DrawFn, size: int) -> Deps:
    """A reduction by two."""
    leaves = size // 2 + 1
    return [[] if task < leaves else [2 * (task - leaves), 2 * (task - leaves) + 1] for task in range(size)]


def _layers(draw: st.DrawFn, size: int) -> Deps:
    width = draw(st.integers(1, 5))
    deps: Deps = []
    for task in range(size):
        start = (task // width - 1) * width
        layer = list(range(start, start + width)) if start >= 0 else []
        deps.append(draw(st.lists(st.sampled_from(layer), unique=True)) if layer else [])
    return deps


def _anything(draw: st.DrawFn, size: int) -> Deps:
    return [draw(st.lists(st.integers(0, task - 1), unique=True, max_size=4)) if task else [] for task in range(size)]


_SHAPES = (_chain, _fan_out, _fan_in, _diamonds, _tree, _layers, _anything)


@st.composite
def workflows(draw: st.DrawFn, max_tasks: int = 16) -> Any:
    """Tasks of a random DAG, alone or in a container: what a user would compute."""
    shape = draw(st.sampled_from(_SHAPES))
    deps = shape(draw, draw(st.integers(1, max_tasks)))
    nodes: list[TaskNode[Any]] = []
    for needed in deps:
        fn = draw(st.sampled_from(list(FUNCTIONS)))
        args, kwargs = draw(_arguments([nodes[task] for task in needed]))
        nodes.append(call(fn, *args, **kwargs))
    taken = {task for needed in deps for task in needed}
    asked = [node for task, node in enumerate(nodes) if task not in taken or draw(st.integers(0, 9)) == 0]
    if len(asked) == 1 and draw(st.booleans()):
        return asked[0]
    return draw(st.sampled_from(_COLLECTIONS))(asked)


def _as_dict(nodes: Sequence[TaskNode[Any]]) -> dict[str, TaskNode[Any]]:
    return {f"output {index}": node for index, node in enumerate(nodes)}


_COLLECTIONS: list[Callable[[list[TaskNode[Any]]], Any]] = [list, tuple, _as_dict]


@st.composite
def _arguments(draw: st.DrawFn, tasks: list[TaskNode[Any]]) -> tuple[list[Any], dict[str, Any]]:
    items = draw(st.permutations([*tasks, *draw(st.lists(_payloads, max_size=2))]))
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    if len(items) > 2 and draw(st.booleans()):
        items = [list(items)]  # all in one container, as a reduction takes them
    for index, item in enumerate(items):
        value = draw(_nested(item))
        if draw(st.booleans()):
            args.append(value)
        else:
            kwargs[f"argument_{index}"] = value
    return args, kwargs


_small = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=20), st.none(), st.booleans()
)
_flat = st.one_of(
    _small, st.lists(_small, max_size=4), st.tuples(_small, _small), st.dictionaries(st.text(max_size=3), _small)
)
_arrays = st.builds(lambda length: np.arange(length, dtype=np.float32), st.integers(0, 50))
_payloads = st.one_of(_flat, _flat, _flat, _arrays, st.builds(Box, _small), st.sampled_from(LARGE_CONSTANTS))


@st.composite
def _nested(draw: st.DrawFn, item: Any) -> Any:
    """An argument with the item somewhere inside."""
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        wrappers = [*_ANY, *_FOR_HASHABLE] if _will_be_hashable(item) else _ANY
        item = draw(st.sampled_from(wrappers))(item)
    return item


_ANY: list[Callable[[Any], Any]] = [
    lambda item: [item],
    lambda item: [1, item, "beside"],
    lambda item: (item,),
    lambda item: (b"beside", item),
    lambda item: {"key": item, "other": [1, [2]]},
    lambda item: Box(item, 3),
    lambda item: Pair({"beside": 1}, item),
    lambda item: [item, item],
]
_FOR_HASHABLE: list[Callable[[Any], Any]] = [
    lambda item: {item},
    lambda item: frozenset([item, "beside"]),
    lambda item: {item: "value"},
]


def _will_be_hashable(item: Any) -> bool:
    """Whether a value can be in a set, now and when outputs stand for its tasks."""
    if isinstance(item, TaskNode):
        return item.function.fn in HASHABLE
    if isinstance(item, tuple | frozenset):
        return all(map(_will_be_hashable, item))
    if isinstance(item, Box):
        return _will_be_hashable(item.content)
    return isinstance(item, Hashable)


# ── random plans ───────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def plans(draw: st.DrawFn, graph: Graph) -> Plan:
    """A valid plan: few workers or many, of different sizes, with flexible tasks among the planned ones."""
    workers = draw(st.sampled_from([1, 2, 3, len(graph)]))
    resources = [draw(_resources(graph)) for _ in range(workers)]
    flexible = draw(_resources(graph))
    flexible_of_ten = draw(st.sampled_from([0, 0, 3, 7, 10]))

    def assignment() -> Assignment:
        if draw(st.integers(1, 10)) <= flexible_of_ten:
            return Assignment(worker=None, resources=flexible)
        worker = draw(st.integers(0, workers - 1))
        return Assignment(worker=worker, resources=resources[worker])

    return Plan(
        fingerprint=graph.fingerprint,
        planner="random",
        assignments=tuple(assignment() for _ in range(len(graph))),
    )


def _resources(graph: Graph) -> st.SearchStrategy[Resources]:
    least_mb = max((info.memory_mb or 1 for info in graph.functions), default=1)
    return st.builds(
        Resources,
        cpus=st.sampled_from([1, 2, 3]),
        memory_mb=st.sampled_from([128, 512]).map(lambda mb: max(mb, least_mb)),
    )


# ── random hints ───────────────────────────────────────────────────────────────────────────────────────────────

_AFTER_S = (0.0, 0.0, 0.0004, 0.3)


@st.composite
def hinted_plans(draw: st.DrawFn, graph: Graph) -> Plan:
    """A valid plan with hints of any of the built-in kinds for any tasks, useful or not; perhaps with ranks."""
    plan = draw(plans(graph))
    kinds = [kind for kind in (_pre_warm, _pre_load, _task_dup) if draw(st.booleans())]
    hinted_of_ten = draw(st.sampled_from([2, 5, 10]))
    rng = draw(st.randoms(use_true_random=False))
    resources = sorted({assignment.resources for assignment in plan.assignments})
    hints: dict[int, tuple[Hint, ...]] = {}
    for task in range(len(graph)):
        hints[task] = tuple(kind(rng, resources) for kind in kinds if rng.randint(1, 10) <= hinted_of_ten)
    return structs.replace(
        plan,
        hints={task: some for task, some in hints.items() if some},
        launch=tuple(_pre_warm(rng, resources) for _ in range(rng.choice([0, 1, 3]))) if _pre_warm in kinds else (),
        ranks=tuple(rng.randint(0, len(graph)) for _ in range(len(graph))) if draw(st.booleans()) else (),
    )


def _pre_warm(rng: Random, resources: Sequence[Resources]) -> PreWarmHint:
    return PreWarmHint(rng.choice(resources), rng.choice([1, 1, 3]), rng.choice(_AFTER_S))


def _pre_load(rng: Random, resources: Sequence[Resources]) -> PreLoadHint:
    return PreLoadHint()


def _task_dup(rng: Random, resources: Sequence[Resources]) -> TaskDupHint:
    return TaskDupHint(produce_s=rng.choice((0.0, 0.0003, 0.1)), arrives_s=rng.choice((0.0, 0.0005, 0.2, 10.0)))
