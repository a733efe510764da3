"""A small HTTP/1.1 server for gateways: loopback, bearer token, bodies of known length.

    bytes ─▶ RequestParser ─▶ Request ─▶ handler ─▶ Response ─▶ bytes
             (no I/O; a parser per connection)

It speaks the part of HTTP that gateways need and refuses the rest by name: no chunked bodies (411), no folded
headers (400), no header above 16 KiB (431), no body above the limit (413). What is refused closes the
connection, because where the next request would begin is not known. A request that stops half-way, or trickles in, is
given up (408). Whoever shows the wrong token is told so before the body is read. Connections are limited, too, and what
nobody reads of our answers.
"""

import asyncio
import hmac
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

logger = logging.getLogger(__name__)

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET: Final = re.compile(rb"[!-~]+")
_VERSION: Final = re.compile(rb"HTTP/\d\.\d")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_END_OF_HEAD: Final = b"\r\n\r\n"
_NEEDS_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_TAKEN_AT_ONCE: Final = 16
_QUEUED: Final = 2048
"""How many connections may wait to be taken: many workers connect at the same moment."""
_JSON: Final = "application/json"


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a server accepts.

    Attributes:
        head_bytes: The longest request line with headers.
        body_bytes: The longest body.
        request_timeout_s: How long the head may take from its first byte, and the body from piece to piece. The first
            head on a connection has so long from the moment of connecting.
        body_bytes_s: How fast a body must arrive on average, after `request_timeout_s` of grace.
        idle_timeout_s: How long a connection may stay open between requests; before the first, the shorter counts.
            Empty lines are no request.
        connections: How many there may be at once; further ones are told to come again (503).
        unread_bytes: How much of our answers a client may leave unread.
    """

    head_bytes: int = 16 * 1024
    body_bytes: int = 64 * 1024 * 1024
    request_timeout_s: float = 10.0
    body_bytes_s: int = 64 * 1024
    idle_timeout_s: float = 300.0
    connections: int = 10_000
    unread_bytes: int = 1024 * 1024


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Header names are in lower case; the path is as it was sent, without the query."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    keep_alive: bool = True


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One answer."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def json(cls, value: object, status: int = HTTPStatus.OK) -> "Response":
        """An answer that holds a value as JSON."""
        return cls(status=status, body=msgspec.json.encode(value), content_type=_JSON)

    def encode(self, keep_alive: bool) -> bytes:
        """The bytes of it."""
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            f"Content-Length: {len(self.body)}",
            f"Content-Type: {self.content_type}",
            *(f"{name}: {value}" for name, value in self.headers),
            *(() if keep_alive else ("Connection: close",)),
        ]
        return "\r\n".join(lines).encode("latin-1") + _END_OF_HEAD + self.body


class HttpError(Exception):
    """A request that is refused: the status and a sentence that says why."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(f"{int(status)}: {reason}")
        self.response = Response(status=status, body=(reason + "\n").encode(), headers=headers)


Handler = Callable[[Request], Awaitable[Response]]
CheckHead = Callable[[Request], None]
"""Sees a request before its body was read, and raises `HttpError` to refuse it."""


def bearer(token: str) -> CheckHead:
    """A check that demands `Authorization: Bearer <token>`; compares in constant time."""
    expected = f"Bearer {token}".encode()

    def check(head: Request) -> None:
        shown = head.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(shown, expected):
            why = "the token is wrong" if shown else "a token is needed: send `Authorization: Bearer <token>`"
            raise HttpError(HTTPStatus.UNAUTHORIZED, why, (("WWW-Authenticate", "Bearer"),))

    return check


def parse_head(head: bytes) -> tuple[Request, int]:
    """Read the request line and the headers; the second value is the length of the body.

    Raises:
        HttpError: It is not HTTP/1.x, or not the part of it that is spoken here.
    """
    line, *fields = head.split(b"\r\n")
    parts = line.split(b" ")
    if len(parts) != 3 or not (_TOKEN.fullmatch(parts[0]) and _TARGET.fullmatch(parts[1])):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the request line is not `METHOD target HTTP/1.1`")
    if not _VERSION.fullmatch(parts[2]):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the request line names no version of HTTP")
    if not parts[2].startswith(b"HTTP/1."):
        raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.x is spoken here")
    headers = _parse_fields(fields)
    modern = parts[2] != b"HTTP/1.0"
    if modern and "host" not in headers:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the Host header is missing")
    path, _, query = parts[1].decode("ascii").partition("?")
    options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    request = Request(
        method=parts[0].decode("ascii"),
        path=path,
        query=query,
        headers=headers,
        keep_alive="close" not in options and (modern or "keep-alive" in options),
    )
    return request, _body_length(request)


def _parse_fields(fields: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for field in fields:
        name, colon, value = field.partition(b":")
        if not (colon and _TOKEN.fullmatch(name)) or _CONTROL.search(value):
            raise HttpError(HTTPStatus.BAD_REQUEST, "a header is not `Name: value` on one line")
        key = name.decode("ascii").lower()
        if key in headers and key in ("content-length", "host", "authorization", "transfer-encoding"):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the header {key} is there twice")
        text = value.strip(b" \t").decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _body_length(request: Request) -> int:
    if "transfer-encoding" in request.headers:
        raise HttpError(HTTPStatus.LENGTH_REQUIRED, "send the body with a Content-Length, not chunked")
    text = request.headers.get("content-length")
    if text is None:
        if request.method in _NEEDS_BODY:
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
        return 0
    if not (text.isascii() and text.isdigit()):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the Content-Length is not a number")
    # A number of many digits is too large, whichever it is; to convert it would take quadratic time.
    return int(text) if len(text) <= 18 else 10**18


class RequestParser:
    """Turns the bytes of one connection into requests; does no I/O."""

    def __init__(self, limits: ServerLimits, check_head: CheckHead | None = None) -> None:
        self._limits = limits
        self._check_head = check_head
        self._buffer = bytearray()
        self._searched = 0
        self._head: Request | None = None
        self._length = 0

    @property
    def half_way(self) -> bool:
        """Whether a request has begun that is not complete; an empty line, or half of one, is no beginning."""
        return self._head is not None or bytes(self._buffer[:2]) not in (b"", b"\r")

    @property
    def in_body(self) -> bool:
        """Whether the head is complete and the body is not."""
        return self._head is not None

    @property
    def wants_continue(self) -> bool:
        """Whether the sender waits to be told that it may send the body."""
        head = self._head
        return head is not None and not self._buffer and head.headers.get("expect", "").lower() == "100-continue"

    @property
    def body_bytes(self) -> int:
        """How long the body is whose head came last."""
        return self._length

    def feed(self, data: bytes) -> None:
        """Take bytes as they came."""
        self._buffer += data

    def next_request(self) -> Request | None:
        """The next complete request, if there is one.

        Raises:
            HttpError: The bytes are not a request that is spoken here; the parser is of no use any more.
        """
        if self._head is None and not self._read_head():
            return None
        head = self._head
        if head is None or len(self._buffer) < self._length:
            return None
        body = bytes(memoryview(self._buffer)[: self._length])
        del self._buffer[: self._length]
        self._head = None
        return msgspec.structs.replace(head, body=body)

    def _read_head(self) -> bool:
        while self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
        end = self._buffer.find(_END_OF_HEAD, max(0, self._searched - len(_END_OF_HEAD)))
        if end > self._limits.head_bytes or (end < 0 and len(self._buffer) > self._limits.head_bytes):
            raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long")
        if end < 0:
            self._searched = len(self._buffer)
            return False
        head, self._length = parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + len(_END_OF_HEAD)]
        self._searched = 0
        if self._check_head is not None:
            self._check_head(head)
        if self._length > self._limits.body_bytes:
            limit = self._limits.body_bytes
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limit} bytes")
        self._head = head
        return True


class _Connection(asyncio.Protocol):
    """One connection: requests are answered one after another, in the order they came."""

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._parser = RequestParser(server.limits, server.check_head)
        self._transport: asyncio.Transport | None = None
        self._answering: asyncio.Task[None] | None = None
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_s = 0.0
        self._whole_until_s = float("inf")  # when the body that is coming in must be complete
        self._known = False  # whether there was a request that was let in: before that, nothing gives more time

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a TCP server makes no other
        self._transport = transport
        limits = self._server.limits
        if len(self._server.connections) >= limits.connections:
            self._refuse(HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections; come again"))
            return
        self._server.connections.add(self)
        self._expect(min(limits.request_timeout_s, limits.idle_timeout_s))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return  # it was refused
        half_way = self._parser.half_way
        self._parser.feed(data)
        if self._answering is not None:
            # The sender is ahead of its answers: let the kernel hold the rest back.
            if not self._paused:
                self._paused = True
                self._transport.pause_reading()
            return
        self._advance(may_begin=self._known and not half_way)

    def close(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _advance(self, may_begin: bool) -> None:
        """Begin to answer the next complete request, or wait for the rest of it.

        Args:
            may_begin: Whether what there is of a head is new, and has its time from now on.
        """
        try:
            request = self._parser.next_request()
        except HttpError as error:
            self._refuse(error)
            return
        if request is not None:
            self._known = True
            self._answering = asyncio.get_running_loop().create_task(self._answer(request))
            self._deadline_s = self._whole_until_s = float("inf")
            return
        if self._parser.wants_continue and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._parser.in_body:
            self._expect(self._server.limits.request_timeout_s)
            self._bound_body()
        elif may_begin and self._parser.half_way:
            self._expect(self._server.limits.request_timeout_s)

    def _bound_body(self) -> None:
        """Give a body so much time as its length deserves, in however small pieces it comes."""
        if self._whole_until_s == float("inf"):
            self._whole_until_s = self._deadline_s + self._parser.body_bytes / self._server.limits.body_bytes_s
        self._deadline_s = min(self._deadline_s, self._whole_until_s)

    async def _answer(self, request: Request) -> None:
        try:
            response = await self._server.handler(request)
        except HttpError as error:
            response = error.response
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            response = Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, body=b"the server failed; its log says why\n")
        self._answering = None
        if self._transport is None:
            return
        self._transport.write(response.encode(request.keep_alive))
        if self._transport.get_write_buffer_size() > self._server.limits.unread_bytes:
            self.close()
            return
        if not request.keep_alive:
            self._transport.close()
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._expect(self._server.limits.idle_timeout_s)
        self._advance(may_begin=True)

    def _refuse(self, error: HttpError) -> None:
        if self._transport is not None:
            self._transport.write(error.response.encode(keep_alive=False))
            self._transport.close()

    def _expect(self, within_s: float) -> None:
        """Give up unless something is complete within this time.

        The timer is set again only when it fires too early: most requests come and go without touching it.
        """
        loop = asyncio.get_running_loop()
        self._deadline_s = loop.time() + within_s
        if self._timer is None or self._timer.when() > self._deadline_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(self._deadline_s, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if loop.time() < self._deadline_s:
            if self._deadline_s != float("inf"):
                self._timer = loop.call_at(self._deadline_s, self._check_deadline)
        elif self._parser.half_way:
            self._refuse(HttpError(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time"))
        else:
            self.close()


class HttpServer:
    """Serves one handler on one address.

    Args:
        handler: Answers requests; may raise `HttpError`. Anything else that it raises is logged and becomes a 500.
        limits: What is accepted.
        check_head: Sees each request before its body is read; see `bearer`.
    """

    def __init__(
        self, handler: Handler, limits: ServerLimits | None = None, check_head: CheckHead | None = None
    ) -> None:
        self.handler = handler
        self.limits = limits or ServerLimits()
        self.check_head = check_head
        self.connections: set[_Connection] = set()
        self.url = ""
        self._server: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; a port of 0 takes any free one. `url` then says which."""
        loop = asyncio.get_running_loop()
        # Connections are taken a few at a time: those that are too many have a descriptor each until they are refused.
        self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=_TAKEN_AT_ONCE)
        for listening in self._server.sockets:
            with listening.dup() as queue:
                queue.listen(_QUEUED)
        bound = self._server.sockets[0].getsockname()
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url = f"http://{name}:{bound[1]}"

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None
