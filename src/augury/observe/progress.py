"""Progress of runs on a terminal, or as lines where there is none.

On a terminal a bar appears once a run has lasted a moment, so that short runs do not flicker. In pipes and
in CI a line is written now and then. What tasks print goes to the user's own standard output and error,
each line with the task's label in front, above the bar. At the end one line says what the run took.

`AUGURY_PROGRESS` chooses: `auto` (the default), `bar`, `lines`, or `off`, which silences everything but
what tasks print.

Everything is written to standard error but the tasks' standard output, so results can be piped.
"""

import importlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Protocol, TextIO, cast

from augury.errors import DefinitionError
from augury.observation import Observer, RunEvent, RunFinished, RunProgressed, RunStarted, TaskPrinted
from augury.observe.report import format_report
from augury.wording import count, seconds

SETTING = "AUGURY_PROGRESS"

BAR_AFTER_S = 0.3
LINES_AFTER_S = 2.0
LINE_EVERY_S = 5.0


class Mode(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    BAR = "bar"
    LINES = "lines"
    OFF = "off"


class Display(Protocol):
    """What shows the progress of runs between their start and their end. Called under a lock."""

    def show(self, name: str, tasks: int, event: RunProgressed) -> None:
        """A run has come this far."""
        ...

    def write(self, stream: TextIO, text: str) -> None:
        """Write whole lines to a stream, without disturbing what is shown."""
        ...

    def end(self, run_id: str) -> None:
        """A run is over: show it no more."""
        ...


class Lines:
    """Progress as plain lines, one per run every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_s: dict[str, float] = {}

    def show(self, name: str, tasks: int, event: RunProgressed) -> None:
        """Write a line, unless the last one is recent."""
        if event.elapsed_s < self._next_s.get(event.run_id, 0.0):
            return
        self._next_s[event.run_id] = event.elapsed_s + LINE_EVERY_S
        self.write(self._stream, f"augury: {name}: {describe(tasks, event)}\n")

    def write(self, stream: TextIO, text: str) -> None:
        """Write text as it is."""
        write_through(stream, text)

    def end(self, run_id: str) -> None:
        """Forget a run."""
        self._next_s.pop(run_id, None)


class Progress:
    """An observer that shows runs to a person, or to a log.

    Args:
        mode: How; `auto` looks at where standard error goes.
        stdout: Where tasks' standard output goes; the process's own by default.
        stderr: Where everything else goes; the process's own by default.
        environ: The environment, which tells CI and terminals that cannot show a bar.

    Example:
        >>> client = Client(observers=[Progress("lines")])  # doctest: +SKIP
    """

    def __init__(
        self,
        mode: str = "auto",
        *,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        if mode not in list(Mode):
            raise DefinitionError(f"{SETTING} must be one of {', '.join(Mode)}, not {mode!r}")
        self._mode = Mode(mode)
        self._stdout = stdout
        self._stderr = stderr
        self._environ = os.environ if environ is None else environ
        self._display: Display | None = None
        self._runs: dict[str, RunStarted] = {}
        self._unfinished: dict[tuple[str, str, str], str] = {}
        self._lock = threading.Lock()

    def on_event(self, event: RunEvent) -> None:
        """Show an event, if it is time to."""
        with self._lock:
            match event:
                case RunStarted():
                    self._runs[event.run_id] = event
                case RunProgressed():
                    self._show(event)
                case TaskPrinted():
                    self._print(event)
                case RunFinished():
                    self._finish(event)

    def _show(self, event: RunProgressed) -> None:
        run = self._runs.get(event.run_id)
        if run is None or self._mode is Mode.OFF:
            return
        shows_bar = self._mode is Mode.BAR or (self._mode is Mode.AUTO and self._on_terminal())
        if self._mode is Mode.AUTO and event.elapsed_s < (BAR_AFTER_S if shows_bar else LINES_AFTER_S):
            return
        if self._display is None:
            self._display = open_bar(self._err()) if shows_bar else Lines(self._err())
        self._display.show(run.name, run.tasks, event)

    def _on_terminal(self) -> bool:
        return is_terminal(self._err()) and not self._environ.get("CI") and self._environ.get("TERM") != "dumb"

    def _print(self, event: TaskPrinted) -> None:
        """Write whole lines now; the rest when its line is finished, or the run."""
        key = (event.run_id, event.label, event.stream)
        whole, newline, rest = (self._unfinished.pop(key, "") + event.text).rpartition("\n")
        if rest:
            self._unfinished[key] = rest
        if newline:
            self._write_lines(event.label, event.stream, whole)

    def _write_lines(self, label: str, stream: str, text: str) -> None:
        labelled = "".join(f"[{label}] {line}\n" for line in text.split("\n"))
        self._write(self._err() if stream == "stderr" else self._out(), labelled)

    def _finish(self, event: RunFinished) -> None:
        for key in [key for key in self._unfinished if key[0] == event.run_id]:
            self._write_lines(key[1], key[2], self._unfinished.pop(key))
        self._runs.pop(event.run_id, None)
        if self._display is not None:
            self._display.end(event.run_id)
        if self._mode is not Mode.OFF:
            self._write(self._err(), format_report(event.report) + "\n")
        if not self._runs:
            self._display = None

    def _write(self, stream: TextIO, text: str) -> None:
        if self._display is None:
            write_through(stream, text)
        else:
            self._display.write(stream, text)

    def _out(self) -> TextIO:
        # Looked up each time: programs and test runners replace sys.stdout.
        return self._stdout or sys.stdout

    def _err(self) -> TextIO:
        return self._stderr or sys.stderr


def default_observers() -> Sequence[Observer]:
    """What watches the runs of a client that was given no observers: progress, as `AUGURY_PROGRESS` says.

    Raises:
        DefinitionError: The setting has a value that does not exist.
    """
    return (Progress(os.environ.get(SETTING, "auto")),)


def open_bar(stream: TextIO) -> Display:
    """A live bar; rich is loaded only now, since most runs end before they need it."""
    return cast("Display", importlib.import_module("augury.observe.bar").Bar(stream))


def describe(tasks: int, event: RunProgressed) -> str:
    """How far a run is, such as `120/10,000 tasks, 4 workers (1 starting), 5.0 s`."""
    starting = f" ({event.starting} starting)" if event.starting else ""
    workers = count(event.invocations, "worker")
    return f"{event.ran:,}/{count(tasks, 'task')}, {workers}{starting}, {seconds(event.elapsed_s)}"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream leads to a terminal; one that is closed or missing does not."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def write_through(stream: TextIO | None, text: str) -> None:
    """Write and flush; a reader that went away must not end the run, nor a character that the stream lacks."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
