"""What the invocations of one run on the virtual platform share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from augury.storage.protocols import Coordination, Objects
from augury.testing.clock import VirtualClock
from augury.testing.gateway import VirtualGateway
from augury.testing.spans import Recorder
from augury.worker.view import RunView

Evaluate = Callable[[int, Mapping[int, Any]], Any]
"""Gives the value of a task, by its id, from the values of its inputs, by theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things take on the virtual platform.

    Attributes:
        latency_s: One round trip to storage.
        bandwidth_bytes_s: How fast one worker reads and writes large outputs.
        start_s: How long a worker waits before it offers its slot to workers that cannot start.
        flush_s: How long a finished task may go unreported while others run.
        progress_s: How often a worker looks how far it is while tasks run.
    """

    latency_s: float = 0.0
    bandwidth_bytes_s: float = float("inf")
    start_s: float = 0.2
    flush_s: float = 0.001
    progress_s: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What all invocations of a run share.

    Attributes:
        evaluate: Gives the values of tasks.
        duration_s: How long a task takes.
        size_bytes: How large the output of a task is, for a value of so many bytes.
        check_invariants: Whether the core is validated after every event.
    """

    clock: VirtualClock
    view: RunView
    coordination: Coordination
    objects: Objects
    gateway: VirtualGateway
    recorder: Recorder
    timing: Timing
    evaluate: Evaluate
    duration_s: Callable[[int], float]
    size_bytes: Callable[[int, int], int]
    check_invariants: bool
