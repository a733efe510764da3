"""Many tasks that do nothing, in four shapes, beside Ray and Dask distributed.

    fan-out    10,000 numbers, and a sum                     how fast tasks are handed out
    tree       1,024 numbers added in pairs, 1,023 tasks     how fast dependencies are counted
    chain      1,000 increments, one after another           how long a hop takes
    uneven     400 tasks, the first half of 10 ms each       how well work is spread; two workers need 1 s at least

Each system has two single-threaded workers, and all of them are up at once, idle but for the one that is measured. The
first round is not counted: after it every system has run everything in full size, and Augury has a history. A
repetition runs every shape on every system before the next begins, and the order of systems rotates, so that a slow
minute of the machine hits all alike. Every result is checked. A time covers building the graph, submitting it and
getting the result; what counts is the ratio of medians.

The first three shapes are also run without any history: by a client with a platform and an empty history of its own,
for each run anew, whose workers are warm but have never seen these functions. That is beside Ray's time of the same
repetitions.

Takes half a minute for each repetition, nearly all of it Dask's fan-out.
"""

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from systems import augury_engine
from systems.protocol import System

from speed.figures import Figure
from speed.measuring import Effort, check, main, ratio, rotated, say, timed

PEERS = {"ray": "systems.ray_cluster", "dask": "systems.dask_cluster"}
NAMES = {"ray": "Ray", "dask": "Dask"}
AUGURY = "augury"
FIRST = "augury, first run"
FIRST_BAR = 1.0

Times = dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A workflow that every system runs.

    Attributes:
        name: What it is called, with a place for its size.
        size: How large it is.
        run: Has a system run it.
        expected: What must come out, by size.
        bars: How much of a peer's time Augury may take, from the second run on; without any, all is only shown.
    """

    name: str
    size: int
    run: Callable[[System, int], int]
    expected: Callable[[int], int]
    bars: Mapping[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """For people."""
        return self.name.format(f"{self.size:,}")


def sum_below(size: int) -> int:
    return size * (size - 1) // 2


def shapes(effort: Effort) -> list[Shape]:
    return [
        Shape(
            name="fan-out of {}",
            size=effort.size(10_000, 2),
            run=lambda system, size: system.fan_out(size),
            expected=sum_below,
            bars={"ray": 0.10, "dask": 0.03},
        ),
        Shape(
            name="tree of {} numbers",
            size=effort.size(1_024, 2),
            run=lambda system, size: system.tree(size),
            expected=sum_below,
            bars={"ray": 0.20, "dask": 0.15},
        ),
        Shape(
            name="chain of {}",
            size=effort.size(1_000, 2),
            run=lambda system, size: system.chain(size),
            expected=lambda size: size,
            bars={"ray": 0.05, "dask": 0.02},
        ),
        Shape(
            name="uneven, {} tasks",
            size=effort.size(400, 2),
            run=lambda system, size: system.uneven(size),
            expected=sum_below,
        ),
    ]


def measure(effort: Effort) -> Iterator[Figure]:
    """All shapes on all systems."""
    found = shapes(effort)
    times: dict[str, Times] = {shape.label: {} for shape in found}
    with ExitStack() as stack:
        systems = [started(augury_engine.System(), stack)]
        systems += [started(importlib.import_module(module).System(), stack) for module in PEERS.values()]
        for shape in found:
            for system in systems:
                run_once(system, shape)
        for repetition in range(effort.repeat):
            for shape in found:
                for system in rotated(systems, repetition):
                    note(times[shape.label], system.name, run_once(system, shape), shape)
                if shape.bars:
                    note(times[shape.label], FIRST, first_run(shape), shape)
    for shape in found:
        yield from figures(shape, times[shape.label])


def started(system: System, stack: ExitStack) -> System:
    say(f"starting {system.name} {system.version()}")
    system.start()
    stack.callback(system.stop)
    return system


def run_once(system: System, shape: Shape) -> float:
    """How long it takes."""
    elapsed_s, result = timed(lambda: shape.run(system, shape.size))
    check(f"{system.name}: {shape.label}", result, shape.expected(shape.size))
    return elapsed_s


def first_run(shape: Shape) -> float:
    """How long it takes if nothing is known of the workflow, on a platform that is up."""
    with tempfile.TemporaryDirectory() as folder:
        system = augury_engine.System(history=folder)
        system.start()
        try:
            system.warm_up()
            return run_once(system, shape)
        finally:
            system.stop()


def note(times: Times, name: str, elapsed_s: float, shape: Shape) -> None:
    times.setdefault(name, []).append(elapsed_s)
    say(f"{shape.label:24} {name:18} {elapsed_s:8.3f} s")


def figures(shape: Shape, times: Times) -> Iterator[Figure]:
    for peer, name in NAMES.items():
        yield beside(shape, times, AUGURY, peer, f"{shape.label}: of {name}'s time", shape.bars.get(peer))
    if shape.bars:
        yield beside(shape, times, FIRST, "ray", f"{shape.label}, first run: of Ray's time", FIRST_BAR)


def beside(shape: Shape, times: Times, own: str, peer: str, what: str, bar: float | None) -> Figure:
    samples: dict[str, Sequence[float]] = {f"{name}_s": times[name] for name in (own, peer)}
    return Figure(
        what=what,
        value=ratio(times[own], times[peer]),
        bar=bar,
        samples=samples,
        note=f"{median(times[own]):.3f} s, {NAMES[peer]} {median(times[peer]):.3f} s",
    )


if __name__ == "__main__":
    sys.exit(main(measure))
