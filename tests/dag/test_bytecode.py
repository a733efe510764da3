"""What is read from code without running it."""

from typing import Any

from augury.dag.bytecode import Import, names_in, uses_in


def uses_of(source: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return uses_in(namespace["f"].__code__)


def test_names_come_in_the_order_of_their_use_each_once() -> None:
    def f() -> Any:
        return [len(repr(item)) for item in (str(int), repr(""))]

    assert names_in(f.__code__) == ("str", "int", "repr", "len")


def test_imports_are_found_wherever_they_stand() -> None:
    found = uses_of(
        "def f(x):\n"
        "  import a.b as c\n"
        "  if x:\n"
        "    from ..d import e, g\n"
        "  def inner():\n"
        "    from . import h\n"
        "  return importlib.import_module('i.j'), 'no name', '..k', 'l.m:n.o'\n"
    )
    assert set(found.imports) == {
        Import("a.b", 0, ()),
        Import("d", 2, ("e", "g")),
        Import("", 1, ("h",)),
        Import("i.j", 0, ()),
        Import("k", 2, ()),
        Import("l.m", 0, ()),
    }
    assert found.imports_by_name
    assert not uses_of("def f(): import a").imports_by_name


def test_an_import_names_the_modules_on_its_way_and_what_may_be_modules() -> None:
    assert list(Import("a.b", 0, ("c", "*")).candidates("")) == ["a", "a.b", "a.b.c"]
    assert list(Import("a", 2, ("b",)).candidates("p.q")) == ["p", "p.a", "p.a.b"]
    assert list(Import("", 1, ("b",)).candidates("p")) == ["p", "p.b"]
    assert list(Import("a", 3, ()).candidates("p")) == []


def test_names_that_are_asked_for_an_attribute_only_are_not_bare() -> None:
    found = uses_of("def f(x):\n  own = 'text'\n  return asked.part.leaf, getattr(whole, x), [given for _ in x], own")
    assert {"whole", "given", "leaf"} <= found.bare
    assert found.bare.isdisjoint({"asked", "part", "own", "text", "x"})


def test_names_of_which_all_attributes_are_asked_for_are_bare() -> None:
    assert "asked" in uses_of("def f(x): return asked.__dict__[x]").bare
    assert "asked" in uses_of("def f(x): return asked.__getattribute__(x)").bare
    assert "asked" not in uses_of("def f(): return asked.__version__").bare


def test_a_function_may_use_globals_that_it_does_not_name() -> None:
    assert uses_of("def f(x): return eval(x)").whole_namespace
    assert uses_of("def f(x): return [globals() for _ in x]").whole_namespace
    assert not uses_of("def f(x): return x.eval('a')").whole_namespace
