"""Plans to be shown, with predictions that are written by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from augury.config import Resources
from augury.dag.graph import FunctionInfo, Graph
from augury.plan.model import PlatformModel, Price, Timing
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.predictions import Evidence, FixedPredictions
from augury.predict.estimate import Estimate
from augury.predict.sla import SLA, Percentile

SMALL = Resources(cpus=1, memory_mb=512)
LARGE = Resources(cpus=2, memory_mb=2048)

STILL = PlatformModel(
    timing=Timing(cold_start_s=0.5, warm_start_s=0.0, latency_s=0.0, bandwidth_bytes_s=1e6),
    price=Price(usd_per_gb_s=0.001, usd_per_request=0.0, step_s=0.0),
    configurations=(SMALL, Resources(cpus=1, memory_mb=1024), LARGE),
    flush_s=0.0,
)
"""A platform of round numbers: half a second to start, a megabyte per second, no latency."""


def named_graph(*tasks: tuple[str, Sequence[int]], sinks: Sequence[int] | None = None) -> Graph:
    """A graph of tasks, each with the name of its function and what it takes."""
    names = list(dict.fromkeys(name for name, _ in tasks))
    taken = {dep for _, deps in tasks for dep in deps}
    ends = [task for task in range(len(tasks)) if task not in taken] if sinks is None else sinks
    return Graph(
        functions=tuple(FunctionInfo(name, f"version {index}") for index, name in enumerate(names)),
        function_of=tuple(names.index(name) for name, _ in tasks),
        deps=tuple(tuple(deps) for _, deps in tasks),
        sinks=tuple(ends),
    )


def planned(
    graph: Graph,
    workers: Sequence[int | None],
    seconds: Any = 1.0,
    output_bytes: Any = 0.0,
    *,
    resources: Mapping[int | None, Resources] | None = None,
    platform: PlatformModel = STILL,
    predictions: Any = None,
    sla: SLA = "median",
    **fields: Any,
) -> Plan:
    """A plan with its prediction: for each task the worker, for each worker what it has."""
    outlook = Outlook(graph, predictions or FixedPredictions(seconds, output_bytes), platform, sla=sla)
    has = resources or {}
    plan = Plan(
        fingerprint=graph.fingerprint,
        planner="by hand",
        assignments=tuple(Assignment(worker=worker, resources=has.get(worker, SMALL)) for worker in workers),
        **fields,
    )
    return msgspec.structs.replace(plan, predicted=outlook.simulate(plan), graph=graph, outlook=outlook)


def from_text(plan: Plan) -> Plan:
    """The plan as somebody reads it who has nothing but its text."""
    return Plan.from_json(plan.to_json())


class Measured(FixedPredictions):
    """Predictions that know how much tasks vary: the slow ones take half as long again, the quick ones half as long."""

    def __init__(self, seconds: float, factor: float = 1.0) -> None:
        super().__init__(seconds * factor)
        self._usual_s = seconds

    def at(self, sla: SLA) -> "Measured":
        share = {Percentile(10): 0.5, Percentile(90): 1.5}.get(sla, 1.0) if isinstance(sla, Percentile) else 1.0
        return Measured(self._usual_s, share)

    def evidence(self, graph: Graph) -> Sequence[Evidence]:
        return [Estimate(1.0, n=24, basis="same function, 24 runs")] * len(graph.functions)


def fan(width: int, *, per_worker: int = 1, seconds: float = 1.0) -> Plan:
    """As many loads as that, so many to a worker, and one total on the first worker.

    load[0] ─┐
    load[1] ─┼▶ total[0]
       ⋮     │
    """
    graph = named_graph(*[("load", ())] * width, ("total", range(width)))
    return planned(graph, [*(task // per_worker for task in range(width)), 0], seconds)
