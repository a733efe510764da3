"""Measurements for tests, with one number that tells them apart."""

import math

from augury.config import Resources
from augury.metrics.records import (
    COLUMNS,
    Circumstances,
    Kind,
    MemoryExcess,
    Record,
    Series,
    Startup,
    TaskRun,
    Transfer,
    pack_row,
    series_of,
)

SMALL = Resources(cpus=1.0, memory_mb=512)


def task_run(number: float, function: str = "f1", *, resources: Resources = SMALL, planner: str = "") -> TaskRun:
    return TaskRun(
        function=function,
        name=f"name of {function}",
        resources=resources,
        platform="here",
        planner=planner,
        ended_s=number,
        execution_s=number,
    )


def transfer(number: float, platform: str = "here") -> Transfer:
    return Transfer(direction="upload", resources=SMALL, platform=platform, ended_s=number, duration_s=number)


def startup(number: float, platform: str = "here") -> Startup:
    return Startup(state="cold", resources=SMALL, platform=platform, ended_s=number, duration_s=number)


def excess(number: float, function: str = "f1") -> MemoryExcess:
    return MemoryExcess(
        function=function, name=f"name of {function}", resources=SMALL, platform="here", ended_s=number, used_mb=number
    )


def tasks(count: int, function: str = "f1", first: int = 0) -> list[Series]:
    """One series of so many task runs, numbered."""
    return series_of([task_run(float(first + index), function) for index in range(count)])


def functions(count: int, rows: int = 1) -> list[Series]:
    """As many series, each of a function of its own."""
    row = pack_row([math.nan] * len(COLUMNS[Kind.TASK]))
    return [Series(Circumstances(Kind.TASK, f"f{index}", SMALL), f"n{index}", row * rows) for index in range(count)]


def numbers(series: Series) -> list[float]:
    """What tells the measurements of a series apart."""
    return [record.ended_s for record in series.records()]


def all_of(series: tuple[Series, ...]) -> list[Record]:
    return [record for one in series for record in one.records()]
