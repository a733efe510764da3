"""Predictions for every task of a workflow at once.

How long a task runs depends on the size of its input, and that on the outputs of the tasks before it. So sizes are
followed through the graph first, in topological order:

    arguments 40 B ──▶ load ──▶ 2 MB ──┐
                                       ├──▶ merge: input 4 MB + 60 B ──▶ 3.1 MB ──▶ …
    arguments 40 B ──▶ load ──▶ 2 MB ──┘

Most tasks of a workflow are alike: the same function with an input of the same size. Those share one *case*, and
everything is asked once for each case: one pass of dictionary look-ups over tasks and edges, and then an array of
sizes for each function. Where all sizes differ, as in a chain whose values grow, outputs are predicted one by one, by
a function that does nothing else.

Inputs are followed at the median (or average) whatever the SLA: that every output before a task is as large as only
one in twenty is, is not what one in twenty runs looks like.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.errors import DefinitionError
from augury.predict.estimate import Estimate
from augury.predict.sla import SLA, Percentile, fraction_of

MOST_BYTES = 1e15
"""No input is taken to be larger: where each task returns more than it takes, sizes grow beyond all bounds."""

_FEW = 3


class Provider(Protocol):
    """What predictions for a workflow are made from: a `PredictionsProvider`, or `Priors`."""

    def predict_execution_time(
        self, task_name: FunctionInfo, input_size: float, resource_config: Resources, sla: SLA, /
    ) -> Estimate:
        """How many seconds a task runs."""
        ...

    def predict_execution_times(
        self, task_name: FunctionInfo, input_sizes: list[float], resource_config: Resources, sla: SLA, /
    ) -> Iterable[float]:
        """The same for many input sizes."""
        ...

    def predict_output_sizes(
        self, function_name: FunctionInfo, input_sizes: list[float], sla: SLA, /
    ) -> Iterable[float]:
        """How many bytes a task returns, for many input sizes."""
        ...

    def output_law(self, function_name: FunctionInfo, sla: SLA, /) -> Callable[[float], float]:
        """The same as a function of input size."""
        ...

    def predict_peak_memory(self, function_name: FunctionInfo, input_size: float, /) -> Estimate:
        """How many MiB a task needs."""
        ...

    def predict_peak_memories(self, function_name: FunctionInfo, input_sizes: list[float], /) -> Iterable[float]:
        """The same for many input sizes."""
        ...


class _Cases(NamedTuple):
    """The tasks of a workflow by what is to be predicted for them.

    Attributes:
        of: For each task, its case.
        input_bytes: For each case, the size of the input.
        output_bytes: For each case, the size of the output, as it is passed on.
        by_function: For each function, its cases.
    """

    of: list[int]
    input_bytes: list[float]
    output_bytes: list[float]
    by_function: list[list[int]]


class WorkflowPredictions:
    """What is expected of the tasks of one workflow, from what a provider says of its functions.

    Args:
        provider: Predicts functions.
        sla: How careful to be.
        argument_bytes: For each task, how large its own arguments are, outputs of other tasks not counted; without
            it, nothing.
        cpu_shares: For each function, which part of its run time it needs a processor; called once, if anyone asks.

    Example:
        >>> from augury import Resources
        >>> from augury.dag.graph import FunctionInfo, Graph
        >>> from augury.predict.unlearned import Priors
        >>> chain = Graph((FunctionInfo("resize", "5c1e"),), (0, 0), ((), (0,)), (1,))
        >>> predictions = WorkflowPredictions(Priors(), argument_bytes=[10e6, 0.0])
        >>> predictions.output_bytes(chain)
        [5001024.0, 2501536.0]
        >>> [round(seconds, 2) for seconds in predictions.execution_s(chain, Resources())]
        [0.3, 0.2]
    """

    def __init__(
        self,
        provider: Provider,
        sla: SLA = "median",
        argument_bytes: Sequence[float] = (),
        cpu_shares: Callable[[], Sequence[float]] | None = None,
    ) -> None:
        fraction_of(sla)  # refuses what is none
        self._provider = provider
        self._sla: SLA = sla
        self._argument_bytes = argument_bytes
        self._cpu_shares = cpu_shares
        self._graph: Graph | None = None
        self._cases: _Cases | None = None

    def execution_s(self, graph: Graph, resources: Resources) -> list[float]:
        """For each task, how many seconds it runs with these resources."""
        provider, sla = self._provider, self._sla

        def seconds(function: FunctionInfo, sizes: list[float]) -> list[float]:
            if len(sizes) <= _FEW:
                return [float(provider.predict_execution_time(function, size, resources, sla)) for size in sizes]
            return _plain(provider.predict_execution_times(function, sizes, resources, sla))

        return self._for_all(graph, seconds)

    def output_bytes(self, graph: Graph) -> list[float]:
        """For each task, the size of its output."""
        cases = self._cases_of(graph)
        if not isinstance(self._sla, Percentile):
            return list(map(cases.output_bytes.__getitem__, cases.of))
        sla = self._sla
        return self._for_all(
            graph, lambda function, sizes: _plain(self._provider.predict_output_sizes(function, sizes, sla))
        )

    def peak_mb(self, graph: Graph) -> list[float]:
        """For each task, the memory in MiB that it needs; 0 if nothing is known."""
        provider = self._provider

        def memory_mb(function: FunctionInfo, sizes: list[float]) -> list[float]:
            if provider.predict_peak_memory(function, max(sizes)).is_prior:
                return [0.0] * len(sizes)
            return _plain(provider.predict_peak_memories(function, sizes))

        return self._for_all(graph, memory_mb)

    def cpu_share(self, graph: Graph) -> list[float]:
        """For each task, which part of its run time it needs a processor; 0 if nothing is known."""
        if self._cpu_shares is None:
            return [0.0] * len(graph)
        return list(map(self._cpu_shares().__getitem__, graph.function_of))

    def evidence(self, graph: Graph) -> list[Estimate]:
        """For each function of the graph, what the prediction of its run time rests on."""
        cases = self._cases_of(graph)
        sizes = [cases.input_bytes[own[0]] if own else 0.0 for own in cases.by_function]
        return [
            self._provider.predict_execution_time(function, size, Resources(), self._sla)
            for function, size in zip(graph.functions, sizes, strict=True)
        ]

    def at(self, sla: SLA) -> "WorkflowPredictions":
        """The same with another degree of caution."""
        other = WorkflowPredictions(self._provider, sla, self._argument_bytes, self._cpu_shares)
        if _followed_at(sla) == _followed_at(self._sla):
            other._graph, other._cases = self._graph, self._cases
        return other

    def _for_all(self, graph: Graph, predict: Callable[[FunctionInfo, list[float]], list[float]]) -> list[float]:
        """For each task what is predicted for its case."""
        cases = self._cases_of(graph)
        found = [0.0] * len(cases.input_bytes)
        for function, own in zip(graph.functions, cases.by_function, strict=True):
            if own:
                values = predict(function, list(map(cases.input_bytes.__getitem__, own)))
                for case, value in zip(own, values, strict=True):
                    found[case] = value
        return list(map(found.__getitem__, cases.of))

    def _cases_of(self, graph: Graph) -> _Cases:
        if self._cases is None or self._graph is not graph:
            self._cases = self._followed(graph)
            self._graph = graph
        return self._cases

    def _followed(self, graph: Graph) -> _Cases:
        """Follow sizes through the graph."""
        arguments = self._argument_bytes if len(self._argument_bytes) else [0.0] * len(graph)
        if len(arguments) != len(graph):
            raise DefinitionError(
                f"WorkflowPredictions(argument_bytes=…) has {len(arguments)} sizes for a workflow of {len(graph)} tasks"
            )
        sla = _followed_at(self._sla)
        laws = [self._provider.output_law(function, sla) for function in graph.functions]
        cases = _Cases([], [], [], [[] for _ in laws])
        known: list[dict[float, int]] = [{} for _ in laws]
        of, inputs, outputs = cases.of, cases.input_bytes, cases.output_bytes
        for function, deps, size in zip(graph.function_of, graph.deps, arguments, strict=True):
            for dep in deps:
                size += outputs[of[dep]]
            case = known[function].get(size)
            if case is None:
                case = known[function][size] = len(inputs)
                bounded = size if size < MOST_BYTES else MOST_BYTES
                returned = laws[function](bounded)
                inputs.append(bounded)
                outputs.append(returned if returned < MOST_BYTES else MOST_BYTES)
                cases.by_function[function].append(case)
            of.append(case)
        return cases


def _followed_at(sla: SLA) -> SLA:
    return "median" if isinstance(sla, Percentile) else sla


def _plain(values: object) -> list[float]:
    """Numbers as a list: an array's own way is the fastest."""
    as_list = getattr(values, "tolist", None)
    found: list[float] = as_list() if as_list is not None else list(values)  # type: ignore[call-overload]
    return found
