"""Doing something beside: in a thread of its own, if there can be one."""

import threading
from collections.abc import Callable
from concurrent.futures import Future


def do_beside(action: Callable[[], None], name: str) -> "Future[None]":
    """Do something that may take long, in another thread; where none can be started, here and now.

    None can be where a process has as many as it may have, or, with some versions of Python, when it ends.

    Args:
        action: What to do; whatever goes wrong is its own affair.
        name: What the thread is called.

    Returns:
        Done when that is.
    """
    done: Future[None] = Future()

    def act() -> None:
        try:
            action()
        finally:
            done.set_result(None)

    try:
        threading.Thread(target=act, name=name, daemon=True).start()
    except RuntimeError:
        act()
    return done
