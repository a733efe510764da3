"""What a worker knows of a run before it starts: the graph and the plan, and what follows from the two.

The same for every worker of a run, never changed, so that workers of one process share it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from augury.config import Resources
from augury.dag.graph import Graph
from augury.plan.plan import Plan
from augury.storage.protocols import Claim

_Kind = TypeVar("_Kind")


def planned_name(worker: int) -> str:
    """The name of a worker that the plan names."""
    return f"w{worker}"


def planned_number(name: str) -> int | None:
    """The worker of the plan that has this name; None if the plan does not name it."""
    return int(name[1:]) if name[:1] == "w" else None


def flexible_name(first_task: int, generation: int = 0) -> str:
    """The name of a flexible worker: after the task it starts with.

    No two have the same. A task becomes ready once, for one worker. If that one hands it on, the next is of a
    later generation, and so is whoever gets it from there.
    """
    return f"t{first_task}.{generation}" if generation else f"t{first_task}"


def generation_of(name: str) -> int:
    """Which generation a worker is of, by its name."""
    return int(name.partition(".")[2] or 0)


def second_name(task: int, worker: str) -> str:
    """The name of the worker that runs a task too, since it takes longer than expected on its own."""
    return f"s{task}/{worker}"


def second_of(name: str) -> tuple[int, str] | None:
    """The task that a worker runs too, and the worker whose task it is; None if it is no such worker."""
    kind, _, worker = name.partition("/")
    return (int(kind[1:]), worker) if worker else None


class _PerTask(dict[int, _Kind]):
    """What is worked out for a task when it is first asked for: most workers ask for few of many.

    Args:
        work_out: Gives it for a task.
    """

    def __init__(self, work_out: Callable[[int], _Kind]) -> None:
        super().__init__()
        self._work_out = work_out

    def __missing__(self, task: int) -> _Kind:
        found = self[task] = self._work_out(task)
        return found


class RunView:
    """The graph and the plan of a run, as workers look at them.

    Attributes:
        graph: The workflow.
        plan: The plan.
        concurrency: How many workers the platform runs at once.
        spread: Among how many of them flexible tasks are shared out before it shows how long they take.
        inline_bytes: Up to which size outputs ride inside reports.
        start_s: How long a worker takes to start while there is room.
        run_id: Which run it is; chance depends on it, so that no two runs have the same.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        *,
        concurrency: int,
        inline_bytes: int,
        start_s: float = 1.0,
        run_id: str = "",
    ) -> None:
        self.graph = graph
        self.plan = plan
        self._places = plan.places()
        self.concurrency = max(1, concurrency)
        self.spread = min(plan.spread or self.concurrency, self.concurrency)
        self.inline_bytes = inline_bytes
        self.start_s = start_s
        self.run_id = run_id

    @cached_property
    def worker_of(self) -> Mapping[int, str]:
        """For each task, the name of the worker that must run it; empty if it is flexible."""
        return _PerTask(self._worker_of)

    def _worker_of(self, task: int) -> str:
        worker = self._places.worker(task)
        return "" if worker is None else self._names[worker]

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return _PerTask(planned_name)

    @cached_property
    def is_planned(self) -> bool:
        """Whether every task has a worker that must run it."""
        return all(self._places.workers)

    @cached_property
    def resources_of(self) -> Mapping[int, Resources]:
        """For each task, what a worker that runs it must have."""
        return _PerTask(self._places.resources_of)

    @cached_property
    def needs(self) -> Mapping[int, int]:
        """For each task, how many completions are counted for it in storage.

        Of a flexible task all inputs are; of a planned one only those that other workers produce.
        """
        return _PerTask(self._needs)

    def _needs(self, task: int) -> int:
        worker, deps = self.worker_of[task], self.graph.deps[task]
        return sum(self.worker_of[dep] != worker for dep in deps) if worker else len(deps)

    @cached_property
    def copied(self) -> Mapping[int, bool]:
        """For each task, whether each consumer gets a copy of its output rather than the output itself.

        So it is where a change that one consumer makes could be seen by another one, by the user, or by another
        try of itself. It depends on the graph alone, not on where tasks run: nor does, then, what tasks see.
        """
        return _PerTask(self._copied)

    def _copied(self, task: int) -> bool:
        graph = self.graph
        consumers = graph.dependents[task]
        if len(consumers) + (task in graph.sink_set) > 1:
            return True
        return any(graph.info(consumer).retries > 0 for consumer in consumers)

    @cached_property
    def tasks_of(self) -> dict[str, list[int]]:
        """For each planned worker, its tasks, ascending; for who asks for those of many workers."""
        tasks: dict[str, list[int]] = {}
        names = [self._names[worker - 1] if worker else "" for worker in self._places.workers]
        if not any(names):
            return tasks
        for task, index in enumerate(self._places.index_of):
            if names[index]:
                tasks.setdefault(names[index], []).append(task)
        return tasks

    def planned_for(self, worker: str) -> Sequence[int]:
        """The tasks that the plan has for a worker, ascending: all that most of those who read a plan want to know."""
        if "tasks_of" in vars(self):
            return self.tasks_of.get(worker, ())
        number = planned_number(worker)
        if number is None:
            return ()
        ours = {index for index, one in enumerate(self._places.workers) if one == number + 1}
        return [task for task, index in enumerate(self._places.index_of) if index in ours] if ours else ()

    @cached_property
    def _resources_by_name(self) -> Mapping[str, Resources]:
        """What each planned worker has: the same for all of its tasks."""
        places = self._places
        named = zip(places.workers, places.kinds, strict=True)
        return {planned_name(worker - 1): places.resources[kind] for worker, kind in named if worker}

    def hints_of(self, task: int, kind: type[_Kind]) -> list[_Kind]:
        """The hints of one kind that the plan has for a task."""
        return [hint for hint in self.plan.hints.get(task, ()) if isinstance(hint, kind)]

    def takers(self, task: int) -> list[str]:
        """The planned workers, other than a task's own, that have tasks which take its output."""
        workers = dict.fromkeys(map(self.worker_of.__getitem__, self.graph.dependents[task]))
        return [worker for worker in workers if worker not in ("", self.worker_of[task])]

    def group(self, tasks: Sequence[int], groups: int) -> list[list[int]]:
        """Split tasks into about so many groups of neighbours, each of tasks that need the same resources."""
        by_resources: dict[Resources, list[int]] = {}
        for task in tasks:
            by_resources.setdefault(self.resources_of[task], []).append(task)
        result = []
        for same in by_resources.values():
            share = max(1, min(len(same), round(groups * len(same) / len(tasks))))
            bounds = [len(same) * part // share for part in range(share + 1)]
            result += [same[start:end] for start, end in pairwise(bounds)]
        return result

    def flexible_claim(self, tasks: Sequence[int], generation: int = 0) -> Claim:
        """A flexible worker for some ready tasks."""
        return Claim(flexible_name(tasks[0], generation), tuple(tasks), self.resources_of[tasks[0]])

    def planned_claim(self, worker: str, attempt: int = 1) -> Claim:
        """A worker that the plan names."""
        return Claim(worker, (), self._resources_by_name[worker], attempt)

    def initial_claims(self) -> list[Claim]:
        """The workers that the client starts: for every root its planned worker, or a share of flexible ones.

        In the order of their first task, so that a platform with few slots starts what others wait for.
        """
        flexible = [root for root in self.graph.roots if not self.worker_of[root]]
        planned = {self.worker_of[root]: root for root in reversed(self.graph.roots) if self.worker_of[root]}
        first = [(root, self.planned_claim(worker)) for worker, root in planned.items()]
        first += [(group[0], self.flexible_claim(group)) for group in self.group(flexible, self.spread)]
        return [claim for _, claim in sorted(first, key=lambda entry: entry[0])]
