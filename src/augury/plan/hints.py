"""What optimizations write into a plan for workers to act on; all that the two halves of one share.

A hint belongs to a task. The worker that runs the task reads it, and so do, for `PreLoadHint`, those that make its
inputs and, for `TaskDupHint`, those that wait for its output. What they do about it is in `augury.worker.policies`.
"""

from typing import Any

import msgspec

from augury.config import LARGEST_FLOAT, Resources, but_not, is_number, is_whole
from augury.errors import DefinitionError


class PreWarmHint(msgspec.Struct, frozen=True, tag="pre-warm"):
    """When the task starts to execute, have environments started that will be needed soon.

    Attributes:
        resources: What they must have.
        count: How many of them are to be warm and free.
        after_s: How long after the start of the task; a worker that ends before asks for them at its end. In
            `Plan.launch`: how long after the submission of the run.
    """

    resources: Resources
    count: int = 1
    after_s: float = 0.0

    def __post_init__(self) -> None:
        if not is_whole(self.count, least=1):
            raise DefinitionError(f"PreWarmHint.count must be a whole number of at least 1, {but_not(self.count)}")
        _check_seconds("PreWarmHint.after_s", self.after_s)


class PreLoadHint(msgspec.Struct, frozen=True, tag="pre-load"):
    """The task's worker fetches each of its inputs as soon as it is there, while other tasks run."""


class TaskDupHint(msgspec.Struct, frozen=True, tag="task-dup"):
    """A worker that waits for the task's output may run the task itself, if that is expected to be faster.

    It knows when the task's inputs were complete. From then on the output is expected `arrives_s` later; by itself
    the worker would have it after `produce_s`. It runs the task if it would be faster, or if the output is later
    than expected by as much time as it would need itself.

    Attributes:
        produce_s: How long a waiting worker takes to fetch the task's inputs, to run it, and to tell of it.
        arrives_s: How long after its inputs are complete the task's output is expected from its own worker.
    """

    produce_s: float
    arrives_s: float

    def __post_init__(self) -> None:
        _check_seconds("TaskDupHint.produce_s", self.produce_s)
        _check_seconds("TaskDupHint.arrives_s", self.arrives_s)


class OwnHint(msgspec.Struct, frozen=True, tag="own"):
    """A hint of an optimization that a user brought.

    Attributes:
        policy: The name of the policy that interprets it; the plan carries it.
        data: What the policy needs to know: numbers, texts, lists and dicts of them.
    """

    policy: str
    data: dict[str, Any] = {}


Hint = PreWarmHint | PreLoadHint | TaskDupHint | OwnHint


def _check_seconds(name: str, value: object) -> None:
    if not is_number(value, most=LARGEST_FLOAT):
        raise DefinitionError(
            f"{name} must be a finite number of seconds that is not negative, {but_not(value, LARGEST_FLOAT)}"
        )
