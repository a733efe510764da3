"""What gateways and supervisors read: HTTP, invocations, requests to pre-warm, frames of workers."""

import asyncio
import struct
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import pairwise
from random import Random
from typing import Any, cast

import msgspec
import pytest

from augury.config import Resources
from augury.errors import PlatformError
from augury.invoke.embedded.service import Service
from augury.invoke.embedded.wire import (
    FROM_PARENT,
    FROM_WORKER,
    TO_WORKER,
    Done,
    Exited,
    Forked,
    Frames,
    Raised,
    Refused,
    Run,
    Started,
    frame,
)
from augury.invoke.gateway import Invocation, Limits
from augury.invoke.http import HttpError, Request, RequestParser, ServerLimits, bearer
from tests.fuzz.mutations import CASES, MSGPACK, damage, damaged, try_all, try_parts

INVOCATION = Invocation("r1", "w0", 1, Resources(cpus=2, memory_mb=512), (3, 4), "stamp")
LIMITS = ServerLimits(head_bytes=300, body_bytes=300)


class Played:
    """A supervisor that notes what reaches it."""

    broken = ""

    def __init__(self) -> None:
        self.invoked: list[Invocation] = []
        self.prewarmed: list[tuple[Resources, int]] = []

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        self.invoked += invocations

    def prewarm(self, resources: Resources, count: int) -> None:
        self.prewarmed.append((resources, count))

    def stop(self, run_id: str) -> tuple[int, int]:
        return len(run_id), 0

    async def status_of(self, run_id: str) -> str:
        return "gone"

    def counts(self) -> dict[str, int]:
        return {}


def answer(request: Request) -> tuple[int, Played]:
    """How the service answers, as a status; anything but `HttpError` passes through."""
    played = Played()
    service = Service(cast("Any", played), Limits(concurrency=2))
    try:
        response = asyncio.run(service.answer(request))
    except HttpError as error:
        response = error.response
    assert response.body or response.status < HTTPStatus.BAD_REQUEST
    return response.status, played


def reads_invocations(body: bytes) -> bool:
    status, played = answer(Request(method="POST", path="/invoke", body=body))
    assert status in (HTTPStatus.ACCEPTED, HTTPStatus.BAD_REQUEST)
    assert status == HTTPStatus.ACCEPTED or not played.invoked
    for invocation in played.invoked:
        assert invocation.resources.cpus > 0
        assert invocation.resources.memory_mb >= 1
    return status == HTTPStatus.ACCEPTED


def test_invocations() -> None:
    wanted = [INVOCATION, INVOCATION]
    try_all(reads_invocations, damaged(msgspec.msgpack.encode(wanted)), least=0.15)
    try_parts(reads_invocations, MSGPACK, wanted, least=0.1)


def test_requests_to_prewarm() -> None:
    def reads(body: bytes) -> bool:
        status, played = answer(Request(method="POST", path="/prewarm", body=body))
        assert status in (HTTPStatus.ACCEPTED, HTTPStatus.BAD_REQUEST)
        assert (status == HTTPStatus.ACCEPTED) == bool(played.prewarmed)
        assert all(resources.memory_mb >= 1 for resources, _ in played.prewarmed)
        return bool(played.prewarmed)

    wanted = {"resources": Resources(), "count": 3}
    try_all(reads, damaged(msgspec.msgpack.encode(wanted)), least=0.15)
    try_parts(reads, MSGPACK, wanted, least=0.06)


def test_routes() -> None:
    def reads(path: bytes) -> bool:
        answers = [answer(Request(method=method, path=path.decode("latin-1")))[0] for method in ("GET", "POST", "X")]
        refused = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
        assert {HTTPStatus.OK, *refused}.issuperset(answers)
        return HTTPStatus.OK in answers

    try_all(reads, damaged(b"/stop/r1", b"/runs/r1", b"/limits", b"/status", b"/%ff"), least=0.06)


REQUESTS = [
    b"POST /invoke HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 5\r\n\r\nhello",
    b"GET /limits HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n",
    b"GET / HTTP/1.0\r\nAuthorization: Bearer secret\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.1\r\n\r\n",
]


def in_pieces() -> Iterator[list[bytes]]:
    """Damaged requests, cut in up to three places."""
    for seed in range(CASES):
        rng = Random(seed)
        data = damage(rng, *REQUESTS)
        cuts = [rng.randint(0, len(data)) for _ in range(rng.randint(0, 3))]
        yield [data[start:end] for start, end in pairwise(sorted({0, len(data), *cuts}))]


def test_requests_in_any_pieces() -> None:
    def reads(pieces: list[bytes]) -> bool:
        parser, passed, refusal = RequestParser(LIMITS, bearer("secret")), 0, None
        try:
            for piece in pieces:
                parser.feed(piece)
                while (request := parser.next_request()) is not None:
                    assert request.headers["authorization"] == "Bearer secret"
                    assert len(request.body) <= LIMITS.body_bytes
                    passed += 1
        except HttpError as error:
            refusal = error.response
        if refusal is not None:
            assert 400 <= refusal.status < 600
            assert refusal.encode(keep_alive=False).startswith(b"HTTP/1.1 ")
        return passed > 0

    try_all(reads, in_pieces(), least=0.06)


MESSAGES: dict[msgspec.msgpack.Decoder[Any], list[Any]] = {
    FROM_WORKER: [Started(), Done(), Raised("it broke")],
    FROM_PARENT: [Forked(1, 2), Exited(1, 9, 17), Refused(3, "no")],
    TO_WORKER: [Run(INVOCATION, True, 1.0, 2.0)],
}


@pytest.mark.parametrize("decoder", MESSAGES, ids=["from workers", "from parents", "to workers"])
def test_frames(decoder: msgspec.msgpack.Decoder[Any]) -> None:
    def reads(data: bytes) -> bool:
        try:
            messages = list(Frames().feed(data, decoder))
        except PlatformError:
            return False
        assert all(isinstance(message, msgspec.Struct) for message in messages)
        return bool(messages)

    def framed(body: bytes) -> bytes:
        return struct.pack("!I", len(body)) + body

    messages = MESSAGES[decoder]
    try_all(reads, damaged(b"".join(map(frame, messages))), least=0.06)
    try_parts(lambda body: reads(framed(body)), MSGPACK, *messages, least=0.06)


@pytest.mark.parametrize("length", [2**26 + 1, 2**31, 2**32 - 1])
def test_nobody_waits_for_a_frame_that_is_longer_than_any(length: int) -> None:
    with pytest.raises(PlatformError, match=f"a message of {length} bytes is longer than any"):
        list(Frames().feed(struct.pack("!I", length) + b"x", FROM_WORKER))
