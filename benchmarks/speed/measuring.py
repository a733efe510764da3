"""What all measurements have in common: how they are asked, how they answer, and how they start further processes.

    python -m speed.NAME [--repeat N] [--scale FACTOR] [--json FILE]

runs one of them from the folder `benchmarks`, and prints a table; or writes one line of JSON for each figure as soon
as it is known, so that what was found before a failure is not lost.

    python -m speed.NAME --part …

is how a measurement has a part of itself done in a fresh process: the last line that this prints is JSON.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from speed.figures import Failure, Figure, Line, table

HERE = Path(__file__).parents[1]
PART = "--part"
T = TypeVar("T")

_PART_S = 900.0
_TAIL_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is asked for.

    Attributes:
        repeat: How often each thing is measured; medians count.
        scale: A factor for sizes.
    """

    repeat: int = 5
    scale: float = 1.0

    @property
    def full(self) -> bool:
        """Whether sizes are those that bars are for."""
        return self.scale == 1.0

    def size(self, full: int, least: int = 1) -> int:
        """A size, scaled."""
        return full if self.full else max(least, round(full * self.scale))


class WrongResultError(Exception):
    """A system computed something else than what is right: its time means nothing."""


def check(what: str, result: object, expected: object) -> None:
    """Make sure that a result is right.

    Raises:
        WrongResultError: It is not.
    """
    if result != expected:
        raise WrongResultError(f"{what} gave {result!r}, not {expected!r}")


def main(measure: Callable[[Effort], Iterable[Figure]], part: Callable[..., Any] | None = None) -> int:
    """Do what the command line asks for; the exit code."""
    if part is not None and sys.argv[1:2] == [PART]:
        print(json.dumps(part(*sys.argv[2:])), flush=True)
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5, help="repetitions (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for sizes (1)")
    parser.add_argument("--json", type=Path, help="where each figure is written as a line of JSON; no table is printed")
    options = parser.parse_args()
    effort = Effort(repeat=options.repeat, scale=options.scale)
    lines: list[Line] = []
    for line in until_failure(measure, effort):
        lines.append(line)
        if options.json is not None:
            with options.json.open("a") as file:
                print(json.dumps(line.as_json()), file=file)
    if options.json is None:
        print(table(lines, judged=effort.full))
    return 1 if any(isinstance(line, Failure) for line in lines) else 0


def until_failure(measure: Callable[[Effort], Iterable[Figure]], effort: Effort) -> Iterator[Line]:
    """The figures of a measurement; after them what stopped it, if anything did."""
    try:
        yield from measure(effort)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what came of the measurement
        name = Path(sys.argv[0]).stem
        said = str(error).strip().splitlines() or [""]
        details = traceback.format_exc()
        say(details)
        yield Failure(what=name, reason=f"{type(error).__name__}: {said[0]}", details=details)


def done_apart(module: str, *arguments: object) -> Any:
    """Have a part of a measurement done in a process of its own; what it found.

    Raises:
        RuntimeError: It failed; ends with what it said.
    """
    command = part_command(module, *arguments)
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=_PART_S, check=False)
    if done.returncode != 0:
        tail = done.stderr.strip().splitlines()[-_TAIL_LINES:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{' '.join(command[2:])}: {tail[-1]}\n" + "\n".join(tail))
    return json.loads(done.stdout.strip().splitlines()[-1])


def part_command(module: str, *arguments: object) -> list[str]:
    """What starts a part of a measurement; from the folder `benchmarks`."""
    return [sys.executable, "-m", module, PART, *map(str, arguments)]


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """How many seconds something takes, and what it returns."""
    began_s = time.perf_counter()
    result = action()
    return time.perf_counter() - began_s, result


def rotated(items: Sequence[T], turn: int) -> list[T]:
    """The same in another order for each repetition, so that each comes first as often as the others."""
    shift = turn % len(items)
    return [*items[shift:], *items[:shift]]


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """That of the medians."""
    return median(one) / median(other)


def open_many_files() -> None:
    """Have as many files open as the system allows: each worker takes a few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def say(line: str) -> None:
    """Tell of progress."""
    print(line, file=sys.stderr, flush=True)
