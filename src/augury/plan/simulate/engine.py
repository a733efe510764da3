"""From a simulated run to what a plan's reader wants to know: times, critical path, bytes and cost."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.model import PlatformModel, Price
from augury.plan.plan import Plan
from augury.plan.simulate.hinted import Ping
from augury.plan.simulate.run import Run
from augury.plan.simulate.worker import Worker
from augury.plan.timeline import Simulation, Timeline, WorkerTimes

_MB_PER_GB = 1024


def simulate(
    graph: Graph,
    plan: Plan,
    execution_s: Callable[[Resources], Sequence[float]],
    output_bytes: Sequence[float],
    platform: PlatformModel,
) -> Simulation:
    """How a run of a plan is expected to go.

    Args:
        graph: The workflow.
        plan: Who runs what.
        execution_s: Gives for each task how long it runs with some resources.
        output_bytes: For each task the size of its output.
        platform: Where it runs.

    Raises:
        PlanError: The plan does not fit the workflow, or its workers would wait for each other for ever.
    """
    plan.validate(graph)
    return summary(Run(graph, plan, execution_s, output_bytes, platform).go())


def summary(run: Run) -> Simulation:
    """What a simulated run comes to."""
    price = run.platform.price
    order = {worker: place for place, worker in enumerate(run.invocations)}
    billed = [billed_s(worker, price) for worker in run.invocations]
    gb_seconds = math.fsum(
        seconds * worker.resources.memory_mb / _MB_PER_GB
        for seconds, worker in zip(billed, run.invocations, strict=True)
    )
    gb_seconds += math.fsum([_ping_gb_s(ping, price) for ping in run.pings])
    requests = len(run.invocations) + len(run.pings)
    timeline = Timeline(
        [order[worker] if worker is not None else -1 for worker in run.place],
        run.ready_s,
        run.start_s,
        run.execute_s,
        run.executed_s,
        [
            executed if math.isinf(counted) else max(counted, executed)
            for counted, executed in zip(run.counted_s, run.executed_s, strict=True)
        ],
    )
    return Simulation(
        makespan_s=run.makespan_s,
        gb_seconds=gb_seconds,
        requests=requests,
        cost_usd=gb_seconds * price.usd_per_gb_s + requests * price.usd_per_request,
        moved_bytes=math.fsum(worker.fetched_bytes + worker.stored_bytes for worker in run.invocations),
        cold_starts=run.cold_starts,
        critical_path=critical_path(run, timeline.worker),
        timeline=timeline,
        workers=tuple(_times(run, worker, seconds) for worker, seconds in zip(run.invocations, billed, strict=True)),
        duplicated=tuple(run.duplicated),
    )


def outline(run: Run) -> tuple[float, float, int]:
    """Makespan, cost and number of invocations of a simulated run: what a search compares."""
    price = run.platform.price
    gb_s = math.fsum([billed_s(worker, price) * worker.resources.memory_mb for worker in run.invocations]) / _MB_PER_GB
    gb_s += math.fsum([_ping_gb_s(ping, price) for ping in run.pings])
    requests = len(run.invocations) + len(run.pings)
    cost_usd = gb_s * price.usd_per_gb_s + requests * price.usd_per_request
    return run.makespan_s, cost_usd, len(run.invocations)


def _ping_gb_s(ping: Ping, price: Price) -> float:
    """What it takes to have an environment made ready: its start, as far as that is billed."""
    if not price.start_billed:
        return 0.0
    return _stepped(ping.end_s - ping.start_s, price) * ping.resources.memory_mb / _MB_PER_GB


def billed_s(worker: Worker, price: Price) -> float:
    """How long an invocation is paid for: while it works, and if it starts cold while it starts."""
    since_s = worker.granted_s if worker.cold and price.start_billed else worker.start_s
    return _stepped(worker.end_s - since_s, price)


def _stepped(duration_s: float, price: Price) -> float:
    return math.ceil(duration_s / price.step_s - 1e-6) * price.step_s if price.step_s else duration_s


def _times(run: Run, worker: Worker, paid_s: float) -> WorkerTimes:
    up_s = worker.end_s - worker.start_s
    return WorkerTimes(
        f"w{run.worker_ids[worker.index]}" if worker.index >= 0 else _flexible_name(worker),
        worker.resources,
        worker.cold,
        worker.asked_s,
        worker.granted_s,
        worker.start_s,
        worker.end_s,
        worker.busy_s,
        max(0.0, up_s - worker.busy_s / worker.slots),
        paid_s,
        worker.done,
        worker.fetched_bytes,
        worker.stored_bytes,
    )


def _flexible_name(worker: Worker) -> str:
    return f"t{worker.tasks[0]}.{worker.generation}" if worker.generation else f"t{worker.tasks[0]}"


def critical_path(run: Run, worker_of: Sequence[int]) -> tuple[int, ...]:
    """The tasks that decide when the run ends: from the last sink back to what each one waited for."""
    task = max(run.graph.sinks, key=lambda sink: run.counted_s[sink])
    path: dict[int, None] = {}
    endings = _Endings(run, worker_of)
    while task >= 0 and task not in path:
        path[task] = None
        task = _awaited(run, task, endings)
    return tuple(reversed(path))


class _Endings:
    """For each worker, its tasks in the order in which they ended; made when it is asked for."""

    def __init__(self, run: Run, worker_of: Sequence[int]) -> None:
        self._run = run
        self._worker_of = worker_of
        self._tasks_on: dict[int, list[int]] = {}
        self._endings: dict[int, list[tuple[float, int]]] = {}

    def last_before(self, task: int) -> int:
        """The task on the same worker that ended last before this one had its turn; -1 if there is none."""
        run = self._run
        worker = self._worker_of[task]
        if worker not in self._endings:
            if not self._tasks_on:
                for other, where in enumerate(self._worker_of):
                    self._tasks_on.setdefault(where, []).append(other)
            self._endings[worker] = sorted((run.executed_s[other], other) for other in self._tasks_on[worker])
        endings = self._endings[worker]
        start_s = run.start_s[task]
        place = bisect_right(endings, (start_s, len(run.start_s)))
        while place:
            place -= 1
            other = endings[place][1]
            if run.execute_s[other] < start_s:
                return other
        return -1


def _awaited(run: Run, task: int, endings: _Endings) -> int:
    """What a task waited for last: a task whose place it took, an input, or what started its worker; -1: nothing."""
    ready_s, start_s = run.ready_s[task], run.start_s[task]
    worker = run.place[task]
    if worker is None:
        return -1
    if start_s > ready_s:
        before = endings.last_before(task)
        if before >= 0:
            return before
    deps = run.graph.deps[task]
    began_s = worker.start_s + worker.latency
    if not deps or (ready_s <= began_s and worker.cause >= 0):
        return worker.cause
    known = [
        (run.executed_s[dep] if run.place[dep] is worker else run.counted_s[dep] + worker.latency / 2, dep)
        for dep in deps
    ]
    return max(known)[1]
