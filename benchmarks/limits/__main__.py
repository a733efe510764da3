"""What is the next bottleneck on a real cloud?

    python benchmarks/limits                          # six minutes, on one core
    python benchmarks/limits --quick                  # half a minute: less to extrapolate from
    python benchmarks/limits --largest                # then also runs the target itself in virtual time: ten minutes

Runs the real worker core in virtual time, in four shapes, planned and flexible, and counts what it asks of storage and
of the platform (`counting.py`); measures what each of these calls costs a real Redis (`server.py`) and what a workflow
costs its client and each of its workers before anything runs (`ends.py`); and works out from both what a run needs that
is too large to be tried, beside what there is (`bottlenecks.py`). The last column says what each number rests on.

What is not in it: measurements and printed text that workers send, objects above 16 KiB (unless `--output-bytes` is),
TLS, replicas and persistence of Redis, losses. All environments start at once, which a real platform spreads.
"""

import argparse
import json
import resource
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from limits.bottlenecks import Resource, Target, grown, resources
from limits.counting import Counts, count
from limits.ends import Ends, measure_ends
from limits.server import ServerCosts, measure_server
from limits.shapes import SHAPES
from limits.tables import (
    compared_table,
    counts_table,
    ends_table,
    firsts_table,
    resources_table,
    server_table,
    title,
)

SIZES = ((1_000, 10), (10_000, 10), (10_000, 100), (10_000, 1_000), (100_000, 1_000))
BASE = (10_000, 100_000)
QUICK = (1_000, 10_000)


def main() -> None:
    options = parse_options()
    target = Target(tasks=options.tasks, workers=options.workers, task_s=options.task_s)
    per_worker = max(1, target.tasks // target.workers)
    base = QUICK if options.quick else BASE
    diagonal = [(tasks, tasks // per_worker) for tasks in base]
    sizes = diagonal if options.quick else sorted({*SIZES, *diagonal})
    counts = [one for shape in options.shapes for one in counted(shape, sizes, options)]
    print(f"\nCounted in virtual time\n{counts_table(counts)}")
    ends = [measure_ends(shape, tasks, tasks // per_worker) for shape in options.shapes for tasks in BASE]
    print(f"\nMeasured: before anything runs\n{ends_table(ends)}")
    say("measuring Redis")
    costs = measure_server(target.tasks)
    print(f"\nMeasured: what calls cost Redis\n{server_table(costs)}")
    print(
        f"a worker fetches its description at {costs.spec_cpu_us_per_mb:.0f} µs of Redis a MB, of which it keeps "
        f"{costs.unread:.0%} until it is read; a client uploads it at {costs.upload_s_per_mb * 1e3:.1f} ms a MB; "
        f"a worker holds {costs.connections:.1f} connections of {costs.most_clients:,}"
    )
    found = judged(counts, ends, costs, target, diagonal)
    worst = max(found, key=lambda case: found[case][0].utilisation)
    shown = [*dict.fromkeys(case for case in (options.case or worst, worst) if case in found)]
    for case in shown:
        print(f"\n{title(target)}: {case}\n{resources_table(found[case])}")
    print(f"\nFirst bottlenecks of all cases\n{firsts_table(found)}")
    held = largest(counts, ends, diagonal, target, options) if options.largest else []
    if options.json:
        write(options.json, counts, ends, costs, found, held)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_000_000, help="of the run that is asked about (1,000,000)")
    parser.add_argument("--workers", type=int, default=10_000, help="that it has (10,000)")
    parser.add_argument("--task-s", type=float, default=1.0, help="how long a task takes (1 s)")
    parser.add_argument("--output-bytes", type=int, default=100, help="how large an output is (100)")
    parser.add_argument("--shapes", type=shape_names, default=list(SHAPES), help="names, separated by commas")
    parser.add_argument("--case", default="fan-out, planned", help="whose resources are shown, beside the worst")
    parser.add_argument("--quick", action="store_true", help="extrapolate from 1,000 and 10,000 tasks")
    parser.add_argument("--largest", action="store_true", help="run the case at the target's size, in virtual time")
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    return parser.parse_args()


def shape_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SHAPES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(SHAPES)}")
    return names


def counted(shape: str, sizes: list[tuple[int, int]], options: argparse.Namespace) -> list[Counts]:
    found = []
    for planned in (True, False):
        for tasks, workers in sizes:
            say(f"{shape}, {'planned' if planned else 'flexible'}: {tasks:,} tasks on {workers:,} workers")
            made = SHAPES[shape](tasks, workers)
            found.append(count(made, planned=planned, task_s=options.task_s, output_bytes=options.output_bytes))
    return found


def judged(
    counts: list[Counts], ends: list[Ends], costs: ServerCosts, target: Target, diagonal: list[tuple[int, int]]
) -> dict[str, list[Resource]]:
    """What each case needs at the target, the scarcest first."""
    found = {}
    for case in dict.fromkeys(one.case for one in counts):
        pair = pair_of(counts, case, diagonal)
        own_ends = [one for one in ends if one.shape == pair[0].shape]
        found[case] = resources(pair, own_ends, costs, target)
    return found


def pair_of(counts: list[Counts], case: str, diagonal: list[tuple[int, int]]) -> list[Counts]:
    """A case at the two sizes that are extrapolated from; trees and chains may lack a task or two."""
    own = [one for one in counts if one.case == case]
    return [min(own, key=lambda one: (one.workers != workers, abs(one.tasks - tasks))) for tasks, workers in diagonal]


def largest(
    counts: list[Counts],
    ends: list[Ends],
    diagonal: list[tuple[int, int]],
    target: Target,
    options: argparse.Namespace,
) -> list[tuple[str, float, float]]:
    """Try what was extrapolated: expected and found."""
    shape, _, mode = options.case.partition(", ")
    say(f"{options.case}: {target.tasks:,} tasks on {target.workers:,} workers")
    small, large = pair_of(counts, options.case, diagonal)
    began_s = time.perf_counter()
    made = SHAPES[shape](target.tasks, target.workers)
    found = count(made, planned=mode == "planned", task_s=target.task_s, output_bytes=options.output_bytes)
    took_s = time.perf_counter() - began_s
    memory_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    found_ends = measure_ends(shape, target.tasks, target.workers)
    small_ends, large_ends = (one for one in ends if one.shape == shape)
    sizes = (small.tasks, large.tasks)
    rows: list[tuple[str, float, float]] = []
    for kind in (
        "report",
        "empty reports",
        "progress reports",
        "completions",
        "consumers",
        "outputs",
        "beat",
        "bytes to",
        "bytes from",
    ):
        expected = grown(small.total.get(kind, 0), large.total.get(kind, 0), sizes, target.tasks).value
        rows.append((kind, expected, found.total.get(kind, 0)))
    rows.append(("calls in busiest s", grown(small.peak, large.peak, sizes, target.tasks).value, found.peak))
    for name in ("spec_bytes", "client_s", "decode_s", "decode_bytes"):
        expected = grown(getattr(small_ends, name), getattr(large_ends, name), sizes, target.tasks).value
        rows.append((name, expected, getattr(found_ends, name)))
    print(f"\nThe target itself, {options.case}: {took_s:.0f} s, {memory_gb:.1f} GB\n{compared_table(rows)}")
    print(f"\n{counts_table([found])}\n\n{ends_table([found_ends])}")
    return rows


def write(
    path: Path,
    counts: list[Counts],
    ends: list[Ends],
    costs: ServerCosts,
    found: dict[str, list[Resource]],
    held: list[tuple[str, float, float]],
) -> None:
    document: dict[str, Any] = {
        "counts": [asdict(replace(one, seconds={})) | {"peak": one.peak} for one in counts],
        "ends": [asdict(one) for one in ends],
        "redis": asdict(costs),
        "resources": {case: [asdict(one) for one in resources] for case, resources in found.items()},
        "largest": [{"what": what, "extrapolated": expected, "found": came} for what, expected, came in held],
    }
    path.write_text(json.dumps(document, indent=1, default=float) + "\n")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
