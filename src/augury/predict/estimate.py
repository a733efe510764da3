"""A prediction together with its evidence."""

from typing import Any, Self


class Estimate(float):
    """A predicted number that knows where it comes from. It computes and compares as the float it is.

    Attributes:
        spread: Half of the range between the 10th and the 90th percentile of single measurements under these
            circumstances, in the unit of the value: eight of ten are expected to lie in a range twice as wide.
        n: How many measurements it rests on; 0 if there were none.
        basis: What it rests on, in words, such as `same function, 37 runs, memory fitted`.

    Example:
        >>> Estimate(1.5, spread=0.25, n=37, basis="same function, 37 runs")
        Estimate(1.5 ± 0.25; same function, 37 runs)
        >>> f"{Estimate(1.5)} s"
        '1.5 s'
    """

    __slots__ = ("basis", "n", "spread")

    spread: float
    n: int
    basis: str

    def __new__(cls, value: float, *, spread: float = 0.0, n: int = 0, basis: str = "prior") -> Self:
        """Take a value and its evidence."""
        estimate = super().__new__(cls, value)
        for name, part in (("spread", spread), ("n", n), ("basis", basis)):
            object.__setattr__(estimate, name, part)
        return estimate

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an estimate does not change: {name}")

    @property
    def value(self) -> float:
        """The number alone."""
        return float(self)

    @property
    def is_prior(self) -> bool:
        """Whether nothing was measured, so that this is an assumption."""
        return self.n == 0

    def __str__(self) -> str:
        return float.__repr__(self)

    def __repr__(self) -> str:
        return f"Estimate({float(self):.4g} ± {self.spread:.2g}; {self.basis})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (float(self), self.spread, self.n, self.basis)


def _rebuilt(value: float, spread: float, n: int, basis: str) -> Estimate:
    return Estimate(value, spread=spread, n=n, basis=basis)
