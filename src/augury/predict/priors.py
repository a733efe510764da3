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

_NORMAL = NormalDist()


def normal_quantile(fraction: float) -> float:
    """The quantile of the standard normal distribution."""
    return _NORMAL.inv_cdf(min(max(fraction, 1e-12), 1 - 1e-12))


def prior_execution(size: float, resources: Resources, sla: SLA, size_exponent: float | None = None) -> Estimate:
    """A task of an unknown function; the caller may know to which power it grows."""
    work_s = MB / EXECUTION_BYTES_PER_S * (size / MB) ** (1.0 if size_exponent is None else size_exponent)
    expected_s = (EXECUTION_S + work_s) / min(1.0, resources.cpus)
    return _spread(expected_s, UNKNOWN_SPREAD, sla, "prior: nothing known of the function")


def prior_output(size: float, sla: SLA) -> Estimate:
    """The output of an unknown function."""
    expected = OUTPUT_BYTES + OUTPUT_PER_INPUT * size
    return _spread(expected, UNKNOWN_SPREAD, sla, "prior: no output known of the function")


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


def _spread(median: float, deviation: float, sla: SLA, basis: str) -> Estimate:
    """A log-normal distribution by its median and the standard deviation of its logarithm."""
    fraction = fraction_of(sla)
    exponent = deviation**2 / 2 if math.isnan(fraction) else deviation * normal_quantile(fraction)
    spread = median * math.sinh(deviation * normal_quantile(0.9))
    return Estimate(min(median * math.exp(exponent), 1e300), spread=min(spread, 1e300), basis=basis)
