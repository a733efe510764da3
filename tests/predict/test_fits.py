"""Models are fitted again when their samples have moved, and only then."""

from augury.config import Resources
from augury.metrics.records import Records
from augury.predict.estimator import Model
from augury.predict.fits import Fits
from augury.predict.fitted import FittedLaws
from augury.predict.provider import PredictionsProvider
from augury.predict.samples import Quantity, Samples
from tests.predict.history import MB, records_of, run


class Watched(FittedLaws):
    """Remembers what it was asked to fit."""

    def __init__(self) -> None:
        self.fitted: list[tuple[Quantity, int]] = []

    def fit(self, samples: Samples, quantity: Quantity) -> Model:  # type: ignore[override]
        self.fitted.append((quantity, len(samples)))
        return super().fit(samples, quantity)


def ask(records: Records, fits: Fits, watched: Watched, platform: str = "here") -> float:
    provider = PredictionsProvider(records, platform=platform, estimator=watched, fits=fits)
    return float(provider.predict_execution_time("resize", MB, Resources(1, 1024), "median"))


def test_more_of_the_same_is_not_fitted_again() -> None:
    fits, watched = Fits(), Watched()
    first = ask(records_of([run(2.0)] * 40), fits, watched)
    assert ask(records_of([run(2.0)] * 41), fits, watched) == first
    assert ask(records_of([run(2.1)] * 45), fits, watched) == first
    assert watched.fitted == [(Quantity.EXECUTION, 40)]


def test_what_moved_is_fitted_again() -> None:
    fits, watched = Fits(), Watched()
    ask(records_of([run(2.0)] * 40), fits, watched)
    assert ask(records_of([run(3.0)] * 40), fits, watched) > 2.9
    assert watched.fitted == [(Quantity.EXECUTION, 40), (Quantity.EXECUTION, 40)]


def test_a_move_is_one_of_its_own_quantity() -> None:
    fits, watched = Fits(), Watched()
    ask(records_of([run(2.0, output_bytes=100.0)] * 40), fits, watched)
    ask(records_of([run(2.0, output_bytes=1e9)] * 40), fits, watched)
    assert len(watched.fitted) == 1


def test_platforms_do_not_mix() -> None:
    fits, watched = Fits(), Watched()
    records = records_of([*[run(2.0)] * 40, *[run(5.0, platform="there")] * 40])
    assert ask(records, fits, watched) < 2.1
    assert ask(records, fits, watched, platform="there") > 4.9


def test_what_was_unknown_is_fitted_once_it_is_known() -> None:
    fits, watched = Fits(), Watched()
    prior = ask(records_of([]), fits, watched)
    assert ask(records_of([run(2.0)]), fits, watched) != prior


def test_those_that_were_not_asked_for_longest_give_way() -> None:
    fits = Fits(most=2)
    series = records_of([run(2.0)] * 40).series
    made: list[str] = []

    def model(key: str) -> None:
        fits.model((key,), series, "execution_s", lambda: made.append(key))

    for key in ("a", "b", "a", "c", "a", "b"):
        model(key)
    assert made == ["a", "b", "c", "b"]
    assert len(fits) == 2
