"""Ray: remote functions and object references, on two CPUs of this machine."""

import logging
import os
import time
from importlib.metadata import version
from typing import Any

import ray

from systems.protocol import uneven_delays


def echo(number: int) -> int:
    return number


def echo_after(number: int, delay_s: float) -> int:
    time.sleep(delay_s)
    return number


def total(*numbers: int) -> int:
    return sum(numbers)


def add(left: int, right: int) -> int:
    return left + right


def increment(number: int) -> int:
    return number + 1


remote_echo = ray.remote(echo)
remote_echo_after = ray.remote(echo_after)
remote_total = ray.remote(total)
remote_add = ray.remote(add)
remote_increment = ray.remote(increment)


class System:
    """A Ray instance of its own."""

    name = "ray"

    def version(self) -> str:
        """Of ray."""
        return version("ray")

    def start(self) -> None:
        """Start it; the dashboard is left out."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR)

    def stop(self) -> None:
        """Shut it down."""
        ray.shutdown()

    def fan_out(self, width: int) -> int:
        """References as arguments: faster than a list of them with one `ray.get` inside the task."""
        refs = [remote_echo.remote(number) for number in range(width)]
        return int(ray.get(remote_total.remote(*refs)))

    def tree(self, leaves: int) -> int:
        """Pairs of pairs."""
        level: list[Any] = list(range(leaves))
        while len(level) > 1:
            odd = level[len(level) // 2 * 2 :]
            level = [remote_add.remote(left, right) for left, right in zip(level[::2], level[1::2], strict=False)] + odd
        return int(ray.get(level[0]))

    def chain(self, length: int) -> int:
        """Each takes the one before."""
        number: Any = 0
        for _ in range(length):
            number = remote_increment.remote(number)
        return int(ray.get(number))

    def uneven(self, width: int) -> int:
        """As the fan-out."""
        refs = [remote_echo_after.remote(number, delay_s) for number, delay_s in enumerate(uneven_delays(width))]
        return int(ray.get(remote_total.remote(*refs)))
