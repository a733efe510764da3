"""Quantiles of what predictions miss by: from residuals to percentiles that hold what they promise.

For exchangeable samples, a new one exceeds the order statistic at (n+1)·p with probability 1-p, whatever their
distribution. Between order statistics we interpolate; beyond the last one, where few samples cannot tell, we go on with
the slope of a normal distribution that has the samples' scale.
"""

import math

import numpy as np

from augury.predict.priors import normal_quantile
from augury.predict.samples import Floats

_EXPECTED_WEIGHT = 2.0  # how many samples the expected scale is worth
_WILD = 4.0  # scales beyond which a residual counts no more towards the scale


class ResidualQuantiles:
    """The distribution of residuals, as logarithms.

    Attributes:
        scale: Their standard deviation; the expected one, if there are few.
        mean_factor: The mean of what they multiply predictions by.
    """

    __slots__ = ("_ordered", "_shift", "mean_factor", "scale")

    def __init__(self, residuals: Floats, left_out: Floats, expected_scale: float) -> None:
        """Learn a distribution.

        Args:
            residuals: What predictions miss their own samples by; their median is where the distribution has its own.
            left_out: What predictions would miss each sample by if it had not been known; their width is what counts.
            expected_scale: The standard deviation that is expected before looking.
        """
        centre = float(np.median(left_out))
        self._ordered: list[float] = np.sort(left_out - centre).tolist()
        self._shift = float(np.median(residuals))
        count = len(left_out)
        reach = 1.4826 * float(np.median(np.abs(left_out - centre)))
        away = np.minimum(np.abs(left_out - centre), _WILD * max(reach, 0.1 * expected_scale))
        squares = float(np.sum(away**2)) + _EXPECTED_WEIGHT * expected_scale**2
        self.scale = math.sqrt(squares / (count - 1 + _EXPECTED_WEIGHT))
        if count < 3:
            self.mean_factor = math.exp(self._shift)
        else:
            self.mean_factor = float(np.mean(np.exp(np.clip(residuals, -30, 30))))

    def at(self, fraction: float) -> float:
        """The residual that this fraction does not exceed; never falls with the fraction."""
        ordered, count = self._ordered, len(self._ordered)
        place = (count + 1) * fraction - 1
        if place < 0:
            beyond = normal_quantile(fraction) - normal_quantile(1 / (count + 1))
            return self._shift + ordered[0] + self.scale * beyond
        if place > count - 1:
            beyond = normal_quantile(fraction) - normal_quantile(count / (count + 1))
            return self._shift + ordered[-1] + self.scale * beyond
        index = min(int(place), count - 2) if count > 1 else 0
        if count == 1:
            return self._shift + ordered[0]
        return self._shift + ordered[index] + (place - index) * (ordered[index + 1] - ordered[index])
