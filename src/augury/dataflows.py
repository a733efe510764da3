"""The spelling of the Serverless Dataflows paper, as thin aliases.

    from augury.dataflows import *

    @DAGTask
    def task_a(a: int) -> int: ...

    task_a(10).compute(dag_name="simple", config=Worker.Config(...))

An address that is left out, or is `...`, means the embedded platform.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from augury.api import Task, TaskFunction
from augury.client import Client, current_client
from augury.config import Resources
from augury.dag.task import TaskOptions
from augury.errors import DefinitionError
from augury.plan.making import instance_of
from augury.plan.optimizations.preload import PreLoad
from augury.plan.optimizations.prewarm import PreWarm
from augury.plan.optimizations.taskdup import TaskDup
from augury.plan.outlook import Optimization, Planner
from augury.plan.planners import nonuniform, uniform, wukong
from augury.predict.sla import SLA, Percentile

__all__ = [
    "DAGTask",
    "NonUniformPlanner",
    "Percentile",
    "PreLoadOptimization",
    "PreWarmOptimization",
    "TaskDupOptimization",
    "TaskWorkerResourceConfiguration",
    "UniformPlanner",
    "Worker",
    "WukongPlanner",
]

TaskWorkerResourceConfiguration = Resources

PreLoadOptimization = PreLoad
PreWarmOptimization = PreWarm
TaskDupOptimization = TaskDup


class UniformPlanner:
    """Workers of one configuration, each task on a worker that the plan names."""

    class Config(NamedTuple):
        """Its settings."""

        sla: Any = "median"
        worker_resource_configuration: Resources = Resources()
        optimizations: Sequence[Any] = ()

        def planner(self) -> Planner:
            """The planner with these settings."""
            chosen = _optimizations("UniformPlanner", self.optimizations)
            return uniform.UniformPlanner(self.worker_resource_configuration, optimizations=chosen)


class NonUniformPlanner:
    """Workers of several configurations, each task on a worker that the plan names."""

    class Config(NamedTuple):
        """Its settings; the configurations that workers may have, in any order."""

        sla: Any = "median"
        worker_resource_configurations: Sequence[Resources] = (Resources(),)
        optimizations: Sequence[Any] = ()

        def planner(self) -> Planner:
            """The planner with these settings."""
            chosen = _optimizations("NonUniformPlanner", self.optimizations)
            return nonuniform.NonUniformPlanner(self.worker_resource_configurations, optimizations=chosen)


class WukongPlanner:
    """Flexible workers of one configuration."""

    class Config(NamedTuple):
        """Its settings."""

        sla: Any = "median"
        worker_resource_configuration: Resources = Resources()
        optimizations: Sequence[Any] = ()

        def planner(self) -> Planner:
            """The planner with these settings."""
            chosen = _optimizations("WukongPlanner", self.optimizations)
            return wukong.WukongPlanner(self.worker_resource_configuration, optimizations=chosen)


def _optimizations(planner: str, given: object) -> list[Optimization]:
    """Optimizations, which the paper's listings give as their classes."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DefinitionError(f"{planner}.Config(optimizations=…) must be a list of optimizations, not {given!r}")
    return [instance_of(one, f"{planner}.Config") for one in given]


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
        planner, sla = _planner_of(chosen.planner_config)
        redis = _redis_address(chosen.intermediate_storage_config)
        history = _redis_address(chosen.metrics_storage_config)
        gateway = None if chosen.faas_gateway_address in (..., None, "") else str(chosen.faas_gateway_address)
        if redis is None and gateway is None and history is None:
            client = current_client()
            return client.compute(self, name=dag_name, plan=client.plan(self, planner, sla=sla, name=dag_name))
        with Client(redis=redis, gateway=gateway, history=history, planner=planner, sla=sla) as client:
            return client.compute(self, name=dag_name)


class _DataflowFunction(TaskFunction[..., Any]):
    """A function decorated with `DAGTask`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Task[Any]:
        made = super().__call__(*args, **kwargs)
        return _DataflowTask(made.function, made.args, made.kwargs)


def DAGTask(fn: Callable[..., Any] | None = None, /, *, forced_optimizations: Iterable[Any] = ()) -> Any:  # noqa: N802 - the paper's name
    """Make a function a task function; `@DAGTask` and `@DAGTask(forced_optimizations=[…])` both work."""
    options = TaskOptions(optimizations=tuple(forced_optimizations))
    return _DataflowFunction(fn, options) if fn is not None else lambda function: _DataflowFunction(function, options)


def _planner_of(config: Any) -> tuple[Planner, SLA]:
    """The planner that a configuration asks for, and its SLA."""
    make = getattr(config, "planner", None)
    if isinstance(config, type) or not callable(make):
        raise DefinitionError(
            "Worker.Config(planner_config=…) must be the Config of a planner, such as UniformPlanner.Config(), "
            f"not {config!r}"
        )
    return make(), config.sla


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
