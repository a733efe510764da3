"""A client knows a platform and a planner, and starts runs.

`.compute()` uses the client of the enclosing `with Client(…)`, or else one of the embedded platform that
is started once per process, when it is first needed, and ends with it.
"""

import atexit
import contextlib
import contextvars
import importlib
import logging
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from augury.backoff import Backoff
from augury.config import (
    PATIENCE_S,
    Resources,
    StorageConfig,
    but_not,
    is_positive,
    public_address,
)
from augury.dag.graph import build_workflow
from augury.dag.refs import tasks_in
from augury.dag.task import TaskNode
from augury.errors import DefinitionError, GatewayError, PlatformError, RunLost, StorageError
from augury.invoke.embedded.platform import Embedded
from augury.invoke.http_gateway import HttpGateway
from augury.metrics.history.history import History
from augury.metrics.records import Records
from augury.observation import Observer
from augury.plan.model import PlatformModel
from augury.plan.outlook import Planner
from augury.plan.plan import Plan
from augury.plan.planners.auto import AutoPlanner
from augury.plan.predictions import Predictions
from augury.planning import Planning, Question, Site, embedded_site, gateway_site
from augury.predict.sla import SLA, fraction_of
from augury.run import Place, Platform, Run, RunWatch, attach_run, find_place, sweep_places
from augury.run.beside import Standby
from augury.run.care import care_for, ending_with_client
from augury.settings import (
    check_address,
    check_care,
    check_forecast,
    check_options,
    check_planner,
    check_redis,
    checked_configurations,
    checked_observers,
    chosen_history,
    chosen_results,
    chosen_token,
    warn_of_missing_limits,
)
from augury.storage.opening import load_driver, open_storage
from augury.storage.protocols import Care
from augury.storage.results.opening import open_results
from augury.trust.sources import client_keyring

if TYPE_CHECKING:
    from augury.predict.estimator import Estimator
    from augury.predict.provider import PredictionsProvider  # needs NumPy, which takes long to load

_log = logging.getLogger(__name__)

_CLOSE_S = 5.0
_CLOSED = "this client is closed; make a new one"


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
        patience_s: How long Redis and the gateway may be away, or refuse, before a run fails. A wrong address is told
            at once all the same, and a Redis there that answers nothing after 5 s.
        cache_bytes: How much room outputs of `@task(cache=…)` have, in the user's state folder or, with `redis`, there;
            the least recently used give way. By default the environment variable AUGURY_CACHE_BYTES, else 1 GiB. 0:
            nothing is kept or looked for.
        lease_s: How long a worker may be silent before another one takes its place. Where the platform sees workers
            die, as the embedded one does, that happens at once. Short leases (below 3 s) may take places from workers
            that are only busy.
        restarts: How often in a row a worker is started again that dies without having got anything done.
        late_factor: How much longer than 95 % of its kind a task may take before a second worker tries it too, if there
            is room; what is done first counts. None: never.
        most_memory_mb: What a worker gets at most because tasks ran out of memory, when it is started again and in
            later plans; by default what the platform can give. Tasks and `configurations` may ask for more.

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
        patience_s: float = PATIENCE_S,
        cache_bytes: int | None = None,
        lease_s: float = 10.0,
        restarts: int = 3,
        late_factor: float | None = 3.0,
        most_memory_mb: int | None = None,
    ) -> None:
        check_address("redis", redis)
        check_address("gateway", gateway)
        if not isinstance(token, str | None):
            raise DefinitionError(f"Client(token=…) must be a str, not {type(token).__name__}")
        if not isinstance(platform, Embedded | None):
            raise DefinitionError(f"Client(platform=…) must be an Embedded(…), not {platform!r}")
        if planner is not None:
            check_planner(planner, "Client")
        if not is_positive(patience_s):
            raise DefinitionError(f"Client(patience_s=…) must be a number of seconds above 0, {but_not(patience_s)}")
        check_care(lease_s, restarts, late_factor, most_memory_mb)
        fraction_of(sla)  # refuses what is none
        if gateway is not None and redis is None:
            raise DefinitionError("Client(gateway=…) also needs redis=…: the address of the Redis that its workers use")
        if gateway is not None and platform is not None:
            raise DefinitionError("Client takes a gateway or an embedded platform, not both")
        self._redis = redis
        self._gateway_url = gateway
        self._patience_s = float(patience_s)
        self._results = chosen_results(cache_bytes, redis)
        self._care = Care(lease_s=float(lease_s), restarts=restarts, patience_s=self._patience_s)
        self._most_memory_mb = most_memory_mb
        self._late_factor = late_factor
        self._token = chosen_token(token, gateway)
        self._embedded = Embedded() if platform is None else platform
        self.planner: Planner = AutoPlanner() if planner is None else planner
        self.sla: SLA = sla
        self._configurations = checked_configurations(configurations)
        self._history = chosen_history(history, redis if gateway else None)
        self._planning = Planning(self._history)
        self._observers = checked_observers(_Defaults.observers() if observers is None else observers)
        self._lock = threading.Lock()
        self._platform: Platform | None = None
        self._watches: set[RunWatch] = set()
        self._unnoted: dict[RunWatch, Plan] = {}
        self._closed = False
        self._owner = os.getpid()
        self._entered: list[contextvars.Token[Client | None]] = []
        _clients.add(self)

    def __repr__(self) -> str:
        return f"<Client of {self._gateway_url or 'the embedded platform'}>"

    def __reduce__(self) -> NoReturn:
        raise DefinitionError("a Client cannot be given to a task: it belongs to the process that made it")

    # What users call

    def submit(
        self, outputs: Any, *, name: str | None = None, plan: Plan | None = None, detach: bool = True
    ) -> Run[Any]:
        """Start a run of the workflow behind a task, or behind any nesting of tasks.

        The run goes on when this client is closed or its process ends, however it ends, and `augury.attach(run.run_id)`
        picks it up. The embedded platform then stays until its runs are over and `Embedded(linger_s=…)` after.

        Args:
            outputs: What to compute: a task, or lists, tuples, dicts, sets and dataclasses of tasks.
            name: The workflow's name; by default that of its last function.
            plan: A plan to carry out; by default the planner makes one.
            detach: False: the run is cancelled when this client is closed or its process ends.
        """
        check_options(name, plan)
        if not isinstance(detach, bool):
            raise DefinitionError(f"submit(detach=…) must be True or False, not {detach!r}")
        run, watch, chosen = self._prepared(outputs, name, plan, detach=detach)
        self._start(watch, chosen)
        return run

    def attach(self, run_id: str) -> Run[Any]:
        """Follow a run that was started by `submit`, here or in another process, which may be gone.

        Any number of clients may follow a run. Its result is there until the last of them has it; if one of them
        vanished before that, until it expires: after a day, or with the embedded platform `linger_s` after its client.

        Raises:
            RunLost: The storage does not know the run: nobody needed it any more, or it has expired.
            RunError: It was started with `detach=False`.
        """
        if not isinstance(run_id, str):
            raise DefinitionError(f"attach takes the id of a run, as `run.run_id` gives it, not {run_id!r}")
        run, watch = attach_run(
            self._place_of(run_id), client_keyring(), self._observers, self._history, self._patience_s
        )
        try:
            self._remember(watch)
        except BaseException:
            _wait_for(_begin_to_leave([watch]))
            raise
        return run

    def _prepared(
        self, outputs: Any, name: str | None, plan: Plan | None, *, detach: bool
    ) -> tuple[Run[Any], RunWatch, Plan]:
        """A run that only has to be started, with what watches it and the plan to carry out."""
        started_s = time.monotonic()
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
            detached=detach,
            care=self._care_on(platform, detach),
            late_factor=self._late_factor,
        )
        return Run(run_id=run_id, name=run_name, watch=watch), watch, chosen

    def _start(self, watch: RunWatch, chosen: Plan) -> None:
        """Start a run. If that fails or is interrupted, it ends: nobody will ever have it."""
        try:
            watch.start(chosen)
            self._planning.get_ready(watch.settled)
            self._unnoted[watch] = chosen
            watch.settled.add_done_callback(lambda _: self._note_end(watch))
            self._remember(watch)
        except BaseException as error:
            watch.end()
            watch.join()
            if self._closed and isinstance(error, GatewayError | StorageError):
                raise PlatformError(_CLOSED) from error
            raise

    def _care_on(self, platform: Platform, detached: bool) -> Care:
        most_mb = self._most_memory_mb or platform.limits.memory_mb
        care = care_for(self._care, self._configurations, most_mb)
        watched = detached or platform.embedded is not None  # the embedded platform sees by itself when a client ends
        return care if watched else ending_with_client(care)

    def _remember(self, watch: RunWatch) -> None:
        with self._lock:
            if self._closed:  # meanwhile, by another thread
                raise PlatformError(_CLOSED)
            self._own()
            self._watches.add(watch)
        _standby.prepare()
        # As long as somebody watches, this also keeps a client alive that the user let go of, to be closed in the end.
        watch.parting.done.add_done_callback(lambda _: self._watches.discard(watch))

    def _place_of(self, run_id: str) -> Place:
        place = find_place(run_id)
        if place is not None and self._gateway_url is None:
            return place
        if self._gateway_url is None or self._redis is None:
            raise RunLost(
                f"run {run_id} is not known on this machine: its result was fetched, or it has expired; or it was "
                "started with detach=False, as .compute() does, or under another AUGURY_STATE_DIR; or it is on a "
                "platform of its own: attach(run_id, redis=…, gateway=…)"
            )
        return Place(
            run_id=run_id,
            redis=self._redis,
            owns_storage=False,
            gateway=self._gateway_url,
            token=self._token,
            platform=self._platform_name,
            folder="",
            made_s=time.time(),
        )

    def compute(self, outputs: Any, *, name: str | None = None, plan: Plan | None = None) -> Any:
        """Run a workflow and wait for its value; as `submit(…, detach=False).result()`, with the report out too.

        What holds no task is its own value, and is returned as it is.
        """
        check_options(name, plan)
        if not isinstance(outputs, TaskNode) and not tasks_in(outputs):
            return outputs
        run, watch, chosen = self._prepared(outputs, name, plan, detach=False)
        settles_s = None
        try:
            self._start(watch, chosen)
            return run.result()
        except KeyboardInterrupt:  # also between the two
            settles_s = 0.0
            watch.abort()
            raise
        except StorageError:
            settles_s = _CLOSE_S  # what is away has had all the patience that the user has
            raise
        finally:
            if run.done():
                wait([watch.settled], settles_s)

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
        check_options(name, None)
        check_forecast(predictions, platform)
        if planner is not None:
            check_planner(planner, "plan")
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
        check_options(name, None)
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

    def clear_cache(self) -> int:
        """Forget the outputs that `@task(cache=…)` has kept; how many there were. Those of all who keep them there."""
        if not self._results.folder and self._redis is None:
            return 0  # in the Redis of an embedded platform, which keeps nothing beyond its own end
        results = open_results(self._results, self._redis or "")
        try:
            return results.clear()
        finally:
            results.close()

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
            site = gateway_site(self._platform_name, limits, self._configurations)
        else:
            site = embedded_site(self._embedded, limits, self._configurations)
        most_mb = self._most_memory_mb
        return site if most_mb is None else replace(site, memory_mb=min(site.memory_mb or most_mb, most_mb))

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
        """Let the platform go. Runs that are not over go on if they are detached, and are cancelled if not.

        For a Redis or a gateway that is away, it waits for 5 s in all: then the run's leases, which nobody renews, see
        to what could not be told. Happens by itself at the end of the process, unless that is killed or leaves by
        `os._exit`, as a bare fork may; multiprocessing's forks do not.
        """
        _close((self,))

    def _begin_to_close(self) -> "tuple[Sequence[RunWatch], Platform | None]":
        """Take no more runs; what there is to leave, and to close, which this says once."""
        with self._lock:
            if self._closed or self._owner != os.getpid():  # in a fork the platform and its runs are the parent's
                return (), None
            self._closed = True
            platform, self._platform = self._platform, None
            return tuple(self._watches), platform

    # Being a context

    def __enter__(self) -> Self:
        self._entered.append(_current.set(self))
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
        if self._entered:
            with contextlib.suppress(ValueError):  # entered in another context, such as a fixture's
                _current.reset(self._entered.pop())

    def _open(self) -> Platform:
        with self._lock:
            if self._closed:
                raise PlatformError(_CLOSED)
            self._own()
            if self._platform is not None and not self._platform.usable:
                self._platform.close()
                self._platform = None
            if self._platform is None:
                self._platform = self._start_platform()
            return self._platform

    def _own(self) -> None:
        """What comes now is of this process, which will close it; in a fork, what there was is the parent's."""
        if self._owner != os.getpid():
            self._owner, self._platform, self._watches, self._unnoted = os.getpid(), None, set(), {}
        _close_all_in_the_end()

    def _start_platform(self) -> Platform:
        if self._gateway_url is None:
            threading.Thread(target=load_driver, daemon=True).start()  # while the platform starts
            if self._redis is not None:
                check_redis(self._redis, self._patience_s)
            embedded = self._embedded.start(redis=self._redis, patience_s=self._patience_s)
            for note in embedded.notes:
                _log.info("embedded platform: %s", note)
            threading.Thread(target=sweep_places, name="augury-sweep", daemon=True).start()
            if embedded.unlimited:
                warn_of_missing_limits(embedded.unlimited)
            config = embedded.storage_config
            storage = open_storage(config)
            return Platform(
                storage,
                config.redis,
                embedded.gateway(),
                embedded.limits,
                embedded,
                self._platform_name,
                embedded.keyring,
                results=self._results,
            )
        keyring = client_keyring()
        address = self._redis or ""
        check_redis(address, self._patience_s)
        storage = open_storage(StorageConfig(redis=address, patience_s=self._patience_s))
        gateway = HttpGateway(self._gateway_url, self._token, backoff=Backoff(patience_s=self._patience_s))
        return Platform(
            storage, address, gateway, gateway.limits(), None, self._platform_name, keyring, results=self._results
        )


def make_plan(outputs: Any, planner: Planner) -> Plan:
    """Plan the workflow behind any nesting of tasks, as the current client would."""
    return current_client().plan(outputs, planner)


# The client that `.compute()` uses

_current: contextvars.ContextVar[Client | None] = contextvars.ContextVar("augury_client", default=None)
_entered: list[Client] = []
_default: dict[int, Client] = {}
_default_lock = threading.Lock()
_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_standby = Standby()


def _renew_locks() -> None:
    """In a fork: what another thread of the parent does under a lock, such as starting a platform, goes on there."""
    global _default_lock, _standby  # noqa: PLW0603 - nobody else holds them
    _default_lock = threading.Lock()
    _standby = Standby()
    for client in _clients:
        client._lock = threading.Lock()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_renew_locks)


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


def _close(clients: Sequence[Client]) -> None:
    """Leave the runs of clients, all at the same time; then let go of their platforms, whatever happens meanwhile."""
    leaving: list[Future[None]] = []
    with contextlib.ExitStack() as closing:
        for client in clients:
            watches, platform = client._begin_to_close()  # noqa: SLF001 - of this module
            if platform is not None:
                closing.callback(platform.close)
            leaving += _begin_to_leave(watches)
        _wait_for(leaving)


def _begin_to_leave(watches: Sequence[RunWatch]) -> "list[Future[None]]":
    return [_standby.do(partial(_leave, watch), "augury-leave") for watch in watches]


def _wait_for(leaving: "Sequence[Future[None]]") -> None:
    wait(leaving, _CLOSE_S)  # storage may be away


def _leave(watch: RunWatch) -> None:
    try:
        watch.close()
        watch.join()
    except Exception as error:  # noqa: BLE001 - nobody waits for this
        _log.warning("a run could not be let go of: %s", error)


def _close_all() -> None:
    """At the end of the process: part from all runs, so that those whose value was taken do not stay for others."""
    try:
        _close(tuple(_clients))
    except Exception as error:  # noqa: BLE001 - there is nobody left to learn of it
        _log.warning("not all clients were closed: %s", error)


def _close_all_in_the_end() -> None:
    """A process that multiprocessing has forked ends without `atexit`: it only finalizes what it was told to."""
    global _finalized_in  # noqa: PLW0603 - once per process
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is None or util is None or process.parent_process() is None or _finalized_in == os.getpid():
        return
    _finalized_in = os.getpid()
    util.Finalize(None, _close_all, exitpriority=10)  # before it waits for processes of its own


_finalized_in = 0
atexit.register(_close_all)
