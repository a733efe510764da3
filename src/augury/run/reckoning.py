"""The report of a run: what its workers told, added up, with what the plan predicted beside it; pure."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from augury.dag.graph import Graph
from augury.metrics.records import Span
from augury.observation import Comparison, Pair, RunReport
from augury.plan.model import Price
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.show.words import sla_name
from augury.plan.timeline import Simulation
from augury.storage.protocols import Status, WorkerSummary

_MB_PER_GB = 1024
_MOST_FUNCTIONS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is known of a run at its end.

    Attributes:
        run_id: The run; `name`: the workflow's name; `graph`: the workflow.
        plan: What its workers carried out; None if it did not get that far.
        status: How it ended.
        makespan_s: From submission to the result.
        prepared_s: From submission until the platform was asked for the first workers.
        submitted_s: When it was asked, in seconds since the epoch.
        invocations: How many FaaS calls there were; `prewarmed`: how many environments were asked for beside them.
        summaries: What each of them told.
        cold_gb_seconds: How long they took to start cold, times their memory.
        spans: When tasks ran, as far as workers measured it.
    """

    run_id: str
    name: str
    graph: Graph
    plan: Plan | None
    status: Status
    makespan_s: float
    prepared_s: float
    submitted_s: float
    invocations: int
    prewarmed: int
    summaries: Collection[WorkerSummary]
    cold_gb_seconds: float
    spans: Sequence[Span]


def report_of(account: Account) -> RunReport:
    """What a run took, and how that compares with what was predicted."""
    summaries = account.summaries
    price = _price(account.plan)
    gb_seconds = _gb_seconds(account, price)
    requests = account.invocations + account.prewarmed + sum(summary.prewarmed for summary in summaries)
    cost_usd = gb_seconds * price.usd_per_gb_s + requests * price.usd_per_request
    predicted = account.plan.predicted if account.plan is not None else None
    comparison = _comparison(account, predicted, gb_seconds, cost_usd) if predicted is not None else Comparison()
    return RunReport(
        run_id=account.run_id,
        name=account.name,
        status=str(account.status),
        tasks=len(account.graph),
        ran=sum(summary.tasks for summary in summaries),
        recalled=sum(summary.recalled for summary in summaries),
        workers=len({summary.worker for summary in summaries}),
        invocations=account.invocations,
        cold_starts=sum(summary.cold for summary in summaries),
        makespan_s=account.makespan_s,
        gb_seconds=gb_seconds,
        stored_bytes=sum(summary.stored_bytes for summary in summaries),
        fetched_bytes=sum(summary.fetched_bytes for summary in summaries),
        prepared_s=account.prepared_s,
        cost_usd=cost_usd,
        predicted_s=predicted.makespan_s if predicted is not None else None,
        predicted_gb_seconds=predicted.gb_seconds if predicted is not None else None,
        predicted_usd=predicted.cost_usd if predicted is not None else None,
        evidence=_evidence(account.plan),
        sla=comparison.sla,
        sla_held=comparison.sla_held,
        comparison=comparison,
    )


def _price(plan: Plan | None) -> Price:
    outlook: Outlook | None = plan.outlook if plan is not None else None
    return outlook.platform.price if outlook is not None else Price()


def _evidence(plan: Plan | None) -> int | None:
    """How many measurements the prediction rests on, unless it would take long to find out."""
    outlook: Outlook | None = plan.outlook if plan is not None else None
    if outlook is None or len(outlook.graph.functions) > _MOST_FUNCTIONS:
        return None
    return sum(known.n for known in outlook.evidence)


def _gb_seconds(account: Account, price: Price) -> float:
    billed = [_billed_s(summary.duration_s, price) * summary.memory_mb / _MB_PER_GB for summary in account.summaries]
    return math.fsum(billed) + (account.cold_gb_seconds if price.start_billed else 0.0)


def _billed_s(duration_s: float, price: Price) -> float:
    """A duration in whole steps; a hair more than a whole number of them is that number."""
    return math.ceil(duration_s / price.step_s - 1e-6) * price.step_s if price.step_s else duration_s


def _comparison(account: Account, predicted: Simulation, gb_seconds: float, cost_usd: float) -> Comparison:
    succeeded = account.status is Status.SUCCEEDED
    took_s = account.makespan_s - account.prepared_s
    outlook: Outlook | None = account.plan.outlook if account.plan is not None else None
    timeline = predicted.timeline
    spans = [span for span in account.spans if span.task < len(timeline)]
    tasks = [span.task for span in spans]
    return Comparison(
        makespan_s=Pair(predicted.makespan_s, took_s) if succeeded else None,
        gb_seconds=Pair(predicted.gb_seconds, gb_seconds) if succeeded else None,
        cost_usd=Pair(predicted.cost_usd, cost_usd) if succeeded else None,
        sla=sla_name(outlook.sla) if outlook is not None else None,
        sla_held=took_s <= predicted.makespan_s if succeeded else None,
        task=tuple(tasks),
        label=tuple(map(account.graph.label, tasks)),
        predicted_s=tuple(timeline.executed_s[task] - timeline.execute_s[task] for task in tasks),
        actual_s=tuple(span.execution_s for span in spans),
        predicted_start_s=tuple(timeline.execute_s[task] for task in tasks),
        actual_start_s=tuple(span.start_s - account.submitted_s for span in spans),
    )


def time_of_cursor(cursor: str) -> float:
    """When the event at a cursor was stored, in seconds since the epoch; 0 if the cursor does not tell."""
    stamp_ms, _, number = cursor.partition("-")
    return int(stamp_ms) / 1000 if number and stamp_ms.isdigit() else 0.0
