"""Ray: remote functions and object references, on two CPUs of this machine.

It runs tasks of dead workers again, three times by default; the hardened one as often as it takes. Its memory monitor
watches the whole machine, so for the task that wants too much it is told to act a little above what is in use.
"""

import logging
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray

from reliability.marks import named
from reliability.peers.protocol import Arguments

ROOM_BYTES = 600 * 1024 * 1024


class Ray:
    """A Ray instance of its own."""

    def __init__(self, *, folder: Path, fault: str, hardened: bool) -> None:
        self._folder = folder
        self._fault = fault
        self._hardened = hardened

    def version(self) -> str:
        """Of ray."""
        return version("ray")

    def start(self) -> None:
        """Start it; the dashboard is left out."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if self._fault == "memory":
            os.environ["RAY_memory_usage_threshold"] = f"{memory_threshold():.4f}"  # noqa: SIM112 - its name
        ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)

    def targets(self) -> dict[str, int]:
        """The global control service."""
        return {"coordinator": named("gcs_server", self._folder)}

    def each(self, function: Callable[..., Any], arguments: Sequence[Arguments]) -> list[Any]:
        """References as arguments."""
        remote = ray.remote(function)
        if self._hardened:
            remote = remote.options(max_retries=-1)
        return [remote.remote(*one) for one in arguments]

    def result(self, value: Any) -> Any:
        """Get the object."""
        return ray.get(value)

    def stop(self) -> None:
        """Shut it down."""
        ray.shutdown()


def memory_threshold() -> float:
    """The part of the machine's memory that is in use now, and a little more."""
    numbers = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        numbers[name] = int(rest.split()[0]) * 1024
    used_bytes = numbers["MemTotal"] - numbers["MemAvailable"]
    return (used_bytes + ROOM_BYTES) / numbers["MemTotal"]
