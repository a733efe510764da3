"""What gateways and supervisors read: HTTP, invocations, requests to pre-warm, frames of workers."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import pairwise
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

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
from tests.fuzz.mutations import damaged, fuzzed, misfilled

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


@fuzzed
@given(damaged([msgspec.msgpack.encode([INVOCATION, INVOCATION]), msgspec.msgpack.encode([])]))
def test_invocations(body: bytes) -> None:
    status, played = answer(Request(method="POST", path="/invoke", body=body))
    assert status in (HTTPStatus.ACCEPTED, HTTPStatus.BAD_REQUEST)
    assert status == HTTPStatus.ACCEPTED or not played.invoked
    for invocation in played.invoked:
        assert invocation.resources.cpus > 0
        assert invocation.resources.memory_mb >= 1


@fuzzed
@given(misfilled([[INVOCATION, INVOCATION]]))
def test_invocations_that_are_filled_in_wrongly(value: Any) -> None:
    test_invocations.hypothesis.inner_test(msgspec.msgpack.encode(value))  # type: ignore[attr-defined]


@fuzzed
@given(misfilled([{"resources": Resources(), "count": 3}]))
def test_requests_to_prewarm_that_are_filled_in_wrongly(value: Any) -> None:
    test_requests_to_prewarm.hypothesis.inner_test(msgspec.msgpack.encode(value))  # type: ignore[attr-defined]


@fuzzed
@given(damaged([msgspec.msgpack.encode({"resources": Resources(), "count": 3})]))
def test_requests_to_prewarm(body: bytes) -> None:
    status, played = answer(Request(method="POST", path="/prewarm", body=body))
    assert status in (HTTPStatus.ACCEPTED, HTTPStatus.BAD_REQUEST)
    assert (status == HTTPStatus.ACCEPTED) == bool(played.prewarmed)


@fuzzed
@given(
    st.sampled_from(["GET", "POST", "PUT", "X"]), damaged([b"/stop/r1", b"/runs/r1", b"/limits", b"/status", b"/%ff"])
)
def test_routes(method: str, path: bytes) -> None:
    status, _ = answer(Request(method=method, path=path.decode("latin-1")))
    assert status in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


REQUESTS = [
    b"POST /invoke HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 5\r\n\r\nhello",
    b"GET /limits HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n",
    b"GET / HTTP/1.0\r\nAuthorization: Bearer secret\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.1\r\n\r\n",
]


@fuzzed
@given(damaged(REQUESTS), st.lists(st.integers(0, 200), max_size=3))
def test_requests_in_any_pieces(data: bytes, cuts: list[int]) -> None:
    parser = RequestParser(LIMITS, bearer("secret"))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    refusal = None
    try:
        for start, end in pairwise(edges):
            parser.feed(data[start:end])
            while (request := parser.next_request()) is not None:
                assert request.headers["authorization"] == "Bearer secret"
                assert len(request.body) <= LIMITS.body_bytes
    except HttpError as error:
        refusal = error.response
    if refusal is not None:
        assert 400 <= refusal.status < 600
        assert refusal.encode(keep_alive=False).startswith(b"HTTP/1.1 ")


FRAMES = {
    FROM_WORKER: [frame(Started()) + frame(Done()), frame(Raised("it broke"))],
    FROM_PARENT: [frame(Forked(1, 2)) + frame(Exited(1, 9, 17)), frame(Refused(3, "no"))],
    TO_WORKER: [frame(Run(INVOCATION, True, 1.0, 2.0))],
}


@fuzzed
@given(st.sampled_from(sorted(FRAMES, key=str)), st.data())
def test_frames(decoder: msgspec.msgpack.Decoder[Any], data: st.DataObject) -> None:
    received = data.draw(damaged(FRAMES[decoder]))
    with suppress(PlatformError):
        for message in Frames().feed(received, decoder):
            assert isinstance(message, msgspec.Struct)
