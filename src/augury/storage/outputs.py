"""Reading outputs, wherever they are: small ones with the run's state, large ones as objects."""

from collections.abc import Sequence

from augury.serde import Buffer
from augury.storage.protocols import Coordination, Objects, output_key


def read_outputs(coordination: Coordination, objects: Objects, tasks: Sequence[int]) -> dict[int, Buffer]:
    """The bytes of outputs, in at most two round trips; those that are not in storage are left out."""
    stored = coordination.outputs(tasks)
    large = [task for task, output in stored.items() if output.inline is None]
    data = objects.get([output_key(task) for task in large]) if large else {}
    found: dict[int, Buffer] = {task: output.inline for task, output in stored.items() if output.inline is not None}
    found.update({task: data[output_key(task)] for task in large if output_key(task) in data})
    return found
