"""Which processes belong to an experiment: every one of them inherits a variable that names its folder.

Numbers of processes are used again, so nothing is struck or killed that does not bear the mark.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK = "RELIABILITY_EXPERIMENT"


def signalled(pid: int, number: signal.Signals, folder: Path) -> bool:
    """Send a signal to a process of an experiment; False if it has ended."""
    if not bears(pid, folder):
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def kill_all(folder: Path) -> None:
    """Kill every process of an experiment, until there is none."""
    while found := [pid for pid in processes() if bears(pid, folder)]:
        for pid in found:
            signalled(pid, signal.SIGKILL, folder)
        time.sleep(0.05)


def named(text: str, folder: Path) -> int:
    """The process of an experiment that has this in its command line."""
    for pid in processes():
        if bears(pid, folder) and text.encode() in read(pid, "cmdline"):
            return pid
    raise RuntimeError(f"the experiment has no process {text!r}")


def processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def bears(pid: int, folder: Path) -> bool:
    return f"{MARK}={folder}".encode() in read(pid, "environ").split(b"\0")


def read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""  # ended meanwhile, or not ours
