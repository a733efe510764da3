"""How long it takes to read and to add to the history of a workflow of 1,000 tasks that ran 1,000 times.

    python benchmarks/history.py [--runs 1000] [--repetitions 21]

Prints medians in milliseconds, in a folder and then in Redis: `load` of a workflow that knows its functions, `new` for
one that gets all it knows from another, and `add` of one more run. The limit for `load` is 20 ms.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, product
from pathlib import Path
from typing import NamedTuple

from augury.config import Resources
from augury.metrics.history.history import History, open_history
from augury.metrics.records import Record, Records, Series, Startup, TaskRun, Transfer, series_of
from augury.storage.server import RedisServer

TASKS = 1000
MEMORY_MB = (512, 1024, 2048, 3072, 4096, 8192)
PLANNERS = ("wukong", "uniform", "nonuniform")
PLATFORM = "embedded"


class Shape(NamedTuple):
    """A workflow: how many functions its tasks are of, and under how many circumstances it ran."""

    functions: int
    memory_sizes: int = 1
    planners: int = 1

    def __str__(self) -> str:
        return f"{self.functions:,} x {self.memory_sizes} x {self.planners}"

    @property
    def versions(self) -> list[str]:
        """The versions of its functions."""
        return [f"{number:032x}" for number in range(self.functions)]

    def kinds_of_runs(self) -> Iterator[list[Series]]:
        """What one run measures, for each combination of memory and planner."""
        for memory_mb, planner in product(MEMORY_MB[: self.memory_sizes], PLANNERS[: self.planners]):
            yield measured(self.versions, Resources(memory_mb=memory_mb), planner)


SHAPES = (Shape(1), Shape(10), Shape(10, 6, 3), Shape(1000), Shape(1000, 6, 3))


def measured(versions: list[str], resources: Resources, planner: str) -> list[Series]:
    """The measurements of a run of 1,000 tasks on ten workers."""
    records: list[Record] = []
    for number in range(TASKS):
        version = versions[number % len(versions)]
        numbers = dict.fromkeys(("queue_s", "dependency_s", "execution_s", "upload_s", "cpu_s"), 0.1 * number)
        records.append(
            TaskRun(
                function=version,
                name=f"function_{version[-4:]}",
                resources=resources,
                platform=PLATFORM,
                planner=planner,
                ended_s=float(number),
                **numbers,
            )
        )
    for number in range(10):
        where = {"platform": PLATFORM, "planner": planner, "ended_s": float(number), "duration_s": 0.1}
        records.append(Startup(state="cold", resources=resources, **where))  # type: ignore[arg-type]
        records.append(Transfer(direction="upload", resources=resources, size_bytes=1e6, **where))  # type: ignore[arg-type]
    return series_of(records)


def after_runs(shape: Shape, runs: int) -> Records:
    """What is known after so many runs, under all circumstances in turn."""
    records = Records(workflow="known")
    for number, series in zip(range(runs), cycle(list(shape.kinds_of_runs())), strict=False):
        records = records.with_run(f"run-{number}", series, float(number))
    return records


def median_ms(action: Callable[[int], object], repetitions: int) -> float:
    """The median time that an action takes; the first time does not count."""
    times_s = []
    for number in range(repetitions + 1):
        began_s = time.perf_counter()
        action(number)
        times_s.append(time.perf_counter() - began_s)
    return statistics.median(times_s[1:]) * 1000


def timings(history: History, shape: Shape, records: Records, repetitions: int) -> tuple[float, float, float]:
    """Milliseconds to load what is known, to load what another knows, and to add a run."""
    run = next(shape.kinds_of_runs())
    history.add(records.workflow, "first", run)  # this teaches the index
    history._store.update(records.workflow, lambda _: records)  # noqa: SLF001 - a thousand runs at once
    load_ms = median_ms(lambda _: history.load("known", shape.versions, PLATFORM), repetitions)
    new_ms = median_ms(lambda _: history.load("unknown", shape.versions, PLATFORM), repetitions)
    add_ms = median_ms(lambda number: history.add("known", f"more-{number}", run), repetitions)
    history.forget("known")
    return load_ms, new_ms, add_ms


def print_row(shape: Shape, runs: int, repetitions: int, folder: Path, redis: str) -> None:
    """Measure a workflow after so many runs, in a folder and in Redis."""
    records = after_runs(shape, runs)
    columns = [f"{shape!s:>30}", f"{runs:>6,}", f"{len(records):>7,}", f"{len(records.encode()) / 1e6:>5.1f}"]
    for history in (open_history(folder), open_history(redis)):
        columns += [f"{value:>7.2f}" for value in timings(history, shape, records, repetitions)]
        history.close()
    print(*columns, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=21)
    chosen = parser.parse_args()
    print(f"{'':>51} {'folder, ms':^24} {'Redis, ms':^24}")
    print(f"{'functions x memory x planners':>30} {'runs':>6} {'rows':>7} {'MB':>5}", *("   load     new     add",) * 2)
    with tempfile.TemporaryDirectory(prefix="history-") as name, RedisServer(Path(name) / "redis") as server:
        folder = Path(name) / "history"
        for shape, runs in [(SHAPES[1], 1), *((shape, chosen.runs) for shape in SHAPES)]:
            print_row(shape, runs, chosen.repetitions, folder, server.address)


if __name__ == "__main__":
    main()
