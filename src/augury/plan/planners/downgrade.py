"""Weaker workers where the run does not wait for them (algorithm 2 of the Serverless Dataflows paper).

    before     ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  worker 0: on the critical path        4 GiB
               ▓▓▓▓▓▓······┘       worker 1: waits, or is waited for     4 GiB

    after      ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  worker 0                              4 GiB
               ▓▓▓▓▓▓▓▓▓▓▓▓┘       worker 1: just in time                1 GiB

For each worker the configuration that should cost least is tried first, and the first one is taken with which the
run ends no later than it did before, and costs no more than with what was taken so far: a weaker worker that is slower
and dearer is no saving. Workers with the most to save come first, since several may share the time to spare.

A trial simulates only the workers that a change reaches. It leaves every start as cold or warm as it was, and has a
slot for everybody. So in the end the whole plan is simulated, and if it is late, changes are taken back that make
it so. Where slots are few, or if that does not help, every trial of a small workflow is a simulation of the whole plan.

That takes too long for a large one; and so do trials if workers depend on each other so much that every change reaches
hundreds of them. They end after some effort, measured in tasks that were simulated again. Then all is decided in
batches: every worker that has the time (`slack`) gets a weaker configuration at once. If together they take too long,
each may use only a third of its time, or a ninth; and if that does not help where workers queue for slots, only those
may change for whose slots nobody waits. That costs a few simulations, whatever the size.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.outlook import Outlook
from augury.plan.plan import Assignment, Plan
from augury.plan.planners.slack import slack_s
from augury.plan.timeline import Simulation, WorkerTimes

_MB_PER_GB = 1024

_SAME = 1 + 1e-9
"""Sums of floats in another order are not another makespan."""

_MAX_REPAIRS = 5
"""How many simulations of the whole plan are spent on what trials came to."""

_MAX_BATCHES = 8
_LARGE = 30_000
"""How many are spent on batches; half as many if there are more tasks than that."""

_LITTLE = 0.01
"""A batch that saves less than this part of the cost is the last of its kind."""

_SHARES = (1.0, 1 / 3, 1 / 9)
"""Which part of the time to spare a batch takes; the next one, if that was too much."""

_EFFORT = 3
_LEAST_EFFORT = 10_000
"""How many tasks may be simulated again in trials: so many for each task of the workflow, and these."""

_FORETELLING = 8
_HOPELESS = 4
"""After so many workers trials end if, at that rate, all of them would take so many times the effort."""


def downgraded(plan: Plan, outlook: Outlook, configurations: Sequence[Resources], needs_mb: Sequence[int]) -> Plan:
    """The plan with weaker workers; its run is expected to take no longer and to cost no more.

    Args:
        plan: A plan that names a worker for each task; workers are numbered from 0 without gaps.
        outlook: What is expected.
        configurations: What workers may have.
        needs_mb: For each worker the memory that it needs.
    """
    before = outlook.simulate(plan)
    workers = _Workers(outlook, plan, configurations, needs_mb)
    choices = workers.choices(plan, before)
    effort = _EFFORT * len(outlook.graph) + _LEAST_EFFORT
    if len(choices) <= outlook.platform.concurrency:
        settled = downgrade(outlook.trials(plan), choices, effort)
        held = _held(plan, before, settled.changes, outlook) if settled.complete else None
        if held is not None:
            return held
    if len(choices) * len(outlook.graph) <= effort:
        return resized(plan, downgrade(WholeTrials(plan, outlook.simulate), choices).changes)
    return _in_batches(plan, before, outlook, workers)


def resized(plan: Plan, changes: Mapping[int, Resources]) -> Plan:
    """The plan with other resources for some workers."""
    distinct = {worker: Assignment(worker, resources) for worker, resources in changes.items()}
    assignments = [own if own.worker is None else distinct.get(own.worker, own) for own in plan.assignments]
    return msgspec.structs.replace(plan, assignments=tuple(assignments))


def _is_no_worse(run: Simulation, before: Simulation) -> bool:
    return run.makespan_s <= before.makespan_s * _SAME and run.cost_usd <= before.cost_usd * _SAME


def _critical_workers(plan: Plan, run: Simulation) -> set[int]:
    workers = (plan.assignments[task].worker for task in run.critical_path)
    return {worker for worker in workers if worker is not None}


# ── one by one ─────────────────────────────────────────────────────────────────────────────────────────────────


class Trial(Protocol):
    """What would become of a run if a worker had other resources."""

    @property
    def makespan_s(self) -> float:
        """How long the run would take; any larger number if it is more than was allowed."""
        ...

    @property
    def cost_usd(self) -> float:
        """What it would cost."""
        ...


TrialT = TypeVar("TrialT", bound=Trial)


class Trials(Protocol[TrialT]):
    """A plan that changes worker by worker; `Outlook.trials` makes one."""

    @property
    def makespan_s(self) -> float:
        """How long the run takes with what was accepted so far."""
        ...

    @property
    def cost_usd(self) -> float:
        """What it costs."""
        ...

    @property
    def critical_workers(self) -> Collection[int]:
        """The workers that run tasks of the critical path."""
        ...

    @property
    def redone(self) -> int:
        """How many tasks were simulated again; accepting a trial may set it back."""
        ...

    def resize(self, worker: int, resources: Resources, limit_s: float) -> TrialT:
        """Try other resources for a worker."""
        ...

    def accept(self, trial: TrialT) -> None:
        """Go on from a trial."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What one worker could have instead.

    Attributes:
        worker: Which.
        savings_gb_s: Weaker configurations, and what each should save; the one first that should save most.
    """

    worker: int
    savings_gb_s: Mapping[Resources, float]

    @property
    def most_gb_s(self) -> float:
        """What it could save at most."""
        return max(self.savings_gb_s.values(), default=-math.inf)


class Settled(NamedTuple):
    """What trials came to.

    Attributes:
        changes: The new resources of workers that get other ones.
        complete: Whether all were tried.
    """

    changes: Mapping[int, Resources]
    complete: bool


def downgrade(trials: Trials[TrialT], choices: Sequence[Choice], effort: float = math.inf) -> Settled:
    """Weaken workers off the critical path while the run takes no longer and costs no more.

    Args:
        trials: The plan with the strongest workers.
        choices: What each worker could have; those first that matter most.
        effort: How many tasks may be simulated again before it ends; it also does if far more are to be expected.
    """
    limit_s, limit_usd = trials.makespan_s * _SAME, trials.cost_usd * _SAME
    critical = frozenset(trials.critical_workers)
    changes: dict[int, Resources] = {}
    spent = 0
    for place, choice in enumerate(choices):
        if choice.worker in critical:
            continue
        if spent > effort or (place >= _FORETELLING and spent / place * len(choices) > _HOPELESS * effort):
            return Settled(changes, complete=False)
        for resources in choice.savings_gb_s:
            redone = trials.redone
            trial = trials.resize(choice.worker, resources, limit_s)
            spent += trials.redone - redone
            if trial.makespan_s <= limit_s and trial.cost_usd <= limit_usd:
                trials.accept(trial)
                limit_usd = trial.cost_usd * _SAME
                changes[choice.worker] = resources
                break
    return Settled(changes, complete=True)


class WholeTrial(NamedTuple):
    """A changed plan, and what it would come to."""

    makespan_s: float
    cost_usd: float
    plan: Plan


class WholeTrials:
    """Trials that simulate all of a plan each time.

    Args:
        plan: The plan to be changed.
        simulate: Tells how a run of a plan is expected to go.
    """

    def __init__(self, plan: Plan, simulate: Callable[[Plan], Simulation]) -> None:
        run = simulate(plan)
        self.makespan_s = run.makespan_s
        self.cost_usd = run.cost_usd
        self.critical_workers = _critical_workers(plan, run)
        self.redone = 0
        self._plan = plan
        self._simulate = simulate

    def resize(self, worker: int, resources: Resources, limit_s: float) -> WholeTrial:
        """Try other resources for a worker."""
        self.redone += len(self._plan.assignments)
        plan = resized(self._plan, {worker: resources})
        run = self._simulate(plan)
        return WholeTrial(run.makespan_s, run.cost_usd, plan)

    def accept(self, trial: WholeTrial) -> None:
        """Go on from a trial."""
        self.makespan_s, self.cost_usd, self._plan = trial


# ── the whole run has the last word ────────────────────────────────────────────────────────────────────────────


def _held(plan: Plan, before: Simulation, changes: Mapping[int, Resources], outlook: Outlook) -> Plan | None:
    """The plan with changes, but for those that make it late; None if it is worse for other reasons."""
    for _ in range(_MAX_REPAIRS):
        changed = resized(plan, changes)
        run = outlook.simulate(changed)
        if _is_no_worse(run, before):
            return changed
        culprits = culprits_of(outlook.graph, run, before, changes)
        if not culprits:
            return None
        changes = {worker: resources for worker, resources in changes.items() if worker not in culprits}
    return None


def culprits_of(graph: Graph, run: Simulation, before: Simulation, changes: Collection[int]) -> set[int]:
    """The changed workers that make a run late: by being slow, or by leaving no environment for one that is late.

    Args:
        graph: The workflow.
        run: How the run goes with the changes.
        before: How it went without them.
        changes: The changed workers.
    """
    spare_s = slack_s(graph, run, before.makespan_s * _SAME)
    late = {run.timeline.worker[task] for task, seconds in enumerate(spare_s) if seconds < 0}
    was = {_id(worker): worker for worker in before.workers}
    freed: dict[Resources, list[tuple[float, int]]] = {}
    for worker in changes:
        freed.setdefault(was[worker].resources, []).append((was[worker].end_s, worker))
    for environments in freed.values():
        environments.sort()
    culprits = set()
    for times in (run.workers[index] for index in sorted(late)):
        worker = _id(times)
        if worker in changes:
            culprits.add(worker)
        elif times.cold and not was[worker].cold:
            environments = freed.get(times.resources, [])
            place = bisect_right(environments, (was[worker].granted_s, math.inf))
            if place:  # it started in what had become free last
                culprits.add(environments.pop(place - 1)[1])
    return culprits


def _id(times: WorkerTimes) -> int:
    return int(times.name[1:])


# ── many at once ───────────────────────────────────────────────────────────────────────────────────────────────


def _in_batches(plan: Plan, before: Simulation, outlook: Outlook, workers: "_Workers") -> Plan:
    """Weaken all workers at once that have the time."""
    is_large = len(outlook.graph) > _LARGE
    shares = _SHARES[1:] if is_large else _SHARES  # of a large one it rarely holds that everybody takes all
    ways = [(share, False) for share in shares]
    if any(worker.granted_s > worker.asked_s for worker in before.workers):
        ways = (ways[:1] if is_large else ways) + [(share, True) for share in shares]
    run = before
    for _ in range(_MAX_BATCHES // 2 if is_large else _MAX_BATCHES):
        share, keep_slots = ways[0]
        candidate = resized(plan, workers.affordable(plan, run, share, keep_slots=keep_slots))
        found = outlook.simulate(candidate)
        is_better = _is_no_worse(found, before) and found.cost_usd <= run.cost_usd * _SAME
        saves_much = is_better and found.cost_usd <= run.cost_usd * (1 - _LITTLE)
        if is_better:
            plan, run = candidate, found
        if not saves_much:
            ways.pop(0)
        if not ways:
            break
    return plan


class _Workers:
    """The workers of a plan: their tasks, and what they could have."""

    def __init__(
        self, outlook: Outlook, plan: Plan, configurations: Sequence[Resources], needs_mb: Sequence[int]
    ) -> None:
        self._outlook = outlook
        self._configurations = configurations
        self._needs_mb = needs_mb
        self._tasks_of: list[list[int]] = [[] for _ in needs_mb]
        for task, assignment in enumerate(plan.assignments):
            if assignment.worker is not None:
                self._tasks_of[assignment.worker].append(task)

    def choices(self, plan: Plan, run: Simulation) -> list[Choice]:
        """What each worker could have instead; those first that could save most."""
        billed_s = [0.0] * len(self._needs_mb)
        for times in run.workers:
            billed_s[_id(times)] += times.billed_s
        choices = [
            self._choice(worker, plan.assignments[tasks[0]].resources, billed_s[worker])
            for worker, tasks in enumerate(self._tasks_of)
        ]
        return sorted(choices, key=lambda choice: (-choice.most_gb_s, choice.worker))

    def affordable(self, plan: Plan, run: Simulation, share: float, *, keep_slots: bool) -> dict[int, Resources]:
        """The cheapest configurations of workers that take up at most a share of the time they have."""
        spare_s = slack_s(self._outlook.graph, run, run.makespan_s, keep_slots=keep_slots)
        critical = _critical_workers(plan, run)
        started_s = {_id(times): times.start_s - times.granted_s for times in run.workers}
        changes = {}
        for choice in self.choices(plan, run):
            if choice.worker in critical:
                continue
            tasks = sorted(self._tasks_of[choice.worker], key=run.timeline.executed_s.__getitem__)
            has = plan.assignments[tasks[0]].resources
            for resources, saved_gb_s in choice.savings_gb_s.items():
                late_s = max(0.0, self._cold_start_s(resources) - started_s[choice.worker])
                if saved_gb_s >= 0 and self._is_soon_enough(tasks, has, resources, late_s, spare_s, share):
                    changes[choice.worker] = resources
                    break
        return changes

    def _choice(self, worker: int, has: Resources, billed_s: float) -> Choice:
        """Costs are estimated as if only what a worker executes changed: if it is slower it may also wait less."""
        need_mb = self._needs_mb[worker]
        weaker = [one for one in self._configurations if one != has and has.covers(one) and one.memory_mb >= need_mb]
        tasks = self._tasks_of[worker]
        other_s = max(0.0, billed_s - self._span_s(tasks, has))
        costs = {one: one.memory_mb / _MB_PER_GB * (other_s + self._span_s(tasks, one)) for one in [has, *weaker]}
        cheapest = sorted(weaker, key=costs.__getitem__)
        return Choice(worker=worker, savings_gb_s={one: costs[has] - costs[one] for one in cheapest})

    def _span_s(self, tasks: Sequence[int], resources: Resources) -> float:
        """How long tasks run on one worker if all its slots are busy."""
        runtimes_s = self._outlook.execution_s(resources)
        return math.fsum([runtimes_s[task] for task in tasks]) / min(resources.task_slots, len(tasks))

    def _cold_start_s(self, resources: Resources) -> float:
        """How long a worker with these resources takes to start that finds none of its kind."""
        return self._outlook.platform.timing_of(resources).cold_start_s

    def _is_soon_enough(
        self,
        tasks: Sequence[int],
        has: Resources,
        resources: Resources,
        late_s: float,
        spare_s: Sequence[float],
        share: float,
    ) -> bool:
        """Whether no task is later than it may be, if each is later by what it and those before it take longer."""
        old_s, new_s = self._outlook.execution_s(has), self._outlook.execution_s(resources)
        old_slots, new_slots = min(has.task_slots, len(tasks)), min(resources.task_slots, len(tasks))
        for task in tasks:
            late_s += new_s[task] / new_slots - old_s[task] / old_slots
            if late_s > share * spare_s[task]:
                return False
        return True
