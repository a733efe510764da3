"""Threads that help a runner, and never run a user's code.

`threading.Thread.start` waits until the thread runs. On a machine whose processors are all busy, as when hundreds of
workers start at once, that is some turns of the scheduler for each thread of each worker: most of what a start takes.

Other threads than the main one have to wait all the same. Until a thread runs, CPython has it under the number of the
thread that starts it, and an exception that is to interrupt that one (`augury.worker.interrupt`) would be raised in the
wrong thread. The main thread is interrupted by signals.
"""

import _thread
import threading
from collections.abc import Callable


class HelperThread:
    """A thread that has been started, but perhaps does not run yet. It keeps no process from ending.

    Args:
        work: What it does; handles its own errors.
    """

    __slots__ = ("_over",)

    def __init__(self, work: Callable[[], object]) -> None:
        self._over = _locked()
        runs = None if threading.get_ident() == threading.main_thread().ident else _locked()
        _thread.start_new_thread(self._run, (work, runs))
        if runs is not None:
            runs.acquire()

    def _run(self, work: Callable[[], object], runs: _thread.LockType | None) -> None:
        if runs is not None:
            runs.release()
        try:
            work()
        finally:
            self._over.release()

    def join(self) -> None:
        """Wait until it has ended."""
        with self._over:
            pass


def _locked() -> _thread.LockType:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock
