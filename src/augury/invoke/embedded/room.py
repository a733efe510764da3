"""Storage as a worker of the embedded platform reaches it: emulated, and not charged for what it stores.

Large outputs go through files in shared memory. The kernel charges such pages to the control group of the process
that wrote them, for as long as the file exists: a worker that stored 400 MB for others would be left with
that much less to compute with, and one that stores more than its limit would be killed for it. In a cloud
those bytes would be in a distant store. So before a worker writes an object it moves its own limit up by what
the group holds in shared memory. The limits are there to imitate a cloud and to protect the machine from
accidents, not from malice, which is why a worker may do that.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from augury.config import Resources
from augury.invoke.embedded.cgroups import FLOOR_MB, limit_file
from augury.invoke.embedded.emulation import EmulatedStorage
from augury.invoke.gateway import InvocationContext
from augury.serde import Blob, Buffer
from augury.storage.protocols import Coordination, Objects, Storage

_MIB: Final = 1024 * 1024
_STEP_BYTES: Final = 16 * _MIB
"""Room is made in steps, so that not each small object costs two system calls; the limit is inexact by so much."""


class Room:
    """The memory limit of a worker's control group, as far as objects are concerned. Thread-safe."""

    def __init__(self, group: Path, memory_mb: int) -> None:
        self._limit_file = group / limit_file(2 if (group / limit_file(2)).exists() else 1)
        self._stat_file = group / "memory.stat"
        self._limit_bytes = max(memory_mb, FLOOR_MB) * _MIB
        self._left_bytes = 0
        self._lock = Lock()

    def make(self, size_bytes: int) -> None:
        """Make room for an object that is about to be written."""
        with self._lock:
            self._left_bytes -= size_bytes
            if self._left_bytes >= 0:
                return
            room_bytes = self._shared_bytes() + size_bytes + _STEP_BYTES
            # A limit that cannot be moved leaves the object charged to the worker: stricter, but not wrong.
            with suppress(OSError):
                self._limit_file.write_text(str(self._limit_bytes + room_bytes))
            self._left_bytes = _STEP_BYTES

    def _shared_bytes(self) -> int:
        with suppress(OSError, ValueError):
            for line in self._stat_file.read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "shmem":
                    return int(value)
        return 0


class RoomyObjects:
    """Objects in shared memory that are not charged to the worker that writes them."""

    def __init__(self, objects: Objects, room: Room) -> None:
        self._objects = objects
        self._room = room

    def create(self) -> None:
        """See `Objects.create`."""
        self._objects.create()

    def put(self, key: str, blob: Blob) -> Buffer | None:
        """See `Objects.put`."""
        self._room.make(blob.size_bytes)
        return self._objects.put(key, blob)

    def get(self, keys: Sequence[str]) -> dict[str, Buffer]:
        """See `Objects.get`."""
        return self._objects.get(keys)

    def delete(self, keys: Iterable[str]) -> None:
        """See `Objects.delete`."""
        self._objects.delete(keys)

    def remove(self) -> None:
        """See `Objects.remove`."""
        self._objects.remove()


class RoomyStorage:
    """A storage whose objects are not charged to the worker that writes them."""

    def __init__(self, storage: Storage, room: Room) -> None:
        self._storage = storage
        self._room = room

    def coordination(self, run_id: str) -> Coordination:
        """See `Storage.coordination`."""
        return self._storage.coordination(run_id)

    def objects(self, run_id: str) -> Objects:
        """See `Storage.objects`."""
        return RoomyObjects(self._storage.objects(run_id), self._room)

    def ping(self) -> None:
        """See `Storage.ping`."""
        self._storage.ping()

    def close(self) -> None:
        """See `Storage.close`."""
        self._storage.close()


def worker_storage(storage: Storage, context: InvocationContext, resources: Resources) -> Storage:
    """The storage as a worker should use it, given where it runs."""
    if context.memory_group and context.storage.object_dir:
        storage = RoomyStorage(storage, Room(Path(context.memory_group), resources.memory_mb))
    if context.emulation is not None:
        storage = EmulatedStorage(storage, context.emulation, resources)
    return storage
