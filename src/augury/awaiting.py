"""The asynchronous edge: waiting for runs in an event loop.

Loaded by name when something is awaited, and then asyncio is there already: a program that awaits
nothing does not pay for importing it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from augury.errors import AuguryError


async def wait_for_value(value: "Future[Any]", cancel: Callable[[], object]) -> Any:
    """Wait for a value that another thread provides; whoever is cancelled here cancels the run."""
    try:
        return await asyncio.wrap_future(value)
    except asyncio.CancelledError:
        if not value.done():
            with suppress(AuguryError):
                await asyncio.to_thread(cancel)
        raise


async def submit(task: Any) -> Any:
    """Start the workflow behind a task and wait for its value; starting may take a while, too."""
    return await (await asyncio.to_thread(task.submit))


async def do_in_thread(action: Callable[[], None]) -> None:
    """Do something that blocks, beside the event loop."""
    await asyncio.to_thread(action)
