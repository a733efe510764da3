"""A gateway at the other end of HTTP: the embedded platform, or anything that serves the same routes.

    POST /invoke      a MessagePack list of `Invocation`; 202 when taken
    POST /prewarm     {"resources": …, "count": …} in MessagePack; 202
    GET  /limits      `Limits` as JSON
    GET  /status      what the platform does, as JSON
    POST /stop/<run>  drop what the run has queued, kill its workers; 200

Connections are kept and shared between threads. A kept connection may turn out to be closed by the server: the
request is then sent once more on a new one, and only then. It may have been processed all the same, which does no
harm: servers ignore an invocation that they have taken before.
"""

import http.client
import os
import ssl
from collections.abc import Sequence
from http import HTTPStatus
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from augury.config import Resources, public_address
from augury.errors import GatewayError
from augury.invoke.gateway import Invocation, Limits

_TIMEOUT_S: Final = 30.0
_CLOSED_BY_SERVER: Final = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
_Answer = TypeVar("_Answer")
_encode = msgspec.msgpack.Encoder().encode


class HttpGateway:
    """Starts workers through HTTP. Thread-safe, and safe to use after a fork.

    Args:
        url: Where the gateway is: `http://127.0.0.1:8080`, `https://host/path`.
        token: What to show it.
        timeout_s: How long to wait for a connection or an answer.

    Raises:
        GatewayError: The address is none.
    """

    def __init__(self, url: str, token: str, timeout_s: float = _TIMEOUT_S) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise GatewayError(f"{public_address(url)!r} is not the address of a gateway: use http://host:port")
        self._address = public_address(url)
        self._host, self._port = parts.hostname, parts.port
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._free: list[http.client.HTTPConnection] = []
        self._owner = os.getpid()

    def __repr__(self) -> str:
        return f"HttpGateway({self._address!r})"

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        """Hand invocations to the platform, in this order; it queues what it cannot run yet."""
        if invocations:
            self._request("POST", "/invoke", _encode(list(invocations)))

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
        connection = self._take()
        kept = connection.sock is not None
        try:
            try:
                status, answer = self._exchange(connection, method, path, body)
            except _CLOSED_BY_SERVER:
                connection.close()
                if not kept:
                    raise
                connection = self._connect()
                status, answer = self._exchange(connection, method, path, body)
        except TimeoutError:
            connection.close()
            raise GatewayError(
                f"the gateway at {self._address} did not answer for {self._timeout_s:g} s: "
                "check that it runs, and that nothing between here and there swallows connections"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise GatewayError(
                f"the gateway at {self._address} cannot be reached ({_describe(error)}): "
                "check the address, and that the platform still runs"
            ) from error
        self._give_back(connection)
        if status >= HTTPStatus.BAD_REQUEST:
            raise GatewayError(self._refusal(status, answer, len(body or b"")))
        return answer

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/msgpack"}
        connection.request(method, self._prefix + path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()

    def _refusal(self, status: int, answer: bytes, sent_bytes: int) -> str:
        said = answer.decode("utf-8", "replace").strip()[:2000] or HTTPStatus(status).phrase
        who = f"the gateway at {self._address}"
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return f"{who} refuses the token: use the one that it was started with"
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return f"{who} does not take a request of {sent_bytes} bytes ({said}): start fewer workers at once"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return f"{who} is out of order ({status}): {said}"
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


def _decode(answer: bytes, kind: type[_Answer], address: str) -> _Answer:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        raise GatewayError(f"{address} does not answer as a gateway does ({error}): check the address") from None


def _describe(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
