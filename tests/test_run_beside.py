"""What is done in another thread is done, whether or not there can be one."""

import threading

import pytest

from augury.run.beside import Standby, do_beside

PATIENCE_S = 30.0


def test_it_is_done_in_a_thread_of_its_own() -> None:
    names: list[str] = []
    do_beside(lambda: names.append(threading.current_thread().name), "augury-test").result(PATIENCE_S)
    assert names == ["augury-test"]


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")


def test_it_is_done_here_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", refuse)
    names: list[str] = []
    assert do_beside(lambda: names.append(threading.current_thread().name), "augury-test").done()
    assert names == [threading.current_thread().name]


def test_a_thread_that_stands_by_does_it_where_no_other_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    standby = Standby()
    standby.prepare()
    names: list[str] = []
    standby.do(lambda: names.append(threading.current_thread().name), "augury-test").result(PATIENCE_S)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(2):
        standby.do(lambda: names.append(threading.current_thread().name), "augury-test").result(PATIENCE_S)
    assert names == ["augury-test", "augury-standby", "augury-standby"]


def test_without_any_thread_it_is_left_out_rather_than_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", refuse)
    standby = Standby()
    standby.prepare()
    done: list[str] = []
    assert standby.do(lambda: done.append("here"), "augury-test").done()
    assert done == []
