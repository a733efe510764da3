"""What an estimator is: the replaceable half of predictions.

The provider sorts records into samples of one quantity (the run times of one function, the downloads of a platform),
hands them to an estimator once, and asks the model that comes back as often as a planner asks.

    Records ──▶ Samples ──fit──▶ Model ──predict──▶ Estimate

An estimator of one's own is a few lines. This one expects what was seen last:

    class LastSeen:
        name = "last seen"

        def fit(self, samples: Samples, quantity: Quantity) -> Model:
            return LastSeenModel(float(samples.values[-1]), len(samples))

    class LastSeenModel:
        def __init__(self, value: float, n: int) -> None:
            self.value, self.n = value, n

        def predict(self, size: float, resources: Resources, sla: SLA, scaling: Scaling = NO_SCALING) -> Estimate:
            return Estimate(self.value, n=self.n, basis=f"the last of {self.n} runs")

    PredictionsProvider(records, estimator=LastSeen())
"""

from typing import Protocol

import msgspec

from augury.config import Resources
from augury.predict.estimate import Estimate
from augury.predict.samples import Quantity, Samples
from augury.predict.sla import SLA


class Scaling(msgspec.Struct, frozen=True):
    """What a caller knows better than history.

    Attributes:
        memory_exponent: Time falls with memory to this power, where history does not tell; None: unknown.
        size_exponent: Time grows with input size to this power, where history does not tell; None: unknown.
    """

    memory_exponent: float | None = None
    size_exponent: float | None = None


NO_SCALING = Scaling()


class Model(Protocol):
    """What an estimator learned of one quantity."""

    def predict(self, size: float, resources: Resources, sla: SLA, scaling: Scaling = NO_SCALING) -> Estimate:
        """Predict the quantity.

        Must be finite, not negative, and never smaller for a higher percentile.

        Args:
            size: The size of the input or the transfer in bytes; for start-ups, how many start at once.
            resources: What the worker has.
            sla: How careful to be.
            scaling: What the caller knows better.
        """
        ...


class Estimator(Protocol):
    """Learns from samples. Pure: the same samples always give the same model."""

    @property
    def name(self) -> str:
        """How to call it in tables."""
        ...

    def fit(self, samples: Samples, quantity: Quantity) -> Model:
        """Learn from samples; there is at least one, and their values are finite and not negative."""
        ...
