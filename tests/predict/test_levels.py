"""When history says something new: levels, and what moves them."""

import math
from collections.abc import Sequence

import pytest

from augury.config import Resources
from augury.metrics.records import Kind, Record, Startup, Transfer, series_of
from augury.predict.levels import Level, Place, levels_of, moved
from tests.predict.history import run

HERE = Resources(1, 1024)


def level(n: int, centre: float, error: float = 0.0, unfelt: float = 1e-3) -> Level:
    return Level(n, centre, error, unfelt)


def seconds(values: Sequence[float], **options: object) -> dict[Place, Level]:
    return levels_of(series_of([run(value, **options) for value in values]))  # type: ignore[arg-type]


EXECUTION = Place(Kind.TASK, "v1", HERE, "here", "execution_s")


def test_a_level_is_the_median_of_the_last_measurements() -> None:
    found = seconds([100.0] * 50 + [1.0, 2.0, 3.0] * 11)[EXECUTION]
    assert (found.n, found.centre) == (83, 2.0)
    assert found.error == pytest.approx(1.2533 * 1.4826 * 1.0 / math.sqrt(32))


def test_what_is_not_known_has_no_level() -> None:
    found = levels_of(series_of([run(math.nan), run(math.inf), run(-1.0)]))
    assert found[EXECUTION].n == 0
    assert math.isnan(found[EXECUTION].centre)


def test_a_level_is_that_of_all_planners() -> None:
    found = levels_of(series_of([run(1.0, planner="a"), run(3.0, planner="b")]))
    assert found[EXECUTION].n == 2
    assert found[EXECUTION].centre == 2.0


def test_each_quantity_platform_and_configuration_has_its_own_level() -> None:
    records: list[Record] = [
        run(1.0, output_bytes=10.0, peak_mb=50.0),
        run(2.0, memory_mb=2048),
        run(3.0, platform="there"),
        Transfer(direction="upload", resources=HERE, size_bytes=1.0, duration_s=0.5),
        Startup(state="cold", resources=HERE, duration_s=0.25),
    ]
    found = {
        (place.kind, place.column, place.resources.memory_mb, place.platform) for place in levels_of(series_of(records))
    }
    tasks = {
        (Kind.TASK, column, memory_mb, platform)
        for column in ("execution_s", "output_bytes", "peak_mb")
        for memory_mb, platform in ((1024, "here"), (2048, "here"), (1024, "there"))
    }
    assert found == tasks | {(Kind.UPLOAD, "duration_s", 1024, ""), (Kind.COLD, "duration_s", 1024, "")}


def test_one_column_can_be_looked_at_alone() -> None:
    assert list(levels_of(series_of([run(1.0, peak_mb=5.0)]), "peak_mb")) == [EXECUTION._replace(column="peak_mb")]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (level(40, 1.0), level(41, 1.0), False),
        (level(40, 1.0), level(64, 1.09), False),
        (level(40, 1.0), level(64, 1.11), True),
        (level(40, 1.0), level(64, 0.89), True),
        (level(40, 1.0, 0.1), level(64, 1.25, 0.1), False),  # within two standard errors of the difference
        (level(40, 1.0, 0.1), level(64, 1.3, 0.1), True),
        (level(40, 0.0001), level(64, 0.0009), False),  # a difference that no plan feels
        (level(40, 0.0001), level(64, 0.0012), True),
        (level(40, 1.0), level(80, 1.0), True),  # twice as much is known
        (level(64, 1.0), level(256, 1.0), False),  # it was known well before
        (level(0, math.nan), level(1, 1.0), True),
        (level(5, 1.0), level(0, math.nan), False),
        (level(0, math.nan), level(0, math.nan), False),
    ],
)
def test_a_level_moves_by_more_than_tolerance_and_uncertainty(before: Level, now: Level, expected: bool) -> None:
    assert now.moved_from(before) is expected


def test_new_circumstances_are_news_and_lost_ones_are_not() -> None:
    one, two = seconds([1.0] * 40), seconds([1.0] * 40, memory_mb=2048)
    both = {**one, **two}
    assert moved(one, both)
    assert not moved(both, one)
    assert not moved(one, one)
    assert not moved(one, {})


def test_a_slow_drift_is_noticed_in_the_end() -> None:
    first = seconds([1.0] * 64)
    drifted = [not moved(first, seconds([1.0] * 64 + [1.0 + 0.03 * step] * 32)) for step in range(6)]
    assert drifted == [True, True, True, True, False, False]
