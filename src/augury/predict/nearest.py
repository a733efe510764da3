"""The estimator of the Serverless Dataflows paper: the samples nearest to what is asked for.

1. *Same resources* if there are enough such samples; otherwise all samples, normalised to a baseline memory size by a
   fixed power of memory, and the result scaled back.
2. *Nearby sizes*: a window around the asked size widens until it holds enough samples. Within it, smaller, equal and
   larger ones take turns, the closest first, up to a limit. If no window holds enough, the nearest overall count.
3. *Average, median or percentile* of those.

It needs no model and follows whatever is dense in history; it knows nothing of what was never measured.
"""

import math

import numpy as np
import numpy.typing as npt

from augury.config import Resources
from augury.errors import DefinitionError
from augury.predict.estimate import Estimate
from augury.predict.estimator import NO_SCALING, Scaling
from augury.predict.samples import Floats, Quantity, Samples
from augury.predict.sla import SLA, fraction_of

BASELINE_MB = 1024.0
"""The memory size that samples are normalised to. Its choice cancels out."""
MEMORY_EXPONENTS = {
    Quantity.EXECUTION: 0.5,
    Quantity.UPLOAD: 0.5,
    Quantity.DOWNLOAD: 0.5,
    Quantity.COLD: 0.2,
    Quantity.WARM: 0.2,
    Quantity.OUTPUT: 0.0,
    Quantity.PEAK: 0.0,
}
"""Time falls with memory to this power, unless the caller says otherwise."""
_WINDOWS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""How far from the asked size samples may be, as a part of it."""

_Indices = npt.NDArray[np.intp]


class NearestSamples:
    """Predicts from the nearest samples.

    Args:
        enough: How many samples are enough, of the same resources or within a window.
        most: How many samples are used at most.
        size_exponent: A sample of another size counts as its value times the ratio of sizes to this power, unless
            the caller says otherwise; 1 is time per byte.
    """

    name = "nearest samples"

    def __init__(self, *, enough: int = 5, most: int = 20, size_exponent: float = 1.0) -> None:
        if not 1 <= enough <= most:
            raise DefinitionError(f"NearestSamples needs 1 <= enough <= most, not {enough!r} and {most!r}")
        self._enough, self._most, self._size_exponent = enough, most, size_exponent

    def fit(self, samples: Samples, quantity: Quantity) -> "NearestModel":
        """Keep the samples; they are the model."""
        return NearestModel(samples, MEMORY_EXPONENTS[quantity], self._size_exponent, self._enough, self._most)


class NearestModel:
    """Samples, and how to choose among them."""

    def __init__(self, samples: Samples, memory_exponent: float, size_exponent: float, enough: int, most: int) -> None:
        self._samples = samples
        self._memory_exponent, self._size_exponent = memory_exponent, size_exponent
        self._enough, self._most = enough, most

    def predict(self, size: float, resources: Resources, sla: SLA, scaling: Scaling = NO_SCALING) -> Estimate:
        """Predict the quantity; see `Model`."""
        fraction = fraction_of(sla)
        samples, values, how = self._comparable(resources, scaling)
        apart = np.abs(np.log(samples.memory_mb / resources.memory_mb))
        chosen = nearest(samples.sizes, size, self._enough, self._most, apart)
        power = self._size_exponent if scaling.size_exponent is None else scaling.size_exponent
        scaled = values[chosen] * ((size + 1) / (samples.sizes[chosen] + 1)) ** power
        scaled = np.minimum(scaled, 1e300)
        value = float(np.mean(scaled)) if math.isnan(fraction) else float(np.quantile(scaled, fraction))
        low, high = np.quantile(scaled, [0.1, 0.9])
        used = f"the nearest {len(chosen)} of " if len(chosen) < len(self._samples) else ""
        basis = f"{samples.subject}, {used}{len(self._samples)} {samples.unit}s, {how}"
        return Estimate(value, spread=float(high - low) / 2, n=len(chosen), basis=basis)

    def _comparable(self, resources: Resources, scaling: Scaling) -> tuple[Samples, Floats, str]:
        """Samples and their values, as if measured with these resources."""
        samples = self._samples
        same = (samples.memory_mb == resources.memory_mb) & (samples.cpus == resources.cpus)
        if np.count_nonzero(same) >= self._enough:
            alike = samples.where(same)
            return alike, alike.values, "same resources"
        power = self._memory_exponent if scaling.memory_exponent is None else scaling.memory_exponent
        normalised = samples.values * (samples.memory_mb / BASELINE_MB) ** power
        return samples, normalised * (BASELINE_MB / resources.memory_mb) ** power, "memory scaled"


def nearest(sizes: Floats, size: float, enough: int, most: int, apart: Floats | None = None) -> _Indices:
    """The samples to use: balanced within the first window that holds enough, or else the nearest overall.

    Of samples equally near, those of the nearest memory size (by `apart`) come first, and then the newest.
    """
    distances = np.abs(sizes - size)
    age = -np.arange(len(sizes))
    order = np.lexsort((age, np.zeros(len(sizes)) if apart is None else apart, distances))
    for window in _WINDOWS:
        within = order[distances[order] <= window * size]
        if len(within) >= enough:
            return _balanced(sizes, within, size, most)
    return order[:enough]


def _balanced(sizes: Floats, ordered: _Indices, size: float, most: int) -> _Indices:
    """Up to `most` of them: smaller, equal and larger ones in turns, the closest first."""
    at = sizes[ordered]
    groups = [ordered[at < size], ordered[at == size], ordered[at > size]]
    turns = np.concatenate([np.arange(len(group)) for group in groups])
    return np.concatenate(groups)[np.argsort(turns, kind="stable")][:most]
