"""What a policy is: the half of an optimization that acts in workers.

A planner leaves hints in the plan; in each worker a policy reads them, hears what happens, and answers with actions.
Like the worker core it does no I/O and reads no clock: what time it is comes with every call, in seconds of the
worker's own clock, which says nothing outside of it.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from augury import serde
from augury.config import Resources
from augury.dag.code import modules_to_send
from augury.worker.view import RunView


class PreWarm(msgspec.Struct, frozen=True):
    """Have the platform make environments ready, at a moment or, if the worker ends before, at its end.

    Attributes:
        resources: What they must have.
        count: How many.
        at_s: When; at once if that is past.
    """

    resources: Resources
    count: int = 1
    at_s: float = 0.0


class FetchEarly(msgspec.Struct, frozen=True):
    """Bring outputs of other workers into memory beside what runs.

    Those that no task here waits for, or that are not known to be in storage, are left alone.
    """

    tasks: tuple[int, ...]


class Duplicate(msgspec.Struct, frozen=True):
    """Run a task of another worker here too; whoever is first is first.

    Nothing happens unless it is of use: a planned task here waits for its output, a task slot is free, its inputs
    are at hand, and its own worker watches it, so that it hears of it.
    """

    task: int


class WakeAt(msgspec.Struct, frozen=True):
    """Call `alarm` at this moment, or very soon if that is past."""

    at_s: float


Action = PreWarm | FetchEarly | Duplicate | WakeAt


class Policy(Protocol):
    """What one worker does about the hints of one optimization. Derive from it, and override what you need.

    A policy is made in every worker of a run with what all of them know and the worker's name. Then it is told what
    happens, and answers each time with actions. Whatever it raises is logged, and it is not asked again: a
    policy may make a run faster, but never make it fail.

    Of tasks on other workers it hears only what it asked for: `watches` says which workers are told of a task's
    completion. It must say the same everywhere, since whoever completes a task looks here whom to tell. The outputs
    of watched tasks are always put into storage.

    Example:
        A policy that has an environment pre-warmed when a task ends, as the task's hint says:

        >>> from augury.config import Resources
        >>> from augury.plan.hints import OwnHint
        >>> class WarmNext(Policy):
        ...     def __init__(self, view, worker):
        ...         self.view = view
        ...
        ...     def finished(self, task, now_s):
        ...         for hint in self.view.hints_of(task, OwnHint):
        ...             yield PreWarm(Resources(memory_mb=hint.data["memory_mb"]))

        The planning half hands it over with the plan: `hints={4: (OwnHint("warm next", {"memory_mb": 512}),)}` and
        `policies={"warm next": packed(WarmNext)}`.

        >>> len(packed(WarmNext)) > 0
        True
    """

    @staticmethod
    def watches(view: RunView, task: int) -> Iterable[str]:
        """Whom to tell of a task's completion: names of workers that the plan has tasks for."""
        return ()

    def began(self, done: frozenset[int], now_s: float) -> Iterable[Action]:
        """The worker has started; these tasks were complete by then."""
        return ()

    def started(self, task: int, now_s: float) -> Iterable[Action]:
        """A task starts to execute here."""
        return ()

    def finished(self, task: int, now_s: float) -> Iterable[Action]:
        """A task has finished here."""
        return ()

    def completed(self, task: int, now_s: float) -> Iterable[Action]:
        """A watched task was completed by another worker, perhaps before this one began; its output is in storage."""
        return ()

    def waiting(self, now_s: float) -> Iterable[Action]:
        """After something happened: a task slot is free, and the worker has nothing to put into it."""
        return ()

    def alarm(self, now_s: float) -> Iterable[Action]:
        """The moment has come that `WakeAt` named."""
        return ()


class PolicyKind(Protocol):
    """What policies are made by: a class that derives from `Policy`, or anything that can do the same."""

    def __call__(self, view: RunView, worker: str, /) -> Policy:
        """The policy of one worker."""
        ...

    def watches(self, view: RunView, task: int, /) -> Iterable[str]:
        """Whom to tell of a task's completion."""
        ...


def packed(kind: PolicyKind) -> bytes:
    """A kind of policies as `Plan.policies` carries it; the user's own code goes with it."""
    with serde.modules_by_value(modules_to_send(shared_files=False)):
        return serde.dumps(kind).join()
