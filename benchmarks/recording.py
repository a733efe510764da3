"""What measuring and keeping history costs: a run of 10,000 tasks that do nothing, with and without it.

    python benchmarks/recording.py [--tasks 10000] [--blocks 10] [--repeat 12]

Two clients with a platform each, both warm, take turns, in an order that is drawn anew for each pair. Which of two
equal platforms is started first makes a difference of some percent, more than what is measured here; so platforms are
started anew for each block, in alternating order. The figure is the geometric mean of the blocks' ratios of medians,
with its standard error.
"""

import argparse
import contextlib
import math
import random
import statistics
import tempfile
import time

from augury import Client, Embedded, task


@task
def nothing(number: int) -> int:
    return number


@task
def total(numbers: list[int]) -> int:
    return sum(numbers)


def run_once(client: Client, tasks: int) -> float:
    workflow = total([nothing(number) for number in range(tasks)])
    began_s = time.perf_counter()
    result = client.compute(workflow)
    duration_s = time.perf_counter() - began_s
    assert result == tasks * (tasks - 1) // 2
    return duration_s


def ratio_of_block(tasks: int, repeat: int, rng: random.Random, *, recording_first: bool) -> tuple[float, float]:
    """The medians of a run with and without history, in seconds."""
    times: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        clients = {
            recording: stack.enter_context(
                Client(platform=Embedded(), observers=[], history=folder if recording else False)
            )
            for recording in (recording_first, not recording_first)
        }
        for client in clients.values():
            for _ in range(3):
                run_once(client, tasks)
        for _ in range(repeat):
            for recording in rng.sample((True, False), 2):
                times[recording].append(run_once(clients[recording], tasks))
    return statistics.median(times[True]), statistics.median(times[False])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=12)
    options = parser.parse_args()
    rng = random.Random(1)
    logs = []
    for block in range(options.blocks):
        with_s, without_s = ratio_of_block(options.tasks, options.repeat, rng, recording_first=block % 2 == 0)
        logs.append(math.log(with_s / without_s))
        print(f"block {block + 1}: {with_s:.4f} s with history, {without_s:.4f} s without, {with_s / without_s:.4f}")
    error = statistics.stdev(logs) / len(logs) ** 0.5 if len(logs) > 1 else math.nan
    print(f"with history a run takes {math.exp(statistics.fmean(logs)):.4f} ± {error:.4f} times as long")


if __name__ == "__main__":
    main()
