"""Hashes of values and functions: the same for what is equal, others for what is not."""

import copy
import functools
import os
import pickle
import subprocess
import sys
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury import task
from augury.dag import digest
from augury.dag.digest import value_digest
from augury.errors import SerializationError

SOURCE = """
LIMIT = 3
TABLE = {"a": [1, 2]}

class Base:
    scale = 2
    @property
    def twice(self): return 2 * self.x

class Point(Base):
    def __init__(self, x): self.x = x
    def move(self, by): return self.x + by

def helper(x, step=1): return x + step

def make(held):
    def inner(x): return held, x
    return inner

inner = make([1, 2])

def f(x):
    point = Point(x)
    return helper(x) + LIMIT, TABLE, point.move(1), point.twice, inner(x)
"""


WRAPPER = """
import functools
class Wrapper:
    def __init__(self, fn, k): functools.update_wrapper(self, fn); self.fn, self.k = fn, k
    def __call__(self, x): return self.k * self.fn(x)
"""
DISPATCH = """
import functools
@functools.singledispatch
def g(x): return 0
@g.register(int)
def _(x): return 1
"""


METHODS = """
def without_wraps(fn):
    def wrapper(self): return fn(self)
    return wrapper
class Base:
    def fast(self): return 0
class S(Base):
    @without_wraps
    def fast(self): return 1
    @without_wraps
    def slow(self): return 2
"""
ENUM = "from enum import Enum\n"
NEW = """
  def __new__(cls, value, extra):
    made = object.__new__(cls)
    made._value_, made.extra = value, extra
    return made
"""
TEXT = """
  def __new__(cls, value):
    made = str.__new__(cls, value # 1
    )
    made._value_ = value
    return made
"""
STRUCT = """
from msgspec import Struct, field
from msgspec.json import encode
class S(Struct, rename=None, eq=True):
    a: int = 1
    b: object = field(default_factory=list)
"""
ALIAS = "from typing_extensions import TypeAliasType as Alias\n"
MISSING = """
class Missing:
    def __reduce__(self): return "M"
    def weight(self): return 1
"""


def defined(source: str) -> Any:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<string>", "exec"), namespace)
    return namespace["f"]


@dataclass
class Pair:
    left: Any
    right: Any


class CallsBase(OrderedDict[str, int]):
    pass


COUNTER = CallsBase(a=1)


class Colour(Enum):
    RED = 1
    BLUE = 2


class TestFunctions:
    def test_the_same_code_has_the_same_hash(self) -> None:
        assert value_digest(defined(SOURCE)) == value_digest(defined(SOURCE))

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("return helper(x) + LIMIT", "return helper(x) - LIMIT"),
            ("LIMIT = 3", "LIMIT = 4"),
            ('"a": [1, 2]', '"a": [1, 3]'),
            ("scale = 2", "scale = 3"),
            ("2 * self.x", "3 * self.x"),
            ("return self.x + by", "return self.x - by"),
            ("step=1", "step=2"),
            ("return x + step", "return x * step"),
            ("make([1, 2])", "make([1, 3])"),
            ("return held, x", "return x, held"),
        ],
        ids=["code", "global", "in a global", "class", "property", "method", "default", "helper", "closure", "inner"],
    )
    def test_whatever_it_uses_changes_it(self, old: str, new: str) -> None:
        assert SOURCE.count(old) == 1
        assert value_digest(defined(SOURCE)) != value_digest(defined(SOURCE.replace(old, new)))

    @pytest.mark.parametrize(
        ("source", "old", "new"),
        [
            ("def g(): return g.k\ng.k = 1\ndef f(): return g()", "g.k = 1", "g.k = 2"),
            ("class C: __version__ = 1\ndef f(): return C.__version__", "= 1", "= 2"),
            ("K = 1\nclass C:\n  def __class_getitem__(cls, i): return K\ndef f(): return C[0]", "K = 1", "K = 2"),
            ("K = 1\nclass C:\n  def __init_subclass__(cls): cls.k = K\ndef f():\n  class D(C): pass", "= 1", "= 2"),
            ("K = 1\nclass M(type):\n  def k(cls): return K\nclass C(metaclass=M): pass\ndef f(): C.k()", "= 1", "= 2"),
            (WRAPPER + "w = Wrapper(len, 1)\ndef f(): return w('')", "(len, 1)", "(len, 2)"),
            (WRAPPER + "w = Wrapper(Wrapper(len, 1), 1)\ndef f(): return w('')", "(len, 1)", "(len, 2)"),
            ("from functools import cache\nK = 1\n@cache\ndef g(): return K\ndef f(): return g()", "= 1", "= 2"),
            (DISPATCH + "def f(x): return g(x)", "return 1", "return 2"),
            (DISPATCH + "def f(x): return g(x)", "int", "float"),
            ("from dataclasses import make_dataclass as m\nD = m('D', [('a', int, 1)])\ndef f(): D()", "1)", "2)"),
            ("class C:\n  a = 1\n  b = 2\ndef f(): return vars(C)", "a = 1\n  b = 2", "b = 2\n  a = 1"),
            ("def f():\n  'Tell.'\n  return f.__doc__", "Tell", "Say"),
            ("def f(x: int): return f.__annotations__", "int", "float"),
            ("K = 1\ndef f(): return globals()['K']", "K = 1", "K = 2"),
            ("K = 1\ndef f(name): return eval(name)", "K = 1", "K = 2"),
            ("K = None\ndef f(): return K", "None", "0"),
            ("def a(): return 1\nS = {a, len}\ndef f(): return [g() for g in S]", "return 1", "return 2"),
            ("T = {'a': lambda x: x + 1}\ndef f(): return T['a'](1)", "x + 1", "x + 2"),
        ],
        ids=[
            *("attribute of a function", "dunder of a class", "__class_getitem__", "__init_subclass__", "metaclass"),
            *(
                "wrapper",
                "wrapped wrapper",
                "cached",
                "dispatched",
                "dispatched type",
                "made class",
                "order in a class",
            ),
            *("docstring", "annotation", "globals()", "eval", "nothing", "set of functions", "dict of functions"),
        ],
    )
    def test_so_does_what_is_less_obvious(self, source: str, old: str, new: str) -> None:
        assert source.count(old) == 1
        assert value_digest(defined(source)) == value_digest(defined(source))
        assert value_digest(defined(source)) != value_digest(defined(source.replace(old, new)))

    @pytest.mark.parametrize(
        ("source", "old", "new"),
        [
            (METHODS + "m = S().fast\ndef f(): return m()", "m = S().fast", "m = S().slow"),
            (METHODS + "m = S().fast\ndef f(): return m()", "m = S().fast", "m = super(S, S()).fast"),
            ("import types\nm = types.MethodType(lambda s: 1, 5)\ndef f(): return m()", "s: 1", "s: 2"),
            ("from datetime import *\nm = date.isoformat\ndef f(d): return m(d)", "= date.iso", "= datetime.iso"),
            ("m = str.upper\ndef f(d): return m(d)", "str.", "bytes."),
            ("from collections import *\nm = dict.fromkeys\ndef f(d): return m(d)", "= dict.", "= OrderedDict."),
            (ENUM + "class E(Enum):\n  A = 'a', 1\n" + NEW + "def f(): return E.A.extra", "'a', 1", "'a', 2"),
            (ENUM + "class E(str, Enum):\n  A = 'a'\nE.A.late = 1\ndef f(): return E.A.late", "late = 1", "late = 2"),
            (ENUM + "class E(str, Enum):\n  A = 'a'\n" + TEXT + "def f(): return E.A + ''", "# 1", "+ '1'"),
            (MISSING + "M = Missing()\ndef f(): return M.weight()", "return 1", "return 2"),
            (MISSING + "M = Missing()\nM.k = 1\ndef f(): return M.k", "k = 1", "k = 2"),
            ("import abc\nclass A(abc.ABC): pass\nA.register(int)\ndef f(x): return isinstance(x, A)", "int", "str"),
            ("class I: k = 1\ndef f(x: 'list[I]'): pass", "k = 1", "k = 2"),
            ("from typing import *\nclass I: k = 1\ndef f(x: List['I']): pass", "k = 1", "k = 2"),
            ("import sys\nK = 1\ndef f(n): return getattr(sys.modules[__name__], n)", "K = 1", "K = 2"),
            ("K = 1\ndef g(): pass\ndef f(n): return g.__globals__[n]", "K = 1", "K = 2"),
            ("import sys\nK = 1\ndef f(n): return sys._getframe().f_globals[n]", "K = 1", "K = 2"),
            (STRUCT + "def f(): return S().a", "a: int = 1", "a: int = 2"),
            (STRUCT + "def f(): return S().b", "default_factory=list", "default_factory=dict"),
            (STRUCT + "def f(): return encode(S())", "rename=None", "rename='upper'"),
            (STRUCT + "def f(): return S() == S()", "eq=True", "eq=False"),
            ("def g(): pass\ng.__name__ = 'a'\ndef f(): return g.__name__", "'a'", "'b'"),
            ("class C: pass\nC.__name__ = 'a'\ndef f(): return C.__name__", "'a'", "'b'"),
            ("import typing\nT = typing.TypeVar('T', covariant=True)\ndef f(): return T", "covariant", "contravariant"),
            (ALIAS + "A = Alias('A', list['K'])\ndef f(x: A): pass", "list", "set"),
            (ALIAS + "A = Alias('A', list[int])\nB = Alias('B', A | None)\ndef f(x: B): pass", "int", "str"),
            (ALIAS + "class I: k = 1\nA = Alias('A', I)\nI.back = A\ndef f(): return A", "k = 1", "k = 2"),
        ],
        ids=[
            *("bound method", "method of super()", "function as a method", "C method", "C method of a type"),
            *("C class method", "attribute of a member", "late attribute of a member", "what a member is"),
            *("class of what names itself", "state of what names itself", "registered class"),
            *("text annotation", "text in an annotation", "sys.modules", "__globals__", "f_globals"),
            *("default of a struct", "what makes a default", "names in bytes", "what a struct can do"),
            *("late name of a function", "late name of a class", "type variable"),
            *("alias of a type", "alias of an alias", "alias that leads to itself"),
        ],
    )
    def test_a_name_is_not_enough(self, source: str, old: str, new: str) -> None:
        assert source.count(old) == 1
        assert value_digest(defined(source)) == value_digest(defined(source))
        assert value_digest(defined(source)) != value_digest(defined(source.replace(old, new)))

    @pytest.mark.parametrize("way", ["import_module(NAME)", "import_module(TABLE['a'])", "import_module(held)"])
    def test_a_module_whose_name_is_held_somewhere_counts(
        self, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(str(tmp_path))
        for name in ("held_one", "held_two"):
            (tmp_path / f"{name}.py").write_text(f"K = {name!r}")
        source = f"from importlib import import_module\ndef f(held='held_one'): return {way}.K"
        source += "\nNAME, TABLE = 'held_one', {'a': 'held_one'}"
        before = value_digest(defined(source))
        assert value_digest(defined(source)) == before
        (tmp_path / "held_one.py").write_text("K = 'another text'")
        assert value_digest(defined(source)) != before

    def test_the_users_implementations_for_somebody_elses_function_count(self) -> None:
        source = (
            "from pkgutil import iter_importer_modules as g\nclass P: pass\n@g.register(P)\ndef _(p): return 1\n"
            "def f(): return g(P())"
        )
        assert value_digest(defined(source)) != value_digest(defined(source.replace("return 1", "return 2")))

    @pytest.mark.parametrize(
        "source",
        [
            f"def f(): return ({', '.join(map(str, range(5000)))}, LAST)",
            f"def f(x): return x in {{{', '.join(map(str, range(5000)))}, LAST}}",
            "def f():\n  s = 0\n" + "".join(f"  s += {i + 1000}\n" for i in range(30_000)) + "  return s + LAST",
            "".join(f"def g{i}(): return g{i + 1}()\n" for i in range(3000))
            + "def g3000(): return LAST\ndef f(): return g0()",
        ],
        ids=["tuple", "set", "long function", "many functions"],
    )
    def test_long_code_counts_to_its_end(self, source: str) -> None:
        first, again, other = (value_digest(defined(source.replace("LAST", last))) for last in ("-1", "-1", "-2"))
        assert first == again != other

    def test_code_that_leads_to_much_code_and_back_is_looked_at_once(self) -> None:
        names = ", ".join(f"C{number}" for number in range(40))
        classes = [f"class C{number}:\n  def m(self): return {names}, {number}\n" for number in range(40)]
        source = "".join(classes) + "def f(): return C0"
        assert value_digest(defined(source)) != value_digest(defined(source.replace(", 39\n", ", -1\n")))

    def test_a_wrapper_of_an_installed_package_counts_by_what_it_wraps(self) -> None:
        source = (
            "import contextlib\nK = 1\n@contextlib.contextmanager\ndef g():\n  yield K\n"
            "def f():\n  with g() as k: return k"
        )
        assert value_digest(defined(source)) == value_digest(defined(source))
        assert value_digest(defined(source)) != value_digest(defined(source.replace("K = 1", "K = 2")))

    def test_a_large_closure_counts_to_its_last_item(self) -> None:
        def make(held: Any) -> Any:
            return lambda: held

        items = list(range(5000))
        assert value_digest(make(items)) == value_digest(make([*items]))
        assert value_digest(make(items)) != value_digest(make([*items[:-1], -1]))
        assert value_digest(make(np.arange(9))) != value_digest(make(np.arange(9) * 2))

    def test_what_else_can_be_called_has_a_hash_too(self) -> None:
        class Scaler:
            def __init__(self, by: int) -> None:
                self.by = by

            def __call__(self, x: int) -> int:
                return x * self.by

        partials = [value_digest(functools.partial(max, by)) for by in (2, 3)]
        objects = [value_digest(Scaler(by)) for by in (2, 3)]
        methods = [value_digest(Scaler(by).__call__) for by in (2, 3)]
        assert len({*partials, *objects, *methods}) == 6
        assert value_digest(Scaler(2)) == objects[0]
        assert value_digest(len) != value_digest(max)

    def test_a_function_that_leads_back_to_itself_has_a_hash(self) -> None:
        def count(x: int) -> int:
            return 0 if x == 0 else 1 + count(x - 1)

        assert value_digest(count) == value_digest(count)

    def test_a_task_that_calls_another_ones_function_changes_with_it(self) -> None:
        source = "from augury import task\n@task\ndef g(x): return x + 1\n@task\ndef h(x): return g.fn(x)\nf = h.fn"
        assert value_digest(defined(source)) == value_digest(defined(source))
        assert value_digest(defined(source)) != value_digest(defined(source.replace("x + 1", "x + 2")))

    def test_a_function_that_uses_what_cannot_be_pickled_has_none(self) -> None:
        source = "import threading\nlock = threading.Lock()\ndef held(): return lock\ndef f(): return held()"
        with pytest.raises(SerializationError, match=r"__main__\.held has no hash: cannot pickle '_thread\.lock'"):
            value_digest(defined(source))

    def test_it_survives_the_way_to_a_worker(self) -> None:
        fn = defined(SOURCE)
        assert value_digest(pickle.loads(cloudpickle.dumps(fn))) == value_digest(fn)


class TestValues:
    @given(st.recursive(st.integers() | st.text() | st.floats(allow_nan=False) | st.none(), st.lists, max_leaves=20))
    def test_a_copy_has_the_same_hash(self, value: Any) -> None:
        assert value_digest(pickle.loads(pickle.dumps(value))) == value_digest(value)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (1, 2),
            (1, True),
            (1, 1.0),
            ("a", b"a"),
            ([1, 2], (1, 2)),
            ([1, 2], [2, 1]),
            ([[1], 2], [1, [2]]),
            ({1, 2}, {1, 3}),
            ({"a": 1}, {"a": 2}),
            (Pair(1, 2), Pair(1, 3)),
            (Colour.RED, Colour.BLUE),
            (np.arange(4), np.arange(4).astype("f8")),
            (np.arange(4), np.arange(4).reshape(2, 2)),
            (np.zeros(4), np.ones(4)),
            (len, max),
            (int, float),
            (str.upper, bytes.upper),
            ([1].append, [2].append),
            ((1).__add__, (2).__add__),
            (dict.pop.__get__(COUNTER), COUNTER.pop),
            (object.__repr__.__get__(COUNTER), COUNTER.__repr__),
            (dict.fromkeys, Counter.fromkeys),
        ],
    )
    def test_different_values_have_different_hashes(self, one: Any, other: Any) -> None:
        assert value_digest(one) != value_digest(other)

    @pytest.mark.parametrize("value", [dict.fromkeys, "x".join, str.maketrans, int.__new__, int.mro, [1].__len__])
    def test_methods_in_c_have_hashes(self, value: Any) -> None:
        assert value_digest(value) == value_digest(value)

    def test_identities_do_not_matter(self) -> None:
        part = ["x" * 50]
        assert value_digest([part, part]) == value_digest([["x" * 50], ["x" * 50]])

    @pytest.mark.parametrize(
        "make", [lambda: list(range(3000)), lambda: {str(n): n for n in range(3000)}, lambda: "x" * 5000]
    )
    def test_a_large_part_is_looked_at_once_and_counts_as_its_copies_do(self, make: Any) -> None:
        one, other = make(), make()
        assert value_digest([Pair(one, 1), one]) == value_digest([Pair(one, 1), other])
        assert value_digest([one, 1]) != value_digest([one[:-1] if not isinstance(one, dict) else {}, 1])
        nested: Any = one
        for _ in range(6):
            nested = [nested] * 1000  # 10**18 times, if it were looked at each time
        assert value_digest(nested) == value_digest(nested)

    @pytest.mark.parametrize(
        "join",
        [
            lambda part: Pair(part, part),
            lambda part: [part, (part,)],
            lambda part: frozenset({part, (part, 1)}),
            lambda part: functools.partial(max, part, part),
        ],
        ids=["objects", "lists", "sets", "partials"],
    )
    def test_parts_that_are_met_ever_so_often_are_looked_at_once(
        self, join: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(digest, "_MOST_PARTS", 1000)

        def grown(last: int) -> Any:
            part: Any = (last,)
            for _ in range(40):  # 2**40 times, if it were looked at wherever it is met
                part = join(part)
            return part

        assert value_digest(grown(1)) == value_digest(grown(1)) != value_digest(grown(2))

    def test_identities_do_not_matter_in_large_values_either(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(digest, "_MOST_PARTS", 1000)

        def pairs(*, one: bool) -> list[Any]:
            pair = Pair([1], {2: "x"})
            lists = [[pair if one else Pair([1], {2: "x"}) for _ in range(90)] for _ in range(9)]
            return [lists, {"a": lists if one else copy.deepcopy(lists)}]

        assert value_digest(pairs(one=True)) == value_digest(pairs(one=False))
        other = pairs(one=True)
        other[0][8][89].right[2] = "y"
        assert value_digest(pairs(one=True)) != value_digest(other)

    def test_whether_an_array_may_be_changed_does_not_matter(self) -> None:
        array = np.arange(12.0).reshape(3, 4)
        frozen = array.copy()
        frozen.flags.writeable = False
        assert value_digest(Pair(array, 1)) == value_digest(Pair(frozen, 1))
        assert value_digest(np.asfortranarray(array)) == value_digest(np.asfortranarray(array.copy()))
        assert value_digest(np.asfortranarray(array)) != value_digest(array)
        assert value_digest(array.T) != value_digest(array.reshape(4, 3))
        assert value_digest(array[:, ::2]) == value_digest(array[:, ::2].copy())
        assert value_digest(np.zeros(0)) != value_digest(np.zeros((0, 1)))
        assert value_digest(np.array(["a", None])) == value_digest(np.array(["a", None]))

    def test_dates_and_records_in_arrays_have_hashes(self) -> None:
        dates = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")
        assert value_digest(dates) == value_digest(dates.copy())
        assert value_digest(dates) != value_digest(dates + 1)
        records = np.zeros(2, dtype=[("a", "i4"), ("b", "f8")])
        assert value_digest(records) == value_digest(records.copy())

    def test_other_processes_come_to_the_same(self, tmp_path: Path) -> None:
        code = (
            "from augury.dag.digest import value_digest\n"
            "print(value_digest([{'a', 'b', 'c', 'd'}, frozenset('xyz'), {'k': (1, 2.5)}, b'x']).hex())"
        )
        printed = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2", "3")
        }
        assert len(printed) == 1

    def test_what_contains_itself_has_none(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises((ValueError, RecursionError)):
            value_digest(loop)

    def test_what_cannot_be_pickled_has_none(self) -> None:
        with pytest.raises(TypeError):
            value_digest([threading.Lock()])

    def test_a_task_has_none(self) -> None:
        with pytest.raises(Exception, match="a task of"):
            value_digest([task(len)([])])


class Counted:
    made: ClassVar[list[int]] = []


def test_attributes_of_a_class_count_while_they_are_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    before = value_digest(Counted())
    assert value_digest(Counted()) == before
    monkeypatch.setattr(Counted, "made", [1])
    assert value_digest(Counted()) != before
