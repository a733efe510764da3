"""Fifty runs at once, beside the same one after another: do they get in each other's way, and does one starve?

A run is 100 tasks of two to three milliseconds of work, and a sum. Each has numbers of its own, so its result shows
that it got its own. One client submits them all, on the embedded platform as it is by default, which is warm; two runs
go first, so there is a history. The two ways take turns in alternating order, and the ratio of the medians of their
total times counts.

Nobody starves if no run takes the whole time: for each run, its time from submission to result is set beside the time
until all were done.

A repetition takes half a minute.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, NamedTuple

from augury import Client, task
from speed.figures import Figure
from speed.measuring import Effort, check, main, ratio, say

RUNS = 50
TASKS = 100
BAR = 1.2
_STEPS = 60_000
_MODULUS = 1_000_003


def work(seed: int) -> int:
    """Two to three milliseconds of a processor."""
    number = seed
    for step in range(_STEPS):
        number = (number * 31 + step) % _MODULUS
    return number


work_task = task(work)


@task
def total(numbers: list[int]) -> int:
    return sum(numbers)


class Sample(NamedTuple):
    """How long it took.

    Attributes:
        total_s: Until all runs were over.
        own_s: For each run, from its submission to its result.
        until_s: For each run, from the beginning to its result.
    """

    total_s: float
    own_s: Sequence[float]
    until_s: Sequence[float]


def measure(effort: Effort) -> Iterator[Figure]:
    """Both ways, in turns."""
    count = effort.size(RUNS, 3)
    expected = [sum(map(work, seeds(number))) for number in range(count)]
    ways: dict[str, list[Sample]] = {"at once": [], "one by one": []}
    with tempfile.TemporaryDirectory() as folder, Client(history=folder, observers=()) as client:
        for _ in range(2):
            client.compute(workflow(0))
        for repetition in range(effort.repeat):
            for way in sorted(ways, reverse=repetition % 2 == 1):
                sample, results = WAYS[way](client, count)
                check(f"{count} runs {way}", results, expected)
                ways[way].append(sample)
                say(f"{repetition + 1}/{effort.repeat}  {count} runs {way:10} {sample.total_s:8.3f} s")
    yield from figures(count, ways["at once"], ways["one by one"])


def figures(count: int, at_once: Sequence[Sample], one_by_one: Sequence[Sample]) -> Iterator[Figure]:
    at_once_s, one_by_one_s = ([sample.total_s for sample in samples] for samples in (at_once, one_by_one))
    yield Figure(
        what=f"{count} runs at once: of their time one by one",
        value=ratio(at_once_s, one_by_one_s),
        bar=BAR,
        samples={"at once_s": at_once_s, "one by one_s": one_by_one_s},
        note=f"{median(at_once_s):.2f} s, one by one {median(one_by_one_s):.2f} s",
    )
    slowest = [max(sample.own_s) / sample.total_s for sample in at_once]
    yield Figure(
        what=f"{count} runs at once: the slowest run, of the time of all",
        value=median(slowest),
        samples={"slowest": slowest} | {f"own_s {number}": sample.own_s for number, sample in enumerate(at_once)},
    )
    first_s = [min(sample.until_s) for sample in at_once]
    yield Figure(
        what=f"{count} runs at once: time until the first result",
        value=median(first_s),
        unit="s",
        samples={"first_s": first_s},
    )


def workflow(number: int) -> Any:
    return total([work_task(seed) for seed in seeds(number)])


def seeds(number: int) -> range:
    """The numbers that a run works on."""
    return range(number * TASKS, (number + 1) * TASKS)


def run_at_once(client: Client, count: int) -> tuple[Sample, list[int]]:
    """Submit all, then wait for all; a thread notes when the result of its run is there."""
    began_s = time.monotonic()
    submitted_s, waiting = [], []
    with ThreadPoolExecutor(count) as threads:
        for number in range(count):
            submitted_s.append(time.monotonic())
            waiting.append(threads.submit(awaited, client.submit(workflow(number))))
        ends = [future.result() for future in waiting]
    ended_s = [end_s for end_s, _ in ends]
    own_s = [end_s - start_s for end_s, start_s in zip(ended_s, submitted_s, strict=True)]
    sample = Sample(max(ended_s) - began_s, own_s, [end_s - began_s for end_s in ended_s])
    return sample, [result for _, result in ends]


def run_one_by_one(client: Client, count: int) -> tuple[Sample, list[int]]:
    """Submit one when the one before is over."""
    began_s = time.monotonic()
    own_s, until_s, results = [], [], []
    for number in range(count):
        submitted_s = time.monotonic()
        ended_s, result = awaited(client.submit(workflow(number)))
        own_s.append(ended_s - submitted_s)
        until_s.append(ended_s - began_s)
        results.append(result)
    return Sample(until_s[-1], own_s, until_s), results


def awaited(run: Any) -> tuple[float, int]:
    """When its result was there, and what it is."""
    result = run.result()
    return time.monotonic(), result


WAYS: dict[str, Callable[[Client, int], tuple[Sample, list[int]]]] = {
    "at once": run_at_once,
    "one by one": run_one_by_one,
}


if __name__ == "__main__":
    sys.exit(main(measure))
