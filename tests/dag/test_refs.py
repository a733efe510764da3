"""Tasks are found, replaced and filled in at any depth of the containers that people pass."""

import dataclasses
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from augury import serde
from augury.dag.refs import Const, Opaque, RebuildError, Ref, Refs, fill, lower, tasks_in
from augury.dag.task import Function, TaskNode, TaskOptions
from augury.errors import DefinitionError


def f(*args: Any) -> Any:
    return args


FUNCTION = Function(f, TaskOptions())
A, B, C = (TaskNode[Any](FUNCTION, (), {}) for _ in range(3))
IDS = {id(A): 0, id(B): 1, id(C): 2}
OUTPUTS = ["output a", "output b", "output c"]


def lowered(value: Any) -> Any:
    return lower(value, lambda task: Ref(IDS[id(task)]), lambda part: part)[0]


def filled(value: Any, outputs: list[Any] = OUTPUTS) -> Any:
    """Lowered, sent to a worker, and filled there."""
    sent = serde.loads(serde.dumps(lowered(value)).join())
    return fill(sent, lambda ref: outputs[ref.task], lambda const: const)


class Point(NamedTuple):
    x: Any
    y: Any = 0


class Words(list[Any]):
    pass


class Table(dict[Any, Any]):
    note = ""


class Group(set[Any]):
    pass


@dataclasses.dataclass
class Plain:
    x: Any
    y: Any = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    y: Any = 2


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any
    y: Any = 2


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlotted:
    x: Any
    y: Any = 2


CONTAINERS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x, "itself"),
    (lambda x: [x], "list"),
    (lambda x: [1, x, [2]], "list with others"),
    (lambda x: (x, 1), "tuple"),
    (lambda x: (x,), "tuple of one"),
    (Point, "named tuple"),
    (lambda x: {"k": x}, "dict value"),
    (lambda x: {x: "v", "k": 1}, "dict key"),
    (lambda x: {x: x}, "dict key and value"),
    (lambda x: OrderedDict([("b", x), ("a", 1)]), "ordered dict"),
    (lambda x: defaultdict(list, {"k": x}), "default dict"),
    (lambda x: Counter({x: 3, "k": 1}), "counter"),
    (lambda x: {x, 1}, "set"),
    (lambda x: frozenset({x, 1}), "frozen set"),
    (lambda x: Words([1, x]), "list subclass"),
    (lambda x: Table(k=x), "dict subclass"),
    (lambda x: Group([x]), "set subclass"),
    (Plain, "dataclass"),
    (lambda x: Frozen(1, x), "frozen dataclass"),
    (lambda x: Slotted(x, x), "dataclass with slots"),
    (FrozenSlotted, "frozen dataclass with slots"),
    (lambda x: [{"a": ({Frozen(x)}, [Point((x,))])}], "deeply nested"),
]
each_container = pytest.mark.parametrize("wrap", [wrap for wrap, _ in CONTAINERS], ids=[name for _, name in CONTAINERS])


@each_container
def test_a_task_is_found_inside(wrap: Callable[[Any], Any]) -> None:
    assert set(tasks_in(wrap(A))) == {A}


@each_container
def test_a_worker_gets_the_same_container_with_the_output_inside(wrap: Callable[[Any], Any]) -> None:
    back = filled(wrap(A))
    assert back == wrap("output a")
    assert type(back) is type(wrap("output a"))


@each_container
def test_what_the_user_holds_is_not_changed(wrap: Callable[[Any], Any]) -> None:
    value = wrap(A)
    filled(value)
    assert value == wrap(A)


@each_container
def test_a_container_without_a_task_passes_as_the_same_object(wrap: Callable[[Any], Any]) -> None:
    value = wrap("no task")
    same, has_task = lower(value, lambda task: task, lambda part: part)
    assert same is value
    assert not has_task
    assert fill(value, lambda ref: ref, lambda const: const) is value
    assert tasks_in(value) == []


def test_order_is_kept() -> None:
    assert tasks_in([A, {"k": B}, (C, A)]) == [A, B, C, A]
    assert list(filled(OrderedDict([("z", A), ("a", B)]))) == ["z", "a"]
    assert filled([A, B, C]) == OUTPUTS
    assert filled((C, A)) == ("output c", "output a")


def test_a_default_dict_keeps_its_factory() -> None:
    assert filled(defaultdict(list, {"k": A}))["new"] == []


def test_attributes_of_container_subclasses_are_kept() -> None:
    table = Table(k=A)
    table.note = "kept"
    assert filled(table).note == "kept"


def test_a_list_of_tasks_only_is_lowered_compactly() -> None:
    assert lowered([A, B, A]) == Refs((0, 1, 0))
    assert lowered((A, B)) == Refs((0, 1), is_tuple=True)
    assert lowered([A, 1]) == [Ref(0), 1]


# ── dataclasses ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Careful:
    x: Any
    scale: dataclasses.InitVar[int] = 1
    derived: Any = dataclasses.field(init=False)
    never_set: Any = dataclasses.field(init=False)
    runs = 0

    def __post_init__(self, scale: int) -> None:
        type(self).runs += 1
        self.derived = ("from init", scale)
        self.extra = "not a field"


def test_rebuilding_a_dataclass_runs_neither_init_nor_post_init() -> None:
    value = Careful(A, scale=5)
    runs = Careful.runs
    back = filled(value)
    assert Careful.runs == runs
    assert back.x == "output a"
    assert back.derived == ("from init", 5)
    assert back.extra == "not a field"
    assert not hasattr(back, "never_set")


@dataclasses.dataclass(frozen=True, slots=True)
class Partial:
    x: Any
    never_set: Any = dataclasses.field(init=False)


def test_a_slot_that_was_never_set_stays_unset() -> None:
    value = lowered(Partial(A))
    assert value.x == Ref(0)
    assert not hasattr(value, "never_set")


@dataclasses.dataclass(init=False)
class Strict:
    x: Any

    def __init__(self, x: Any, *, must: int) -> None:
        self.x = [x, must]


def test_a_dataclass_with_an_init_of_its_own_is_rebuilt() -> None:
    assert filled(Strict(A, must=3)).x == ["output a", 3]


class Base:
    __slots__ = ("__hidden",)

    def hide(self, value: Any) -> None:
        self.__hidden = value

    def hidden(self) -> Any:
        return self.__hidden


@dataclasses.dataclass
class Derived(Base):
    x: Any


def test_private_slots_of_a_base_class_are_kept() -> None:
    value = Derived(A)
    value.hide(7)
    assert filled(value).hidden() == 7


def test_a_dataclass_itself_is_a_leaf() -> None:
    assert tasks_in([Plain]) == []
    assert lowered([A, Plain])[1] is Plain


# ── constants ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_are_offered_from_the_inside_out_until_one_is_taken() -> None:
    big = object()
    offered: list[Any] = []

    def whole(part: Any) -> Any:
        offered.append(part)
        return Const(7) if part is big else part

    inner, outer = [1, 2], ["text", big, [1, 2]]
    value, changed = lower({"k": outer}, lambda task: task, whole)
    assert changed
    assert offered == ["k", "text", big, inner]
    assert value == {"k": ["text", Const(7), Opaque(inner)]}


def test_a_container_is_offered_when_nothing_in_it_was_taken() -> None:
    outer = [["x"], "y"]
    assert lower([A, outer], lambda _: Ref(0), lambda part: Const(1) if part is outer else part) == (
        [Ref(0), Const(1)],
        True,
    )


def test_a_part_that_became_a_constant_is_filled_in() -> None:
    big = ["big"]
    value, _ = lower([A, big], lambda _: Ref(0), lambda part: Const(3) if part is big else part)
    assert value == [Ref(0), Const(3)]
    assert fill(value, lambda _: "output", lambda const: ["constant", const.index]) == ["output", ["constant", 3]]


def test_a_value_without_tasks_is_offered_as_a_whole() -> None:
    value = [[1], [2]]
    assert lower(value, lambda task: task, lambda part: "whole" if part is value else part) == ("whole", True)


def test_a_container_that_contains_itself_keeps_what_it_holds() -> None:
    big = object()
    cycle: list[Any] = [big]
    cycle.append(cycle)
    value, changed = lower(cycle, lambda task: task, lambda part: Const(0) if part is big else part)
    assert value is cycle
    assert not changed


# ── shared and cyclic containers ───────────────────────────────────────────────────────────────────────────────


def test_a_container_that_occurs_twice_stays_one_object() -> None:
    shared = [A, 1]
    first, second = filled([shared, shared])
    assert first is second


def test_containers_that_share_parts_cost_no_more_than_their_parts() -> None:
    value: Any = [A, 1]
    for _ in range(100):
        value = [value, value]  # 2**100 paths
    assert tasks_in(value) == [A]
    back = filled(value)
    for _ in range(100):
        back = back[0]
    assert back == ["output a", 1]


def test_a_container_that_contains_itself_passes_if_it_holds_no_task() -> None:
    cycle: list[Any] = [1]
    cycle.append([cycle])
    assert tasks_in(cycle) == []
    assert lowered(cycle) is cycle
    back = filled([A, cycle])
    assert back[0] == "output a"
    assert back[1][1][0] is back[1]


def list_cycle() -> Any:
    cycle: list[Any] = [A]
    cycle.append(cycle)
    return cycle


def dict_cycle() -> Any:
    cycle: dict[str, Any] = {}
    cycle["list"] = [(cycle,), A]
    return cycle


def dataclass_cycle() -> Any:
    parent = Plain([])
    parent.x.append(Plain(A, parent))
    return [1, parent]


@pytest.mark.parametrize("make", [list_cycle, dict_cycle, dataclass_cycle])
def test_a_container_that_contains_itself_and_a_task_is_refused(make: Callable[[], Any]) -> None:
    assert set(tasks_in(make())) == {A}
    with pytest.raises(DefinitionError, match="contains itself and a task"):
        lowered(make())


def test_nesting_beyond_what_python_can_follow_is_refused() -> None:
    value: Any = A
    for _ in range(100_000):
        value = [value, 1]
    assert tasks_in(value) == [A]
    with pytest.raises(DefinitionError, match="nested too deeply"):
        lowered(value)


def test_nesting_beyond_what_python_can_follow_passes_without_a_task() -> None:
    value: Any = [1, "text"]
    for _ in range(100_000):
        value = [value]
    assert lowered(value) is value


# ── values that do not fit ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "value",
    [{A}, frozenset([A, 1]), {A: 1}, Counter([A]), [{A}]],
    ids=["set", "frozenset", "dict", "counter", "nested"],
)
def test_an_unhashable_output_in_a_set_or_as_a_key_is_a_clear_error(value: Any) -> None:
    with pytest.raises(RebuildError, match=r"unhashable type: 'list'.*hashable values can: pass it in a list"):
        filled(value, outputs=[["a list"]])


class Choosy(list[Any]):
    def extend(self, items: Any) -> None:
        raise ValueError("I take nothing")


def test_a_container_that_refuses_its_items_is_named() -> None:
    value = Choosy()
    list.append(value, A)
    with pytest.raises(RebuildError, match=r"a Choosy cannot be built .*I take nothing"):
        lowered(value)


def test_errors_of_the_caller_pass_through_fill() -> None:
    def output(ref: Ref) -> Any:
        raise KeyError(ref.task)

    with pytest.raises(KeyError):
        fill([Ref(3), 1], output, lambda const: const)
