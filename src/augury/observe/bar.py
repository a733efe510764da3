"""A live progress bar, drawn by rich; loaded only when one is shown."""

import atexit
import sys
from typing import TextIO

from rich import progress
from rich.console import Console

from augury.observation import RunProgressed
from augury.observe.progress import describe, is_terminal, write_through


class Bar:
    """A row per run, redrawn with every event and gone when the run is over.

    It is redrawn by events rather than by a thread of its own: the process may fork workers, and a thread
    that holds the terminal's lock would not survive that.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, force_terminal=True)
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=28),
            progress.TextColumn("{task.fields[state]}", markup=False),
            console=self._console,
            auto_refresh=False,
            transient=True,
            # The user's own prints go above the bar, but only if they go to a terminal: a pipe stays a pipe.
            redirect_stdout=is_terminal(sys.stdout),
            redirect_stderr=is_terminal(sys.stderr),
        )
        self._rows: dict[str, progress.TaskID] = {}

    def show(self, name: str, tasks: int, event: RunProgressed) -> None:
        """Draw a run's row."""
        if not self._rows:
            self._progress.start()
            atexit.register(self._progress.stop)  # a program that dies here gets its cursor back
        if event.run_id not in self._rows:
            self._rows[event.run_id] = self._progress.add_task(name, total=tasks, state="")
        self._progress.update(self._rows[event.run_id], completed=event.ran, state=describe(tasks, event), refresh=True)

    def write(self, stream: TextIO, text: str) -> None:
        """Write above the bar, if the stream shares the terminal with it."""
        if self._rows and is_terminal(stream):
            self._console.print(text, end="", markup=False, highlight=False, emoji=False, soft_wrap=True)
        else:
            write_through(stream, text)

    def end(self, run_id: str) -> None:
        """Take a run's row away, and the bar with the last one."""
        row = self._rows.pop(run_id, None)
        if row is None:
            return
        self._progress.remove_task(row)
        if self._rows:
            self._progress.refresh()
        else:
            self._progress.stop()
            atexit.unregister(self._progress.stop)
