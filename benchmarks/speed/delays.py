"""A tree of tasks that sleep, on as many workers as it is wide: how much longer than its critical path a run takes.

1,024 numbers are added in pairs, and each addition sleeps for half a second: 10 levels, so nothing can be done within
5 s. What comes on top is the engine's: planning, starting and telling workers that share the processors of one machine.

512 tasks run at once. They can have 512 workers of one CPU, which is the hardest set-up, or 128 workers of four CPUs,
each of which runs four tasks at a time. Both are measured, and held to the same bars.

A repetition has a platform with as many slots and an empty history, both of its own. Before anything is timed, as many
other tasks sleep for so long that each has a slot of a worker to itself; all workers are warm then. After that the
same workflow runs three times: at first nobody knows how long its tasks take, then the planner does. A time is from
before the graph is built to the result, which is checked; the median of the repetitions counts.

A repetition takes a minute.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from augury import Client, Embedded, Resources, task
from speed.figures import Figure
from speed.measuring import Effort, check, main, open_many_files, say

LEAVES = 1_024
SLEEP_S = 0.5
WARMING_S = 6.0
BARS = {"first run": 1.6, "second run": 1.2, "third run": None}
CPUS = (1, 4)


@task
def add_slowly(left: int, right: int) -> int:
    time.sleep(SLEEP_S)
    return left + right


@task
def stay(duration_s: float) -> None:
    time.sleep(duration_s)


def measure(effort: Effort) -> Iterator[Figure]:
    """Three runs in a row on each kind of workers, several times."""
    open_many_files()
    leaves = effort.size(LEAVES, 16)
    warming_s = max(1.0, WARMING_S * min(1.0, effort.scale))
    for cpus in CPUS:
        repetitions = [runs_in_a_row(leaves, cpus, warming_s) for _ in range(effort.repeat)]
        yield from figures(leaves, cpus, repetitions)


def figures(leaves: int, cpus: int, repetitions: Sequence[Sequence[tuple[float, int]]]) -> Iterator[Figure]:
    shortest_s = SLEEP_S * levels(leaves)
    kind = f"workers of {cpus} CPU{'s' * (cpus > 1)}"
    for index, (name, bar) in enumerate(BARS.items()):
        times_s = [runs[index][0] for runs in repetitions]
        workers = median(runs[index][1] for runs in repetitions)
        yield Figure(
            what=f"tree of {leaves:,} numbers, {SLEEP_S:g} s each, {kind}, {name}: of its critical path",
            value=median(times_s) / shortest_s,
            bar=bar,
            samples={"augury_s": times_s, "critical path_s": [shortest_s]},
            note=f"{median(times_s):.2f} s, critical path {shortest_s:g} s, {workers:.0f} workers",
        )


def runs_in_a_row(leaves: int, cpus: int, warming_s: float) -> Sequence[tuple[float, int]]:
    """For each run how long it took, and how many workers took part."""
    wide = leaves // 2
    platform, kind = Embedded(slots=max(2, wide // cpus)), Resources(cpus=cpus, memory_mb=2048)
    with (
        tempfile.TemporaryDirectory() as folder,
        Client(platform=platform, configurations=[kind], history=folder, observers=()) as client,
    ):
        client.compute([stay(warming_s) for _ in range(wide)])
        return [run_once(client, leaves) for _ in BARS]


def run_once(client: Client, leaves: int) -> tuple[float, int]:
    began_s = time.perf_counter()
    run = client.submit(tree(leaves))
    result = run.result()
    elapsed_s = time.perf_counter() - began_s
    check("the tree", result, leaves * (leaves - 1) // 2)
    report = run.report()  # with it the run is in the history
    say(f"{elapsed_s:8.3f} s  {report}")
    return elapsed_s, report.workers


def tree(leaves: int) -> Any:
    level: list[Any] = list(range(leaves))
    while len(level) > 1:
        odd = level[len(level) // 2 * 2 :]
        level = [add_slowly(left, right) for left, right in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]


def levels(leaves: int) -> int:
    """How many tasks of the tree follow each other: each level halves what there is, rounded up."""
    return (leaves - 1).bit_length()


if __name__ == "__main__":
    sys.exit(main(measure))
