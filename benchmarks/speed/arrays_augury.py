"""Blocked arrays on Augury: a task for each block of a result."""

import tempfile
from typing import Any

import numpy as np

from augury import Client, Embedded, task
from speed.matrices import LEFT, RIGHT, TALL, Decomposition, Matrix, Product, normal_block, uniform_block

make_square = task(uniform_block)
make_rows = task(normal_block)


@task
def multiply(row: list[Matrix], column: list[Matrix]) -> Matrix:
    block = row[0] @ column[0]
    for left, right in zip(row[1:], column[1:], strict=True):
        block += left @ right
    return block


@task
def sum_of_squares(block: Matrix) -> float:
    return float(np.square(block).sum())


@task
def total(numbers: list[float]) -> float:
    return sum(numbers)


@task
def factor(block: Matrix) -> tuple[Matrix, Matrix]:
    factors = np.linalg.qr(block)
    return factors.Q, factors.R


@task
def triangle(factors: tuple[Matrix, Matrix]) -> Matrix:
    return factors[1]


@task
def decompose(triangles: list[Matrix]) -> tuple[Matrix, Matrix]:
    """U of the triangles on top of each other, and the singular values."""
    factors = np.linalg.qr(np.vstack(triangles))
    inner, values, _ = np.linalg.svd(factors.R)
    return factors.Q @ inner, values


@task
def left_vectors(factors: tuple[Matrix, Matrix], decomposed: tuple[Matrix, Matrix], row: int) -> Matrix:
    columns = len(factors[1])
    return factors[0] @ decomposed[0][row * columns : (row + 1) * columns]


@task
def singular_values(decomposed: tuple[Matrix, Matrix]) -> list[float]:
    return decomposed[1].tolist()  # type: ignore[no-any-return]


class System:
    """A client with the embedded platform, two slots and a history of its own."""

    def start(self) -> None:
        """Start the platform."""
        self._folder = tempfile.TemporaryDirectory()
        self._client = Client(platform=Embedded(slots=2, preload=("numpy",)), history=self._folder.name, observers=())

    def stop(self) -> None:
        """Stop it."""
        self._client.close()
        self._folder.cleanup()

    def product(self, problem: Product) -> list[float]:
        """A task for each block of the product takes a row and a column of blocks."""
        places = range(problem.blocks)
        left, right = (
            [[make_square(matrix, row, column, problem.side) for column in places] for row in places]
            for matrix in (LEFT, RIGHT)
        )
        columns = list(zip(*right, strict=True))
        squares = [sum_of_squares(multiply(row, list(column))) for row in left for column in columns]
        return [self._result(total(squares))]

    def decomposition(self, problem: Decomposition) -> list[float]:
        """QR of each block of rows, the SVD of the triangles, and from both the blocks of U."""
        blocks = [make_rows(TALL, row, problem.rows, problem.columns) for row in range(problem.blocks)]
        factors = [factor(block) for block in blocks]
        decomposed = decompose([triangle(pair) for pair in factors])
        squares = [sum_of_squares(left_vectors(pair, decomposed, row)) for row, pair in enumerate(factors)]
        values, square = self._result((singular_values(decomposed), total(squares)))
        return [*values, square]

    def settle(self) -> None:
        """Wait until the last run is in the history, so that the next one is planned."""
        self._run.report()

    def _result(self, value: Any) -> Any:
        self._run = self._client.submit(value)
        return self._run.result()
