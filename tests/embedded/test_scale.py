"""Wide, deep and dense workflows on platforms of one, two and seven slots."""

from collections.abc import Iterator
from typing import Any

import pytest

from augury import Assignment, Client, Embedded, Plan, UniformPlanner, task
from augury.dag.graph import build_workflow


@task
def increment(x: int) -> int:
    return x + 1


@task
def total(*terms: int) -> int:
    return sum(terms)


@pytest.fixture(scope="module", params=[1, 2, 7], ids=lambda slots: f"{slots}-slots")
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with Client(platform=Embedded(slots=request.param), observers=[]) as client:
        yield client


def test_a_fan_out_of_10_000(client: Client) -> None:
    run = client.submit(total(*[increment(i) for i in range(10_000)]))
    assert run.result() == sum(range(1, 10_001))
    assert run.report().invocations < 100, "ready tasks beyond what runs at once share invocations"


def test_a_chain_of_10_000(client: Client) -> None:
    link: Any = 0
    for _ in range(10_000):
        link = increment(link)
    run = client.submit(link)
    assert run.result() == 10_000
    assert run.report().invocations == 1


def test_a_diamond_of_1_000(client: Client) -> None:
    #        ┌─▶ increment ─┐
    #  root ─┼─▶    …       ┼─▶ total
    #        └─▶ increment ─┘
    root = increment(0)
    assert client.compute(total(*[increment(root) for _ in range(1_000)])) == 2_000


def test_a_diamond_of_1_000_on_planned_workers(client: Client) -> None:
    root = increment(0)
    outputs = total(*[increment(root) for _ in range(1_000)])
    plan = UniformPlanner(max_clustering=50).plan

    assert client.submit(outputs, plan=plan(build_workflow(outputs).graph)).result() == 2_000


def test_a_tree_of_1_024(client: Client) -> None:
    level: list[Any] = [increment(i) for i in range(1_024)]
    while len(level) > 1:
        level = [total(level[i], level[i + 1]) for i in range(0, len(level), 2)]
    assert client.compute(level[0]) == sum(range(1, 1_025))


def test_layers_that_all_depend_on_each_other(client: Client) -> None:
    layer: list[Any] = [increment(i) for i in range(12)]
    expected = list(range(1, 13))
    for _ in range(4):
        layer = [total(*layer) for _ in range(12)]
        expected = [sum(expected)] * 12
    assert client.compute(layer) == expected


def test_workers_that_wait_for_each_other_in_turn(client: Client) -> None:
    # Two workers hand a value back and forth; with one slot each must give it up for the other, every time.
    #
    #   w0:  0 ─┐ ┌─▶ 2 ─┐ ┌─▶ 4 …
    #   w1:     └▶ 1     └▶ 3
    link: Any = 0
    for _ in range(20):
        link = increment(link)
    graph_plan = _alternate(link)
    assert client.submit(link, plan=graph_plan).result() == 20


def _alternate(outputs: Any) -> Any:

    graph = build_workflow(outputs).graph
    assignments = tuple(Assignment(worker=task % 2) for task in range(len(graph)))
    return Plan(fingerprint=graph.fingerprint, planner="alternating", assignments=assignments)
