"""Where the time of a run goes, from its first line to its value: in which phase, and how each grows.

    python benchmarks/phases.py

    define    the user's calls make nodes
    build     nodes become a graph
    predict   history is read, and says what to expect
    plan      a planner makes a plan, or one that is known is found
    encode    graph, program and plan become bytes, and are signed
    invoke    they are uploaded, and the first workers asked for
    run       the workers' own time, from the first joining to the last report
    wake      the client hears of the end and fetches the value; and what is not accounted for elsewhere

A shape is run several times on a warm platform with two slots, so that history and plans are there; medians of the
later runs are shown, in milliseconds. The functions of these phases are wrapped, which costs some microseconds.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from systems.augury_engine import add, echo, increment, total

import augury.client
import augury.plan.reuse
import augury.planning
import augury.run.watch
import augury.storage.redis
from augury import Client, Embedded
from augury.observation import Observer, RunEvent, RunFinished

PHASES = ("define", "build", "predict", "plan", "encode", "invoke", "run", "wake")
RUNS, UNCOUNTED = 7, 2
MILLI = 1e3


def main() -> None:
    print(f"{'shape':22}" + "".join(f"{phase:>9}" for phase in PHASES) + f"{'total':>9}  workers")
    for name, make, sizes in (("fan-out", fan_out, (1_000, 10_000, 100_000)), ("chain", chain, (1_000, 10_000))):
        for size in sizes:
            show(f"{name} of {size:,}", make, size)
    for size in (1_024, 16_384):
        show(f"tree of {size:,}", tree, size)


def fan_out(size: int) -> Any:
    return total([echo(number) for number in range(size)])


def chain(size: int) -> Any:
    number: Any = 0
    for _ in range(size):
        number = increment(number)
    return number


def tree(size: int) -> Any:
    level: list[Any] = list(range(size))
    while len(level) > 1:
        level = [add(left, right) for left, right in zip(level[::2], level[1::2], strict=True)]
    return level[0]


class Watch(Observer):
    """Sums up how long the workers of the last run took, and how many there were."""

    run_s = 0.0
    workers = 0

    def on_event(self, event: RunEvent) -> None:
        """Take note of the report."""
        if isinstance(event, RunFinished):
            self.workers = event.report.workers
            self.run_s = event.report.gb_seconds / 2 / max(1, event.report.workers)


class Stopwatch:
    """Measures calls of some functions, by phase."""

    def __init__(self) -> None:
        self.spent_s = dict.fromkeys(PHASES, 0.0)

    def wrap(self, owner: Any, name: str, phase: str, *, within: str = "") -> None:
        """From now on, measure a function; what it takes does not count for the phase that it is called in."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                elapsed_s = time.perf_counter() - began_s
                self.spent_s[phase] += elapsed_s
                if within:
                    self.spent_s[within] -= elapsed_s

        setattr(owner, name, timed)


def show(name: str, make: Callable[[int], Any], size: int) -> None:
    """Run a shape, and print where its time went."""
    client, watch = opened()
    rows = [spent(size, make, client, watch) for _ in range(RUNS)]
    counted = rows[UNCOUNTED:]
    medians = [median(row[phase] for row in counted) for phase in (*PHASES, "total")]
    print(
        f"{name:22}" + "".join(f"{MILLI * one:9.1f}" for one in medians) + f"  {counted[-1]['workers']:.0f}", flush=True
    )


_clients: list[Client] = []


def opened() -> tuple[Client, Watch]:
    """A client with a history of its own; the one before is closed."""
    while _clients:
        _clients.pop().close()
    watch = Watch()
    folder = tempfile.mkdtemp(prefix="phases-")
    _clients.append(Client(platform=Embedded(slots=2), history=folder, observers=[watch]))
    return _clients[0], watch


def spent(size: int, make: Callable[[int], Any], client: Client, watch: Watch) -> dict[str, float]:
    """How long each phase of a run took."""
    STOPWATCH.spent_s = dict.fromkeys(PHASES, 0.0)
    began_s = time.perf_counter()
    outputs = make(size)
    defined_s = time.perf_counter() - began_s
    run = client.submit(outputs)
    run.result()
    total_s = time.perf_counter() - began_s
    run.report()
    found = dict(STOPWATCH.spent_s)
    found["define"] = defined_s
    found["run"] = watch.run_s
    found["wake"] = total_s - sum(found.values())
    return found | {"total": total_s, "workers": watch.workers}


STOPWATCH = Stopwatch()

if __name__ == "__main__":
    STOPWATCH.wrap(augury.client, "build_workflow", "build")
    STOPWATCH.wrap(augury.planning.Planning, "plan", "predict")
    STOPWATCH.wrap(augury.planning, "make_plan", "plan", within="predict")
    STOPWATCH.wrap(augury.plan.reuse.KnownPlans, "find", "plan", within="predict")
    STOPWATCH.wrap(augury.run.watch, "encode", "encode")
    STOPWATCH.wrap(augury.run.watch.RunWatch, "_spec", "encode")
    STOPWATCH.wrap(augury.run.watch, "sign_spec", "encode")
    STOPWATCH.wrap(augury.storage.redis.RedisCoordination, "create", "invoke")
    STOPWATCH.wrap(augury.run.watch.RunWatch, "_start_workers", "invoke")
    main()
    opened()
    _clients.pop().close()
