"""What a stranger, or a broken client, gets from the gateway of a real platform: an answer, and nothing else."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec
import pytest

from augury import Embedded
from augury.config import Resources
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.invoke.gateway import Invocation

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def platform() -> Iterator[EmbeddedPlatform]:
    with Embedded(slots=1, body_mb=1).start() as platform:
        yield platform


@pytest.fixture(autouse=True)
def still_works(platform: EmbeddedPlatform) -> Iterator[None]:
    """Whatever was sent, the platform serves those who have the token, and started nothing."""
    yield
    counts = platform.gateway().status()
    assert (counts["invocations"], counts["running"]) == (0, 0)


def send(platform: EmbeddedPlatform, data: bytes) -> bytes:
    """What the gateway answers to these bytes before it closes the connection."""
    parts = urlsplit(platform.url)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        answer = b""
        while received := connection.recv(65536):
            answer += received
        return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def request(
    platform: EmbeddedPlatform,
    line: str = "POST /invoke",
    body: bytes = b"",
    *,
    headers: str = "",
    token: str | None = None,
) -> bytes:
    shown = platform.token if token is None else token
    end = "" if "Connection" in headers else "Connection: close\r\n"
    authorization = f"Authorization: Bearer {shown}\r\n" if shown else ""
    length = "" if "Content-Length" in headers or "Transfer-Encoding" in headers else f"Content-Length: {len(body)}\r\n"
    return f"{line} HTTP/1.1\r\nHost: x\r\n{authorization}{length}{headers}{end}\r\n".encode() + body


INVOCATIONS = msgspec.msgpack.encode([Invocation("r1", "w0", 1, Resources())])


@pytest.mark.parametrize("token", ["", "guess", "x" * 43, "\u00e9" * 43])
def test_without_the_token_nothing_is_done(platform: EmbeddedPlatform, token: str) -> None:
    answer = send(platform, request(platform, body=INVOCATIONS, token=token))
    assert status(answer) == 401
    assert platform.token.encode() not in answer


def test_half_of_the_token_is_not_enough(platform: EmbeddedPlatform) -> None:
    for shown in (platform.token[:-1], platform.token + "x", platform.token.swapcase()):
        assert status(send(platform, request(platform, "GET /limits", token=shown))) == 401


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("Content-Length: 1048577\r\n", 413),
        (f"Content-Length: {10**15}\r\n", 413),
        (f"Content-Length: {'9' * 5000}\r\n", 413),
        ("Content-Length: -1\r\n", 400),
        ("Content-Length: 1e3\r\n", 400),
        ("Content-Length: \u0663\r\n", 400),
        ("Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        ("Transfer-Encoding: chunked\r\n", 411),
        (f"X-Long: {'x' * 20_000}\r\n", 431),
        ("Broken header\r\n", 400),
        (" folded: yes\r\n", 400),
        ("X: a\x00b\r\n", 400),
    ],
)
def test_bad_lengths_and_headers_are_refused(platform: EmbeddedPlatform, headers: str, expected: int) -> None:
    assert status(send(platform, request(platform, headers=headers))) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
        msgspec.msgpack.encode([{"run_id": "r1"}]),
        msgspec.msgpack.encode(
            [{"run_id": "r1", "worker": "w", "attempt": 1, "resources": {"cpus": -1.0, "memory_mb": 1}}]
        ),
        msgspec.msgpack.encode(
            [{"run_id": "r1", "worker": "w", "attempt": 1, "resources": {"cpus": 1.0, "memory_mb": "many"}}]
        ),
    ],
    ids=range(8),
)
def test_a_body_that_is_no_invocation_is_refused(platform: EmbeddedPlatform, body: bytes) -> None:
    assert status(send(platform, request(platform, body=body))) == 400
    assert status(send(platform, request(platform, "POST /prewarm", body))) == 400


@pytest.mark.parametrize(
    ("line", "expected"),
    [("GET /", 404), ("GET /../etc/passwd", 404), ("GET /invoke", 405), ("DELETE /status", 405), ("POST /limits", 405)],
)
def test_unknown_routes_are_told(platform: EmbeddedPlatform, line: str, expected: int) -> None:
    assert status(send(platform, request(platform, line))) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n", 400),
        (b"GET /status\r\n\r\n", 400),
        (b"\r\n" * 5 + b"nonsense\r\n\r\n", 400),
    ],
    ids=["HTTP/2", "TLS", "HTTP/0.9", "nonsense"],
)
def test_other_protocols_are_refused(platform: EmbeddedPlatform, data: bytes, expected: int) -> None:
    assert status(send(platform, data)) == expected


def test_what_comes_after_a_refused_request_is_not_read(platform: EmbeddedPlatform) -> None:
    """Else a body could smuggle a request past what stands before the gateway."""
    smuggled = request(platform, body=INVOCATIONS)
    answer = send(platform, request(platform, headers="Content-Length: x\r\n") + smuggled)
    assert answer.count(b"HTTP/1.1 ") == 1


def test_requests_in_one_piece_are_answered_one_by_one(platform: EmbeddedPlatform) -> None:
    kept = request(platform, "GET /limits", headers="Connection: keep-alive\r\n")
    answer = send(platform, kept * 2 + request(platform, "GET /limits"))
    assert answer.count(b"HTTP/1.1 200 ") == 3


def test_many_who_say_nothing_hold_up_nobody(platform: EmbeddedPlatform) -> None:
    parts = urlsplit(platform.url)
    strangers = [socket.create_connection((str(parts.hostname), int(parts.port or 0))) for _ in range(200)]
    for stranger in strangers[::2]:
        stranger.sendall(b"POST /invoke HT")
    try:
        assert platform.gateway().limits().concurrency == 1
    finally:
        for stranger in strangers:
            stranger.close()


def test_it_listens_on_loopback_only(platform: EmbeddedPlatform) -> None:
    parts = urlsplit(platform.url)
    assert parts.hostname == "127.0.0.1"
    with pytest.raises(OSError, match="refused"), socket.socket() as elsewhere:
        elsewhere.connect(("127.0.0.2", int(parts.port or 0)))
