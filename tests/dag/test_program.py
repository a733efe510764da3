"""Code and arguments as bytes: what is stored once, what is fresh at every call, and who is blamed."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest

from augury import serde
from augury.config import CONSTANT_BYTES
from augury.dag.graph import build_workflow
from augury.dag.program import BLOCK_TASKS, Call, LoadedProgram, Program, encode
from augury.dag.refs import RebuildError
from augury.dag.task import Function, TaskNode, TaskOptions
from augury.errors import SerializationError


def resize(image: Any, width: Any = 0, *rest: Any, mode: Any = "", **options: Any) -> Any:
    return image


def gather(values: Any) -> Any:
    return values


RESIZE = Function(resize, TaskOptions())
GATHER = Function(gather, TaskOptions())


def task(*args: Any, **kwargs: Any) -> TaskNode[Any]:
    return TaskNode(RESIZE, args, kwargs)


class Worker:
    """A program on its way through bytes, with the constants that went with it."""

    def __init__(self, outputs: Any) -> None:
        self.workflow = build_workflow(outputs)
        program, self.constants = encode(self.workflow, shared_files=True)
        self.program = Program.decode(program.encode())
        self.loaded = LoadedProgram(self.workflow.graph, self.program)

    def function(self, number: int) -> Callable[..., Any]:
        return self.loaded.function(number, self.constant_data)

    def arguments(self, number: int, output: Callable[[int], Any] = "output {}".format) -> tuple[list[Any], Any]:
        self.function(number)
        return self.loaded.arguments(number, output, lambda index: serde.loads(self.constant_data(index)))

    def constant_data(self, index: int) -> bytes:
        return self.constants[index].join()


# ── arguments ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_outputs_stand_where_tasks_stood() -> None:
    first = task(1)
    worker = Worker(task(first, 2, [first, {"k": (first,)}], mode=first, depth={first}))
    assert worker.arguments(0) == ([1], {})
    assert worker.arguments(1) == (
        ["output 0", 2, ["output 0", {"k": ("output 0",)}]],
        {"mode": "output 0", "depth": {"output 0"}},
    )


def test_a_task_as_the_argument_itself_is_seen_without_unpickling() -> None:
    first = task(1)
    call = Worker(task(first, 2, mode=first)).loaded.call(1)
    assert call == Call((None, 2), {"mode": None}, direct=((0, 0), ("mode", 0)))


def test_simple_values_stand_in_the_call_themselves() -> None:
    call = Worker(task(1, "text", b"bytes", (1, 2.5), mode=None)).loaded.call(0)
    assert call == Call((1, "text", b"bytes", (1, 2.5)), {"mode": None})


def test_every_task_of_several_blocks_has_its_own_arguments() -> None:
    worker = Worker([task(number, [number], mode=str(number)) for number in range(3 * BLOCK_TASKS + 5)])
    assert len(worker.program.blocks) == 4
    for number in range(len(worker.workflow.graph)):
        assert worker.arguments(number) == ([number, [number]], {"mode": str(number)})


def test_arguments_are_new_at_every_call() -> None:
    config = {"names": ["a"]}
    worker = Worker([task([1], config), task([1], config)])
    (values, first_config), _ = worker.arguments(0)
    values.append(2)
    first_config["names"].append("changed")
    assert worker.arguments(0)[0] == [[1], {"names": ["a"]}], "a repeated task starts as the first did"
    assert worker.arguments(1)[0] == [[1], {"names": ["a"]}], "and other tasks do not see the change"


def test_parts_beside_a_task_are_new_at_every_call() -> None:
    first = task(1)
    worker = Worker(task([first, ["a"]]))
    worker.arguments(1)[0][0][1].append("changed")
    assert worker.arguments(1)[0][0] == ["output 0", ["a"]]


def test_an_object_that_is_passed_twice_arrives_as_one() -> None:
    value = ["a"]
    (one, other), kwargs = Worker(task(value, value, mode=value)).arguments(0)
    assert one is other
    assert one is kwargs["mode"]


def test_an_object_that_contains_itself_arrives() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    (value,), _ = Worker(task(cycle)).arguments(0)
    assert value[0] is value


def test_an_object_that_many_tasks_take_is_pickled_once() -> None:
    class Counted:
        pickled = 0

        def __reduce__(self) -> tuple[Any, ...]:
            Counted.pickled += 1
            return list, ((1, 2),)

    shared = Counted()
    Worker([task(shared) for _ in range(2 * BLOCK_TASKS)])
    assert Counted.pickled == 1


# ── constants ──────────────────────────────────────────────────────────────────────────────────────────────────

BIG = [
    np.arange(20_000),
    b"x" * 100_000,
    "y" * 100_000,
    list(range(50_000)),
    {number: str(number) for number in range(20_000)},
    [["nested"] * 10] * 3 + [list(range(50_000))],
    np.array([str(number) * 100 for number in range(1000)], dtype=object),
]
each_big = pytest.mark.parametrize("big", BIG, ids=["array", "bytes", "str", "list", "dict", "nested", "objects"])


def size_of(program: Program) -> int:
    return len(program.encode())


@each_big
def test_a_large_value_is_stored_once_however_many_tasks_use_it(big: Any) -> None:
    worker = Worker([task(number, big) for number in range(200)])
    assert len(worker.constants) == 1
    assert worker.program.constants == (worker.constants[0].size_bytes,)
    assert size_of(worker.program) < 20_000
    assert worker.loaded.constants_of(150) == [0]
    np.testing.assert_equal(worker.arguments(150)[0], [150, big])


@each_big
@pytest.mark.parametrize(
    "place",
    [
        lambda first, big: task([first, big]),
        lambda first, big: task({"k": (first, {"deep": big})}),
        lambda first, big: task(first, mode=[1, (first, [big])]),
        lambda first, big: task(first, {"no task here": [1, big]}),
    ],
)
def test_a_large_value_inside_containers_is_stored_once(big: Any, place: Callable[[Any, Any], TaskNode[Any]]) -> None:
    first = task(0)
    worker = Worker([place(first, big) for _ in range(10)])
    assert len(worker.constants) == 1
    assert size_of(worker.program) < 20_000
    assert worker.loaded.constants_of(10) == [0]
    expected = place("output 0", big)
    np.testing.assert_equal(worker.arguments(10), (list(expected.args), expected.kwargs))


def test_the_same_value_alone_and_beside_a_task_is_one_constant() -> None:
    big = np.arange(20_000)
    first = task(0)
    worker = Worker([task(big), task([first, big]), task(mode=big), task([first, big, big])])
    assert len(worker.constants) == 1
    assert [worker.loaded.constants_of(number) for number in range(5)] == [[], [0], [0], [0], [0]]


def test_equal_values_that_are_different_objects_are_different_constants() -> None:
    assert len(Worker([task(np.zeros(20_000)), task(np.zeros(20_000))]).constants) == 2


def test_the_limit_is_the_size_of_the_stored_bytes() -> None:
    overhead = serde.dumps("y" * 60_000).size_bytes - 60_000
    at_the_limit = "y" * (CONSTANT_BYTES - overhead)
    assert serde.dumps(at_the_limit).size_bytes == CONSTANT_BYTES
    assert Worker(task(at_the_limit)).constants == []
    assert [blob.size_bytes for blob in Worker(task(at_the_limit + "y")).constants] == [CONSTANT_BYTES + 1]


def test_a_constant_is_a_view_of_the_users_array() -> None:
    big = np.arange(20_000)
    parts = Worker(task(big)).constants[0].parts
    assert any(np.shares_memory(np.frombuffer(part, dtype=np.uint8), big) for part in parts)


def test_a_large_value_inside_a_container_that_contains_itself_travels_with_it() -> None:
    cycle: dict[str, Any] = {"big": np.arange(20_000)}
    cycle["self"] = cycle
    first = task(0)
    worker = Worker([task(cycle), task([first, cycle])])
    for (value,), _ in (worker.arguments(1), ([worker.arguments(2)[0][0][1]], None)):
        assert value["self"] is value
        assert len(value["big"]) == 20_000


def test_many_small_values_are_no_constants() -> None:
    worker = Worker([task([number] * 100, np.arange(10)) for number in range(100)])
    assert worker.constants == []


# ── blame on the client ────────────────────────────────────────────────────────────────────────────────────────


class Holder:
    def __init__(self, content: Any) -> None:
        self.content = content


@pytest.mark.parametrize(
    ("make", "argument", "kind"),
    [
        (task, "argument 'image'", "lock"),
        (lambda bad: task(1, Holder(bad)), "argument 'width'", "Holder"),
        (lambda bad: task(1, 2, 3, [bad]), "argument 4", "list"),
        (lambda bad: task(1, mode={"k": bad}), "argument 'mode'", "dict"),
        (lambda bad: task(1, depth=bad), "argument 'depth'", "lock"),
        (lambda bad: task(1, [task(0), bad]), "argument 'width'", "list"),
    ],
)
def test_what_cannot_be_pickled_is_blamed_by_task_argument_and_type(
    make: Callable[[Any], TaskNode[Any]], argument: str, kind: str
) -> None:
    good = [task(number) for number in range(100)]
    bad = make(threading.Lock())
    label = f"resize[{len(build_workflow([*good, bad]).graph) - 1}]"
    with pytest.raises(SerializationError) as blamed:
        Worker([*good, bad])
    said = str(blamed.value)
    assert said.startswith(f"{argument} of {label} cannot be pickled ({kind}: ")
    assert "cannot pickle '_thread.lock' object" in said
    assert said.endswith("pass plain data, or open files, locks and connections inside the task")


def test_a_task_inside_an_object_that_nobody_looks_into_is_blamed() -> None:
    with pytest.raises(SerializationError, match=r"argument 'image' of resize\[0\]: a task of resize is hidden inside"):
        Worker(task(Holder(task(1))))


def test_a_task_inside_a_container_that_contains_itself_is_blamed() -> None:
    cycle: list[Any] = [task(1)]
    cycle.append(cycle)
    with pytest.raises(SerializationError, match=r"argument 'image' of resize\[1\]: a list contains itself and a task"):
        Worker(task(cycle))


# ── blame on the worker ────────────────────────────────────────────────────────────────────────────────────────


def fail_to_load(*_: Any) -> None:
    raise LookupError("not here")


class FailsToBeMade:
    def __reduce__(self) -> tuple[Any, ...]:
        return fail_to_load, ()


class FailsToBeSet:
    def __init__(self) -> None:
        self.x = 1

    def __setstate__(self, state: Any) -> None:
        fail_to_load()


class EndsTheProcess:
    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (FailsToBeMade(), "LookupError('not here')"),
        ([FailsToBeSet()], "LookupError('not here')"),
        (EndsTheProcess(), "SystemExit(3)"),
    ],
)
def test_an_argument_that_cannot_be_loaded_fails_its_own_task_only(bad: Any, said: str) -> None:
    first = task("good")
    worker = Worker([task(1, bad), task(2, [first, bad]), task("good")])
    for number in (1, 2):
        with pytest.raises(SerializationError) as blamed:
            worker.arguments(number)
        assert str(blamed.value) == f"argument 'width' of resize[{number}] cannot be loaded on the worker: {said}"
    assert worker.arguments(3) == (["good"], {})


@pytest.fixture
def passing_module() -> Iterator[ModuleType]:
    """A module that the client has and the worker will not."""
    module = ModuleType("passing_module")
    exec("class Thing: pass\ndef fn(x): return x", vars(module))
    sys.modules["passing_module"] = module
    yield module
    sys.modules.pop("passing_module", None)


def test_a_module_that_the_worker_does_not_have_is_named(passing_module: Any) -> None:
    function = Function(passing_module.fn, TaskOptions())
    worker = Worker([task(passing_module.Thing()), TaskNode(function, (1,), {})])
    del sys.modules["passing_module"]
    advice = "needs the module 'passing_module', which the worker does not have; install it where workers run"
    with pytest.raises(SerializationError, match=rf"^argument 'image' of resize\[0\] {advice}$"):
        worker.arguments(0)
    with pytest.raises(SerializationError, match=rf"^the function of fn\[0\] {advice}$"):
        worker.function(1)


def test_a_module_that_fails_when_it_is_imported_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_itself.py").write_text("def fn(x): return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("ends_itself")
    worker = Worker(TaskNode(Function(module.fn, TaskOptions()), (1,), {}))
    del sys.modules["ends_itself"]
    (tmp_path / "ends_itself.py").write_text("import sys; sys.exit('usage: …')  # a script, not a module\n")
    with pytest.raises(SerializationError, match=r"the function of fn\[0\] cannot be loaded .*SystemExit\('usage"):
        worker.function(0)
    sys.modules.pop("ends_itself", None)


def test_an_unhashable_output_in_a_set_is_blamed_by_task_and_argument() -> None:
    worker = Worker(task(1, {task(0)}))
    with pytest.raises(SerializationError, match=r"argument 'width' of resize\[1\]: a set cannot be built") as blamed:
        worker.arguments(1, lambda _: ["a list"])
    assert isinstance(blamed.value.__cause__, RebuildError)


def test_errors_of_the_storage_pass_through() -> None:
    worker = Worker(task([task(0), 1]))

    def output(_: int) -> Any:
        raise ConnectionError("storage")

    with pytest.raises(ConnectionError, match="storage"):
        worker.arguments(1, output)


def test_a_damaged_block_is_a_clear_error() -> None:
    worker = Worker(task(1))
    damaged = msgspec.structs.replace(worker.program, blocks=(worker.program.blocks[0][:-1],))
    with pytest.raises(SerializationError, match="is not whole"):
        LoadedProgram(worker.workflow.graph, damaged).call(0)


@pytest.mark.parametrize("data", [b"", b"garbage", msgspec.msgpack.encode([1, 2, 3])])
def test_what_is_not_a_program_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="not the bytes of a program"):
        Program.decode(data)


def test_a_program_with_something_behind_it_that_is_nested_too_deeply_is_refused() -> None:
    written = Worker(task(1)).program.encode()
    with pytest.raises(SerializationError, match="not the bytes of a program"):
        Program.decode(bytes([written[0] + 1]) + written[1:] + b"\x91" * 100_000 + b"\xc0")


def test_functions_are_loaded_once() -> None:
    worker = Worker([TaskNode(Function(lambda x: x, TaskOptions()), (number,), {}) for number in range(1)])
    assert worker.function(0) is worker.function(0)


def test_a_function_is_encoded_once_however_many_tasks_call_it() -> None:
    first = task(0)
    worker = Worker(TaskNode(GATHER, ([first, *(task(number) for number in range(500))],), {}))
    assert len(worker.program.functions) == 2


def reading(table: Any) -> TaskNode[Any]:
    """A task whose function takes a table along."""
    return TaskNode(Function(lambda index: float(table[index]), TaskOptions()), (7,), {})


def test_a_function_with_a_large_value_is_a_constant() -> None:
    table = np.arange(100_000)
    worker = Worker(reading(table))
    assert worker.program.functions == (0,)
    assert worker.program.constants == (worker.constants[0].size_bytes,)
    assert size_of(worker.program) < 1_000
    assert worker.function(0)(7) == 7.0


def test_a_function_with_a_large_value_is_not_copied() -> None:
    table = np.arange(100_000)
    parts = Worker(reading(table)).constants[0].parts
    assert any(np.shares_memory(np.frombuffer(part, dtype=np.uint8), table) for part in parts)


def test_a_function_with_a_small_value_is_in_the_program() -> None:
    worker = Worker(reading(np.arange(100)))
    assert worker.constants == []
    assert worker.function(0)(7) == 7.0


def test_large_functions_and_large_arguments_are_constants_side_by_side() -> None:
    first = reading(np.arange(100_000))
    big = np.ones(20_000)
    worker = Worker([first, task(big), reading(np.arange(100_000) * 2)])
    assert len(worker.constants) == 3
    assert [worker.function(0)(7), worker.function(2)(7)] == [7.0, 14.0]
    np.testing.assert_array_equal(worker.arguments(1)[0][0], big)


def test_the_bytes_of_a_large_function_are_asked_for_once() -> None:
    worker = Worker(reading(np.arange(100_000)))
    asked: list[int] = []

    def constant_data(index: int) -> bytes:
        asked.append(index)
        return worker.constant_data(index)

    assert worker.loaded.function(0, constant_data) is worker.loaded.function(0, constant_data)
    assert asked == [0]


def test_errors_of_the_storage_pass_through_when_a_large_function_is_fetched() -> None:
    def constant_data(_: int) -> bytes:
        raise ConnectionError("storage")

    with pytest.raises(ConnectionError, match="storage"):
        Worker(reading(np.arange(100_000))).loaded.function(0, constant_data)


def test_an_argument_of_a_function_that_was_not_loaded_is_named_by_its_place() -> None:
    worker = Worker(task(1, {task(0)}))
    with pytest.raises(SerializationError, match=r"argument 2 of resize\[1\]: a set cannot be built"):
        worker.loaded.arguments(1, lambda _: ["a list"], worker.constant_data)


# ── scale ──────────────────────────────────────────────────────────────────────────────────────────────────────

MANY = 100_000


def test_a_chain_of_a_hundred_thousand_tasks_is_built_encoded_and_freed() -> None:
    last = task(0)
    for _ in range(MANY - 1):
        last = task(last)
    worker = Worker(last)
    assert len(worker.workflow.graph) == MANY
    assert len(worker.workflow.graph.chain_to_sink(0)) == MANY
    assert worker.arguments(MANY - 1) == ([f"output {MANY - 2}"], {})


def test_a_fan_in_of_a_hundred_thousand_tasks_is_small_and_arrives_in_order() -> None:
    worker = Worker(TaskNode(GATHER, ([task(number) for number in range(MANY)],), {}))
    assert size_of(worker.program) < 15 * MANY
    assert worker.arguments(MANY, lambda number: number)[0] == [list(range(MANY))]


def test_all_to_all_costs_one_list_a_block() -> None:
    layer = [task(number) for number in range(300)]
    worker = Worker([TaskNode(GATHER, (layer,), {}) for _ in range(300)])
    assert size_of(worker.program) < 60_000
    assert worker.arguments(450, lambda number: number)[0] == [list(range(300))]


def test_importing_the_engine_loads_no_numpy() -> None:
    program = "import sys, augury.dag.program, augury.plan.plan; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


# ── sizes ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_size_of_arguments_counts_what_is_inline_nested_or_constant() -> None:
    small, large = [1, 2, 3], np.zeros(CONSTANT_BYTES)
    worker = Worker([task(5), task("x" * 1000), task(small), task(large, [large, "y"]), task(task(0))])
    sizes = [worker.loaded.argument_bytes(number) for number in range(6)]
    assert sizes[0] < 50
    assert sizes[1] == pytest.approx(1000, abs=50)
    assert sizes[2] == pytest.approx(serde.dumps(small).size_bytes, abs=50)
    assert sizes[3] == pytest.approx(large.nbytes, rel=0.01)  # one constant, however often it stands there
    assert sizes[5] < 50  # an output of another task is not counted here
