"""Tasks and functions: what can be said about them, what is refused, and where."""

import copy
import functools
import gc
import math
import operator
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from augury.config import Cache
from augury.dag.task import Function, TaskNode, TaskOptions
from augury.errors import DefinitionError


def resize(image: Any, width: int, height: int = 10, *, crop: bool = False) -> Any:
    return image


def task_of(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> TaskNode[Any]:
    return TaskNode(Function(fn, TaskOptions()), args, kwargs)


# ── options ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("retries", [-1, 1.0, True, "1", None, math.nan]),
        ("backoff_s", [-1, True, "1", None, math.nan, math.inf]),
        ("retry_on", [(), (3,), (KeyboardInterrupt,), ("OSError",), (OSError(),), (int,)]),
        ("timeout_s", [0, -1, True, "1", math.nan, math.inf]),
        ("memory_mb", [0, -1, 1.5, True, "1", math.nan]),
        ("cache", [3600, "1 h", Cache]),
        ("optimizations", [None, [], "x"]),
    ],
)
def test_options_that_cannot_be_meant_are_refused_by_name(option: str, values: list[Any]) -> None:
    for value in values:
        if value is None and option in ("timeout_s", "memory_mb"):
            continue
        with pytest.raises(DefinitionError, match=f"@task on resize: {option} must be") as refused:
            Function(resize, TaskOptions(**{option: value}))
        assert repr(value) in str(refused.value)


def test_options_that_can_be_meant_are_taken() -> None:
    options = TaskOptions(retries=3, backoff_s=0, retry_on=(OSError, ValueError), timeout_s=0.5, memory_mb=128)
    assert Function(resize, options).options is options


def test_only_what_can_be_called_can_be_a_function() -> None:
    with pytest.raises(DefinitionError, match="@task needs a function, not 3"):
        Function(3, TaskOptions())  # type: ignore[arg-type]


class Scaler:
    def __call__(self, x: int) -> int:
        return x


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (resize, "resize"),
        (functools.partial(functools.partial(resize, 1), 2), "resize"),
        (len, "len"),
        (Scaler(), "Scaler"),
        (Scaler, "Scaler"),
        (lambda: None, "<lambda>"),
    ],
)
def test_a_function_is_named_as_its_author_named_it(fn: Callable[..., Any], name: str) -> None:
    assert Function(fn, TaskOptions()).name == name


def test_a_function_that_travels_with_another_keeps_what_was_said_about_it() -> None:
    function = Function(resize, TaskOptions(retries=2))
    function.check_call((1, 2), {})
    back = pickle.loads(pickle.dumps(function))
    assert (back.fn, back.name, back.options) == (resize, "resize", TaskOptions(retries=2))
    with pytest.raises(DefinitionError, match="width"):
        back.check_call((1,), {})


def test_a_function_that_names_itself_can_travel() -> None:
    def count(x: int) -> int:
        return 0 if x == 0 else 1 + int(counting.fn(x - 1))

    counting = Function(count, TaskOptions())
    assert pickle.loads(cloudpickle.dumps(count))(3) == 3


# ── calls ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1, 2), {}), ((1, 2, 3), {}), ((1,), {"width": 2}), ((), {"image": 1, "width": 2}), ((1, 2), {"crop": True})],
)
def test_calls_that_fit_are_taken(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    Function(resize, TaskOptions()).check_call(args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "'image'"),
        ((1,), {}, "'width'"),
        ((1, 2, 3, 4), {}, "too many positional arguments"),
        ((1, 2), {"depth": 3}, "'depth'"),
        ((1, 2), {"width": 3}, "'width'"),
    ],
)
def test_calls_that_do_not_fit_are_refused_where_they_are_written(
    args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    with pytest.raises(DefinitionError, match=r"^resize\(") as refused:
        Function(resize, TaskOptions()).check_call(args, kwargs)
    assert said in str(refused.value)


def test_a_required_keyword_is_asked_for() -> None:
    def fn(*values: int, unit: str) -> None: ...

    function = Function(fn, TaskOptions())
    function.check_call((1, 2, 3), {"unit": "m"})
    with pytest.raises(DefinitionError, match="'unit'"):
        function.check_call((1, 2, 3), {})


def test_any_number_of_values_is_taken_where_the_function_takes_them() -> None:
    def fn(first: int, /, *rest: int, **named: int) -> None: ...

    function = Function(fn, TaskOptions())
    function.check_call(tuple(range(100)), {})
    function.check_call((1,), {"x": 2})
    with pytest.raises(DefinitionError, match="'first'"):
        function.check_call((), {})


def test_a_callable_that_does_not_tell_what_it_takes_is_trusted() -> None:
    Function(dict, TaskOptions()).check_call((1, 2, 3), {"x": 1})


# ── tasks ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (bool, "has no truth value"),
        (operator.not_, "has no truth value"),
        (list, "cannot be iterated over"),
        (iter, "cannot be iterated over"),
        (len, "has no length"),
        (lambda task: 3 in task, "cannot be iterated over"),
    ],
)
def test_a_task_has_no_value_yet(use: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=f"a task of resize {said} before it has run"):
        use(task_of(resize, 1, 2))


@pytest.mark.parametrize(
    "use",
    [lambda task: task + 1, lambda task: 2 * task, lambda task: -task, lambda task: task[0], lambda task: task < 1],
)
def test_arithmetic_with_a_task_is_a_type_error(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        use(task_of(resize, 1, 2))


def test_a_task_equals_itself_only() -> None:
    task = task_of(resize, 1, 2)
    assert task in [task]
    assert task != task_of(resize, 1, 2)
    assert task not in [3, 2.5, "x"]
    assert len({task, task}) == 1


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_task_cannot_be_pickled_and_says_what_to_do(dumps: Callable[[Any], bytes]) -> None:
    with pytest.raises(DefinitionError, match=r"a task of resize is hidden .* pass tasks directly"):
        dumps([task_of(resize, 1, 2)])


def test_copies_of_containers_hold_the_same_tasks() -> None:
    tasks = [task_of(resize, 1, 2)]
    assert copy.copy(tasks[0]) is tasks[0]
    assert copy.deepcopy(tasks)[0] is tasks[0]


def test_a_task_shows_what_it_is() -> None:
    assert repr(task_of(resize, 1, 2)) == "<task resize, not run yet>"


def test_later_tasks_have_a_higher_order() -> None:
    first = task_of(resize, 1, 2)
    assert first.order < task_of(resize, first, 2).order


@pytest.mark.parametrize(
    "link",
    [
        lambda function, task: TaskNode(function, (task,), {}),
        lambda function, task: TaskNode(function, ([task],), {}),
        lambda function, task: TaskNode(function, (), {"image": task}),
    ],
    ids=["positional", "in a list", "keyword"],
)
def test_a_chain_of_a_hundred_thousand_tasks_is_freed(link: Callable[[Function, Any], TaskNode[Any]]) -> None:
    function = Function(resize, TaskOptions())
    task = TaskNode[Any](function, (0,), {})
    first = weakref.ref(task)
    for _ in range(100_000):
        task = link(function, task)
    gc.disable()  # reference counts alone must do
    try:
        del task
        assert first() is None
    finally:
        gc.enable()
