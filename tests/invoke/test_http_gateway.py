"""The gateway at the other end of HTTP: what it sends, when it sends again, and what it says when it cannot."""

import errno
import http.client
import os
import socket
import time
import traceback
from collections.abc import Iterator
from email.utils import formatdate
from threading import Thread

import msgspec
import pytest

from augury.backoff import Backoff
from augury.config import Resources
from augury.errors import GatewayError
from augury.invoke.gateway import Gateway, Invocation, Limits
from augury.invoke.http_gateway import HttpGateway
from tests.invoke.stage import PATIENCE_S, invocation
from tests.waiting import SLEEPLESS_S, Waiting

IMPATIENT = Backoff(patience_s=0.001)
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


class ScriptedServer:
    """A server whose every connection follows a script: answers to give, one per request, then it hangs up."""

    def __init__(self, *scripts: list[bytes], port: int = 0) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self._scripts = scripts
        self._thread = Thread(target=self._serve)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        for script in self._scripts:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(PATIENCE_S)
                for answer in script:
                    self.requests.append(self._read(connection))
                    connection.sendall(answer)

    def _read(self, connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or b"0")
        while len(body) < length:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


@pytest.fixture(name="servers")
def close_servers() -> Iterator[list[ScriptedServer]]:
    servers: list[ScriptedServer] = []
    yield servers
    for server in servers:
        server.close()


def serve(
    servers: list[ScriptedServer], *scripts: list[bytes], backoff: Backoff = IMPATIENT
) -> tuple[ScriptedServer, HttpGateway]:
    server = ScriptedServer(*scripts)
    servers.append(server)
    return server, HttpGateway(server.url, "secret", backoff=backoff)


def answer(status: str, body: bytes = b"", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_an_invocation_is_sent_with_the_token(servers: list[ScriptedServer]) -> None:
    server, gateway = serve(servers, [ACCEPTED])
    gateway.invoke([invocation("w")])
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /invoke HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret" in head
    assert msgspec.msgpack.decode(body, type=list[Invocation]) == [invocation("w")]
    gateway.close()


def test_a_token_that_ends_with_its_line_is_sent_without_the_end(servers: list[ScriptedServer]) -> None:
    server = ScriptedServer([ACCEPTED])
    servers.append(server)
    gateway = HttpGateway(server.url, "secret\n")
    gateway.invoke([invocation("w")])
    assert b"Authorization: Bearer secret\r\n" in server.requests[0]
    gateway.close()


def test_nothing_to_invoke_is_nothing_to_send() -> None:
    HttpGateway("http://127.0.0.1:1", "t").invoke([])


def test_a_connection_is_used_again(servers: list[ScriptedServer]) -> None:
    server, gateway = serve(servers, [ACCEPTED, ACCEPTED, answer("200 OK", b'{"concurrency":3}')])
    gateway.invoke([invocation("a")])
    gateway.prewarm(Resources(), 2)
    assert gateway.limits() == Limits(concurrency=3)
    assert len(server.requests) == 3
    gateway.close()


def test_a_kept_connection_that_was_closed_is_replaced_once(servers: list[ScriptedServer]) -> None:
    server, gateway = serve(servers, [ACCEPTED], [ACCEPTED])
    gateway.invoke([invocation("a")])
    gateway.invoke([invocation("b")])
    assert len(server.requests) == 2
    gateway.close()


def test_without_patience_a_connection_that_is_closed_without_an_answer_is_an_error(
    servers: list[ScriptedServer],
) -> None:
    server, gateway = serve(servers, [b""])
    with pytest.raises(GatewayError, match="cannot be reached"):
        gateway.invoke([invocation("a")])
    assert len(server.requests) == 1


def test_without_patience_an_answer_that_breaks_off_is_not_asked_for_again(servers: list[ScriptedServer]) -> None:
    server, gateway = serve(servers, [ACCEPTED, b"HTTP/1.1 202 Accepted\r\nContent-Length: 9\r\n\r\nhal"])
    gateway.invoke([invocation("a")])
    with pytest.raises(GatewayError, match="cannot be reached"):
        gateway.invoke([invocation("b")])
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("401 Unauthorized", "refuses the token: use the one that it was started with"),
        ("413 Request Entity Too Large", "does not take a request of .* start fewer workers at once"),
        ("404 Not Found", "refuses the request .404.: because.*same version"),
        ("503 Service Unavailable", "is out of order .503.: because"),
        ("500 Internal Server Error", "is out of order .500.: because"),
    ],
)
def test_a_refusal_names_the_address_and_says_what_to_do(servers: list[ScriptedServer], status: str, said: str) -> None:
    server, gateway = serve(servers, [answer(status, b"because")])
    with pytest.raises(GatewayError, match=rf"the gateway at {server.url} {said}"):
        gateway.invoke([invocation()])
    gateway.close()


def test_an_address_where_nobody_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(GatewayError, match=rf"127.0.0.1:{port} cannot be reached \(connection refused\)"):
        HttpGateway(f"http://127.0.0.1:{port}", "t", backoff=IMPATIENT).limits()


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gateway = HttpGateway(f"http://127.0.0.1:{listener.getsockname()[1]}", "t", timeout_s=0.05, backoff=IMPATIENT)
        with pytest.raises(GatewayError, match=r"did not answer for 0\.05 s"):
            gateway.limits()


def test_one_that_lets_a_question_wait_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert HttpGateway(f"http://127.0.0.1:{listener.getsockname()[1]}", "t", timeout_s=0.01).is_silent()


@pytest.mark.parametrize("said", [answer("200 OK", b"{}"), answer("503 Service Unavailable"), b"nonsense\r\n\r\n", b""])
def test_one_that_says_anything_or_hangs_up_is_not_silent(servers: list[ScriptedServer], said: bytes) -> None:
    _, gateway = serve(servers, [said])
    assert not gateway.is_silent()
    gateway.close()


def test_nobody_is_not_silent() -> None:
    assert not HttpGateway("http://127.0.0.1:1", "t").is_silent()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EADDRNOTAVAIL])
def test_a_question_that_cannot_be_asked_is_no_sign_of_silence(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(http.client.HTTPConnection, "connect", refuse)
    assert not HttpGateway("http://127.0.0.1:1", "t").is_silent()


def test_something_that_is_no_gateway_is_told(servers: list[ScriptedServer]) -> None:
    _, gateway = serve(servers, [answer("200 OK", b"<html>")])
    with pytest.raises(GatewayError, match="does not answer as a gateway does"):
        gateway.limits()
    gateway.close()


THROTTLED = answer("429 Too Many Requests", b"slow down")


@pytest.mark.parametrize(
    "trouble",
    [
        [THROTTLED],
        [answer("500 Internal Server Error")],
        [answer("502 Bad Gateway")],
        [answer("503 Service Unavailable")],
        [answer("504 Gateway Timeout")],
        [b""],
        [b"HTTP/1.1 202 Accepted\r\nContent-Length: 9\r\n\r\nhal"],
        [],
    ],
    ids=["429", "500", "502", "503", "504", "no answer", "half an answer", "hung up"],
)
def test_what_may_pass_is_tried_again_until_it_has_passed(servers: list[ScriptedServer], trouble: list[bytes]) -> None:
    waiting = Waiting()
    server, gateway = serve(servers, trouble, trouble, [ACCEPTED], backoff=waiting.backoff(patience_s=30))
    gateway.invoke([invocation("w")])
    assert waiting.pauses_s == [0.05, 0.1]
    assert msgspec.msgpack.decode(server.requests[-1].partition(b"\r\n\r\n")[2], type=list[Invocation]) == [
        invocation("w")
    ]
    gateway.close()


def test_a_gateway_that_asks_to_wait_is_given_the_time(servers: list[ScriptedServer]) -> None:
    waiting = Waiting()
    throttled = answer("429 Too Many Requests", headers="Retry-After: 7\r\n")
    server, gateway = serve(servers, [throttled, ACCEPTED], backoff=waiting.backoff(patience_s=30))
    gateway.invoke([invocation()])
    assert waiting.pauses_s == [7.0]
    assert len(server.requests) == 2
    gateway.close()


def test_a_gateway_that_asks_to_wait_until_a_date_is_given_the_time(servers: list[ScriptedServer]) -> None:
    waiting = Waiting()
    date = formatdate(time.time() + 20, usegmt=True)
    busy = answer("503 Service Unavailable", headers=f"Retry-After: {date}\r\n")
    _, gateway = serve(servers, [busy, ACCEPTED], backoff=waiting.backoff(patience_s=60))
    gateway.invoke([invocation()])
    assert 10 < waiting.pauses_s[0] <= 20
    gateway.close()


def test_one_that_asks_to_wait_longer_than_patience_lasts_is_not_waited_for(servers: list[ScriptedServer]) -> None:
    waiting = Waiting()
    throttled = answer("429 Too Many Requests", b"quota", headers="Retry-After: 3600\r\n")
    _, gateway = serve(servers, [throttled], backoff=waiting.backoff(patience_s=30))
    with pytest.raises(GatewayError, match=r"throttling \(429\), and asks to wait 3600 s: quota; start fewer"):
        gateway.invoke([invocation()])
    assert waiting.pauses_s == []
    gateway.close()


def test_throttling_without_end_ends_with_patience_and_says_how_often_it_was_tried(
    servers: list[ScriptedServer],
) -> None:
    waiting = Waiting()
    _, gateway = serve(servers, [THROTTLED] * 7, backoff=waiting.backoff(patience_s=5))
    with pytest.raises(GatewayError, match=r"\(429\) after 7 attempts in 3\.15 s: slow down; .*patience_s"):
        gateway.invoke([invocation()])
    assert waiting.pauses_s == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
    gateway.close()


def test_one_that_takes_a_part_of_a_batch_is_sent_the_rest(servers: list[ScriptedServer]) -> None:
    waiting = Waiting()
    part = [answer("202 Accepted", b'{"taken": %d}' % taken) for taken in (2, 0, 3)]
    server, gateway = serve(servers, part, backoff=waiting.backoff(patience_s=30))
    gateway.invoke([invocation(f"w{number}") for number in range(5)])
    bodies = [request.partition(b"\r\n\r\n")[2] for request in server.requests]
    sent = [[one.worker for one in msgspec.msgpack.decode(body, type=list[Invocation])] for body in bodies]
    assert sent == [["w0", "w1", "w2", "w3", "w4"], ["w2", "w3", "w4"], ["w2", "w3", "w4"]]
    gateway.close()


def test_one_that_takes_no_more_of_a_batch_is_told_of(servers: list[ScriptedServer]) -> None:
    waiting = Waiting()
    part = [answer("202 Accepted", b'{"taken": %d}' % taken) for taken in (2, 0, 0)]
    _, gateway = serve(servers, part, backoff=waiting.backoff(patience_s=0.2))
    with pytest.raises(GatewayError, match=r"took 2 of 5 workers and no more after 3 attempts"):
        gateway.invoke([invocation(f"w{number}") for number in range(5)])
    gateway.close()


@pytest.mark.parametrize("taken", [b'{"taken": -1}', b'{"taken": 9}', b'{"taken": "all"}', b"{"])
def test_one_that_took_a_strange_number_is_no_gateway(servers: list[ScriptedServer], taken: bytes) -> None:
    _, gateway = serve(servers, [answer("202 Accepted", taken)])
    with pytest.raises(GatewayError, match="does not answer as a gateway does"):
        gateway.invoke([invocation()])
    gateway.close()


def test_another_success_than_202_is_taken_with_a_number(servers: list[ScriptedServer]) -> None:
    _, gateway = serve(servers, [answer("200 OK", b'{"taken": 1}')])
    gateway.invoke([invocation()])
    gateway.close()


@pytest.mark.parametrize("said", [b"", b"\xff{][", b"<html>welcome</html>", b"{}", b'{"taken": true}', b"[]"])
def test_another_success_than_202_without_a_number_is_no_gateway(servers: list[ScriptedServer], said: bytes) -> None:
    server, gateway = serve(servers, [answer("200 OK", said)])
    with pytest.raises(GatewayError, match=rf"{server.url} does not answer as a gateway does \(.*check the address"):
        gateway.invoke([invocation()])
    gateway.close()


@pytest.mark.parametrize("status", ["301 Moved Permanently", "304 Not Modified", "307 Temporary Redirect"])
def test_one_that_sends_elsewhere_has_taken_nothing(servers: list[ScriptedServer], status: str) -> None:
    server, gateway = serve(servers, [answer(status, b"", "Location: http://127.0.0.1:1/\r\n")])
    with pytest.raises(GatewayError, match=rf"{server.url} sends us elsewhere \({status}\): use the address"):
        gateway.invoke([invocation()])
    gateway.close()


def test_questions_have_little_patience() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    waiting = Waiting()
    gateway = HttpGateway(f"http://127.0.0.1:{port}", "t", backoff=waiting.backoff(patience_s=1000))
    with pytest.raises(GatewayError, match=r"cannot be reached .* after \d attempts in"):
        gateway.limits()
    assert sum(waiting.pauses_s) < SLEEPLESS_S


def test_an_invocation_waits_for_a_gateway_that_is_started_again(servers: list[ScriptedServer]) -> None:
    waiting = Waiting()
    first, gateway = serve(servers, [ACCEPTED], backoff=waiting.backoff(patience_s=30))
    gateway.invoke([invocation("a")])
    port = int(first.url.rpartition(":")[2])
    first.close()
    waiting.after(3, lambda: servers.append(ScriptedServer([ACCEPTED], port=port)))
    gateway.invoke([invocation("b")])
    assert len(waiting.pauses_s) == 3
    assert b"b" in servers[-1].requests[0].partition(b"\r\n\r\n")[2]
    gateway.close()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "127.0.0.1:80",
        "",
        "http://",
        "http://localhost:port",
        "http://localhost:99999",
        "http://localhost:0",
        "http://[::1",
        "http://a..b",
        "http://host?run",
        "http://host#run",
        "http://u:s3cret/x@host:1",
        "http://u:s3cret#x@host:1",
        "http://u:17#s3cret@host:1",
        "http://u:17?s3cret@host:1",
    ],
)
def test_what_is_no_address_is_refused_without_a_trace_of_a_password(url: str) -> None:
    with pytest.raises(GatewayError, match="is not the address of a gateway") as caught:
        HttpGateway(url, "t")
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_letters_that_http_does_not_take_are_escaped_in_a_path(servers: list[ScriptedServer]) -> None:
    server = ScriptedServer([ACCEPTED])
    servers.append(server)
    gateway = HttpGateway(server.url + "/ä b/%41", "t")
    gateway.prewarm(Resources(), 1)
    assert server.requests[0].startswith(b"POST /%C3%A4%20b/%41/prewarm HTTP/1.1\r\n")
    gateway.close()


def test_a_path_in_the_address_comes_before_the_route(servers: list[ScriptedServer]) -> None:
    server = ScriptedServer([ACCEPTED])
    servers.append(server)
    gateway = HttpGateway(server.url + "/augury/", "t")
    gateway.stop("a/b")
    assert server.requests[0].startswith(b"POST /augury/stop/a%2Fb HTTP/1.1\r\n")
    gateway.close()


def test_secrets_show_neither_in_the_repr_nor_in_errors() -> None:
    gateway: Gateway = HttpGateway("http://user:password@127.0.0.1:1", "secret")
    assert "secret" not in repr(gateway)
    assert "password" not in repr(gateway)
    with pytest.raises(GatewayError) as caught:
        gateway.limits()
    assert "password" not in str(caught.value)


def test_a_fork_does_not_use_the_connections_of_its_parent(servers: list[ScriptedServer]) -> None:
    server, gateway = serve(servers, [ACCEPTED, ACCEPTED], [ACCEPTED])
    gateway.invoke([invocation("parent")])
    first = Thread(target=gateway.invoke, args=([invocation("parent-again")],))
    child = os.fork()
    if child == 0:
        gateway.invoke([invocation("child")])
        os._exit(0)
    first.start()
    first.join()
    gateway.close()
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert [b"child" in request for request in server.requests] == [False, False, True]
