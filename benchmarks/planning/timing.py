"""How fast simulating and planning is, and how much memory it takes.

    python benchmarks/planning/timing.py                                # 10,000 and 100,000 tasks
    python benchmarks/planning/timing.py --shapes tree,layers --sizes 10000 --cases simulate-planned,uniform

Every number comes from a process of its own, in which the workflow and its predictions are there before the clock
starts. Times are processor time, so that neighbours count as little as can be; the median of the repetitions counts.
Memory is what the process grows by, at its peak. A workflow with ten times the tasks and edges may take twelve times
the time that the smaller one may take, and twelve times its memory.

    simulate-planned, -flexible    a run of a Uniform plan, of a Wukong plan, on a platform with 1,000 slots
    simulate-roomy                 of a Uniform plan, with a slot for every worker
    trial                          another memory size for one worker
    uniform, nonuniform            planning, predictions aside
    auto                           likewise; it has a tenth of the expected makespan, 20 ms to 5 s
    reuse                          planning again what was planned before

Exits with 1 if a goal is missed.
"""

import argparse
import json
import os
import pickle
import platform as machine
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from instances import CONFIGURATIONS, Instance, platform
from shapes import SHAPES

from augury import task
from augury.config import Resources
from augury.dag.graph import Graph, Workflow, build_workflow
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.planners.auto import AutoPlanner
from augury.plan.planners.nonuniform import NonUniformPlanner
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner
from augury.plan.predictions import Evidence
from augury.planning import Planning, Question, gateway_site
from augury.predict.sla import SLA

SIZES = (10_000, 100_000)
MOST_GROWTH = 1.2
"""How much faster than a workflow time and memory may grow."""
LONG_S = 3.0
"""What takes this long is measured once."""
NOISE_BYTES = 8 << 20
"""Growth below this says nothing about memory."""
OUT = Path(__file__).parents[1] / "out"
STRONG = CONFIGURATIONS[-1]
TRIALS = 20
PATIENCE_S = 900.0
"""After which a case is given up."""

Step = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is measured.

    Attributes:
        prepare: Makes what is timed; what it does itself is not.
        goal_s: How long it may take at 10,000 tasks; None: shown, not judged. Or what tells it from what came out.
        slots: How many workers the platform runs at once.
        count: How many times one step does it.
    """

    prepare: Callable[[Outlook], Step]
    goal_s: float | Callable[[Outlook, Any], float] | None = None
    slots: int = 1000
    count: int = 1


def simulate_planned(outlook: Outlook) -> Step:
    plan = UniformPlanner(STRONG).plan(outlook.graph, outlook)
    return lambda: outlook.simulate(plan)


def simulate_flexible(outlook: Outlook) -> Step:
    plan = WukongPlanner(STRONG).plan(outlook.graph, outlook)
    return lambda: outlook.simulate(plan)


def try_sizes(outlook: Outlook) -> Step:
    """Another size for one worker after another, each anywhere in the plan."""
    plan = UniformPlanner(STRONG).plan(outlook.graph, outlook)
    trials = outlook.trials(plan)
    workers = list(trials.workers)
    Random("trials").shuffle(workers)
    turn = cycle(workers)
    return lambda: [trials.resize(next(turn), CONFIGURATIONS[2]) for _ in range(TRIALS)]


def uniform(outlook: Outlook) -> Step:
    return lambda: UniformPlanner(STRONG).plan(outlook.graph, outlook)


def nonuniform(outlook: Outlook) -> Step:
    return lambda: NonUniformPlanner().plan(outlook.graph, outlook)


def auto(outlook: Outlook) -> Step:
    return lambda: AutoPlanner().plan(outlook.graph, outlook)


def auto_budget_s(outlook: Outlook, plan: Plan) -> float:
    """A tenth of the run, at least 20 ms and at most 5 s; and a fifth more."""
    return 1.2 * min(5.0, max(0.02, 0.1 * outlook.simulate(plan).makespan_s))


def reuse(outlook: Outlook) -> Step:
    """A workflow like one that was planned before, without a history: the plan of last time."""
    planning, site = Planning(None), gateway_site("bench", None, CONFIGURATIONS)
    question = Question(workflow=called(outlook.graph), kept_as="bench", planner=UniformPlanner(STRONG))

    def ask() -> Plan:
        return planning.plan(question, site)

    ask()
    return ask


@task
def step(inputs: list[object]) -> object:
    """Any task; nothing runs it."""
    return inputs


def called(graph: Graph) -> Workflow:
    """A workflow of this structure whose tasks are calls."""
    calls: list[Any] = []
    for deps in graph.deps:
        calls.append(step([calls[dep] for dep in deps]))
    return build_workflow([calls[sink] for sink in graph.sinks])


CASES = {
    "simulate-planned": Case(prepare=simulate_planned, goal_s=0.150),
    "simulate-flexible": Case(prepare=simulate_flexible, goal_s=0.150),
    "simulate-roomy": Case(prepare=simulate_planned, goal_s=0.150, slots=1_000_000),
    "trial": Case(prepare=try_sizes, slots=1_000_000, count=TRIALS),
    "uniform": Case(prepare=uniform, goal_s=1.0),
    "nonuniform": Case(prepare=nonuniform, goal_s=5.0),
    "auto": Case(prepare=auto, goal_s=auto_budget_s),
    "reuse": Case(prepare=reuse),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One case on one workflow.

    Attributes:
        case: Its name.
        shape: Of the workflow.
        tasks: How many there are.
        edges: How many dependencies.
        seconds: Of each repetition.
        peak_bytes: What the process grew by; None where the system does not tell.
        goal_s: How long it may take; None: any time.
    """

    case: str
    shape: str
    tasks: int
    edges: int
    seconds: tuple[float, ...]
    peak_bytes: int | None
    goal_s: float | None

    @property
    def median_s(self) -> float:
        """The median of the repetitions."""
        return median(self.seconds)

    @property
    def size(self) -> int:
        """How large the workflow is."""
        return self.tasks + self.edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the table: a number and its goal; it is met, missed or None: not judged."""

    what: str
    measured: str
    goal: str
    met: bool | None


def main() -> int:
    options = parse_options()
    if options.measure:
        return measure_here(options)
    found = list(measure_all(options))
    results = [one for one in found if isinstance(one, Measured)]
    lines = [line for result in results for line in judged(result, smaller_of(result, results))]
    lines += [one for one in found if isinstance(one, Line)]
    print_table(lines)
    write(results, lines, options.json)
    return 1 if any(line.met is False for line in lines) else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=names_among(list(SHAPES)), default=list(SHAPES), help="separated by commas")
    parser.add_argument("--cases", type=names_among(list(CASES)), default=list(CASES), help="separated by commas")
    parser.add_argument("--sizes", type=sizes, default=SIZES, help="tasks, separated by commas (10000,100000)")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of what is quick (5)")
    parser.add_argument("--json", type=Path, help="where the JSON goes (a new file in benchmarks/out)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)  # a workflow: measure one case in this process
    return parser.parse_args()


def names_among(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return names

    return parse


def sizes(text: str) -> list[int]:
    if not all(part.isdigit() and int(part) >= 2 for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: numbers of tasks, at least 2, separated by commas")
    return sorted(map(int, text.split(",")))


# ── measuring ──────────────────────────────────────────────────────────────────────────────────────────────────


def measure_all(options: argparse.Namespace) -> Iterator[Measured | Line]:
    with tempfile.TemporaryDirectory() as folder:
        for shape in options.shapes:
            for size in options.sizes:
                path = Path(folder) / f"{shape}-{size}.pickle"
                try:
                    path.write_bytes(pickle.dumps(SHAPES[shape](size)))
                except ModuleNotFoundError as error:
                    say(f"{shape} is left out: {error}; it comes with the extra: pip install -e '.[bench]'")
                    break
                for case in options.cases:
                    yield measured_apart(case, shape, path, options.repeat)
                path.unlink()


def measured_apart(case: str, shape: str, path: Path, repeat: int) -> Measured | Line:
    """Measure one case in a process of its own; a line that says so if that fails."""
    command = [sys.executable, __file__, "--measure", str(path), "--cases", case, "--shapes", shape]
    command += ["--repeat", str(repeat)]
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    except subprocess.SubprocessError as error:
        why = "too long" if isinstance(error, subprocess.TimeoutExpired) else "failed"
        say(f"{case:18} {path.stem}: {error}")
        return Line(what=f"{case}, {path.stem}", measured=why, goal="", met=False)
    found = Measured(**json.loads(done.stdout))
    say(f"{case:18} {shape:8} {found.tasks:7,} tasks {found.median_s:9.3f} s  {megabytes(found.peak_bytes)}")
    return found


def measure_here(options: argparse.Namespace) -> int:
    """Measure one case in this process, and print what was found as JSON."""
    instance: Instance = pickle.loads(options.measure.read_bytes())
    (case,), (shape,) = options.cases, options.shapes
    what = CASES[case]
    predictions = Remembered(instance)
    slots = replace(platform(warm=False), concurrency=what.slots)
    seconds: list[float] = []
    peaks_bytes: list[int] = []
    goals_s: list[float] = []
    while len(seconds) < options.repeat and sum(seconds) * what.count < LONG_S:
        outlook = Outlook(instance.graph, predictions, slots, clock=time.process_time)  # which remembers nothing
        act = what.prepare(outlook)
        before_bytes = resident_bytes(reset_peak=True)
        start = time.process_time()
        made = act()
        seconds.append((time.process_time() - start) / what.count)
        if before_bytes is not None:
            peaks_bytes.append((resident_bytes() or 0) - before_bytes)
        if what.goal_s is not None:
            goals_s.append(what.goal_s(outlook, made) if callable(what.goal_s) else what.goal_s)
    found = Measured(
        case=case,
        shape=shape,
        tasks=len(instance.graph),
        edges=sum(map(len, instance.graph.deps)),
        seconds=tuple(seconds),
        peak_bytes=max(peaks_bytes, default=None),
        goal_s=max(goals_s, default=None),
    )
    print(json.dumps(asdict(found)))
    return 0


class Remembered:
    """Predictions that are made before anything is timed."""

    def __init__(self, instance: Instance) -> None:
        made, graph = instance.predictions(), instance.graph
        self._seconds = {resources: made.execution_s(graph, resources) for resources in CONFIGURATIONS}
        self._output_bytes = made.output_bytes(graph)
        self._peak_mb = made.peak_mb(graph)
        self._evidence = made.evidence(graph)

    def execution_s(self, graph: Graph, resources: Resources) -> Sequence[float]:
        """For each task, how many seconds it runs with these resources."""
        return self._seconds[resources]

    def output_bytes(self, graph: Graph) -> Sequence[float]:
        """For each task, the size of its output."""
        return self._output_bytes

    def peak_mb(self, graph: Graph) -> Sequence[float]:
        """For each task, the memory in MiB that it needs."""
        return self._peak_mb

    def evidence(self, graph: Graph) -> Sequence[Evidence]:
        """For each function, what the predictions rest on."""
        return self._evidence

    def at(self, sla: SLA) -> "Remembered":
        """Itself."""
        return self


def resident_bytes(*, reset_peak: bool = False) -> int | None:
    """The most memory that this process has had since the last reset; None where the system does not tell."""
    try:
        if reset_peak:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


# ── judging ────────────────────────────────────────────────────────────────────────────────────────────────────


def smaller_of(result: Measured, results: Sequence[Measured]) -> Measured | None:
    """The same case on the smallest workflow of the same shape, if that is another one."""
    same = [one for one in results if one.case == result.case and one.shape == result.shape]
    smallest = min(same, key=lambda one: one.tasks)
    return None if smallest.tasks == result.tasks else smallest


def judged(result: Measured, smaller: Measured | None) -> Iterator[Line]:
    """What a measurement says about the goals; beside the same on a smaller workflow, if there is one."""
    what = f"{result.case}, {result.shape}, {result.tasks:,} tasks"
    growth = 1.0 if smaller is None else MOST_GROWTH * result.size / smaller.size
    goal_s = (result if smaller is None else smaller).goal_s
    times = "" if smaller is None else f", {result.median_s / smaller.median_s:.1f} times"
    yield Line(
        what=what,
        measured=f"{result.median_s:.4f} s{times}",
        goal="" if goal_s is None else f"{growth * goal_s:.3f} s",
        met=None if goal_s is None else result.median_s <= growth * goal_s,
    )
    if result.peak_bytes is not None:
        yield memory_line(what, result.peak_bytes, None if smaller is None else smaller.peak_bytes, growth)


def memory_line(what: str, peak_bytes: int, smaller_bytes: int | None, growth: float) -> Line:
    if smaller_bytes is None:
        return Line(what=what, measured=megabytes(peak_bytes), goal="", met=None)
    times = peak_bytes / max(smaller_bytes, NOISE_BYTES)
    return Line(
        what=what,
        measured=f"{megabytes(peak_bytes)}, {times:.1f} times",
        goal=f"{growth:.1f} times",
        met=times <= growth,
    )


def megabytes(size_bytes: int | None) -> str:
    return "" if size_bytes is None else f"{size_bytes / 1e6:.0f} MB"


def print_table(lines: Sequence[Line]) -> None:
    print(f"{'':48}{'measured':>28}{'goal':>14}")
    for line in lines:
        verdict = {None: "", True: "ok", False: "MISSED"}[line.met]
        print(f"{line.what:48}{line.measured:>28}{line.goal:>14}  {verdict}")


def write(results: Sequence[Measured], lines: Sequence[Line], path: Path | None) -> None:
    """Everything as JSON."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    document: dict[str, Any] = {
        "when": when,
        "machine": {"cpus": os.cpu_count(), "system": machine.system(), "python": machine.python_version()},
        "missed": [line.what for line in lines if line.met is False],
        "lines": [asdict(line) for line in lines],
        "measured": [asdict(result) for result in results],
    }
    if path is None:
        OUT.mkdir(exist_ok=True)
        path = OUT / f"planning-speed-{when.replace(':', '').replace('+0000', 'Z')}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    say(f"JSON in {path}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
