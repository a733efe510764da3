"""Versions of functions: the same for the same code anywhere, another when what it does changes."""

import functools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augury.dag.task import Function, TaskOptions

BASE = "def f(x, y=1):\n    return [x + 1, y]\n"


def version_of(fn: Callable[..., Any]) -> str:
    return Function(fn, TaskOptions()).version()


def defined(source: str, filename: str = "<string>", **names: Any) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"__name__": "somewhere", **names}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def version_of_source(source: str, filename: str = "<string>") -> str:
    return version_of(defined(source, filename))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BASE, "def f(x, y=1):\n    return [x + 2, y]\n"),
        (BASE, "def f(x, y=1):\n    return [x - 1, y]\n"),
        (BASE, "def f(x, y=2):\n    return [x + 1, y]\n"),
        (BASE, "def f(x, y=1.0):\n    return [x + 1, y]\n"),
        (BASE, "def f(x, y=True):\n    return [x + 1, y]\n"),
        ("def f(x, *, y=1): return y", "def f(x, *, y=2): return y"),
        ("def f(x, *, y=1): return y", "def f(x, y=1): return y"),
        ("def f(x): return map(lambda y: y + 1, x)", "def f(x): return map(lambda y: y + 2, x)"),
        ("def f(x): return [y for y in x if y == 'a']", "def f(x): return [y for y in x if y == 'b']"),
        ("def f(x): return x in {1, 2}", "def f(x): return x in {1, 3}"),
        ("def f(x): return x.a", "def f(x): return x.b"),
        ("def f(x, y=[1, 2]): return y", "def f(x, y=[1, 3]): return y"),
        ("def f(x, y={'a': {1}}): return y", "def f(x, y={'a': {2}}): return y"),
        ("def f(x, y=('ab', 'c')): return y", "def f(x, y=('a', 'bc')): return y"),
        (
            "def f(x):\n try:\n  x()\n  x()\n except E:\n  pass",
            "def f(x):\n x()\n try:\n  x()\n except E:\n  pass",
        ),
        ("def f(x): yield x", "def f(x): return x"),
        ("def g(x): return x\nf = g", "def f(x): return x"),
    ],
)
def test_the_version_changes_with_what_the_function_does(first: str, second: str) -> None:
    assert version_of_source(first) != version_of_source(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BASE, "\n\n\n" + BASE),
        (BASE, "def f(x, y=1):\n    # a remark\n\n    return [\n        x + 1,\n        y,\n    ]\n"),
        ("def f(x):\n    'Old words.'\n    return x", "def f(x):\n    'New words.'\n    return x"),
        ("def f(x: int) -> int: return x", "def f(x: float) -> float: return x"),
    ],
    ids=["lines", "layout", "docstring", "annotations"],
)
def test_the_version_stays_when_only_looks_change(first: str, second: str) -> None:
    assert version_of_source(first) == version_of_source(second)


def test_the_version_does_not_depend_on_the_path_of_the_file() -> None:
    assert version_of_source(BASE, "/one/place.py") == version_of_source(BASE, "/another/place.py")


def test_the_version_depends_on_the_module() -> None:
    assert version_of(defined(BASE, __name__="a")) != version_of(defined(BASE, __name__="b"))


PROGRAM = """
import functools
from augury.dag.task import Function, TaskOptions

def closure(table):
    def f(x, y=frozenset({"a", "b", "c", "d"}), *, z={"k": {"p", "q", "r"}}):
        return x in {"red", "green", "blue"}, table, object()
    return f

class Scale:
    def __init__(self):
        self.words = {"a", "b", "c"}
        self.thing = object()
    def __call__(self, x):
        return x

for fn in (closure({"x", "y", "z"}), functools.partial(closure(()), {"l", "m"}), Scale(), Scale, Scale().__call__, len):
    print(Function(fn, TaskOptions()).version())
"""


def test_the_version_is_the_same_in_every_process(tmp_path: Path) -> None:
    seen = set()
    for seed in ("0", "1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        (folder / "program.py").write_text(PROGRAM)
        done = subprocess.run(
            [sys.executable, str(folder / "program.py")],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        )
        seen.add(done.stdout)
    assert len(seen) == 1
    assert len(set(seen.pop().split())) == 6


def scaled_by(factor: Any) -> Callable[..., Any]:
    def scale(x: Any) -> Any:
        return x * factor

    return scale


@pytest.mark.parametrize(
    ("one", "other"), [(1, 2), (1, 1.0), ("a", "b"), ((1, (2,)), (1, (3,))), ([1], [2]), (None, 0)]
)
def test_the_version_depends_on_simple_values_in_a_closure(one: Any, other: Any) -> None:
    assert version_of(scaled_by(one)) != version_of(scaled_by(other))
    assert version_of(scaled_by(one)) == version_of(scaled_by(one))


def test_the_version_depends_on_the_code_of_functions_in_a_closure() -> None:
    assert version_of(scaled_by(lambda x: x)) != version_of(scaled_by(lambda x: -x))


def test_the_version_depends_on_what_a_decorator_wraps() -> None:
    def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(*args: Any) -> Any:
            return fn(*args)

        return wrapper

    one, other = defined("def f(x): return x"), defined("def f(x): return -x")
    assert version_of(logged(one)) != version_of(logged(other))
    assert version_of(functools.lru_cache(one)) != version_of(functools.lru_cache(other))


def test_objects_in_a_closure_count_by_their_type() -> None:
    assert version_of(scaled_by(object())) == version_of(scaled_by(object()))
    assert version_of(scaled_by(object())) != version_of(scaled_by(np.zeros(1)))


def test_a_closure_that_leads_back_to_its_function_has_a_version() -> None:
    def make() -> Callable[..., Any]:
        def loop(x: Any) -> Any:
            return loop(x)

        return loop

    assert version_of(make()) == version_of(make())


def test_a_closure_variable_without_a_value_has_a_version() -> None:
    def make() -> Callable[..., Any]:
        def f() -> Any:
            return later

        version = version_of(f)
        later = 1
        assert version != version_of(f)
        return f

    make()


def test_a_container_that_contains_itself_has_a_version() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert version_of(scaled_by(value)) == version_of(scaled_by(value))


def test_large_data_in_a_closure_costs_little() -> None:
    value: Any = 1
    for _ in range(15):
        value = [value] * 100  # 10**30 items, if one went through all of them
    assert version_of(scaled_by(value)) == version_of(scaled_by(value))


def add(x: int, y: int = 0) -> int:
    return x + y


class Scaler:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, x: int) -> int:
        return x * self.factor

    def twice(self, x: int) -> int:
        return 2 * x


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (functools.partial(add, 1), functools.partial(add, 2)),
        (functools.partial(add, y=1), functools.partial(add, y=2)),
        (functools.partial(add, 1), add),
        (functools.partial(add, 1), functools.partial(Scaler, 1)),
        (len, sum),
        (math.sqrt, math.sin),
        (np.sin, np.cos),
        (str.upper, str.lower),
        (Scaler(1), Scaler(2)),
        (Scaler(1), Scaler),
        (Scaler(1).twice, Scaler(1)),
    ],
)
def test_callables_of_every_kind_have_versions_of_their_own(one: Callable[..., Any], other: Callable[..., Any]) -> None:
    assert version_of(one) == version_of(one)
    assert version_of(one) != version_of(other)


# ── what a function calls ──────────────────────────────────────────────────────────────────────────────────────

CALLER = """
def f(x):
    return [helper(y) for y in x]

def helper(x):
    return further(x) + FACTOR

def further(x):
    return helper(x - 1) if x > {limit} else {constant}

def other():
    return {unused}

FACTOR = {factor}
"""


def version_of_caller(**changed: object) -> str:
    return version_of_source(CALLER.format(**{"limit": 0, "constant": 1, "unused": 2, "factor": 3} | changed))


@pytest.mark.parametrize("changed", [{"constant": 9}, {"limit": 9}])
def test_the_version_depends_on_the_functions_that_it_calls(changed: dict[str, object]) -> None:
    assert version_of_caller(**changed) != version_of_caller()


@pytest.mark.parametrize("changed", [{"unused": 9}, {"factor": 9}])
def test_the_version_does_not_depend_on_what_it_does_not_call_nor_on_values(changed: dict[str, object]) -> None:
    assert version_of_caller(**changed) == version_of_caller()


MAIN = """
import sys
sys.path.insert(0, {folder!r})
import helping, helping.inner
from augury.dag.task import Function, TaskOptions
from helping import named

def by_name(x): return named(x)
def by_module(x): return helping.named(x)
def by_package(x): return helping.inner.deep(x)
def by_class(x): return helping.Tool().use(x)
def wrapped(x): return helping.decorated(x)
def foreign(x): return sys.getsizeof(x), Function

if __name__ == "__main__":
    for fn in (by_name, by_module, by_package, by_class, wrapped, foreign):
        print(Function(fn, TaskOptions()).version())
"""
HELPING = """
import functools
def named(x): return x + {0}
def unused(x): return x + {0}
class Tool:
    def use(self, x): return x + {0}
def decorator(fn):
    @functools.wraps(fn)
    def inner(x): return fn(x)
    return inner
@decorator
def decorated(x): return x + {0}
"""


def versions_with_helpers(folder: Path, constant: int) -> list[str]:
    package = folder / "helping"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(HELPING.format(constant))
    (package / "inner.py").write_text(f"def deep(x): return x + {constant}")
    (folder / "main.py").write_text(MAIN.format(folder=str(folder)))
    done = subprocess.run([sys.executable, "main.py"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_helpers_in_other_modules_count_however_they_are_reached(tmp_path: Path) -> None:
    before, after = versions_with_helpers(tmp_path / "a", 1), versions_with_helpers(tmp_path / "b", 2)
    assert len(before) == 6
    assert [one == other for one, other in zip(before, after, strict=True)] == [False] * 5 + [True]


JOB = """
from augury.dag.task import Function, TaskOptions
def show(): print(Function(f, TaskOptions()).version())
def f(x): return x + 1
if __name__ == '__main__': show()
"""


def test_a_script_and_a_module_of_the_same_name_have_the_same_versions(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert run("job.py") == run("-c", "import job; job.show()") == run("-m", "job")
