"""What can be read from the code of a function without running it."""

import dis
import importlib.util
import itertools
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_BY_NAME = frozenset(dis.hasname)
_IMPORTERS = frozenset({"import_module", "__import__", "resolve_name", "run_module", "modules"})
_NAMESPACE = frozenset({"globals", "eval", "exec"})
_ALL_ATTRIBUTES = frozenset({"__dict__", "__getattribute__", "__getattr__", "__dir__", "__reduce_ex__"})
_NAMESPACE_OF = frozenset({"modules", "__globals__", "f_globals"})
"""Attributes through which any global can be had: those of `sys`, of functions, and of frames."""


class Import(NamedTuple):
    """An `import` somewhere in code.

    Attributes:
        name: The module, as it is written there; may be empty after dots.
        level: How many dots stand before it.
        parts: What is taken from it, which may be modules too.
    """

    name: str
    level: int
    parts: tuple[str, ...]

    def candidates(self, package: str) -> Iterator[str]:
        """The full names of the modules that it loads, outer ones first; some may be no modules.

        Args:
            package: Where dots lead from.
        """
        try:
            name = importlib.util.resolve_name("." * self.level + self.name, package)
        except ImportError:  # it would fail as well
            return
        steps = name.split(".")
        yield from (".".join(steps[:depth]) for depth in range(1, len(steps) + 1))
        yield from (f"{name}.{part}" for part in self.parts if part != "*")


class Uses(NamedTuple):
    """How a piece of code, and what is nested in it, uses names.

    Attributes:
        bare: Those that are used for more than one of their attributes.
        imports: What is imported, also what may be by a function that takes a module's name.
        imports_by_name: Whether it uses such a function, or gets at modules by their names in another way.
        whole_namespace: Whether it may use globals that it does not name.
    """

    bare: frozenset[str]
    imports: tuple[Import, ...]
    imports_by_name: bool
    whole_namespace: bool


def names_in(code: CodeType) -> tuple[str, ...]:
    """The names in a piece of code, each once, in the order of their first use: globals, attributes, modules."""
    return tuple(dict.fromkeys(name for each in _nested(code) for name in each.co_names))


@lru_cache(maxsize=16_384)
def uses_in(code: CodeType) -> Uses:
    """What a piece of code does with names; takes about as long as compiling it."""
    bare: set[str] = set()
    imports: list[Import] = []
    whole = by_name = False
    for each in _nested(code):
        steps = [step for step in dis.get_instructions(each) if step.opname != "EXTENDED_ARG"]
        imports += [_import(steps, place) for place, step in enumerate(steps) if step.opname == "IMPORT_NAME"]
        for step, after in itertools.pairwise(steps):
            if _loads_name(step) and not _takes_attribute(after):
                bare.add(step.argval)
                whole |= step.argval in _NAMESPACE and step.opname not in _ATTRIBUTES
        whole |= not _NAMESPACE_OF.isdisjoint(each.co_names)
        if not _IMPORTERS.isdisjoint(each.co_names):
            by_name = True
            imports += [named_import(text) for text in each.co_consts if isinstance(text, str) and is_dotted(text)]
    return Uses(frozenset(bare), tuple(imports), by_name, whole)


def _nested(code: CodeType) -> list[CodeType]:
    """A piece of code, and those of the functions, classes and comprehensions in it."""
    codes = [code]
    for each in codes:
        codes += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
    return codes


def _loads_name(step: dis.Instruction) -> bool:
    """Whether a step takes a global or an attribute, rather than a local variable or a constant."""
    return step.opname.startswith("LOAD_") and step.opcode in _BY_NAME


def _takes_attribute(step: dis.Instruction) -> bool:
    """Whether a step takes one attribute, and not one that leads to all of them."""
    return step.opname in _ATTRIBUTES and step.argval not in _ALL_ATTRIBUTES


def is_dotted(text: str) -> bool:
    """Whether a text may be the name of a module, with dots before it perhaps, and perhaps of what is in it."""
    module, _, inside = text.lstrip(".").partition(":")
    return all(map(str.isidentifier, (*module.split("."), *(inside.split(".") if inside else ()))))


def named_import(text: str) -> Import:
    """The import of a module by its name, which may lead to something in it: `package.module:function`."""
    name = text.lstrip(".")
    return Import(name.partition(":")[0], len(text) - len(name), ())


def _import(steps: list[dis.Instruction], place: int) -> Import:
    """An import: the compiler puts the number of dots, and then the names that are taken, before it."""
    level, parts = steps[place - 2].argval, steps[place - 1].argval
    return Import(steps[place].argval, level, tuple(parts or ()))
