"""What every planner asks of its settings; a wrong one is refused when the planner is made, not when it plans."""

from collections.abc import Sequence

from augury.config import Resources, but_not, is_whole
from augury.errors import PlanError
from augury.plan.outlook import Optimization


def checked_resources(planner: str, resources: object) -> Resources:
    """The configuration of all workers; the default one for None."""
    if not isinstance(resources, Resources | None):
        raise PlanError(f"{planner}: resources must be Resources(cpus=…, memory_mb=…), not {resources!r}")
    return Resources() if resources is None else resources


def checked_clustering(planner: str, max_clustering: object) -> int:
    """How many tasks of one group share a worker at most."""
    if not isinstance(max_clustering, int) or not is_whole(max_clustering, least=1):
        raise PlanError(f"{planner}: max_clustering must be a whole number of at least 1, {but_not(max_clustering)}")
    return max_clustering


def checked_optimizations(planner: str, optimizations: object) -> tuple[Optimization, ...]:
    """What is applied to the planner's plans, as a tuple."""
    if isinstance(optimizations, str) or not isinstance(optimizations, Sequence):
        raise PlanError(f"{planner}: optimizations must be a list of optimizations, not {optimizations!r}")
    for optimization in optimizations:
        named = isinstance(getattr(optimization, "name", None), str)
        if isinstance(optimization, type) or not named or not callable(getattr(optimization, "assign", None)):
            raise PlanError(
                f"{planner}: each of optimizations must be an object with a name and an assign(plan, outlook, forced) "
                f"method, not {optimization!r}"
            )
    return tuple(optimizations)
