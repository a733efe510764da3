"""Functions that ran out of memory get more the next time."""

import math
from collections.abc import Iterable

import pytest

from augury import PredictionsProvider, Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.metrics.records import MemoryExcess, Record, series_of
from augury.predict.excess import BEYOND, Excesses
from augury.predict.recent import Recent
from augury.predict.workflow import WorkflowPredictions
from tests.predict.history import MB, records_of, run

RESIZE = FunctionInfo("resize", "v1")


def excess(used_mb: float = 1024, input_bytes: float = math.nan, function: str = "v1") -> MemoryExcess:
    return MemoryExcess(
        function=function,
        name="resize",
        resources=Resources(memory_mb=1024),
        platform="here",
        ended_s=1.0,
        used_mb=used_mb,
        input_bytes=input_bytes,
    )


def excesses(*records: Record) -> Excesses:
    return Excesses(series_of(records))


def test_a_function_that_never_ran_out_of_memory_has_no_bound() -> None:
    assert excesses(run(peak_mb=5000), excess(function="v2")).least_mb("v1", MB) == 0.0


def test_more_is_given_than_was_too_little() -> None:
    assert excesses(excess(1024), excess(2048)).least_mb("v1", MB) == 2048 * BEYOND


def test_no_less_is_given_than_a_later_run_used() -> None:
    known = excesses(*[run(peak_mb=90)] * 200, excess(256), run(peak_mb=700, memory_mb=1024))
    assert known.least_mb("v1", MB) == pytest.approx(770)


def test_runs_that_used_less_do_not_matter() -> None:
    assert excesses(run(peak_mb=200), excess(256)).least_mb("v1", MB) == 256 * BEYOND


@pytest.mark.parametrize(("input_bytes", "bound_mb"), [(MB, 0.0), (85 * MB, 1280.0), (500 * MB, 1280.0)])
def test_a_bound_holds_for_inputs_as_large(input_bytes: float, bound_mb: float) -> None:
    assert excesses(excess(1024, input_bytes=100 * MB)).least_mb("v1", input_bytes) == bound_mb


def providers(records: Iterable[Record]) -> list[PredictionsProvider | Recent]:
    known = records_of(records)
    return [PredictionsProvider(known, platform="here", functions=[RESIZE]), Recent(known, "here")]


@pytest.mark.parametrize("index", [0, 1], ids=["fitted", "recent"])
@pytest.mark.parametrize("others", [0, 1, 100])
def test_predictions_keep_to_the_bound(index: int, others: int) -> None:
    provider = providers([*[run(peak_mb=90.0, memory_mb=1024)] * others, excess(1024)])[index]
    estimate = provider.predict_peak_memory(RESIZE, MB)
    assert estimate == 1024 * BEYOND
    assert not estimate.is_prior
    assert estimate.basis == "more than when it ran out of memory"
    assert list(provider.predict_peak_memories(RESIZE, [MB, 2 * MB])) == [1280.0, 1280.0]


@pytest.mark.parametrize("index", [0, 1], ids=["fitted", "recent"])
def test_a_bound_for_large_inputs_alone_reaches_the_tasks_that_have_them(index: int) -> None:
    provider = providers([excess(1024, input_bytes=100 * MB)])[index]
    graph = Graph((RESIZE,), (0, 0), ((), ()), (0, 1))
    small, large = WorkflowPredictions(provider, argument_bytes=[MB, 200 * MB]).peak_mb(graph)
    assert small < 200
    assert large == 1280.0
