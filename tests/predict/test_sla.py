"""SLAs and estimates: small values that everything else passes around."""

import copy
import math
import pickle
import subprocess
import sys

import pytest

from augury.errors import DefinitionError
from augury.predict.estimate import Estimate
from augury.predict.sla import Percentile, fraction_of


def test_a_percentile_is_a_fraction_of_runs() -> None:
    assert fraction_of(Percentile(80)) == pytest.approx(0.8)


def test_the_median_is_the_fiftieth_percentile() -> None:
    assert fraction_of("median") == fraction_of(Percentile(50))


def test_the_average_is_no_percentile() -> None:
    assert math.isnan(fraction_of("average"))


@pytest.mark.parametrize("p", [0, 100, -5, 101, math.nan, math.inf, True, "80", None])
def test_a_percentile_outside_of_its_range_is_refused(p: object) -> None:
    with pytest.raises(DefinitionError, match="above 0 and below 100"):
        Percentile(p)  # type: ignore[arg-type]


@pytest.mark.parametrize("sla", ["mean", "p95", "", 95, 0.95, None])
def test_an_unknown_sla_is_refused_with_its_name_and_the_choices(sla: object) -> None:
    with pytest.raises(DefinitionError) as refused:
        fraction_of(sla)  # type: ignore[arg-type]
    for word in (repr(sla), '"average"', '"median"', "Percentile"):
        assert word in str(refused.value)


def test_percentiles_are_values() -> None:
    assert len({Percentile(80), Percentile(80.0), Percentile(90)}) == 2
    with pytest.raises(AttributeError):
        Percentile(80).p = 90  # type: ignore[misc]


def test_an_estimate_computes_as_a_number() -> None:
    estimate = Estimate(1.5, spread=0.2, n=3, basis="same function, 3 runs")
    assert estimate + 1 == 2.5
    assert max(estimate, 1.0) == 1.5
    assert estimate.value == 1.5
    assert type(estimate.value) is float


def test_an_estimate_without_samples_is_a_prior() -> None:
    assert Estimate(1.0).is_prior
    assert not Estimate(1.0, n=1, basis="same function, 1 run").is_prior


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda estimate: pickle.loads(pickle.dumps(estimate))])
def test_an_estimate_keeps_its_evidence_when_it_is_copied_or_travels(again: object) -> None:
    estimate = Estimate(1.5, spread=0.2, n=3, basis="same function, 3 runs")
    copied = again(estimate)  # type: ignore[operator]
    assert type(copied) is Estimate
    assert (copied, copied.spread, copied.n, copied.basis) == (1.5, 0.2, 3, "same function, 3 runs")


def test_an_estimate_shows_its_evidence() -> None:
    assert repr(Estimate(1.5, spread=0.25, n=37, basis="same function, 37 runs")) == (
        "Estimate(1.5 ± 0.25; same function, 37 runs)"
    )


def test_in_a_text_an_estimate_is_a_number() -> None:
    assert f"{Estimate(1.5, n=3)} s, {Estimate(0.25):.0%}" == "1.5 s, 25%"


def test_slas_estimates_and_priors_do_not_load_numpy() -> None:
    code = (
        "import sys, augury.predict.sla, augury.predict.estimate, augury.predict.priors; "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
