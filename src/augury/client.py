"""A client knows a platform and a planner, and starts runs.

`.compute()` uses the client of the enclosing `with Client(…)`, or else one of the embedded platform that
is started once per process, when it is first needed, and ends with it.
"""

import atexit
import contextlib
import contextvars
import functools
import importlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from augury.config import Resources, StorageConfig, public_address
from augury.dag.graph import build_workflow
from augury.dag.refs import tasks_in
from augury.dag.task import TaskNode
from augury.errors import DefinitionError, PlanError, PlatformError, StorageError
from augury.invoke.embedded.platform import Embedded
from augury.invoke.http_gateway import HttpGateway
from augury.metrics.history.history import History, open_history
from augury.metrics.records import Records
from augury.observation import Observer
from augury.plan.model import PlatformModel
from augury.plan.outlook import Planner
from augury.plan.plan import Plan
from augury.plan.planners.auto import AutoPlanner
from augury.plan.predictions import Predictions
from augury.planning import Planning, Question, Site, embedded_site, gateway_site
from augury.predict.sla import SLA, fraction_of
from augury.run import Platform, Run, RunWatch
from augury.storage.opening import load_driver, open_storage

if TYPE_CHECKING:
    from augury.predict.estimator import Estimator
    from augury.predict.provider import PredictionsProvider  # needs NumPy, which takes long to load

_log = logging.getLogger(__name__)

_TOKEN_VARIABLE = "AUGURY_TOKEN"  # noqa: S105 - the variable's name, not a token


class _Defaults:
    """What clients use unless they are told otherwise; set once by the package itself."""

    observers: Callable[[], Sequence[Observer]] = staticmethod(lambda: ())


def set_default_observers(factory: Callable[[], Sequence[Observer]]) -> None:
    """Choose who is told of runs of clients that were given no observers."""
    _Defaults.observers = staticmethod(factory)


class Client:
    """Runs workflows on a platform.

    Without arguments it starts the embedded platform on this machine when it is first needed.

    Args:
        redis: The address of a Redis that workers use too, such as `redis://:password@host:6379/0`.
        gateway: The address of a gateway whose workers use that Redis.
        token: What the gateway demands; by default the environment variable AUGURY_TOKEN.
        planner: What makes plans; by default `AutoPlanner()`, which looks for the fastest.
        sla: Which run plans are made for: the `"median"` one, the `"average"` one, or one that is slower than so many
            percent of all, as in `Percentile(95)`.
        configurations: What workers may have, for planners that choose; by default all have `Resources()`.
        platform: Settings of the embedded platform, if it is used.
        observers: Who is told of runs; by default progress and a short report on standard error.
        history: Where what runs teach is kept: a folder, the address of a Redis, or what `augury.history(…)` gives.
            By default the user's state folder or, with a gateway, the Redis of its workers. False: nothing is
            measured, kept or read.

    Example:
        >>> from augury import Client, Embedded, task
        >>> @task
        ... def add(a: int, b: int) -> int:
        ...     return a + b
        >>> with Client(platform=Embedded(slots=2), observers=[]) as client:
        ...     client.submit(add(add(1, 2), 3), name="sum").result()
        6
    """

    def __init__(
        self,
        *,
        redis: str | None = None,
        gateway: str | None = None,
        token: str | None = None,
        planner: Planner | None = None,
        sla: SLA = "median",
        configurations: Sequence[Resources] | None = None,
        platform: Embedded | None = None,
        observers: Sequence[Observer] | None = None,
        history: History | str | os.PathLike[str] | bool | None = None,
    ) -> None:
        _check_address("redis", redis)
        _check_address("gateway", gateway)
        if not isinstance(token, str | None):
            raise DefinitionError(f"Client(token=…) must be a str, not {type(token).__name__}")
        if not isinstance(platform, Embedded | None):
            raise DefinitionError(f"Client(platform=…) must be an Embedded(…), not {platform!r}")
        if planner is not None:
            _check_planner(planner, "Client")
        fraction_of(sla)  # refuses what is none
        if gateway is not None and redis is None:
            raise DefinitionError("Client(gateway=…) also needs redis=…: the address of the Redis that its workers use")
        if gateway is not None and platform is not None:
            raise DefinitionError("Client takes a gateway or an embedded platform, not both")
        self._redis = redis
        self._gateway_url = gateway
        self._token = token or os.environ.get(_TOKEN_VARIABLE, "")
        self._embedded = Embedded() if platform is None else platform
        self.planner: Planner = AutoPlanner() if planner is None else planner
        self.sla: SLA = sla
        self._configurations = _checked_configurations(configurations)
        self._history = _chosen_history(history, redis if gateway else None)
        self._planning = Planning(self._history)
        self._observers = _checked_observers(_Defaults.observers() if observers is None else observers)
        self._lock = threading.Lock()
        self._platform: Platform | None = None
        self._watches: set[RunWatch] = set()
        self._unnoted: dict[RunWatch, Plan] = {}
        self._closed = False
        self._owner = os.getpid()
        self._entered: contextvars.Token[Client | None] | None = None

    def __repr__(self) -> str:
        return f"<Client of {self._gateway_url or 'the embedded platform'}>"

    def __reduce__(self) -> NoReturn:
        raise DefinitionError("a Client cannot be given to a task: it belongs to the process that made it")

    # What users call

    def submit(self, outputs: Any, *, name: str | None = None, plan: Plan | None = None) -> Run[Any]:
        """Start a run of the workflow behind a task, or behind any nesting of tasks.

        Args:
            outputs: What to compute: a task, or lists, tuples, dicts, sets and dataclasses of tasks.
            name: The workflow's name; by default that of its last function.
            plan: A plan to carry out; by default the planner makes one.
        """
        started_s = time.monotonic()
        _check_options(name, plan)
        workflow = build_workflow(outputs)
        kept_as = name or workflow.graph.fingerprint
        if plan is None:
            asked = Question(workflow=workflow, kept_as=kept_as, planner=self.planner, sla=self.sla, predicts=False)
            chosen = self._planned(asked)
        else:
            chosen = plan
            chosen.validate(workflow.graph)
        platform = self._open()
        run_id = secrets.token_hex(8)
        run_name = name or workflow.graph.info(workflow.graph.sinks[-1]).name
        watch = RunWatch(
            run_id,
            run_name,
            workflow,
            platform,
            self._observers,
            history=self._history,
            kept_as=kept_as,
            started_s=started_s,
        )
        watch.start(chosen)
        self._unnoted[watch] = chosen
        watch.settled.add_done_callback(lambda _: self._note_end(watch))
        with self._lock:
            self._watches = {other for other in self._watches if not other.settled.done()} | {watch}
        return Run(run_id=run_id, name=run_name, watch=watch)

    def compute(self, outputs: Any, *, name: str | None = None, plan: Plan | None = None) -> Any:
        """Run a workflow and wait for its value; as `submit(…).result()`, and then the report is out too.

        What holds no task is its own value, and is returned as it is.
        """
        _check_options(name, plan)
        if not isinstance(outputs, TaskNode) and not tasks_in(outputs):
            return outputs
        run = self.submit(outputs, name=name, plan=plan)
        try:
            return run.result()
        finally:
            if run.done():
                run.report()

    def plan(
        self,
        outputs: Any,
        planner: Planner | None = None,
        *,
        predictions: "Predictions | PredictionsProvider | None" = None,
        platform: PlatformModel | None = None,
        sla: SLA | None = None,
        name: str | None = None,
    ) -> Plan:
        """Plan a workflow without running it. Starts nothing.

        Args:
            outputs: The workflow, as for `submit`.
            planner: What makes the plan; by default the client's.
            predictions: What to expect of tasks, such as `FixedPredictions(…)`; by default what earlier runs taught.
            platform: What to expect of the platform, such as `PlatformModel.aws_lambda()`; by default what earlier runs
                taught of the client's.
            sla: Which run to plan for; by default the client's.
            name: The workflow's name, if it is run under one.
        """
        _check_options(name, None)
        _check_forecast(predictions, platform)
        if planner is not None:
            _check_planner(planner, "plan")
        workflow = build_workflow(outputs)
        return self._planned(
            Question(
                workflow=workflow,
                kept_as=name or workflow.graph.fingerprint,
                planner=self.planner if planner is None else planner,
                sla=self.sla if sla is None else sla,
                predictions=predictions,
                platform=platform,
            ),
            starts_platform=False,
        )

    def predictions(
        self, outputs: Any, *, name: str | None = None, estimator: "Estimator | None" = None
    ) -> "PredictionsProvider":
        """What earlier runs say of a workflow: ask the result for execution times, sizes, transfers and start-ups.

        Args:
            outputs: The workflow, as for `submit`.
            name: Its name, if it is run under one.
            estimator: What learns from records; by default laws of size and resources are fitted to them.
        """
        _check_options(name, None)
        if isinstance(outputs, str):
            raise DefinitionError(
                f"predictions are for a workflow, not for its name: predictions(tasks, name={outputs!r})"
            )
        graph = build_workflow(outputs).graph
        records = Records(workflow=name or graph.fingerprint)
        if self._history is not None:
            versions = [function.version for function in graph.functions]
            records = self._history.load(records.workflow, versions, self._platform_name)
        provider = importlib.import_module("augury.predict.provider")
        made: PredictionsProvider = provider.PredictionsProvider(
            records, platform=self._platform_name, functions=graph.functions, estimator=estimator
        )
        return made

    # Planning

    def _planned(self, question: Question, *, starts_platform: bool = True) -> Plan:
        """A plan. What that needs may take long to load; meanwhile the platform starts, if it will be needed."""
        for watch in tuple(self._unnoted):
            if watch.settled.done():  # so that who has seen the end of a run can rely on its being known
                self._note_end(watch)
        return self._planning.plan(
            question, self._site(asks=starts_platform), self._open_meanwhile if starts_platform else lambda: None
        )

    def _note_end(self, watch: RunWatch) -> None:
        """Have planning learn from a run that is over; once."""
        plan = self._unnoted.pop(watch, None)
        if plan is not None and watch.settled.exception() is None:
            self._planning.note_end(plan, watch.settled.result(), self._site())

    def _site(self, *, asks: bool = False) -> Site:
        """What is known of the platform; of a gateway, what it says of itself once it was or may be asked."""
        running = self._open() if asks and self._gateway_url is not None else self._platform
        limits = None if running is None else running.limits
        if self._gateway_url is not None:
            return gateway_site(self._platform_name, limits, self._configurations)
        return embedded_site(self._embedded, limits, self._configurations)

    def _open_meanwhile(self) -> None:
        """Have the platform start in another thread. If that fails, whoever needs it will try again and learn why."""
        if self._platform is None:
            threading.Thread(target=self._try_to_open, name="augury-open", daemon=True).start()

    def _try_to_open(self) -> None:
        with contextlib.suppress(Exception):
            self._open()

    @property
    def _platform_name(self) -> str:
        """How records call the platform."""
        return public_address(self._gateway_url) if self._gateway_url else self._embedded.platform_name

    def close(self) -> None:
        """Let the platform go. Runs that are not over are cancelled if the platform is the embedded one."""
        with self._lock:
            if self._closed or self._owner != os.getpid():  # in a fork the platform and its runs are the parent's
                return
            self._closed = True
            platform, self._platform = self._platform, None
            watches = list(self._watches)
        if platform is None:
            return
        try:
            for watch in watches:
                if platform.embedded is not None and not watch.value.done():
                    watch.end()
            for watch in watches:
                watch.join()
        finally:
            platform.close()

    # Being a context

    def __enter__(self) -> Self:
        self._entered = _current.set(self)
        _entered.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit()
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit()
        await importlib.import_module("augury.awaiting").do_in_thread(self.close)

    def _exit(self) -> None:
        if self in _entered:
            _entered.remove(self)
        token, self._entered = self._entered, None
        if token is not None:
            with contextlib.suppress(ValueError):  # entered in another context, such as a fixture's
                _current.reset(token)

    def _open(self) -> Platform:
        with self._lock:
            if self._closed:
                raise PlatformError("this client is closed; make a new one")
            if self._platform is None:
                self._platform = self._start_platform()
            return self._platform

    def _start_platform(self) -> Platform:
        if self._gateway_url is None:
            threading.Thread(target=load_driver, daemon=True).start()  # while the platform starts
            embedded = self._embedded.start(redis=self._redis)
            for note in embedded.notes:
                _log.info("embedded platform: %s", note)
            if embedded.unlimited:
                _warn_of_missing_limits(embedded.unlimited)
            config = embedded.storage_config
            storage = open_storage(config)
            return Platform(storage, config.redis, embedded.gateway(), embedded.limits, embedded, self._platform_name)
        address = self._redis or ""
        storage = open_storage(StorageConfig(redis=address))
        storage.ping()
        gateway = HttpGateway(self._gateway_url, self._token)
        return Platform(storage, address, gateway, gateway.limits(), None, self._platform_name)


def make_plan(outputs: Any, planner: Planner) -> Plan:
    """Plan the workflow behind any nesting of tasks, as the current client would."""
    return current_client().plan(outputs, planner)


# Checking what users give


def _check_address(setting: str, address: object) -> None:
    if address is not None and not (isinstance(address, str) and address):
        raise DefinitionError(f"Client({setting}=…) must be an address, as a str that is not empty, not {address!r}")


def _check_planner(planner: object, where: str) -> None:
    has_name = isinstance(getattr(planner, "name", None), str)
    if isinstance(planner, type) or not has_name or not callable(getattr(planner, "plan", None)):
        raise DefinitionError(
            f"{where}(planner=…) must be an object with a name and a plan(graph, outlook) method, such as "
            f"UniformPlanner(), not {planner!r}"
        )


def _check_forecast(predictions: object, platform: object) -> None:
    predicts = callable(getattr(predictions, "execution_s", None)) and callable(getattr(predictions, "at", None))
    provides = callable(getattr(predictions, "predict_execution_time", None))
    if predictions is not None and (isinstance(predictions, type) or not (predicts or provides)):
        raise DefinitionError(
            "plan(predictions=…) must be FixedPredictions(…), a PredictionsProvider, or an object with the methods of "
            f"augury.plan.predictions.Predictions, not {predictions!r}"
        )
    if not isinstance(platform, PlatformModel | None):
        raise DefinitionError(f"plan(platform=…) must be a PlatformModel(…), not {platform!r}")


def _checked_configurations(configurations: object) -> tuple[Resources, ...]:
    if configurations is None:
        return (Resources(),)
    listed = tuple(configurations) if isinstance(configurations, Iterable) else ()
    if not listed or not all(isinstance(one, Resources) for one in listed):
        raise DefinitionError(
            "Client(configurations=…) must be a list of Resources(cpus=…, memory_mb=…) with at least one, "
            f"not {configurations!r}"
        )
    return tuple(sorted(listed))


def _check_options(name: object, plan: object) -> None:
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise DefinitionError(f"the name of a workflow must be a str that is not empty, not name={name!r}")
    if isinstance(name, str) and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise DefinitionError(f"the name of a workflow must be text, which name={name!r} is not")
    if not isinstance(plan, Plan | None):
        raise PlanError(f"the plan to carry out must be a Plan, as .plan() makes it, not plan={plan!r}")


def _chosen_history(choice: object, redis: str | None) -> History | None:
    if choice is False:
        return None
    if isinstance(choice, History):
        return choice
    if choice is None or choice is True:
        try:
            return open_history(redis)
        except StorageError as error:
            _log.warning("nothing that runs teach will be kept: %s", error)
            return None
    if isinstance(choice, str | os.PathLike):
        return open_history(choice)
    raise DefinitionError(f"Client(history=…) must be a folder, an address of Redis or False, not {choice!r}")


def _checked_observers(observers: object) -> list[Observer]:
    listed: list[Any] = list(observers) if isinstance(observers, Iterable) else [observers]
    wrong = [one for one in listed if isinstance(one, type) or not callable(getattr(one, "on_event", None))]
    if wrong or not isinstance(observers, Iterable):
        raise DefinitionError(
            f"Client(observers=…) must be a list of objects with an on_event(event) method, not {observers!r}"
        )
    return listed


@functools.cache
def _warn_of_missing_limits(unlimited: str) -> None:
    """Once per process: who makes many clients has read it."""
    _log.warning(
        "the embedded platform cannot limit its workers' %s; Embedded(enforce_limits=False) accepts that silently",
        unlimited,
    )


# The client that `.compute()` uses

_current: contextvars.ContextVar[Client | None] = contextvars.ContextVar("augury_client", default=None)
_entered: list[Client] = []
_default: dict[int, Client] = {}
_default_lock = threading.Lock()


def current_client() -> Client:
    """The client of the innermost `with Client(…)`, or else one of the embedded platform, started once per process."""
    chosen = _current.get()
    if chosen is not None:
        return chosen
    if _entered:
        return _entered[-1]
    with _default_lock:
        client = _default.get(os.getpid())
        if client is None:
            _default.clear()  # of the process that this one was forked from
            client = _default[os.getpid()] = Client()
        return client


@atexit.register
def _close_default() -> None:
    client = _default.pop(os.getpid(), None)
    if client is not None:
        client.close()
