"""What is assumed where nothing was measured. The numbers are those of AWS Lambda with Python, rounded.

Every estimate that rests on them says so: its basis starts with `prior`.
"""

import math
from statistics import NormalDist

from augury.config import Resources
from augury.predict.estimate import Estimate
from augury.predict.sla import SLA, fraction_of

MB = 1_000_000.0

FULL_CPU_MB = 1769.0
"""On Lambda this much memory comes with one virtual CPU; a single thread gets no faster beyond."""

EXECUTION_S = 0.1
"""A task takes this long with an empty input, on a full CPU."""
EXECUTION_BYTES_PER_S = 50 * MB
"""And it works through its input at this pace."""
OUTPUT_BYTES = 1024.0
"""An output has this many bytes with an empty input."""
OUTPUT_PER_INPUT = 0.5
"""And it grows by this much for each byte of input."""
PEAK_MB = 128.0
"""The interpreter and common packages."""
PEAK_PER_INPUT = 4.0
"""The input, decoded, and copies of it."""
TRANSFER_LATENCY_S = 0.01
"""One round trip to storage."""
TRANSFER_BYTES_PER_S = 50 * MB
"""With a full CPU or more."""
COLD_S = 0.25
"""Between a bare Python function (0.15 s) and one with an SDK (0.3 s)."""
COLD_SPREAD = 0.42
"""Of the logarithm: 0.25 s at the median is 0.66 s at P99."""
WARM_S = 0.01
"""One call of the gateway, its environment being there."""
WARM_SPREAD = 0.6
UNKNOWN_SPREAD = 1.0
"""Of the logarithm, for tasks of which nothing is known: eight of ten within a factor of 3.6."""
TRANSFER_SPREAD = 0.5
CPU_BOUND_SHARE = 0.7
"""The part of a task that needs the CPU, on a full one, if its processor time was not recorded."""

ROUNDED, NO_BYTE = 1e-9, 1e-6
"""What rounding may have added to a number of bytes: this part of it, and this much."""

_NORMAL = NormalDist()


def normal_quantile(fraction: float) -> float:
    """The quantile of the standard normal distribution."""
    return _NORMAL.inv_cdf(min(max(fraction, 1e-12), 1 - 1e-12))


def whole_bytes(size: float) -> int:
    """A number of bytes is whole, and what rounding added to it is no byte."""
    return math.ceil(size * (1 - ROUNDED) - NO_BYTE)


def prior_execution(size: float, resources: Resources, sla: SLA, size_exponent: float | None = None) -> Estimate:
    """A task of an unknown function; the caller may know to which power it grows."""
    expected_s = expected_execution_s(size, resources, size_exponent)
    return _spread(expected_s, UNKNOWN_SPREAD, sla, "prior: nothing known of the function")


def expected_execution_s(size: float, resources: Resources, size_exponent: float | None = None) -> float:
    """The median run time of an unknown function."""
    work_s: float = MB / EXECUTION_BYTES_PER_S * (size / MB) ** (1.0 if size_exponent is None else size_exponent)
    return (EXECUTION_S + work_s) / min(1.0, resources.cpus)


def prior_output(size: float, sla: SLA) -> Estimate:
    """The output of an unknown function."""
    return _spread(expected_output_bytes(size), UNKNOWN_SPREAD, sla, "prior: no output known of the function")


def expected_output_bytes(size: float) -> float:
    """The median size of the output of an unknown function."""
    return OUTPUT_BYTES + OUTPUT_PER_INPUT * size


def prior_peak(size: float) -> Estimate:
    """The memory that a task of an unknown function may need."""
    expected = PEAK_MB + PEAK_PER_INPUT * size / 2**20
    return Estimate(expected, spread=expected / 2, basis="prior: no memory use known of the function")


def prior_transfer(size: float, resources: Resources, sla: SLA, memory_exponent: float | None = None) -> Estimate:
    """A transfer on a platform of which nothing is known; the caller may know to which power of memory it is faster."""
    share = min(1.0, resources.cpus, resources.memory_mb / FULL_CPU_MB)
    if memory_exponent is not None:
        share = (resources.memory_mb / FULL_CPU_MB) ** memory_exponent
    expected_s = TRANSFER_LATENCY_S + size / (TRANSFER_BYTES_PER_S * share)
    return _spread(min(expected_s, 1e300), TRANSFER_SPREAD, sla, "prior: no such transfer known")


def prior_startup(state: str, sla: SLA) -> Estimate:
    """A start on a platform of which nothing is known."""
    if state == "cold":
        return _spread(COLD_S, COLD_SPREAD, sla, "prior: no cold start known")
    return _spread(WARM_S, WARM_SPREAD, sla, "prior: no warm start known")


def margin_of(deviation: float, sla: SLA) -> float:
    """What to multiply the median of a log-normal distribution by; `deviation` is that of its logarithm."""
    fraction = fraction_of(sla)
    return math.exp(deviation**2 / 2 if math.isnan(fraction) else deviation * normal_quantile(fraction))


def _spread(median: float, deviation: float, sla: SLA, basis: str) -> Estimate:
    """A log-normal distribution by its median and the standard deviation of its logarithm."""
    spread = median * math.sinh(deviation * normal_quantile(0.9))
    return Estimate(min(median * margin_of(deviation, sla), 1e300), spread=min(spread, 1e300), basis=basis)
