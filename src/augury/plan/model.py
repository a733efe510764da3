"""What a platform does to a run, in numbers: start-ups, storage, slots and prices.

By hand for what-if questions and tests (`PlatformModel(…)`), as on AWS Lambda (`PlatformModel.aws_lambda()`), or as
earlier runs found it (`PlatformModel.measured(…)`).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from augury.config import INLINE_BYTES, LARGEST_FLOAT, Resources, but_not, is_number, is_whole
from augury.errors import DefinitionError
from augury.predict.estimate import Estimate
from augury.predict.sla import SLA


def _check(name: str, value: object, *, above_zero: bool = False, finite: bool = True) -> None:
    good = is_number(value, most=LARGEST_FLOAT if finite else math.inf)
    if not good or (above_zero and not value):
        kind = "a positive number" if above_zero else "a number that is not negative"
        raise DefinitionError(f"{name} must be {kind}, {but_not(value, LARGEST_FLOAT)}")


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
        if not isinstance(self.start_billed, bool):
            raise DefinitionError(f"Price.start_billed must be True or False, not {self.start_billed!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How fast workers of one configuration start and reach storage.

    Args:
        cold_start_s: How long a new environment takes to start.
        warm_start_s: How long one takes that ran before.
        latency_s: One round trip to storage.
        bandwidth_bytes_s: How fast a worker reads and writes large outputs.
        crowd_s: How much longer a cold start takes for each other one under way.
        upload_bytes_s: How fast it writes them, if that is not as fast as it reads; 0: it is.
    """

    cold_start_s: float = 0.25
    warm_start_s: float = 0.01
    latency_s: float = 0.001
    bandwidth_bytes_s: float = 75e6
    crowd_s: float = 0.0
    upload_bytes_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cold_start_s", "warm_start_s", "latency_s", "crowd_s"):
            _check(f"Timing.{name}", getattr(self, name))
        _check("Timing.bandwidth_bytes_s", self.bandwidth_bytes_s, above_zero=True, finite=False)
        _check("Timing.upload_bytes_s", self.upload_bytes_s, finite=False)

    @property
    def storing_bytes_s(self) -> float:
        """How fast a worker writes large outputs."""
        return self.upload_bytes_s or self.bandwidth_bytes_s


LAMBDA_MEMORY_MB = (512, 1024, 1769, 3538, 7076, 10240)
"""Memory sizes of AWS Lambda to choose from: a full virtual CPU comes with 1,769 MB, and 10,240 MB are the most."""
_LAMBDA_CPU_MB = 1769
_LAMBDA_USD_PER_GB_S = {"x86": 0.0000166667, "arm64": 0.0000133334}


def lambda_configurations(memory_mb: Sequence[int] = LAMBDA_MEMORY_MB) -> tuple[Resources, ...]:
    """Workers of AWS Lambda with so much memory, and the virtual CPUs that come with it."""
    return tuple(Resources(cpus=one / _LAMBDA_CPU_MB, memory_mb=one) for one in sorted(memory_mb))


class Measured(Protocol):
    """What predicts start-ups and transfers: a `PredictionsProvider`, or `Priors`."""

    def predict_worker_startup_time(
        self, resource_config: Resources, state: Literal["cold", "warm"], sla: SLA, *, starting: int = 1
    ) -> Estimate:
        """How many seconds a worker takes to start."""
        ...

    def most_starting(self, state: Literal["cold", "warm"]) -> float:
        """How many workers were starting at once when start-ups were measured, at most."""
        ...

    def predict_data_transfer_time(
        self,
        type: Literal["upload", "download"],  # noqa: A002 - the paper's name
        data_size_bytes: float,
        resource_config: Resources,
        sla: SLA,
        /,
    ) -> Estimate:
        """How many seconds it takes to move bytes to storage or from it."""
        ...


class _Timings(Mapping[Resources, Timing]):
    """How fast workers of any configuration are; found out when it is first asked for."""

    def __init__(self, find: Callable[[Resources], Timing]) -> None:
        self._find = find
        self._known: dict[Resources, Timing] = {}

    def __getitem__(self, resources: Resources) -> Timing:
        known = self._known.get(resources)
        if known is None:
            known = self._known[resources] = self._find(resources)
        return known

    def __iter__(self) -> Iterator[Resources]:
        return iter(tuple(self._known))

    def __len__(self) -> int:
        return len(self._known)


_SMALL_BYTES, _LARGE_BYTES = 1e3, 16e6
_CROWD = 8
_MOST_BYTES_S = 1e12


def _measured_timing(
    by: Measured, resources: Resources, sla: SLA, assumed: Callable[[Resources], Timing] | None
) -> Timing:
    """What history says of one configuration; where it says nothing, what is assumed."""
    otherwise = None if assumed is None else assumed(resources)
    cold = by.predict_worker_startup_time(resources, "cold", sla)
    warm = by.predict_worker_startup_time(resources, "warm", sla)
    latency_s, bandwidth_bytes_s, upload_bytes_s = _measured_link(by, resources, sla, otherwise)
    unknown_cold, unknown_warm = (otherwise if one.is_prior else None for one in (cold, warm))
    return Timing(
        cold_start_s=unknown_cold.cold_start_s if unknown_cold else float(cold),
        warm_start_s=unknown_warm.warm_start_s if unknown_warm else float(warm),
        latency_s=latency_s,
        bandwidth_bytes_s=bandwidth_bytes_s,
        crowd_s=unknown_cold.crowd_s if unknown_cold else _measured_crowd_s(by, resources, sla, cold),
        upload_bytes_s=upload_bytes_s,
    )


def _measured_crowd_s(by: Measured, resources: Resources, sla: SLA, alone_s: float) -> float:
    """How much longer a cold start takes for each other one, as far as crowds were seen."""
    crowd = int(min(_CROWD, by.most_starting("cold")))
    if crowd < 2:
        return 0.0
    together_s = by.predict_worker_startup_time(resources, "cold", sla, starting=crowd)
    return max(0.0, together_s - alone_s) / (crowd - 1)


def _measured_link(by: Measured, resources: Resources, sla: SLA, assumed: Timing | None) -> tuple[float, float, float]:
    """Latency, and how fast large outputs are read and written: what small transfers take, and what large ones do more.

    The latency is that of uploads and downloads alike. If of large ones only the one is known, the other is as fast.
    """
    ways: tuple[Literal["upload", "download"], ...] = ("upload", "download")
    small = [by.predict_data_transfer_time(way, _SMALL_BYTES, resources, sla) for way in ways]
    large = [by.predict_data_transfer_time(way, _LARGE_BYTES, resources, sla) for way in ways]
    latency_s = _mean_known(small)
    if assumed is not None and all(one.is_prior for one in small):
        latency_s = assumed.latency_s
    if assumed is not None and all(one.is_prior for one in large):
        return latency_s, assumed.bandwidth_bytes_s, assumed.upload_bytes_s
    known = [not one.is_prior for one in large]
    up, down = (_bytes_s(latency_s if few.is_prior else few, many) for few, many in zip(small, large, strict=True))
    if not all(known):
        return latency_s, up if known[0] else down, 0.0
    if max(up, down) >= _MOST_BYTES_S:  # of one there was only what is too small to tell it apart from latency
        return latency_s, min(up, down), 0.0
    return latency_s, down, up


def _bytes_s(small_s: float, large_s: float) -> float:
    moving_bytes = _LARGE_BYTES - _SMALL_BYTES
    return moving_bytes / max(large_s - small_s, moving_bytes / _MOST_BYTES_S)


def _mean_known(estimates: Sequence[Estimate]) -> float:
    chosen = [one for one in estimates if not one.is_prior] or estimates
    return sum(chosen) / len(chosen)


def _check_kinds(model: "PlatformModel") -> None:
    """Refuse settings of a platform that are not even of the right kind."""
    for name, value, kind in (("timing", model.timing, Timing), ("price", model.price, Price)):
        if not isinstance(value, kind):
            raise DefinitionError(f"PlatformModel.{name} must be a {kind.__name__}(…), not {value!r}")
    offered: object = model.configurations
    if not isinstance(offered, Sequence) or not offered or not all(isinstance(one, Resources) for one in offered):
        raise DefinitionError(
            f"PlatformModel.configurations must list Resources(cpus=…, memory_mb=…), at least one, not {offered!r}"
        )
    for name, given in (("timings", model.timings), ("warm", model.warm)):
        if not isinstance(given, Mapping):
            raise DefinitionError(f"PlatformModel.{name} must be a mapping from Resources, not {given!r}")
    for resources, count in model.warm.items():
        _check(f"PlatformModel.warm[{resources}]", count, finite=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformModel:
    """A platform, in numbers.

    Args:
        timing: How fast workers start and reach storage.
        timings: The same for configurations that differ.
        concurrency: How many workers run at once; further ones queue.
        processors: How many processors all workers share; infinite: each has its own.
        keep_alive_s: How long an environment stays warm.
        warm: How many environments of each configuration are warm before the run; infinite: all that are needed.
        price: What it costs.
        configurations: What workers can be had, for planners that choose; weaker ones first.
        most_memory_mb: The most that a worker can have: expectations beyond it are cut, since it must do.
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
        >>> [resources.memory_mb for resources in PlatformModel.aws_lambda().configurations]
        [512, 1024, 1769, 3538, 7076, 10240]
    """

    timing: Timing = Timing()
    timings: Mapping[Resources, Timing] = field(default_factory=dict)
    concurrency: int = 1000
    processors: float = math.inf
    keep_alive_s: float = 600.0
    warm: Mapping[Resources, float] = field(default_factory=dict)
    price: Price = Price()
    configurations: Sequence[Resources] = (Resources(),)
    most_memory_mb: float = math.inf
    inline_bytes: int = INLINE_BYTES
    flush_s: float = 0.001
    grace_s: float = 0.2
    progress_s: float = 0.25

    def __post_init__(self) -> None:
        for name in ("keep_alive_s", "flush_s", "grace_s", "progress_s"):
            _check(f"PlatformModel.{name}", getattr(self, name), finite=False)
        for name in ("processors", "most_memory_mb"):
            _check(f"PlatformModel.{name}", getattr(self, name), above_zero=True, finite=False)
        _check("PlatformModel.inline_bytes", self.inline_bytes)
        if not is_whole(self.concurrency, least=1):
            raise DefinitionError(
                f"PlatformModel.concurrency must be a whole number of at least 1, {but_not(self.concurrency)}"
            )
        _check_kinds(self)

    @classmethod
    def aws_lambda(
        cls,
        memory_mb: Sequence[int] = LAMBDA_MEMORY_MB,
        *,
        architecture: Literal["x86", "arm64"] = "x86",
        concurrency: int = 1000,
    ) -> "PlatformModel":
        """AWS Lambda with Python: for each memory size as many virtual CPUs, and as much bandwidth, as come with it.

        Args:
            memory_mb: The sizes that workers can have.
            architecture: Of the processors; it decides the price.
            concurrency: The account's limit.
        """
        if architecture not in _LAMBDA_USD_PER_GB_S:
            raise DefinitionError(
                f'PlatformModel.aws_lambda: architecture must be "x86" or "arm64", not {architecture!r}'
            )
        configurations = lambda_configurations(memory_mb)
        timings = {one: Timing(bandwidth_bytes_s=75e6 * min(1.0, one.cpus)) for one in configurations}
        return cls(
            timings=timings,
            concurrency=concurrency,
            price=Price(usd_per_gb_s=_LAMBDA_USD_PER_GB_S[architecture]),
            configurations=configurations,
        )

    @classmethod
    def measured(
        cls,
        by: "Measured",
        *,
        sla: SLA = "median",
        concurrency: int = 1000,
        processors: float = math.inf,
        start_s: float | None = None,
        keep_alive_s: float = 600.0,
        warm: Mapping[Resources, float] | None = None,
        price: Price | None = None,
        configurations: Sequence[Resources] = (Resources(),),
        most_memory_mb: float = math.inf,
        assumed: Callable[[Resources], Timing] | None = None,
    ) -> "PlatformModel":
        """A platform as earlier runs found it.

        Args:
            by: Predicts start-ups and transfers: a `PredictionsProvider`.
            sla: How careful to be.
            concurrency: How many workers run at once.
            processors: How many processors they share.
            start_s: How long a start takes while there is room, as the platform itself says.
            keep_alive_s: How long an environment stays warm.
            warm: How many environments of each configuration are warm before the run.
            price: What it costs.
            configurations: What workers can be had.
            most_memory_mb: The most that a worker can have.
            assumed: How fast workers are where nothing was measured; by default as on AWS Lambda.
        """
        timings = _Timings(lambda resources: _measured_timing(by, resources, sla, assumed))
        timing = timings[configurations[0]] if configurations else Timing()
        return cls(
            timing=timing,
            timings=timings,
            concurrency=concurrency,
            processors=processors,
            keep_alive_s=keep_alive_s,
            warm=warm or {},
            price=price or Price(),
            configurations=configurations,
            most_memory_mb=most_memory_mb,
            grace_s=0.2 if start_s is None else max(0.0, start_s - timing.cold_start_s),
        )

    def timing_of(self, resources: Resources) -> Timing:
        """How fast workers with these resources start and reach storage."""
        return self.timings.get(resources, self.timing)

    @property
    def start_s(self) -> float:
        """How long a start takes while there is room; one that takes longer waits for a slot."""
        offered = [self.timing_of(resources).cold_start_s for resources in self.configurations]
        return max(self.timing.cold_start_s, *offered) + self.grace_s
