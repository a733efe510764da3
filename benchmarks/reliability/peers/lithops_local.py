"""Lithops: functions on its localhost backend, with two processes at a time.

It has no graphs: what tasks take from others passes through the client, level by level. The hardened one tries calls
again, and gives those up that take longer than the limit. Version 1 of the backend keeps its processes for a whole map;
version 2, the default, starts one for each call, which takes longer than our tasks, and once did not go on after nine
of forty maps although nothing had been done to it.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lithops
from lithops.future import ResponseFuture
from lithops.retries import RetryingFunctionExecutor, RetryingFuture

from reliability.peers.protocol import LEASE_S, Arguments

RETRIES = 3


def call(function: Callable[..., Any], arguments: Arguments) -> Any:
    return function(*arguments)


class Lithops:
    """A function executor."""

    def __init__(self, *, folder: Path, fault: str, hardened: bool) -> None:
        self._hardened = hardened

    def version(self) -> str:
        """Of lithops."""
        return version("lithops")

    def start(self) -> None:
        """Make the executor; it has nothing that stays up between calls."""
        settings: dict[str, Any] = {
            "lithops": {"backend": "localhost", "storage": "localhost", "log_level": "ERROR", "data_limit": False},
            "localhost": {"worker_processes": 2, "runtime": sys.executable, "version": 1},
        }
        if self._hardened:
            settings["lithops"]["execution_timeout"] = int(LEASE_S)
        self._executor = lithops.FunctionExecutor(config=settings)
        self._retrying = RetryingFunctionExecutor(self._executor) if self._hardened else None

    def targets(self) -> dict[str, int]:
        """The client coordinates."""
        return {}

    def each(self, function: Callable[..., Any], arguments: Sequence[Arguments]) -> list[Any]:
        """Wait for what the arguments hold, then map."""
        futures = [value for one in arguments for value in one if is_future(value)]
        values = dict(zip(map(id, futures), self._all(futures), strict=True)) if futures else {}
        known = [(function, tuple(values.get(id(value), value) for value in one)) for one in arguments]
        if self._retrying is not None:
            return list(self._retrying.map(call, known, retries=RETRIES))
        return list(self._executor.map(call, known))

    def result(self, value: Any) -> Any:
        """Wait for one."""
        return self._all([value])[0]

    def stop(self) -> None:
        """Remove what it stored."""
        self._executor.clean()

    def _all(self, futures: list[Any]) -> list[Any]:
        if self._retrying is not None:
            self._retrying.wait(futures, throw_except=False)
            return [future.result() for future in futures]
        results = self._executor.get_result(futures)
        return results if isinstance(results, list) else [results]


def is_future(value: Any) -> bool:
    """Whether it stands for a result to come."""
    return isinstance(value, ResponseFuture | RetryingFuture)
