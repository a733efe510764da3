"""What `make bench` says of its figures: verdicts, the table and the JSON; and that no failure hides another figure."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from speed.figures import Failure, Figure, Line, Relation, table, verdict
from speed.matrices import LEFT, RIGHT, TALL, Decomposition, Matrix, Product, expected, normal_block, uniform_block
from speed.measuring import Effort, WrongResultError, check, rotated, until_failure
from speed.memory import tree_of

RATIO = Figure(what="fan-out of 10,000: of Ray's time", value=0.062, bar=0.1, samples={"augury_s": [0.2, 0.3]})
TIME = Figure(what="one task", value=0.9, unit="s", bar=0.8, note="11 processes")
SHOWN = Figure(what="uneven", value=1234.5, unit="MB")
CRASH = Failure(what="arrays", reason="ValueError: no", details="Traceback …")


@pytest.mark.parametrize(
    ("relation", "value", "met"),
    [("<=", 0.99, True), ("<=", 1.0, True), ("<=", 1.01, False), (">=", 0.99, False), (">=", 1.0, True)],
)
def test_a_bar_is_met_on_its_side_and_by_the_very_number(relation: Relation, value: float, met: bool) -> None:
    figure = Figure(what="it", value=value, bar=1.0, relation=relation)
    assert figure.met is met
    assert verdict(figure, judged=True) == ("met" if met else "MISSED")


def test_what_is_no_number_meets_no_bar() -> None:
    assert Figure(what="it", value=float("nan"), bar=1.0).met is False
    assert Figure(what="it", value=float("nan"), bar=1.0, relation=">=").met is False


def test_without_a_bar_or_in_another_size_there_is_no_verdict() -> None:
    assert SHOWN.met is None
    assert verdict(SHOWN, judged=True) == "-"
    assert verdict(RATIO, judged=False) == "-"


@pytest.mark.parametrize("figure", [RATIO, TIME, SHOWN, replace(RATIO, relation=">=")])
def test_figures_survive_json(figure: Figure) -> None:
    document = json.loads(json.dumps(figure.as_json()))
    assert document["met"] is figure.met
    assert Figure.from_json(document) == figure


def test_failures_survive_json() -> None:
    assert Failure(**json.loads(json.dumps(CRASH.as_json()))) == CRASH


def test_the_table_is_aligned_and_counts() -> None:
    assert table([RATIO, TIME, SHOWN], judged=True).splitlines() == [
        "what                              measured    bar  verdict",
        "-" * 72,
        "fan-out of 10,000: of Ray's time     0.062  ≤ 0.1  met",
        "one task                             0.9 s  ≤ 0.8  MISSED   11 processes",
        "uneven                            1,234 MB         -",
        "",
        "1 of 2 bars met",
    ]


def test_the_table_says_what_failed_and_why() -> None:
    row, _, last = table([CRASH], judged=True).splitlines()[2:]
    assert row.split() == ["arrays", "failed", "FAILED", "ValueError:", "no"]
    assert last == "0 of 0 bars met; 1 measurement failed"


def test_in_another_size_no_bar_counts() -> None:
    assert table([RATIO], judged=False).splitlines()[-1] == "no verdicts: bars are for measurements of full size"


def test_what_was_found_before_a_failure_is_kept() -> None:
    def measure(effort: Effort) -> Iterator[Figure]:
        yield RATIO
        check("the sum", 3, 4)

    found: list[Line] = list(until_failure(measure, Effort()))
    assert found[0] == RATIO
    assert isinstance(found[1], Failure)
    assert found[1].reason == "WrongResultError: the sum gave 3, not 4"


def test_results_are_checked() -> None:
    check("the sum", 4, 4)
    with pytest.raises(WrongResultError, match="the sum gave 3, not 4"):
        check("the sum", 3, 4)


def test_sizes_are_scaled_and_never_below_the_least() -> None:
    assert Effort().size(1_000, 10) == 1_000
    assert Effort(scale=0.05).size(1_000, 10) == 50
    assert Effort(scale=0.001).size(1_000, 10) == 10
    assert [Effort(scale=scale).full for scale in (1.0, 0.5)] == [True, False]


def test_each_goes_first_as_often_as_the_others() -> None:
    assert [rotated("abc", turn) for turn in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]


def test_what_numpy_says_of_a_decomposition() -> None:
    *values, square = expected(Decomposition(blocks=1, rows=50, columns=3))
    assert square == 3
    assert sum(value**2 for value in values) == pytest.approx((normal_block(TALL, 0, 50, 3) ** 2).sum())
    assert values == sorted(values, reverse=True)


def test_what_numpy_says_of_a_product_is_what_its_blocks_give() -> None:
    def block(row: int, column: int) -> Matrix:
        products = (uniform_block(LEFT, row, inner, 3) @ uniform_block(RIGHT, inner, column, 3) for inner in range(2))
        return next(products) + next(products)

    squares = sum(float((block(row, column) ** 2).sum()) for row in range(2) for column in range(2))
    assert expected(Product(blocks=2, side=3)) == [pytest.approx(squares)]


def test_a_process_is_in_the_tree_of_its_parent() -> None:
    assert os.getpid() in tree_of(os.getppid())
    assert tree_of(os.getpid())[0] == os.getpid()
