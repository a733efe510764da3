"""Predictions written by hand."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.errors import DefinitionError
from augury.plan.predictions import FixedPredictions
from augury.predict.sla import Percentile

#   load[0]  load[1]
#      └──┬─────┘
#      merge[0] takes both
GRAPH = Graph((FunctionInfo("load", "v1"), FunctionInfo("merge", "v2")), (0, 0, 1), ((), (), (0, 1)), (2,))
HERE = Resources(1, 1024)


def test_one_number_holds_for_all() -> None:
    by_hand = FixedPredictions(2.0, 100, 50, 0.5)
    assert by_hand.execution_s(GRAPH, HERE) == [2.0, 2.0, 2.0]
    assert by_hand.output_bytes(GRAPH) == [100.0, 100.0, 100.0]
    assert by_hand.peak_mb(GRAPH) == [50.0, 50.0, 50.0]
    assert by_hand.cpu_share(GRAPH) == [0.5, 0.5, 0.5]


def test_what_is_not_said_is_nothing() -> None:
    assert FixedPredictions().execution_s(GRAPH, HERE) == [0.0] * 3
    assert FixedPredictions().cpu_share(GRAPH) == [0.0] * 3
    assert FixedPredictions({"merge": 1.0}).execution_s(GRAPH, HERE) == [0.0, 0.0, 1.0]


def test_tasks_are_named_by_function_label_or_id() -> None:
    by_hand = FixedPredictions({"load": 1.0, "load[1]": 2.0, 2: 3.0}, {"merge[0]": 7, 0: 8}, {"load": 9})
    assert by_hand.execution_s(GRAPH, HERE) == [1.0, 2.0, 3.0]
    assert by_hand.output_bytes(GRAPH) == [8.0, 0.0, 7.0]
    assert by_hand.peak_mb(GRAPH) == [9.0, 9.0, 0.0]


@pytest.mark.parametrize(("memory_mb", "expected"), [(512, 8.0), (1024, 8.0), (1500, 8.0), (2048, 4.0), (9000, 4.0)])
def test_between_two_memory_sizes_the_smaller_one_counts(memory_mb: int, expected: float) -> None:
    by_hand = FixedPredictions({"load": {1024: 8.0, 2048: 4.0}})
    assert by_hand.execution_s(GRAPH, Resources(1, memory_mb))[0] == expected


def test_a_function_computes_them() -> None:
    by_hand = FixedPredictions(lambda task, resources: task / resources.cpus, lambda task: 10 * task)
    assert by_hand.execution_s(GRAPH, Resources(2, 1024)) == [0.0, 0.5, 1.0]
    assert by_hand.output_bytes(GRAPH) == [0.0, 10.0, 20.0]


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: FixedPredictions({"lode": 1.0}).execution_s(GRAPH, HERE), r"seconds=…\) names 'lode'.*load, merge"),
    (lambda: FixedPredictions({3: 1.0}).execution_s(GRAPH, HERE), "names 3, which is no task"),
    (lambda: FixedPredictions(-1.0).execution_s(GRAPH, HERE), r"seconds=…\) must hold finite numbers"),
    (lambda: FixedPredictions(output_bytes=math.nan).output_bytes(GRAPH), r"output_bytes=…\) must hold finite"),
    (lambda: FixedPredictions(peak_mb={"load": math.inf}).peak_mb(GRAPH), r"peak_mb=…\) must hold finite"),
    (lambda: FixedPredictions(lambda task, resources: math.nan).execution_s(GRAPH, HERE), "must hold finite"),
]


@pytest.mark.parametrize(("ask", "text"), WRONG)
def test_what_is_no_prediction_is_refused(ask: Callable[[], Any], text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        ask()


def test_caution_changes_nothing_and_evidence_is_a_hand() -> None:
    by_hand = FixedPredictions(2.0)
    assert by_hand.at(Percentile(99)) is by_hand
    assert [(one.n, one.basis) for one in by_hand.evidence(GRAPH)] == [(0, "given by hand")] * 2
