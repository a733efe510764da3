"""From when on a task counts as late: much longer than nearly all of its kind took."""

import math

from augury.errors import AuguryError
from augury.plan.plan import Plan
from augury.predict.sla import Percentile

NEARLY_ALL = Percentile(95)
_LEAST_S = 1.0  # a second worker takes about as long to start
_LEAST_EVIDENCE = 5
_MOST_TASKS = 20_000


def late_after(plan: Plan, factor: float | None) -> list[float]:
    """For each task, after how many seconds it is late; infinity if nothing is known of it, empty if of none.

    Args:
        plan: What is carried out, with the outlook that it was made with.
        factor: How much longer than 95 % of its kind a task may take; None: none is ever late.
    """
    outlook = plan.outlook
    if factor is None or outlook is None or len(plan.assignments) > _MOST_TASKS:
        return []
    try:
        known = [one.n >= _LEAST_EVIDENCE and one.basis != "by hand" for one in outlook.evidence]
        if not any(known):
            return []
        graph = outlook.graph
        kinds = {one.resources for one in plan.assignments}
        if max(max(outlook.execution_s(kind)) for kind in kinds) * factor < _LEAST_S / 10:
            return []  # too short to be worth a closer look
        careful = {kind: outlook.at(NEARLY_ALL).execution_s(kind) for kind in kinds}
        late_s = [factor * careful[one.resources][task] for task, one in enumerate(plan.assignments)]
    except AuguryError:  # predictions may be the user's own, and the run does not depend on them
        return []
    after_s = [
        max(_LEAST_S, one_s) if known[function] and math.isfinite(one_s) else math.inf
        for function, one_s in zip(graph.function_of, late_s, strict=True)
    ]
    return after_s if min(after_s, default=math.inf) < math.inf else []
