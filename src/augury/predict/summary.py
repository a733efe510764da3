"""What history knows of each function, in a line: for tables that people read."""

import math

import msgspec
import numpy as np

from augury.metrics.records import Kind, Records
from augury.predict.fitted import FittedLaws, FittedModel
from augury.predict.priors import MB
from augury.predict.samples import Quantity, samples_of


class FunctionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one function.

    Attributes:
        name: Its name.
        version: The version of its code.
        samples: How many of its runs are known.
        median_s: The median of their run times; NaN if there are none.
        spread_s: Half of the range from the 10th to the 90th percentile of their run times.
        model: How run time depends on input size and resources, in words.
        error_percent: The mean error in predicting memory sizes and groups of input sizes that were left out when
            fitting; NaN if too few of either were seen.
    """

    name: str
    version: str
    samples: int
    median_s: float
    spread_s: float
    model: str
    error_percent: float


def summarise(records: Records) -> list[FunctionSummary]:
    """Sum up each function of a history, in the order in which they were recorded last."""
    return [_summary(records, version, name) for version, name in records.functions.items()]


def _summary(records: Records, version: str, name: str) -> FunctionSummary:
    series = [one for one in records.series if one.of.kind is Kind.TASK and one.of.function == version]
    samples = samples_of(series, Quantity.EXECUTION, subject="same function", unit="run")
    if not len(samples):
        return FunctionSummary(
            name=name,
            version=version,
            samples=0,
            median_s=math.nan,
            spread_s=math.nan,
            model="no run time known",
            error_percent=math.nan,
        )
    model = FittedLaws().fit(samples, Quantity.EXECUTION)
    low, middle, high = np.quantile(samples.values, [0.1, 0.5, 0.9])
    return FunctionSummary(
        name=name,
        version=version,
        samples=len(samples),
        median_s=float(middle),
        spread_s=float(high - low) / 2,
        model=in_words(model),
        error_percent=100 * model.left_out_error,
    )


def in_words(model: FittedModel) -> str:
    """The most plausible law of run time, such as `0.02 s + 1.3 s·(size/1 MB)^0.9·(memory/1024 MB)^-0.8`."""
    law, factor = model.fit.law, math.exp(model.fit.log_factor + model.quantiles.at(0.5))
    alpha, gamma = float(law.alpha[0]), float(law.gamma[0])
    cap, unit = math.exp(float(law.cap[0])), "MB" if model.axis == "memory" else "CPUs"
    limit = f", up to {cap:.4g} {unit}" if math.isfinite(cap) else ""
    by_size = f"·(size/1 MB){_power(alpha)}"
    by_resources = f"·({model.axis}/{math.exp(model.fit.usual_resources):.3g} {unit}{limit}){_power(-gamma)}"
    constant, with_size, with_resources, with_both = (factor * weight for weight in law.terms(0))
    if alpha == 1:  # what is added to sizes belongs to the terms without size
        added = model.offset / (model.usual_size + model.offset)
        constant, with_resources = constant + added * with_size, with_resources + added * with_both
    per_mb = ((model.usual_size + model.offset) / MB) ** -alpha
    terms = (
        (constant, 1.0, ""),
        (with_size, per_mb, by_size),
        (with_resources, 1.0, by_resources),
        (with_both, per_mb, by_size + by_resources),
    )
    shown = [f"{part * unit_s:.2g} s{words}" for part, unit_s, words in terms if part > _NEGLIGIBLE * factor]
    return " + ".join(shown)


_NEGLIGIBLE = 0.005


def _power(exponent: float) -> str:
    return "" if exponent == 1 else f"^{exponent:.2g}"
