"""How runs are shown. Time comes with the events, so nothing here waits."""

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from augury.errors import DefinitionError
from augury.observation import RunEvent, RunFinished, RunProgressed, RunReport, RunStarted, TaskPrinted
from augury.observe import Progress, default_observers
from augury.wording import amount, count, seconds, size

REPORT = RunReport(
    run_id="r1",
    name="daily",
    status="succeeded",
    tasks=9,
    ran=9,
    workers=2,
    invocations=2,
    cold_starts=1,
    makespan_s=0.314,
    gb_seconds=0.157,
    stored_bytes=1234,
)
REPORT_LINE = "augury: daily succeeded: 9 tasks on 2 workers in 0.31 s, 1 cold start, 0.16 GB-s, 1.2 kB stored\n"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Screen:
    """An observer with its streams, and the events of one run."""

    def __init__(
        self, mode: str = "auto", stderr: io.StringIO | None = None, environ: dict[str, str] | None = None
    ) -> None:
        self.out = io.StringIO()
        self.err = stderr or io.StringIO()
        self.progress = Progress(mode, stdout=self.out, stderr=self.err, environ=environ or {})
        self.tell(RunStarted("r1", "daily", 9))

    def tell(self, *events: RunEvent) -> None:
        for event in events:
            self.progress.on_event(event)

    def advance(self, *times_s: float) -> None:
        self.tell(*(RunProgressed("r1", ran=4, invocations=2, starting=0, elapsed_s=time_s) for time_s in times_s))

    def finish(self) -> None:
        self.tell(RunFinished("r1", "succeeded", REPORT))


def test_a_short_run_in_a_pipe_leaves_only_its_report() -> None:
    screen = Screen()
    screen.advance(0.1, 0.5, 1.9)
    screen.finish()
    assert screen.err.getvalue() == REPORT_LINE
    assert screen.out.getvalue() == ""


@pytest.mark.parametrize(
    ("status", "ran", "invocations", "expected"),
    [
        ("succeeded", 9, 2, "9 tasks on 2 workers in "),
        ("failed", 1, 2, "1 of 9 tasks on 2 workers in "),
        ("cancelled", 0, 3, "0 of 9 tasks on 2 workers (3 invocations) in "),
    ],
)
def test_a_report_tells_how_many_tasks_ran_unless_all_did(
    status: str, ran: int, invocations: int, expected: str
) -> None:
    report = msgspec.structs.replace(REPORT, status=status, ran=ran, invocations=invocations)
    assert str(report).startswith(expected)


def test_a_report_of_one_invocation_says_so_in_the_singular() -> None:
    assert " on 0 workers (1 invocation) in " in str(msgspec.structs.replace(REPORT, workers=0, invocations=1))


def test_a_long_run_in_a_pipe_writes_a_line_every_few_seconds() -> None:
    screen = Screen()
    screen.advance(*(tenth / 10 for tenth in range(130)))
    assert screen.err.getvalue().splitlines() == [
        "augury: daily: 4/9 tasks, 2 workers, 2.00 s",
        "augury: daily: 4/9 tasks, 2 workers, 7.00 s",
        "augury: daily: 4/9 tasks, 2 workers, 12.0 s",
    ]


def test_workers_that_have_not_come_up_are_told_apart() -> None:
    screen = Screen("lines")
    screen.tell(RunProgressed("r1", ran=0, invocations=3, starting=2, elapsed_s=0.0))
    assert screen.err.getvalue() == "augury: daily: 0/9 tasks, 3 workers (2 starting), 0.00 s\n"


def test_lines_are_written_at_once_where_they_are_asked_for_even_on_a_terminal() -> None:
    screen = Screen("lines", Terminal())
    screen.advance(0.0, 0.1)
    assert screen.err.getvalue() == "augury: daily: 4/9 tasks, 2 workers, 0.00 s\n"


def test_off_silences_progress_and_report_but_not_the_tasks() -> None:
    screen = Screen("off", Terminal())
    screen.advance(1.0, 60.0)
    screen.tell(TaskPrinted("r1", "load[3]", "stdout", "hello\n"))
    screen.finish()
    assert screen.err.getvalue() == ""
    assert screen.out.getvalue() == "[load[3]] hello\n"


def test_what_tasks_print_goes_to_the_stream_they_meant_with_their_label() -> None:
    screen = Screen()
    screen.tell(
        TaskPrinted("r1", "load[0]", "stdout", "one\ntwo\n"), TaskPrinted("r1", "load[1]", "stderr", "trouble\n")
    )
    assert screen.out.getvalue() == "[load[0]] one\n[load[0]] two\n"
    assert screen.err.getvalue() == "[load[1]] trouble\n"


def test_an_unfinished_line_waits_for_its_rest() -> None:
    screen = Screen()
    screen.tell(TaskPrinted("r1", "load[0]", "stdout", "half "))
    assert screen.out.getvalue() == ""
    screen.tell(TaskPrinted("r1", "load[1]", "stdout", "other\n"), TaskPrinted("r1", "load[0]", "stdout", "whole\n"))
    assert screen.out.getvalue() == "[load[1]] other\n[load[0]] half whole\n"


def test_an_unfinished_line_is_written_when_the_run_ends() -> None:
    screen = Screen()
    screen.tell(TaskPrinted("r1", "load[0]", "stdout", "no newline"))
    screen.finish()
    assert screen.out.getvalue() == "[load[0]] no newline\n"


def test_a_blank_line_keeps_its_place() -> None:
    screen = Screen()
    screen.tell(TaskPrinted("r1", "load[0]", "stdout", "a\n\nb\n"))
    assert screen.out.getvalue() == "[load[0]] a\n[load[0]] \n[load[0]] b\n"


def test_a_stream_that_lacks_a_character_gets_its_escape() -> None:
    ascii_out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Progress("off", stdout=ascii_out).on_event(TaskPrinted("r1", "load[0]", "stdout", "naïve\n"))
    assert ascii_out.buffer.getvalue() == b"[load[0]] na\\xefve\n"


def test_a_reader_that_went_away_does_not_end_the_run() -> None:
    closed = io.StringIO()
    closed.close()
    progress = Progress("auto", stdout=closed, stderr=closed, environ={})
    progress.on_event(RunStarted("r1", "daily", 9))
    progress.on_event(RunProgressed("r1", 1, 1, 0, 60.0))
    progress.on_event(TaskPrinted("r1", "load[0]", "stdout", "hello\n"))
    progress.on_event(RunFinished("r1", "succeeded", REPORT))


def test_no_bar_is_drawn_for_a_moment() -> None:
    screen = Screen("auto", Terminal())
    screen.advance(0.1, 0.29)
    assert screen.err.getvalue() == ""


def test_a_bar_is_drawn_on_a_terminal_and_is_gone_at_the_end() -> None:
    screen = Screen("auto", Terminal())
    screen.advance(0.3)
    assert "daily" in screen.err.getvalue()
    assert "4/9 tasks, 2 workers, 0.30 s" in visible(screen.err.getvalue())
    screen.finish()
    # ESC[2K erases the row, and the cursor is shown again before the report is written.
    _, _, after = screen.err.getvalue().rpartition("4/9 tasks")
    assert "\x1b[2K" in after
    assert "\x1b[?25h" in after
    assert after.endswith(REPORT_LINE)


def test_what_tasks_print_goes_above_the_bar_unwrapped_and_unstyled() -> None:
    screen = Screen("auto", Terminal())
    screen.progress = Progress("auto", stdout=screen.err, stderr=screen.err, environ={})
    screen.tell(RunStarted("r1", "daily", 9))
    screen.advance(0.5)
    screen.tell(TaskPrinted("r1", "load[0]", "stdout", "x" * 300 + " [bold]\n"))
    screen.finish()
    assert "[load[0]] " + "x" * 300 + " [bold]\n" in screen.err.getvalue()


def test_standard_output_in_a_pipe_stays_clean_under_a_bar() -> None:
    screen = Screen("auto", Terminal())
    screen.advance(0.5)
    screen.tell(TaskPrinted("r1", "load[0]", "stdout", "hello\n"))
    screen.finish()
    assert screen.out.getvalue() == "[load[0]] hello\n"


def test_two_runs_share_one_bar() -> None:
    screen = Screen("auto", Terminal())
    screen.tell(RunStarted("r2", "nightly", 5))
    screen.advance(0.5)
    screen.tell(RunProgressed("r2", 1, 1, 0, 0.5))
    screen.finish()
    assert "nightly" in screen.err.getvalue()
    screen.tell(RunProgressed("r2", 2, 1, 0, 1.5))
    assert "2/5 tasks" in visible(screen.err.getvalue())
    screen.tell(RunFinished("r2", "succeeded", REPORT))
    assert screen.err.getvalue().endswith("\x1b[?25h\r" + REPORT_LINE)


@pytest.mark.parametrize("environ", [{"CI": "true"}, {"TERM": "dumb"}])
def test_ci_and_dumb_terminals_get_lines(environ: dict[str, str]) -> None:
    screen = Screen("auto", Terminal(), environ)
    screen.advance(0.5, 2.0)
    screen.finish()
    assert screen.err.getvalue() == "augury: daily: 4/9 tasks, 2 workers, 2.00 s\n" + REPORT_LINE


def test_an_unknown_setting_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_PROGRESS", "loud")
    with pytest.raises(DefinitionError, match="AUGURY_PROGRESS must be one of auto, bar, lines, off, not 'loud'"):
        default_observers()


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


SCRIPT = """
import sys
from augury.observation import RunFinished, RunProgressed, RunReport, RunStarted, TaskPrinted
from augury.observe import default_observers

(progress,) = default_observers()
assert "rich" not in sys.modules
progress.on_event(RunStarted("r1", "daily", 9))
progress.on_event(RunProgressed("r1", 4, 2, 0, 0.5))
progress.on_event(TaskPrinted("r1", "load[3]", "stdout", "from a task\\n"))
print("from the program")
if "die" in sys.argv:
    sys.exit()
report = RunReport(run_id="r1", name="daily", status="failed", tasks=9, ran=4, workers=2, invocations=3,
                   cold_starts=0, makespan_s=75, gb_seconds=1, stored_bytes=0)
progress.on_event(RunFinished("r1", "failed", report))
"""


def run_on(terminal: tuple[int, int], *args: str, stdout: int | None = None) -> tuple[str, str]:
    """What a program shows on a terminal, and what it writes to its standard output if that is a pipe."""
    ours, theirs = terminal
    environ = {name: value for name, value in os.environ.items() if name not in ("CI", "AUGURY_PROGRESS")}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *args],
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        env={**environ, "TERM": "xterm", "COLUMNS": "120"},
        text=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # Linux: the other side was closed
        pass
    piped, _ = process.communicate(timeout=30)
    assert process.returncode == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n"), piped or ""


def test_on_a_real_terminal_the_prints_of_tasks_and_program_stay_and_the_bar_goes(terminal: tuple[int, int]) -> None:
    shown, _ = run_on(terminal)
    assert "4/9 tasks, 2 workers, 0.50 s" in visible(shown)
    assert "[load[3]] from a task\n" in shown
    assert "from the program\n" in shown
    expected = "augury: daily failed: 4 of 9 tasks on 2 workers (3 invocations) in 1 min 15 s, 0 cold starts"
    assert expected in shown.splitlines()[-1]


def test_on_a_real_terminal_a_piped_standard_output_gets_all_that_is_printed(terminal: tuple[int, int]) -> None:
    shown, piped = run_on(terminal, stdout=subprocess.PIPE)
    assert piped == "[load[3]] from a task\nfrom the program\n"
    assert "from" not in shown


def test_a_program_that_dies_under_the_bar_gets_its_cursor_back(terminal: tuple[int, int]) -> None:
    shown, _ = run_on(terminal, "die")
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0, "0.00 s"),
        (9.99, "9.99 s"),
        (9.996, "10.0 s"),
        (59.96, "1 min 00 s"),
        (125, "2 min 05 s"),
        (7265, "2 h 01 min"),
    ],
)
def test_durations_have_the_digits_that_matter(duration_s: float, text: str) -> None:
    assert seconds(duration_s) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (9_949, "9.9 kB"), (64_000_000, "64 MB"), (999_999, "1.0 MB")],
)
def test_sizes_have_the_digits_that_matter(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.0001, "under 0.001"),
        (0.00342, "0.0034"),
        (0.157, "0.16"),
        (1, "1"),
        (3.44, "3.4"),
        (12_345.6, "12,346"),
    ],
)
def test_quantities_have_the_digits_that_matter(number: float, text: str) -> None:
    assert amount(number) == text


def test_nouns_agree_with_their_numbers() -> None:
    assert [count(number, "task") for number in (0, 1, 2, 10_000)] == ["0 tasks", "1 task", "2 tasks", "10,000 tasks"]


def visible(text: str) -> str:
    """The text without the terminal's control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
