"""What planning costs before a planner begins to think, and what is saved by using a plan again.

    python benchmarks/planning_reuse.py

    predictions     every task of a workflow of 10 functions, whose models are fitted: output sizes, run times, memory
    no history      a plan for 5 tasks of which nothing is known
    short           a plan for 5 tasks that take a millisecond, with history
    used again      a plan for 10,000 tasks that was made before, with a history that has grown since

Times are processor times, the best of several. Exits with 1 if a goal is missed. Goals hold for a machine that does
nothing else.
"""

import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from augury import Embedded, Outlook, Plan, Planner, Resources, Task, UniformPlanner, WukongPlanner, history, task
from augury.dag.graph import FunctionInfo, Graph, build_workflow
from augury.metrics.history.history import History
from augury.metrics.records import Records, TaskRun, series_of
from augury.planning import Planning, Question, embedded_site
from augury.predict.provider import PredictionsProvider
from augury.predict.workflow import WorkflowPredictions

FUNCTIONS = tuple(FunctionInfo(f"f{place}", f"version {place}") for place in range(10))
REPEATS = 5

Row = tuple[str, float, float]
"""What was measured, the milliseconds, and the most that they should be."""


def best_ms(measured: Callable[[], object]) -> float:
    def once() -> float:
        began_s = time.process_time()
        measured()
        return time.process_time() - began_s

    return 1000 * min(once() for _ in range(REPEATS))


def runs(function: FunctionInfo, rng: random.Random, count: int = 100) -> Iterator[TaskRun]:
    """Runs of a function whose output grows with its input, and so does its time."""
    for place in range(count):
        size = 10 ** rng.uniform(3, 7)
        noise = rng.uniform(0.9, 1.1)
        yield TaskRun(
            function=function.version,
            name=function.name,
            resources=Resources(memory_mb=rng.choice([512, 1024, 2048])),
            execution_s=0.01 + noise * size / 5e6,
            output_bytes=noise * size + 100,
            input_bytes=size,
            peak_mb=50 + size / 1e6,
            ended_s=float(place),
        )


def chain(tasks: int) -> Graph:
    return shaped(((), *((place,) for place in range(tasks - 1))))


def fan(tasks: int) -> Graph:
    return shaped(((), *[(0,)] * (tasks - 2), tuple(range(1, tasks - 1))))


def layers(tasks: int, width: int = 100) -> Graph:
    def deps(place: int) -> tuple[int, ...]:
        row = place // width
        return tuple(sorted({place - width, row * width - 1, row * width - width})) if row else ()

    return shaped(tuple(deps(place) for place in range(tasks)))


def shaped(deps: tuple[tuple[int, ...], ...]) -> Graph:
    return Graph(FUNCTIONS, tuple(place % len(FUNCTIONS) for place in range(len(deps))), deps, (len(deps) - 1,))


def predictions() -> Iterator[Row]:
    """All sizes differ: the worst case."""
    rng = random.Random(1)
    records = Records(workflow="w").with_series(series_of(one for f in FUNCTIONS for one in runs(f, rng)))
    provider = PredictionsProvider(records, functions=FUNCTIONS)
    for make in (chain, fan, layers):
        small_ms = 0.0
        for tasks in (10_000, 100_000):
            graph = make(tasks)
            sizes = [rng.randrange(10**6) for _ in range(tasks)]

            def predict(graph: Graph = graph, sizes: list[int] = sizes) -> None:
                predicted = WorkflowPredictions(provider, "median", sizes)
                predicted.output_bytes(graph)
                predicted.execution_s(graph, Resources())
                predicted.peak_mb(graph)

            predict()  # fits
            found_ms = best_ms(predict)
            yield f"predictions, {make.__name__} of {tasks:,} tasks", found_ms, 12 * small_ms if small_ms else 30.0
            small_ms = found_ms


@task
def load(x: int) -> int:
    return x


@task
def merge(*parts: int) -> int:
    return sum(parts)


def small() -> Task[int]:
    return merge(*load.map(range(4)))


def large() -> list[Task[int]]:
    return [merge(part, index) for index, part in enumerate(load.map(range(5_000)))]


def measured(outputs: object, execution_s: float, count: int) -> list[TaskRun]:
    """Runs of the functions of a workflow."""
    return [
        TaskRun(
            function=function.version,
            name=function.name,
            resources=Resources(),
            platform="embedded",
            execution_s=execution_s,
            output_bytes=30.0,
            input_bytes=60.0,
            peak_mb=50.0,
            cpu_s=execution_s,
        )
        for function in build_workflow(outputs).graph.functions
        for _ in range(count)
    ]


class Fickle:
    """A planner whose plans are not used again."""

    name = "fickle"
    settings = None

    def plan(self, graph: Graph, outlook: Outlook) -> Plan:
        """Leave all tasks to flexible workers."""
        return WukongPlanner().plan(graph, outlook)


SITE = embedded_site(Embedded(slots=64), None, [Resources()])


def asked(outputs: object, name: str, planner: Planner) -> Question:
    return Question(workflow=build_workflow(outputs), kept_as=name, planner=planner)


def tiny(kept: History) -> Iterator[Row]:
    planning = Planning(kept)
    unknown, known = (asked(small(), name, Fickle()) for name in ("unknown", "short"))
    yield "a plan for 5 tasks, no history", best_ms(lambda: planning.plan(unknown, SITE)), 20.0
    kept.add("short", "run", series_of(measured(small(), 0.001, 40)))
    yield "a plan for 5 tasks of a millisecond", best_ms(lambda: planning.plan(known, SITE)), 20.0


def used_again(kept: History) -> Iterator[Row]:
    planning, question = Planning(kept), asked(large(), "long", UniformPlanner())
    kept.add("long", "run 0", series_of(measured(large(), 0.5, 64)))
    plans: list[Plan] = []

    def plan() -> float:
        began_s = time.process_time()
        plans.append(planning.plan(question, SITE))
        return 1000 * (time.process_time() - began_s)

    yield "a plan for 10,000 tasks", plan(), math.inf
    again_ms = []
    for number in range(1, REPEATS + 1):
        kept.add("long", f"run {number}", series_of(measured(large(), 0.5 + 0.005 * number, 16)))
        again_ms.append(plan())
    if any(again.assignments is not plans[0].assignments for again in plans):
        sys.exit("a plan was made anew though nothing had moved")
    yield "the same, used again", min(again_ms), 10.0


def main() -> int:
    rows = [*predictions()]
    with tempfile.TemporaryDirectory() as folder:
        kept = history(folder)
        rows += [*tiny(kept), *used_again(kept)]
    for what, found_ms, most_ms in rows:
        verdict = "MISSED" if found_ms > most_ms else ""
        print(f"{what:42} {found_ms:8.2f} ms   goal {most_ms:6.1f} ms   {verdict}".rstrip())
    return int(any(found_ms > most_ms for _, found_ms, most_ms in rows))


if __name__ == "__main__":
    sys.exit(main())
