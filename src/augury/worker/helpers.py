"""Threads that help a runner, and never run a user's code.

`threading.Thread.start` waits until the thread runs. On a machine whose processors are all busy, as when hundreds of
workers start at once, that is some turns of the scheduler for each thread of each worker: most of what a start takes.
"""

import _thread
from collections.abc import Callable


class HelperThread:
    """A thread that has been started, but perhaps does not run yet. It keeps no process from ending.

    Args:
        work: What it does; handles its own errors.
    """

    __slots__ = ("_over",)

    def __init__(self, work: Callable[[], object]) -> None:
        self._over = _thread.allocate_lock()
        self._over.acquire()
        _thread.start_new_thread(self._run, (work,))

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        finally:
            self._over.release()

    def join(self) -> None:
        """Wait until it has ended."""
        with self._over:
            pass
