"""The matrices of `arrays`, and what must come out: the same numbers for every system."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

LEFT, RIGHT, TALL = 1, 2, 3
"""Which matrix it is; the numbers of each come from a seed of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Two square matrices that are multiplied.

    Attributes:
        blocks: How many blocks a side has.
        side: How long the side of a block is.
    """

    blocks: int
    side: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """A matrix that is taken apart, much taller than it is wide.

    Attributes:
        blocks: In how many blocks of rows it is.
        rows: How many rows a block has.
        columns: How many columns it has.
    """

    blocks: int
    rows: int
    columns: int


Problem = Product | Decomposition


class ArraySystem(Protocol):
    """What computes with blocked arrays, on two workers of one thread each."""

    def start(self) -> None:
        """Bring it up."""
        ...

    def stop(self) -> None:
        """Take it down."""
        ...

    def settle(self) -> None:
        """Wait until what the last run taught is known to the next one."""
        ...

    def product(self, problem: Product) -> list[float]:
        """The sum of the squares of a product, alone in a list."""
        ...

    def decomposition(self, problem: Decomposition) -> list[float]:
        """The singular values, and behind them the sum of the squares of U."""
        ...


def uniform_block(matrix: int, row: int, column: int, side: int) -> Matrix:
    """A block of a matrix to be multiplied: numbers between 0 and 1."""
    return np.random.default_rng([matrix, row, column]).random((side, side))


def normal_block(matrix: int, row: int, rows: int, columns: int) -> Matrix:
    """A block of rows of a matrix to be taken apart."""
    return np.random.default_rng([matrix, row]).standard_normal((rows, columns))


def expected(problem: Problem) -> list[float]:
    """What must come out, by NumPy alone."""
    return _product(problem) if isinstance(problem, Product) else _decomposition(problem)


def _product(problem: Product) -> list[float]:
    places = range(problem.blocks)
    left, right = (
        np.block([[uniform_block(matrix, row, column, problem.side) for column in places] for row in places])
        for matrix in (LEFT, RIGHT)
    )
    return [float(np.square(left @ right).sum())]


def _decomposition(problem: Decomposition) -> list[float]:
    """The squares of the singular values are the eigenvalues of AᵀA; columns of U have length 1."""
    squares: Any = 0.0
    for row in range(problem.blocks):
        block = normal_block(TALL, row, problem.rows, problem.columns)
        squares = squares + block.T @ block
    return [*np.sqrt(np.linalg.eigvalsh(squares)[::-1]).tolist(), float(problem.columns)]
