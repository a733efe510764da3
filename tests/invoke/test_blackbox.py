"""What is found in the black box of a worker, and what is not."""

import math
import os
import signal
from pathlib import Path

import pytest

from augury.invoke.blackbox import BlackBox, Found, RunningTask, read_black_box


def test_a_box_tells_which_tasks_run_and_since_when(tmp_path: Path) -> None:
    box = BlackBox(str(tmp_path / "box"), slots=3)
    box.line(0).begin(7, 20.5, None)
    box.line(2).begin(0, 10.0, 3.0)
    first, second = read_black_box(str(tmp_path / "box")).tasks
    assert (first.task, first.since_s, first.timeout_s) == (0, 10.0, 3.0)
    assert (second.task, second.since_s, second.timeout_s) == (7, 20.5, 0.0)
    assert math.isnan(first.input_bytes)


def test_a_task_that_has_ended_does_not_run(tmp_path: Path) -> None:
    line = BlackBox(str(tmp_path / "box"), slots=1).line(0)
    line.begin(7, 1.0, 5.0)
    line.end()
    assert read_black_box(str(tmp_path / "box")) == Found()


def test_the_facts_of_one_task_are_not_told_of_the_next(tmp_path: Path) -> None:
    line = BlackBox(str(tmp_path / "box"), slots=1).line(0)
    line.begin(1, 1.0, 5.0)
    line.measured(100.0)
    assert read_black_box(str(tmp_path / "box")).tasks == (RunningTask(1, 1.0, 5.0, 100.0),)
    line.end()
    line.begin(2, 2.0, None)
    (found,) = read_black_box(str(tmp_path / "box")).tasks
    assert (found.task, found.timeout_s) == (2, 0.0)
    assert math.isnan(found.input_bytes)


def test_last_words_are_kept_until_the_next_invocation(tmp_path: Path) -> None:
    box = BlackBox(str(tmp_path / "box"), slots=1)
    box.line(0).begin(1, 1.0, None)
    box.say("no memory – for größe")
    assert read_black_box(str(tmp_path / "box")).words == "no memory – for größe"
    box.say("x" * 5000)
    assert read_black_box(str(tmp_path / "box")).words == "x" * 1024
    box.clear()
    assert read_black_box(str(tmp_path / "box")) == Found()


def test_what_was_written_survives_the_death_of_the_process(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        BlackBox(str(tmp_path / "box"), slots=1).line(0).begin(41, 1.0, None)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert [one.task for one in read_black_box(str(tmp_path / "box")).tasks] == [41]


@pytest.mark.parametrize("data", [b"", b"short", os.urandom(4096), bytes([0xFF]) * 2000, b"\0" * 1028])
def test_a_file_that_makes_no_sense_tells_something_or_nothing_but_does_no_harm(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "box").write_bytes(data)
    assert isinstance(read_black_box(str(tmp_path / "box")), Found)


def test_no_file_tells_nothing(tmp_path: Path) -> None:
    assert read_black_box(str(tmp_path / "none")) == Found()


@pytest.mark.parametrize("path", ["", "/nowhere/at/all"])
def test_without_a_file_tasks_are_noted_nowhere(path: str) -> None:
    box = BlackBox(path, slots=1)
    box.line(0).begin(1, 1.0, None)
    box.say("never heard")
    assert read_black_box(path) == Found()


def test_a_task_that_runs_longer_than_it_may_is_overdue() -> None:
    found = Found((RunningTask(3, 10.0, 0.0), RunningTask(4, 20.0, 5.0), RunningTask(5, 21.0, 100.0)))
    assert found.overdue(26.9, 2.0) is None
    assert found.overdue(27.1, 2.0) == RunningTask(4, 20.0, 5.0)


def test_a_task_that_has_returned_has_no_limit_any_more(tmp_path: Path) -> None:
    path = str(tmp_path / "box")
    line = BlackBox(path, 1).line(0)
    line.begin(3, 10.0, 5.0)
    assert read_black_box(path).overdue(99.0, 2.0) is not None
    line.lift_limit()
    assert read_black_box(path).overdue(99.0, 2.0) is None
    line.begin(4, 20.0, 5.0)
    assert read_black_box(path).overdue(99.0, 2.0) is not None
