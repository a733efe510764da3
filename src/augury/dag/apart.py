"""What stands for things in the hash of a value that are otherwise pickled by a name, or not at all.

A name is not enough: `b.buy` and `b.sell` may both be called `wrapper`, and `date.isoformat` and `datetime.isoformat`
both `isoformat`. So what a thing is made of takes its place.
"""

import abc
import functools
from collections.abc import Callable, Iterator
from enum import Enum
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NewType, ParamSpec, TypeVar, TypeVarTuple

import msgspec

from augury.errors import SerializationError

_DESCRIPTORS = (
    *(ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType),
    WrapperDescriptorType,
)
_METHODS = (BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType, staticmethod)


def taken_apart(thing: Any) -> tuple[Any, ...] | None:
    """What stands for a thing; None if it is pickled as it is.

    Raises:
        SerializationError: Nothing tells it from others.
    """
    kind = type(thing)
    if kind in _PARTS:
        return kind.__name__, _PARTS[kind](thing)
    if kind is BuiltinFunctionType and not isinstance(thing.__self__, ModuleType | None):
        return "method in C", _owner_of(thing), thing.__name__, thing.__self__
    if isinstance(thing, Enum):
        return "member", kind, thing._name_, thing._value_
    return None


def more_of_class(cls: type) -> Iterator[Any]:
    """What a class holds that is not in its namespace as it is hashed."""
    if issubclass(cls, Enum):
        for member in cls.__members__.values():
            yield member.name, _content(member), vars(member)
    if isinstance(cls, type(msgspec.Struct)):
        yield from _fields(cls)
    elif _keeps_more(type(cls), type):
        raise SerializationError(f"its metaclass {type(cls).__qualname__} keeps what cannot be seen, in C")
    if isinstance(cls, abc.ABCMeta):
        registered = getattr(abc, "_get_dump")(cls)[0]  # noqa: B009 - nothing else tells who is registered
        yield {found for reference in registered if (found := reference()) is not None}


def _keeps_more(kind: type, base: type) -> bool:
    """Whether objects of a class have room, in C, that those of its base have not."""
    return kind.__basicsize__ > base.__basicsize__


def _fields(struct: type[msgspec.Struct]) -> Iterator[Any]:
    """What a class knows of its fields."""
    yield from (struct.__struct_fields__, struct.__struct_encode_fields__)
    for default in struct.__struct_defaults__:
        is_made = type(default).__module__ == "msgspec._core" and hasattr(default, "factory")
        yield ("made by", default.factory) if is_made else default
    config = struct.__struct_config__
    yield {name: getattr(config, name) for name in dir(config) if not name.startswith("_")}


def _content(member: Any) -> Any:
    """What a member is by the type that is mixed into its class."""
    base = type(member)._member_type_
    if base is object:
        return ()
    return base.__getnewargs__(member) if hasattr(base, "__getnewargs__") else base.__reduce_ex__(member, 5)


def _owner_of(method: Any) -> type:
    """The class that a bound method, which was written in C, comes from: `super(A, a).pop` is not `a.pop`."""
    holder = method.__self__
    places = [(cls, None, holder) for cls in (holder.__mro__ if isinstance(holder, type) else ())]
    places += [(cls, holder, type(holder)) for cls in type(holder).__mro__]
    for cls, instance, owner in places:
        found = vars(cls).get(method.__name__)
        if isinstance(found, _METHODS):
            bound = found if isinstance(found, BuiltinFunctionType) else found.__get__(instance, owner)
            if bound == method:
                return cls
    raise SerializationError(f"{method!r} has no hash: no class of its object has it")


def _code_parts(code: CodeType) -> tuple[Any, ...]:
    return (
        *(code.co_code, code.co_exceptiontable, code.co_consts, code.co_flags),
        *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
    )


_PARTS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_DESCRIPTORS, lambda descriptor: (descriptor.__objclass__, descriptor.__name__)),
    CodeType: _code_parts,
    MappingProxyType: dict,
    MethodType: lambda method: (method.__func__, method.__self__),
    MethodWrapperType: lambda method: (method.__objclass__, method.__name__, method.__self__),
    NewType: lambda new: (new.__name__, new.__supertype__),
    ParamSpec: lambda variable: (variable.__name__, variable.__bound__),
    TypeVar: lambda variable: (
        *(variable.__name__, variable.__bound__, variable.__constraints__),
        *(variable.__covariant__, variable.__contravariant__),
    ),
    TypeVarTuple: lambda variable: (variable.__name__,),
    classmethod: lambda method: (method.__func__, vars(method)),
    functools.cached_property: lambda made: (made.func, made.attrname),
    property: lambda made: (made.fget, made.fset, made.fdel, made.__doc__),
    staticmethod: lambda method: (method.__func__, vars(method)),
    type(functools.lru_cache(len)): lambda cached: (cached.cache_parameters(), vars(cached)),
}
