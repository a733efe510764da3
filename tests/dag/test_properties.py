"""Whatever the workflow: what workers compute from its encoded form is what one process computes from the tasks."""

from typing import Any

from hypothesis import HealthCheck, given, settings

from augury import serde
from augury.dag.graph import Graph, build_workflow
from augury.dag.program import LoadedProgram, Program, encode
from augury.dag.refs import fill
from tests.strategies import evaluate, same, workflows

quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def carry_out(outputs: Any, *, shared_files: bool = True) -> Any:
    """Encode, decode, and run every task in order, each output through bytes as between workers."""
    workflow = build_workflow(outputs)
    program, constants = encode(workflow, shared_files=shared_files)
    graph = Graph.decode(workflow.graph.encode())
    loaded = LoadedProgram(graph, Program.decode(program.encode()))
    stored: dict[int, bytes] = {}
    for task in range(len(graph)):
        args, kwargs = loaded.arguments(
            task, lambda dep: serde.loads(stored[dep]), lambda index: serde.loads(constants[index].join())
        )
        stored[task] = serde.dumps(loaded.function(task, lambda index: constants[index].join())(*args, **kwargs)).join()
    return fill(workflow.template, lambda ref: serde.loads(stored[ref.task]), lambda const: const)


@quick
@given(workflows())
def test_an_encoded_workflow_computes_what_the_tasks_say(outputs: Any) -> None:
    assert same(carry_out(outputs), evaluate(outputs))


@quick
@given(workflows())
def test_graphs_are_dense_and_topological(outputs: Any) -> None:
    graph = build_workflow(outputs).graph
    for task, deps in enumerate(graph.deps):
        assert list(deps) == sorted(set(deps))
        assert all(0 <= dep < task for dep in deps)
        assert all(task in graph.dependents[dep] for dep in deps)
    assert set(graph.sinks) >= {task for task, dependents in enumerate(graph.dependents) if not dependents}
    assert len({graph.label(task) for task in range(len(graph))}) == len(graph)


@quick
@given(workflows())
def test_a_graph_survives_encoding(outputs: Any) -> None:
    graph = build_workflow(outputs).graph
    decoded = Graph.decode(graph.encode())
    assert decoded == graph
    assert decoded.fingerprint == graph.fingerprint


@quick
@given(workflows())
def test_the_constants_of_a_task_are_known_without_loading_them(outputs: Any) -> None:
    workflow = build_workflow(outputs)
    program, _ = encode(workflow, shared_files=True)
    loaded = LoadedProgram(workflow.graph, program)
    for task in range(len(workflow.graph)):
        asked: list[int] = []
        loaded.arguments(task, lambda _: 0, asked.append)
        assert set(asked) == set(loaded.constants_of(task))
