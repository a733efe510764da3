"""A gate in a task: the test learns that the task has come to it, and lets it through."""

import os
from pathlib import Path

from augury import task


class Gate:
    """Two pipes with names in a folder; given to tasks as the folder's path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("arrived", "open"):
            os.mkfifo(folder / name)

    def await_arrival(self) -> None:
        """Wait until a task has come to the gate."""
        (self.folder / "arrived").read_bytes()

    def open(self) -> None:
        """Let the task through."""
        (self.folder / "open").write_bytes(b"go")


def pass_gate(folder: str) -> None:
    """Say that one is here, and wait to be let through."""
    Path(folder, "arrived").write_bytes(b"here")
    Path(folder, "open").read_bytes()


@task
def pass_through(value: int, folder: str) -> int:
    """Return the value, once the gate has been opened."""
    pass_gate(folder)
    return value


@task
def add(*values: int) -> int:
    """The sum."""
    return sum(values)
