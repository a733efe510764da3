"""A gateway at the other end of HTTP: the embedded platform, or anything that serves the same routes.

    POST /invoke      a MessagePack list of `Invocation`; 202 when taken; with {"taken": n} in JSON, the first n.
                      Another status of success needs that number: it may be the page of a server that is no gateway
    POST /prewarm     {"resources": …, "count": …} in MessagePack; 202
    GET  /limits      `Limits` as JSON
    GET  /status      what the platform does, as JSON
    POST /stop/<run>  drop what the run has queued, kill its workers; 200

Connections are kept and shared between threads. A kept connection may turn out to be closed by the server: the
request is then sent once more on a new one, at once.

A gateway that throttles (429), has trouble (5xx), cannot be reached or does not answer is asked again, after pauses
that grow, or that it asks for with `Retry-After`, until patience ends. What it did all the same does no harm:
servers ignore an invocation that they have taken before. Invocations have all the patience; the other requests have
little, since somebody wants to know whether the address is right, and nothing is lost without them. Redirections are
not followed: the token is for this address.
"""

import http.client
import os
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from augury.backoff import Attempts, Backoff
from augury.config import PATIENCE_S, Resources, address_parts, is_whole, public_address
from augury.errors import GatewayError
from augury.invoke.gateway import Invocation, Limits
from augury.trust.sources import checked_token

_TIMEOUT_S: Final = 10.0
_LEAST_TIMEOUT_S: Final = 1.0
_BRIEF_S: Final = 1.0
_SHOWN_BYTES: Final = 80
PATIENT: Final = Backoff(patience_s=PATIENCE_S)
"""How patiently workers are started, unless somebody chooses otherwise."""

_NOT_NOW: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_NEVER: Final = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
_CLOSED_BY_SERVER: Final = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
_Answer = TypeVar("_Answer")
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a gateway answered; `wait_s`: how long it asks to wait before the next request."""

    status: int
    body: bytes
    wait_s: float

    @property
    def succeeded(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def passing(self) -> bool:
        """Whether the same request may be taken later."""
        return self.status in _NOT_NOW or (
            self.status >= HTTPStatus.INTERNAL_SERVER_ERROR and self.status not in _NEVER
        )


class HttpGateway:
    """Starts workers through HTTP. Thread-safe, and safe to use after a fork.

    Args:
        url: Where the gateway is: `http://127.0.0.1:8080`, `https://host/path`.
        token: What to show it.
        timeout_s: How long to wait for a connection or an answer; by default as `timeout_within` says.
        backoff: How patiently workers are started; the other requests get a second of it.

    Raises:
        GatewayError: The address is none.
        DefinitionError: The token cannot be one.
    """

    def __init__(self, url: str, token: str, timeout_s: float | None = None, backoff: Backoff = PATIENT) -> None:
        parts = address_parts(url)
        if (
            parts is None
            or parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
        ):
            raise GatewayError(f"{public_address(url)!r} is not the address of a gateway: use http://host:port")
        self._address = public_address(url)
        self._host, self._port = parts.hostname, parts.port
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        self._token = checked_token(token, "HttpGateway(token=…)")
        self._timeout_s = timeout_within(backoff.patience_s) if timeout_s is None else timeout_s
        self._patient = backoff
        self._brief = replace(backoff, patience_s=min(_BRIEF_S, backoff.patience_s))
        self._lock = Lock()
        self._free: list[http.client.HTTPConnection] = []
        self._owner = os.getpid()

    def __repr__(self) -> str:
        return f"HttpGateway({self._address!r})"

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        """Hand invocations to the platform, in this order; it queues what it cannot run yet."""
        left = list(invocations)
        attempts = self._patient.attempts()
        while left:
            reply = self._ask("POST", "/invoke", _encode(left), attempts)
            taken = _taken(reply, len(left), self._address)
            left = left[taken:]
            if taken:
                attempts = self._patient.attempts()
            if left and not attempts.again(least_s=reply.wait_s):
                raise GatewayError(
                    f"the gateway at {self._address} took {len(invocations) - len(left)} of {len(invocations)} workers "
                    f"and no more{_tried(attempts)}: start fewer workers at once, or raise its limits"
                )

    def prewarm(self, resources: Resources, count: int) -> None:
        """Have environments ready, without running anything."""
        self._request("POST", "/prewarm", _encode({"resources": resources, "count": count}))

    def limits(self) -> Limits:
        """What the platform can do."""
        return _decode(self._request("GET", "/limits"), Limits, self._address)

    def status(self) -> dict[str, Any]:
        """What the platform does at the moment and did so far; for people."""
        return _decode(self._request("GET", "/status"), dict[str, Any], self._address)

    def run_status(self, run_id: str) -> str:
        """Where a run stands, as the workers of the platform see it."""
        answer = self._request("GET", f"/runs/{quote(run_id, safe='')}")
        return _decode(answer, dict[str, str], self._address).get("status", "")

    def is_silent(self) -> bool:
        """Whether a question is left unanswered for `timeout_s`; not if it cannot be asked, or nobody is there."""
        try:
            self._send("GET", "/limits", None)
        except (OSError, http.client.HTTPException) as error:
            return isinstance(error, TimeoutError)  # what else goes wrong may be due to this side, or to nobody
        return False

    def stop(self, run_id: str) -> None:
        """Drop what a run has queued and kill its workers."""
        self._request("POST", f"/stop/{quote(run_id, safe='')}")

    def close(self) -> None:
        """Let connections go."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        return self._ask(method, path, body, self._brief.attempts()).body

    def _ask(self, method: str, path: str, body: bytes | None, attempts: Attempts) -> _Reply:
        """Send a request until it is taken, refused for good, or patience ends."""
        while True:
            try:
                reply = self._send(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                if not attempts.again():
                    raise GatewayError(self._trouble(error, attempts)) from error
                continue
            if reply.succeeded:
                return reply
            if not (reply.passing and attempts.again(least_s=reply.wait_s)):
                raise GatewayError(self._refusal(reply, len(body or b""), attempts))

    def _send(self, method: str, path: str, body: bytes | None) -> _Reply:
        connection = self._take()
        kept = connection.sock is not None
        try:
            try:
                reply = self._exchange(connection, method, path, body)
            except _CLOSED_BY_SERVER:
                connection.close()
                if not kept:
                    raise
                connection = self._connect()
                reply = self._exchange(connection, method, path, body)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return reply

    def _exchange(self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None) -> _Reply:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/msgpack"}
        connection.request(method, self._prefix + path, body, headers)
        response = connection.getresponse()
        return _Reply(response.status, response.read(), _wait_s(response.getheader("Retry-After")))

    def _trouble(self, error: Exception, attempts: Attempts) -> str:
        who, tried = f"the gateway at {self._address}", _tried(attempts)
        if isinstance(error, TimeoutError):
            return (
                f"{who} did not answer for {self._timeout_s:g} s{tried}: "
                "check that it runs, and that nothing between here and there swallows connections"
            )
        return (
            f"{who} cannot be reached ({_describe(error)}){tried}: check the address, and that the platform still runs"
        )

    def _refusal(self, reply: _Reply, sent_bytes: int, attempts: Attempts) -> str:
        status, who = reply.status, f"the gateway at {self._address}"
        said = reply.body.decode("utf-8", "replace").strip()[:2000] or _phrase(status)
        tried = _tried(attempts) + (f", and asks to wait {reply.wait_s:g} s" if reply.wait_s else "")
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return f"{who} refuses the token: use the one that it was started with"
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return f"{who} does not take a request of {sent_bytes} bytes ({said}): start fewer workers at once"
        if status in _NOT_NOW:
            return (
                f"{who} is throttling ({status}){tried}: {said}; start fewer workers at once, raise its limits, "
                "or have more patience: Client(patience_s=…)"
            )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return f"{who} is out of order ({status}){tried}: {said}"
        if status < HTTPStatus.BAD_REQUEST:
            return f"{who} sends us elsewhere ({status} {_phrase(status)}): use the address of the gateway itself"
        return f"{who} refuses the request ({status}): {said}; check that it has the same version as this client"

    def _take(self) -> http.client.HTTPConnection:
        if self._owner != os.getpid():
            # After a fork the connections are the parent's, and to use them would mix up its answers with ours;
            # the lock may be held by a thread that does not exist on this side.
            inherited, self._free, self._lock, self._owner = self._free, [], Lock(), os.getpid()
            for connection in inherited:
                connection.close()
        with self._lock:
            if self._free:
                return self._free.pop()
        return self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and self._owner == os.getpid():
                self._free.append(connection)
                return
        connection.close()


def timeout_within(patience_s: float) -> float:
    """How long to wait for an answer of a gateway: no longer than patience lasts, if that makes sense at all."""
    return min(_TIMEOUT_S, max(_LEAST_TIMEOUT_S, patience_s))


def _decode(answer: bytes, kind: type[_Answer], address: str) -> _Answer:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _no_gateway(address, f"{error}: {answer[:_SHOWN_BYTES]!r}") from None


def _taken(reply: _Reply, sent: int, address: str) -> int:
    """How many of the invocations that were sent the gateway took: all, if it says 202 and tells no number."""
    body, accepted = reply.body, reply.status == HTTPStatus.ACCEPTED
    if accepted and not body.startswith(b"{"):
        return sent
    taken: object = _decode(body, dict[str, Any], address).get("taken", sent if accepted else None)
    if is_whole(taken, least=0) and isinstance(taken, int) and taken <= sent:
        return taken
    raise _no_gateway(address, f"{reply.status}, and it took {taken!r} of {sent}")


def _no_gateway(address: str, why: str) -> GatewayError:
    return GatewayError(f"{address} does not answer as a gateway does ({why}): check the address")


def _wait_s(retry_after: str | None) -> float:
    """How long the header `Retry-After` asks to wait: seconds, or a date; nothing if it is neither."""
    if retry_after is None:
        return 0.0
    if retry_after.isascii() and retry_after.strip().isdigit():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0


def _tried(attempts: Attempts) -> str:
    told = attempts.told()
    return f" after {told}" if told else ""


def _phrase(status: int) -> str:
    """What a status means; servers may send ones that have no name."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


def _describe(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
