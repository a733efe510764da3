"""A search among clusters of tasks: what is expected of clusters, and from a plan for them to one for the tasks."""

from collections.abc import Sequence

import msgspec

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.predictions import Evidence
from augury.plan.search.coarsen import Coarse
from augury.predict.sla import SLA


def outlook_on(coarse: Coarse, outlook: Outlook) -> Outlook:
    """What a planner sees of a graph of clusters."""
    predictions = ClusterPredictions(coarse, outlook)
    return Outlook(coarse.graph, predictions, outlook.platform, sla=outlook.sla, clock=outlook.clock)


def expanded(plan: Plan, coarse: Coarse, graph: Graph) -> Plan:
    """The plan of clusters as a plan of the tasks in them; those of a cluster run one after the other."""
    cluster_of = coarse.cluster_of
    ranks: tuple[int, ...] = ()
    if plan.ranks:
        places = [0] * len(cluster_of)
        by_rank = sorted(range(len(cluster_of)), key=lambda task: (plan.ranks[cluster_of[task]], task))
        for place, task in enumerate(by_rank):
            places[task] = place
        ranks = tuple(places)
    return msgspec.structs.replace(
        plan,
        fingerprint=graph.fingerprint,
        assignments=tuple([plan.assignments[cluster] for cluster in cluster_of]),
        ranks=ranks,
        predicted=None,
    )


class ClusterPredictions:
    """What is expected of clusters, from what is expected of the tasks in them."""

    def __init__(self, coarse: Coarse, outlook: Outlook) -> None:
        self._coarse = coarse
        self._outlook = outlook

    def execution_s(self, graph: Graph, resources: Resources) -> Sequence[float]:
        """For each cluster, how long its tasks take, one after another."""
        run_s = self._outlook.execution_s(resources)
        return [sum([run_s[task] for task in tasks]) for tasks in self._coarse.members]

    def output_bytes(self, graph: Graph) -> Sequence[float]:
        """For each cluster, what its tasks give to others."""
        size_bytes, cluster_of = self._outlook.output_bytes, self._coarse.cluster_of
        whole = self._outlook.graph
        leaves_bytes = [0.0] * len(graph)
        for task, consumers in enumerate(whole.dependents):
            mine = cluster_of[task]
            if task in whole.sink_set or any(cluster_of[consumer] != mine for consumer in consumers):
                leaves_bytes[mine] += size_bytes[task]
        return leaves_bytes

    def peak_mb(self, graph: Graph) -> Sequence[float]:
        """For each cluster, what its neediest task needs."""
        need_mb = self._outlook.least_memory_mb
        return [max([need_mb[task] for task in tasks]) for tasks in self._coarse.members]

    def cpu_share(self, graph: Graph) -> Sequence[float]:
        """For each cluster, that of all the time that its tasks run."""
        share = self._outlook.cpu_share
        run_s = self._outlook.execution_s(self._outlook.platform.configurations[-1])
        found = []
        for tasks in self._coarse.members:
            together_s = sum([run_s[task] for task in tasks])
            busy_s = sum([share[task] * run_s[task] for task in tasks])
            found.append(busy_s / together_s if together_s else 0.0)
        return found

    def evidence(self, graph: Graph) -> Sequence[Evidence]:
        """As of the tasks: clusters have the functions of the workflow."""
        return self._outlook.evidence

    def at(self, sla: SLA) -> "ClusterPredictions":
        """The same with another degree of caution."""
        return ClusterPredictions(self._coarse, self._outlook.at(sla))
