"""Sizes of arguments before anything is encoded, beside those that workers measure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from augury import serde, task
from augury.dag.graph import build_workflow
from augury.dag.program import LoadedProgram, encode
from augury.predict.arguments import argument_bytes


@task
def f(*args: Any, **kwargs: Any) -> Any:
    return args


@dataclass
class Pair:
    first: Any
    second: Any


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("no")


def measured(outputs: Any) -> list[int]:
    """What a worker measures, for each task."""
    workflow = build_workflow(outputs)
    program, _ = encode(workflow, shared_files=True)
    loaded = LoadedProgram(workflow.graph, program)
    return [loaded.argument_bytes(task) for task in range(len(workflow.graph))]


def estimated(outputs: Any) -> list[int]:
    return argument_bytes(build_workflow(outputs))


one, two = f(1), f(2.5, "text", None, True)

SMALL: list[Any] = [
    one,
    two,
    f(2**100, -1),
    f(one, two),
    f(x=one, y=3),
    f("x" * 5000, b"y" * 5000),
    f((1, 2, 3)),
    f((one, 1)),
    f({"x": one, "y": [1, 2]}),
    f(Pair(two, 1)),
    f(one, one),
    f(),
]


@pytest.mark.parametrize("outputs", SMALL, ids=range(len(SMALL)))
def test_what_is_inline_or_holds_tasks_counts_as_workers_count_it(outputs: Any) -> None:
    assert estimated(outputs) == measured(outputs)


LARGER: list[Any] = [
    f([one, two]),
    f([one, two], [1, 2, 3]),
    f({"a": 1, "b": "c"}),
    f(f.map(range(1000))),
    f(*f.map(range(300)), f.map(range(70_000))[0]),
    f(np.zeros(10)),
    f(np.zeros(100_000)),
    f(list(range(1000))),
    f(b"x" * 200_000),
    f("x" * 100_000),
    f([one, np.zeros(100_000)]),
    f(Pair(one, np.zeros(1000))),
]


@pytest.mark.parametrize("outputs", LARGER, ids=range(len(LARGER)))
def test_what_is_pickled_is_estimated_closely(outputs: Any) -> None:
    for own, exact in zip(estimated(outputs), measured(outputs), strict=True):
        assert abs(own - exact) <= max(64, 0.15 * exact)


def test_a_list_of_tasks_is_not_taken_for_a_list_of_values() -> None:
    parts = f.map(range(1000))
    assert estimated(f(parts))[-1] < 4000


def test_an_argument_that_many_tasks_share_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = {str(index): index for index in range(10)}
    workflow = build_workflow([f(shared) for _ in range(100)])
    looks: list[Any] = []
    estimate = serde.estimated_size

    def look(value: Any) -> int:
        looks.append(value)
        return estimate(value)

    monkeypatch.setattr(serde, "estimated_size", look)
    sizes = argument_bytes(workflow)
    assert len(set(sizes)) == 1
    assert looks == [shared]


def test_what_cannot_be_pickled_has_a_size_all_the_same() -> None:
    assert estimated(f([one, Unpicklable()]))[-1] > 0
    assert estimated(f(Unpicklable()))[-1] > 0
