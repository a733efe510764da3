"""What users write: `@task`, `.compute()`, `.plan()`, `.map()`, `compute()`."""

import functools
import importlib
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from augury.client import Client, current_client
from augury.config import Cache
from augury.dag.task import Function, TaskNode, TaskOptions
from augury.errors import DefinitionError
from augury.plan.model import PlatformModel
from augury.plan.outlook import Planner
from augury.plan.plan import Plan
from augury.plan.predictions import Predictions
from augury.predict.sla import SLA
from augury.run import Run

if TYPE_CHECKING:
    from augury.predict.provider import PredictionsProvider  # needs NumPy, which takes long to load

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class Task(TaskNode[R_co]):
    """One call of a decorated function, to be run later.

    Pass it to other tasks: directly, or at any depth in lists, tuples, dicts, sets and dataclasses.

    Example:
        >>> from augury import task
        >>> @task
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> double(double(3))
        <task double, not run yet>
    """

    __slots__ = ()

    def compute(self, *, name: str | None = None, plan: Plan | None = None) -> R_co:
        """Run the workflow behind this task and wait for its value.

        Uses the client of the enclosing `with Client(…)`, or else the embedded platform.

        Args:
            name: The workflow's name; by default that of its last function.
            plan: A plan to carry out; by default the client's planner makes one.

        Raises:
            Exception: What a task raised, as it raised it; its cause tells which task, and where.

        Example:
            >>> from augury import task
            >>> @task
            ... def double(x: int) -> int:
            ...     return 2 * x
            >>> double(double(3)).compute()
            12
        """
        return current_client().compute(self, name=name, plan=plan)  # type: ignore[no-any-return]

    def submit(self, *, name: str | None = None, plan: Plan | None = None, detach: bool = True) -> Run[R_co]:
        """Start the workflow behind this task and return at once; as `Client.submit`."""
        return current_client().submit(self, name=name, plan=plan, detach=detach)

    def plan(
        self,
        planner: Planner | None = None,
        *,
        predictions: "Predictions | PredictionsProvider | None" = None,
        platform: PlatformModel | None = None,
        sla: SLA | None = None,
        name: str | None = None,
    ) -> Plan:
        """Plan the workflow behind this task without running it. Starts nothing.

        Args:
            planner: What makes the plan; by default the client's.
            predictions: What to expect of tasks, such as `FixedPredictions(…)`; by default what earlier runs taught.
            platform: What to expect of the platform, such as `PlatformModel.aws_lambda()`; by default what earlier runs
                taught of the client's.
            sla: Which run to plan for; by default the client's.
            name: The workflow's name, if it is run under one.

        Example:
            >>> from augury import FixedPredictions, PlatformModel, task
            >>> @task
            ... def double(x: int) -> int:
            ...     return 2 * x
            >>> plan = double(double(3)).plan(predictions=FixedPredictions(60.0), platform=PlatformModel.aws_lambda())
            >>> round(plan.predicted.makespan_s)
            120
        """
        return current_client().plan(self, planner, predictions=predictions, platform=platform, sla=sla, name=name)

    def __await__(self) -> Generator[Any, None, R_co]:
        value: Generator[Any, None, R_co] = importlib.import_module("augury.awaiting").submit(self).__await__()
        return value


class TaskFunction(Generic[P, R_co]):
    """A decorated function: calling it makes a task.

    Attributes:
        fn: The plain function.
    """

    fn: Callable[..., Any]

    def __init__(self, fn: Callable[..., Any], options: TaskOptions) -> None:
        self.fn = fn
        self._options = options
        self._function = Function(fn, options, self)
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Task[R_co]:
        """Make a task; the arguments are checked against the function's signature now."""
        self._function.check_call(args, kwargs)
        return Task(self._function, args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<task function {self._function.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fn, self._options)

    def map(self, *iterables: Iterable[Any], **kwargs: Any) -> list[Task[R_co]]:
        """One task per element, as `map` would call the function.

        Example:
            >>> from augury import compute, task
            >>> @task
            ... def double(x: int) -> int:
            ...     return 2 * x
            >>> compute(*double.map(range(3)))
            (0, 2, 4)
        """
        return [self(*args, **kwargs) for args in zip(*iterables, strict=False)]


@overload
def task(fn: Callable[P, Coroutine[Any, Any, S]], /) -> TaskFunction[P, S]: ...
@overload
def task(fn: Callable[P, S], /) -> TaskFunction[P, S]: ...
@overload
def task(
    *,
    retries: int = 0,
    backoff_s: float = 0.1,
    retry_on: type[Exception] | Iterable[type[Exception]] = Exception,
    timeout_s: float | None = None,
    memory_mb: int | None = None,
    cache: bool | Cache = False,
    optimizations: Iterable[Any] = (),
) -> Callable[[Callable[P, S]], TaskFunction[P, S]]: ...
def task(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    retries: int = 0,
    backoff_s: float = 0.1,
    retry_on: type[Exception] | Iterable[type[Exception]] = Exception,
    timeout_s: float | None = None,
    memory_mb: int | None = None,
    cache: bool | Cache = False,
    optimizations: Iterable[Any] = (),
) -> Any:
    """Make a function a task function: its calls run later, on workers.

    Args:
        fn: The function; `@task` and `@task(…)` both work. It may be `async`.
        retries: How often a call that raised, or took too long, is tried again.
        backoff_s: How many seconds to wait before the second try, at most; twice as many before the third, and so on up
            to a minute. Other tasks run meanwhile. 0: try again at once.
        retry_on: Which exceptions are worth another try: a class, or several; `TaskTimeout` for tries that took too
            long. By default all of them.
        timeout_s: How many seconds one try may take.
        memory_mb: The least memory that a call needs.
        cache: Whether outputs are kept for later runs, and how long: a call of the same code with equal arguments is
            then not made again. For functions whose output depends on nothing else.
        optimizations: Optimizations to use for these tasks whatever the planner chooses.

    Example:
        >>> from augury import task
        >>> @task(retries=2, timeout_s=30, memory_mb=512)
        ... def total(*parts: int) -> int:
        ...     return sum(parts)
        >>> total(1, total(2, 3)).compute()
        6
    """
    if fn is not None and not callable(fn):
        raise DefinitionError(f"@task decorates a function, not {fn!r}; options are given by keyword: @task(retries=2)")
    if isinstance(optimizations, str) or not isinstance(optimizations, Iterable):
        raise DefinitionError(f"@task(optimizations=…) must be a list of optimizations, not {optimizations!r}")
    options = TaskOptions(
        retries=retries,
        backoff_s=backoff_s,
        retry_on=tuple(retry_on) if isinstance(retry_on, Iterable) and not isinstance(retry_on, str) else (retry_on,),
        timeout_s=timeout_s,
        memory_mb=memory_mb,
        cache=(Cache() if cache else None) if isinstance(cache, bool) else cache,
        optimizations=tuple(optimizations),
    )
    return TaskFunction(fn, options) if fn is not None else lambda function: TaskFunction(function, options)


def compute(*outputs: Any, name: str | None = None, plan: Plan | None = None) -> tuple[Any, ...]:
    """Run one workflow for several tasks, or nestings of tasks, and wait for their values.

    Args:
        outputs: Tasks, or lists, tuples, dicts, sets and dataclasses that hold tasks.
        name: The workflow's name; by default that of its last function.
        plan: A plan to carry out; by default the client's planner makes one.

    Returns:
        The outputs with values in place of tasks; as they are, if there is no task in them.

    Example:
        >>> from augury import compute, task
        >>> @task
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> compute(double(1), {"x": double(2)})
        (2, {'x': 4})
    """
    return current_client().compute(outputs, name=name, plan=plan)  # type: ignore[no-any-return]


def attach(run_id: str, *, redis: str | None = None, gateway: str | None = None, token: str | None = None) -> Run[Any]:
    """Follow a run that was started by `Client.submit` in another process, which may be gone.

    Args:
        run_id: Its id: `run.run_id`.
        redis: The address of its Redis. By default the run is looked for on the embedded platforms of this user, or
            where the client is that `.compute()` would use.
        gateway: The address of the gateway that starts its workers.
        token: What the gateway demands; by default the environment variable AUGURY_TOKEN.

    Raises:
        RunLost: It is not known there: everybody had its result, or it has expired; or, on this machine, it was started
            with `detach=False`, and ends with its client.
        RunError: It was started with `detach=False`, elsewhere.

    Example:
        >>> from augury import Client, attach, task
        >>> @task
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> with Client(observers=[]) as client:
        ...     run = client.submit(double(21))
        ...     attach(run.run_id).result() == run.result() == 42
        True
    """
    if redis is None and gateway is None:
        return current_client().attach(run_id)
    if redis is None or gateway is None:
        raise DefinitionError("attach(…) needs both redis=… and gateway=…, or neither for a run on this machine")
    return Client(redis=redis, gateway=gateway, token=token).attach(run_id)


def clear_cache() -> int:
    """Forget the outputs that `@task(cache=…)` has kept where the current client keeps them; how many there were.

    Example:
        >>> from augury import clear_cache, task
        >>> @task(cache=True)
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> double(3).compute()
        6
        >>> clear_cache() >= 1
        True
    """
    return current_client().clear_cache()
