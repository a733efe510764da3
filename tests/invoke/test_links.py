"""The supervisor's ends of its sockets."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable

import pytest

from augury.invoke.embedded import links
from augury.invoke.embedded.links import ZygoteLink
from augury.invoke.embedded.wire import KILL, REQUEST
from tests.invoke.stage import PATIENCE_S


def with_link(act: Callable[[ZygoteLink], None]) -> bytes:
    """What comes out of a link once the loop has run for a while."""

    async def main() -> bytes:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        link = ZygoteLink(ours, lambda _: None, lambda: None)
        with theirs:
            act(link)
            data = b""
            while len(data) < 2 * REQUEST.size and (more := await asyncio.get_running_loop().sock_recv(theirs, 4096)):
                data += more
            link.close()
        return data

    return asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


@pytest.fixture
def _crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first time that something is sent, the system has no room for it."""
    refusals = [OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))]
    send = socket.send_fds

    def send_fds(connection: socket.socket, data: list[bytes], descriptors: list[int]) -> int:
        if refusals:
            raise refusals.pop()
        return send(connection, data, descriptors)

    monkeypatch.setattr(links, "_AGAIN_S", 0.0)
    monkeypatch.setattr(socket, "send_fds", send_fds)


@pytest.mark.usefixtures("_crowded")
def test_a_request_that_the_system_has_no_room_for_is_sent_later_and_those_behind_it_too() -> None:
    def act(link: ZygoteLink) -> None:
        link.kill(1)
        link.kill(2)

    assert with_link(act) == REQUEST.pack(KILL, 1) + REQUEST.pack(KILL, 2)


@pytest.mark.usefixtures("_crowded")
def test_it_is_not_sent_once_the_link_is_closed() -> None:
    def act(link: ZygoteLink) -> None:
        link.kill(1)
        link.close()

    assert with_link(act) == b""
