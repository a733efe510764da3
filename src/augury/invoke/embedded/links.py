"""The supervisor's ends of its sockets: to each worker, and to the pre-loaded parent.

Sockets are non-blocking and watched by the event loop directly: a thousand workers are a thousand small objects,
and a message to a worker whose socket has room, which is nearly always, is one system call.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from augury.errors import PlatformError
from augury.invoke.embedded.wire import (
    FORK,
    FROM_PARENT,
    FROM_WORKER,
    KILL,
    REQUEST,
    Frames,
    FromParent,
    FromWorker,
    frame,
)

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 256 * 1024
_AGAIN_S: Final = 0.05
"""How long to wait before the system is asked again for what it had no room for."""


class WorkerLink:
    """The supervisor's end of one worker's socket.

    Args:
        connection: The socket.
        on_message: Called with each message of the worker.
    """

    def __init__(self, connection: socket.socket, on_message: Callable[[FromWorker], None]) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._on_message = on_message
        self._frames = Frames()
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self.drain)

    def send(self, message: object) -> None:
        """Send a message; if the worker is gone, its exit will tell."""
        data = frame(message)
        if self._connection.fileno() < 0:
            return
        if not self._unsent:
            data = data[self._try_send(data) :]
            if data:
                self._loop.add_writer(self._connection, self._send_rest)
        self._unsent += data

    def drain(self) -> None:
        """Read what the worker has said."""
        if self._connection.fileno() < 0:
            return
        try:
            while data := self._connection.recv(_CHUNK_BYTES):
                for message in self._frames.feed(data, FROM_WORKER):
                    self._on_message(message)
                if len(data) < _CHUNK_BYTES or self._connection.fileno() < 0:
                    return
        except BlockingIOError:
            return
        except PlatformError as error:
            logger.error("a worker is given up: %s", error)  # noqa: TRY400 - where it was noticed does not matter
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        """Hang up; a worker that waits for its next invocation then ends."""
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()

    def _send_rest(self) -> None:
        del self._unsent[: self._try_send(self._unsent)]
        if not self._unsent:
            self._loop.remove_writer(self._connection)

    def _try_send(self, data: bytes | bytearray) -> int:
        """How many bytes went out; a worker that is gone takes all of them."""
        try:
            return self._connection.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)


class ZygoteLink:
    """The supervisor's end of the control socket.

    Args:
        control: The socket.
        on_message: Called with each report.
        on_end: Called once when the pre-loaded parent is gone.
    """

    def __init__(
        self, control: socket.socket, on_message: Callable[[FromParent], None], on_end: Callable[[], None]
    ) -> None:
        control.setblocking(False)
        self._control = control
        self._on_message = on_message
        self._on_end = on_end
        self._frames = Frames()
        self._unsent: deque[tuple[bytes, socket.socket | None]] = deque()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._read)

    def fork(self, worker: int, connection: socket.socket) -> None:
        """Ask for a worker at the other end of this socket, which is given away."""
        self._request(REQUEST.pack(FORK, worker), connection)

    def kill(self, worker: int) -> None:
        """Ask for the death of a worker."""
        self._request(REQUEST.pack(KILL, worker), None)

    def close(self) -> None:
        """Hang up; the pre-loaded parent then ends, with all workers."""
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._loop.remove_writer(self._control)
            self._control.close()
        for _, connection in self._unsent:
            if connection is not None:
                connection.close()
        self._unsent.clear()

    def _request(self, request: bytes, connection: socket.socket | None) -> None:
        if self._control.fileno() < 0:
            if connection is not None:
                connection.close()
            return
        self._unsent.append((request, connection))
        if len(self._unsent) == 1:
            self._send()

    def _send(self) -> None:
        """Send requests until the socket is full; many may be under way before the first is answered."""
        if self._control.fileno() < 0:
            return
        while self._unsent:
            request, connection = self._unsent[0]
            try:
                socket.send_fds(self._control, [request], [] if connection is None else [connection.fileno()])
            except BlockingIOError:
                self._loop.add_writer(self._control, self._send)
                return
            except ConnectionError:
                return  # the parent is gone, which the reader notices
            except OSError as error:
                # Not the socket is full, so that it would tell when it is not: too many descriptors are under way.
                logger.warning("a request to the pre-loaded parent has to wait: %s", error.strerror)
                self._loop.remove_writer(self._control)
                self._loop.call_later(_AGAIN_S, self._send)
                return
            self._unsent.popleft()
            if connection is not None:
                connection.close()
        self._loop.remove_writer(self._control)

    def _read(self) -> None:
        data = b""
        with suppress(ConnectionError):
            try:
                data = self._control.recv(_CHUNK_BYTES)
            except BlockingIOError:
                return
        for message in self._frames.feed(data, FROM_PARENT):
            self._on_message(message)
        if not data:
            self.close()
            self._on_end()
