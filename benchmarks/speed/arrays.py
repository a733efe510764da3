"""Blocked arrays beside Dask's: a matrix product, and a singular value decomposition of a tall matrix; time and memory.

    product         4,096 × 4,096, in 8 × 8 blocks of 2 MiB        and the sum of its squares
    decomposition   400,000 × 64, in 8 blocks of rows of 26 MB     singular values, and the sum of the squares of U

Both systems have two workers of one thread each; libraries compute with one thread in both. Blocks are made by tasks,
from the same seeds by the same code, and only the few numbers of the results come back; those are compared with what
NumPy alone computes. On Dask this is `dask.array` as one writes it, on Augury the same in tasks: one for each block of
a result, and every block is an array that a task returns.

Times: both systems are up and have run the problem once, so Augury has a history. They take turns, and go first in
turns. A time is from the first line to the numbers; the ratio of medians counts.

Memory is measured apart, in runs that are not timed: each in a fresh process that brings up one system, runs the
problem once and then, while it is watched every 20 ms, once more. What counts is the most memory that it and all
processes below it have together; `memory` says how that is found. The Dask scheduler lives in the client's process;
Augury has a Redis, a supervisor and a parent of its workers: everything is counted.

A repetition of times takes ten seconds; there are at most three of memory, of half a minute each.
"""

import importlib
import math
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median
from typing import IO

from speed.figures import Figure
from speed.matrices import ArraySystem, Decomposition, Problem, Product, expected
from speed.measuring import (
    HERE,
    Effort,
    WrongResultError,
    main,
    part_command,
    ratio,
    rotated,
    say,
    timed,
)
from speed.memory import peak_bytes, shared_bytes

SYSTEMS = {"augury": "speed.arrays_augury", "dask": "speed.arrays_dask"}
TIME_BAR = 0.9
MEMORY_BAR = 1.5
MEMORY_REPEAT = 3
PAUSE_S = 0.02
_ERROR = 1e-9
_BLOCKS = 8


def problems(scale: float) -> dict[str, Problem]:
    effort = Effort(scale=scale)
    side, rows = effort.size(512, 16), effort.size(50_000, 64)
    return {
        f"product, {_BLOCKS * side:,} × {_BLOCKS * side:,}": Product(blocks=_BLOCKS, side=side),
        f"decomposition, {_BLOCKS * rows:,} × 64": Decomposition(blocks=_BLOCKS, rows=rows, columns=64),
    }


def measure(effort: Effort) -> Iterator[Figure]:
    """Times of both problems, then memory."""
    for name, problem in problems(effort.scale).items():
        right = expected(problem)
        yield time_figure(name, times_of(name, problem, right, effort.repeat))
        yield memory_figure(name, peaks_of(name, right, effort))


# ── times ──────────────────────────────────────────────────────────────────────────────────────────────────────


def times_of(name: str, problem: Problem, right: list[float], repeat: int) -> dict[str, list[float]]:
    """The seconds of each system; the first run of each is not among them."""
    times: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    with ExitStack() as stack:
        systems = {system: started(system, stack) for system in SYSTEMS}
        for repetition in range(repeat + 1):
            for system in rotated(list(SYSTEMS), repetition):
                elapsed_s, result = timed(solved(systems[system], problem))
                check_close(f"{system}: {name}", result, right)
                if repetition:
                    times[system].append(elapsed_s)
                    say(f"{repetition}/{repeat}  {name:28} {system:8} {elapsed_s:8.3f} s")
    return times


def started(name: str, stack: ExitStack) -> ArraySystem:
    system: ArraySystem = importlib.import_module(SYSTEMS[name]).System()
    system.start()
    stack.callback(system.stop)
    return system


def solved(system: ArraySystem, problem: Problem) -> Callable[[], list[float]]:
    """What has a system solve a problem."""
    if isinstance(problem, Product):
        return lambda: system.product(problem)
    return lambda: system.decomposition(problem)


def check_close(what: str, result: list[float], right: list[float]) -> None:
    close = (math.isclose(one, other, rel_tol=_ERROR) for one, other in zip(result, right, strict=False))
    if len(result) != len(right) or not all(close):
        raise WrongResultError(f"{what} gave {result}, not {right}")


def time_figure(name: str, times: dict[str, list[float]]) -> Figure:
    return Figure(
        what=f"{name}: of Dask's time",
        value=ratio(times["augury"], times["dask"]),
        bar=TIME_BAR,
        samples={f"{system}_s": seconds for system, seconds in times.items()},
        note=f"{median(times['augury']):.3f} s, Dask {median(times['dask']):.3f} s",
    )


# ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────


def peaks_of(name: str, right: list[float], effort: Effort) -> dict[str, list[float]]:
    """The peaks of each system in MB."""
    peaks: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    for repetition in range(min(effort.repeat, MEMORY_REPEAT)):
        for system in rotated(list(SYSTEMS), repetition):
            result, peak_mb = watched(system, name, effort.scale)
            check_close(f"{system}: {name}", result, right)
            peaks[system].append(peak_mb)
            say(f"{repetition + 1}  {name:28} {system:8} {peak_mb:8.0f} MB")
    return peaks


def watched(system: str, name: str, scale: float) -> tuple[list[float], float]:
    """What came out of one run, and the most memory that it took in MB."""
    before_bytes = shared_bytes()
    command = part_command("speed.arrays", system, name, scale)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=HERE, stdin=pipe, stdout=pipe, text=True, bufsize=1) as process:
        stdin, stdout = piped(process.stdin), piped(process.stdout)
        if stdout.readline() != "ready\n":
            raise RuntimeError(f"{system} did not get ready for {name}")
        stdin.write("go\n")
        peak = peak_bytes(process.pid, before_bytes, lambda: not select.select([stdout], [], [], PAUSE_S)[0])
        numbers = [float(number) for number in stdout.readline().split()]
        stdin.close()
        stdout.read()  # until it has ended
    return numbers, peak / 1e6


def piped(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("there is no pipe")
    return pipe


def run_watched(system: str, name: str, scale: str) -> None:
    """In a fresh process: solve a problem, say so, wait to be watched, and solve it once more."""
    problem = problems(float(scale))[name]
    with ExitStack() as stack:
        running = started(system, stack)
        solve = solved(running, problem)
        solve()
        running.settle()
        print("ready", flush=True)
        sys.stdin.readline()
        print(*solve(), flush=True)
        sys.stdin.readline()


def memory_figure(name: str, peaks: dict[str, list[float]]) -> Figure:
    return Figure(
        what=f"{name}: of Dask's peak memory",
        value=ratio(peaks["augury"], peaks["dask"]),
        bar=MEMORY_BAR,
        samples={f"{system}_mb": megabytes for system, megabytes in peaks.items()},
        note=f"{median(peaks['augury']):,.0f} MB, Dask {median(peaks['dask']):,.0f} MB",
    )


if __name__ == "__main__":
    sys.exit(main(measure, run_watched))
