"""Numbers and tables as people read them."""

import math

import pytest

from augury.wording import aligned, dollars, duration, percent, plain, seconds, signed, size


@pytest.mark.parametrize(
    ("cost_usd", "expected"),
    [
        (0.0, "$0"),
        (0.0000042, "$0.0000042"),
        (0.00999, "$0.0100"),
        (0.5, "$0.50"),
        (1.0, "$1.00"),
        (1234.5, "$1,234.50"),
        (math.inf, "-"),
        (math.nan, "-"),
    ],
)
def test_costs(cost_usd: float, expected: str) -> None:
    assert dollars(cost_usd) == expected


@pytest.mark.parametrize(
    ("duration_s", "expected"),
    [
        (0.0, "0 s"),
        (0.09999999, "100 ms"),
        (0.00999999, "10.0 ms"),
        (0.0123, "12.3 ms"),
        (1.0, "1.00 s"),
        (75.0, "75.0 s"),
        (200.0, "3.33 min"),
        (-1.0, "-"),
        (math.inf, "-"),
    ],
)
def test_times_have_three_digits(duration_s: float, expected: str) -> None:
    assert duration(duration_s) == expected


def test_what_is_not_finite_is_a_dash() -> None:
    assert (seconds(math.inf), size(math.nan), percent(math.inf, 1.0), percent(1.0, 0.0)) == ("-",) * 4


def test_differences_have_a_sign() -> None:
    assert [signed(-1, "1 s"), signed(0, "0 s"), signed(1, "1 s")] == ["-1 s", "+0 s", "+1 s"]
    assert signed(math.inf, "-") == "-"


def test_a_table_is_aligned() -> None:
    assert aligned([("name", "n"), ("a", "10"), ("long name", "7")], left=(0,)) == [
        "  name        n",
        "  a          10",
        "  long name   7",
    ]


def test_names_are_shown_plainly() -> None:
    assert plain("a\nb") == "a\\nb"
    assert plain("x" * 200) == "x" * 100 + "…"
