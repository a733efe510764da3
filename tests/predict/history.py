"""Histories for tests: made-up runs of made-up functions, with fixed seeds."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from augury.config import Resources
from augury.metrics.records import Record, Records, TaskRun, series_of
from augury.predict.samples import Samples

MB = 1_000_000.0
FULL_CPU_MB = 1769.0


def records_of(records: Iterable[Record]) -> Records:
    return Records(workflow="w").with_series(series_of(records))


def run(
    execution_s: float = 1.0,
    *,
    memory_mb: int = 1024,
    cpus: float = 1.0,
    function: str = "v1",
    name: str = "resize",
    platform: str = "here",
    planner: str = "",
    input_bytes: float = MB,
    output_bytes: float = math.nan,
    peak_mb: float = math.nan,
    cpu_s: float = math.nan,
    ended_s: float = math.nan,
) -> TaskRun:
    return TaskRun(
        function=function,
        name=name,
        resources=Resources(cpus=cpus, memory_mb=memory_mb),
        platform=platform,
        planner=planner,
        execution_s=execution_s,
        input_bytes=input_bytes,
        output_bytes=output_bytes,
        peak_mb=peak_mb,
        cpu_s=cpu_s,
        ended_s=ended_s,
    )


def samples_from(
    law: Callable[[float, float], float],
    count: int,
    *,
    seed: int = 0,
    noise: float = 0.1,
    memories: tuple[float, ...] = (256.0, 512.0, 1024.0, 2048.0),
    sizes: tuple[float, float] = (MB, 50 * MB),
) -> Samples:
    """Samples of a law of size and memory, with log-normal noise; sizes are spread evenly over orders of magnitude."""
    rng = np.random.default_rng(seed)
    asked = np.exp(rng.uniform(math.log(sizes[0]), math.log(sizes[1]), count))
    memory_mb = rng.choice(memories, count)
    exact = [law(size, memory) for size, memory in zip(asked.tolist(), memory_mb.tolist(), strict=True)]
    return Samples.of(np.array(exact) * np.exp(noise * rng.standard_normal(count)), sizes=asked, memory_mb=memory_mb)
