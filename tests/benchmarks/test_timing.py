"""What the benchmark of planning times says of its goals."""

import pytest
from timing import Measured, judged, smaller_of


def measured(tasks: int, seconds: float, goal_s: float | None = 1.0, peak_mb: int | None = None) -> Measured:
    return Measured(
        case="uniform",
        shape="tree",
        tasks=tasks,
        edges=tasks,
        seconds=(seconds, seconds / 2, seconds * 2),
        peak_bytes=None if peak_mb is None else peak_mb * 1_000_000,
        goal_s=goal_s,
    )


def verdicts(result: Measured, smaller: Measured | None = None) -> list[bool | None]:
    return [line.met for line in judged(result, smaller)]


def test_the_median_is_judged_by_its_goal() -> None:
    assert verdicts(measured(100, 1.0)) == [True]
    assert verdicts(measured(100, 1.1)) == [False]
    assert verdicts(measured(100, 9.9, goal_s=None)) == [None]


@pytest.mark.parametrize(("seconds", "met"), [(12.0, True), (12.1, False)])
def test_ten_times_the_tasks_may_take_twelve_times_the_goal(seconds: float, met: bool) -> None:
    assert verdicts(measured(1000, seconds), measured(100, 0.1)) == [met]


@pytest.mark.parametrize(("peak_mb", "met"), [(120, True), (121, False)])
def test_memory_grows_with_the_workflow(peak_mb: int, met: bool) -> None:
    assert verdicts(measured(1000, 1.0, peak_mb=peak_mb), measured(100, 1.0, peak_mb=10)) == [True, met]


def test_a_little_memory_more_says_nothing() -> None:
    assert verdicts(measured(1000, 1.0, peak_mb=90), measured(100, 1.0, peak_mb=0)) == [True, True]


def test_larger_workflows_are_set_beside_the_smallest() -> None:
    small, middle, large = measured(10, 1.0), measured(100, 1.0), measured(1000, 1.0)
    assert smaller_of(small, [large, small, middle]) is None
    assert smaller_of(large, [large, small, middle]) is small
