"""Predictions for whole workflows: equal to asking for one task after another, by hand."""

import random
from collections.abc import Callable, Sequence

import pytest

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.errors import DefinitionError
from augury.metrics.records import Records
from augury.predict.estimate import Estimate
from augury.predict.nearest import NearestSamples
from augury.predict.provider import PredictionsProvider
from augury.predict.recent import Recent
from augury.predict.sla import SLA, Percentile
from augury.predict.unlearned import Priors
from augury.predict.workflow import MOST_BYTES, Provider, WorkflowPredictions
from tests.predict.history import MB, records_of, run

HERE = Resources(1, 1024)
STRONG = Resources(2, 3000)
LOAD, MERGE, NEW = FunctionInfo("load", "v1"), FunctionInfo("merge", "v2"), FunctionInfo("new", "v3")


def history() -> Records:
    """`load` returns what it takes and takes a second per 10 MB; `merge` returns half and takes a second per 50 MB."""
    rng = random.Random(7)
    runs = []
    for _ in range(40):
        size = 10 ** rng.uniform(3, 8)
        noise = rng.uniform(0.95, 1.05)
        runs.append(
            run(0.01 + noise * size / 1e7, function="v1", name="load", input_bytes=size, output_bytes=noise * size,
                peak_mb=60 + size / MB, memory_mb=rng.choice([512, 1024]), cpu_s=0.9 * size / 1e7)
        )  # fmt: skip
        runs.append(
            run(0.02 + noise * size / 5e7, function="v2", name="merge", input_bytes=size, output_bytes=size / 2)
        )
    return records_of(runs)


def graph_of(deps: Sequence[tuple[int, ...]], functions: Sequence[int]) -> Graph:
    return Graph((LOAD, MERGE, NEW), tuple(functions), tuple(deps), (len(deps) - 1,))


CHAIN = graph_of([(), (0,), (1,), (2,)], [0, 0, 1, 0])
#   load ──▶ load ──▶ merge ──▶ load
FAN_OUT = graph_of([(), *[(0,)] * 6], [1, 0, 0, 0, 1, 2, 2])
#            merge
#   ┌─────┬────┬┴───┬─────┬───┐
#  load load load merge  new new
DIAMOND = graph_of([(), (0,), (0,), (1, 2)], [0, 1, 2, 1])
#        load
#       ┌─┴──┐
#     merge new
#       └─┬──┘
#       merge
FAN_IN = graph_of([*[()] * 30, tuple(range(30))], [0] * 30 + [1])
#   load × 30 ──▶ merge
GRAPHS = {"chain": CHAIN, "fan-out": FAN_OUT, "diamond": DIAMOND, "fan-in": FAN_IN}
PROVIDERS: dict[str, Callable[[], Provider]] = {
    "fitted": lambda: PredictionsProvider(history()),
    "nearest": lambda: PredictionsProvider(history(), estimator=NearestSamples()),
    "unknown": lambda: PredictionsProvider(Records(workflow="w")),
    "priors": Priors,
    "recent": lambda: Recent(history()),
}


def arguments(graph: Graph) -> list[float]:
    return [10_000.0 * (task + 1) ** 3 for task in range(len(graph))]


def naive(
    provider: Provider, graph: Graph, sla: SLA, resources: Resources
) -> tuple[list[float], list[float], list[float]]:
    """Seconds, output sizes and memory of each task, by one question after another."""
    passed_on: list[float] = []
    seconds, outputs, memory_mb = [], [], []
    followed: SLA = "median" if isinstance(sla, Percentile) else sla
    for task, own in enumerate(arguments(graph)):
        info = graph.info(task)
        size = own + sum(passed_on[dep] for dep in graph.deps[task])
        passed_on.append(float(provider.output_law(info, followed)(size)))
        seconds.append(float(provider.predict_execution_time(info, size, resources, sla)))
        outputs.append(float(provider.output_law(info, sla)(size)))
        peak = provider.predict_peak_memory(info, size)
        memory_mb.append(0.0 if peak.is_prior else float(peak))
    return seconds, outputs, memory_mb


@pytest.mark.parametrize("sla", ["median", "average", Percentile(90)], ids=str)
@pytest.mark.parametrize("shape", GRAPHS)
@pytest.mark.parametrize("made", PROVIDERS)
def test_a_workflow_is_predicted_as_its_tasks_are_one_by_one(made: str, shape: str, sla: SLA) -> None:
    provider, graph = PROVIDERS[made](), GRAPHS[shape]
    predictions = WorkflowPredictions(provider, sla, arguments(graph))
    seconds, outputs, memory_mb = naive(provider, graph, sla, STRONG)
    assert predictions.execution_s(graph, STRONG) == pytest.approx(seconds, rel=1e-12)
    assert predictions.output_bytes(graph) == outputs
    assert predictions.peak_mb(graph) == pytest.approx(memory_mb, rel=1e-12)
    assert all(type(value) is float for value in predictions.execution_s(graph, STRONG))


def test_the_law_of_outputs_is_what_single_predictions_give() -> None:
    provider = PredictionsProvider(history())
    sizes = [0.0, 1.0, 999.0, 12_345.6, 1e6, 1e9, 1e17]
    for function in (LOAD, MERGE, NEW):
        for sla in ("median", "average", Percentile(99)):
            law = provider.output_law(function, sla)
            single = [provider.predict_output_size(function, size, sla) for size in sizes]
            assert [law(size) for size in sizes] == single
            many = provider.predict_output_sizes(function, sizes, sla).tolist()
            assert many[:-1] == single[:-1]
            # Beyond what a float counts one by one, arrays are computed with other instructions on some processors.
            assert many[-1] == pytest.approx(float(single[-1]), rel=1e-12)


def test_peaks_of_many_sizes_are_what_single_predictions_give() -> None:
    provider = PredictionsProvider(history())
    sizes = [0.0, 999.0, 1e6, 1e8, 1e10]
    for function in (LOAD, MERGE):
        single = [float(provider.predict_peak_memory(function, size)) for size in sizes]
        assert provider.predict_peak_memories(function, sizes).tolist() == pytest.approx(single, rel=1e-12)


def test_sizes_are_followed_through_the_graph() -> None:
    # 10 kB ──▶ load ──▶ 10 kB, and 80 kB ──▶ load ──▶ 90 kB, and 270 kB ──▶ merge ──▶ 180 kB, and 640 kB ──▶ load
    predictions = WorkflowPredictions(PredictionsProvider(history()), "median", arguments(CHAIN))
    assert predictions.output_bytes(CHAIN) == pytest.approx([10e3, 90e3, 180e3, 820e3], rel=0.05)


def test_a_percentile_is_not_compounded_along_a_chain() -> None:
    chain = graph_of([(), *[(task,) for task in range(99)]], [2] * 100)
    careful = WorkflowPredictions(Priors(), Percentile(90), [0.0] * 100)
    median = WorkflowPredictions(Priors(), "median", [0.0] * 100)
    assert careful.output_bytes(chain)[-1] == pytest.approx(3.6 * median.output_bytes(chain)[-1], rel=0.01)


def test_sizes_that_grow_beyond_all_bounds_stay_numbers() -> None:
    runs = [run(1.0, function="v1", name="load", input_bytes=size, output_bytes=100 * size) for size in (1e3, 1e4, 1e5)]
    chain = graph_of([(), *[(task,) for task in range(999)]], [0] * 1000)
    predictions = WorkflowPredictions(PredictionsProvider(records_of(runs * 9)), "median", [1e6] * 1000)
    assert max(predictions.output_bytes(chain)) == MOST_BYTES
    assert max(predictions.execution_s(chain, HERE)) < float("inf")


def test_arguments_that_are_not_given_count_nothing() -> None:
    assert WorkflowPredictions(Priors()).output_bytes(CHAIN)[0] == 1024


def test_arguments_of_another_workflow_are_refused() -> None:
    with pytest.raises(DefinitionError, match="has 3 sizes for a workflow of 4 tasks"):
        WorkflowPredictions(Priors(), argument_bytes=[1, 2, 3]).output_bytes(CHAIN)


def test_an_unknown_sla_is_refused() -> None:
    with pytest.raises(DefinitionError, match="unknown SLA"):
        WorkflowPredictions(Priors(), "worst")  # type: ignore[arg-type]


def test_more_caution_is_never_faster() -> None:
    predictions = WorkflowPredictions(PredictionsProvider(history()), "median", arguments(DIAMOND))
    careful = predictions.at(Percentile(95))
    usual_s, careful_s = predictions.execution_s(DIAMOND, HERE), careful.execution_s(DIAMOND, HERE)
    assert all(more > less for more, less in zip(careful_s, usual_s, strict=True))
    assert careful.at("median").execution_s(DIAMOND, HERE) == usual_s


def test_memory_of_which_nothing_is_known_is_none() -> None:
    predictions = WorkflowPredictions(PredictionsProvider(history()), "median", arguments(DIAMOND))
    load_mb, *others_mb = predictions.peak_mb(DIAMOND)
    assert load_mb > 60
    assert others_mb == [0.0, 0.0, 0.0]


def test_evidence_says_what_each_function_is_known_by() -> None:
    evidence = WorkflowPredictions(PredictionsProvider(history()), "median", arguments(DIAMOND)).evidence(DIAMOND)
    assert [one.n for one in evidence] == [40, 40, 0]
    assert evidence[1].basis == "same function, 40 runs, memory assumed to matter"
    assert evidence[2].basis == "prior: nothing known of the function"


class Counting(Priors):
    """Counts the sizes that it is asked for."""

    asked = 0

    def predict_execution_time(
        self, task_name: object, input_size: float, resource_config: Resources, sla: SLA
    ) -> Estimate:
        self.asked += 1
        return super().predict_execution_time(task_name, input_size, resource_config, sla)

    def predict_execution_times(
        self, task_name: object, input_sizes: Sequence[float], resource_config: Resources, sla: SLA
    ) -> list[float]:
        self.asked += len(input_sizes)
        return super().predict_execution_times(task_name, input_sizes, resource_config, sla)


def test_what_is_alike_is_asked_once() -> None:
    #   load × 30 ──▶ merge, all loads with arguments of the same size
    provider = Counting()
    predictions = WorkflowPredictions(provider, "median", [5.0] * 31)
    seconds = predictions.execution_s(FAN_IN, HERE)
    assert len(seconds) == 31
    assert provider.asked == 2
