"""Faults: when they strike, and whom.

They wait for tasks, not for time: every task notes its name and process as it begins, and a fault strikes the process
of the n-th note, in the middle of that task.
"""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from reliability.marks import signalled
from reliability.workloads import TASKS

FAULTS = ("none", "kill-one", "kill-each", "poison", "stop", "memory", "coordinator", "storage")
LOOK_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A task that has begun."""

    task: str
    pid: int


def notes_in(folder: Path) -> list[Note]:
    """All tasks that have begun so far, in order."""
    with suppress(FileNotFoundError):
        lines = (folder / "ran").read_text().splitlines()
        return [Note(task=task, pid=int(pid)) for task, pid in (line.split() for line in lines)]
    return []


def strike(fault: str, workload: str, folder: Path, targets: dict[str, int], goes_on: Callable[[], bool]) -> int:
    """Do what a fault does, as far as the run gets; says how many processes were struck."""
    tasks = TASKS[workload]
    if fault in targets:
        if not wait_for(tasks // 2, folder, goes_on):
            return 0
        return int(signalled(targets[fault], signal.SIGKILL, folder))
    if fault == "kill-one":
        nth = Random(f"{workload} {fault}").randint(tasks // 3, 2 * tasks // 3)
        return int(strike_worker(nth, folder, signal.SIGKILL, goes_on))
    if fault == "kill-each":
        return kill_two(tasks, folder, goes_on)
    if fault == "stop":
        return int(strike_worker(tasks // 2, folder, signal.SIGSTOP, goes_on))
    return 0


def strike_worker(nth: int, folder: Path, number: signal.Signals, goes_on: Callable[[], bool]) -> bool:
    """Signal the process that begins the n-th task, or a later one if that has ended meanwhile."""
    while wait_for(nth, folder, goes_on):
        if signalled(notes_in(folder)[nth - 1].pid, number, folder):
            return True
        nth += 1
    return False


def kill_two(tasks: int, folder: Path, goes_on: Callable[[], bool]) -> int:
    """Kill the worker that runs the task at one third, and the oldest of the others at two thirds."""
    killed = int(strike_worker(tasks // 3, folder, signal.SIGKILL, goes_on))
    if not wait_for(2 * tasks // 3, folder, goes_on):
        return killed
    workers = dict.fromkeys(note.pid for note in notes_in(folder))  # the killed one bears no mark any more
    return killed + any(signalled(pid, signal.SIGKILL, folder) for pid in workers)


def wait_for(nth: int, folder: Path, goes_on: Callable[[], bool]) -> bool:
    """Wait until so many tasks have begun; False if the run ends before."""
    while len(notes_in(folder)) < nth:
        if not goes_on():
            return False
        time.sleep(LOOK_S)
    return True
