"""Small graphs, plans and cores to test the worker with."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.plan.plan import Assignment, Plan
from augury.storage.protocols import Claim, Outcome, Remains, Status, Tried
from augury.worker import messages as m
from augury.worker.state import WorkerState
from augury.worker.view import RunView

INLINE_BYTES = 100
SMALL = 10
LARGE = 1000
BIG = Resources(cpus=1, memory_mb=2 * Resources().memory_mb)

Deps = Sequence[Sequence[int]]


def graph_of(
    deps: Deps,
    *,
    sinks: Sequence[int] | None = None,
    retries: int = 0,
    memory_mb: int | None = None,
    backoff_s: float = 0.0,
) -> Graph:
    """A graph of tasks `f`; its sinks are the given ones, or those whose output nobody takes."""
    taken = {dep for needed in deps for dep in needed}
    ends = [task for task in range(len(deps)) if task not in taken]
    return Graph(
        functions=(FunctionInfo("f", "1", retries, memory_mb=memory_mb, backoff_s=backoff_s),),
        function_of=(0,) * len(deps),
        deps=tuple(map(tuple, deps)),
        sinks=tuple(ends if sinks is None else sinks),
    )


def plan_of(
    graph: Graph,
    workers: Mapping[int, int] | None = None,
    resources: Mapping[int, Resources] | None = None,
) -> Plan:
    """A plan: tasks → workers, and → resources; the tasks left out are flexible, and need little."""
    return Plan(
        fingerprint=graph.fingerprint,
        planner="by hand",
        assignments=tuple(
            Assignment((workers or {}).get(task), (resources or {}).get(task, Resources()))
            for task in range(len(graph))
        ),
    )


def flexible(*tasks: int, resources: Resources | None = None) -> Claim:
    """The claim of a flexible worker."""
    return Claim(f"t{tasks[0]}", tasks, resources or Resources())


class Core:
    """A worker core that is validated after every event.

    Commands come without `Send.last`, which is in `was_last`.

    Args:
        deps: The graph.
        name: Which worker it is.
        planned: Tasks → workers; the others are flexible.
        needs: Tasks → resources.
        plan: What else the plan has: hints, ranks, policies.
        has: What this worker has.
        concurrency: How many workers the platform runs.
    """

    def __init__(
        self,
        deps: Deps,
        name: str = "t0",
        *,
        planned: Mapping[int, int] | None = None,
        needs: Mapping[int, Resources] | None = None,
        has: Resources | None = None,
        concurrency: int = 4,
        sinks: Sequence[int] | None = None,
        retries: int = 0,
        memory_mb: int | None = None,
        backoff_s: float = 0.0,
        **plan: Any,
    ) -> None:
        graph = graph_of(deps, sinks=sinks, retries=retries, memory_mb=memory_mb, backoff_s=backoff_s)
        whole = structs.replace(plan_of(graph, planned, needs), **plan)
        self.view = RunView(graph, whole, concurrency=concurrency, inline_bytes=INLINE_BYTES)
        self.state = WorkerState(self.view, name, has or Resources())
        self.was_last = False  # whether what was told last led to a report that may be the last

    def begin(self, *tasks: int, done: Sequence[int] = (), live: int = 1, now_s: float = 0.0) -> list[m.Command]:
        """The invocation joins."""
        return self.tell(m.Began(tasks, frozenset(done), live), now_s)

    def begin_again(
        self,
        *,
        done: Sequence[int] = (),
        stored: Sequence[int] = (),
        grants: Mapping[int, str] | None = None,
        claims: Mapping[str, tuple[int, ...]] | None = None,
        tried: Sequence[Tried] = (),
        live: int = 1,
    ) -> list[m.Command]:
        """The invocation joins, and stands for one that was lost."""
        remains = Remains(frozenset(stored), dict(grants or {}), dict(claims or {}), tuple(tried))
        return self.tell(m.Began((), frozenset(done), live, remains))

    def finish(
        self, task: int, size_bytes: int = SMALL, duration_s: float = 0.0, now_s: float = 0.0
    ) -> list[m.Command]:
        """A task returns; as the runner does, its size is told only if it matters."""
        return self.tell(m.TaskFinished(task, size_bytes if self.state.leaves(task) else 0, duration_s), now_s)

    def hear(self, *tasks: int, small: bool = False, now_s: float = 0.0) -> list[m.Command]:
        """Others have completed watched tasks; small outputs come with the news, if something here wants them."""
        received = tuple(task for task in tasks if small and self.state.wants(task))
        return self.tell(m.TasksCompleted(tasks, received), now_s)

    def answer(
        self,
        *,
        ready: Sequence[int] = (),
        started: Sequence[tuple[str, int]] = (),
        store_first: Sequence[int] = (),
        live: int = 1,
        status: Status = Status.RUNNING,
    ) -> list[m.Command]:
        """The report under way is answered."""
        outcome = Outcome(status, tuple(ready), tuple(started), tuple(store_first), live)
        return self.tell(m.Reported(outcome))

    def tell(self, event: m.Event, now_s: float = 0.0) -> list[m.Command]:
        """Something happens."""
        commands = self.state.handle(event, now_s)
        self.state.validate()
        self.was_last = any(isinstance(command, m.Send) and command.last for command in commands)
        return [structs.replace(one, last=False) if isinstance(one, m.Send) else one for one in commands]
