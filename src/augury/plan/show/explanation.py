"""Why a task stands where it stands, as a value that can be printed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from augury.config import Resources
from augury.plan.hints import Hint
from augury.plan.show.words import ANY, Moments, hint_name, resources_text
from augury.plan.timeline import Simulation, TaskTimes
from augury.wording import dollars, duration, signed, size

_MOST_INPUTS = 5
NOT_KNOWN = "not known: the plan was read from text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What a task takes from another one.

    Attributes:
        task: The other one; `label`: how it is called.
        size_bytes: How large its output is expected to be; NaN if that is not known.
        here: Whether it runs on the same worker, so that nothing has to be moved.
    """

    task: int
    label: str
    size_bytes: float
    here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a change of the plan would bring, as simulated.

    Attributes:
        what: The change, in words.
        makespan_s: How much longer the run would take; negative: how much less.
        cost_usd: How much more it would cost.
        simulation: The run of the changed plan.
    """

    what: str
    makespan_s: float
    cost_usd: float
    simulation: Simulation

    def __str__(self) -> str:
        longer = signed(self.makespan_s, duration(abs(self.makespan_s)))
        return f"{self.what}: {longer}, {signed(self.cost_usd, dollars(abs(self.cost_usd)))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a task stands where it stands. `print` it, or read its fields.

    Attributes:
        task: The task; `label`: how it is called.
        worker: Where it runs: a worker's name, or `any` if workers decide and nothing was predicted.
        flexible: Whether workers decide.
        resources: What the worker has.
        beside: The other tasks there; `beside_text`: the same in words.
        inputs: What it takes, the largest first; None if the workflow is not known.
        local_bytes: How much of that is there already; `stored_bytes`: how much comes through storage.
        times: When it does what; None if nothing was predicted. Likewise `slack_s`.
        waits_for: The input that comes last, as a label; `follows`: the task whose place it takes. Empty: none.
        critical: Whether it decides when the run ends.
        slack_s: How much later it could end without making the run longer.
        evidence: What its prediction rests on, in words; `measurements`: how many there were.
        hints: What optimizations ask of its worker.
        without_hints: For each hint, what the plan would be without it.
        elsewhere: What would happen in other places.
        makespan_s: How long the run is expected to take.
    """

    task: int
    label: str
    worker: str
    flexible: bool
    resources: Resources
    beside: tuple[int, ...]
    beside_text: str
    inputs: tuple[Input, ...] | None
    local_bytes: float
    stored_bytes: float
    times: TaskTimes | None
    waits_for: str
    follows: str
    critical: bool
    slack_s: float | None
    evidence: str
    measurements: int
    hints: tuple[Hint, ...]
    without_hints: tuple[Difference, ...]
    elsewhere: tuple[Difference, ...]
    makespan_s: float | None

    def __str__(self) -> str:
        where = "on any worker" if self.worker == ANY else f"on {self.worker}"
        chosen = ", which workers choose" if self.flexible and self.worker != ANY else ""
        told = [
            ("inputs", self._inputs_text()),
            *self._times_text(),
            ("evidence", self.evidence),
            *(("hint", text) for text in self._hints_text()),
            *(("elsewhere", str(difference)) for difference in self.elsewhere),
        ]
        lines = [f"{self.label} {where} ({resources_text(self.resources)}){chosen}, {self.beside_text}"]
        before = ""
        for name, text in told:
            lines.append(f"  {'' if name == before else name:<9}  {text}")
            before = name
        return "\n".join(lines)

    def _inputs_text(self) -> str:
        if self.inputs is None:
            return NOT_KNOWN
        if not self.inputs:
            return "none from other tasks"
        named = [f"{one.label}{_bytes_text(one.size_bytes)}" for one in self.inputs[:_MOST_INPUTS]]
        more = [f"{len(self.inputs) - _MOST_INPUTS:,} more"] if len(self.inputs) > _MOST_INPUTS else []
        if math.isnan(self.local_bytes + self.stored_bytes):
            here = sum(one.here for one in self.inputs)
            sources = f"{here:,} from its own worker, {len(self.inputs) - here:,} through storage"
        else:
            sources = f"{size(self.local_bytes)} from its own worker, {size(self.stored_bytes)} through storage"
        return f"{', '.join([*named, *more])}; {sources}"

    def _times_text(self) -> Iterator[tuple[str, str]]:
        if self.times is None or self.makespan_s is None:
            return
        times, moments = self.times, Moments(self.makespan_s)
        awaited = f", after {self.waits_for}" if self.waits_for else ""
        yield "ready", f"{moments.say(times.ready_s)}{awaited}"
        behind = f", behind {self.follows}" if self.follows else ""
        phases = (
            ("queues", times.ready_s, times.start_s, behind),
            ("downloads", times.start_s, times.execute_s, ""),
            ("executes", times.execute_s, times.executed_s, ""),
            ("uploads", times.executed_s, times.end_s, ""),
        )
        for name, from_s, to_s, why in phases:
            if to_s > from_s or name == "executes":
                yield name, f"{duration(to_s - from_s)}, until {moments.say(to_s)}{why}"
        if self.critical:
            yield "slack", "none: it is on the critical path"
        elif self.slack_s is not None:
            yield "slack", f"{duration(self.slack_s)} until it would hold up the run"

    def _hints_text(self) -> list[str]:
        if len(self.without_hints) != len(self.hints):
            return [hint_name(hint) for hint in self.hints]
        return [
            f"{hint_name(hint)}: {_saving_text(difference)}"
            for hint, difference in zip(self.hints, self.without_hints, strict=True)
        ]


def _bytes_text(size_bytes: float) -> str:
    return "" if math.isnan(size_bytes) else f" ({size(size_bytes)})"


def _saving_text(without: Difference) -> str:
    """What a hint is worth: what the run would take more without it."""
    saved = [
        (without.makespan_s, duration(abs(without.makespan_s))),
        (without.cost_usd, dollars(abs(without.cost_usd))),
    ]
    saves = [text for value, text in saved if value > 0]
    costs = [text for value, text in saved if value < 0]
    told = [f"saves {' and '.join(saves)}"] if saves else []
    told += [f"costs {' and '.join(costs)}"] if costs else []
    return ", ".join(told) or "changes nothing"
