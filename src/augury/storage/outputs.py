"""Reading outputs, wherever they are: small ones with the run's state, large ones as objects. All are checked."""

from collections.abc import Callable, Mapping, Sequence

from augury.errors import UntrustedData
from augury.serde import Buffer
from augury.storage.protocols import Coordination, Objects, output_key
from augury.trust.seal import Seal

Label = Callable[[int], str]
"""How people call a task."""


def read_outputs(
    coordination: Coordination, objects: Objects, tasks: Sequence[int], seal: Seal, label: Label
) -> dict[int, Buffer]:
    """The bytes of outputs, in at most two round trips; those that are not in storage are left out.

    Raises:
        UntrustedData: One was not made by a worker of this run; names its task.
    """
    stored = coordination.outputs(tasks)
    large = [task for task, output in stored.items() if output.inline is None]
    data = objects.get([output_key(task) for task in large]) if large else {}
    small = {task: output.inline for task, output in stored.items() if output.inline is not None}
    check_small(small, seal, label)
    found: dict[int, Buffer] = dict(small)
    for task in large:
        if output_key(task) in data:
            found[task] = data[output_key(task)]
            _check_large(task, found[task], seal, label)
    return found


def check_small(outputs: Mapping[int, bytes], seal: Seal, label: Label) -> None:
    """Make sure that small outputs were made by workers of this run.

    Raises:
        UntrustedData: One was not; names its task.
    """
    foreign = seal.check_outputs(outputs.items())
    if foreign is not None:
        raise _not_authentic(label(foreign))


def _check_large(task: int, data: Buffer, seal: Seal, label: Label) -> None:
    try:
        seal.check_object(output_key(task), data)
    except UntrustedData:
        raise _not_authentic(label(task)) from None


def _not_authentic(label: str) -> UntrustedData:
    return UntrustedData(
        f"the output of {label} is not authentic, and was not loaded: somebody changed, cut or exchanged it in "
        "storage, or its worker has another key; give clients and workers the same AUGURY_KEY"
    )
