"""Tables of predictions: monotone whatever they are made from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from augury.predict.surface import Surface, monotone

tables = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.floats(-9, 9))


@given(tables)
def test_a_table_rises_with_size_and_falls_with_resources(table: np.ndarray) -> None:
    settled = monotone(table)
    assert np.all(np.diff(settled, axis=0) >= 0)
    assert np.all(np.diff(settled, axis=1) <= 0)


def test_a_monotone_table_stays_as_it_is() -> None:
    table = np.array([[3.0, 2.0, 1.0], [5.0, 2.0, 2.0]])
    assert np.array_equal(monotone(table), table)


def test_a_dent_is_filled_and_levelled_in_equal_parts() -> None:
    assert monotone(np.array([[0.0], [2.0], [1.0], [3.0]]))[:, 0].tolist() == [0.0, 1.5, 1.5, 3.0]


@given(tables, st.floats(-2, 8), st.floats(-2, 8))
def test_looking_up_one_point_and_many_is_the_same(table: np.ndarray, size: float, resources: float) -> None:
    surface = Surface(np.arange(len(table), dtype=float), np.arange(table.shape[1], dtype=float), table)
    assert surface(size, resources) == pytest.approx(surface.at(np.array([size]), np.array([resources]))[0], abs=1e-9)


@given(tables, st.floats(-2, 8), st.floats(-2, 8))
def test_looking_along_fixed_resources_is_exactly_the_same(table: np.ndarray, size: float, resources: float) -> None:
    surface = Surface(np.arange(len(table), dtype=float), np.arange(table.shape[1], dtype=float), table)
    assert surface.along(resources)(size) == surface(size, resources)


def test_outside_of_the_table_its_edge_counts() -> None:
    surface = Surface(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([[2.0, 1.0], [4.0, 3.0]]))
    assert surface(-5.0, -5.0) == 2.0
    assert surface(5.0, 5.0) == 3.0
