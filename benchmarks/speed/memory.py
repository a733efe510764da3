"""How much memory a system takes: all of its processes and all that they share, each page counted once.

                         in processes                       in none
    private pages        Pss_Anon    ┐
    files, code          Pss_File    ┘ counted here
    shared memory        Pss_Shmem                          files in /dev/shm that nobody maps
                         └───────── Shmem of the system ─────────┘ counted there

The kernel shares a page out among the processes that map it (PSS), so the sum over processes counts it once. But a
value in shared memory that nobody maps at the moment is in no process, though it takes as much; and one that is mapped
is in both. So shared memory is left out of the processes, and taken from what the system says of itself instead: what
all of it has grown by since before the first process was started, wherever it is mounted, mapped or not. That counts
neighbours too: nobody else should use shared memory meanwhile.

The processes are those below a given one. To look at all of them takes some milliseconds, and so long what one of them
does is a little blurred; peaks that are shorter than the pause between two looks are missed. Both is so for every
system alike.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def peak_bytes(root: int, shared_before_bytes: int, pause: Callable[[], bool]) -> int:
    """The most memory that a process and all below it have together.

    Args:
        root: The process.
        shared_before_bytes: What `shared_bytes` was before it was started.
        pause: Waits a little before each look; False ends the watch.
    """
    peak = 0
    while pause():
        peak = max(peak, taken_bytes(root, shared_before_bytes))
    return peak


def taken_bytes(root: int, shared_before_bytes: int) -> int:
    """What a process and all below it have now."""
    return sum(map(own_bytes, tree_of(root))) + max(0, shared_bytes() - shared_before_bytes)


def shared_bytes() -> int:
    """All shared memory of the system."""
    return _sum_of(_PROC / "meminfo", ("Shmem:",))


def own_bytes(process: int) -> int:
    """The share of a process in all that is not shared memory; nothing if it is gone."""
    with suppress(OSError):
        return _sum_of(_PROC / str(process) / "smaps_rollup", ("Pss_Anon:", "Pss_File:"))
    return 0


def tree_of(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                # The name, in parentheses, may hold anything; after it come the state and the parent.
                children[int((folder / "stat").read_text().rpartition(")")[2].split()[1])].append(int(folder.name))
    found = [root]
    for process in found:
        found.extend(children[process])
    return found


def _sum_of(path: Path, names: tuple[str, ...]) -> int:
    return sum(int(line.split()[1]) * 1024 for line in path.read_text().splitlines() if line.startswith(names))
