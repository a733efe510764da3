"""Graphs hold the structure of a workflow: dense ids in topological order, labels, fingerprints."""

from typing import Any

import msgspec
import pytest

from augury.dag.graph import Graph, build_workflow
from augury.dag.refs import Ref, Refs
from augury.dag.task import Function, TaskNode, TaskOptions
from augury.errors import DefinitionError, SerializationError


def load(*args: Any, **kwargs: Any) -> Any: ...


def merge(*args: Any, **kwargs: Any) -> Any: ...


LOAD = Function(load, TaskOptions(retries=2, timeout_s=1.5, memory_mb=256))
MERGE = Function(merge, TaskOptions())


def node(function: Function, *args: Any, **kwargs: Any) -> TaskNode[Any]:
    return TaskNode(function, args, kwargs)


def diamond(data: Any = 0) -> TaskNode[Any]:
    #      0
    #    ┌─┴─┐
    #    1   2
    #    └─┬─┘
    #      3
    top = node(LOAD, data)
    left, right = node(MERGE, top, data), node(MERGE, [top], option=data)
    return node(MERGE, {"left": left, "right": right})


def test_a_diamond() -> None:
    graph = build_workflow(diamond()).graph
    assert graph.deps == ((), (0,), (0,), (1, 2))
    assert graph.dependents == ((1, 2), (3,), (3,), ())
    assert graph.roots == (0,)
    assert graph.sinks == (3,)
    assert graph.sink_set == {3}
    assert graph.function_of == (0, 1, 1, 1)
    assert len(graph) == 4


def test_labels_count_the_calls_of_each_name() -> None:
    graph = build_workflow(diamond()).graph
    assert [graph.label(task) for task in range(4)] == ["load[0]", "merge[0]", "merge[1]", "merge[2]"]


def test_functions_of_the_same_name_count_together() -> None:
    other = Function(load, TaskOptions())
    graph = build_workflow([node(LOAD), node(other)]).graph
    assert len(graph.functions) == 2
    assert [graph.label(task) for task in range(2)] == ["load[0]", "load[1]"]


def test_the_graph_knows_what_was_said_about_functions() -> None:
    info = build_workflow(node(LOAD)).graph.info(0)
    assert (info.name, info.version) == ("load", LOAD.version())
    assert (info.retries, info.timeout_s, info.memory_mb) == (2, 1.5, 256)


def test_tasks_are_numbered_in_the_order_in_which_they_were_written() -> None:
    first, second, third = node(LOAD, 1), node(LOAD, 2), node(LOAD, 3)
    workflow = build_workflow([third, node(MERGE, third, first), second])
    assert workflow.nodes[:3] == [first, second, third]
    assert workflow.graph.deps == ((), (), (), (0, 2))
    assert workflow.graph.sinks == (1, 2, 3)


def test_a_task_that_is_taken_twice_is_one_dependency() -> None:
    top = node(LOAD)
    assert build_workflow(node(MERGE, top, [top, {"k": top}], again=top)).graph.deps == ((), (0,))


def test_only_what_is_needed_is_in_the_workflow() -> None:
    top = node(LOAD)
    node(MERGE, top)
    assert len(build_workflow(top).graph) == 1


def test_a_sink_may_be_an_input_of_another() -> None:
    top = node(LOAD)
    graph = build_workflow({"top": top, "both": [node(MERGE, top), top]}).graph
    assert graph.sinks == (0, 1)


def test_the_template_has_the_shape_of_what_was_asked_for() -> None:
    top, other = node(LOAD), node(LOAD)
    assert build_workflow(top).template == Ref(0)
    assert build_workflow([other, top]).template == Refs((1, 0))
    assert build_workflow({"a": [other, 5]}).template == {"a": [Ref(0), 5]}


def test_ids_find_the_nodes() -> None:
    workflow = build_workflow(diamond())
    assert [workflow.ids[id(node)] for node in workflow.nodes] == [0, 1, 2, 3]


@pytest.mark.parametrize("outputs", [None, 3, [], [1, {"a": ()}], "text", {}])
def test_without_a_task_there_is_nothing_to_compute(outputs: Any) -> None:
    with pytest.raises(DefinitionError, match="nothing to compute"):
        build_workflow(outputs)


def test_an_argument_that_was_given_a_later_task_is_refused() -> None:
    argument: list[Any] = []
    early = node(MERGE, argument)
    argument.append(node(LOAD))
    with pytest.raises(DefinitionError, match="an argument of merge was changed after the call"):
        build_workflow(early)


def test_a_task_that_was_given_to_itself_is_refused() -> None:
    argument: list[Any] = []
    task = node(MERGE, argument)
    argument.append(task)
    with pytest.raises(DefinitionError, match="was changed after the call"):
        build_workflow(task)


def test_asking_for_a_container_that_contains_itself_is_refused() -> None:
    outputs: list[Any] = [node(LOAD)]
    outputs.append(outputs)
    with pytest.raises(DefinitionError, match="contains itself"):
        build_workflow(outputs)


def test_an_argument_that_many_tasks_share_is_searched_once() -> None:
    class Watched(list[Any]):
        searches = 0

        def __iter__(self) -> Any:
            Watched.searches += 1
            return super().__iter__()

    shared = Watched([node(LOAD), 1, [2]])
    build_workflow([node(MERGE, shared, index) for index in range(50)])
    assert Watched.searches == 1


# ── fingerprints ───────────────────────────────────────────────────────────────────────────────────────────────


def fingerprint(outputs: Any) -> str:
    return build_workflow(outputs).graph.fingerprint


def test_the_fingerprint_does_not_depend_on_data() -> None:
    assert fingerprint(diamond(1)) == fingerprint(diamond("other data" * 100_000))


def test_the_fingerprint_depends_on_the_structure() -> None:
    top = node(LOAD)
    chain = node(MERGE, node(MERGE, top))
    fork = [node(MERGE, top), node(MERGE, top)]
    assert len({fingerprint(chain), fingerprint(fork), fingerprint(fork[0]), fingerprint([fork[0], top])}) == 4


def test_the_fingerprint_depends_on_the_code() -> None:
    other = Function(lambda x: x, TaskOptions())
    assert fingerprint(node(LOAD, 1)) != fingerprint(node(other, 1))


def test_the_fingerprint_does_not_depend_on_options() -> None:
    assert fingerprint(node(LOAD)) == fingerprint(node(Function(load, TaskOptions())))


# ── chains, bytes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_chain_to_a_sink_tells_who_needed_a_task() -> None:
    graph = build_workflow(diamond()).graph
    assert graph.chain_to_sink(0) == (0, 1, 3)
    assert graph.chain_to_sink(3) == (3,)


def test_a_graph_survives_encoding() -> None:
    graph = build_workflow(diamond()).graph
    assert Graph.decode(graph.encode()) == graph


NOT_UTF8 = b"\x94\x91\x92\xa1\xff\xa1x\x90\x90\x90"


@pytest.mark.parametrize(
    "data", [b"", b"garbage", NOT_UTF8, msgspec.msgpack.encode([1, 2, 3]), msgspec.msgpack.encode({})]
)
def test_what_is_not_a_graph_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="not the bytes of a graph"):
        Graph.decode(data)


def test_a_graph_with_something_behind_it_that_is_nested_too_deeply_is_refused() -> None:
    written = build_workflow(diamond()).graph.encode()
    with pytest.raises(SerializationError, match="not the bytes of a graph"):
        Graph.decode(bytes([written[0] + 1]) + written[1:] + b"\x91" * 100_000 + b"\xc0")


def test_a_graph_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        build_workflow(diamond()).graph.sinks = ()  # type: ignore[misc]
