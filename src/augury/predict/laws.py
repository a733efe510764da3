"""Candidate laws of how a quantity depends on size and resources.

With S = (size / usual size)^a and H = (usual resources / resources)^g, where resources beyond a cap help no more, each
law is a sum of non-negative terms that make 1 under the usual circumstances, up to one factor c that is fitted:

    product   c · (φ + (1-φ)·S) · (ψ + (1-ψ)·H)     overhead and work, both with a part that resources do not help
    latency   c · (φ + (1-φ)·S · (ψ + (1-ψ)·H))     an overhead that nothing helps: latency and bandwidth
    crossed   c · (φ·H + (1-φ)·S)                   an overhead that needs the CPU, then work that waits

They cover constants (φ = ψ = 1), power laws (φ = ψ = 0), power laws with an offset, and Amdahl's law (g = 1), which
with a cap stops where a single thread has a CPU of its own. All are non-decreasing in size and non-increasing in
resources. Every parameter comes from a grid, so that all laws are judged at once by a few matrix products, and none
can get stuck in a bad fit; `split` makes the grid finer where it matters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from augury.predict.samples import Floats

PRODUCT, LATENCY, CROSSED = 0, 1, 2
_LARGE = 300.0  # of a logarithm: exp of it, squared, is still a number
_SMALLEST = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """Many laws at once: columns of parameters, one row each.

    Attributes:
        alpha: The power of size.
        phi: The part that does not grow with size, under the usual circumstances.
        gamma: The power of resources.
        cap: The logarithm of the resources beyond which more do not help.
        psi: The part that resources do not help, under the usual circumstances.
        form: PRODUCT, LATENCY or CROSSED.
        log_prior: How plausible a law is before anything was seen; a logarithm.
        family: Numbers from 0 on, ascending; families are compared with each other by cross-validation.
    """

    alpha: Floats
    phi: Floats
    gamma: Floats
    cap: Floats
    psi: Floats
    form: npt.NDArray[np.intp]
    log_prior: Floats
    family: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.alpha)

    def where(self, chosen: npt.NDArray[np.intp]) -> "Laws":
        """Some of them."""
        return Laws(**{name: getattr(self, name)[chosen] for name in Laws.__slots__})

    def log_values(self, sizes: Floats, resources: Floats, usual_resources: float) -> Floats:
        """The logarithm of each law (rows) at points (columns), for c = 1.

        Args:
            sizes: The logarithm of size by usual size, at each point.
            resources: The logarithm of the resources, at each point.
            usual_resources: The logarithm of the usual resources.
        """
        alphas, at_alpha = np.unique(self.alpha, return_inverse=True)
        both = 1000 * self.gamma + np.minimum(self.cap, 100.0)  # one number for each pair: sorting pairs takes longer
        _, kinds, at_kind = np.unique(both, return_index=True, return_inverse=True)
        by_size = np.exp(np.clip(np.multiply.outer(alphas, sizes), -_LARGE, _LARGE))
        gamma, cap = self.gamma[kinds, None], self.cap[kinds, None]
        lack = np.minimum(usual_resources, cap) - np.minimum(resources[None, :], cap)
        by_resources = np.exp(np.clip(gamma * lack, -_LARGE, _LARGE))
        return self._log_sums(by_size[at_alpha], by_resources[at_kind])

    def _log_sums(self, grown: Floats, helped: Floats) -> Floats:
        constant, with_size, with_resources, with_both = self._weights()
        total = with_both[:, None] * helped
        total += with_size[:, None]
        total *= grown
        helped *= with_resources[:, None]
        total += helped
        total += constant[:, None]
        np.maximum(total, _SMALLEST, out=total)
        return np.log(total, out=total)

    def _weights(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The weights of 1, S, H and S·H."""
        phi, psi = self.phi, self.psi
        is_product, crossed = self.form == PRODUCT, self.form == CROSSED
        constant = np.where(is_product, phi * psi, np.where(crossed, 0.0, phi))
        with_resources = np.where(is_product, phi * (1 - psi), np.where(crossed, phi, 0.0))
        with_size = np.where(crossed, 1 - phi, (1 - phi) * psi)
        with_both = np.where(crossed, 0.0, (1 - phi) * (1 - psi))
        return constant, with_size, with_resources, with_both

    def terms(self, row: int) -> tuple[float, float, float, float]:
        """The weights of 1, S, H and S·H in one law."""
        constant, with_size, with_resources, with_both = (float(column[row]) for column in self._weights())
        return constant, with_size, with_resources, with_both

    def split(self, width: float) -> "Laws":
        """Each law as a family of neighbours that share its prior plausibility.

        Args:
            width: How far apart neighbours are, as a part of the distances of the grid.
        """
        inside = [self.alpha > 0, (self.phi > 0) & (self.phi < 1), self.gamma > 0, (self.psi > 0) & (self.psi < 1)]
        movable = np.stack(inside, axis=1)
        rows, moves = np.nonzero(~np.any((_STEPS[None, :, :] != 0) & ~movable[:, None, :], axis=2))
        steps, whole = width * _STEPS[moves], self.where(rows)
        return replace(
            whole,
            alpha=np.maximum(whole.alpha + _POWER_STEP * steps[:, 0], 0.0),
            phi=_nudged(whole.phi, _ODDS_STEP * steps[:, 1]),
            gamma=np.maximum(whole.gamma + _POWER_STEP * steps[:, 2], 0.0),
            psi=_nudged(whole.psi, _ODDS_STEP * steps[:, 3]),
            log_prior=whole.log_prior + np.sum(_STEP_PRIORS[moves] * movable[rows], axis=1),
        )

    def joined(self, other: "Laws") -> "Laws":
        """These and others."""
        return Laws(**{name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in Laws.__slots__})


_POWER_STEP, _ODDS_STEP = 0.5, 1.2  # about the distances of the coarse grid
_STEPS = np.array(list(product((0.0, -1.0, 1.0), repeat=4)))
_STEP_PRIORS = np.log(np.where(_STEPS == 0, [0.6, 1 / 3, 0.6, 1 / 3], [0.2, 1 / 3, 0.2, 1 / 3]))  # powers: rather 1


def _nudged(share: Floats, step: Floats) -> Floats:
    """A share moved on the scale of log odds; 0 and 1 stay."""
    inside = (share > 0) & (share < 1)
    odds = np.where(inside, share, 0.5) / np.where(inside, 1 - share, 0.5) * np.exp(step)
    return np.where(inside, odds / (1 + odds), share)


@dataclass(frozen=True, slots=True)
class Shape:
    """One way in which size, or resources, may matter.

    Attributes:
        power: a or g; 0 if it does not matter.
        prior: How plausible it is, beside others.
        cap: The resources beyond which more do not help, as they are; ignored for sizes.
        share: The part that it does not concern, if that is known; otherwise a grid is tried.
    """

    power: float
    prior: float
    cap: float = np.inf
    share: float | None = None


def _shares(*log_odds: float) -> tuple[float, ...]:
    return (0.0, *(1 / (1 + math.exp(-odds)) for odds in log_odds))


_COARSE_PHI = _shares(-6, -4, -2.5, -1.2, 0, 1.2, 2.5, 4, 6)
_COARSE_PSI = _shares(-3.5, -2, -0.8, 0.4, 1.6, 3)
_FINE = _shares(-8, -6.5, -5, -4, -3.2, -2.5, -1.8, -1.2, -0.6, 0, 0.6, 1.2, 1.8, 2.5, 3.2, 4, 5, 6.5, 8)


def all_laws(by_size: Sequence[Shape], by_resources: Sequence[Shape], forms: Sequence[int]) -> Laws:
    """Every combination of how size and how resources matter, with a grid of shares.

    Shapes of power 0 say that size, or that resources, do not matter. If all do, that side is left out.
    """
    both = any(shape.power for shape in by_size) and any(shape.power for shape in by_resources)
    phis, psis = (_COARSE_PHI, _COARSE_PSI) if both else (_FINE, _FINE)
    rows: list[tuple[float, ...]] = []
    for family, (size, help_) in enumerate(product(by_size, by_resources)):
        fixed, unhelped = _shares_of(size, phis, _OVERHEAD), _shares_of(help_, psis, _UNHELPED)
        possible = forms if size.power and help_.power else (PRODUCT,)
        for form in possible:
            prior = size.prior * help_.prior / len(possible)
            for (phi, phi_prior), (psi, psi_prior) in product(fixed, unhelped if form != CROSSED else [(0.0, 1.0)]):
                log_prior = math.log(prior * phi_prior * psi_prior)
                rows.append((size.power, phi, help_.power, math.log(help_.cap), psi, form, log_prior, family))
    columns = np.array(rows).T
    return Laws(
        alpha=columns[0],
        phi=columns[1],
        gamma=columns[2],
        cap=columns[3],
        psi=columns[4],
        form=columns[5].astype(np.intp),
        log_prior=columns[6],
        family=columns[7].astype(np.intp),
    )


_OVERHEAD, _UNHELPED = 0.15, 1.0  # how plausible a share of almost 1 is, beside one of almost 0


def _shares_of(shape: Shape, grid: Sequence[float], least: float) -> list[tuple[float, float]]:
    """The shares that a shape does not concern, and how plausible each is."""
    if not shape.power:
        return [(1.0, 1.0)]
    if shape.share is not None:
        return [(shape.share, 1.0)]
    weights = [1 - share + least * share for share in grid]
    return [(share, weight / sum(weights)) for share, weight in zip(grid, weights, strict=True)]
