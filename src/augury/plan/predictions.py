"""What a planner is told of the tasks of a workflow: how long they run, what they give, how much memory they need.

`Predictions` is the protocol; `FixedPredictions` is the one that is written by hand, for what-if questions and for
tests. The one that learns from history is in `augury.predict.workflow`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from augury.config import LARGEST_FLOAT, Resources, but_not, is_number, is_whole
from augury.dag.graph import Graph
from augury.errors import DefinitionError
from augury.predict.sla import SLA


class Predictions(Protocol):
    """What is expected of the tasks of a workflow. Implementations answer for every task at once.

    They may also have `cpu_share(graph)`: for each task, which part of its run time it needs a processor, from 0 to 1.
    It matters where workers share processors. Without it no task is taken to need any.
    """

    def execution_s(self, graph: Graph, resources: Resources) -> Sequence[float]:
        """For each task, how many seconds it runs with these resources."""
        ...

    def output_bytes(self, graph: Graph) -> Sequence[float]:
        """For each task, the size of its output."""
        ...

    def peak_mb(self, graph: Graph) -> Sequence[float]:
        """For each task, the memory in MiB that it needs; 0 if nothing is known."""
        ...

    def evidence(self, graph: Graph) -> "Sequence[Evidence]":
        """For each function of the graph, what the predictions rest on."""
        ...

    def at(self, sla: SLA) -> "Predictions":
        """The same with another degree of caution; itself, if it knows only one."""
        ...


class Evidence(Protocol):
    """What the prediction of a function's run time rests on; an `Estimate` is one."""

    @property
    def n(self) -> int:
        """How many measurements."""
        ...

    @property
    def basis(self) -> str:
        """In words."""
        ...


BY_HAND: Final = "given by hand"
"""What a prediction rests on that nobody measured, and somebody knows."""


class _ByHand:
    n = 0
    basis = BY_HAND


PerMemory = float | Mapping[int, float]
"""A number, or one for each memory size in MiB; between two sizes the smaller one's counts."""

Seconds = float | Mapping[int | str, PerMemory] | Callable[[int, Resources], float]
Amounts = float | Mapping[int | str, float] | Callable[[int], float]


class FixedPredictions:
    """Predictions written by hand.

    Args:
        seconds: How long tasks run: one number for all; by task id, label or function name, each a number or a
            mapping from memory in MiB to a number; or a function of the task's id and the resources.
        output_bytes: How large outputs are: one number, by task id, label or function name, or a function of the id.
        peak_mb: How much memory tasks need, likewise; 0 is nothing known.
        cpu_share: Which part of their run time tasks compute rather than wait, likewise.

    What a mapping leaves out is 0.

    Example:
        >>> from augury import FixedPredictions, PlatformModel, UniformPlanner, task
        >>> @task
        ... def load(x: int) -> int:
        ...     return x
        >>> by_hand = FixedPredictions({"load": {1024: 8.0, 2048: 4.0}}, output_bytes=1e6)
        >>> plan = load(load(1)).plan(planner=UniformPlanner(), predictions=by_hand, platform=PlatformModel())
        >>> round(plan.predicted.makespan_s)
        8
    """

    def __init__(
        self, seconds: Seconds = 0.0, output_bytes: Amounts = 0.0, peak_mb: Amounts = 0.0, cpu_share: Amounts = 0.0
    ) -> None:
        self._seconds = seconds
        self._output_bytes = output_bytes
        self._peak_mb = peak_mb
        self._cpu_share = cpu_share

    def execution_s(self, graph: Graph, resources: Resources) -> Sequence[float]:
        """For each task, how many seconds it runs with these resources."""
        given = self._seconds
        if callable(given):
            return [_number(given(task, resources), "seconds") for task in range(len(graph))]
        found = _per_task(graph, given, "seconds")
        return [_at_memory(value, resources.memory_mb) for value in found]

    def output_bytes(self, graph: Graph) -> Sequence[float]:
        """For each task, the size of its output."""
        return _amounts(graph, self._output_bytes, "output_bytes")

    def peak_mb(self, graph: Graph) -> Sequence[float]:
        """For each task, the memory in MiB that it needs; 0 if nothing is known."""
        return _amounts(graph, self._peak_mb, "peak_mb")

    def cpu_share(self, graph: Graph) -> Sequence[float]:
        """For each task, which part of its run time it needs a processor."""
        return _amounts(graph, self._cpu_share, "cpu_share")

    def evidence(self, graph: Graph) -> Sequence[Evidence]:
        """For each function: that a hand wrote it."""
        return [_ByHand()] * len(graph.functions)

    def at(self, sla: SLA) -> "FixedPredictions":
        """Itself: there is one number for everything."""
        return self


def _amounts(graph: Graph, given: Amounts, name: str) -> list[float]:
    if callable(given):
        return [_number(given(task), name) for task in range(len(graph))]
    return [_number(value, name) for value in _per_task(graph, given, name)]


def _per_task(graph: Graph, given: object, name: str) -> list[object]:
    if not isinstance(given, Mapping):
        return [given] * len(graph)
    by_function = [given.get(info.name, 0.0) for info in graph.functions]
    values = [by_function[function] for function in graph.function_of]
    functions = {info.name for info in graph.functions}
    others = [key for key in given if not (isinstance(key, str) and key in functions)]
    if others:
        ids = {graph.label(task): task for task in range(len(graph))}
        for key in others:
            task = ids.get(key, key)
            if not isinstance(task, int) or not 0 <= task < len(graph):
                raise DefinitionError(
                    f"FixedPredictions({name}=…) names {key!r}, which is no task, label or function of the workflow; "
                    f"its functions are {', '.join(sorted(functions)[:10])}"
                )
            values[task] = given[key]
    return values


def _at_memory(value: object, memory_mb: int) -> float:
    if not isinstance(value, Mapping):
        return _number(value, "seconds")
    sizes: list[object] = list(value)
    if not sizes or not all(is_whole(size, least=1) for size in sizes):
        raise DefinitionError(
            f"FixedPredictions(seconds=…) must give seconds by memory in MiB, as {{512: 8.0, 2048: 2.0}}, not {value!r}"
        )
    smaller = [size for size in value if size <= memory_mb]
    return _number(value[max(smaller) if smaller else min(value)], "seconds")


def _number(value: object, name: str) -> float:
    if isinstance(value, int | float) and is_number(value, most=LARGEST_FLOAT):
        return float(value)
    raise DefinitionError(
        f"FixedPredictions({name}=…) must hold finite numbers that are not negative, {but_not(value, LARGEST_FLOAT)}"
    )
