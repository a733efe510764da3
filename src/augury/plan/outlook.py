"""What a planner sees: the workflow, what is expected of its tasks, the platform, and a simulator to try plans with.

A planner of one's own is a few lines. This one runs everything on one worker, which has the memory that is needed:

    class OneWorker:
        name = "one worker"

        def plan(self, graph: Graph, outlook: Outlook) -> Plan:
            one = Assignment(worker=0, resources=Resources(memory_mb=max(1024, *outlook.least_memory_mb)))
            return Plan(fingerprint=graph.fingerprint, planner=self.name, assignments=(one,) * len(graph))

    client = Client(planner=OneWorker())
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import PlanError
from augury.plan.model import PlatformModel
from augury.plan.plan import Plan
from augury.plan.predictions import Evidence, FixedPredictions, Predictions
from augury.plan.simulate.engine import simulate
from augury.plan.simulate.trials import Trials
from augury.plan.timeline import Simulation
from augury.predict.sla import SLA


class Optimization(Protocol):
    """What improves a plan by hints for workers: the planning half.

    The other half, which acts on the hints in workers, is a policy (`augury.worker.policies`).
    """

    @property
    def name(self) -> str:
        """How plans and reports call it."""
        ...

    def assign(self, plan: Plan, outlook: "Outlook", forced: Sequence[int]) -> Plan:
        """Add hints where they are expected to help.

        Args:
            plan: The plan so far.
            outlook: Predictions and simulator.
            forced: The tasks that must have the hint, if it can be of any use to them at all.
        """
        ...


class Outlook:
    """What a planner sees of a workflow beside its graph.

    Args:
        graph: The workflow.
        predictions: What is expected of its tasks.
        platform: Where it runs; or what tells it for an SLA.
        sla: How careful the predictions are.
        forced: For functions, by their index in the graph: optimizations that the user demands for their tasks.
        clock: Tells the time in seconds, for planners that must not take too long. Without one, none passes.
    """

    def __init__(
        self,
        graph: Graph,
        predictions: Predictions | None = None,
        platform: PlatformModel | Callable[[SLA], PlatformModel] | None = None,
        *,
        sla: SLA = "median",
        forced: Mapping[int, Sequence[Optimization]] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.graph = graph
        self.predictions: Predictions = FixedPredictions(0.01, 1000.0) if predictions is None else predictions
        self.sla = sla
        self._platform = PlatformModel() if platform is None else platform
        self.forced: Mapping[int, Sequence[Optimization]] = forced or {}
        self.clock = clock or (lambda: 0.0)
        self._execution_s: dict[Resources, Sequence[float]] = {}
        self._simulated: tuple[Plan, Simulation] | None = None

    @cached_property
    def platform(self) -> PlatformModel:
        """Where it runs."""
        given = self._platform
        return given if isinstance(given, PlatformModel) else given(self.sla)

    def execution_s(self, resources: Resources) -> Sequence[float]:
        """For each task, how many seconds it is expected to run with these resources."""
        known = self._execution_s.get(resources)
        if known is None:
            known = self._execution_s[resources] = self._of_all(
                self.predictions.execution_s(self.graph, resources), "execution_s"
            )
        return known

    @cached_property
    def output_bytes(self) -> Sequence[float]:
        """For each task, how large its output is expected to be."""
        return self._of_all(self.predictions.output_bytes(self.graph), "output_bytes")

    @cached_property
    def cpu_share(self) -> Sequence[float]:
        """For each task, which part of its run time it needs a processor, from 0 to 1; 0 if nothing is known."""
        told: Callable[[Graph], Sequence[float]] | None = getattr(self.predictions, "cpu_share", None)
        if told is None:
            return [0.0] * len(self.graph)
        return [min(1.0, share) for share in self._of_all(told(self.graph), "cpu_share")]

    @cached_property
    def least_memory_mb(self) -> Sequence[int]:
        """For each task, the memory that it was declared to need or is expected to need, whichever is more.

        More than any worker can have is not expected of one: what was declared is demanded, what is expected is tried.
        """
        graph = self.graph
        declared = [function.memory_mb or 0 for function in graph.functions]
        expected = self._of_all(self.predictions.peak_mb(graph), "peak_mb")
        most_mb = self.platform.most_memory_mb
        return [
            max(declared[of], int(min(math.ceil(mb), most_mb)))
            for of, mb in zip(graph.function_of, expected, strict=True)
        ]

    @cached_property
    def evidence(self) -> Sequence[Evidence]:
        """For each function of the graph, what the predictions rest on."""
        return self.predictions.evidence(self.graph)

    def simulate(self, plan: Plan) -> Simulation:
        """How a run of the plan is expected to go. The answer for the last plan is remembered."""
        known = self._simulated
        if known is not None and _say_the_same(known[0], plan):
            return known[1]
        simulated = simulate(self.graph, plan, self.execution_s, self.output_bytes, self.platform)
        self._simulated = (plan, simulated)
        return simulated

    def trials(self, plan: Plan) -> Trials:
        """A plan to be changed step by step, each change simulated only as far as it reaches."""
        return Trials(self.graph, plan, self.execution_s, self.output_bytes, self.platform)

    def at(self, sla: SLA) -> "Outlook":
        """The same with more or less careful predictions."""
        return Outlook(
            self.graph, self.predictions.at(sla), self._platform, sla=sla, forced=self.forced, clock=self.clock
        )

    def _of_all(self, values: Sequence[float], name: str) -> Sequence[float]:
        if len(values) != len(self.graph):
            raise PlanError(
                f"{type(self.predictions).__name__}.{name} gave {len(values)} numbers for {len(self.graph)} tasks"
            )
        return values


def _say_the_same(one: Plan, other: Plan) -> bool:
    """Whether two plans share all that workers act on."""
    return (
        one.assignments is other.assignments
        and one.hints is other.hints
        and one.launch is other.launch
        and one.ranks is other.ranks
    )


class Planner(Protocol):
    """What makes plans. Implement this to bring your own.

    A planner may also have `optimizations`: what is applied to its plans afterwards. And it may have `settings`, which
    can be hashed: a client uses a plan again while workflow, platform and predictions are the same, and two planners
    of one class with equal settings then count as the same. Without `settings` a planner is the same only as itself.
    `settings = None` says that it is to be asked each time.
    """

    @property
    def name(self) -> str:
        """How reports and records call it."""
        ...

    def plan(self, graph: Graph, outlook: Outlook) -> Plan:
        """Assign every task of a workflow.

        Args:
            graph: The workflow. Ids are dense and topological; `graph.info(task).memory_mb` is the least
                memory that a task was declared to need.
            outlook: What is expected of its tasks and of the platform, and a simulator.
        """
        ...
