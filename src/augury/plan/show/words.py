"""How plans say things: resources, hints, moments."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from augury.config import Resources
from augury.plan.hints import Hint, OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.predict.sla import SLA, Percentile
from augury.wording import NOTHING, plain

ANY = "any"
"""How the worker of tasks that any may run is called, as long as nobody knows which one does."""


def sla_name(sla: SLA) -> str:
    """How an SLA is called: `median`, `average`, `p95`."""
    return f"p{sla.p:g}" if isinstance(sla, Percentile) else sla


def resources_text(resources: Resources) -> str:
    """Resources for people, such as `2,048 MB, 1 CPU`."""
    return f"{resources.memory_mb:,} MB, {resources.cpus:.3g} CPU{'' if resources.cpus == 1 else 's'}"


def hint_name(hint: Hint) -> str:
    """What a hint is called."""
    match hint:
        case PreWarmHint():
            return "pre-warm"
        case PreLoadHint():
            return "pre-load"
        case TaskDupHint():
            return "task-dup"
        case OwnHint():
            return plain(hint.policy)


def hint_counts(hints: Mapping[int, tuple[Hint, ...]], tasks: Iterable[int]) -> tuple[tuple[str, int], ...]:
    """How many hints of which kind some tasks have."""
    found = Counter(hint_name(hint) for task in tasks for hint in hints.get(task, ()))
    return tuple(sorted(found.items()))


class Moments:
    """Says moments of one run in one unit, so that they can be compared at a glance.

    Args:
        makespan_s: How long the run takes.
    """

    def __init__(self, makespan_s: float) -> None:
        short = makespan_s < 0.1
        self._unit = "ms" if short else "s"
        self._factor = 1e3 if short else 1.0
        self._digits = 1 if short else 2 if makespan_s < 1000 else 0

    def at(self, time_s: float) -> str:
        """A moment, without its unit."""
        return f"{time_s * self._factor:,.{self._digits}f}" if math.isfinite(time_s) else NOTHING

    def say(self, time_s: float) -> str:
        """A moment or a duration, with its unit."""
        return f"{self.at(time_s)} {self._unit}" if math.isfinite(time_s) else NOTHING

    def between(self, from_s: float, to_s: float) -> str:
        """A stretch of time."""
        return f"{self.at(from_s)}–{self.at(to_s)} {self._unit}"
