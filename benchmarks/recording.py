"""What measuring and keeping history costs: a run of 10,000 tasks that do nothing, with and without it.

    python benchmarks/recording.py [--tasks 10000] [--repeat 40]

Two clients with a platform each, both warm, take turns, in an order that is drawn anew for each pair. The machine's
noise is larger than what is measured, so the figure is the median of the pairs' ratios, with its standard error.
"""

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=40)
    options = parser.parse_args()
    rng = random.Random(1)
    platform = Embedded()
    with (
        tempfile.TemporaryDirectory() as folder,
        Client(platform=platform, observers=[], history=folder) as recording,
        Client(platform=platform, observers=[], history=False) as silent,
    ):
        clients = {"with": recording, "without": silent}
        for client in clients.values():
            for _ in range(3):
                run_once(client, options.tasks)
        times: dict[str, list[float]] = {"with": [], "without": []}
        for _ in range(options.repeat):
            for which in rng.sample(list(clients), 2):
                times[which].append(run_once(clients[which], options.tasks))
    ratios = [with_s / without_s for with_s, without_s in zip(times["with"], times["without"], strict=True)]
    error = 1.25 * statistics.stdev(ratios) / len(ratios) ** 0.5
    for which, values in times.items():
        print(f"{which:>8} history: median {statistics.median(values):.4f} s, best {min(values):.4f} s")
    print(f"ratio of the medians {statistics.median(times['with']) / statistics.median(times['without']):.4f}")
    print(
        f"median of the ratios {statistics.median(ratios):.4f} ± {error:.4f}; ratio of the best "
        f"{min(times['with']) / min(times['without']):.4f}"
    )


if __name__ == "__main__":
    main()
