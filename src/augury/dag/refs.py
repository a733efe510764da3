"""One traversal of arguments, in both directions.

On the client `lower` replaces every task inside an argument by a `Ref`, and every large value by a `Const`.
On a worker `fill` puts the values back. Both look into lists, tuples (named ones too), dicts (keys and
values), sets, frozensets and dataclass instances, at any depth; everything else is a leaf. A container with
nothing to replace in it is left as it is: the same object, not a copy.

    [task, [1, [2]], big]   ──lower──▶   [Ref(7), Opaque([1, [2]]), Const(0)]   ──fill──▶   [output, [1, [2]], big]

A container that occurs twice is lowered once and stays one object. One that contains itself is fine as
long as it holds no task; with a task in it there is no copy that could be built, and it is refused.
"""

import copy
import dataclasses
from collections.abc import Callable
from contextlib import suppress
from types import MemberDescriptorType, NoneType
from typing import Any

import msgspec

from augury.dag.task import TaskNode
from augury.errors import DefinitionError

ATOMS = frozenset({int, float, str, bytes, bool, complex, NoneType})
"""Types that are certainly leaves; checked first because most arguments are of these."""

_SMALL_ATOMS = ATOMS - {str, bytes}


class Ref(msgspec.Struct, frozen=True):
    """Stands for the output of a task."""

    task: int


class Refs(msgspec.Struct, frozen=True):
    """Stands for a list (or a tuple) of outputs and nothing else; much smaller than a `Ref` for each."""

    tasks: tuple[int, ...]
    is_tuple: bool = False


class Const(msgspec.Struct, frozen=True):
    """Stands for a large value that is stored once per run."""

    index: int


class Opaque(msgspec.Struct, frozen=True):
    """Holds a container as it was beside something that was replaced, so that `fill` need not look into it."""

    value: Any


class RebuildError(DefinitionError):
    """A container cannot be built with the values that belong into it."""


Replace = Callable[[Any], Any]
Children = list[Any] | tuple[Any, ...]


def lower(value: Any, ref: Callable[[TaskNode[Any]], Any], whole: Replace) -> tuple[Any, bool]:
    """Replace tasks in a value by `ref(task)`, and what has no task inside by `whole(part)`.

    Goes from the inside out: `whole` gets the leaves first, and then each container in which nothing was
    replaced. It returns the part itself to keep it. So what stands for a large array in a small list is
    the array, which other lists may share, and not the list.

    Returns:
        The value to send, and whether anything in it was replaced. If not, it needs no `fill`.

    Raises:
        DefinitionError: The value is nested too deeply, or contains itself and a task.
    """
    try:
        new, _ = _Lowering(ref, whole).visit(value)
    except RecursionError:
        if tasks_in(value):
            raise DefinitionError("a value with a task in it is nested too deeply") from None
        new = whole(value)
    return new, new is not value


class _Lowering:
    """One walk over a value. Parts come back with whether a task is inside; unless replaced, as themselves."""

    def __init__(self, ref: Callable[[TaskNode[Any]], Any], whole: Replace) -> None:
        self._ref = ref
        self._whole = whole
        self._done: dict[int, tuple[Any, Any, bool]] = {}  # by identity; holds the object so that its id stays its own
        self._open: set[int] = set()
        self._self_containing: set[int] = set()

    def visit(self, value: Any) -> tuple[Any, bool]:
        kind = type(value)
        if kind in ATOMS:
            return (value if kind in _SMALL_ATOMS else self._whole(value)), False
        if isinstance(value, TaskNode):
            return self._ref(value), True
        children = _children(value, kind)
        if children is None or _SMALL_ATOMS.issuperset(map(type, children)):
            return self._whole(value), False
        key = id(value)
        if key in self._done:
            return self._done[key][1:]
        if key in self._open:
            self._self_containing.add(key)
            return value, False
        self._open.add(key)
        new, has_task = self._visit_children(value, kind, children)
        self._open.remove(key)
        self._done[key] = (value, new, has_task)
        return new, has_task

    def _visit_children(self, value: Any, kind: type, children: Children) -> tuple[Any, bool]:
        lowered = [self.visit(child) for child in children]
        has_task = any(inside for _, inside in lowered)
        changed = has_task or any(new is not old for (new, _), old in zip(lowered, children, strict=True))
        if changed and id(value) in self._self_containing:
            if has_task:
                raise DefinitionError(f"a {kind.__name__} contains itself and a task; no copy of it could be built")
            changed = False  # it has to travel as it is, with large values and all
        if not changed:
            return self._whole(value), False
        parts: list[Any] = [
            Opaque(new) if new is old and _is_container(new) else new
            for (new, _), old in zip(lowered, children, strict=True)
        ]
        if (kind is list or kind is tuple) and all(type(part) is Ref for part in parts):
            return Refs(tuple([part.task for part in parts]), kind is tuple), True
        return _rebuild(value, children, parts), has_task


def tasks_in(value: Any) -> list[TaskNode[Any]]:
    """Every task inside a value, in the order in which a reader meets them; each container is looked into once."""
    found: list[TaskNode[Any]] = []
    seen: dict[int, Any] = {}  # by identity; holds the object so that its id stays its own
    pending = [value]
    while pending:
        part = pending.pop()
        kind = type(part)
        if kind in ATOMS:
            continue
        if isinstance(part, TaskNode):
            found.append(part)
            continue
        children = _children(part, kind)
        if children is None or id(part) in seen or ATOMS.issuperset(map(type, children)):
            continue
        seen[id(part)] = part
        if all(isinstance(child, TaskNode) for child in children):
            found.extend(children)
        else:
            pending.extend(reversed(children))
    return found


def fill(value: Any, ref: Callable[[Ref], Any], const: Callable[[Const], Any]) -> Any:
    """Put values back for everything that `lower` replaced.

    Raises:
        RebuildError: A container does not take a value, such as a set that is to hold a list.
    """
    return _Filling(ref, const).visit(value)


class _Filling:
    """One walk over a lowered value."""

    def __init__(self, ref: Callable[[Ref], Any], const: Callable[[Const], Any]) -> None:
        self._ref = ref
        self._const = const
        self._done: dict[int, tuple[Any, Any]] = {}

    def visit(self, value: Any) -> Any:
        kind = type(value)
        if kind in ATOMS:
            return value
        if kind in _STANDING_FOR:
            return self._resolve(value)
        children = _children(value, kind)
        if children is None or ATOMS.issuperset(map(type, children)):
            return value
        if id(value) not in self._done:
            filled = [self.visit(child) for child in children]
            changed = any(new is not old for new, old in zip(filled, children, strict=True))
            self._done[id(value)] = (value, _rebuild(value, children, filled) if changed else value)
        return self._done[id(value)][1]

    def _resolve(self, value: Ref | Refs | Const | Opaque) -> Any:
        if isinstance(value, Ref):
            return self._ref(value)
        if isinstance(value, Const):
            return self._const(value)
        if isinstance(value, Opaque):
            return value.value
        outputs = [self._ref(Ref(task)) for task in value.tasks]
        return tuple(outputs) if value.is_tuple else outputs


_STANDING_FOR = frozenset({Ref, Refs, Const, Opaque})


def _is_container(value: Any) -> bool:
    return isinstance(value, list | tuple | dict | set | frozenset) or _is_dataclass(value)


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _children(value: Any, kind: type) -> Children | None:
    """What a container holds, in an order that `_rebuild` understands; None for a leaf."""
    if kind is list or kind is tuple:
        return value  # type: ignore[no-any-return]
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if _is_dataclass(value):
        return [getattr(value, name) for name in _fields(value)]
    return None


def _fields(value: Any) -> list[str]:
    """The fields of a dataclass instance that have a value; those with `init=False` may have none."""
    return [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]


def _rebuild(value: Any, old: Children, new: list[Any]) -> Any:
    """A container like `value` with other children."""
    try:
        if isinstance(value, dict):
            return _rebuild_dict(value, new)
        if isinstance(value, list | tuple | set | frozenset):
            return _rebuild_sequence(value, new)
        return _rebuild_dataclass(value, old, new)
    except Exception as error:
        kind = type(value).__name__
        unhashable = isinstance(error, TypeError) and isinstance(value, dict | set | frozenset)
        advice = "; the output of a task stands where only hashable values can: pass it in a list" if unhashable else ""
        raise RebuildError(f"a {kind} cannot be built with the values of its tasks ({error}){advice}") from error


def _rebuild_dict(value: dict[Any, Any], children: list[Any]) -> dict[Any, Any]:
    half = len(children) // 2
    items = zip(children[:half], children[half:], strict=True)
    if type(value) is dict:
        return dict(items)
    clone = copy.copy(value)
    clone.clear()
    for key, child in items:  # `update` means something else to a Counter
        clone[key] = child
    return clone


def _rebuild_sequence(value: Any, children: list[Any]) -> Any:
    kind = type(value)
    if kind is list:
        return children
    if hasattr(kind, "_make"):
        return kind._make(children)
    if isinstance(value, tuple | frozenset) or kind is set:
        return kind(children)
    clone = copy.copy(value)
    clone.clear()
    (clone.extend if isinstance(value, list) else clone.update)(children)
    return clone


def _rebuild_dataclass(value: Any, old: Children, new: list[Any]) -> Any:
    """A copy that ran neither `__init__` nor `__post_init__`, frozen or not, with slots or without."""
    clone = object.__new__(type(value))
    for owner in type(value).__mro__:
        for member in vars(owner).values():
            if isinstance(member, MemberDescriptorType):
                with suppress(AttributeError):  # a slot that was never set
                    member.__set__(clone, member.__get__(value))
    if hasattr(value, "__dict__"):
        clone.__dict__.update(value.__dict__)
    for name, before, after in zip(_fields(value), old, new, strict=True):
        if after is not before:
            object.__setattr__(clone, name, after)
    return clone
