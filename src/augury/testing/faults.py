"""Faults on purpose, in the workers of a real platform: how does your workflow, or Augury, take them?

    with injected(Fault(point="before-report", action="kill", nth=2)):
        with Client(platform=Embedded()) as client:
            assert client.compute(workflow) == expected

The points, and what each moment means, are in `FAULT_POINTS`. A platform whose workers are started elsewhere gets its
faults as text, in its own environment: `AUGURY_FAULTS="before-report:kill@2"`; see `augury.worker.faults`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from augury.worker.faults import FAULT_POINTS, VARIABLE, Fault, parse_faults

__all__ = ["FAULT_POINTS", "Fault", "injected", "parse_faults"]


@contextmanager
def injected(*faults: Fault) -> Iterator[None]:
    """Have the workers of platforms that are started in this block struck by faults; those that run are not."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = ",".join(map(str, faults))
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
