"""Cells: samples made under about the same circumstances, as one point with a weight.

Fitting looks at a few dozen cells instead of thousands of samples. A cell's value is a robust mean of logarithms, so
that an absurd measurement moves it little.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from augury.predict.samples import Floats

Indices = npt.NDArray[np.intp]

MOST_CELLS = 64
_SIZE_BINS = 12
_RESOURCE_BINS = 12
_CLIP = 1.5  # how many standard deviations a sample may pull at a cell's mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Columns of cells.

    Attributes:
        sizes: Mean logarithm of size by usual size.
        resources: Mean logarithm of resources.
        counts: How many samples are in each.
        of: For each sample, its cell.
        sample_sizes: For each sample, its logarithm of size by usual size.
        sample_resources: For each sample, its logarithm of resources.
    """

    sizes: Floats
    resources: Floats
    counts: Floats
    of: Indices
    sample_sizes: Floats
    sample_resources: Floats

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def wide(self) -> bool:
        """Whether samples of one cell differ in their circumstances."""
        return bool(np.any(self.sample_sizes != self.sizes[self.of]) and len(self) < len(self.of))

    def means(self, values: Floats) -> Floats:
        """The plain mean of the samples' values in each cell."""
        return np.asarray(np.bincount(self.of, weights=values, minlength=len(self)) / self.counts, dtype=np.float64)

    def medians(self, values: Floats) -> Floats:
        """The median of the samples' values in each cell."""
        order = np.lexsort((values, self.of))
        ends = np.cumsum(self.counts).astype(np.intp)
        starts = ends - self.counts.astype(np.intp)
        low, high = (starts + ends - 1) // 2, (starts + ends) // 2
        ordered = values[order]
        return np.asarray(0.5 * (ordered[low] + ordered[high]), dtype=np.float64)

    def scale(self, values: Floats, centres: Floats) -> tuple[float, float]:
        """The standard deviation of samples around their cells' centres, and its degrees of freedom.

        Far deviations count as if they were at three standard deviations.
        """
        freedom = float(np.sum(self.counts - 1))
        if freedom <= 0:
            return 0.0, 0.0
        away = np.abs(values - centres[self.of])[self.counts[self.of] > 1]
        limit = 3 * 1.4826 * float(np.median(away))
        if limit > 0:
            away = np.minimum(away, limit)
        return float(np.sqrt(np.sum(away * away) / freedom)), freedom

    def centres(self, values: Floats) -> Floats:
        """A robust mean of each cell: no sample pulls with more than a few standard deviations."""
        medians = self.medians(values)
        scale, _ = self.scale(values, medians)
        reach = _CLIP * scale
        return self.means(np.clip(values, medians[self.of] - reach, medians[self.of] + reach))


def cells_of(sizes: Floats, resources: Floats) -> Cells:
    """Sort samples into cells: exact circumstances if they are few, bins of equal counts otherwise."""
    of = _joint(_codes(resources, len(resources)), _codes(sizes, len(sizes)))
    if of.max() + 1 > MOST_CELLS:
        by_resources = _codes(resources, _RESOURCE_BINS)
        bins = max(4, min(_SIZE_BINS, MOST_CELLS // int(by_resources.max() + 1)))
        of = _joint(by_resources, _codes(sizes, bins))
    counts = np.bincount(of).astype(np.float64)
    return Cells(
        sizes=np.bincount(of, weights=sizes) / counts,
        resources=np.bincount(of, weights=resources) / counts,
        counts=counts,
        of=of,
        sample_sizes=sizes,
        sample_resources=resources,
    )


def _joint(first: Indices, second: Indices) -> Indices:
    """Codes of pairs: dense, from 0 on."""
    return np.unique(first * (second.max() + 1) + second, return_inverse=True)[1].reshape(-1).astype(np.intp)


def _codes(values: Floats, most: int) -> Indices:
    """A code for each distinct value, or for each bin of about equally many samples if there are more than `most`."""
    distinct, codes = np.unique(values, return_inverse=True)
    if len(distinct) <= most:
        return codes.reshape(-1).astype(np.intp)
    # Half of the bins hold as many samples each, half are as wide: a few large values among many small ones keep
    # bins of their own.
    half = most // 2
    even = np.linspace(distinct[0], distinct[-1], most - half + 1)[1:-1]
    edges = np.unique(np.concatenate([np.quantile(values, np.arange(1, half) / half), even]))
    filled = np.unique(np.searchsorted(edges, values, side="right"), return_inverse=True)[1]
    return filled.reshape(-1).astype(np.intp)
