"""Augury: decorated functions on the embedded platform with two slots."""

import time
from typing import Any

import augury
from augury import Client, Embedded, task
from systems.protocol import uneven_delays


@task
def echo(number: int) -> int:
    return number


@task
def echo_after(number: int, delay_s: float) -> int:
    time.sleep(delay_s)
    return number


@task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@task
def add(left: int, right: int) -> int:
    return left + right


@task
def increment(number: int) -> int:
    return number + 1


@task
def nap() -> None:
    time.sleep(0.05)


class System:
    """A client with a platform of its own.

    Args:
        planner: What makes plans; by default that of a client.
        history: Where what runs teach is kept; by default where a client keeps it.
    """

    name = "augury"

    def __init__(self, planner: augury.Planner | None = None, history: str | None = None) -> None:
        self._planner = planner
        self._history = history

    def version(self) -> str:
        """Of augury."""
        return augury.__version__

    def start(self) -> None:
        """Start the embedded platform."""
        self._client = Client(platform=Embedded(slots=2), planner=self._planner, observers=(), history=self._history)

    def warm_up(self) -> None:
        """Have a worker in each slot, which has run nothing of what is measured."""
        self._client.compute([nap() for _ in range(4)])

    def stop(self) -> None:
        """Stop it."""
        self._client.close()

    def fan_out(self, width: int) -> int:
        """A list of tasks is one argument."""
        return self._result(total([echo(number) for number in range(width)]))

    def tree(self, leaves: int) -> int:
        """Pairs of pairs."""
        level: list[Any] = list(range(leaves))
        while len(level) > 1:
            odd = level[len(level) // 2 * 2 :]
            level = [add(left, right) for left, right in zip(level[::2], level[1::2], strict=False)] + odd
        return self._result(level[0])

    def chain(self, length: int) -> int:
        """Each takes the one before."""
        number: Any = 0
        for _ in range(length):
            number = increment(number)
        return self._result(number)

    def uneven(self, width: int) -> int:
        """As the fan-out."""
        delays_s = uneven_delays(width)
        return self._result(total([echo_after(number, delay_s) for number, delay_s in enumerate(delays_s)]))

    def _result(self, value: Any) -> int:
        return int(self._client.submit(value).result())
