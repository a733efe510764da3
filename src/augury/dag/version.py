"""A hash of what a callable does, so that measurements of old code no longer count.

Two processes that load the same code get the same hash, whatever the file's path, the line numbers, the
docstring or the seed of string hashing; and whether it is run as a script or imported. It changes with the bytecode,
the constants, nested functions and lambdas, defaults, and what a closure holds: simple values by value, functions by
their code, everything else by its type. Functions and classes of the user's own modules that are reached by their
global names count too, and those that they reach; values of globals do not, for they are settings and data. Of large
data only the beginning is looked at.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

from augury.dag.bytecode import names_in
from augury.dag.modules import may_change

_SIMPLE = frozenset({int, float, complex, str, bytes, bool, NoneType, type(...)})
_MOST_ITEMS = 1000
_MOST_PIECES = 20_000
_DEEPEST = 20
_MOST_HELPERS = 1000


def code_version(fn: Callable[..., Any]) -> str:
    """The hash of a callable, as 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for part in reached(fn):
        for piece in islice(_describe(part, ()), _MOST_PIECES):
            digest.update(b"%d:" % len(piece))  # lengths keep ("ab", "c") and ("a", "bc") apart
            digest.update(piece)
    return digest.hexdigest()


def reached(fn: Callable[..., Any]) -> list[Any]:
    """A callable, and the functions and classes of the user's that it reaches by global names, in the order it does."""
    found: dict[int, Any] = {id(fn): fn}
    pending = functions_in(fn)
    while pending and len(found) < _MOST_HELPERS:
        function = pending.pop(0)
        for _, value in named_in(function):
            if id(value) not in found and _is_followed(value, function):
                found[id(value)] = value
                pending += functions_in(value)
    return list(found.values())


def functions_in(value: Any) -> list[FunctionType]:
    """The plain functions that make up a callable."""
    if isinstance(value, FunctionType):
        return [value]
    if isinstance(value, partial):
        return functions_in(value.func)
    if isinstance(value, MethodType):
        return functions_in(value.__func__)
    wrapped = _unwrapped(value)
    if wrapped is not value:
        return functions_in(wrapped)
    owner = value if isinstance(value, type) else type(value)
    return [member for _, member in sorted(vars(owner).items()) if isinstance(member, FunctionType)]


def named_in(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global names in a function's code and what they stand for, also behind the name of a module of the user's."""
    names = names_in(function.__code__)
    places = {id(function.__globals__): function.__globals__}
    pending = [function.__globals__]
    for place in pending:
        for name in (*names, "__getattr__"):  # a module may answer for names that it does not have
            if name not in place:
                continue
            value = place[name]
            yield name, value
            if isinstance(value, ModuleType) and id(vars(value)) not in places and may_change(value):
                places[id(vars(value))] = vars(value)
                pending.append(vars(value))


def _is_followed(value: Any, by: FunctionType) -> bool:
    """Whether a value is code that the user may change: of the same package, or of another module of theirs."""
    inner = _unwrapped(value)
    name: object = getattr(inner, "__module__", None) if isinstance(inner, FunctionType | type) else None
    if not isinstance(name, str) or name.partition(".")[0] == "augury":
        return False
    module = sys.modules.get(name)
    return name.partition(".")[0] == str(by.__module__).partition(".")[0] or (module is not None and may_change(module))


def _unwrapped(value: Any) -> Any:
    """What a decorator wrapped, or the value itself."""
    if isinstance(value, FunctionType | type):
        return value
    try:
        return vars(value).get("__wrapped__", value)
    except Exception:  # noqa: BLE001 - it has no attributes, or is a proxy that does not want to be looked at
        return value


def _describe(value: Any, outer: tuple[int, ...]) -> Iterator[bytes]:
    """What matters of a value, in pieces that do not differ between processes.

    `outer` holds the identities of what is being described already: a closure may lead back to its function.
    """
    kind = type(value)
    yield kind.__qualname__.encode()
    if kind in _SIMPLE:
        yield repr(value).encode("utf-8", "surrogatepass")
    elif id(value) in outer or len(outer) > _DEEPEST:
        yield b"..."
    elif kind in _DESCRIBERS:
        yield from _DESCRIBERS[kind](value, (*outer, id(value)))
    elif isinstance(value, type):
        yield from _describe_class(value, (*outer, id(value)))
    elif "__wrapped__" in getattr(value, "__dict__", ()):
        yield from _describe(value.__wrapped__, (*outer, id(value)))
    elif callable(value) and not outer:
        yield from _describe_callable(value, (id(value),))


def _describe_code(code: CodeType, outer: tuple[int, ...], first_constant: int = 0) -> Iterator[bytes]:
    yield code.co_code
    yield code.co_exceptiontable
    yield repr(
        (
            *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags),
            *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        )
    ).encode("utf-8", "surrogatepass")
    for constant in code.co_consts[first_constant:]:
        yield from _describe(constant, outer)


def _describe_function(fn: FunctionType, outer: tuple[int, ...]) -> Iterator[bytes]:
    yield f"{_module_of(fn)}.{fn.__qualname__}".encode()
    # The compiler keeps the first place for the docstring, which does nothing.
    documented = fn.__code__.co_consts[:1] == (fn.__doc__,)
    yield from _describe_code(fn.__code__, outer, first_constant=int(documented))
    yield from _describe(fn.__defaults__, outer)
    yield from _describe(fn.__kwdefaults__, outer)
    yield from _describe([contents(cell) for cell in fn.__closure__ or ()], outer)


def _module_of(fn: FunctionType) -> str:
    """The module's name; for a script that which it would have if it were imported."""
    if fn.__module__ != "__main__":
        return fn.__module__
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    return Path(file).stem if isinstance(file, str) and file == fn.__code__.co_filename else "__main__"


def contents(cell: CellType) -> Any:
    """What a variable of a closure holds; an ellipsis while nothing was assigned to it."""
    try:
        return cell.cell_contents
    except ValueError:
        return ...


def _describe_builtin(fn: BuiltinFunctionType, outer: tuple[int, ...]) -> Iterator[bytes]:
    yield f"{fn.__module__}.{fn.__qualname__}".encode()
    yield type(fn.__self__).__qualname__.encode()


def _describe_method(method: MethodType, outer: tuple[int, ...]) -> Iterator[bytes]:
    yield from _describe(method.__func__, outer)
    yield from _describe_state(method.__self__, outer)


def _describe_partial(fn: "partial[Any]", outer: tuple[int, ...]) -> Iterator[bytes]:
    yield from _describe(fn.func, outer)
    yield from _describe(fn.args, outer)
    yield from _describe(fn.keywords, outer)


def _describe_class(cls: type, outer: tuple[int, ...]) -> Iterator[bytes]:
    yield f"{cls.__module__}.{cls.__qualname__}".encode()
    for name, member in sorted(vars(cls).items()):
        if isinstance(member, FunctionType):
            yield name.encode()
            yield from _describe(member, outer)


def _describe_callable(value: Any, outer: tuple[int, ...]) -> Iterator[bytes]:
    """An object that can be called: its class and what it was made with."""
    yield str(getattr(value, "__qualname__", getattr(value, "__name__", ""))).encode()
    yield from _describe_class(type(value), outer)
    yield from _describe_state(value, outer)


def _describe_state(value: Any, outer: tuple[int, ...]) -> Iterator[bytes]:
    yield type(value).__qualname__.encode()
    yield from _describe(dict(sorted(getattr(value, "__dict__", {}).items())), outer)


def _describe_sequence(value: Any, outer: tuple[int, ...]) -> Iterator[bytes]:
    yield b"%d" % len(value)
    if len(value) <= _MOST_ITEMS:
        for item in value:
            yield from _describe(item, outer)


def _describe_dict(value: dict[Any, Any], outer: tuple[int, ...]) -> Iterator[bytes]:
    yield from _describe_sequence([part for item in value.items() for part in item], outer)


def _describe_set(value: Any, outer: tuple[int, ...]) -> Iterator[bytes]:
    yield b"%d" % len(value)
    if len(value) <= _MOST_ITEMS:
        yield from sorted(b"|".join(_describe(item, outer)) for item in value)


_DESCRIBERS: dict[type, Callable[[Any, tuple[int, ...]], Iterator[bytes]]] = {
    BuiltinFunctionType: _describe_builtin,
    CodeType: _describe_code,
    FunctionType: _describe_function,
    MethodType: _describe_method,
    dict: _describe_dict,
    frozenset: _describe_set,
    list: _describe_sequence,
    partial: _describe_partial,
    set: _describe_set,
    tuple: _describe_sequence,
}
