"""Workflows whose results are known beforehand, so that a wrong one is noticed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from augury import Planner, Resources, UniformPlanner, WukongPlanner, task

_TASK_S = 0.004
_BLOCK_BYTES = 200_000
"""Too large to ride inside a report."""


@task
def square(x: int) -> int:
    time.sleep(_TASK_S)  # so that something is under way when something goes wrong
    return x * x


@task
def add(*values: int) -> int:
    time.sleep(_TASK_S)
    return sum(values)


@task
def total(values: list[int]) -> int:
    return sum(values)


@task
def block(seed: int) -> bytes:
    time.sleep(_TASK_S)
    return bytes((seed + index) % 251 for index in range(1000)) * (_BLOCK_BYTES // 1000)


@task
def mix(left: bytes, right: bytes) -> bytes:
    time.sleep(_TASK_S)
    return bytes((a + b) % 251 for a, b in zip(left[:1000], right[:1000], strict=True)) * (_BLOCK_BYTES // 1000)


def fan_out() -> tuple[Any, Any]:
    """40 tasks, and their sum."""
    return total([square(x) for x in range(40)]), sum(x * x for x in range(40))


def tree() -> tuple[Any, Any]:
    """32 numbers, added in pairs."""
    level = [square(x) for x in range(32)]
    while len(level) > 1:
        level = [add(left, right) for left, right in zip(level[::2], level[1::2], strict=True)]
    return level[0], sum(x * x for x in range(32))


def chains() -> tuple[Any, Any]:
    """6 chains of 8 tasks, and their sum."""
    ends = []
    for start in range(6):
        link = square(start)
        for step in range(7):
            link = add(link, step)
        ends.append(link)
    return total(ends), sum(x * x + 21 for x in range(6))


def blocks() -> tuple[Any, Any]:
    """A tree of large outputs."""
    level = [block(seed) for seed in range(8)]
    while len(level) > 1:
        level = [mix(left, right) for left, right in zip(level[::2], level[1::2], strict=True)]
    first = bytes(sum((seed + index) % 251 for seed in range(8)) % 251 for index in range(1000))
    return level[0], first * (_BLOCK_BYTES // 1000)


def diamonds() -> tuple[Any, Any]:
    """Three layers in which each task takes all of the layer before it."""
    layer = [square(x) for x in range(6)]
    value = sum(x * x for x in range(6))
    for _ in range(3):
        layer = [add(*layer, step) for step in range(6)]
        value = 6 * value + 15
    return total(layer), value


WORKLOADS: tuple[Callable[[], tuple[Any, Any]], ...] = (fan_out, tree, chains, blocks, diamonds)


@dataclass(frozen=True, slots=True)
class Planned:
    """A way of planning, with its name."""

    name: str
    make: Callable[[], Planner]


PLANNERS = (
    Planned("flexible", lambda: WukongPlanner(Resources(memory_mb=256))),
    Planned("planned", lambda: UniformPlanner(Resources(memory_mb=256))),
    Planned("planned, two at a time", lambda: UniformPlanner(Resources(cpus=2, memory_mb=256))),
)
