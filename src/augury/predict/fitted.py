"""The default estimator: laws of size and resources, fitted to each function; quantiles from residuals.

`fit` says how laws are fitted, `laws` which there are, `expectations` what is assumed before anything is measured.

Resources are CPUs and memory, and which of them matters depends on the platform: on Lambda, CPUs come with memory;
elsewhere they are chosen apart, and memory alone makes nothing faster. So a model looks at one *axis*: CPUs if they
varied, memory if only that did. If neither did, the recorded processor time says what more CPUs would help.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from augury.config import Resources
from augury.predict.cells import Cells, cells_of
from augury.predict.drift import shifts
from augury.predict.estimate import Estimate
from augury.predict.estimator import NO_SCALING, Scaling
from augury.predict.expectations import EXPECTATIONS, Expectation
from augury.predict.fit import Circumstances, Fit, fit_laws
from augury.predict.laws import PRODUCT, Laws, Shape, all_laws
from augury.predict.priors import CPU_BOUND_SHARE, FULL_CPU_MB
from augury.predict.residuals import ResidualQuantiles
from augury.predict.samples import Floats, Quantity, Samples
from augury.predict.sla import SLA, fraction_of

_LARGEST = 690.0  # exp of it is still a number
_ABSURD = ((math.log(100), 0.02), (math.log(10_000), 0.1))  # how far off, and how many of all may be
_ABSURD_SCALES = 12.0
_ABSURD_FROM = 5
_SMALL_BYTES = 256 * 1024.0  # what inputs cost that are smaller than this is overhead
_LARGEST_SIZE = 1e18
_ONE_CPU = 1.1  # of processor time by run time: more shows several threads
_TOLD = 6.0  # how plausible that law is, beside all others together
_MOST_LEVERAGE = 0.8
_LIMITS = {"memory": (math.log(16), math.log(2**24)), "cpus": (math.log(0.01), math.log(1024))}


class FittedLaws:
    """Fits laws of size and resources; the default estimator."""

    name = "fitted laws"

    def fit(self, samples: Samples, quantity: Quantity) -> "FittedModel":
        """Learn from samples."""
        expected = EXPECTATIONS[quantity]
        pace = _pace(samples) if quantity is Quantity.EXECUTION else _NO_PACE
        models = [_fitted(samples, expected, axis, pace) for axis in _axes(samples, expected)]
        errors = [model.left_out_error for model in models]
        if any(map(math.isnan, errors)):  # too few levels to leave one out: what explains the samples better?
            errors = [model.quantiles.scale for model in models]
        return models[int(np.argmin(errors))]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel:
    """A law of size and resources, the residuals around it, and what they rest on.

    Attributes:
        fit: The law, and its surface.
        quantiles: The residuals.
        axis: What of the resources matters: `memory`, `cpus`, or nothing that was seen.
        seen: What was seen on that axis, as it is.
        pace: What CPUs do if they never varied.
        usual_size: The size to which laws refer.
        offset: Added to sizes before taking logarithms.
        size_range: The smallest and the largest size that was seen.
        memory_range: Likewise for memory.
        sized: Whether sizes were recorded at all; `in_bytes`: whether they are numbers of bytes.
        tiny: Added to values before taking logarithms.
        n: How many samples there were.
        basis: What this rests on, in words, without the resources.
    """

    fit: Fit
    quantiles: ResidualQuantiles
    axis: str
    seen: frozenset[float]
    pace: "_Pace"
    usual_size: float
    offset: float
    size_range: tuple[float, float]
    memory_range: tuple[float, float]
    sized: bool
    in_bytes: bool
    tiny: float
    n: int
    basis: str

    @property
    def left_out_error(self) -> float:
        """The mean relative error at memory sizes and input sizes that were left out; NaN if too few were seen."""
        return self.fit.left_out_error

    def predict(self, size: float, resources: Resources, sla: SLA, scaling: Scaling = NO_SCALING) -> Estimate:
        """Predict the quantity; see `Model`."""
        centre = self._log_centre(size, resources, scaling) + self.pace.log_factor(resources)
        middle = math.exp(min(centre, _LARGEST))
        value = math.exp(min(centre + self._log_margin(sla), _LARGEST)) - self.tiny
        low, high = self.quantiles.at(0.1), self.quantiles.at(0.9)
        spread = middle * 0.5 * (math.exp(min(high, 20.0)) - math.exp(min(low, 20.0)))
        return Estimate(max(value, 0.0), spread=min(spread, 1e300), n=self.n, basis=self._basis(size, resources))

    def values(self, sizes: Floats, resources: Resources, sla: SLA) -> Floats:
        """The values that `predict` gives for many sizes at once."""
        places = np.log((np.clip(sizes, 0.0, _LARGEST_SIZE) + self.offset) / (self.usual_size + self.offset))
        centres = self.fit.surface.at(places, np.full(len(places), _along(self.axis, resources)))
        logs = centres + self.pace.log_factor(resources) + self._log_margin(sla)
        return np.maximum(np.exp(np.minimum(logs, _LARGEST)) - self.tiny, 0.0)

    def law(self, resources: Resources, sla: SLA) -> Callable[[float], float]:
        """The values that `predict` gives, as a function of size alone: for those who ask one by one, and often."""
        surface = self.fit.surface.along(_along(self.axis, resources))
        pace, margin = self.pace.log_factor(resources), self._log_margin(sla)
        offset, usual, tiny = self.offset, self.usual_size + self.offset, self.tiny
        log, exp = math.log, math.exp

        def value(size: float) -> float:
            place = log(((size if size < _LARGEST_SIZE else _LARGEST_SIZE) + offset) / usual)
            centre = surface(place) + pace + margin
            found = exp(centre if centre < _LARGEST else _LARGEST) - tiny
            return found if found > 0.0 else 0.0

        return value

    def _log_margin(self, sla: SLA) -> float:
        fraction = fraction_of(sla)
        return math.log(self.quantiles.mean_factor) if math.isnan(fraction) else self.quantiles.at(fraction)

    def _log_centre(self, size: float, resources: Resources, scaling: Scaling) -> float:
        """The law's logarithm; beyond what was seen it follows the caller's exponents, if there are any."""
        extra, at = 0.0, _along(self.axis, resources)
        if scaling.size_exponent is not None:
            nearest = min(max(size, self.size_range[0]), self.size_range[1])
            extra += scaling.size_exponent * math.log((size + 1.0) / (nearest + 1.0))
            size = nearest
        if scaling.memory_exponent is not None:
            nearest = min(max(resources.memory_mb, self.memory_range[0]), self.memory_range[1])
            extra -= scaling.memory_exponent * math.log(resources.memory_mb / nearest)
            if self.seen:
                at = min(max(at, math.log(min(self.seen))), math.log(max(self.seen)))
        place = math.log((min(size, _LARGEST_SIZE) + self.offset) / (self.usual_size + self.offset))
        return self.fit.surface(place, at) + extra

    def _basis(self, size: float, resources: Resources) -> str:
        return f"{self._basis_of_resources(resources)}{self._basis_of_size(size)}"

    def _basis_of_size(self, size: float) -> str:
        least, most = self.size_range
        if not self.sized:
            return ", sizes not recorded" if size else ""
        if least / 2 <= size <= 2 * most or (size <= most and self.in_bytes and most <= _SMALL_BYTES):
            return ""
        return ", size assumed to matter" if least == most else ", beyond the sizes seen"

    def _basis_of_resources(self, resources: Resources) -> str:
        if self.axis and (resources.cpus if self.axis == "cpus" else resources.memory_mb) not in self.seen:
            return f"{self.basis}, {self.axis} fitted"
        if self.pace.speed_up(resources) == 1:
            return self.basis
        if self.pace.assumed:
            return f"{self.basis}, {'cpus' if resources.cpus != self.pace.seen_cpus else 'memory'} assumed to matter"
        return f"{self.basis}, cpus scaled by processor time"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """How CPUs speed a task up if they never varied.

    Attributes:
        share: The part of its time that needs the CPU, with the resources that were seen.
        seen_cpus: Those resources; `seen_mb`: the memory, if that may tell how many CPUs there really were; else 0.
        threads: How many CPUs it can use.
        assumed: Whether the share is a guess.
    """

    share: float
    seen_cpus: float
    threads: float
    seen_mb: float = 0.0
    assumed: bool = False

    def speed_up(self, resources: Resources) -> float:
        """How much faster the CPU-bound part is with these resources than with those that were seen."""
        if not self.share:
            return 1.0
        by_cpus = min(resources.cpus, self.threads) / min(self.seen_cpus, self.threads)
        by_memory = min(resources.memory_mb, FULL_CPU_MB) / min(self.seen_mb, FULL_CPU_MB) if self.seen_mb else 1.0
        return by_cpus * by_memory

    def log_factor(self, resources: Resources) -> float:
        """What to add to the logarithm of time; never rises with resources."""
        return math.log(1 - self.share + self.share / self.speed_up(resources))


_NO_PACE = _Pace(share=0.0, seen_cpus=1.0, threads=1.0)


def _pace(samples: Samples) -> _Pace:
    """What the processor time tells of a task that was only seen with so many CPUs; a guess if it is not known.

    Records without processor time are no worker's of ours. Where they say nothing of CPUs either, there may have been
    as many as come with the memory, as on Lambda.
    """
    seen = float(np.median(samples.cpus))
    known = np.isfinite(samples.cpu_share)
    if not known.any():
        memories = np.unique(samples.memory_mb)
        seen_mb = float(memories[0]) if len(memories) == 1 and seen == 1 else 0.0
        cpus = min(1.0, seen_mb / FULL_CPU_MB if seen_mb else seen)
        share = CPU_BOUND_SHARE / (CPU_BOUND_SHARE + (1 - CPU_BOUND_SHARE) * cpus)
        return _Pace(share=share, seen_cpus=seen, threads=1.0, seen_mb=seen_mb, assumed=True)
    used = float(np.median(samples.cpu_share[known]))
    if seen <= 1 or used <= 1:
        return _Pace(share=min(1.0, used / min(seen, 1.0)), seen_cpus=seen, threads=1.0)
    return _Pace(share=1.0, seen_cpus=seen, threads=used if used < 0.8 * seen else math.inf)


def _told_by_cpu_time(samples: Samples) -> Shape | None:
    """Amdahl's law as the processor time tells it, for a task that uses one CPU at most; None if it does not tell."""
    usual_cpus = float(np.exp(np.mean(np.log(np.unique(samples.cpus)))))
    known = np.isfinite(samples.cpu_share)
    if not known.any() or float(np.median(samples.cpu_share[known])) > _ONE_CPU:
        return None
    cpus = np.minimum(samples.cpus[known], 1.0)
    bound = np.minimum(samples.cpu_share[known] / cpus, 1.0)
    unbound = (1 - bound) / (1 - bound + bound * cpus / min(usual_cpus, 1.0))
    return Shape(1.0, _TOLD, cap=1.0, share=float(np.clip(np.median(unbound), 0.005, 0.995)))


def _along(axis: str, resources: Resources) -> float:
    """Where resources are on an axis, as a logarithm."""
    if axis == "memory":
        return math.log(resources.memory_mb)
    return math.log(resources.cpus) if axis == "cpus" else 0.0


def _axes(samples: Samples, expected: Expectation) -> tuple[str, ...]:
    """What of the resources may matter: what varied. Both, if they varied apart; the better one is to be found out."""
    cpus, memories = len(np.unique(samples.cpus)), len(np.unique(samples.memory_mb))
    if expected.by_memory == (Shape(0.0, 1.0),) or (cpus == 1 and memories == 1):
        return ("",)
    if cpus == 1:
        return ("memory",)
    pairs = len(np.unique(np.stack([samples.cpus, samples.memory_mb]), axis=1).T)
    return ("cpus",) if pairs == cpus or memories == 1 else ("cpus", "memory")


def _fitted(samples: Samples, expected: Expectation, axis: str, pace: _Pace) -> FittedModel:
    """Fit once; and again, if that shows absurd samples or drift."""
    seen_sizes = _told_apart(samples.sizes, expected)
    usual, offset = _usual_size(seen_sizes, expected)
    sizes = np.log((seen_sizes + offset) / (usual + offset))
    column = {"memory": samples.memory_mb, "cpus": samples.cpus}.get(axis, np.ones(len(samples)))
    resources = np.log(column)
    values = np.log(samples.values + expected.tiny)
    told = _told_by_cpu_time(samples) if axis == "cpus" and pace.share else None
    grows = samples.sized
    fit, cells = _fit(sizes, resources, values, expected, axis, told, grows=grows)
    kept = np.ones(len(values), dtype=np.bool_)
    if expected.timed:
        kept = _possible(values - fit.surface.at(sizes, resources))
    sizes, resources, values = sizes[kept], resources[kept], values[kept]
    alike = np.unique(np.stack([samples.cpus, samples.memory_mb]), axis=1, return_inverse=True)[1].reshape(-1)
    moved = shifts(_centred(values - fit.surface.at(sizes, resources), alike[kept].astype(np.float64)))
    if not expected.falls:
        moved = np.maximum(moved, 0.0)
    if moved.any() or not kept.all():
        values = values + moved
        fit, cells = _fit(sizes, resources, values, expected, axis, told, grows=grows)
    residuals = values - fit.surface.at(sizes, resources)
    leverage = np.minimum((fit.leverage / cells.counts)[cells.of], _MOST_LEVERAGE)
    return FittedModel(
        fit=fit,
        quantiles=ResidualQuantiles(residuals, _left_out(residuals, leverage, expected.noise), expected.noise),
        axis=axis,
        seen=frozenset(column.tolist()) if axis else frozenset(),
        pace=pace if len(np.unique(samples.cpus)) == 1 else _NO_PACE,
        usual_size=usual,
        offset=offset,
        size_range=(float(samples.sizes.min()), float(samples.sizes.max())),
        memory_range=(float(samples.memory_mb.min()), float(samples.memory_mb.max())),
        sized=samples.sized,
        in_bytes=expected.in_bytes,
        tiny=expected.tiny,
        n=len(samples),
        basis=f"{samples.subject}, {len(samples)} {samples.unit}{'s' if len(samples) != 1 else ''}"
        + (", recent ones differ" if moved.any() else ""),
    )


def _told_apart(sizes: Floats, expected: Expectation) -> Floats:
    """Sizes; all alike if they differ by so little that nothing can be learned from it, as those of numbers do."""
    least, most = float(sizes.min()), float(sizes.max())
    if expected.in_bytes and most <= _ALIKE_RATIO * least + _ALIKE_BYTES:
        return np.full(len(sizes), float(np.median(sizes)))
    return sizes


_ALIKE_RATIO, _ALIKE_BYTES = 1.05, 256.0


def _usual_size(sizes: Floats, expected: Expectation) -> tuple[float, float]:
    """The size that laws refer to, and what is added to sizes so that empty inputs have a logarithm."""
    sizes = np.minimum(sizes, _LARGEST_SIZE)
    positive = sizes[sizes > 0]
    usual = max(float(np.exp(np.mean(np.log(positive)))) if len(positive) else 0.0, expected.reference)
    varied = sizes.min() < sizes.max()
    least = 1e-9 if varied else _SMALL_BYTES if expected.in_bytes else 1e-3
    return usual, max(1e-3 * usual, least)


def _fit(
    sizes: Floats,
    resources: Floats,
    values: Floats,
    expected: Expectation,
    axis: str,
    told: Shape | None,
    *,
    grows: bool,
) -> tuple[Fit, Cells]:
    cells = cells_of(sizes, resources)
    sized = bool(sizes.min() < sizes.max())
    helped = bool(resources.min() < resources.max())
    by_resources = (expected.by_memory if axis == "memory" else expected.by_cpus) if helped else _ALIKE
    laws = _laws(expected.by_size if sized else _ALIKE, by_resources, expected.forms)
    if told is not None and helped:
        informed = all_laws(expected.by_size if sized else _ALIKE, (told,), expected.forms)
        laws = laws.joined(replace(informed, family=informed.family + laws.family[-1] + 1))
    single = float(resources[0])
    where = Circumstances(
        usual_resources=float(np.mean(cells.resources)),
        resource_limits=_LIMITS[axis] if helped else (single, single),
        size_limits=(min(float(sizes.min()), -7.0) - 1.0, 48.0),
        kinks=tuple(math.log(shape.cap) for shape in by_resources if math.isfinite(shape.cap)),
        growth=None if sized or not grows else _laws(expected.by_size, _ALIKE, (PRODUCT,)),
    )
    return fit_laws(laws, cells, values, expected.noise, where), cells


_ALIKE = (Shape(0.0, 1.0),)


@cache
def _laws(by_size: tuple[Shape, ...], by_resources: tuple[Shape, ...], forms: tuple[int, ...]) -> Laws:
    return all_laws(by_size, by_resources, forms)


def _centred(residuals: Floats, resources: Floats) -> Floats:
    """Residuals by their median at the same resources: new resources are no drift, though they are new."""
    centred = residuals.copy()
    for seen in np.unique(resources):
        chosen = resources == seen
        centred[chosen] -= np.median(residuals[chosen])
    return centred


def _possible(residuals: Floats) -> npt.NDArray[np.bool_]:
    """Which samples can be true: not a few that are beyond everything else, as after a clock was set.

    Many such samples are no accident: they stay, and make high percentiles what they are.
    """
    away = np.abs(residuals - np.median(residuals))
    usual = _ABSURD_SCALES * 1.4826 * float(np.median(away))
    possible = np.ones(len(residuals), dtype=np.bool_)
    for limit, part in _ABSURD:
        beyond = away > max(limit, usual)
        if len(residuals) >= _ABSURD_FROM and np.count_nonzero(beyond) <= max(1, part * len(residuals)):
            possible &= ~beyond
    return possible


def _left_out(residuals: Floats, leverage: Floats, noise: float) -> Floats:
    """What the prediction would have missed samples by without having seen them.

    A sample that the fit followed is further away than it seems. An outlier is not: the fit did not follow it.
    """
    away = np.abs(residuals - np.median(residuals)) / (1 - leverage)
    reach = _MOST_PULLED * max(1.4826 * float(np.median(away)), noise)
    return residuals + np.clip(residuals * leverage / (1 - leverage), -reach, reach)


_MOST_PULLED = 2.0
