"""A task that takes much longer than its kind is tried by a second worker too."""

import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from augury import Client, Embedded, task
from augury.run.late import late_after


@task
def work(number: int, hangs: str) -> int:
    """Take a moment; one of them for ever, unless another one did so before."""
    if number == 3 and hangs:
        try:
            Path(hangs).unlink()
        except FileNotFoundError:
            return number
        threading.Event().wait()
    time.sleep(0.05)
    return number


@task
def add(numbers: list[int]) -> int:
    return sum(numbers)


@pytest.mark.parametrize("slots", [6, 8], ids=["from the first", "once others have ended"])
def test_a_task_that_hangs_is_done_by_a_second_worker_if_there_is_room(slots: int, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    with Client(platform=Embedded(slots=slots), observers=[], history=tmp_path / "history") as client:
        usual = add([work(number, "") for number in range(8)])
        for _ in range(2):
            assert client.compute(usual, name="late") == 28
        assert late_after(client.plan(usual, name="late"), 3.0)
        hangs.touch()
        run = client.submit(add([work(number, str(hangs)) for number in range(8)]), name="late")
        assert run.result(timeout=60) == 28
        assert not hangs.exists()


@task
def numbers() -> list[int]:
    return [1, 2, 3]


@task
def extend(values: list[int], hangs: str) -> int:
    """Change what it is given, and take a moment; or much longer, unless another one did so before."""
    values.append(4)
    with suppress(FileNotFoundError):
        if hangs:
            Path(hangs).unlink()
            time.sleep(3.0)
    time.sleep(0.05)
    return len(values)


def test_a_second_worker_is_not_given_what_the_first_may_have_changed(tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    with Client(platform=Embedded(slots=8), observers=[], history=tmp_path / "history") as client:
        usual = [extend(numbers(), "") for _ in range(6)]
        for _ in range(2):
            client.compute(usual, name="late")
        assert late_after(client.plan(usual, name="late"), 3.0)
        hangs.touch()
        run = client.submit([extend(numbers(), str(hangs)) for _ in range(6)], name="late")
        assert run.result(timeout=60) == [4] * 6
        assert not hangs.exists()


def test_without_evidence_nothing_is_late(tmp_path: Path) -> None:
    with Client(platform=Embedded(slots=2), observers=[], history=tmp_path) as client:
        assert late_after(client.plan(work(1, "")), 3.0) == []
