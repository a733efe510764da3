"""How large the arguments of tasks are, as workers will measure them, before anything is encoded.

The size of a task's input is that of its own arguments, which is told here, and of the outputs that it takes. What
workers measure is in `augury.dag.program`: a number or a short text counts as it is, anything else by its pickle. Here
sizes are estimated by a look at the values, as workers do where there is no pickle: planning must not encode gigabytes
that are encoded again when the run starts. Only what holds tasks between other things is encoded, because a look
would take the tasks for values.
"""

from collections.abc import Iterator
from typing import Any

from augury import serde
from augury.dag.graph import Workflow
from augury.dag.refs import Ref, Refs, lower
from augury.dag.task import TaskNode

_PLACE_BYTES = serde.estimated_size(None)
"""What stands where something else goes: a task, or a pickle of its own."""
_FIXED_BYTES: dict[type, int] = {type(value): serde.estimated_size(value) for value in (None, False, 0.0, 0j)}
_REFS_BYTES = serde.dumps(Refs((0,))).size_bytes
_SHORT, _LONG = 2**8, 2**16
"""Ids of tasks below these take a byte less, and two bytes less, than those above."""


def argument_bytes(workflow: Workflow) -> list[int]:
    """For each task of a workflow about how large its arguments are, outputs of other tasks not counted."""
    sizes = _Sizes(workflow)
    fixed = dict(_FIXED_BYTES)
    found = []
    for task, node in enumerate(workflow.nodes):
        total = 0
        for value in (*node.args, *node.kwargs.values()) if node.kwargs else node.args:
            kind = type(value)
            size = fixed.get(kind)
            if size is not None:
                total += size
            elif kind is int or kind is str:
                total += serde.estimated_size(value)
            elif isinstance(value, TaskNode):
                total += fixed.setdefault(kind, _PLACE_BYTES)
            else:
                total += sizes.of(task, value)
        found.append(total)
    return found


class _Sizes:
    """Sizes of arguments that take a closer look; one that many tasks share is looked at once."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        # By identity, with the value itself, so that its id stays its own.
        self._known: dict[int, tuple[Any, int]] = {}

    def of(self, task: int, value: Any) -> int:
        """About how large an argument is."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (value, self._looked_at(task, value))
        return known[1]

    def _looked_at(self, task: int, value: Any) -> int:
        kind = type(value)
        if kind is bytes or kind is str:
            return serde.estimated_size(value)
        if not self._may_hold_tasks(task):
            return serde.estimated_size(value) + (0 if kind is tuple else _PLACE_BYTES)
        if (kind is list or kind is tuple) and value and all(isinstance(item, TaskNode) for item in value):
            return _PLACE_BYTES + _REFS_BYTES + sum(map(_id_bytes, map(self._id, value)))
        return self._encoded(value)

    def _may_hold_tasks(self, task: int) -> bool:
        """Whether a task takes other outputs than those that are arguments themselves."""
        return len(self._workflow.graph.deps[task]) > len(set(self._direct(task)))

    def _direct(self, task: int) -> Iterator[int]:
        node = self._workflow.nodes[task]
        for value in (*node.args, *node.kwargs.values()):
            if isinstance(value, TaskNode):
                yield self._id(value)

    def _id(self, node: TaskNode[Any]) -> int:
        return self._workflow.ids[id(node)]

    def _encoded(self, value: Any) -> int:
        try:
            lowered, holds_tasks = lower(value, lambda node: Ref(self._id(node)), lambda part: part)
            return _PLACE_BYTES + (serde.dumps(lowered).size_bytes if holds_tasks else serde.estimated_size(value))
        except Exception:  # noqa: BLE001 - what cannot be pickled is told to the user when it is sent
            return _PLACE_BYTES + serde.estimated_size(value)


def _id_bytes(task: int) -> int:
    return 2 if task < _SHORT else 3 if task < _LONG else 5
