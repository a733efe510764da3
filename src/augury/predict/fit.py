"""Fitting: which laws explain the samples, and what they leave over.

The problem: a handful of samples at three memory sizes must already say something about a fourth; thousands of them
must say it precisely, whatever the true law is. The idea, in three steps:

1. *Judge* every law of a grid at once. Its factor c is a weighted mean of logarithms; its weight is its prior
   plausibility times how well it explains the cells. Families of laws also earn or lose weight by cross-validation:
   by how well they predict memory sizes, and groups of input sizes, that were left out whole.
2. *Average* the laws, as logarithms, by their weights. One sample gives the mean of what is plausible, many one law.
3. *Correct* the average by what the cells still deviate from it, as far as the number of samples supports that,
   fading out with the distance (a Gaussian process). Where much was measured, measurements win over laws.

    cells ──judge──▶ weights ──average──▶ law ──correct──▶ surface

The cost is one pass over some 4,000 laws at up to 64 cells, and a few over hundreds of finer ones around the best.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from augury.predict.cells import Cells
from augury.predict.laws import Laws
from augury.predict.samples import Floats
from augury.predict.surface import Surface

MISFIT = 0.1
"""How far laws are expected to be off, as a standard deviation of logarithms, before residuals tell."""
_MISFIT_WEIGHT = 1.0  # how many cells that expectation is worth
_OUTLYING, _ODD = 2.0, 3.0  # standard deviations beyond which a cell loses weight
_NOISE_WEIGHT = 4.0  # how many samples the expected noise is worth
_ROUNDS = 3
_ROUGH = 8
_UNFELT = 1e-5  # of the weight of the best law
_POOL = 600
_WIDTHS = ((0.33, 10), (0.11, 5), (0.037, 3))  # how far apart, and how many are split; thirds do not meet again
_KEPT = 64
_MOST_RESOURCES, _SIZE_GROUPS, _LEAST_GROUPS = 12, 5, 3
_FADES_SIZE, _FADES_RESOURCES = 1.0, 0.25  # how far corrections reach, in logarithms
_MISFITS = (0.0, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)  # how far the truth may be from laws, as a standard deviation
_CORRECTED_FROM, _CREDIBLE = 4, 3
_TABLE_STEP, _FAR_STEP = 0.5, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Where the samples are.

    Attributes:
        usual_resources: The mean logarithm of resources, to which laws refer.
        resource_limits: The smallest and the largest logarithm of resources that a table has to cover.
        size_limits: The same for the logarithm of size by usual size.
        kinks: Logarithms of resources where laws have a corner.
        growth: How the quantity may grow with size, if all samples are of one size; None if they tell themselves.
    """

    usual_resources: float
    resource_limits: tuple[float, float]
    size_limits: tuple[float, float]
    kinks: tuple[float, ...] = ()
    growth: Laws | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What fitting found.

    Attributes:
        surface: The logarithm of the quantity over size and resources.
        leverage: For each cell, how much of a change of its mean the surface there follows; from 0 to 1.
        law: The most plausible law, and its factor's logarithm.
        log_factor: That logarithm.
        usual_resources: The logarithm of the resources that the law refers to.
        left_out_error: The mean relative error in predicting cells whose whole memory size or group of sizes was left
            out; NaN if there are not enough of either.
    """

    surface: Surface
    leverage: Floats
    law: Laws
    log_factor: float
    usual_resources: float
    left_out_error: float


@dataclass(frozen=True, slots=True)
class _Judged:
    laws: Laws
    log_values: Floats
    log_factors: Floats
    weights: Floats

    def at(self, points: Floats) -> Floats:
        """The average law at points whose log values are given, laws by points."""
        return np.asarray(self.weights @ (points + self.log_factors[:, None]), dtype=np.float64)

    def strongest(self, most: int) -> "_Judged":
        """The laws that matter, most plausible first."""
        order = np.argsort(-self.weights, kind="stable")[:most]
        order = order[self.weights[order] > _UNFELT * self.weights[order[0]]]
        weights = self.weights[order] / self.weights[order].sum()
        return _Judged(self.laws.where(order), self.log_values[order], self.log_factors[order], weights)


def fit_laws(laws: Laws, cells: Cells, values: Floats, noise: float, where: Circumstances) -> Fit:
    """Fit laws to samples.

    Args:
        laws: The candidates.
        cells: Where the samples are.
        values: The logarithm of each sample's value.
        noise: The standard deviation of a single sample around the truth, as expected before looking.
        where: What to cover.
    """
    log_values = laws.log_values(cells.sizes, cells.resources, where.usual_resources)
    centres, expected = _summed_up(cells, values, noise)
    families = int(laws.family[-1]) + 1
    rough, variances = _judge(laws, log_values, centres, expected, np.zeros(families))
    if cells.wide:
        within = _slope(rough.strongest(_ROUGH), cells, where)
        centres, expected = _summed_up(cells, values - within, noise)
    rough = rough.strongest(_POOL)
    bonus, error = _cross_validated(rough, centres, variances, _partitions(cells), families)
    judged, variances = _judge(rough.laws, rough.log_values, centres, expected, bonus)
    for width, most in _WIDTHS:
        judged = _refined(judged, cells, where, width, most)
        judged, variances = _judge(judged.laws, judged.log_values, centres, expected, bonus)
    best = judged.strongest(_KEPT if judged.laws.alpha.any() and judged.laws.gamma.any() else _POOL)
    by_law = _law_leverage(best.weights, best.log_values + best.log_factors[:, None], variances)
    surface, by_correction = _corrected(_tabulated(best, cells, where), cells, values)
    return Fit(
        surface=surface,
        leverage=by_law + (1 - by_law) * by_correction,
        law=best.laws.where(np.array([0])),
        log_factor=float(best.log_factors[0]),
        usual_resources=where.usual_resources,
        left_out_error=error,
    )


def _refined(judged: _Judged, cells: Cells, where: Circumstances, width: float, most: int) -> _Judged:
    """The laws that matter, the best of them split into finer ones; not judged yet."""
    pool = judged.strongest(_POOL)
    leading = _leading(pool.laws, most)
    finer = pool.laws.where(leading).split(width)
    rest = np.setdiff1d(np.arange(len(pool.laws)), leading)
    log_values = finer.log_values(cells.sizes, cells.resources, where.usual_resources)
    laws = finer.joined(pool.laws.where(rest))
    return _Judged(laws, np.concatenate([log_values, pool.log_values[rest]]), np.zeros(0), np.zeros(0))


def _leading(laws: Laws, most: int) -> npt.NDArray[np.intp]:
    """The first laws, and the first of each family: the grid may be too coarse to show which family is right."""
    _, first = np.unique(laws.family, return_index=True)
    return np.union1d(np.arange(min(most, len(laws))), np.sort(first)[:most])


def _summed_up(cells: Cells, values: Floats, noise: float) -> tuple[Floats, Floats]:
    """The centre of each cell, and how far the laws may be from it: by noise, and because they are but laws."""
    centres = cells.centres(values)
    scale, freedom = cells.scale(values, centres)
    variance = (_NOISE_WEIGHT * noise**2 + freedom * scale**2) / (_NOISE_WEIGHT + freedom)
    return centres, MISFIT**2 + variance / cells.counts


def _slope(rough: "_Judged", cells: Cells, where: Circumstances) -> Floats:
    """For each sample, how the law there differs from the law in the middle of its cell."""
    middle = rough.at(rough.log_values)
    points = rough.laws.log_values(cells.sample_sizes, cells.sample_resources, where.usual_resources)
    return rough.at(points) - middle[cells.of]


def _judge(laws: Laws, log_values: Floats, centres: Floats, start: Floats, bonus: Floats) -> tuple[_Judged, Floats]:
    """Weigh laws by how well they explain cells; repeat with what was learned of the cells' variances."""
    log_prior = laws.log_prior + bonus[laws.family]
    variances = start
    for _ in range(_ROUNDS):
        weights, log_factors = _posterior(log_values, centres, 1 / variances, log_prior)
        felt = np.flatnonzero(weights > _UNFELT * weights.max())
        share, values = weights[felt] / weights[felt].sum(), log_values[felt] + log_factors[felt, None]
        residuals = centres - share @ values
        freedom = max(len(centres) - float(np.sum(_law_leverage(share, values, variances))), 0.0)
        odd = np.minimum(residuals**2 / start, _ODD**2)
        inflation = (_MISFIT_WEIGHT + float(np.sum(odd))) / (_MISFIT_WEIGHT + freedom)
        expected = start * inflation
        variances = expected / np.minimum(1.0, _OUTLYING * np.sqrt(expected) / np.maximum(np.abs(residuals), 1e-9))
    return _Judged(laws, log_values, log_factors, weights), variances


def _posterior(log_values: Floats, centres: Floats, precision: Floats, log_prior: Floats) -> tuple[Floats, Floats]:
    """The weights of laws, and the logarithm of each one's factor."""
    residuals = centres - log_values
    total = precision.sum()
    log_factors = residuals @ precision / total
    misfit = (residuals * residuals) @ precision - total * log_factors**2
    plausible = log_prior - 0.5 * misfit
    weights = np.exp(plausible - plausible.max())
    return weights / weights.sum(), log_factors


def _law_leverage(weights: Floats, values: Floats, variances: Floats) -> Floats:
    """How much the average law at a cell follows that cell: its posterior variance by the cell's own."""
    uncertainty = weights @ (values - weights @ values) ** 2 + 1 / np.sum(1 / variances)
    return np.minimum(uncertainty / variances, 1.0)


def _partitions(cells: Cells) -> list[npt.NDArray[np.intp]]:
    """What cross-validation leaves out, as a number for each cell: its memory size; its group of input sizes."""
    partitions = (_groups(cells.resources, _MOST_RESOURCES), _groups(cells.sizes, _SIZE_GROUPS))
    return [groups for groups in partitions if groups.max() >= _LEAST_GROUPS - 1]


def _groups(values: Floats, most: int) -> npt.NDArray[np.intp]:
    """Neighbouring distinct values in so many groups at most."""
    distinct, codes = np.unique(values, return_inverse=True)
    return (codes.reshape(-1) * min(most, len(distinct)) // len(distinct)).astype(np.intp)


def _cross_validated(
    rough: _Judged, centres: Floats, variances: Floats, partitions: list[npt.NDArray[np.intp]], families: int
) -> tuple[Floats, float]:
    """What each family earns by predicting what it has not seen, and the error of all of them together."""
    order = np.argsort(rough.laws.family, kind="stable")
    laws, residuals = rough.laws.where(order), centres - rough.log_values[order]
    present, codes = np.unique(laws.family, return_inverse=True)
    starts = np.searchsorted(laws.family, present)
    earned, errors = np.zeros(families), [np.zeros(0)]
    for group in partitions:
        known = np.not_equal.outer(group, np.arange(group.max() + 1)) / variances[:, None]
        total = known.sum(axis=0)
        log_factors = residuals @ known / total
        plausible = laws.log_prior[:, None] - 0.5 * (residuals**2 @ known - total * log_factors**2)
        best = np.maximum.reduceat(plausible, starts, axis=0)
        shares = np.exp(plausible - best[codes])
        sums = np.add.reduceat(shares, starts, axis=0)
        missed = np.add.reduceat((log_factors[:, group] - residuals) * shares[:, group], starts, axis=0)
        missed /= sums[:, group]
        earned[present] -= np.log1p(missed**2 / (4 * variances)) @ (1 / np.bincount(group)[group])
        believed = np.exp(best - best.max(axis=0)) * sums
        together = np.sum(missed * believed[:, group], axis=0) / believed.sum(axis=0)[group]
        errors.append(np.abs(np.expm1(np.clip(together, -30, 30))))
    return earned, float(np.mean(np.concatenate(errors))) if partitions else np.nan


def _tabulated(best: _Judged, cells: Cells, where: Circumstances) -> Surface:
    """The average law as a table."""
    sizes, resources = _spread(cells.sizes, where.size_limits), _spread(cells.resources, where.resource_limits)
    resources = np.union1d(resources, [kink for kink in where.kinks if resources[0] < kink < resources[-1]])
    rows = sizes if best.laws.alpha.any() else sizes[:1]  # laws that do not depend on size need one row only
    points = np.repeat(rows, len(resources)), np.tile(resources, len(rows))
    table = best.at(best.laws.log_values(*points, where.usual_resources)).reshape(len(rows), len(resources))
    table = np.broadcast_to(table, (len(sizes), len(resources)))
    if where.growth is not None:
        plausible = np.exp(where.growth.log_prior)
        grown = where.growth.log_values(sizes, np.zeros(len(sizes)), 0.0)
        table = table + (plausible @ grown / plausible.sum())[:, None]
    return Surface(sizes, resources, table)


def _corrected(plain: Surface, cells: Cells, values: Floats) -> tuple[Surface, Floats]:
    """The table moved towards what was measured, and how much it follows each cell."""
    residuals = values - plain.at(cells.sample_sizes, cells.sample_resources)
    centres = cells.centres(residuals)
    scale, freedom = cells.scale(residuals, centres)
    overall = 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))
    variance = (freedom * scale**2 + 4 * overall**2) / (freedom + 4)
    if len(values) < _CORRECTED_FROM or variance <= 0:
        return plain, np.zeros(len(cells))
    root = np.sqrt(cells.counts / variance)
    alone = cells.counts < _CREDIBLE  # a cell of fewer samples may be a straggler as a whole
    centres = np.where(alone, np.clip(centres, -_ODD / root, _ODD / root), centres)
    near = _nearness(cells.sizes, cells.resources, cells)
    power, basis = np.linalg.eigh(root[:, None] * near * root[None, :])
    power = np.maximum(power, 0.0)
    signal = basis.T @ (root * centres)
    gain = _gain(power, signal)
    strength = root * (basis @ (gain * signal))
    sizes, resources = np.array(plain.sizes), np.array(plain.resources)
    points = np.repeat(sizes, len(resources)), np.tile(resources, len(sizes))
    moved = plain.table + (_nearness(*points, cells) @ strength).reshape(plain.table.shape)
    return Surface(sizes, resources, moved), (basis**2) @ (gain * power)


def _nearness(sizes: Floats, resources: Floats, cells: Cells) -> Floats:
    """How much a deviation at each cell (columns) says about points (rows): 1 at the cell itself, fading out."""
    apart = ((sizes[:, None] - cells.sizes[None, :]) / _FADES_SIZE) ** 2
    apart += ((resources[:, None] - cells.resources[None, :]) / _FADES_RESOURCES) ** 2
    return np.asarray(np.exp(-0.5 * np.minimum(apart, 80.0)), dtype=np.float64)


def _gain(power: Floats, signal: Floats) -> Floats:
    """How much of each independent deviation to believe, by what deviations of laws are plausible given all of them."""
    misfits = np.array(_MISFITS) ** 2
    kept = 1 / (1 + np.multiply.outer(misfits, power))
    plausible = 0.5 * np.sum(np.log(kept), axis=1) - 0.5 * kept @ signal**2 - np.array(_MISFITS) / 0.1
    weights = np.exp(plausible - plausible.max())
    return np.asarray((weights * misfits) @ kept / weights.sum(), dtype=np.float64)


def _spread(seen: Floats, limits: tuple[float, float]) -> Floats:
    low, high = float(seen.min()), float(seen.max())
    near = np.arange(low - 3.0, high + 3.0 + _TABLE_STEP, _TABLE_STEP)
    below = np.arange(limits[0], low - 3.0, _FAR_STEP)
    above = np.arange(high + 3.0, limits[1], _FAR_STEP)
    knots = np.concatenate([limits, below, near, above, seen])
    knots = np.unique(knots[(knots >= limits[0]) & (knots <= limits[1])])
    return np.asarray(knots[np.append(True, np.diff(knots) > 1e-6)], dtype=np.float64)
