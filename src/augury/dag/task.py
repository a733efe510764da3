"""A task is one call of a decorated function; nothing runs when it is made."""

import inspect
import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from augury.config import Cache, but_not, is_number, is_positive, is_whole
from augury.dag.version import code_version
from augury.errors import DefinitionError

T_co = TypeVar("T_co", covariant=True)

_definitions = itertools.count()


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may say about every call of a function.

    Args:
        retries: How often a failed call is tried again.
        backoff_s: How long to wait before the second try, at most; twice that before the third, and so on.
        retry_on: Which exceptions are worth another try.
        timeout_s: How long one try may take.
        memory_mb: The least memory that a call needs.
        cache: How outputs are kept for later runs; None: not at all.
        optimizations: Optimizations forced on these tasks, whatever the planner would choose.
    """

    retries: int = 0
    backoff_s: float = 0.1
    retry_on: tuple[type[Exception], ...] = (Exception,)
    timeout_s: float | None = None
    memory_mb: int | None = None
    cache: Cache | None = None
    optimizations: tuple[Any, ...] = ()

    def check(self, name: str) -> None:
        """Refuse values that cannot be meant, naming the function and the option.

        Raises:
            DefinitionError: Says which option, what it must be and what it is.
        """
        if not is_whole(self.retries, least=0):
            raise DefinitionError(
                f"@task on {name}: retries must be a whole number of at least 0, {but_not(self.retries)}"
            )
        if not is_number(self.backoff_s):
            raise DefinitionError(
                f"@task on {name}: backoff_s must be a number of seconds, at least 0, {but_not(self.backoff_s)}"
            )
        if not self.retry_on or not all(map(_is_exception, self.retry_on)):
            raise DefinitionError(
                f"@task on {name}: retry_on must be exception classes, such as (OSError, TaskTimeout), "
                f"not {self.retry_on!r}"
            )
        if self.timeout_s is not None and not is_positive(self.timeout_s):
            raise DefinitionError(f"@task on {name}: timeout_s must be a positive number, {but_not(self.timeout_s)}")
        if self.memory_mb is not None and not is_whole(self.memory_mb, least=1):
            raise DefinitionError(
                f"@task on {name}: memory_mb must be a positive whole number, {but_not(self.memory_mb)}"
            )
        if not isinstance(self.cache, Cache | None):
            raise DefinitionError(f"@task on {name}: cache must be True, False or a Cache(…), not {self.cache!r}")
        if type(self.optimizations) is not tuple:
            raise DefinitionError(f"@task on {name}: optimizations must be a tuple, not {self.optimizations!r}")


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def exception_name(kind: type) -> str:
    """How a class is called in every process, also in one that got it by value."""
    return f"{kind.__module__}.{kind.__qualname__}"


class Function:
    """A decorated function: the user's callable and what was said about it.

    Attributes:
        fn: The user's own callable.
        name: Its name, as labels show it.
        options: What the decorator said.
        handle: The object that the decorated name is bound to; lets a module's function travel by reference.
    """

    __slots__ = ("_takes", "fn", "handle", "name", "options")

    def __init__(self, fn: Callable[..., Any], options: TaskOptions, handle: object = None) -> None:
        if not callable(fn):
            raise DefinitionError(f"@task needs a function, not {fn!r}")
        self.fn = fn
        self.name = _name_of(fn)
        self.options = options
        self.handle = handle
        options.check(self.name)
        self._takes: _Takes | None = None

    def __repr__(self) -> str:
        return f"<function {self.name} of tasks>"

    def check_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuse arguments that the function does not take, where the call is written rather than on a worker.

        Raises:
            DefinitionError: Names the function and the parameter.
        """
        takes = self._takes
        if takes is None:
            takes = self._takes = _Takes(self.fn)
        if takes.fewest <= len(args) <= takes.most and not kwargs:
            return
        if takes.signature is None:
            return
        try:
            takes.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise DefinitionError(f"{self.name}{takes.signature}: {error}") from None

    def version(self) -> str:
        """A hash of the function's code: the same in every process, another when the code changes."""
        return code_version(self.fn)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.fn, self.name, self.options, self.handle  # a function that travels may name another one

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.fn, self.name, self.options, self.handle = state
        self._takes = None


class _Takes:
    """What a function takes; worked out at the first call, because asking is slow.

    Attributes:
        signature: None if the callable does not tell.
        fewest: The fewest positional arguments of a call without keywords; more than `most` if there is none.
        most: The most positional arguments.
    """

    __slots__ = ("fewest", "most", "signature")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.signature = signature_of(fn)
        self.fewest: float = 0
        self.most: float = 0 if self.signature else math.inf
        for parameter in self.signature.parameters.values() if self.signature else ():
            required = parameter.default is parameter.empty
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.most = math.inf
            elif parameter.kind is parameter.KEYWORD_ONLY:
                self.fewest += math.inf if required else 0
            elif parameter.kind is not parameter.VAR_KEYWORD:
                self.most += 1
                self.fewest += required


def _name_of(fn: Callable[..., Any]) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


def signature_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """What a callable takes, or None if it does not tell: some that are written in C do not."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def parameter_name(signature: inspect.Signature | None, position: int) -> str | None:
    """The name of the parameter that takes a positional argument, or None if it has none of its own."""
    if signature is None:
        return None
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            return None
        if index == position:
            return parameter.name
    return None


class TaskNode(Generic[T_co]):
    """One call of a decorated function, to be run later; may be an argument of other tasks.

    Two tasks are equal only if they are the same one: `task == 3` is False, whatever it will return, and
    tasks can be members of sets and keys of dicts. Arithmetic with a task is Python's own `TypeError`.

    Attributes:
        function: What will be called.
        args: Positional arguments; may hold tasks.
        kwargs: Keyword arguments; may hold tasks.
        order: Grows with every task that is defined in this process. A task is made after its arguments,
            so sorting by it is a topological order, and the one in which the user wrote things down.
    """

    __slots__ = ("__weakref__", "args", "function", "kwargs", "order")

    def __init__(self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.order = next(_definitions)

    def __repr__(self) -> str:
        return f"<task {self.function.name}, not run yet>"

    def __bool__(self) -> NoReturn:
        raise DefinitionError(self._no_value_yet("has no truth value"))

    def __iter__(self) -> NoReturn:
        raise DefinitionError(self._no_value_yet("cannot be iterated over"))

    def __len__(self) -> NoReturn:
        raise DefinitionError(self._no_value_yet("has no length"))

    def __copy__(self) -> "TaskNode[T_co]":
        return self  # a task does not change; a copy of a list of tasks holds the same tasks

    def __deepcopy__(self, memo: dict[int, Any]) -> "TaskNode[T_co]":
        return self

    def __reduce__(self) -> NoReturn:
        raise DefinitionError(
            f"a task of {self.function.name} is hidden inside an object that Augury does not look into, or was "
            "returned by a task: pass tasks directly, or in lists, tuples, dicts, sets and dataclasses; "
            "inside a task, call the plain function (its .fn) instead"
        )

    def _no_value_yet(self, what: str) -> str:
        return f"a task of {self.function.name} {what} before it has run: pass it to another task, or call .compute()"
