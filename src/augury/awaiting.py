"""The asynchronous edge: waiting for runs in an event loop.

Loaded by name when something is awaited, and then asyncio is there already: a program that awaits
nothing does not pay for importing it.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from augury.errors import AuguryError


async def wait_for_value(value: "Future[Any]", *, cancel: Callable[[], object] | None, take: Callable[[], None]) -> Any:
    """Wait for a value that another thread provides; whoever is cancelled here cancels the run, if it is theirs.

    Args:
        value: Will hold it.
        cancel: Ends the run; may block. None: the run is that of another client.
        take: Says that the user has the value; must not block.
    """
    try:
        found = await asyncio.wrap_future(value)
    except asyncio.CancelledError:  # also if the value has just come: nobody gets it here
        if cancel is not None and not value.done():
            with suppress(AuguryError):
                await asyncio.to_thread(cancel)
        raise
    except Exception:
        take()
        raise
    take()  # who is cancelled gets nothing: between the value and its return nobody can be
    return found


async def submit(task: Any) -> Any:
    """Start the workflow behind a task and wait for its value, as `.compute()` does; starting may take a while, too."""
    starting = _Starting(task)
    try:
        run = await asyncio.to_thread(starting.start)
    except asyncio.CancelledError:
        starting.abandon()
        raise
    return await run


class _Starting:
    """A run that is being started in another thread. If nobody waits for it any more, it is cancelled."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self._lock = threading.Lock()
        self._run: Any = None
        self._abandoned = False

    def start(self) -> Any:
        run = self._task.submit(detach=False)
        with self._lock:
            self._run = run
            if self._abandoned:
                run.cancel()
        return run

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            if self._run is not None:
                threading.Thread(target=self._run.cancel, name="augury-cancel").start()


async def do_in_thread(action: Callable[[], None]) -> None:
    """Do something that blocks, beside the event loop."""
    await asyncio.to_thread(action)
