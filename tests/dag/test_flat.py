"""Numbers and rows as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.dag.flat import pack, pack_rows, pack_times, unpack, unpack_rows, unpack_times
from augury.dag.graph import Graph, build_workflow
from tests.dag.test_graph import diamond

NUMBERS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**32 - 1) | st.integers(0, 300), max_size=40)


@given(NUMBERS)
def test_numbers_survive(numbers: list[int]) -> None:
    assert list(unpack(pack(numbers))) == numbers


@pytest.mark.parametrize(("largest", "size_bytes"), [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32, 8)])
def test_they_take_as_many_bytes_as_the_largest_needs(largest: int, size_bytes: int) -> None:
    assert len(pack([0, largest, 1])) == 1 + 3 * size_bytes


def test_a_number_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        pack([1, 2**64])


@given(st.lists(st.floats(allow_nan=False)))
def test_times_survive(times_s: list[float]) -> None:
    assert list(unpack_times(pack_times(times_s))) == times_s


def test_what_are_not_the_bytes_of_times_is_refused() -> None:
    with pytest.raises(ValueError, match="not the bytes of times"):
        unpack_times(b"123")


@given(st.lists(st.lists(st.integers(0, 100_000), max_size=5).map(tuple), max_size=20))
def test_rows_survive_and_are_a_sequence(rows: list[tuple[int, ...]]) -> None:
    read = unpack_rows(pack_rows(rows))
    assert len(read) == len(rows)
    assert bool(read) == bool(rows)
    assert [read[row] for row in range(len(rows))] == rows
    assert list(iter(read)) == rows


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_that_is_not_there_is_none(row: int) -> None:
    with pytest.raises(IndexError):
        unpack_rows(pack_rows([(), (0,), (0, 1)]))[row]


@pytest.mark.parametrize("data", [b"", b"x123", b"H123", b"I"[:0], b"Habc"])
def test_what_are_not_the_bytes_of_numbers_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not the bytes of numbers"):
        unpack(data)


@pytest.mark.parametrize("packed", [(pack([]), pack([])), (pack([1, 2]), pack([5, 6])), (pack([0, 1]), pack([5, 6]))])
def test_what_are_not_the_bytes_of_rows_is_refused(packed: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="not the bytes of rows"):
        unpack_rows(packed)


def test_a_graph_that_is_read_piece_by_piece_says_the_same() -> None:
    graph = build_workflow(diamond()).graph
    read = Graph.decode(graph.encode(), piecemeal=True)
    tasks = range(len(graph))
    assert len(read) == len(graph)
    assert [read.deps[task] for task in tasks] == list(graph.deps)
    assert [read.dependents[task] for task in tasks] == list(graph.dependents)
    assert [read.info(task) for task in tasks] == [graph.info(task) for task in tasks]
    assert [read.label(task) for task in tasks] == [graph.label(task) for task in tasks]
    assert (read.sinks, read.roots, read.fingerprint) == (graph.sinks, graph.roots, graph.fingerprint)
    assert read.chain_to_sink(0) == graph.chain_to_sink(0)
