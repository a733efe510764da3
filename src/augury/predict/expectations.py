"""What is expected of each quantity before anything was measured: which laws are plausible, how noisy samples are.

Plausibilities are weights beside each other. Samples soon outweigh them; with one sample, they are all there is.
"""

from dataclasses import dataclass

from augury.predict.laws import CROSSED, LATENCY, PRODUCT, Shape
from augury.predict.priors import FULL_CPU_MB, MB
from augury.predict.samples import Quantity

_UNAFFECTED = (Shape(0.0, 1.0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What is expected of a quantity before anything was measured.

    Attributes:
        by_size: How size may matter.
        by_memory: How memory may matter; `by_cpus`: how virtual CPUs may.
        forms: How the two may go together.
        noise: The standard deviation of logarithms of single measurements.
        tiny: Added before taking logarithms: what is smaller is not told apart.
        in_bytes: Whether the size is one in bytes.
        falls: Whether a lower level of recent samples is believed; too little memory kills a task.
        reference: The least size that laws refer to: shares of the whole are plausible or not at that size.
        timed: Whether a clock measured it, which may have been set meanwhile.
    """

    by_size: tuple[Shape, ...]
    by_memory: tuple[Shape, ...]
    by_cpus: tuple[Shape, ...]
    forms: tuple[int, ...]
    noise: float
    tiny: float
    in_bytes: bool = True
    falls: bool = True
    reference: float = 0.0
    timed: bool = True


_TASK_MEMORY = (
    Shape(0.0, 0.1),
    Shape(1.0, 0.3),
    Shape(1.0, 0.3, FULL_CPU_MB),
    Shape(1.0, 0.05, 2 * FULL_CPU_MB),
    Shape(1.0, 0.05, 1024.0),
    Shape(0.5, 0.1),
    Shape(2.0, 0.1),
)
_TASK_CPUS = (Shape(0.0, 0.15), Shape(1.0, 0.2), Shape(1.0, 0.45, 1.0), Shape(1.0, 0.1, 2.0), Shape(0.5, 0.1))
_LINK_MEMORY = (Shape(0.0, 0.4), Shape(0.5, 0.2), Shape(1.0, 0.2), Shape(1.0, 0.2, FULL_CPU_MB))
_LINK_CPUS = (Shape(0.0, 0.4), Shape(0.5, 0.2), Shape(1.0, 0.2), Shape(1.0, 0.2, 1.0))
_TASK_SIZE = (
    *(Shape(0.0, 0.1), Shape(0.5, 0.08), Shape(0.75, 0.12), Shape(1.0, 0.55), Shape(1.5, 0.1), Shape(2.0, 0.05)),
)
_OUTPUT_SIZE = (Shape(0.0, 0.35), Shape(0.5, 0.1), Shape(1.0, 0.45), Shape(2.0, 0.1))

_TASK = Expectation(
    by_size=_TASK_SIZE,
    by_memory=_TASK_MEMORY,
    by_cpus=_TASK_CPUS,
    forms=(PRODUCT, LATENCY, CROSSED),
    noise=0.15,
    tiny=1e-7,
)
_OUTPUT = Expectation(
    by_size=_OUTPUT_SIZE,
    by_memory=_UNAFFECTED,
    by_cpus=_UNAFFECTED,
    forms=(PRODUCT,),
    noise=0.15,
    tiny=1.0,
    timed=False,
)
_PEAK = Expectation(
    by_size=(Shape(0.0, 0.6), Shape(1.0, 0.35), Shape(2.0, 0.05)),
    by_memory=_UNAFFECTED,
    by_cpus=_UNAFFECTED,
    forms=(PRODUCT,),
    noise=0.15,
    tiny=0.1,
    falls=False,
    timed=False,
)
_TRANSFER = Expectation(
    by_size=(Shape(0.0, 0.1), Shape(1.0, 0.9)),
    by_memory=_LINK_MEMORY,
    by_cpus=_LINK_CPUS,
    forms=(LATENCY,),
    noise=0.3,
    tiny=1e-7,
    reference=MB,
)
_STARTUP = Expectation(
    by_size=(Shape(0.0, 0.8), Shape(0.5, 0.1), Shape(1.0, 0.1)),
    by_memory=_LINK_MEMORY,
    by_cpus=_LINK_CPUS,
    forms=(PRODUCT,),
    noise=0.3,
    tiny=1e-7,
    in_bytes=False,
)
EXPECTATIONS = {
    Quantity.EXECUTION: _TASK,
    Quantity.OUTPUT: _OUTPUT,
    Quantity.PEAK: _PEAK,
    Quantity.UPLOAD: _TRANSFER,
    Quantity.DOWNLOAD: _TRANSFER,
    Quantity.COLD: _STARTUP,
    Quantity.WARM: _STARTUP,
}
