"""A hash of values, so that the output of a call can be found again by what it was computed from.

Different values have different hashes; equal ones have the same hash in every process, as far as that can be had.
Values are pickled for it, but not as they are when they travel:

- nothing is told of identities: whether two equal parts are one object depends on how they came here; but what is
  large stands for its hash, so that it is looked at once;
- sets are sorted, since their order depends on the seed of string hashing;
- of arrays the contents count, and whether they lie in memory by rows or by columns, since sums may depend on it; not
  whether they may be changed;
- classes, functions and modules that the user may change stand for all that they do and hold; see `_parts_of`;
- what is otherwise pickled by a name alone stands for what it is made of; see `augury.dag.apart`;
- what is installed stands for its name and the version of its package.

Code leads to more code, and back to itself. So it is not hashed where it is met: it gets a number there, and its
parts follow after the value, in the order of the numbers, each once.

    value           [ 3, #0 ]            def f(x): return g(x) + K
    #0  f           code of f, g = #1, K = 5
    #1  g           code of g, f = #0    def g(x): return f(x - 1) if x else 0

A value whose parts are met often, such as a graph of objects that share others, would grow without end if each of them
were looked at wherever it is met. So if there are very many, counted that way, the hash begins anew, and each part
that holds others is looked at once and stands for its hash.

What cannot be pickled has no hash. What is pickled in another way each time has another one each time: such a call
is never found again, and that is all.
"""

import io
import pickle
import sys
from collections.abc import Iterator
from hashlib import sha256
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from augury.dag.annotation import names_in_annotations
from augury.dag.apart import more_of_class, taken_apart
from augury.dag.bytecode import is_dotted, named_import, uses_in
from augury.dag.modules import may_change, module_name
from augury.dag.source import source_of
from augury.dag.version import contents, named_in
from augury.errors import SerializationError
from augury.serde import is_dispatching
from augury.versions import versions_of

_DIGEST_BYTES = 20
_ATOMS = frozenset({int, float, complex, bool, type(None)})
_SIZED = frozenset({str, bytes, list, tuple, dict})
_MANY = 1000
_MOST_PARTS = 2_000_000
"""How many parts of a value are looked at wherever they are met."""
_SORTED = frozenset({int, str, bytes})
_HEAP_TYPE = 1 << 9
_MADE_BY_PYTHON = frozenset(
    {
        *("__builtins__", "__cached__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__"),
        *("__annotations_cache__", "__dict__", "__firstlineno__", "__module__", "__static_attributes__", "__weakref__"),
        "_abc_impl",
    }
)
"""What a namespace holds that says where its code is, not what it does."""
_WITHOUT_VERSION = sys.stdlib_module_names | {"augury", "__main__"}
_PYTHON = repr(tuple(sys.version_info)).encode()


def value_digest(value: Any) -> bytes:
    """The hash of a value, which may be a function; raises whatever its pickling raises.

    Raises:
        SerializationError: Code that it leads to has something about it that has no hash.
    """
    try:
        return _Walk(once=False).digest(value)
    except _TooManyParts:
        return _Walk(once=True).digest(value)


class _TooManyParts(Exception):
    """A value is too large to look at all of its parts wherever they are met."""


class _Import(NamedTuple):
    """A module that code imports when it is called."""

    name: str


class _Walk:
    """One hash in the making.

    Always true: `_met` holds each piece of code that `number` was asked for, at its number, and each import once.

    Args:
        once: Whether each part that holds others is looked at once; else `_TooManyParts` is raised if there are many.
        by_name: Whether names are enough of the code that is met; nothing follows then.
    """

    def __init__(self, *, once: bool, by_name: bool = False) -> None:
        self.once = once
        self.by_name = by_name
        self._parts = 0
        self._names = self if by_name else _Walk(once=once, by_name=True)
        self._hash = sha256(_PYTHON)
        self._numbers: dict[int, int] = {}
        self._met: list[Any] = []
        self._imports: set[str] = set()
        self._packages: set[str] = set()
        self._name_themselves: dict[type, bool] = {}
        self._shared: dict[int, tuple[Any, bytes]] = {}  # holds the objects too, so that their ids stay their own

    def digest(self, value: Any) -> bytes:
        """The hash of a value and of all that it leads to."""
        self._add(value)
        for met in self._met:  # grows on the way
            try:
                self._add(_parts_of(met, self))
            except _TooManyParts:
                raise
            except Exception as error:
                raise SerializationError(f"{_label(met)} has no hash: {error}") from error
        if self._packages:
            self._add(sorted(versions_of(self._packages - _WITHOUT_VERSION).items()))
        return self._hash.digest()[:_DIGEST_BYTES]

    def number(self, code: Any) -> int:
        """What stands for a function, class or module; its parts follow."""
        if id(code) not in self._numbers:
            self._numbers[id(code)] = len(self._met)
            self._met.append(code)
        return self._numbers[id(code)]

    def note_import(self, name: str) -> None:
        """Code imports a module when it is called; its parts follow."""
        if name not in self._imports:
            self._imports.add(name)
            self._met.append(_Import(name))

    def note_module(self, name: object) -> None:
        """Something is defined in a loaded module: its version counts, or its file if nothing else can be seen."""
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is None:
            return
        if not may_change(module):
            self.note_package(module_name(module))
        elif _is_binary(module):
            self.note_import(module_name(module))

    def note_package(self, module: str) -> None:
        """The version of a module's package counts."""
        self._packages.add(module.partition(".")[0])

    def may_name_itself(self, kind: type) -> bool:
        """Whether objects of a class that the user may change say themselves how they are pickled."""
        if kind not in self._name_themselves:
            special = any({"__reduce__", "__reduce_ex__"} & vars(cls).keys() for cls in kind.__mro__[:-1])
            self._name_themselves[kind] = special and not _is_known_by_name(kind)
        return self._name_themselves[kind]

    def shared(self, part: Any) -> bytes:
        """The hash of a part of a value, which is looked at once however often it is met."""
        if id(part) not in self._shared:
            self._shared[id(part)] = (part, _hash_of(_pickled(part, self)))
        return self._shared[id(part)][1]

    def in_order(self, members: Any) -> list[Any]:
        """The members of a set; where only what code does tells them apart, in any order."""
        kinds = set(map(type, members))
        return sorted(members) if len(kinds) == 1 and kinds <= _SORTED else sorted(members, key=self._sort_key)

    def count_part(self) -> None:
        """Another part of the value is looked at."""
        self._parts += 1
        if self._parts > _MOST_PARTS and not self.once:
            raise _TooManyParts

    def _sort_key(self, member: Any) -> bytes:
        names = self._names
        return names.shared(member) if self.once else b"".join(_pickled(member, names))

    def _add(self, value: Any) -> None:
        self._hash.update(_hash_of(_pickled(value, self)))


def _pickled(value: Any, walk: _Walk) -> list[memoryview]:
    stream = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    pickler = _ValuePickler(value, stream, buffers, walk)
    pickler.fast = True  # without identities; what contains itself is refused
    pickler.dump(value)
    return [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]


def _hash_of(parts: list[memoryview]) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(b"%d:" % part.nbytes)  # lengths keep ("ab", "c") and ("a", "bc") apart
        digest.update(part)
    return digest.digest()


class _ValuePickler(pickle.Pickler):
    """Pickles what matters of a value; the result is for hashing alone.

    Args:
        value: What is pickled.
        stream: Where to.
        buffers: Where large data goes.
        walk: What goes on with the code that is met.
    """

    def __init__(self, value: Any, stream: io.BytesIO, buffers: list[pickle.PickleBuffer], walk: _Walk) -> None:
        super().__init__(stream, protocol=5, buffer_callback=buffers.append)
        self._value = value
        self._walk = walk

    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in _ATOMS:
            return None
        if obj is not self._value and self._stands_for_hash(obj, kind):
            return "part", self._walk.shared(obj)
        if kind in _SIZED:
            return None
        if kind is set or kind is frozenset:
            return kind.__name__, self._walk.in_order(obj)
        if _is_code(kind):
            return self._code(obj)
        if _is_alias(kind):
            return "alias", obj.__name__, None if self._walk.by_name else self._walk.number(obj)
        if kind is BuiltinFunctionType and not self._walk.by_name:
            self._walk.note_module(obj.__module__)
        parts = taken_apart(obj)
        if parts is not None:
            return parts
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray" and not obj.dtype.hasobject:
            return "array", obj.dtype, obj.shape, obj.flags.fnc, _array_digest(obj)
        return self._named(obj, kind)

    def _stands_for_hash(self, obj: Any, kind: type) -> bool:
        if kind in _SIZED and len(obj) >= _MANY and not self._walk.by_name:
            return True
        if kind is str or kind is bytes or _is_code(kind):
            return False
        self._walk.count_part()
        return self._walk.once

    def _named(self, obj: Any, kind: type) -> tuple[Any, ...] | None:
        """What stands for an object that is pickled by the name of a global variable, if the user may change it."""
        if self._walk.by_name or not self._walk.may_name_itself(kind):
            return None
        name = obj.__reduce_ex__(5)
        return ("named", kind, name, obj.__getstate__()) if isinstance(name, str) else None

    def _code(self, code: Any) -> tuple[Any, ...]:
        name = (module_name(code),) if isinstance(code, ModuleType) else (code.__module__, code.__qualname__)
        if self._walk.by_name:
            return "code", *name
        self._walk.note_module(name[0])
        # The user's implementations may be registered with a function of somebody else's.
        by_name = _is_known_by_name(code) and not (isinstance(code, FunctionType) and is_dispatching(code))
        return ("code", *name) if by_name else ("code", self._walk.number(code))


def _is_code(kind: type) -> bool:
    return kind is FunctionType or kind is ModuleType or issubclass(kind, type)


def _is_alias(kind: type) -> bool:
    """Whether objects of a class are names of types, as in `type Tree = list[Tree]`; they may lead to themselves."""
    return kind.__name__ == "TypeAliasType" and kind.__module__ in ("typing", "typing_extensions")


def _is_known_by_name(code: Any) -> bool:
    """Whether the name of a class, function or module says what it is, given the version of its package."""
    if isinstance(code, ModuleType):
        return not may_change(code)
    if isinstance(code, type) and not code.__flags__ & _HEAP_TYPE:
        return True  # written in C
    found: Any = sys.modules.get(code.__module__) if isinstance(code.__module__, str) else None
    if found is None or may_change(found):
        return False
    for name in code.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is code


def _parts_of(code: Any, walk: _Walk) -> tuple[Any, ...]:
    """All that a function, class or module does and holds."""
    if isinstance(code, FunctionType):
        return _function_parts(code, walk)
    if isinstance(code, _Import):
        return _import_parts(code, walk)
    if _is_alias(type(code)):
        return "alias", code.__name__, code.__type_params__, code.__value__
    if isinstance(code, ModuleType):
        return "module", module_name(code), sorted(_namespace(vars(code)), key=_first)
    return _class_parts(code)


def _class_parts(cls: type) -> tuple[Any, ...]:
    namespace = _namespace(vars(cls))
    home = sys.modules.get(cls.__module__)
    told = names_in_annotations(vars(cls).get("__annotations__"), vars(home) if home else {})
    names = (cls.__module__, cls.__qualname__, cls.__name__)
    return "class", *names, type(cls), cls.__bases__, namespace, told, *more_of_class(cls)


def _label(code: Any) -> str:
    """What a reader calls a piece of code."""
    if isinstance(code, _Import | ModuleType):
        return f"the module {code.name if isinstance(code, _Import) else module_name(code)}"
    return f"{code.__module__}.{code.__qualname__}"


def _import_parts(imported: _Import, walk: _Walk) -> tuple[Any, ...]:
    source = source_of(imported.name)
    if source.is_pinned:
        walk.note_package(imported.name)
    for name in source.imports:
        walk.note_import(name)
    return "import", imported.name, source.content


def _namespace(names: Any) -> list[tuple[str, Any]]:
    return [item for item in list(names.items()) if item[0] not in _MADE_BY_PYTHON]


def _first(item: tuple[str, Any]) -> str:
    return item[0]


def _function_parts(fn: FunctionType, walk: _Walk) -> tuple[Any, ...]:
    name = ("function", fn.__module__, fn.__qualname__, fn.__name__)
    if is_dispatching(fn):
        return *name, list(vars(fn)["registry"].items())
    held = [contents(cell) for cell in fn.__closure__ or ()]
    parts = (*name, fn.__code__, fn.__doc__, fn.__defaults__, fn.__kwdefaults__, _annotations(fn), vars(fn), held)
    home = sys.modules.get(str(fn.__globals__.get("__name__")))
    if home is not None and vars(home) is fn.__globals__ and not may_change(home):
        walk.note_package(module_name(home))  # the inner part of an installed decorator, for instance
        return parts
    uses = uses_in(fn.__code__)
    package = fn.__globals__.get("__package__") or ""
    for imported in uses.imports:
        for candidate in imported.candidates(package):
            walk.note_import(candidate)
    if uses.imports_by_name:
        held += [fn.__defaults__, fn.__kwdefaults__, *(value for _, value in named_in(fn))]
        for imported in map(named_import, _texts_in(held)):
            for candidate in imported.candidates(package):
                walk.note_import(candidate)
    return *parts, _globals_of(fn, walk), names_in_annotations(_annotations(fn), fn.__globals__)


def _texts_in(values: Any) -> Iterator[str]:
    """The texts among values that may be the names of modules, also in lists and the like."""
    for value in values:
        if isinstance(value, str) and is_dotted(value) and value != "__main__":  # of which all globals count then
            yield value
        elif isinstance(value, list | tuple | set | frozenset | dict) and len(value) < _MANY:
            yield from _texts_in(value.values() if isinstance(value, dict) else value)


def _annotations(fn: FunctionType) -> Any:
    """What is said of parameters; where that is worked out only when it is asked for, how."""
    return getattr(fn, "__annotate__", None) or fn.__annotations__


def _globals_of(fn: FunctionType, walk: _Walk) -> list[Any]:
    """The global names in a function and what they stand for, modules only if more than what they hold is used."""
    uses = uses_in(fn.__code__)
    found: list[Any] = [sorted(_namespace(fn.__globals__), key=_first)] if uses.whole_namespace else []
    for name, value in named_in(fn):
        if isinstance(value, ModuleType):
            walk.note_module(module_name(value))
        else:
            walk.note_module(getattr(value, "__module__", None))
        if not isinstance(value, ModuleType) or name in uses.bare:
            found.append((name, value))
    return found


def _is_binary(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not file.endswith((".py", ".pyc", ".pyw"))


def _array_digest(array: Any) -> bytes:
    """The hash of an array's contents, row by row, or column by column if that is how they lie in memory."""
    rows = array.T if array.flags.fnc else array
    contiguous = rows if rows.flags.c_contiguous else rows.copy(order="C")
    return sha256(contiguous.reshape(-1).view("u1") if contiguous.size else b"").digest()
