"""A planner of your own: a short task runs where its output is needed, every other task on a worker of its own.

read ──▶ shrink ──▶ detect ──┐
read ──▶ shrink ──▶ detect ──┴▶ index          `read` and `index` are short, `shrink` and `detect` are not
"""

from augury import (
    Assignment,
    Client,
    FixedPredictions,
    Outlook,
    Plan,
    PlatformModel,
    Resources,
    UniformPlanner,
    WukongPlanner,
    task,
)
from augury.dag.graph import Graph


class ShortTasksFollow:
    """Puts every task that takes less than `short_s` on the worker of the first task that takes its output."""

    name = "short tasks follow"

    def __init__(self, resources: Resources, short_s: float = 0.1) -> None:
        self.resources = resources
        self.short_s = short_s

    def plan(self, graph: Graph, outlook: Outlook) -> Plan:
        """Assign every task; ids are topological, so from the last one back consumers come first."""
        memory_mb = max(self.resources.memory_mb, *outlook.least_memory_mb)
        resources = Resources(cpus=self.resources.cpus, memory_mb=memory_mb)
        seconds = outlook.execution_s(resources)
        worker_of = list(range(len(graph)))
        for one in reversed(range(len(graph))):
            consumers = graph.dependents[one]
            if consumers and seconds[one] < self.short_s:
                worker_of[one] = worker_of[consumers[0]]
        assignments = tuple(Assignment(worker, resources) for worker in worker_of)
        return Plan(fingerprint=graph.fingerprint, planner=self.name, assignments=assignments)


@task
def read(page: int) -> str:
    return f"page {page}, " * 1000


@task
def shrink(text: str) -> str:
    return text[: len(text) // 10]


@task
def detect(text: str) -> int:
    return text.count("page")


@task
def index(counts: list[int]) -> dict[int, int]:
    return dict(enumerate(counts))


book = index([detect(shrink(read(page))) for page in range(3)])

# What if? Nothing runs here: what to expect of tasks and platform is written down.
seconds = {"read": 0.05, "shrink": 2.0, "detect": 3.0, "index": 0.01}
sizes = {"read": 20e6, "shrink": 1e6, "detect": 100.0, "index": 100.0}
small = Resources(cpus=1, memory_mb=1024)
for planner in (WukongPlanner(small), UniformPlanner(small), ShortTasksFollow(small)):
    plan = book.plan(planner, predictions=FixedPredictions(seconds, sizes), platform=PlatformModel())
    run = plan.predicted
    print(f"{planner.name:<20}{run.makespan_s:6.2f} s{run.requests:4} workers{run.moved_bytes / 1e6:7.1f} MB moved")

# And now for real.
with Client(planner=ShortTasksFollow(small)) as client:
    print(client.compute(book))
