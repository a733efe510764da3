"""Compare Augury with other engines on this machine, in four shapes.

    fan-out    10,000 tasks that do nothing, and a sum      how fast tasks are handed out
    tree       1,024 numbers added in pairs, 1,023 tasks    how fast dependencies are counted
    chain      1,000 increments, one after another          how long a hop takes
    uneven     400 tasks, the first half of 10 ms each       how well work is spread; two workers need 1 s at least

All systems run in one process, on two worker processes each, warmed up before anything is timed. A
repetition runs every workload on every system before the next begins, and the order of systems changes
each time, so that a slow minute of the machine hits all alike. Every result is checked. A time covers building the
graph, submitting it and getting the result; the median of the repetitions counts.

    python benchmarks/run.py --systems augury,dask --repeat 5 --scale 0.1
"""

import argparse
import importlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from systems.protocol import System

MODULES = {"augury": "systems.augury_engine", "dask": "systems.dask_cluster", "ray": "systems.ray_cluster"}
SHAPES = ("fan-out", "tree", "chain", "uneven")
OUT = Path(__file__).parent / "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One shape: how large it is, how to run it, how many tasks that makes and what must come out."""

    name: str
    size: int
    tasks: int
    expected: int
    run: Callable[[System, int], int]


def workloads(scale: float) -> list[Workload]:
    """The shapes, larger or smaller by a factor."""
    width, leaves, length, uneven = (max(2, round(size * scale)) for size in (10_000, 1_024, 1_000, 400))
    return [
        Workload(
            name="fan-out",
            size=width,
            tasks=width + 1,
            expected=width * (width - 1) // 2,
            run=lambda system, size: system.fan_out(size),
        ),
        Workload(
            name="tree",
            size=leaves,
            tasks=leaves - 1,
            expected=leaves * (leaves - 1) // 2,
            run=lambda system, size: system.tree(size),
        ),
        Workload(
            name="chain",
            size=length,
            tasks=length,
            expected=length,
            run=lambda system, size: system.chain(size),
        ),
        Workload(
            name="uneven",
            size=uneven,
            tasks=uneven + 1,
            expected=uneven * (uneven - 1) // 2,
            run=lambda system, size: system.uneven(size),
        ),
    ]


def main() -> None:
    options = parse_options()
    systems = [importlib.import_module(MODULES[name]).System() for name in options.systems]
    shapes = [workload for workload in workloads(options.scale) if workload.name in options.workloads]
    started: list[System] = []
    try:
        for system in systems:
            say(f"starting {system.name} {system.version()}")
            system.start()
            started.append(system)
        warm_up(systems)
        times = measure(systems, shapes, options.repeat)
    finally:
        for system in reversed(started):
            system.stop()
    write(summary(systems, shapes, times, options))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=system_names, default=list(MODULES), help="names, separated by commas")
    parser.add_argument("--workloads", type=workload_names, default=SHAPES, help="names, separated by commas")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for the size of every workload (1)")
    return parser.parse_args()


def system_names(text: str) -> list[str]:
    return names_among(MODULES, text)


def workload_names(text: str) -> list[str]:
    return names_among(SHAPES, text)


def names_among(known: Collection[str], text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
    return names


def warm_up(systems: list[System]) -> None:
    for system in systems:
        for workload in workloads(0.1):
            run_once(system, workload)


def measure(systems: list[System], shapes: list[Workload], repeat: int) -> dict[tuple[str, str], list[float]]:
    times: dict[tuple[str, str], list[float]] = {(s.name, w.name): [] for s in systems for w in shapes}
    for repetition in range(repeat):
        shift = repetition % len(systems)
        for workload in shapes:
            for system in systems[shift:] + systems[:shift]:
                elapsed_s = run_once(system, workload)
                times[system.name, workload.name].append(elapsed_s)
                say(f"{repetition + 1}/{repeat}  {workload.name:8} {system.name:8} {elapsed_s:8.3f} s")
    return times


def run_once(system: System, workload: Workload) -> float:
    start = time.perf_counter()
    result = workload.run(system, workload.size)
    elapsed_s = time.perf_counter() - start
    if result != workload.expected:
        raise RuntimeError(f"{system.name}: {workload.name} gave {result}, not {workload.expected}")
    return elapsed_s


def summary(
    systems: list[System],
    shapes: list[Workload],
    times: dict[tuple[str, str], list[float]],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """What was measured, where, and how the others compare with the first system named."""
    first = systems[0].name
    results = {}
    for workload in shapes:
        median_s = {system.name: statistics.median(times[system.name, workload.name]) for system in systems}
        results[workload.name] = {
            "tasks": workload.tasks,
            "median_s": {name: round(value, 4) for name, value in median_s.items()},
            "per_task_us": {name: round(value / workload.tasks * 1e6, 1) for name, value in median_s.items()},
            f"times_{first}": {
                name: round(value / median_s[first], 2) for name, value in median_s.items() if name != first
            },
            "all_s": {system.name: [round(t, 4) for t in times[system.name, workload.name]] for system in systems},
        }
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "versions": {system.name: system.version() for system in systems},
        "repeat": options.repeat,
        "scale": options.scale,
        "results": results,
    }


def write(document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=2)
    OUT.mkdir(exist_ok=True)
    stamp = document["when"].replace(":", "").replace("+0000", "Z")
    (OUT / f"{stamp}.json").write_text(text + "\n")
    print(text)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
