"""Values become bytes and come back: without copies, and with clear errors for what is not a value."""

import functools
import pickle
import struct
import subprocess
import sys
import textwrap
import threading
import types
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury import serde
from augury.errors import SerializationError

Array = np.ndarray[Any, Any]


def there_and_back(value: Any) -> Any:
    return serde.loads(serde.dumps(value).join())


def address(buffer: serde.Buffer) -> int:
    view = np.frombuffer(buffer, dtype=np.uint8)
    return int(view.__array_interface__["data"][0])


# ── values ─────────────────────────────────────────────────────────────────────────────────────────────────────

scalars = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.complex_numbers(allow_nan=False)),
    *(st.text(), st.binary(), st.binary().map(bytearray)),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.dictionaries(st.text(), inner), st.sets(st.integers())
    ),
)


@settings(deadline=None)
@given(values)
def test_plain_values_come_back_equal_and_of_the_same_type(value: Any) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(24).reshape(4, 6)[::2, 1::2],
        np.arange(5)[::-1],
        np.zeros((0, 3)),
        np.array(7.5),
        np.array([{"a": 1}, None, "x"], dtype=object),
        np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2026-01-01"], dtype="M8[D]"),
        np.array(["a", "bc"]),
        np.arange(3, dtype=">i4"),
        np.broadcast_to(np.arange(3), (4, 3)),
    ],
    ids=["c", "fortran", "strided", "reversed", "empty", "scalar", "object", "fields", "dates", "text", "big", "view"],
)
def test_arrays_of_every_kind_come_back_equal(array: Array) -> None:
    back = there_and_back(array)
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape


def test_order_in_memory_is_kept() -> None:
    assert there_and_back(np.asfortranarray(np.ones((3, 4)))).flags.f_contiguous


@pytest.mark.parametrize("value", [np.float64(2.5), np.int32(7), np.bool_(True)])
def test_numbers_of_numpy_keep_their_type(value: Any) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_shared_objects_stay_shared() -> None:
    array = np.arange(10)
    first, second = there_and_back([array, array])
    assert first is second


def test_containers_that_contain_themselves_come_back() -> None:
    value: list[Any] = []
    value.append(value)
    back = there_and_back(value)
    assert back[0] is back


def test_lambdas_and_closures_travel_by_value() -> None:
    factor = 3
    assert there_and_back(lambda x: factor * x)(2) == 6


@pytest.mark.parametrize("size", [0, 1, 16 * 1024 - 1, 16 * 1024, 200_000])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_of_every_size_come_back(size: int, kind: type[bytes] | type[bytearray]) -> None:
    value = kind(b"ab" * size)[:size]
    back = there_and_back(value)
    assert back == value
    assert type(back) is kind


def test_nested_buffers_come_back_as_views() -> None:
    back = there_and_back({"a": [pickle.PickleBuffer(b"abc")], "b": pickle.PickleBuffer(bytearray(b"defg"))})
    assert bytes(back["a"][0]) == b"abc"
    assert bytes(back["b"]) == b"defg"


def test_a_buffer_with_gaps_is_refused_by_pickling() -> None:
    with pytest.raises(pickle.PicklingError, match="non-contiguous"):
        serde.dumps(pickle.PickleBuffer(memoryview(b"abcdef")[::2]))


def test_what_pickling_raises_passes_through() -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        serde.dumps(threading.Lock())


# ── no copies ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("nested", [False, True])
def test_dumping_a_large_array_gives_a_view_of_its_memory(nested: bool) -> None:
    array = np.arange(100_000)
    blob = serde.dumps({"x": [array]} if nested else array)
    assert any(np.shares_memory(np.frombuffer(part, dtype=np.uint8), array) for part in blob.parts)


def test_dumping_large_bytes_gives_a_view_of_their_memory() -> None:
    value = b"x" * 100_000
    assert any(address(part) == address(value) for part in serde.dumps(value).parts)


def test_loaded_arrays_point_into_the_data_and_are_read_only() -> None:
    data = serde.dumps([np.arange(1000), np.ones((3, 4), order="F")]).join()
    for array in serde.loads(data):
        assert np.shares_memory(array, np.frombuffer(data, dtype=np.uint8))
        assert not array.flags.writeable


def test_loaded_arrays_are_read_only_even_if_the_data_is_not() -> None:
    data = bytearray(serde.dumps(np.arange(1000)).join())
    assert not serde.loads(data).flags.writeable


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), max_size=5), st.text(max_size=100))
def test_buffers_start_at_multiples_of_64_bytes(sizes: list[int], beside: str) -> None:
    data = serde.dumps([beside, *(np.ones(size, dtype=np.uint8) for size in sizes)]).join()
    for array in serde.loads(data)[1:]:
        assert array.size == 0 or (address(array.data) - address(data)) % 64 == 0


@settings(deadline=None)
@given(values)
def test_the_size_of_a_blob_is_the_size_of_its_bytes(value: Any) -> None:
    blob = serde.dumps(value)
    assert blob.size_bytes == len(blob.join())


def test_joining_a_single_part_copies_nothing() -> None:
    blob = serde.dumps(5)
    assert blob.join() is blob.parts[0]


def test_joining_gives_bytes_also_from_a_single_view() -> None:
    assert serde.Blob([memoryview(b"abc")]).join() == b"abc"


@pytest.mark.parametrize(
    "wrap",
    [
        bytes,
        bytearray,
        memoryview,
        lambda data: memoryview(data).cast("b"),
        lambda data: memoryview(bytearray(data) + bytearray(-len(data) % 8)).cast("Q"),
    ],
    ids=["bytes", "bytearray", "view", "signed view", "words with padding"],
)
def test_values_are_read_from_any_contiguous_buffer(wrap: Callable[[bytes], serde.Buffer]) -> None:
    assert serde.loads(wrap(serde.dumps({"a": [1, 2]}).join())) == {"a": [1, 2]}


# ── what is not a value ────────────────────────────────────────────────────────────────────────────────────────

DATA = serde.dumps([np.arange(50), "text", np.ones(3)]).join()


@pytest.mark.parametrize("length", range(0, len(DATA), 7))
def test_truncated_bytes_are_refused(length: int) -> None:
    with pytest.raises(SerializationError, match="is not whole"):
        serde.loads(DATA[:length])


def test_one_byte_less_is_refused() -> None:
    with pytest.raises(SerializationError, match="is not whole"):
        serde.loads(DATA[:-1])


def test_bytes_after_the_end_do_not_matter() -> None:
    assert serde.loads(DATA + b"padding")[1] == "text"


def test_another_format_is_named() -> None:
    with pytest.raises(SerializationError, match=r"has the format 9, and this version of Augury reads 2"):
        serde.loads(b"\x09" + DATA[1:])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200).filter(lambda data: data[:1] != b"\2"))
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        serde.loads(data)


def test_impossible_lengths_are_refused_before_anything_is_reserved() -> None:
    with pytest.raises(SerializationError, match="is not whole"):
        serde.loads(struct.pack("<B3xIQ", 2, 2**32 - 1, 2**64 - 1))


def test_bytes_with_gaps_are_refused() -> None:
    with pytest.raises(SerializationError, match="contiguous"):
        serde.loads(memoryview(DATA * 2)[::2])


class Stubborn:
    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise LookupError("no")


def test_what_unpickling_raises_passes_through() -> None:
    data = serde.dumps(Stubborn()).join()
    with pytest.raises(LookupError, match="no"):
        serde.loads(data)


# ── modules by value ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def module() -> Any:
    module = ModuleType("augury_test_module")
    sys.modules[module.__name__] = module
    exec("class Thing:\n    made = 0\n\ndef give():\n    return Thing()\n", vars(module))
    yield module
    del sys.modules[module.__name__]


def travels_by_value(module: Any) -> bool:
    return b"give" in serde.dumps(module.give).join() and b"Thing" in serde.dumps(module.give).join()


def test_modules_travel_by_value_while_it_is_open(module: Any) -> None:
    assert not travels_by_value(module)
    with serde.modules_by_value([module]):
        assert travels_by_value(module)
    assert not travels_by_value(module)


def test_modules_travel_by_value_until_the_last_user_is_done(module: Any) -> None:
    first, second = serde.modules_by_value([module]), serde.modules_by_value([module])
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert travels_by_value(module)
    second.__exit__(None, None, None)
    assert not travels_by_value(module)


def test_modules_go_back_to_travel_by_name_after_an_error(module: Any) -> None:
    with pytest.raises(LookupError), serde.modules_by_value([module]):
        raise LookupError
    assert not travels_by_value(module)


def test_what_the_user_registered_stays_registered(module: Any) -> None:
    cloudpickle.register_pickle_by_value(module)
    try:
        with serde.modules_by_value([module]):
            pass
        assert travels_by_value(module)
    finally:
        cloudpickle.unregister_pickle_by_value(module)


ELSEWHERE = """
import sys
from augury import serde
give = serde.loads(open(sys.argv[1], "rb").read())
thing = give()
type(thing).made = 99
open(sys.argv[1], "wb").write(serde.dumps(thing).join())
"""


def test_an_object_made_elsewhere_is_an_instance_of_the_class_here_and_leaves_it_alone(
    module: Any, tmp_path: Path
) -> None:
    file = tmp_path / "value"
    with serde.modules_by_value([module]):
        file.write_bytes(serde.dumps(module.give).join())
    subprocess.run([sys.executable, "-c", textwrap.dedent(ELSEWHERE), str(file)], check=True)
    assert isinstance(serde.loads(file.read_bytes()), module.Thing)
    assert module.Thing.made == 0


SLOTTED = {
    "slots": """
        class Thing:
            __slots__ = ("size", "__private")

            def __init__(self, size):
                self.size = size
                self.__private = size + 1

            def content(self):
                return self.size, self.__private
        """,
    "one slot": """
        class Thing:
            __slots__ = "size"

            def __init__(self, size):
                self.size = size

            def content(self):
                return self.size
        """,
    "dataclass": """
        @dataclasses.dataclass(slots=True)
        class Thing:
            size: object
            colour: str = "red"

            def content(self):
                return self.size, self.colour
        """,
    "frozen dataclass": """
        @dataclasses.dataclass(slots=True, frozen=True)
        class Thing:
            size: object

            def content(self):
                return self.size
        """,
    "inherited": """
        class Base(abc.ABC):
            __slots__ = ("base",)

        class Thing(Base):
            __slots__ = ("size",)

            def __init__(self, size):
                self.base = self.size = size

            def content(self):
                return self.base, self.size
        """,
    "slots and a dictionary": """
        class Thing:
            __slots__ = ("size", "__dict__", "__weakref__")

            def __init__(self, size):
                self.size = self.other = size

            def content(self):
                return self.size, vars(self)
        """,
    "named tuple": """
        class Thing(typing.NamedTuple):
            size: object

            def content(self):
                return self.size
        """,
}

THERE = """
import sys
from augury import serde
thing = serde.loads(open(sys.argv[1], "rb").read())
open(sys.argv[1], "wb").write(serde.dumps([thing, type(thing)(2), hasattr(thing, "__dict__")]).join())
"""


@pytest.mark.parametrize("source", SLOTTED.values(), ids=SLOTTED.keys())
def test_an_object_with_slots_goes_elsewhere_and_comes_home(source: str, module: Any, tmp_path: Path) -> None:
    exec("import abc, dataclasses, typing\n" + textwrap.dedent(source), vars(module))
    file = tmp_path / "value"
    thing = module.Thing(1)
    with serde.modules_by_value([module]):
        file.write_bytes(serde.dumps(thing).join())
    subprocess.run([sys.executable, "-c", THERE, str(file)], check=True)
    same, new, has_dictionary = serde.loads(file.read_bytes())
    assert type(same) is type(new) is module.Thing
    assert (same.content(), new.content()) == (thing.content(), module.Thing(2).content())
    if module.Thing.__base__ is not tuple:
        assert has_dictionary == hasattr(thing, "__dict__"), "there the class is made as it is here"


WRAPPED = """
import functools, operator

@functools.lru_cache(maxsize=7, typed=True)
def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
fibonacci.unit = "rabbits"

cached_lambda = functools.cache(lambda x: -x)
cached_builtin = functools.cache(operator.neg)

@functools.singledispatch
def depth(value): return 0
@depth.register
def of_list(value: list): return 1 + max(map(depth, value))
depth.unit = "lists"

class Shape:
    @functools.cached_property
    def area(self): return 6
    @functools.lru_cache
    def scaled(self, by): return by * self.area
    @functools.singledispatchmethod
    def named(self, key): return "other"
    @named.register
    def _(self, key: int): return "number"
    def power(self, exponent): return self.area ** exponent
    square = functools.partialmethod(power, 2)

def give():
    shape = Shape()
    return [
        (fibonacci(30), fibonacci.cache_parameters(), fibonacci.unit),
        fibonacci.__wrapped__.__globals__["fibonacci"] is fibonacci,
        (cached_lambda(3), cached_builtin(4)),
        (depth([[[0]]]), depth.dispatch(list).__name__, depth.unit),
        (shape.area, vars(shape), shape.scaled(2), shape.named(1), shape.named("a"), shape.square()),
    ]
"""
CALLS = """
import sys
from augury import serde
print(serde.loads(open(sys.argv[1], "rb").read())())
"""


def test_what_functools_made_of_functions_travels_with_them(module: Any, tmp_path: Path) -> None:
    exec(WRAPPED, vars(module))
    expected = str(module.give())
    with serde.modules_by_value([module]):
        (tmp_path / "value").write_bytes(serde.dumps(module.give).join())
    command = [sys.executable, "-c", CALLS, str(tmp_path / "value")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == expected


ANNOTATED = """
from typing import Callable, NewType, ParamSpec, TypeVar, TypeVarTuple, Unpack
User = NewType("User", int)
P, R, Many = ParamSpec("P", bound=int), TypeVar("R"), TypeVarTuple("Many")

def logged(fn: Callable[P, R]) -> Callable[P, R]:
    def inner(*args: P.args, **kwargs: P.kwargs) -> R: return fn(*args, **kwargs)
    return inner

@logged
def name(user: User, *rest: Unpack[Many]): return str(user)

def give():
    return name(User(3)), User, User.__supertype__, P, P.__module__, P.__bound__, logged.__annotations__
"""


def test_names_for_annotations_travel(module: Any, tmp_path: Path) -> None:
    exec(ANNOTATED, vars(module))
    expected = str(module.give())
    with serde.modules_by_value([module]):
        (tmp_path / "value").write_bytes(serde.dumps(module.give).join())
    command = [sys.executable, "-c", CALLS, str(tmp_path / "value")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == expected


def test_a_cached_function_that_can_be_imported_travels_by_name() -> None:
    assert there_and_back(cached_here) is cached_here


@functools.lru_cache
def cached_here(x: int) -> int:
    return x


def test_writable_loading_gives_arrays_that_may_be_changed() -> None:
    data = serde.dumps(np.arange(10_000)).join()
    array = serde.loads(data, writable=True)
    array[0] = 7
    assert serde.loads(data)[0] == 0, "the bytes are immutable, so they were copied"


def test_writable_loading_copies_nothing_if_the_bytes_may_change() -> None:
    data = bytearray(serde.dumps(np.arange(10_000)).join())
    array = serde.loads(data, writable=True)
    array[0] = 7
    assert serde.loads(data)[0] == 7


@pytest.mark.parametrize("value", [[1, {"a": "b"}], "text" * 10_000, bytes(50_000), {"array": list(range(30_000))}])
def test_reloading_a_blob_gives_an_equal_copy(value: object) -> None:
    copied = serde.dumps(value).reload()
    assert copied == value
    assert copied is not value or isinstance(value, str)


def test_reloading_a_blob_shares_arrays_read_only() -> None:
    array = np.arange(10_000)
    copied = serde.dumps({"a": array, "b": [array[:10]]}).reload()
    assert np.shares_memory(copied["a"], array)
    assert not copied["a"].flags.writeable
    assert (copied["b"][0] == array[:10]).all()


class Holder:
    def __init__(self, data: Any) -> None:
        self.data = data


class Point(NamedTuple):
    x: int
    y: Any


class TestEstimatedSize:
    @pytest.mark.parametrize(
        "value",
        [
            0,
            2**200,
            3.5,
            True,
            None,
            "word",
            "x" * 100_000,
            b"x" * 100_000,
            bytearray(5000),
            list(range(10_000)),
            [0.5 * index for index in range(10_000)],
            [f"entry {index}" for index in range(5000)],
            {f"key {index}": float(index) for index in range(5000)},
            set(range(5000)),
            ((1, 2.0), ("three", b"four")),
            np.zeros(0),
            np.zeros((300, 300)),
            [np.zeros(1000) + index for index in range(20)],
            {"data": np.zeros(100_000), "name": "x"},
        ],
        ids=lambda value: f"{type(value).__name__}-{len(repr(value))}",
    )
    def test_it_is_near_the_real_size(self, value: Any) -> None:
        real = serde.dumps(value).size_bytes
        assert real / 1.5 - 20 <= serde.estimated_size(value) <= 1.5 * real + 20

    def test_objects_count_with_what_they_hold(self) -> None:
        held = types.SimpleNamespace(data=np.zeros(10_000), label="x")
        holder = Holder(np.zeros(10_000))
        assert serde.estimated_size(held) == pytest.approx(80_000, rel=0.01)
        assert serde.estimated_size(holder) == pytest.approx(80_000, rel=0.01)

    def test_kinds_of_built_in_containers_count_as_what_they_are(self) -> None:
        for value in (Counter(range(1000)), defaultdict(int, {n: n for n in range(1000)}), Point(1, np.zeros(1000))):
            assert serde.estimated_size(value) == pytest.approx(serde.dumps(value).size_bytes, rel=0.6)

    def test_it_looks_at_a_bounded_number_of_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        nested: Any = 1
        for _ in range(6):
            nested = [nested] * 32
        visits = 0
        look = serde._content_size

        def counted(value: Any, depth: int) -> float:
            nonlocal visits
            visits += 1
            return look(value, depth)

        monkeypatch.setattr(serde, "_content_size", counted)
        serde.estimated_size(nested)
        serde.estimated_size(dict.fromkeys(range(100), nested))
        assert visits < 1000

    def test_what_refers_to_itself_is_no_trap(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        assert serde.estimated_size(loop) < 1000

    @pytest.mark.parametrize("base", [object, dict, list, tuple, str])
    def test_no_code_of_a_class_is_run(self, base: type) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise SystemExit("this is not to be called")

        names = ("__len__", "__iter__", "__getitem__", "__getattr__", "__getattribute__", "__sizeof__", "__eq__")
        body = dict.fromkeys(names, refuse) | {name: property(refuse) for name in ("__dict__", "nbytes", "items")}
        shy = type("Shy", (base,), body)
        assert serde.estimated_size([cast("Any", base).__new__(shy)]) > 0

    def test_tables_count_with_their_columns(self) -> None:
        pandas = pytest.importorskip("pandas", reason="pandas is not installed")
        table = pandas.DataFrame({"a": np.arange(10_000), "b": np.arange(10_000) / 3})
        for value in (table, table["a"], table.iloc[:5000]):
            assert serde.estimated_size(value) == pytest.approx(serde.dumps(value).size_bytes, rel=0.1)

    def test_a_view_that_was_released_has_some_size(self) -> None:
        view = memoryview(b"abc")
        view.release()
        assert serde.estimated_size(view) > 0
