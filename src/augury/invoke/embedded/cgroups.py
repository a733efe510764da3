"""Memory and CPU limits by Linux control groups, where the system lets us.

    <own group>/augury-platform-<name>/   the platform's group: locked by the supervisor while it lives
        ├── w1/   memory limit, CPU quota
        └── w2/   …                       one group per worker, made and entered by the worker itself

Version 1 has one such tree per controller (memory, cpu), version 2 one for both. The platform's group lies below
the group that the supervisor is in; in version 2, where a group with processes cannot have limited children,
below that group's parent. A worker makes its group itself, right after the fork: the system calls (about 0.3 ms)
then run in all starting workers at once, and not in the supervisor.

What `memory_mb` means: all memory that the worker touches itself, its subprocesses and its cached file pages
included. Pages that it still shares with the pre-loaded parent (the interpreter, imported modules) are charged to
the parent and come for free, as the runtime of a FaaS platform does. A limit below `FLOOR_MB` is raised to
it: less does not hold the bookkeeping that any interpreter copies in its first instructions. Large outputs in
shared memory are storage, not the worker's memory; `room` keeps them out of the account. There is no swap.
"""

import math
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from augury.config import Resources
from augury.invoke.embedded.folders import lock_folder
from augury.invoke.embedded.processes import can_limit_data
from augury.invoke.embedded.wire import GroupEntry

FLOOR_MB: Final = 32
_PERIOD_US: Final = 100_000
_PREFIX: Final = "augury-platform-"
"""Telling enough: what bears such a name and is not locked is swept, with all processes in it."""

_MIB: Final = 1024 * 1024
_ATTEMPTS: Final = 3
_PATIENCE_S: Final = 2.0
_PAUSE_S: Final = 0.002
_MOST_READ: Final = 4096
_PROC: Final = Path("/proc/self")


class Tree(msgspec.Struct, frozen=True):
    """The platform's group in one hierarchy, and what it limits there."""

    folder: Path
    version: int
    memory: bool
    cpu: bool

    def entry(self, worker: int, resources: Resources, processors: int) -> GroupEntry:
        """The group of a worker."""
        limits = []
        if self.memory:
            limit_bytes = max(resources.memory_mb, FLOOR_MB) * _MIB
            limits.append((limit_file(self.version), str(limit_bytes)))
        if self.cpu and resources.cpus < processors:
            quota_us = max(1000, math.ceil(resources.cpus * _PERIOD_US))
            limits.append(("cpu.max", f"{quota_us} {_PERIOD_US}") if self.version == 2 else _quota_v1(quota_us))
        return GroupEntry(str(self.folder / f"w{worker}"), tuple(limits))


def machine_memory_mb() -> int:
    """The most that a worker of this machine can have: its memory, and no less than workers have by default."""
    machine_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MIB
    return max(machine_mb, Resources().memory_mb)


def limit_file(version: int) -> str:
    """The file that holds a group's memory limit."""
    return "memory.max" if version == 2 else "memory.limit_in_bytes"


def _quota_v1(quota_us: int) -> tuple[str, str]:
    return "cpu.cfs_quota_us", str(quota_us)


class Groups(Protocol):
    """Where workers are limited; there is one that does nothing."""

    notes: tuple[str, ...]
    """What is enforced and what is not, for the user."""

    unlimited: str
    """What should be limited and is not, and why, in a few words: `CPU (Permission denied)`; mostly empty."""

    limits_data: bool
    """Whether a worker must limit its own data segment, because no group limits its memory."""

    def entries(self, worker: int, resources: Resources) -> tuple[GroupEntry, ...]:
        """The groups that a worker has to make and enter."""
        ...

    def memory_group(self, worker: int) -> str:
        """The folder of the group that limits a worker's memory; empty if none does."""
        ...

    def out_of_memory(self, worker: int) -> bool:
        """Whether the kernel killed a process of this worker because the group was full."""
        ...

    def peak_mb(self, worker: int) -> int:
        """The most memory in MiB that a worker had, its subprocesses included; 0 if that is not known."""
        ...

    def remove(self, worker: int) -> None:
        """Forget a worker that is gone, with whatever it left behind."""
        ...

    def close(self) -> None:
        """Remove everything."""
        ...


class NoGroups:
    """No control groups: switched off, or the system does not let us."""

    def __init__(self, notes: tuple[str, ...], limits_data: bool = False, unlimited: str = "") -> None:
        self.notes = notes
        self.unlimited = unlimited
        self.limits_data = limits_data

    def entries(self, worker: int, resources: Resources) -> tuple[GroupEntry, ...]:
        """None."""
        return ()

    def memory_group(self, worker: int) -> str:
        """None."""
        return ""

    def out_of_memory(self, worker: int) -> bool:
        """Nobody knows."""
        return False

    def peak_mb(self, worker: int) -> int:
        """Nobody knows."""
        return 0

    def remove(self, worker: int) -> None:
        """There is nothing to remove."""

    def close(self) -> None:
        """There is nothing to close."""


class ControlGroups:
    """The control groups of one platform; see the module's description."""

    def __init__(
        self,
        trees: Iterable[Tree],
        locks: Iterable[int],
        notes: tuple[str, ...],
        limits_data: bool = False,
        unlimited: str = "",
    ) -> None:
        self._trees = tuple(trees)
        self._locks = tuple(locks)
        self._processors = os.cpu_count() or 1
        self._left: set[int] = set()
        self.notes = notes
        self.unlimited = unlimited
        self.limits_data = limits_data

    def entries(self, worker: int, resources: Resources) -> tuple[GroupEntry, ...]:
        """The groups that a worker has to make and enter."""
        return tuple(tree.entry(worker, resources, self._processors) for tree in self._trees)

    def memory_group(self, worker: int) -> str:
        """The folder of the group that limits a worker's memory; empty if none does."""
        return next((str(tree.folder / f"w{worker}") for tree in self._trees if tree.memory), "")

    def out_of_memory(self, worker: int) -> bool:
        """Whether the kernel killed a process of this worker because the group was full."""
        group = self.memory_group(worker)
        return bool(group) and oom_kills(Path(group)) > 0

    def peak_mb(self, worker: int) -> int:
        """The most memory in MiB that a worker had, its subprocesses included; 0 if that is not known."""
        group = self.memory_group(worker)
        return peak_bytes(Path(group)) // _MIB if group else 0

    def remove(self, worker: int) -> None:
        """Forget a worker that is gone, with whatever it left behind; what is still dying is tried again later."""
        self._left.add(worker)
        for left in tuple(self._left):
            gone = [_remove_group(tree.folder / f"w{left}", patience_s=0) for tree in self._trees]
            if all(gone):
                self._left.discard(left)

    def close(self) -> None:
        """Remove everything."""
        for tree in self._trees:
            _remove_group(tree.folder, _PATIENCE_S)
        self.unlock()

    def unlock(self) -> None:
        """Give the groups up without removing them, as death does."""
        for lock in self._locks:
            os.close(lock)
        self._locks = ()


def open_limits(name: str, enforce: bool, proc: Path = _PROC) -> Groups:
    """Make the platform's group in every hierarchy that lets us, and say what is enforced.

    Args:
        name: Of the platform; unique.
        enforce: Whether to limit anything.
        proc: The folder with this process' `cgroup` and `mountinfo`.
    """
    if not enforce:
        return NoGroups(("memory and cpu limits not enforced: switched off",))
    made: list[tuple[Tree, int]] = []
    reasons: list[str] = []
    refusals: dict[str, None] = {}  # in order, each once
    for hierarchy in _hierarchies(proc):
        try:
            made.append(_make_tree(hierarchy, _PREFIX + name))
        except OSError as error:
            refusals[error.strerror or str(error)] = None
            reasons.append(f"{'+'.join(hierarchy.controllers)}: {error.strerror} ({error.filename})")
    reason = "; ".join(reasons) or "this system has no such control groups"
    trees = [tree for tree, _ in made]
    by_memory = next((tree for tree in trees if tree.memory), None)
    by_cpu = next((tree for tree in trees if tree.cpu), None)
    fallback = can_limit_data()
    without = "RLIMIT_DATA" if fallback else "not enforced"
    notes = (
        f"memory limits: cgroup v{by_memory.version}" if by_memory else f"memory limits: {without} ({reason})",
        f"cpu limits: cgroup v{by_cpu.version}" if by_cpu else f"cpu limits not enforced: {reason}",
    )
    limits_data = by_memory is None and fallback
    missing = [] if by_memory or fallback else ["memory"]
    missing += [] if by_cpu else ["CPU"]
    unlimited = f"{' and '.join(missing)} ({', '.join(refusals) or 'no control groups'})" if missing else ""
    if not trees:
        return NoGroups(notes, limits_data, unlimited)
    return ControlGroups(trees, [lock for _, lock in made], notes, limits_data, unlimited)


def sweep_groups(proc: Path = _PROC) -> None:
    """Remove the groups of platforms that died without removing them, and kill what still runs in them."""
    for hierarchy in _hierarchies(proc):
        for parent in hierarchy.parents():
            for folder in parent.glob(f"{_PREFIX}*/"):
                if (lock := lock_folder(folder)) is not None:
                    _remove_group(folder, _PATIENCE_S)
                    os.close(lock)


def enter(groups: Iterable[GroupEntry]) -> None:
    """Make groups and move this process into them."""
    for group in groups:
        os.mkdir(group.folder)
        for file, text in group.limits:
            _write(f"{group.folder}/{file}", text)
        _write(f"{group.folder}/cgroup.procs", "0")


def oom_kills(group: Path) -> int:
    """How many processes of a group the kernel killed because the group was full."""
    return _kills(_kill_file(str(group)))


class KillCounter:
    """Whether the kernel killed a process of a group because the group was full; cheap enough to be asked often.

    A worker that is killed says nothing any more. One whose subprocess is killed sees a strange exit status, or a
    pool that never answers, and goes on; this is how it knows better.

    Args:
        group: The folder of the group; empty if nothing limits the memory: then nobody knows.
    """

    def __init__(self, group: str) -> None:
        self._file = _kill_file(group) if group else ""
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._before = _kills(self._file) if self._file else 0

    def rose(self) -> bool:
        """Whether one was killed since it began to count."""
        return bool(self._file) and _kills(self._file) > self._before


def _kill_file(group: str) -> str:
    """The file that tells how many were killed: of version 2, or else of version 1; empty if there is none."""
    files = (f"{group}/{name}" for name in ("memory.events", "memory.oom_control"))
    return next(filter(os.path.exists, files), "")


def _kills(file: str) -> int:
    with suppress(OSError, ValueError):
        for line in _read(file).splitlines():
            key, _, value = line.partition(b" ")
            if key == b"oom_kill":
                return int(value)
    return 0


def peak_bytes(group: Path) -> int:
    """The most memory that a group ever held; 0 if the kernel does not tell."""
    for file in ("memory.peak", "memory.max_usage_in_bytes"):
        with suppress(OSError, ValueError):
            return int((group / file).read_text())
    return 0


class _Hierarchy(msgspec.Struct, frozen=True):
    """A mounted hierarchy with a controller that we use: its top, and the group that we are in."""

    version: int
    controllers: tuple[str, ...]
    own: Path
    top: Path

    def parents(self) -> list[Path]:
        """Where the platform's group may be: in our own group, or beside it."""
        return [self.own] if self.version == 1 or self.own == self.top else [self.own, self.own.parent]


def _hierarchies(proc: Path) -> list[_Hierarchy]:
    try:
        paths = _own_paths((proc / "cgroup").read_text())
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in mounts:
        left, _, right = line.partition(" - ")
        root, mount = left.split(" ")[3:5]
        kind, _, options = right.split(" ", 2)
        top = Path(mount)
        if kind == "cgroup2" and _has_controllers(top):
            found.append(_Hierarchy(2, ("memory", "cpu"), _below(top, root, paths.get("", "/")), top))
        elif kind == "cgroup":
            given = options.rpartition(" ")[2].split(",")
            controllers = tuple(name for name in ("memory", "cpu") if name in given)
            if controllers:
                found.append(_Hierarchy(1, controllers, _below(top, root, paths.get(controllers[0], "/")), top))
    return found


def _own_paths(text: str) -> dict[str, str]:
    """Our own group per controller; under the empty name that of version 2."""
    paths = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    return paths


def _has_controllers(top: Path) -> bool:
    """Whether version 2 has the controllers; in a hybrid set-up they are in version 1."""
    with suppress(OSError):
        return {"memory", "cpu"} <= set((top / "cgroup.controllers").read_text().split())
    return False


def _below(top: Path, root: str, path: str) -> Path:
    """A group's folder, given where the mount shows which part of the hierarchy."""
    relative = os.path.relpath(path, root)
    return top if relative.startswith("..") else top / relative


def _make_tree(hierarchy: _Hierarchy, name: str) -> tuple[Tree, int]:
    if hierarchy.version == 1:
        return _make_v1(hierarchy.own / name, hierarchy.controllers)
    refused = OSError(0, "not delegated to this user", str(hierarchy.own))
    for parent in hierarchy.parents():
        try:
            return _make_v2(parent, name)
        except OSError as error:
            refused = error
    raise refused


def _make_v1(folder: Path, controllers: tuple[str, ...]) -> tuple[Tree, int]:
    lock = _make_locked(folder)
    try:
        if "memory" in controllers:
            with suppress(OSError):
                _write(str(folder / "memory.swappiness"), "0")  # inherited by the workers' groups: no swap
        _check_access(folder / "cgroup.procs")
    except OSError:
        _remove_group(folder, _PATIENCE_S)
        os.close(lock)
        raise
    return Tree(folder, 1, "memory" in controllers, "cpu" in controllers), lock


def _make_v2(parent: Path, name: str) -> tuple[Tree, int]:
    # To move a process, one must be allowed to write to the group above both ends of the move.
    _check_access(parent / "cgroup.procs")
    folder = parent / name
    if not {"memory", "cpu"} <= set((parent / "cgroup.subtree_control").read_text().split()):
        _write(str(parent / "cgroup.subtree_control"), "+memory +cpu")
    lock = _make_locked(folder)
    try:
        _write(str(folder / "cgroup.subtree_control"), "+memory +cpu")
        with suppress(OSError):
            _write(str(folder / "memory.swap.max"), "0")
    except OSError:
        _remove_group(folder, _PATIENCE_S)
        os.close(lock)
        raise
    return Tree(folder, 2, memory=True, cpu=True), lock


def _make_locked(folder: Path) -> int:
    for _ in range(_ATTEMPTS):
        folder.mkdir(exist_ok=True)
        lock = lock_folder(folder)
        if lock is not None:
            if folder.exists():
                return lock
            os.close(lock)  # a sweeper took the young group for a leftover
    raise OSError(0, "another process keeps removing it", str(folder))


def _check_access(file: Path) -> None:
    if not os.access(file, os.W_OK):
        raise PermissionError(13, "no permission to move processes", str(file))


def _write(file: str, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _read(file: str) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_READ)
    finally:
        os.close(descriptor)


def _remove_group(group: Path, patience_s: float) -> bool:
    """Kill what is left in a group and remove it; false if what was killed takes longer than this to be gone.

    A worker's group has groups of its own below it if the worker used a platform of its own.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            _kill_all(group)
            for inner in group.glob("*/"):
                _remove_group(inner, patience_s)
        else:
            return True
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_PAUSE_S)


def _kill_all(group: Path) -> None:
    with suppress(OSError, ValueError):
        for pid in map(int, (group / "cgroup.procs").read_text().split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
