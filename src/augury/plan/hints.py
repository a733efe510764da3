"""What optimizations write into a plan for workers to act on; all that the two halves of one share.

A hint belongs to a task. The worker that runs the task reads it, and so do, for `TaskDupHint`, the workers that
wait for its output.
"""

from typing import Any

import msgspec

from augury.config import Resources


class PreWarmHint(msgspec.Struct, frozen=True, tag="pre-warm"):
    """When the task starts to execute, have environments started that will be needed soon.

    Attributes:
        resources: What they must have.
        count: How many.
        after_s: How long after the start of the task.
    """

    resources: Resources
    count: int = 1
    after_s: float = 0.0


class PreLoadHint(msgspec.Struct, frozen=True, tag="pre-load"):
    """The task's worker fetches each of its inputs as soon as it is there, while other tasks run."""


class TaskDupHint(msgspec.Struct, frozen=True, tag="task-dup"):
    """A worker that waits for the task's output may run the task itself, if that is expected to be faster.

    It knows when the task's inputs were complete. From then on the output is expected `arrives_s` later; by itself
    the worker would have it after `produce_s`.

    Attributes:
        produce_s: How long a waiting worker takes to fetch the task's inputs, to run it, and to tell of it.
        arrives_s: How long after its inputs are complete the task's output is expected from its own worker.
    """

    produce_s: float
    arrives_s: float


class OwnHint(msgspec.Struct, frozen=True, tag="own"):
    """A hint of an optimization that a user brought.

    Attributes:
        policy: The name of the policy that interprets it; the plan carries it.
        data: What the policy needs to know: numbers, texts, lists and dicts of them.
    """

    policy: str
    data: dict[str, Any] = {}


Hint = PreWarmHint | PreLoadHint | TaskDupHint | OwnHint
