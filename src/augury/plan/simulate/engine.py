"""Being written."""

from collections.abc import Callable, Sequence

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.model import PlatformModel
from augury.plan.plan import Plan
from augury.plan.timeline import Simulation


def simulate(
    graph: Graph,
    plan: Plan,
    execution_s: Callable[[Resources], Sequence[float]],
    output_bytes: Sequence[float],
    platform: PlatformModel,
) -> Simulation:
    """How a run of a plan is expected to go."""
    raise NotImplementedError
