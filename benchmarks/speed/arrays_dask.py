"""Blocked arrays on Dask: `dask.array`, on a local cluster of two single-threaded processes."""

from typing import Any

import dask
import dask.array as da
from systems import dask_cluster

from speed.matrices import LEFT, RIGHT, TALL, Decomposition, Matrix, Product, normal_block, uniform_block


def square_at(matrix: int, side: int, block_id: tuple[int, int]) -> Matrix:
    return uniform_block(matrix, *block_id, side)


def rows_at(matrix: int, rows: int, columns: int, block_id: tuple[int, int]) -> Matrix:
    return normal_block(matrix, block_id[0], rows, columns)


class System(dask_cluster.System):
    """The cluster of the other measurements."""

    def settle(self) -> None:
        """A run leaves nothing for the next one."""

    def product(self, problem: Product) -> list[float]:
        """As one writes it."""
        chunks = ((problem.side,) * problem.blocks,) * 2
        left, right = (
            da.map_blocks(square_at, matrix=matrix, side=problem.side, chunks=chunks, dtype=float)
            for matrix in (LEFT, RIGHT)
        )
        product = left @ right
        return [float((product * product).sum().compute())]

    def decomposition(self, problem: Decomposition) -> list[float]:
        """`da.linalg.svd`, which does the same for a matrix in blocks of rows: QR of each, SVD of the triangles."""
        tall: Any = da.map_blocks(
            rows_at,
            matrix=TALL,
            rows=problem.rows,
            columns=problem.columns,
            chunks=((problem.rows,) * problem.blocks, (problem.columns,)),
            dtype=float,
        )
        left, values, _ = da.linalg.svd(tall)
        found, square = dask.compute(values, (left * left).sum())
        return [*found.tolist(), float(square)]
