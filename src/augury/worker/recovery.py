"""What a worker that was started again has to do: what was lost with the attempt before it, and is still needed.

Nothing of it was written down for that purpose. It follows from the graph, the plan and what storage knows: which
completions were counted, which outputs are in storage, and which flexible tasks were given to whom.

- *Needed* is a task whose output is not in storage, if it is a sink or a needed task takes it. What is not needed
  has been done, or has been of use already: it is not done again, even if nobody was told of it. But if a planned task
  of another worker takes it, that worker waits to be told, and may not even have been started: though duplicates have
  put all that follows into storage, its completion has to be counted, and so it is done again.
- *Ours* is what the plan has for us, what storage gave to us and we have not handed on, and what follows from
  that without a word to storage: flexible tasks with one input that is ours, and flexible tasks whose inputs all are
  ours or were done. What storage gave to others is theirs. What follows from tasks that other workers may run too is
  always told to storage, and whoever is first goes on with it.

What is ours and needed is done (again). What others need of it they have: an output is in storage before anybody else
learns that it exists.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush

import msgspec

from augury.dag.graph import Graph
from augury.storage.protocols import Remains
from augury.worker.view import RunView, generation_of, second_of


class Duties(msgspec.Struct, frozen=True):
    """What a restarted worker has to do.

    Attributes:
        tasks: To be run here.
        needed: Tasks of all workers whose outputs are not in storage, and that something needs.
        others: Flexible tasks that were given to other workers.
        shared: Tasks that a second worker runs too, and which.
        taken: Flexible tasks with several inputs among those that are to be run, of which storage does not know that
            they are ours. It has to, before inputs of theirs are told of: to the workers that have made the others they
            would look like their own.
    """

    tasks: frozenset[int]
    needed: frozenset[int]
    others: frozenset[int]
    shared: dict[int, str]
    taken: frozenset[int]


def duties(
    view: RunView, name: str, done: AbstractSet[int], remains: Remains, is_duplicable: Callable[[int], bool]
) -> Duties:
    """Work out what a restarted worker has to do.

    Args:
        view: The graph and the plan.
        name: The worker.
        done: The tasks whose completion was counted.
        remains: What is left of the lost attempt.
        is_duplicable: Whether the plan lets other workers run a task too.
    """
    owners = _owners(remains)
    given = [task for task, worker in owners.items() if worker == name]
    if second_of(name):
        given += remains.claims.get(name, ())
    shared = _shared(name, remains)
    roots = [*view.planned_for(name), *given]
    ours = _following(view, roots, done, owners, lambda task: task in shared or is_duplicable(task))
    untold = [task for task in ours - done if _is_awaited_elsewhere(view, name, task)]
    needed = needed_tasks(view.graph, remains.stored, untold)
    tasks = _with_inputs(view, ours & needed, remains.stored)
    others = frozenset(task for task, worker in owners.items() if worker != name)
    unknown = [task for task in ours & tasks if not view.worker_of[task] and task not in owners]
    taken = frozenset(task for task in unknown if len(view.graph.deps[task]) > 1)
    return Duties(frozenset(tasks), frozenset(needed), others - tasks, shared, taken)


def needed_tasks(graph: Graph, stored: frozenset[int], untold: Iterable[int] = ()) -> set[int]:
    """The tasks that must run (again) for all sinks to be in storage, and for some to be counted."""
    needed: set[int] = set()
    wanted = [sink for sink in graph.sinks if sink not in stored]
    wanted += untold
    while wanted:
        task = wanted.pop()
        if task not in needed:
            needed.add(task)
            wanted += [dep for dep in graph.deps[task] if dep not in stored and dep not in needed]
    return needed


def _is_awaited_elsewhere(view: RunView, name: str, task: int) -> bool:
    """Whether the plan has something for another worker that takes the output of a task."""
    return any(view.worker_of[consumer] not in ("", name) for consumer in view.graph.dependents[task])


def _owners(remains: Remains) -> dict[int, str]:
    """Flexible task → who was given it last. Whoever hands a task on claims a worker of a later generation for it.

    A second worker for a task that takes long does not own it: if it fails there, it may be forgotten.
    """
    owners = dict(remains.grants)
    firsts = [worker for worker in remains.claims if not second_of(worker)]
    for worker in sorted(firsts, key=generation_of):
        owners |= dict.fromkeys(remains.claims[worker], worker)
    return owners


def _shared(name: str, remains: Remains) -> dict[int, str]:
    """The tasks of a worker that another one runs too, and which."""
    found = {}
    for worker in (*remains.claims, name):
        if second := second_of(worker):
            task, first = second
            if name in (first, worker):
                found[task] = worker if name == first else first
    return found


def _following(
    view: RunView,
    roots: Iterable[int],
    done: AbstractSet[int],
    owners: dict[int, str],
    is_told: Callable[[int], bool],
) -> set[int]:
    """Tasks, and the flexible ones that follow from them without a word to storage: not from what others run too."""
    deps, dependents = view.graph.deps, view.graph.dependents
    ours: set[int] = set()
    waiting = list(set(roots))
    heapify(waiting)  # inputs before those that take them
    known = set(waiting)
    first = frozenset(waiting)
    while waiting:
        task = heappop(waiting)
        if task not in first and not all(dep in done or (dep in ours and not is_told(dep)) for dep in deps[task]):
            known.discard(task)
            continue
        ours.add(task)
        for consumer in dependents[task]:
            if consumer not in known and not view.worker_of[consumer] and consumer not in owners:
                known.add(consumer)
                heappush(waiting, consumer)
    return ours


def _with_inputs(view: RunView, tasks: set[int], stored: frozenset[int]) -> set[int]:
    """Tasks, and inputs of flexible ones that are nowhere: these were ready, so that nobody else will make them."""
    complete = set(tasks)
    unseen = [task for task in tasks if not view.worker_of[task]]
    while unseen:
        for dep in view.graph.deps[unseen.pop()]:
            if dep not in stored and dep not in complete:
                complete.add(dep)
                unseen.append(dep)
    return complete
