"""What a platform does to a run, in numbers: start-ups, storage, slots and prices.

By hand for what-if questions and tests, or from what earlier runs measured (`augury.predict.workflow`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from augury.config import INLINE_BYTES, Resources
from augury.errors import DefinitionError


def _check(name: str, value: object, *, above_zero: bool = False, finite: bool = True) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if not good or (above_zero and not value) or (finite and value == math.inf):
        kind = "a positive number" if above_zero else "a number that is not negative"
        raise DefinitionError(f"{name} must be {kind}, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a platform charges; by default AWS Lambda's list price on x86.

    Args:
        usd_per_gb_s: For a second of a worker with 1 GiB.
        usd_per_request: For an invocation; a pre-warming one costs as much.
        step_s: Durations are billed in whole steps of this.
        start_billed: Whether the time that a new environment takes to start is billed too.
    """

    usd_per_gb_s: float = 0.0000166667
    usd_per_request: float = 0.20 / 1e6
    step_s: float = 0.001
    start_billed: bool = True

    def __post_init__(self) -> None:
        for name in ("usd_per_gb_s", "usd_per_request", "step_s"):
            _check(f"Price.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How fast workers of one configuration start and reach storage.

    Args:
        cold_start_s: How long a new environment takes to start.
        warm_start_s: How long one takes that ran before.
        latency_s: One round trip to storage.
        bandwidth_bytes_s: How fast a worker reads and writes large outputs.
        crowd_s: How much longer a cold start takes for each other one under way.
    """

    cold_start_s: float = 0.25
    warm_start_s: float = 0.01
    latency_s: float = 0.001
    bandwidth_bytes_s: float = 75e6
    crowd_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cold_start_s", "warm_start_s", "latency_s", "crowd_s"):
            _check(f"Timing.{name}", getattr(self, name))
        _check("Timing.bandwidth_bytes_s", self.bandwidth_bytes_s, above_zero=True, finite=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformModel:
    """A platform, in numbers.

    Args:
        timing: How fast workers start and reach storage.
        timings: The same for configurations that differ.
        concurrency: How many workers run at once; further ones queue.
        keep_alive_s: How long an environment stays warm.
        warm: How many environments of each configuration are warm before the run; infinite: all that are needed.
        price: What it costs.
        configurations: What workers can be had, for planners that choose; weaker ones first.
        inline_bytes: Up to which size outputs ride inside reports.
        flush_s: How long a finished task may go unreported while others run.
        grace_s: How much longer than a cold start a worker may be starting before those that wait for inputs offer
            their slots.
        progress_s: How often a busy worker looks whether others could take over some of its work.

    Example:
        >>> from augury import PlatformModel, Resources, Timing
        >>> slow = PlatformModel(timing=Timing(cold_start_s=2.0), concurrency=10)
        >>> slow.timing_of(Resources()).cold_start_s
        2.0
    """

    timing: Timing = Timing()
    timings: Mapping[Resources, Timing] = field(default_factory=dict)
    concurrency: int = 1000
    keep_alive_s: float = 600.0
    warm: Mapping[Resources, float] = field(default_factory=dict)
    price: Price = Price()
    configurations: Sequence[Resources] = (Resources(),)
    inline_bytes: int = INLINE_BYTES
    flush_s: float = 0.001
    grace_s: float = 0.2
    progress_s: float = 0.25

    def __post_init__(self) -> None:
        for name in ("keep_alive_s", "flush_s", "grace_s", "progress_s"):
            _check(f"PlatformModel.{name}", getattr(self, name), finite=False)
        _check("PlatformModel.concurrency", self.concurrency, above_zero=True)
        if not self.configurations:
            raise DefinitionError("PlatformModel.configurations must name at least one configuration of workers")

    def timing_of(self, resources: Resources) -> Timing:
        """How fast workers with these resources start and reach storage."""
        return self.timings.get(resources, self.timing)

    @property
    def start_s(self) -> float:
        """How long a start takes while there is room; one that takes longer waits for a slot."""
        return self.timing.cold_start_s + self.grace_s
