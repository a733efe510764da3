"""The values that an invocation holds: outputs of tasks, and constants.

Who may change a value is settled by the graph, not by where tasks run (see `RunView.copied`): an output with one
consumer is handed over as it is; of one that several take, each gets a copy, whose arrays are shared and read-only.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from augury import serde
from augury.dag.refs import ATOMS
from augury.errors import AuguryError, RunLost, SerializationError
from augury.storage.outputs import check_small, read_outputs
from augury.storage.protocols import Coordination, Objects, constant_key, output_key
from augury.trust.seal import Seal
from augury.worker.recorder import Recorder
from augury.worker.view import RunView

_LOOKED_AT = 64


class Values:
    """What is in memory, and its way from and to storage. Used by all threads of a runner.

    Attributes:
        stored_bytes: How much went to storage; `fetched_bytes`: how much came from there.

    Args:
        seal: Signs what leaves, and checks what comes.
        is_kept_apart: Whether an output may be on its way to storage while a task takes it: then its bytes are copied.
    """

    def __init__(
        self,
        view: RunView,
        coordination: Coordination,
        objects: Objects,
        recorder: Recorder,
        seal: Seal,
        is_kept_apart: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._view = view
        self._is_kept_apart = is_kept_apart
        self._recorder = recorder
        self._seal = seal
        self._coordination = coordination
        self._objects = objects
        self._values: dict[int, Any] = {}  # outputs that go to their one consumer as they are
        self._originals: dict[int, serde.Blob | serde.Buffer] = {}  # outputs of which each consumer gets a copy
        self._blobs: dict[int, serde.Blob] = {}  # outputs as bytes, made once
        self._constants: dict[int, serde.Buffer] = {}
        self._sizes: dict[int, int] = {}  # outputs that came from storage, or whose size was estimated
        self._waits = threading.local()
        self._put: list[int] = []
        self._tally = threading.Lock()
        self.stored_bytes = 0
        self.fetched_bytes = 0

    def __contains__(self, task: int) -> bool:
        return task in self._values or task in self._originals

    # Outputs that are made here

    def keep(self, task: int, value: Any, *, leaves: bool) -> int:
        """Take the output of a task that ran here; its size, if it may have to leave.

        Raises:
            SerializationError: It may have to leave, and cannot be pickled.
        """
        self._values[task] = value
        copied = self._view.copied[task] and type(value) not in ATOMS
        if not (leaves or copied):
            return 0
        try:
            blob = self.pack(task)
        except SerializationError:
            if leaves:
                raise
            return 0  # what cannot be copied is shared, since it stays here
        if copied:
            self._originals[task] = blob
            del self._values[task]
        elif self._is_kept_apart(task):
            self._blobs[task] = serde.Blob([blob.join()])
        return blob.size_bytes if leaves else 0

    def pack(self, task: int) -> serde.Blob:
        """The output of a task that ran here, as bytes."""
        blob = self._blobs.get(task)
        if blob is None:
            value = self._values[task]
            try:
                blob = self._blobs[task] = serde.dumps(value)
            except MemoryError:
                raise  # more of it may help
            except (Exception, SystemExit) as error:
                raise SerializationError(
                    f"the result of {self._view.graph.label(task)} cannot be pickled "
                    f"({type(value).__name__}: {error}); return plain data"
                ) from error
        return blob

    def is_apart(self, task: int) -> bool:
        """Whether the bytes of an output are what was made, whatever a task does to the value that it was given."""
        if task in self._originals or type(self._values[task]) in ATOMS:
            return True
        blob = self._blobs.get(task)
        return blob is not None and all(isinstance(part, bytes) for part in blob.parts)

    def set_apart(self, tasks: Iterable[int]) -> None:
        """Copy the bytes of outputs before a task is given them, but of those that cannot be pickled."""
        for task in tasks:
            if not self.is_apart(task):
                with suppress(SerializationError):
                    self._blobs[task] = serde.Blob([self.pack(task).join()])

    def inline(self, task: int, size_bytes: int) -> bytes | None:
        """A small output, to ride inside a report; None if it is large."""
        if size_bytes > self._view.inline_bytes:
            return None
        self._count(stored=size_bytes)
        return self._seal.sign_output(task, self.pack(task).join())

    def store(self, task: int) -> None:
        """Write a large output to storage."""
        blob = self.pack(task)
        began_s = time.monotonic()
        try:
            stored = self._objects.put(output_key(task), self._seal.sign_object(output_key(task), blob))
        except AuguryError as error:
            raise type(error)(f"the output of {self._view.graph.label(task)}: {error}") from error
        self._recorder.stored(task, blob.size_bytes, time.monotonic() - began_s)
        self._put.append(task)
        self._count(stored=blob.size_bytes)
        if stored is not None and task in self._originals:
            # So that it is not in memory twice; tasks that were given our own go on with that.
            self._originals[task] = self._blobs[task] = _with_buffers_of(stored, blob)

    @property
    def put(self) -> list[int]:
        """The tasks whose outputs were written to storage here."""
        return self._put

    def take_back(self) -> None:
        """Remove what was stored here: the run is over, and nobody will."""
        if self._put:
            self._objects.delete([output_key(task) for task in self._put])

    # Outputs of other workers, and constants

    def fetch(self, tasks: Sequence[int]) -> None:
        """Bring outputs from storage."""
        began_s = time.monotonic()
        found = read_outputs(self._coordination, self._objects, tasks, self._seal, self._view.graph.label)
        self._recorder.downloaded(sum(map(len, found.values())), time.monotonic() - began_s)
        for task in tasks:
            if task not in found:
                raise RunLost(f"the output of {self._view.graph.label(task)} is no longer in storage")
            self._receive(task, found[task])

    def receive(self, task: int, data: bytes) -> None:
        """Take a small output of another worker, as it came with an event.

        Raises:
            UntrustedData: No worker of this run made it.
        """
        check_small({task: data}, self._seal, self._view.graph.label)
        self._receive(task, data)

    def _receive(self, task: int, data: serde.Buffer) -> None:
        """Take an output that is authentic."""
        self._count(fetched=len(data))
        self._sizes[task] = len(data)
        if self._view.copied[task]:
            self._originals[task] = data
            return
        try:
            self._values[task] = serde.loads(data, writable=True)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise self._unloadable(task, error) from error

    def constant_data(self, index: int) -> serde.Buffer:
        """The bytes of a constant, fetched when the first task here takes it."""
        if index not in self._constants:
            began_s = time.monotonic()
            data = self._objects.get([constant_key(index)]).get(constant_key(index))
            if data is None:
                raise RunLost(f"constant {index} of the run is no longer in storage")
            self._seal.check_object(constant_key(index), data)
            duration_s = time.monotonic() - began_s
            self._recorder.downloaded(len(data), duration_s)
            self._waits.total_s = self.waited_s + duration_s
            self._count(fetched=len(data))
            self._constants[index] = data
        return self._constants[index]

    @property
    def waited_s(self) -> float:
        """How long this thread has waited for constants to come from storage, in all."""
        return getattr(self._waits, "total_s", 0.0)

    # For tasks

    def output(self, task: int) -> Any:
        """An output for a task that takes it: the value itself, or a copy where others take it too."""
        original = self._originals.get(task)
        if original is None:
            return self._values[task]
        try:
            return original.reload() if isinstance(original, serde.Blob) else serde.loads(original)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise self._unloadable(task, error) from error

    def constant(self, index: int) -> Any:
        """A large argument; each task gets its own copy."""
        return serde.loads(self.constant_data(index))

    def input_bytes(self, task: int) -> float:
        """About how large the outputs are that a task takes; of many it looks at some."""
        deps = self._view.graph.deps[task]
        looked_at = deps[:: -(-len(deps) // _LOOKED_AT)] if len(deps) > _LOOKED_AT else deps
        return sum(map(self.size, looked_at)) * len(deps) / len(looked_at) if deps else 0.0

    def size(self, task: int) -> int:
        """About how large an output is as bytes; known if it was ever encoded, else estimated."""
        blob = self._blobs.get(task)
        if blob is not None:
            return blob.size_bytes
        if task not in self._sizes:
            self._sizes[task] = serde.estimated_size(self._values[task])
        return self._sizes[task]

    # The end

    def discard(self, tasks: Sequence[int]) -> None:
        """Forget outputs that nothing here needs any more."""
        for task in tasks:
            self._values.pop(task, None)
            self._originals.pop(task, None)
            self._blobs.pop(task, None)
            self._sizes.pop(task, None)

    def clear(self) -> None:
        """Forget everything."""
        for kept in (self._values, self._originals, self._blobs, self._constants):
            kept.clear()

    def _unloadable(self, task: int, error: Exception | SystemExit) -> SerializationError:
        return SerializationError(
            f"the output of {self._view.graph.label(task)} cannot be loaded on the worker that needs it: {error!r}"
        )

    def _count(self, *, stored: int = 0, fetched: int = 0) -> None:
        with self._tally:
            self.stored_bytes += stored
            self.fetched_bytes += fetched


def _with_buffers_of(stored: serde.Buffer, blob: serde.Blob) -> serde.Blob:
    """The same blob, with its buffers where they were stored; what is unpickled stays our own."""
    parts: list[serde.Buffer] = []
    start = 0
    for part in blob.parts:
        end = start + len(part)
        parts.append(memoryview(stored)[start:end] if isinstance(part, memoryview) else part)
        start = end
    return serde.Blob(parts)
