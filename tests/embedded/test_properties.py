"""Random workflows with random plans, on real workers: the result is that of sequential evaluation."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from augury import Client, Embedded
from augury.dag.graph import build_workflow
from tests.strategies import evaluate, plans, same, workflows


@pytest.fixture(scope="module", params=[1, 2, 7], ids=lambda slots: f"{slots}-slots")
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with Client(platform=Embedded(slots=request.param), observers=[]) as client:
        yield client


@given(data=st.data())
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_result_equals_sequential_evaluation(client: Client, data: st.DataObject) -> None:
    outputs: Any = data.draw(workflows())
    graph = build_workflow(outputs).graph
    plan = data.draw(st.none() | plans(graph))
    assert same(client.submit(outputs, plan=plan).result(timeout=60), evaluate(outputs))
