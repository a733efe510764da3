"""What workers come to that share processors: those of one machine, where more of them run than it has processors.

The simulator has each worker run as if it were alone. Of tasks that compute, two processors do no more than two at a
time, however many workers have them; tasks that sleep or wait for others need none:

    8 workers, 16 s of work, 2 processors      simulated    in fact
      all of it computes                        2 s          8 s        as with 2 workers, which cost less
      a tenth of it computes                    2 s          2 s

So no run is shorter than the processor time of its tasks, divided by the processors. To that comes what it takes to
encode, report, count, fetch and decode the outputs that other workers need. For tasks of some microseconds that is most
of the work, and one worker that does them all is faster than several.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from augury.dag.graph import Graph
from augury.plan.plan import Assignment
from augury.plan.search.objective import Outcome

_PASSED_ON_S = 40e-6
"""Processor time of all workers for an output that is needed elsewhere, as measured on an ordinary machine."""
_ROUNDED = 1e-9


class Processors(NamedTuple):
    """The processors that all workers of a run share.

    Attributes:
        number: How many there are; infinite if each worker has its own.
        work_s: How long all tasks run, one after another.
        busy_s: For how much of that they need a processor.
    """

    number: float
    work_s: float
    busy_s: float

    def least_s(self, passed_on: int = 0) -> float:
        """How long a run takes at least in which the outputs of so many tasks are needed elsewhere."""
        return (self.busy_s + passed_on * _PASSED_ON_S) / self.number

    @property
    def enough_workers(self) -> float:
        """With how many workers all processors are busy; more have nothing to gain."""
        least_s = self.least_s()
        return math.ceil(self.work_s / least_s * (1 - _ROUNDED)) if least_s else math.inf

    def shared(self, outcome: Outcome, graph: Graph, assignments: Sequence[Assignment], joined_s: float) -> Outcome:
        """What a plan comes to that would come to something if each of its workers had processors of its own.

        Args:
            outcome: That.
            graph: The workflow.
            assignments: The plan's.
            joined_s: After which time the first worker is there.
        """
        if math.isinf(self.number):
            return outcome
        makespan_s = joined_s + self.least_s(passed_on(graph, assignments) if outcome.workers > 1 else 0)
        if makespan_s <= outcome.makespan_s:
            return outcome
        longer = makespan_s / outcome.makespan_s if outcome.makespan_s else 1.0  # and so long all of them are there
        return outcome._replace(makespan_s=makespan_s, cost_usd=outcome.cost_usd * longer)


def passed_on(graph: Graph, assignments: Sequence[Assignment]) -> int:
    """How many tasks there are whose output other workers may need.

    A flexible task runs where its input was made if it is the only one that takes it, and takes no other.
    """
    workers = [assignment.worker for assignment in assignments]
    count = 0
    for worker, consumers in zip(workers, graph.dependents, strict=True):
        if worker is None:
            count += len(consumers) > 1 or any(len(graph.deps[consumer]) > 1 for consumer in consumers)
        else:
            count += any(workers[consumer] != worker for consumer in consumers)
    return count
