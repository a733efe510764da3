"""What the invocations of one run on the virtual platform share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from augury.config import Resources
from augury.plan.model import PlatformModel
from augury.storage.protocols import Coordination, Objects
from augury.testing.clock import VirtualClock
from augury.testing.gateway import VirtualGateway
from augury.testing.spans import Recorder
from augury.worker.policies.registry import Policies
from augury.worker.view import RunView

Evaluate = Callable[[int, Mapping[int, Any]], Any]
"""Gives the value of a task, by its id, from the values of its inputs, by theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What all invocations of a run share.

    Attributes:
        policies: What optimizations have workers do.
        model: How long things take.
        evaluate: Gives the values of tasks.
        duration_s: How long a task takes on a worker with these resources.
        size_bytes: How large the output of a task is, for a value of so many bytes.
        interruptible: Whether tasks that run in vain can be stopped.
        check_invariants: Whether the core is validated after every event.
    """

    clock: VirtualClock
    view: RunView
    policies: Policies
    coordination: Coordination
    objects: Objects
    gateway: VirtualGateway
    recorder: Recorder
    model: PlatformModel
    evaluate: Evaluate
    duration_s: Callable[[int, Resources], float]
    size_bytes: Callable[[int, int], int]
    interruptible: bool
    check_invariants: bool
