"""Augury: a decentralised workflow engine for functions-as-a-service, whose planner learns from history.

Decorate plain functions, compose a workflow, call `.compute()`:

    >>> import augury
    >>> @augury.task
    ... def square(x: int) -> int:
    ...     return x * x
    >>> @augury.task
    ... def total(parts: list[int]) -> int:
    ...     return sum(parts)
    >>> total([square(i) for i in range(4)]).compute()
    14
"""

import importlib
from typing import TYPE_CHECKING, Any

from augury.api import Task, TaskFunction, attach, clear_cache, compute, task
from augury.client import Client, set_default_observers
from augury.config import Cache, Resources
from augury.errors import (
    AuguryError,
    DefinitionError,
    GatewayError,
    ObjectTooLarge,
    OutOfMemory,
    PlanError,
    PlatformError,
    RunCancelled,
    RunError,
    RunLost,
    SerializationError,
    StorageError,
    TaskFailed,
    TaskTimeout,
    UntrustedData,
    VersionMismatch,
    WorkerLost,
)
from augury.invoke.embedded.cloud import Constant, Emulation, LogNormal
from augury.invoke.embedded.platform import Embedded
from augury.metrics.history.history import History
from augury.metrics.history.history import open_history as history
from augury.observation import RunReport
from augury.observe.progress import default_observers
from augury.plan.hints import OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.model import PlatformModel, Price, Timing
from augury.plan.optimizations.preload import PreLoad
from augury.plan.optimizations.prewarm import PreWarm
from augury.plan.optimizations.taskdup import TaskDup
from augury.plan.outlook import Optimization, Outlook, Planner
from augury.plan.plan import Assignment, Plan
from augury.plan.planners.auto import AutoPlanner
from augury.plan.planners.nonuniform import NonUniformPlanner
from augury.plan.planners.uniform import UniformPlanner
from augury.plan.planners.wukong import WukongPlanner
from augury.plan.predictions import FixedPredictions
from augury.plan.timeline import Simulation
from augury.predict.estimate import Estimate
from augury.predict.sla import Percentile
from augury.run import Run
from augury.versions import VERSION

if TYPE_CHECKING:
    from augury.predict.provider import PredictionsProvider

__version__ = VERSION

__all__ = [
    "Assignment",
    "AuguryError",
    "AutoPlanner",
    "Cache",
    "Client",
    "Constant",
    "DefinitionError",
    "Embedded",
    "Emulation",
    "Estimate",
    "FixedPredictions",
    "GatewayError",
    "History",
    "LogNormal",
    "NonUniformPlanner",
    "ObjectTooLarge",
    "Optimization",
    "OutOfMemory",
    "Outlook",
    "OwnHint",
    "Percentile",
    "Plan",
    "PlanError",
    "Planner",
    "PlatformError",
    "PlatformModel",
    "PreLoad",
    "PreLoadHint",
    "PreWarm",
    "PreWarmHint",
    "PredictionsProvider",
    "Price",
    "Resources",
    "Run",
    "RunCancelled",
    "RunError",
    "RunLost",
    "RunReport",
    "SerializationError",
    "Simulation",
    "StorageError",
    "Task",
    "TaskDup",
    "TaskDupHint",
    "TaskFailed",
    "TaskFunction",
    "TaskTimeout",
    "Timing",
    "UniformPlanner",
    "UntrustedData",
    "VersionMismatch",
    "WorkerLost",
    "WukongPlanner",
    "__version__",
    "attach",
    "clear_cache",
    "compute",
    "history",
    "task",
]

set_default_observers(default_observers)


def __getattr__(name: str) -> Any:
    """What needs NumPy is loaded when it is first used: who never asks for predictions does not wait for it."""
    if name == "PredictionsProvider":
        return importlib.import_module("augury.predict.provider").PredictionsProvider
    raise AttributeError(f"module 'augury' has no attribute {name!r}")
