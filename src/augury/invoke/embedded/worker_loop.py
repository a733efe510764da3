"""A worker: a forked process that carries out one invocation after another.

Its whole life: enter its control groups, then for each `Run` say `Started`, call the handler, say `Done`. The end
of its socket means that the supervisor is gone or has no more use for it. A handler that raises ends the worker:
who knows in what state it left the process.
"""

import gc
import logging
import math
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Final

from augury.invoke.embedded.cgroups import enter
from augury.invoke.embedded.processes import die_with_parent, limit_data
from augury.invoke.embedded.wire import TO_WORKER, Done, Frames, Raised, Run, Setup, Started, ToWorker, frame
from augury.invoke.gateway import Invocation, InvocationContext
from augury.trust.seal import refused

logger = logging.getLogger(__name__)

Handle = Callable[[Invocation, InvocationContext], bool | None]
"""Carries out an invocation; whether the process must end then."""

_CHUNK_BYTES: Final = 256 * 1024


def become_worker(connection: socket.socket, handle: Handle, parent: int) -> None:
    """Be a worker until the supervisor closes the connection; called in a process that was just forked."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)
    gc.enable()
    messages = _messages(connection)
    setup = next(messages, None)
    if isinstance(setup, Setup):
        _work(connection, messages, setup, handle)


def _work(connection: socket.socket, messages: Iterator[ToWorker], setup: Setup, handle: Handle) -> None:
    started = frame(Started())
    refusals = refused()
    try:
        enter(setup.groups)
        if setup.data_limit_mb:
            limit_data(setup.data_limit_mb)
        for message in messages:
            if isinstance(message, Run):
                connection.sendall(started)
                spent = bool(handle(message.invocation, _context(setup, message)))
                _flush()
                before, refusals = refusals, refused()
                connection.sendall(frame(Done(refusals - before, spent)))
    except BaseException:  # a handler may raise anything, SystemExit included
        logger.exception("a worker fails")
        connection.sendall(frame(Raised(traceback.format_exc(limit=-_FRAMES_TOLD))))
        raise


_FRAMES_TOLD: Final = 20


def _messages(connection: socket.socket) -> Iterator[ToWorker]:
    frames = Frames()
    while data := _received(connection):
        yield from frames.feed(data, TO_WORKER)


def _received(connection: socket.socket) -> bytes:
    """What the supervisor says next; nothing if it is gone, however it went."""
    try:
        return connection.recv(_CHUNK_BYTES)
    except ConnectionError:
        return b""


def _context(setup: Setup, run: Run) -> InvocationContext:
    return InvocationContext(
        cold=run.cold,
        received_s=run.received_s,
        granted_s=run.granted_s,
        storage=setup.storage,
        gateway_url=setup.gateway_url,
        token=setup.token,
        emulation=setup.emulation,
        memory_group=setup.memory_group,
        data_limit_mb=setup.data_limit_mb,
        black_box=setup.black_box,
        deadline_s=run.deadline_s or math.inf,
        keys=setup.keys,
    )


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
