"""Processes and the kernel: who dies with whom, and which children this process has.

All of it is an addition on Linux. Elsewhere these functions do nothing or know less, and the platform relies
on what works everywhere: the end of a socket, and process groups.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36

_MIB: Final = 1024 * 1024
_STACKS_MB: Final = 64
"""Room for the stacks of a few threads: they count as data from the moment they are reserved."""

OUT_OF_MEMORY: Final = 42
"""The exit status of a worker that ends itself because it may not allocate what a task wants."""

_STATM: Final = Path("/proc/self/statm")

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """Have this process killed as soon as its parent, whose id is given, is gone."""
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # the parent was gone before the kernel knew of our wish


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, instead of the system's first process."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """The children of this process that the kernel tells of, dead ones that were not reaped included."""
    found: set[int] = set()
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):
                found.update(map(int, (task / "children").read_text().split()))
    return found


def kill_group(pid: int) -> None:
    """Kill all that are in the process group that this process leads, or led until it was reaped."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_with_group(pid: int) -> None:
    """Kill a child that was not reaped, wherever it is, with the process group that it was to lead."""
    kill_group(pid)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end_children(known: Collection[int] = (), spare: Collection[int] = ()) -> None:
    """Kill and reap all children, until there are none but those to `spare`.

    What the dead leave behind is adopted and ended too, which is why it takes several rounds.
    """
    remaining = (set(known) | children()) - set(spare)
    while remaining:
        for pid in remaining:
            kill_with_group(pid)
        for pid in remaining:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        remaining = children() - set(spare)


def can_limit_data() -> bool:
    """Whether `limit_data` can do its work on this system."""
    return _STATM.exists()


def limit_data(memory_mb: int) -> None:
    """Let this process allocate so much memory beyond what it has now; what goes beyond raises MemoryError.

    The second best limit, where control groups are not to be had: it counts address space that is reserved,
    used or not, and each subprocess has a limit of its own.
    """
    data_pages = int(_STATM.read_text().split()[5])
    limit = data_pages * resource.getpagesize() + (memory_mb + _STACKS_MB) * _MIB
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))


def describe_exit(status: int) -> str:
    """How a process ended, from its wait status: `was killed by SIGSEGV`, `exited with status 3`."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"was killed by {signal.Signals(number).name}"
        except ValueError:
            return f"was killed by signal {number}"
    return f"exited with status {os.waitstatus_to_exitcode(status)}"


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal, and has not been continued."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def cpu_ticks(pid: int) -> int:
    """How much a process has computed so far, in ticks of the kernel's clock; 0 if that is not known."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0
