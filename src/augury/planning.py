"""From history to a plan: what a client does before a run.

    history ──▶ records ──┬─ not moved ──▶ the plan of last time
                          └─ moved ──▶ models ──▶ outlook ──▶ planner, optimizations ──▶ plan

Here is the reading and the remembering; what decides is in `plan/` and `predict/`. History never makes planning fail:
if it cannot be read, that is logged once, and priors take its place.

Which environments are warm before a run is not known: platforms do not tell. What is assumed is what this client
has seen: each cold start of its runs made an environment, and it stays for as long as the platform keeps one that
nobody uses. Other clients of the platform, and what was before this one, are not seen; nor are environments that are
in use by runs that are not over.
"""

import functools
import importlib
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, cast

import msgspec

from augury.config import Resources
from augury.dag.graph import Graph, Workflow
from augury.invoke.embedded.cgroups import machine_memory_mb
from augury.invoke.embedded.cloud import Emulation, LogNormal, StartUp
from augury.invoke.embedded.platform import Embedded
from augury.invoke.gateway import Limits
from augury.metrics.history.history import History
from augury.metrics.records import Records, Series
from augury.observation import RunReport
from augury.plan.hints import PreWarmHint
from augury.plan.making import forced_optimizations, make_plan
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook, Planner
from augury.plan.plan import Plan
from augury.plan.predictions import Predictions
from augury.plan.reuse import Basis, KnownPlans, basis_of
from augury.predict.arguments import argument_bytes
from augury.predict.busy import cpu_shares
from augury.predict.fits import Fits
from augury.predict.levels import levels_of
from augury.predict.recent import Recent
from augury.predict.sla import SLA, Percentile, fraction_of
from augury.predict.unlearned import Priors
from augury.predict.workflow import WorkflowPredictions

if TYPE_CHECKING:
    from augury.predict.provider import PredictionsProvider  # needs NumPy, which takes long to load

    _Provider = Priors | Recent | PredictionsProvider

_log = logging.getLogger(__name__)

_USUAL = Resources()
_WORTH_LOADING_S = 0.5  # of work from which on it is worth to load what fits laws
_WORTH_FITTING_S = 0.15  # and so much more for each function
_LAWS = "augury.predict.provider"
_LONG_S = 1.0  # of a run, after which it is worth to load that for the next one
_PAUSE_S = 30.0  # after which a history that could not be read is tried again
_troubled: set[str] = set()  # addresses of histories that could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a client knows of its platform without asking history.

    Attributes:
        name: How records call it.
        concurrency: How many workers run at once.
        start_s: How long a start takes while there is room.
        keep_alive_s: How long an environment stays warm.
        configurations: What workers can be had.
        memory_mb: The most that a worker can have; 0 if it is not known.
        processors: How many processors all workers share; infinite: each has its own.
        assumed: How fast workers are where nothing was measured; None: as on AWS Lambda.
    """

    name: str
    concurrency: int
    start_s: float
    keep_alive_s: float
    configurations: Sequence[Resources] = (Resources(),)
    memory_mb: int = 0
    processors: float = math.inf
    assumed: Callable[[Resources], Timing] | None = None


def embedded_site(settings: Embedded, limits: Limits | None, configurations: Sequence[Resources]) -> Site:
    """What is known of the embedded platform; its limits, once it runs."""
    imitated = settings.emulation
    start_s = _EMBEDDED_START_S + (imitated.cold_start.high_s if imitated is not None else 0.0)
    return Site(
        name=settings.platform_name,
        concurrency=settings.concurrency,
        start_s=start_s if limits is None else limits.start_s,
        keep_alive_s=settings.keep_alive_s,
        configurations=configurations,
        memory_mb=machine_memory_mb() if limits is None else limits.memory_mb,
        processors=os.cpu_count() or 1,
        assumed=functools.partial(_embedded_timing, imitated),
    )


def gateway_site(name: str, limits: Limits | None, configurations: Sequence[Resources]) -> Site:
    """What is known of the platform behind a gateway; its limits, once it was asked."""
    told = _UNTOLD if limits is None else limits
    return Site(
        name=name,
        concurrency=told.concurrency,
        start_s=told.start_s,
        keep_alive_s=_GATEWAY_KEEP_ALIVE_S,
        configurations=configurations,
        memory_mb=told.memory_mb,
    )


_EMBEDDED_START_S = 0.03
_EMBEDDED = Timing(cold_start_s=0.015, warm_start_s=0.002, latency_s=0.0003, bandwidth_bytes_s=1e9)
"""What an ordinary machine takes; its own numbers are known after the first run."""
_UNTOLD = Limits(concurrency=1000)
_GATEWAY_KEEP_ALIVE_S = 300.0  # the shortest of what clouds are known for


def _embedded_timing(imitated: Emulation | None, resources: Resources) -> Timing:
    """How fast workers of the embedded platform are, and how slow they are made."""
    if imitated is None:
        return _EMBEDDED
    return Timing(
        cold_start_s=_EMBEDDED.cold_start_s + _usual_s(imitated.cold_start),
        warm_start_s=_EMBEDDED.warm_start_s + _usual_s(imitated.warm_start),
        latency_s=_EMBEDDED.latency_s + imitated.storage_latency_s,
        bandwidth_bytes_s=min(_EMBEDDED.bandwidth_bytes_s, 1e6 * imitated.bandwidth_mb_s(resources.memory_mb)),
    )


def _usual_s(start_up: StartUp) -> float:
    return start_up.median_s if isinstance(start_up, LogNormal) else start_up.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be planned, and what the user said of it.

    Attributes:
        workflow: The workflow.
        kept_as: The name that its history is kept under.
        planner: What makes the plan.
        sla: How careful to be.
        predictions: What is expected of tasks; None: what history says.
        platform: What is expected of the platform; None: what history and the platform itself say.
        predicts: Whether the run must be predicted at once, however long that takes.
    """

    workflow: Workflow
    kept_as: str
    planner: Planner
    sla: SLA = "median"
    predictions: "Predictions | PredictionsProvider | None" = None
    platform: PlatformModel | None = None
    predicts: bool = True


class Planning:
    """Makes the plans of one client. Thread-safe.

    Args:
        history: What earlier runs taught; None: nothing.
        clock: Tells the time in seconds.
    """

    def __init__(self, history: History | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._history = history
        self._clock = clock
        self._fits = Fits()
        self._plans = KnownPlans()
        self._warm = _Warm()
        self._unread_until_s = 0.0
        self._is_ready = False

    def plan(self, question: Question, site: Site, before_loading: Callable[[], object] = lambda: None) -> Plan:
        """Plan a workflow; as last time, if nothing has moved since.

        Args:
            question: What to plan.
            site: Where it runs.
            before_loading: Called before modules are loaded that take long; may start something that takes longer.
        """
        graph = question.workflow.graph
        fraction_of(question.sla)  # refuses what is none
        forced = forced_optimizations(question.workflow.functions)
        sizes = argument_bytes(question.workflow)
        records = self._records(question, site)
        warm = self._warm.at(self._clock())
        basis = basis_of(graph, sizes, levels_of(_relevant(records, graph)))
        key = _key(question, site, warm)
        known = None if key is None else self._plans.find(key, basis)
        if known is not None:
            predicted = known.predicted
            if predicted is None and question.predicts:
                predicted = known.outlook.simulate(known)
            return msgspec.structs.replace(known, graph=graph, predicted=predicted)
        provider = self._provider(question, records, site, basis, before_loading)
        shares = functools.partial(cpu_shares, records.series, graph.functions, site.name)
        outlook = Outlook(
            graph,
            _predictions(question, provider, sizes, shares),
            question.platform or functools.partial(_platform, provider, site, warm),
            sla=question.sla,
            forced=forced,
            clock=time.perf_counter,
        )
        plan = make_plan(question.planner, outlook, predicts=question.predicts)
        if key is not None:
            self._plans.keep(key, basis, plan, held=(question.planner, forced))
        return plan

    def get_ready(self, until: "Future[RunReport]") -> None:
        """A run has begun: if it takes long, load meanwhile what its next plan will need, while nobody waits for it."""
        if self._history is None or self._is_ready or _LAWS in sys.modules:
            return
        self._is_ready = True
        timer = threading.Timer(_LONG_S, _load_laws)
        timer.daemon = True
        timer.start()
        until.add_done_callback(lambda _: self._stop_getting_ready(timer))

    def _stop_getting_ready(self, timer: threading.Timer) -> None:
        """A run is over; if it was short, the next one may be long."""
        timer.cancel()
        self._is_ready = False

    def note_end(self, plan: Plan, report: RunReport, site: Site) -> None:
        """Learn from the end of a run which environments are warm."""
        self._warm.note(plan, report, site, self._clock())

    def _records(self, question: Question, site: Site) -> Records:
        """What history knows of a workflow; nothing, if nobody will ask or it cannot be read."""
        nothing = Records(workflow=question.kept_as)
        asked = question.predictions is None or question.platform is None
        if self._history is None or not asked or self._clock() < self._unread_until_s:
            return nothing
        versions = [function.version for function in question.workflow.graph.functions]
        try:
            return self._history.load(question.kept_as, versions, site.name)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with history, there is a plan without it
            self._unread_until_s = self._clock() + _PAUSE_S
            # Once per process and history: it will not be another reason the next time.
            level = logging.DEBUG if self._history.address in _troubled else logging.WARNING
            _troubled.add(self._history.address)
            _log.log(level, "planning without what earlier runs taught: %s", error)
            return nothing

    def _provider(
        self, question: Question, records: Records, site: Site, basis: Basis, before_loading: Callable[[], object]
    ) -> "_Provider":
        """What predicts functions and the platform: as little as is worth its while.

        Laws need NumPy, which takes a tenth of a second to load, and some time to be fitted to each function.
        """
        if not records.series:
            return Priors()
        recent = Recent(records, site.name)
        functions = question.workflow.graph.functions
        if not isinstance(question.sla, Percentile):
            usual_s = [recent.predict_execution_time(one, 0.0, _USUAL, question.sla) for one in functions]
            measured = [0.0 if one.is_prior else one for one in usual_s]  # there is nothing to fit to the others
            work_s = sum(many * each_s for many, each_s in zip(basis.tasks, measured, strict=True))
            if work_s < _WORTH_LOADING_S + _WORTH_FITTING_S * len(functions):
                return recent
        if "numpy" not in sys.modules:
            before_loading()
        made: PredictionsProvider = _load_laws().PredictionsProvider(
            records, platform=site.name, functions=functions, fits=self._fits
        )
        return made


_loading = threading.RLock()
"""Held while that is loaded: a fork waits for it, since a module that is half loaded there would stay so for ever."""


def _load_laws() -> ModuleType:
    """Import what fits laws, with NumPy, which takes a tenth of a second, and what that loads only when asked."""
    with _loading:
        importlib.import_module("numpy.ma")  # `numpy.unique` does
        return importlib.import_module(_LAWS)


os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


def _predictions(
    question: Question, provider: "_Provider", sizes: Sequence[float], shares: Callable[[], Sequence[float]]
) -> "Predictions | WorkflowPredictions":
    given = question.predictions
    if given is None:
        return WorkflowPredictions(provider, question.sla, sizes, shares)
    if callable(getattr(given, "predict_execution_time", None)):
        return WorkflowPredictions(cast("PredictionsProvider", given), question.sla, sizes, shares)
    return cast("Predictions", given).at(question.sla)


def _platform(provider: "_Provider", site: Site, warm: Mapping[Resources, int], sla: SLA) -> PlatformModel:
    return PlatformModel.measured(
        provider,
        sla=sla,
        concurrency=site.concurrency,
        processors=site.processors,
        start_s=site.start_s,
        keep_alive_s=site.keep_alive_s,
        warm=warm,
        configurations=site.configurations,
        most_memory_mb=site.memory_mb or math.inf,
        assumed=site.assumed,
    )


def _relevant(records: Records, graph: Graph) -> list[Series]:
    """What is known of a workflow's functions and of platforms; a name may have stood for other functions before."""
    versions = {function.version for function in graph.functions}
    return [one for one in records.series if not one.of.kind.is_of_functions or one.of.function in versions]


def _key(question: Question, site: Site, warm: Mapping[Resources, int]) -> Hashable:
    """What must be equal for a plan to be used again; None if it must not be.

    Forecasts by hand are questions, mostly asked once. Of warm environments it counts whether there are twice as many.
    """
    planner, graph = question.planner, question.workflow.graph
    settings = getattr(planner, "settings", id(planner))
    if settings is None or question.predictions is not None or question.platform is not None:
        return None
    key = (
        (graph.fingerprint, graph.functions, question.kept_as, question.sla),
        (site.name, site.concurrency, site.start_s, site.keep_alive_s, tuple(site.configurations), site.memory_mb),
        (type(planner), settings, tuple(function.options.optimizations for function in question.workflow.functions)),
        frozenset((resources, many.bit_length()) for resources, many in warm.items()),
    )
    try:
        hash(key)
    except TypeError:
        return None
    return key


class _Warm:
    """The environments that runs of this client made, by what they have: how many, and when they were last used."""

    def __init__(self) -> None:
        self._known: dict[Resources, tuple[int, float]] = {}
        self._keep_alive_s = math.inf

    def at(self, now_s: float) -> dict[Resources, int]:
        """How many are warm at a time; without those that are not."""
        known = tuple(self._known.items())
        return {resources: many for resources, (many, used_s) in known if now_s - used_s < self._keep_alive_s}

    def note(self, plan: Plan, report: RunReport, site: Site, now_s: float) -> None:
        """A run of a plan has ended.

        A new environment is made only while all others are in use. So with one configuration there are as many more
        as there were cold starts. With several nobody tells which; but each worker of the plan had one. And those that
        the plan had pre-warmed are there too.
        """
        self._keep_alive_s = site.keep_alive_s
        before, used = self.at(now_s), _workers(plan)
        after = {
            resources: before.get(resources, 0) + report.cold_starts
            if len(used) == 1
            else max(before.get(resources, 0), workers)
            for resources, workers in used.items()
        }
        for hint in (*plan.launch, *(hint for hints in plan.hints.values() for hint in hints)):
            if isinstance(hint, PreWarmHint):
                after[hint.resources] = after.get(hint.resources, before.get(hint.resources, 0)) + hint.count
        for resources, many in after.items():
            if many:
                self._known[resources] = (min(many, site.concurrency), now_s)


def _workers(plan: Plan) -> dict[Resources, int]:
    """How many workers of each configuration a plan names; at least one of each that it uses."""
    workers: dict[Resources, set[int | None]] = {}
    for assignment in {id(one): one for one in plan.assignments}.values():  # planners hand out the same one many times
        workers.setdefault(assignment.resources, set()).add(assignment.worker)
    return {resources: len(names) for resources, names in workers.items()}
