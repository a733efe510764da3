"""Dask distributed, on a local cluster of two single-threaded processes.

Of its two interfaces each workload uses the faster one: futures for the fan-out, delayed functions for the tree
(half the time of futures) and the chain (as fast).
"""

import time
from importlib.metadata import version
from typing import Any

from dask import delayed
from distributed import Client, LocalCluster

from systems.protocol import uneven_delays


def echo(number: int) -> int:
    return number


def echo_after(number: int, delay_s: float) -> int:
    time.sleep(delay_s)
    return number


def total(numbers: list[int]) -> int:
    return sum(numbers)


def add(left: int, right: int) -> int:
    return left + right


def increment(number: int) -> int:
    return number + 1


delayed_add = delayed(add)
delayed_increment = delayed(increment)


class System:
    """A `LocalCluster` and its client."""

    name = "dask"

    def version(self) -> str:
        """Of distributed."""
        return version("distributed")

    def start(self) -> None:
        """Start the scheduler and two workers; the dashboard is left out."""
        self._cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        self._client = Client(self._cluster)
        self._client.wait_for_workers(2)

    def stop(self) -> None:
        """Close both."""
        self._client.close()
        self._cluster.close()

    def fan_out(self, width: int) -> int:
        """One call makes all futures; a list of them is one argument."""
        numbers = self._client.map(echo, range(width), pure=False)
        return int(self._client.submit(total, numbers, pure=False).result())

    def tree(self, leaves: int) -> int:
        """Pairs of pairs."""
        level: list[Any] = list(range(leaves))
        while len(level) > 1:
            odd = level[len(level) // 2 * 2 :]
            level = [delayed_add(left, right) for left, right in zip(level[::2], level[1::2], strict=False)] + odd
        return self._result(level[0])

    def chain(self, length: int) -> int:
        """Each takes the one before."""
        number: Any = 0
        for _ in range(length):
            number = delayed_increment(number)
        return self._result(number)

    def uneven(self, width: int) -> int:
        """As the fan-out."""
        numbers = self._client.map(echo_after, range(width), uneven_delays(width), pure=False)
        return int(self._client.submit(total, numbers, pure=False).result())

    def _result(self, value: Any) -> int:
        return int(self._client.compute(value).result())
