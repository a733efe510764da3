"""Imitating a cloud on one machine: start-up times, storage latency, bandwidth that grows with memory.

Values and arithmetic only. The supervisor delays invocations by samples of the start-up times; workers reach
storage through the wrappers in `emulation`, which add to each call what it would take in the cloud. They are
kept apart because the supervisor, which starts fast, needs these values and not the storage.
"""

import math
from random import Random

import msgspec

from augury.config import but_not, is_number, is_positive, is_whole
from augury.errors import DefinitionError

_Z99 = 2.3263478740408408
"""The 99th percentile of the standard normal distribution."""

_MB = 1_000_000

_MOST_SEED = 2**63 - 1


class Constant(msgspec.Struct, frozen=True, tag=True):
    """A time that is always the same."""

    seconds: float

    def __post_init__(self) -> None:
        if not is_number(self.seconds):
            raise DefinitionError(f"Constant.seconds must be a number, zero or more, {but_not(self.seconds)}")

    def sample_s(self, rng: Random) -> float:
        """The time; `rng` is not used."""
        return self.seconds

    @property
    def high_s(self) -> float:
        """A time that is hardly ever exceeded."""
        return self.seconds


class LogNormal(msgspec.Struct, frozen=True, tag=True):
    """A skewed time, as start-ups are: half of the samples below the median, one in a hundred above `p99_s`.

    Example:
        >>> LogNormal(median_s=0.15, p99_s=0.4).quantile_s(0.0)
        0.15
    """

    median_s: float
    p99_s: float

    def __post_init__(self) -> None:
        for name in ("median_s", "p99_s"):
            if not is_positive(getattr(self, name)):
                raise DefinitionError(f"LogNormal.{name} must be a number above 0, {but_not(getattr(self, name))}")
        if self.median_s > self.p99_s:
            raise DefinitionError(
                f"LogNormal needs 0 < median_s <= p99_s, not median_s={self.median_s!r}, p99_s={self.p99_s!r}"
            )

    def quantile_s(self, z: float) -> float:
        """The time that lies `z` standard deviations from the median, on the logarithmic scale."""
        return self.median_s * math.exp(z * math.log(self.p99_s / self.median_s) / _Z99)

    def sample_s(self, rng: Random) -> float:
        """One time."""
        return self.quantile_s(rng.gauss(0.0, 1.0))

    @property
    def high_s(self) -> float:
        """A time that is hardly ever exceeded."""
        return self.p99_s


StartUp = Constant | LogNormal


class Emulation(msgspec.Struct, frozen=True, kw_only=True):
    """The cloud to imitate; by default one that is as fast as this machine.

    Args:
        cold_start: How long a new environment takes to start.
        warm_start: How long it takes to reach an environment that is already there.
        storage_latency_s: What each call of the storage costs at least.
        bandwidth_mb_s_per_gb: Megabytes per second between a worker and the storage, for each GiB of its memory;
            0 for no limit.
        bandwidth_cap_mb_s: The most that any worker gets; 0 for no cap.
        seed: Of the samples; the same seed gives the same start-up times in the same order.

    Example:
        >>> cloud = Emulation(storage_latency_s=0.001, bandwidth_mb_s_per_gb=50, bandwidth_cap_mb_s=75)
        >>> cloud.bandwidth_mb_s(memory_mb=512), cloud.bandwidth_mb_s(memory_mb=4096)
        (25.0, 75.0)
        >>> cloud.transfer_delay_s(size_bytes=50_000_000, memory_mb=512)
        2.001
    """

    cold_start: StartUp = Constant(0.0)
    warm_start: StartUp = Constant(0.0)
    storage_latency_s: float = 0.0
    bandwidth_mb_s_per_gb: float = 0.0
    bandwidth_cap_mb_s: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("storage_latency_s", "bandwidth_mb_s_per_gb", "bandwidth_cap_mb_s"):
            value = getattr(self, name)
            if not is_number(value):
                raise DefinitionError(f"Emulation.{name} must be a number, zero or more, {but_not(value)}")
        for name in ("cold_start", "warm_start"):
            if not isinstance(getattr(self, name), StartUp):
                raise DefinitionError(
                    f"Emulation.{name} must be a Constant(seconds) or a LogNormal(median_s, p99_s), "
                    f"not {getattr(self, name)!r}"
                )
        if not is_whole(self.seed, least=-_MOST_SEED, most=_MOST_SEED):
            raise DefinitionError(f"Emulation.seed must be a whole number, {but_not(self.seed, _MOST_SEED)}")

    def bandwidth_mb_s(self, memory_mb: int) -> float:
        """Megabytes per second that a worker of this size gets; infinite if nothing limits it."""
        by_memory = self.bandwidth_mb_s_per_gb * memory_mb / 1024 or math.inf
        return min(by_memory, float(self.bandwidth_cap_mb_s) or math.inf)

    def transfer_delay_s(self, size_bytes: int, memory_mb: int) -> float:
        """How long one call takes that moves so many bytes."""
        return self.storage_latency_s + size_bytes / _MB / self.bandwidth_mb_s(memory_mb)

    def start_delay_s(self, cold: bool, rng: Random) -> float:
        """How long one start takes."""
        return (self.cold_start if cold else self.warm_start).sample_s(rng)
