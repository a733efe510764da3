"""What is done in another thread is done, whether or not there can be one."""

import threading

import pytest

from augury.run.beside import do_beside

PATIENCE_S = 30.0


def test_it_is_done_in_a_thread_of_its_own() -> None:
    names: list[str] = []
    do_beside(lambda: names.append(threading.current_thread().name), "augury-test").result(PATIENCE_S)
    assert names == ["augury-test"]


def test_it_is_done_here_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    names: list[str] = []
    assert do_beside(lambda: names.append(threading.current_thread().name), "augury-test").done()
    assert names == [threading.current_thread().name]
