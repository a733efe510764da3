"""The code and the arguments of a workflow, as bytes: what a worker needs beyond the graph.

Functions are encoded once each; one above 64 KiB, such as one that refers to a large global of a script,
is a constant. Calls are encoded in blocks of 64, so that a worker that runs a few of
10,000 tasks decodes a few blocks, and a client does not start a pickler per task. What stands in a block:

    number, string, None, …             ──▶ itself
    a task                              ──▶ `direct`: its id
    above 64 KiB, and holds no task     ──▶ `constants`: an object of its own, stored once per run
    anything else                       ──▶ `nested`: a pickle of its own

Pickles of their own mean that every call gets fresh values (a task that changes its argument changes
nobody else's, and a repeated one starts as the first did), and that an argument which cannot be loaded
fails its own task only. An object that many tasks take is pickled once.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import msgspec

from augury import serde
from augury.config import CONSTANT_BYTES
from augury.dag.code import encode_function, load_function, modules_to_send
from augury.dag.graph import Graph, Workflow
from augury.dag.refs import ATOMS, Const, RebuildError, Ref, fill, lower
from augury.dag.task import TaskNode, parameter_name, signature_of
from augury.errors import DefinitionError, SerializationError

__all__ = ["BLOCK_TASKS", "Call", "Key", "LoadedProgram", "Nested", "Program", "encode"]

BLOCK_TASKS = 64

Key = int | str
"""Where an argument stands: its position or its keyword."""


class Nested(NamedTuple):
    """An argument as a pickle of its own.

    Attributes:
        key: Where it stands.
        data: The pickle.
        constants: The constants somewhere inside.
        holds_refs: Whether `fill` has something to do after loading.
    """

    key: Key
    data: bytes
    constants: tuple[int, ...] = ()
    holds_refs: bool = False


class Call(NamedTuple):
    """The arguments of one task, lowered.

    Attributes:
        args: Positional arguments; None where one of the following goes.
        kwargs: Keyword arguments; likewise.
        direct: Arguments that are a task's output itself.
        constants: Arguments that are a constant itself.
        nested: Arguments that are pickles.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    direct: tuple[tuple[Key, int], ...] = ()
    constants: tuple[tuple[Key, int], ...] = ()
    nested: tuple[Nested, ...] = ()


class Program(msgspec.Struct, frozen=True, array_like=True):
    """The encoded functions and calls of a workflow.

    Attributes:
        functions: For each function of the graph, how a worker gets it: a pickle, or the index of the constant
            that is one.
        blocks: The calls, 64 tasks a block, each a pickle of its own.
        constants: The sizes of the constants; their bytes are objects of the run.
    """

    functions: tuple[bytes | int, ...]
    blocks: tuple[bytes, ...]
    constants: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """The program as bytes; `decode` reads it back."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Program":
        """Read a program that `encode` wrote.

        Raises:
            SerializationError: It is not one.
        """
        try:
            return _decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SerializationError(f"these are not the bytes of a program: {error}") from error


_decoder = msgspec.msgpack.Decoder(Program)


def encode(workflow: Workflow, *, shared_files: bool) -> tuple[Program, list[serde.Blob]]:
    """Turn a workflow's code and arguments into bytes.

    Args:
        workflow: What to encode.
        shared_files: Whether workers see the client's files. If so, functions of the user's modules are
            imported there; if not, they travel by value.

    Returns:
        The program, and its constants.

    Raises:
        SerializationError: Names the task and the argument that cannot be pickled.
    """
    with serde.modules_by_value(modules_to_send(shared_files=shared_files)):
        encoder = _Encoder(workflow)
        functions = tuple(
            encoder.stored_function(encode_function(function, shared_files=shared_files))
            for function in workflow.functions
        )
        blocks = tuple(encoder.encode_block(start) for start in range(0, len(workflow.nodes), BLOCK_TASKS))
    sizes = tuple(blob.size_bytes for blob in encoder.constants)
    return Program(functions, blocks, sizes), encoder.constants


_SMALL_ATOMS = ATOMS - {str, bytes}


class _Encoder:
    """One pass over the calls of a workflow, collecting constants on the way."""

    def __init__(self, workflow: Workflow) -> None:
        self.constants: list[serde.Blob] = []
        self._workflow = workflow
        # Both by identity; they hold the object too, so that its id stays its own.
        self._encoded: dict[int, tuple[Any, Const | Nested]] = {}
        self._measured: dict[int, tuple[Any, Const | None]] = {}

    def stored_function(self, blob: serde.Blob) -> bytes | int:
        """A function as its pickle, or as the index of a constant if that is large."""
        return blob.join() if blob.size_bytes <= CONSTANT_BYTES else self._add(blob)

    def encode_block(self, start: int) -> bytes:
        """Up to 64 calls: the positional arguments of each, and for some of them what else there is."""
        plain: list[tuple[Any, ...]] = []
        others: dict[int, tuple[Any, ...]] = {}
        for offset, node in enumerate(self._workflow.nodes[start : start + BLOCK_TASKS]):
            if not node.kwargs and _SMALL_ATOMS.issuperset(map(type, node.args)):
                plain.append(node.args)
            else:
                args, rest = self._lower_call(start + offset, node)
                plain.append(args)
                if any(rest):
                    others[offset] = rest
        return serde.dumps((plain, others), plain=True).join()

    def _lower_call(self, task: int, node: TaskNode[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The fields of a `Call`: its `args`, and the others; of built-in types only, as blocks are."""
        args = list(node.args)
        kwargs = dict(node.kwargs)
        direct: list[tuple[Key, int]] = []
        constants: list[tuple[Key, int]] = []
        nested: list[tuple[Any, ...]] = []
        places: list[tuple[Key, Any]] = [*enumerate(args), *kwargs.items()]
        for key, value in places:
            if _is_inline(value):
                continue
            target: Any = args if isinstance(key, int) else kwargs
            target[key] = None
            if isinstance(value, TaskNode):
                direct.append((key, self._workflow.ids[id(value)]))
                continue
            encoded = self._encode_argument(task, key, value)
            if isinstance(encoded, Const):
                constants.append((key, encoded.index))
            else:
                nested.append((key, *encoded[1:]))
        return tuple(args), (kwargs, tuple(direct), tuple(constants), tuple(nested))

    def _encode_argument(self, task: int, key: Key, value: Any) -> Const | Nested:
        if id(value) not in self._encoded:
            try:
                self._encoded[id(value)] = (value, self._encode_value(key, value))
            except Exception as error:
                raise self._blame(task, key, value, error) from error
        return self._encoded[id(value)][1]

    def _encode_value(self, key: Key, value: Any) -> Const | Nested:
        constants: dict[int, None] = {}

        def whole(part: Any) -> Any:
            const = None if part is value or _is_surely_small(part) else self._constant(part)
            if const is None:
                return part
            constants[const.index] = None
            return const

        lowered, holds_refs = lower(value, self._ref, whole)
        if holds_refs:
            return Nested(key, serde.dumps(lowered).join(), tuple(constants), holds_refs=True)
        blob = serde.dumps(value)
        return self._constant(value, blob) or Nested(key, blob.join())

    def _constant(self, value: Any, blob: serde.Blob | None = None) -> Const | None:
        """The constant that stands for a value, or None if the value is small."""
        if id(value) not in self._measured:
            blob = blob or serde.dumps(value)
            const = None
            if blob.size_bytes > CONSTANT_BYTES:
                const = Const(self._add(blob))
            self._measured[id(value)] = (value, const)
        return self._measured[id(value)][1]

    def _add(self, blob: serde.Blob) -> int:
        self.constants.append(blob)
        return len(self.constants) - 1

    def _ref(self, node: TaskNode[Any]) -> Ref:
        return Ref(self._workflow.ids[id(node)])

    def _blame(self, task: int, key: Key, value: Any, error: Exception) -> SerializationError:
        where = f"{_argument_name(self._workflow.nodes[task].function.fn, key)} of {self._workflow.graph.label(task)}"
        if isinstance(error, DefinitionError):
            return SerializationError(f"{where}: {error}")
        return SerializationError(
            f"{where} cannot be pickled ({type(value).__name__}: {error}); "
            "pass plain data, or open files, locks and connections inside the task"
        )


def _argument_name(fn: Callable[..., Any] | None, key: Key) -> str:
    """How a reader would call an argument: by its parameter if that is known, else by its place."""
    signature = None if fn is None else signature_of(fn)
    name = key if isinstance(key, str) else parameter_name(signature, key)
    return f"argument {name!r}" if name is not None else f"argument {int(key) + 1}"


def _is_inline(value: Any) -> bool:
    """Whether a value can stand in a block as it is: nobody can change it, and it is small."""
    kind = type(value)
    return kind in _SMALL_ATOMS or ((kind is str or kind is bytes or kind is tuple) and _is_surely_small(value))


def _is_surely_small(value: Any) -> bool:
    """Whether a glance tells that the pickle of a value is below the constant limit."""
    kind = type(value)
    if kind in _SMALL_ATOMS:
        return True
    if kind is str or kind is bytes:
        return len(value) <= _SMALL_TEXT
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        return len(value) <= _FEW and _all_small(value)
    if kind is dict:
        return len(value) <= _FEW and _all_small(value) and _all_small(value.values())
    return False


_SMALL_TEXT = CONSTANT_BYTES // 8
_FEW = 64


def _all_small(items: Iterable[Any]) -> bool:
    return all(
        type(item) in _SMALL_ATOMS or ((type(item) is str or type(item) is bytes) and len(item) <= _SMALL_TEXT // _FEW)
        for item in items
    )


class LoadedProgram:
    """A program on a worker: decodes functions and blocks when they are first needed.

    Args:
        graph: The workflow's graph.
        program: What was uploaded.
        importing: Entered while a function is loaded, which may import modules of the user's.
    """

    def __init__(
        self, graph: Graph, program: Program, importing: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._graph = graph
        self._program = program
        self._importing = importing
        self._functions: dict[int, Callable[..., Any]] = {}
        self._blocks: dict[int, tuple[list[tuple[Any, ...]], dict[int, tuple[Any, ...]]]] = {}

    def function(self, task: int, constant_data: Callable[[int], serde.Buffer]) -> Callable[..., Any]:
        """The user's function for a task.

        Args:
            task: The task.
            constant_data: Gives the bytes of a constant by its index; asked when a large function is first
                needed. What it raises passes through.

        Raises:
            SerializationError: It cannot be loaded here; says what is missing.
        """
        index = self._graph.function_of[task]
        if index not in self._functions:
            encoded = self._program.functions[index]
            data = constant_data(encoded) if isinstance(encoded, int) else encoded
            try:
                with self._importing():
                    self._functions[index] = load_function(data)
            except (Exception, SystemExit) as error:  # importing a module runs it, and it may want to end the process
                raise _cannot_load(f"the function of {self._graph.label(task)}", error) from error
        return self._functions[index]

    def call(self, task: int) -> Call:
        """The lowered arguments of a task.

        Raises:
            SerializationError: The program is damaged.
        """
        block, offset = divmod(task, BLOCK_TASKS)
        if block not in self._blocks:
            self._blocks[block] = serde.loads(self._program.blocks[block])
        plain, others = self._blocks[block]
        if offset not in others:
            return Call(plain[offset], {})
        kwargs, direct, constants, nested = others[offset]
        return Call(plain[offset], kwargs, direct, constants, tuple(Nested(*argument) for argument in nested))

    def constants_of(self, task: int) -> list[int]:
        """The constants that a task's arguments hold, each once."""
        call = self.call(task)
        inside = [index for argument in call.nested for index in argument.constants]
        return list(dict.fromkeys([*(index for _, index in call.constants), *inside]))

    def argument_bytes(self, task: int) -> int:
        """About how large the arguments of a task are, outputs of other tasks not counted."""
        call = self.call(task)
        size = sum(map(serde.estimated_size, call.args))
        if call.kwargs:
            size += sum(map(serde.estimated_size, call.kwargs.values()))
        if call.nested or call.constants:
            size += sum(len(argument.data) for argument in call.nested)
            size += sum(self._program.constants[index] for index in self.constants_of(task))
        return size

    def arguments(
        self, task: int, output: Callable[[int], Any], constant: Callable[[int], Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a task with values in place of references; everything but those is new at each call.

        Args:
            task: The task.
            output: Gives the output of a task that it depends on.
            constant: Gives a constant by its index.

        Raises:
            SerializationError: An argument cannot be loaded here; names the task and the argument, which has a
                name once `function` has loaded the function, and before a place.
        """
        call = self.call(task)
        args = list(call.args)
        kwargs = dict(call.kwargs)
        values: list[tuple[Key, Any]] = [(key, output(dep)) for key, dep in call.direct]
        values += [(key, constant(index)) for key, index in call.constants]
        loaded: dict[int, Any] = {}  # by the pickle's identity: f(x, x) gets one x
        for argument in call.nested:
            if id(argument.data) not in loaded:
                loaded[id(argument.data)] = self._load_argument(task, argument, output, constant)
            values.append((argument.key, loaded[id(argument.data)]))
        for key, value in values:
            target: Any = args if isinstance(key, int) else kwargs
            target[key] = value
        return args, kwargs

    def _load_argument(
        self, task: int, argument: Nested, output: Callable[[int], Any], constant: Callable[[int], Any]
    ) -> Any:
        try:
            value = serde.loads(argument.data)
        except (Exception, SystemExit) as error:
            raise _cannot_load(self._where(task, argument.key), error) from error
        if not argument.holds_refs:
            return value
        try:
            return fill(value, lambda ref: output(ref.task), lambda const: constant(const.index))
        except RebuildError as error:
            raise SerializationError(f"{self._where(task, argument.key)}: {error}") from error

    def _where(self, task: int, key: Key) -> str:
        function = self._functions.get(self._graph.function_of[task])
        return f"{_argument_name(function, key)} of {self._graph.label(task)}"


def _cannot_load(what: str, error: BaseException) -> SerializationError:
    if isinstance(error, ModuleNotFoundError):
        return SerializationError(
            f"{what} needs the module {error.name!r}, which the worker does not have; install it where workers run"
        )
    return SerializationError(f"{what} cannot be loaded on the worker: {error!r}")
