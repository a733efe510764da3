"""Threads that help a runner."""

import ctypes
import threading

from augury.worker.helpers import HelperThread


class Raised(Exception):
    """Raised in a thread by another one."""


def test_it_does_its_work_and_can_be_waited_for() -> None:
    done: list[int] = []
    helper = HelperThread(lambda: done.append(threading.get_ident()))
    helper.join()
    helper.join()
    assert len(done) == 1
    assert done[0] != threading.get_ident()


def test_an_exception_for_a_thread_does_not_go_to_one_that_it_starts() -> None:
    caught: list[str] = []
    go_on = threading.Event()

    def help_out() -> None:
        try:
            go_on.wait(10)
        except Raised:
            caught.append("the helper")

    def start_and_be_interrupted() -> None:
        try:
            for _ in range(50):
                HelperThread(help_out)
                me = ctypes.c_ulong(threading.get_ident())
                try:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(me, ctypes.py_object(Raised))
                    while not go_on.wait(0.001):
                        pass
                except Raised:
                    caught.append("the starter")
        finally:
            go_on.set()

    starter = threading.Thread(target=start_and_be_interrupted, daemon=True)
    starter.start()
    starter.join(10)
    go_on.set()
    starter.join(10)
    assert caught == ["the starter"] * 50
