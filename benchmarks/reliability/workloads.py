"""The workloads: plain functions that note that they run, and how they are put together.

A task notes its name and its process as it begins. These notes are what faults wait for, and what tells afterwards how
often each task has run.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reliability.peers.protocol import Peer

TASK_S = 0.05
WIDTH = 200
LENGTH = 40
LEAVES = 64
ARRAY_BYTES = 1024 * 1024
GREED_BYTES = 1024 * 1024 * 1024
GREED_STEPS = 32
GREED_S = 3.0
BAD = WIDTH // 2
"""The task of the fan-out that kills its worker, or wants too much memory."""


def note(folder: str, task: str) -> None:
    """Append a line, in one write, so that those of several processes do not mix."""
    file = os.open(Path(folder) / "ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{task} {os.getpid()}\n".encode())
    finally:
        os.close(file)


def number(folder: str, index: int) -> int:
    note(folder, f"number-{index}")
    time.sleep(TASK_S)
    return index


def poisoned(folder: str, index: int) -> int:
    note(folder, f"number-{index}")
    if index == BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(TASK_S)
    return index


def greedy(folder: str, index: int) -> int:
    """As `number`, but one of them uses a gigabyte, over three seconds, so that monitors have time to notice."""
    note(folder, f"number-{index}")
    if index != BAD:
        time.sleep(TASK_S)
        return index
    kept = []
    for _ in range(GREED_STEPS):
        kept.append(np.ones(GREED_BYTES // GREED_STEPS, dtype=np.uint8))
        time.sleep(GREED_S / GREED_STEPS)
    return index


def total(folder: str, *numbers: int) -> int:
    note(folder, "total")
    return sum(numbers)


def increment(folder: str, index: int, before: int) -> int:
    note(folder, f"increment-{index}")
    time.sleep(TASK_S)
    return before + 1


def leaf(folder: str, index: int) -> Any:
    note(folder, f"leaf-{index}")
    time.sleep(TASK_S)
    return np.full(ARRAY_BYTES // 8, index, dtype=np.int64)


def add(folder: str, name: str, left: Any, right: Any) -> Any:
    note(folder, f"add-{name}")
    time.sleep(TASK_S)
    return left + right


def first(folder: str, array: Any) -> int:
    note(folder, "first")
    return int(array[0])


def fan_out(peer: Peer, folder: str, function: Callable[[str, int], int] = number) -> int:
    """200 tasks, and their sum."""
    numbers = peer.each(function, [(folder, index) for index in range(WIDTH)])
    return int(peer.result(peer.each(total, [(folder, *numbers)])[0]))


def chain(peer: Peer, folder: str) -> int:
    """40 tasks, one after another."""
    value: Any = 0
    for index in range(LENGTH):
        (value,) = peer.each(increment, [(folder, index, value)])
    return int(peer.result(value))


def tree(peer: Peer, folder: str) -> int:
    """64 arrays of 1 MiB, added in pairs to the end."""
    level = peer.each(leaf, [(folder, index) for index in range(LEAVES)])
    depth = 0
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = peer.each(add, [(folder, f"{depth}-{index}", left, right) for index, (left, right) in enumerate(pairs)])
        depth += 1
    return int(peer.result(peer.each(first, [(folder, level[0])])[0]))


def poison(peer: Peer, folder: str) -> int:
    """The fan-out, with a task that kills its worker whenever it runs."""
    return fan_out(peer, folder, poisoned)


def greed(peer: Peer, folder: str) -> int:
    """The fan-out, with a task that uses 1 GiB."""
    return fan_out(peer, folder, greedy)


WORKLOADS: dict[str, Callable[[Peer, str], int]] = {
    "fan-out": fan_out,
    "chain": chain,
    "tree": tree,
    "poison": poison,
    "greed": greed,
}
TASKS = {"fan-out": WIDTH, "chain": LENGTH, "tree": 2 * LEAVES - 1, "poison": WIDTH, "greed": WIDTH}
EXPECTED = {
    "fan-out": WIDTH * (WIDTH - 1) // 2,
    "chain": LENGTH,
    "tree": LEAVES * (LEAVES - 1) // 2,
    "poison": WIDTH * (WIDTH - 1) // 2,
    "greed": WIDTH * (WIDTH - 1) // 2,
}
