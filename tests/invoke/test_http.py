"""The HTTP server: what it takes, what it refuses, and that nothing malformed harms it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.invoke.http import HttpError, HttpServer, Request, RequestParser, Response, ServerLimits, bearer, parse_head

LIMITS = ServerLimits(head_bytes=512, body_bytes=1000)
_Result = TypeVar("_Result")


def parse(*pieces: bytes, limits: ServerLimits = LIMITS) -> list[Request]:
    """What a parser makes of bytes that come in pieces."""
    parser = RequestParser(limits)
    found: list[Request] = []
    for piece in pieces:
        parser.feed(piece)
        found.extend(iter(parser.next_request, None))
    return found


def refusal(data: bytes) -> int:
    with pytest.raises(HttpError) as caught:
        parse(data)
    return caught.value.response.status


def requests_or_status(data: bytes) -> list[Request] | int:
    """The requests in some bytes, or the status with which they are refused."""
    try:
        return parse(data)
    except HttpError as error:
        return error.response.status


POST = b"POST /invoke?now HTTP/1.1\r\nHost: x\r\nX-Thing:  a b \r\nContent-Length: 5\r\n\r\nhello"


def test_a_request_is_read() -> None:
    (request,) = parse(POST)
    assert (request.method, request.path, request.query, request.body) == ("POST", "/invoke", "now", b"hello")
    assert request.headers["x-thing"] == "a b"
    assert request.keep_alive


@given(cuts=st.sets(st.integers(1, 2 * len(POST) - 1)))
def test_requests_may_come_in_any_pieces(cuts: set[int]) -> None:
    data = POST + POST
    bounds = [0, *sorted(cuts), len(data)]
    assert parse(*(data[a:b] for a, b in pairwise(bounds))) == parse(POST) * 2


def test_empty_lines_before_a_request_do_not_matter() -> None:
    assert parse(b"\r\n\r\n" + POST) == parse(POST)


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [("1.1", "", True), ("1.1", "close", False), ("1.0", "", False), ("1.0", "Keep-Alive", True)],
)
def test_connections_are_kept_as_the_client_wishes(version: str, connection: str, kept: bool) -> None:
    head = f"GET / HTTP/{version}\r\nHost: x\r\nConnection: {connection}"
    assert parse_head(head.encode())[0].keep_alive is kept


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GE(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / SPDY\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nSpace : y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nFolded: a\r\n b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nBad: a\nInjected: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3,3\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 300 + b"\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 600, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 600 + b"\r\n\r\n", 431),
    ],
)
def test_what_is_not_spoken_here_is_refused_by_name(data: bytes, status: int) -> None:
    assert refusal(data) == status


@given(st.binary(max_size=700))
def test_no_bytes_make_the_parser_fail_in_another_way(data: bytes) -> None:
    assert isinstance(requests_or_status(data), list | int)


HEADERS = st.lists(
    st.sampled_from(
        [
            *(b"Host: x", b"Content-Length: 3", b"Content-Length: 0", b"Connection: close", b"Expect: 100-continue"),
            *(b": x", b"Transfer-Encoding: chunked", b"A:\tb", b"\x00", b"A: \xff", b"Authorization: Bearer t"),
        ]
    ),
    max_size=5,
)


@given(
    line=st.sampled_from([b"GET / HTTP/1.1", b"POST /x HTTP/1.1", b"GET / HTTP/1.0", b"PUT * HTTP/1.9", b"X"]),
    headers=HEADERS,
    body=st.binary(max_size=8),
)
def test_nearly_correct_requests_are_read_or_refused(line: bytes, headers: list[bytes], body: bytes) -> None:
    data = b"\r\n".join([line, *headers, b"", body])
    answer = requests_or_status(data)
    if isinstance(answer, int):
        assert answer in (400, 411, 413, 431, 505)
    else:
        assert all(len(request.body) == int(request.headers.get("content-length", "0")) for request in answer)


# Through a socket


async def echo(request: Request) -> Response:
    """Answer with what was asked; some paths misbehave."""
    if request.path == "/broken":
        raise ZeroDivisionError
    if request.path == "/refused":
        raise HttpError(405, "not so", (("Allow", "GET"),))
    return Response(status=200, body=f"{request.method} {request.path} ".encode() + request.body)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[_Result]]


def converse(
    talk: Talk[_Result], handler: Callable[[Request], Awaitable[Response]] = echo, limits: ServerLimits = LIMITS
) -> _Result:
    """Run a conversation with a server that demands the token `secret`."""

    async def main() -> _Result:
        server = HttpServer(handler, limits, bearer("secret"))
        await server.start()
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            return await asyncio.wait_for(talk(reader, writer), 20)
        finally:
            writer.close()
            await server.close()

    return asyncio.run(main())


def request_bytes(path: str = "/", body: bytes = b"", method: str = "POST", extra: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: {len(body)}\r\n"
    return (head + extra + "\r\n").encode() + body


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *fields = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(line.split(" ")[1]), headers, body


def test_a_connection_serves_many_requests() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        bodies = []
        for number in range(3):
            writer.write(request_bytes(f"/{number}", b"x"))
            bodies.append((await read_answer(reader))[2])
        return bodies

    assert converse(talk) == [b"POST /0 x", b"POST /1 x", b"POST /2 x"]


def test_requests_that_come_together_are_answered_in_order() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        for number in range(50):
            writer.write(request_bytes(f"/{number}"))
        return [(await read_answer(reader))[2] for _ in range(50)]

    async def slow_at_first(request: Request) -> Response:
        for _ in range(5 if request.path == "/0" else 0):
            await asyncio.sleep(0)
        return await echo(request)

    assert converse(talk, slow_at_first) == [f"POST /{number} ".encode() for number in range(50)]


@pytest.mark.parametrize("header", ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic secret\r\n"])
def test_without_the_token_nobody_gets_in_nor_is_the_body_read(header: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, dict[str, str], bytes]:
        writer.write(f"POST / HTTP/1.1\r\nHost: x\r\n{header}Content-Length: 999\r\n\r\n".encode())
        status, headers, _ = await read_answer(reader)
        return status, headers, await reader.read()

    status, headers, rest = converse(talk)
    assert (status, headers["www-authenticate"], headers["connection"], rest) == (401, "Bearer", "close", b"")


@pytest.mark.parametrize(("path", "status"), [("/broken", 500), ("/refused", 405)])
def test_a_handler_that_refuses_or_fails_does_not_end_the_connection(path: str, status: int) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[int]:
        statuses = []
        for where in (path, "/"):
            writer.write(request_bytes(where))
            statuses.append((await read_answer(reader))[0])
        return statuses

    assert converse(talk) == [status, 200]


def test_a_client_that_asks_to_continue_is_told_so() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes]:
        whole = request_bytes("/", b"hello", extra="Expect: 100-continue\r\n")
        writer.write(whole[:-5])
        status, _, _ = await read_answer(reader)
        writer.write(whole[-5:])
        return status, (await read_answer(reader))[2]

    assert converse(talk) == (100, b"POST / hello")


@pytest.mark.parametrize("sent", [b"POST / HT", request_bytes("/", b"hello")[:-1]])
def test_a_request_that_stops_half_way_is_given_up(sent: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        writer.write(sent)
        return (await read_answer(reader))[0]

    assert converse(talk, limits=ServerLimits(request_timeout_s=0.05)) == 408


def test_a_connection_without_requests_is_closed_after_a_while() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        return await reader.read()

    assert converse(talk, limits=ServerLimits(idle_timeout_s=0.05)) == b""


def test_who_connects_and_asks_nothing_is_not_waited_for_as_long_as_who_has_shown_a_token() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        return await reader.read()

    assert converse(talk, limits=ServerLimits(request_timeout_s=0.05)) == b""


@pytest.mark.parametrize("line", [b"\r\n", b"\r"])
def test_a_stranger_who_sends_empty_lines_is_not_given_more_time(line: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(line)
        return await reader.read()

    assert converse(talk, limits=ServerLimits(request_timeout_s=0.05)) == b""


def test_empty_lines_do_not_keep_a_connection_open() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(request_bytes())
        await read_answer(reader)
        end = asyncio.ensure_future(reader.read())
        with suppress(ConnectionError):
            while not end.done():  # an empty line now and then, in pieces
                for piece in (b"\r", b"\n"):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.wait([end], timeout=0.02)
        return True

    assert converse(talk, limits=ServerLimits(idle_timeout_s=0.1))


def test_a_stranger_who_begins_a_request_is_not_given_more_time() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        writer.write(b"POST / HT")
        return (await read_answer(reader))[0]

    assert converse(talk, limits=ServerLimits(idle_timeout_s=0.05, request_timeout_s=300)) == 408


def test_a_body_that_trickles_in_is_given_up() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = asyncio.ensure_future(read_answer(reader))
        writer.write(request_bytes("/", bytes(200))[:-200])
        while not answer.done():  # a byte now and then: never silent for long, and never done
            with suppress(ConnectionError):
                writer.write(b"x")
                await writer.drain()
            await asyncio.wait([answer], timeout=0.02)
        with suppress(ConnectionError):  # a byte that was under way when the server hung up may cost us the answer
            assert (await answer)[0] == 408

    converse(talk, limits=ServerLimits(request_timeout_s=0.1, body_bytes_s=1000))


def test_a_body_that_is_long_and_keeps_coming_is_taken() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        whole = request_bytes("/", bytes(3000))
        for start in range(0, len(whole), 500):
            writer.write(whole[start : start + 500])
            await asyncio.sleep(0.1)
        return (await read_answer(reader))[0]

    assert converse(talk, limits=ServerLimits(request_timeout_s=0.5, body_bytes_s=1000)) == 200


def test_too_many_connections_are_told_to_come_again() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, int]:
        host, port = writer.get_extra_info("peername")
        other_reader, other_writer = await asyncio.open_connection(host, port)
        refused, _, _ = await read_answer(other_reader)
        other_writer.close()
        writer.write(request_bytes())
        return refused, (await read_answer(reader))[0]

    assert converse(talk, limits=ServerLimits(connections=1)) == (503, 200)


def test_of_many_that_connect_at_once_all_are_taken_a_few_at_a_time() -> None:
    async def main() -> list[int]:
        server = HttpServer(echo, LIMITS)
        await server.start()
        host, port = server.url.removeprefix("http://").split(":")
        clients = [socket.create_connection((host, int(port)), timeout=20) for _ in range(100)]
        counts = [0]
        while counts[-1] < len(clients):
            await asyncio.sleep(0)
            counts.append(len(server.connections))
        for client in clients:
            client.close()
        await server.close()
        return [more - fewer for fewer, more in pairwise(counts)]

    assert max(asyncio.run(main())) <= 16


def test_a_client_that_reads_no_answers_is_cut_off() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        with suppress(ConnectionError):
            while not writer.transport.is_closing():
                writer.write(request_bytes("/", bytes(50_000)))
                await writer.drain()

    converse(talk, limits=ServerLimits(unread_bytes=100_000))


def test_time_spent_on_an_answer_does_not_count_as_silence() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.2)
        return await echo(request)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        writer.write(request_bytes())
        return (await read_answer(reader))[0]

    assert converse(talk, slow, ServerLimits(request_timeout_s=0.05, idle_timeout_s=0.05)) == 200


def test_a_client_that_vanishes_harms_nobody() -> None:
    async def main() -> int:
        server = HttpServer(echo, LIMITS)
        await server.start()
        host, port = server.url.removeprefix("http://").split(":")
        for data in (b"", b"POST", request_bytes("/", b"x")):
            with socket.create_connection((host, int(port))) as rude:
                rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                rude.sendall(data)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request_bytes())
        status, _, _ = await read_answer(reader)
        writer.close()
        await server.close()
        return status

    assert asyncio.run(main()) == 200


@given(data=st.binary(min_size=1, max_size=300))
def test_the_server_outlives_any_bytes(data: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.write_eof()
        await reader.read()

    converse(talk, limits=ServerLimits(head_bytes=64, request_timeout_s=0.01))
