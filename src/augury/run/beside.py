"""Doing something beside: in a thread of its own, if there can be one."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue


def do_beside(action: Callable[[], None], name: str) -> "Future[None]":
    """Do something that may take long, in another thread; where none can be started, here and now.

    None can be where a process has as many as it may have, or, with some versions of Python, when it ends.

    Args:
        action: What to do; whatever goes wrong is its own affair.
        name: What the thread is called.

    Returns:
        Done when that is.
    """
    done, act = _promised(action)
    if not _starts(act, name):
        act()
    return done


class Standby:
    """A thread that is there before it is needed, for what must be done when no other one can be started.

    A fork needs one of its own.
    """

    def __init__(self) -> None:
        self._actions: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_ready = False

    def prepare(self) -> None:
        """Have the thread, from now on."""
        with self._lock:
            self._is_ready = self._is_ready or _starts(self._work, "augury-standby")

    def do(self, action: Callable[[], None], name: str) -> "Future[None]":
        """Do something in a thread of its own or, where none can be started, in this one, after what it has to do.

        Never here: whoever calls can wait for no longer than they want to. If there is no thread at all, it is left
        out.

        Args:
            action: What to do; whatever goes wrong is its own affair.
            name: What the thread is called.

        Returns:
            Done when that is, or when it is left out.
        """
        done, act = _promised(action)
        if not _starts(act, name):
            if self._is_ready:
                self._actions.put(act)
            else:
                done.set_result(None)
        return done

    def _work(self) -> None:
        while True:
            self._actions.get()()


def _promised(action: Callable[[], None]) -> "tuple[Future[None], Callable[[], None]]":
    """What will be done when an action is, and the action that sees to that."""
    done: Future[None] = Future()

    def act() -> None:
        try:
            action()
        finally:
            done.set_result(None)

    return done, act


def _starts(act: Callable[[], None], name: str) -> bool:
    """Start a thread; whether there can be one."""
    try:
        threading.Thread(target=act, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True
