"""Something is to happen in a moment, unless that is called off: at no cost if it always is.

Most invocations are over long before they need a thread that keeps time. To start one for each, and to wait for its
end, takes about as long as all else that one with a short task does. So one thread looks every now and then whether
something is due, for one invocation after another, and ends when it was not asked for a while.
"""

import os
import threading
import time
from collections.abc import Callable

from augury.worker.helpers import HelperThread

TICK_S = 0.02
_PATIENCE = 5
"""After how many looks at nothing it ends."""


class Waker:
    """Calls one thing at a time, a little later than asked.

    Args:
        clock: Tells the time in seconds.
        sleep: Waits for so many seconds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._action: Callable[[], object] | None = None
        self._due_s = 0.0
        self._up_in = 0  # the process that has the thread

    def wake(self, after_s: float, action: Callable[[], object]) -> None:
        """Do something in so many seconds, in another thread; instead of what was to be done before."""
        with self._lock:
            self._action, self._due_s = action, self._clock() + after_s
            if self._up_in != os.getpid():  # threads stay behind when a process forks
                HelperThread(self._run)
                self._up_in = os.getpid()

    def call_off(self) -> None:
        """Do nothing; what has begun goes on."""
        with self._lock:
            self._action = None

    def _run(self) -> None:
        in_vain = 0
        while True:
            self._sleep(TICK_S)
            with self._lock:
                action = self._action
                in_vain = in_vain + 1 if action is None else 0
                if in_vain == _PATIENCE:
                    self._up_in = 0
                    return
                if action is None or self._clock() < self._due_s:
                    continue
                self._action, self._up_in = None, 0
            action()
            return
