"""100,000 tasks: how long they take, how much memory their client needs, and how both grow.

    fan-out    99,999 numbers, and a sum
    layers     rows of 1,000 tasks, each of which takes two of the row before, and a sum

Each sample is a fresh process that runs the same workflow twice on the embedded platform as it is by default, with a
history of its own: the second time counts, from the definition of the first task to the result, which is checked. The
peak of memory is that of the client's process (VmHWM: unlike `ru_maxrss` it does not begin with that of the parent),
over both runs. Workflows of 10,000 and of 100,000 tasks take turns, so that a slow minute of the machine hits both;
medians count.

A repetition takes a minute.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from augury import Client, task
from speed.figures import Figure
from speed.measuring import Effort, check, done_apart, main, say, timed

TASKS = 100_000
FEWER = 10
WIDTH = 1_000
TIME_BAR_S = 20.0
MEMORY_BAR_MB = 600.0
GROWTH_BAR = 1.3


@task
def echo(number: int) -> int:
    return number


@task
def larger(left: int, right: int) -> int:
    return left if left > right else right


@task
def total(numbers: list[int]) -> int:
    return sum(numbers)


def fan_out(tasks: int) -> Any:
    return total([echo(number) for number in range(tasks - 1)])


def fan_out_result(tasks: int) -> int:
    return (tasks - 1) * (tasks - 2) // 2


def layers(tasks: int) -> Any:
    width, depth = rows_of(tasks)
    row: list[Any] = [echo(number) for number in range(width)]
    for _ in range(depth - 1):
        row = [larger(row[place], row[(place + 1) % width]) for place in range(width)]
    return total(row)


def layers_result(tasks: int) -> int:
    width, depth = rows_of(tasks)
    row = list(range(width))
    for _ in range(depth - 1):
        row = [max(row[place], row[(place + 1) % width]) for place in range(width)]
    return sum(row)


def rows_of(tasks: int) -> tuple[int, int]:
    """How wide and how deep: so many tasks, or a few less, and the sum."""
    width = max(1, min(WIDTH, tasks // 4))
    return width, tasks // width


SHAPES: dict[str, tuple[Callable[[int], Any], Callable[[int], int]]] = {
    "fan-out": (fan_out, fan_out_result),
    "layers": (layers, layers_result),
}


def measure(effort: Effort) -> Iterator[Figure]:
    """Both shapes in both sizes, each sample in a process of its own."""
    sizes = (effort.size(TASKS, 400), effort.size(TASKS // FEWER, 40))
    found: dict[tuple[str, int], list[Any]] = {(shape, size): [] for shape in SHAPES for size in sizes}
    for repetition in range(effort.repeat):
        for (shape, size), samples in found.items():
            samples.append(done_apart("speed.scale", shape, size))
            say(f"{repetition + 1}/{effort.repeat}  {shape:8} {size:7,} tasks  {samples[-1]}")
    for shape in SHAPES:
        yield from figures(shape, sizes, [found[shape, size] for size in sizes])


def figures(shape: str, sizes: tuple[int, int], found: Sequence[Sequence[Any]]) -> Iterator[Figure]:
    (many, few), (large, small) = sizes, found
    times_s, first_s = seconds_of(large, "second_s"), seconds_of(large, "first_s")
    peaks_mb = [one["peak_mb"] for one in large]
    yield Figure(
        what=f"{shape} of {many:,} tasks",
        value=median(times_s),
        unit="s",
        bar=TIME_BAR_S,
        samples={"second run_s": times_s, "first run_s": first_s},
        note=f"first run {median(first_s):.2f} s",
    )
    yield Figure(
        what=f"{shape} of {many:,} tasks: peak memory of the client",
        value=median(peaks_mb),
        unit="MB",
        bar=MEMORY_BAR_MB,
        samples={"peak_mb": peaks_mb},
    )
    per_task_us = [median(one["second_s"] / one["tasks"] for one in samples) * 1e6 for samples in found]
    yield Figure(
        what=f"{shape}: time per task, of {many:,} to of {few:,}",
        value=per_task_us[0] / per_task_us[1],
        bar=GROWTH_BAR,
        samples={f"{many} tasks_s": times_s, f"{few} tasks_s": seconds_of(small, "second_s")},
        note=f"{per_task_us[0]:.1f} µs to {per_task_us[1]:.1f} µs",
    )


def seconds_of(samples: Sequence[Any], name: str) -> list[float]:
    return [one[name] for one in samples]


def run_twice(shape: str, size: str) -> dict[str, float]:
    """In a fresh process: what two runs of a workflow take."""
    define, result = SHAPES[shape]
    tasks = int(size)
    expected = result(tasks)
    with tempfile.TemporaryDirectory() as folder, Client(history=folder, observers=()) as client:
        seconds = []
        for _ in range(2):
            elapsed_s, found = timed(lambda: client.compute(define(tasks)))
            check(f"{shape} of {tasks:,} tasks", found, expected)
            seconds.append(elapsed_s)
        return {"tasks": tasks, "first_s": seconds[0], "second_s": seconds[1], "peak_mb": peak_mb()}


def peak_mb() -> float:
    """The most memory that this process has had."""
    status = Path("/proc", str(os.getpid()), "status").read_text()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in status.splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.exit(main(measure, run_twice))
