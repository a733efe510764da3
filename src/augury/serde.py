"""The only place where objects become bytes.

A value is pickled with protocol 5; large buffers (arrays, bytes-like data) stay out of band, so that
they are written without a copy and read in place. The bytes of a value:

    ┌ version u8 │ pad │ buffers u32 │ pickle length u64 │ buffer length u64 … ┐ header
    │ pickle                                                                   │
    │ padding to 64 │ buffer 0 │ padding to 64 │ buffer 1 │ …                  ┘

Buffers start at multiples of 64 bytes, so an array that is mapped from shared memory is aligned.
`loads` reads from any buffer and copies nothing: arrays in the result point into it and are read-only,
unless the caller wants them for itself alone.
There is no checksum: what comes from outside is authenticated before it is read here (`augury.trust.seal`), by a MAC
behind it. Bytes after the last buffer do not matter.

cloudpickle takes functions and classes of `__main__`, closures and lambdas by value; what `functools` wraps around them
is made anew from its parts. What cannot contain
such things (numbers, strings, flat containers of them, arrays) takes a short cut around it: that is most
of what small tasks return, and four times as fast.
"""

import functools
import io
import itertools
import pickle
import struct
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType, NoneType
from typing import Any, NewType, ParamSpec, TypeVarTuple

import cloudpickle
from cloudpickle.cloudpickle import _class_setstate as _overwrite_class
from cloudpickle.cloudpickle import _is_registered_pickle_by_value as _is_taken_by_value
from cloudpickle.cloudpickle import _lookup_module_and_qualname as _find_by_name
from cloudpickle.cloudpickle import _make_skeleton_class as _make_class

from augury.errors import SerializationError

Buffer = bytes | bytearray | memoryview

_VERSION = 2
_HEADER = struct.Struct("<B3xIQ")
_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64
_SCALARS = frozenset({int, float, str, bool, complex, NoneType})
_ITEMS = _SCALARS | {bytes}
_FLAT = frozenset({bytes, bytearray, list, tuple, set, frozenset, dict})
_FEW = 64
_OUT_OF_BAND_BYTES = 16 * 1024


class Blob:
    """A value as bytes, in parts that are not joined until they have to be.

    Attributes:
        parts: One-dimensional buffers of bytes; views of the value's own memory where that saves a copy, so
            the value must not change until they are written.
        size_bytes: The length of all parts together.
    """

    __slots__ = ("parts", "size_bytes")

    def __init__(self, parts: list[Buffer]) -> None:
        self.parts = parts
        self.size_bytes = sum(map(len, parts))

    def join(self) -> bytes:
        """All parts as one `bytes`; copies."""
        return self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], bytes) else b"".join(self.parts)

    def reload(self) -> Any:
        """A copy of the value, as another process would get it; arrays point into the first one and are read-only."""
        if len(self.parts) == 1:
            return loads(self.parts[0])
        buffers = [part.toreadonly() for part in self.parts[2:] if isinstance(part, memoryview)]  # the rest is padding
        return pickle.loads(self.parts[1], buffers=buffers)


def dumps(value: Any, *, plain: bool = False) -> Blob:
    """Turn a value into bytes; raises whatever its pickling raises.

    Args:
        value: What to turn into bytes.
        plain: Promises that there are only values of built-in types inside, at any depth.
    """
    kind = type(value)
    if plain or (_is_flat(value) if kind in _FLAT else kind in _SCALARS):
        return Blob(_frame(pickle.dumps(value, protocol=5)))
    buffers: list[pickle.PickleBuffer] = []
    if _is_array(value, kind):
        pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    else:
        stream = io.BytesIO()
        whole = _Raw(value) if kind is bytes or kind is bytearray else value
        _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(whole)
        pickled = stream.getvalue()
    return Blob(_frame_with_buffers(pickled, [buffer.raw() for buffer in buffers]) if buffers else _frame(pickled))


def loads(data: Buffer, *, writable: bool = False) -> Any:
    """Turn bytes back into the value; arrays in it point into `data`.

    Args:
        data: What `dumps` made.
        writable: Whether arrays may be changed: then `data` changes with them, or is copied if it cannot.

    Raises:
        SerializationError: These are not the bytes of a value, or not all of them. What the value's own
            unpickling raises passes through as it is.
    """
    view = _byte_view(data)
    count, pickle_start, pickle_end = _check(view)
    pickled = view[pickle_start:pickle_end]
    if count == 0:
        return pickle.loads(pickled)
    source = _writable_view(data, view) if writable else view
    buffers = []
    position = pickle_end
    for index in range(count):
        (length,) = _LENGTH.unpack_from(view, _HEADER.size + index * _LENGTH.size)
        position += -position % _ALIGNMENT
        if position + length > len(view):
            raise SerializationError(_truncated(position + length, len(view)))
        buffers.append(source[position : position + length])
        position += length
    return pickle.loads(pickled, buffers=buffers)


def stream_length(data: memoryview) -> int:
    """How many bytes the header and the pickle of a value take, as far as its first bytes say; for who signs them."""
    if len(data) < _HEADER.size:
        return len(data)
    _, count, pickle_length = _HEADER.unpack_from(data)
    return int(_HEADER.size + count * _LENGTH.size + pickle_length)


_by_value: Counter[str] = Counter()
_by_value_lock = threading.Lock()


@contextmanager
def modules_by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    """While it is open, functions and classes of these modules travel by value, as those of `__main__` do.

    May be open several times at once, in several threads; what a user registered with cloudpickle stays.
    """
    held = []
    with _by_value_lock:
        registered = cloudpickle.list_registry_pickle_by_value()
        for module in modules:
            if module.__name__ in registered and not _by_value[module.__name__]:
                continue
            cloudpickle.register_pickle_by_value(module)
            _by_value[module.__name__] += 1
            held.append(module)
    try:
        yield
    finally:
        with _by_value_lock:
            for module in held:
                _by_value[module.__name__] -= 1
                if not _by_value[module.__name__]:
                    del _by_value[module.__name__]
                    cloudpickle.unregister_pickle_by_value(module)


def _is_flat(value: Any) -> bool:
    """Whether one look at each item is enough to know that cloudpickle has nothing to do inside."""
    if type(value) is bytes or type(value) is bytearray:
        return len(value) < _OUT_OF_BAND_BYTES
    return (
        len(value) <= _FEW
        and _ITEMS.issuperset(map(type, value))
        and (type(value) is not dict or _ITEMS.issuperset(map(type, value.values())))
    )


def _is_array(value: Any, kind: type) -> bool:
    """Whether a value is an array or a number of numpy's that holds no Python objects."""
    return kind.__module__ == "numpy" and getattr(getattr(value, "dtype", None), "hasobject", True) is False


class _Raw:
    """A large `bytes` or `bytearray` on its way out of band; loads as what it was, with one copy."""

    __slots__ = ("value",)

    def __init__(self, value: bytes | bytearray) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self.value), (pickle.PickleBuffer(self.value),)


_received_classes: "weakref.WeakSet[type]" = weakref.WeakSet()
_original_classes: "weakref.WeakSet[type]" = weakref.WeakSet()


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """Takes care that a class which travels by value is the same class afar, and comes home to the original.

    cloudpickle finds the original again, but then sets every attribute to its copy from afar: class-level
    state is reset, and methods see copies of their module's globals. And it makes classes without their
    slots: their instances come home with a `__dict__`, for which those of the original have no place.

    What `functools` makes of a function is no function, or holds a lock or weak references: cloudpickle takes it by
    a name that nobody knows afar, or not at all. The same goes for what `typing` has for annotations.
    """

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in _REDUCERS and not _travels_by_name(obj):
            return _REDUCERS[kind](obj)
        if kind is functools.cached_property:
            return _make_cached_property, (obj.func, obj.attrname)
        reduced = super().reducer_override(obj)
        if kind is FunctionType and reduced is not NotImplemented and is_dispatching(obj):
            return _reduce_dispatching(obj)
        if isinstance(obj, type) and isinstance(reduced, tuple) and reduced[-1] is _overwrite_class:
            if obj not in _received_classes:
                _original_classes.add(obj)
            make, args, *rest = reduced
            if make is _make_class and "__slots__" in vars(obj):
                make, args = _make_slotted_class, (vars(obj)["__slots__"], *args)
            return (make, args, *rest[:-1], _complete_class)
        return reduced


def _make_slotted_class(
    slots: Any, metaclass: type, name: str, bases: tuple[Any, ...], attributes: dict[str, Any], *tracking: Any
) -> Any:
    try:
        return _make_class(metaclass, name, bases, {**attributes, "__slots__": slots}, *tracking)
    except Exception:  # noqa: BLE001 - whatever a metaclass says that makes slots itself, as that of named tuples does
        return _make_class(metaclass, name, bases, attributes, *tracking)


def _complete_class(skeleton: type, state: Any) -> type:
    if skeleton in _original_classes:
        return skeleton
    _received_classes.add(skeleton)
    return _overwrite_class(skeleton, state)  # type: ignore[no-any-return]


_CachedFunction = type(functools.lru_cache(len))
_DISPATCHING = frozenset({"register", "dispatch", "registry", "_clear_cache", "__wrapped__"})


def _travels_by_name(obj: Any) -> bool:
    found = _find_by_name(obj)
    return found is not None and not _is_taken_by_value(found[0])


def _reduce_cached(cached: Any) -> tuple[Any, ...]:
    """An `lru_cache`: what it remembers stays here."""
    settings = cached.cache_parameters()
    attributes = {name: value for name, value in vars(cached).items() if name != "__wrapped__"}
    return _make_cached, (cached.__wrapped__, settings["maxsize"], settings["typed"]), attributes


def _make_cached(fn: Any, most_items: int | None, typed: bool) -> Any:
    return functools.lru_cache(most_items, typed)(fn)


def _reduce_annotation(kind: type, *arguments: str) -> Callable[[Any], tuple[Any, ...]]:
    """How something that stands in annotations is made anew from its name and what else it was made with."""

    def reduce(obj: Any) -> tuple[Any, ...]:
        settings = {name: getattr(obj, f"__{name}__") for name in arguments}
        return _make_annotation, (kind, obj.__module__, obj.__name__, settings)

    return reduce


def _make_annotation(kind: Any, module: str, name: str, settings: dict[str, Any]) -> Any:
    made = kind(name, *settings.values()) if kind is NewType else kind(name, **settings)
    made.__module__ = module
    return made


_REDUCERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    _CachedFunction: _reduce_cached,
    NewType: _reduce_annotation(NewType, "supertype"),
    ParamSpec: _reduce_annotation(ParamSpec, "bound", "covariant", "contravariant"),
    TypeVarTuple: _reduce_annotation(TypeVarTuple),
}
"""What has a name, by which it travels if it can be imported."""


def _make_cached_property(fn: Any, name: str | None) -> Any:
    made: Any = functools.cached_property(fn)
    made.attrname = name
    return made


def is_dispatching(fn: FunctionType) -> bool:
    """Whether a function is what `singledispatch` made."""
    return fn.__globals__ is vars(functools) and "registry" in vars(fn)


def _reduce_dispatching(fn: Any) -> tuple[Any, ...]:
    attributes = {name: value for name, value in vars(fn).items() if name not in _DISPATCHING}
    return functools.singledispatch, (fn.__wrapped__,), (dict(fn.registry), attributes), None, None, _register_all


def _register_all(fn: Any, state: tuple[dict[type, Any], dict[str, Any]]) -> None:
    registry, attributes = state
    for kind, implementation in registry.items():
        fn.register(kind, implementation)
    vars(fn).update(attributes)


def _frame(pickled: bytes) -> list[Buffer]:
    head = _HEADER.pack(_VERSION, 0, len(pickled))
    return [head + pickled] if len(pickled) < _OUT_OF_BAND_BYTES else [head, pickled]


def _frame_with_buffers(pickled: bytes, buffers: list[memoryview]) -> list[Buffer]:
    lengths = b"".join(_LENGTH.pack(len(buffer)) for buffer in buffers)
    head = _HEADER.pack(_VERSION, len(buffers), len(pickled)) + lengths
    parts: list[Buffer] = [head, pickled]
    position = len(head) + len(pickled)
    for buffer in buffers:
        padding = -position % _ALIGNMENT
        if padding:
            parts.append(bytes(padding))
        parts.append(buffer)
        position += padding + len(buffer)
    return parts


def _byte_view(data: Buffer) -> memoryview:
    try:
        view = memoryview(data).toreadonly()
        return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")
    except TypeError as error:
        raise SerializationError(f"a value is read from contiguous bytes, not from {data!r}: {error}") from error


def _writable_view(data: Buffer, view: memoryview) -> memoryview:
    own = memoryview(data)
    return memoryview(bytearray(view)) if own.readonly else own.cast("B")


def _check(view: memoryview) -> tuple[int, int, int]:
    """How many buffers there are, and where the pickle starts and ends."""
    if len(view) < _HEADER.size:
        raise SerializationError(_truncated(_HEADER.size, len(view)))
    version, count, pickle_length = _HEADER.unpack_from(view)
    if version != _VERSION:
        raise SerializationError(
            f"a stored value has the format {version}, and this version of Augury reads {_VERSION}: "
            "it is damaged, or client and workers run different versions"
        )
    start = _HEADER.size + count * _LENGTH.size
    end = start + pickle_length
    if end > len(view):
        raise SerializationError(_truncated(end, len(view)))
    return count, start, end


def _truncated(expected_bytes: int, found_bytes: int) -> str:
    return f"a stored value is not whole: {found_bytes} of at least {expected_bytes} bytes"


# How large a value would be, without making its bytes

_FRAME_BYTES = _HEADER.size + 4
_OBJECT_BYTES = 40
_UNKNOWN_BYTES = 16.0
_LOOKED_AT = (12, 3, 1)
"""How many items of a container are looked at: of the value itself, of containers in it, and so on."""


def estimated_size(value: Any) -> int:
    """About how many bytes `dumps` would make of a value.

    Looks at about a hundred parts at most, and runs no code of the user's: what a class of theirs says of itself may
    take long, have effects, or fail.
    """
    try:
        return _FRAME_BYTES + round(_content_size(value, 0))
    except Exception:  # noqa: BLE001 - a container may change meanwhile; the size is a detail
        return _FRAME_BYTES


def _content_size(value: Any, depth: int) -> float:
    kind = type(value)
    if kind is int:
        return 2.0 + int(value).bit_length() / 8
    if kind in _SCALARS and kind is not str:
        return 9.0 if kind is float else 2.0
    if issubclass(kind, str):
        return 4.0 + str.__len__(value)
    if issubclass(kind, bytes | bytearray | memoryview):
        return 4.0 + len(memoryview(value).cast("B"))
    if depth >= len(_LOOKED_AT):
        return _UNKNOWN_BYTES
    if issubclass(kind, list | tuple | set | frozenset | dict):
        return _container_size(value, kind, depth)
    return _object_size(value, kind, depth)


def _container_size(value: Any, kind: type, depth: int) -> float:
    """The size of a few items, evenly spread over a sequence, times their number."""
    base = next(base for base in (list, tuple, dict, set, frozenset) if issubclass(kind, base))
    count, most = base.__len__(value), _LOOKED_AT[depth]
    if not count:
        return 10.0
    if base is list or base is tuple:
        looked_at = base.__getitem__(value, slice(0, None, -(-count // most)))
    else:
        looked_at = tuple(itertools.islice(dict.items(value) if base is dict else base.__iter__(value), most))
    each = sum(
        _content_size(item[0], depth + 1) + _content_size(item[1], depth + 1)
        if base is dict
        else _content_size(item, depth + 1)
        for item in looked_at
    )
    return 10 + each * count / len(looked_at)


def _object_size(value: Any, kind: type, depth: int) -> float:
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, numpy.ndarray | numpy.generic):
        base = numpy.ndarray if issubclass(kind, numpy.ndarray) else numpy.generic
        return 130.0 + int(base.nbytes.__get__(value))
    for part in kind.__mro__:
        found = part.__dict__.get("__dict__")
        if isinstance(
            found, GetSetDescriptorType | MemberDescriptorType
        ):  # the interpreter's own, not one that a class made up
            attributes = found.__get__(value)
            if part.__module__.startswith("pandas.") and "_mgr" in attributes:  # a table: what counts is its columns
                return 1000.0 + float(sum(block.values.nbytes for block in attributes["_mgr"].blocks))
            return _OBJECT_BYTES + (_container_size(attributes, dict, depth) if attributes else 0.0)
    return float(object.__sizeof__(value))
