"""The spelling of the Serverless Dataflows paper, as thin aliases.

    from augury.dataflows import *

    @DAGTask
    def task_a(a: int) -> int: ...

    task_a(10).compute(dag_name="simple", config=Worker.Config(...))

An address that is left out, or is `...`, means the embedded platform.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from augury.api import Task, TaskFunction
from augury.client import Client, current_client, make_plan
from augury.config import Resources
from augury.dag.task import TaskOptions
from augury.errors import DefinitionError
from augury.plan.outlook import Planner
from augury.plan.planners import uniform, wukong
from augury.predict.sla import Percentile

__all__ = [
    "DAGTask",
    "Percentile",
    "PreLoadOptimization",
    "PreWarmOptimization",
    "TaskDupOptimization",
    "TaskWorkerResourceConfiguration",
    "UniformPlanner",
    "Worker",
    "WukongPlanner",
]

_log = logging.getLogger(__name__)

TaskWorkerResourceConfiguration = Resources


class _Optimization:
    """Something that a plan may ask of workers. Asking is allowed; a run without it gives the same result."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PreLoadOptimization(_Optimization):
    """Fetch a task's inputs as soon as they are there. Not applied by this version."""


class PreWarmOptimization(_Optimization):
    """Have environments started before they are needed. Not applied by this version."""


class TaskDupOptimization(_Optimization):
    """Let workers repeat a cheap task rather than wait for its output. Not applied by this version."""


class _PlannerConfig(NamedTuple):
    """What the paper's planners are configured with."""

    sla: Any = "median"
    worker_resource_configuration: Resources = Resources()
    optimizations: Sequence[Any] = ()


class UniformPlanner:
    """Workers of one configuration, each task on a worker that the plan names."""

    class Config(_PlannerConfig):
        """Its settings."""

        __slots__ = ()

        def planner(self) -> Planner:
            """The planner with these settings."""
            return uniform.UniformPlanner(self.worker_resource_configuration)


class WukongPlanner:
    """Flexible workers of one configuration."""

    class Config(_PlannerConfig):
        """Its settings."""

        __slots__ = ()

        def planner(self) -> Planner:
            """The planner with these settings."""
            return wukong.WukongPlanner(self.worker_resource_configuration)


class Worker:
    """Where and how workers run."""

    class Config(NamedTuple):
        """The platform and the planner of a run.

        Attributes:
            faas_gateway_address: The gateway's address.
            intermediate_storage_config: Host, port and password of the Redis for data and coordination.
            metrics_storage_config: The same for records; by default they are where Augury keeps them otherwise.
            planner_config: Which planner, and how.
        """

        faas_gateway_address: Any = ...
        intermediate_storage_config: Any = ...
        metrics_storage_config: Any = ...
        planner_config: Any = WukongPlanner.Config()

        def __repr__(self) -> str:
            return f"Worker.Config({self.faas_gateway_address!r}, {self.planner_config!r})"  # no passwords


class _DataflowTask(Task[Any]):
    """A task with the paper's `compute`."""

    __slots__ = ()

    def compute(self, *, dag_name: str | None = None, config: Worker.Config | None = None) -> Any:  # type: ignore[override]
        """Run the workflow behind this task as a configuration says, and wait for its value."""
        chosen = config or Worker.Config()
        _note_unapplied(chosen.planner_config.optimizations)
        plan = make_plan(self, chosen.planner_config.planner())
        redis = _redis_address(chosen.intermediate_storage_config)
        history = _redis_address(chosen.metrics_storage_config)
        gateway = None if chosen.faas_gateway_address in (..., None, "") else str(chosen.faas_gateway_address)
        if redis is None and gateway is None and history is None:
            return current_client().compute(self, name=dag_name, plan=plan)
        with Client(redis=redis, gateway=gateway, history=history) as client:
            return client.compute(self, name=dag_name, plan=plan)


class _DataflowFunction(TaskFunction[..., Any]):
    """A function decorated with `DAGTask`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Task[Any]:
        made = super().__call__(*args, **kwargs)
        return _DataflowTask(made.function, made.args, made.kwargs)


def DAGTask(fn: Callable[..., Any] | None = None, /, *, forced_optimizations: Iterable[Any] = ()) -> Any:  # noqa: N802 - the paper's name
    """Make a function a task function; `@DAGTask` and `@DAGTask(forced_optimizations=[…])` both work."""
    options = TaskOptions(optimizations=tuple(forced_optimizations))
    _note_unapplied(options.optimizations)
    return _DataflowFunction(fn, options) if fn is not None else lambda function: _DataflowFunction(function, options)


def _note_unapplied(optimizations: Sequence[Any]) -> None:
    names = [item.__name__ if isinstance(item, type) else type(item).__name__ for item in optimizations]
    if names:
        _log.warning("%s: not applied by this version; the result is the same", ", ".join(names))


def _redis_address(config: Any) -> str | None:
    """The paper's (host, port, password) as an address; None where it is left out."""
    if config is ... or config is None:
        return None
    if not isinstance(config, tuple) or len(config) != 3:
        raise DefinitionError(f"a storage config is a tuple (ip, port, password), not {type(config).__name__}")
    host, port, password = config
    if host is ... or host is None:
        return None
    secret = f":{quote(str(password), safe='')}@" if password not in (..., None, "") else ""
    return f"redis://{secret}{host}:{6379 if port in (..., None) else port}/0"
