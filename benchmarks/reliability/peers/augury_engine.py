"""Augury: decorated functions on the embedded platform with two slots."""

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import augury
from augury import Client, Embedded, Resources, task
from augury.storage.server import find_redis_server
from reliability.marks import named
from reliability.peers.protocol import MEMORY_MB, Arguments


class Augury:
    """A client with a platform of its own, which has its own Redis by default.

    The hardened one, and the one whose storage is to be killed, has a Redis that writes down all that it is told, and
    that somebody starts again when it dies, as a service would.
    """

    def __init__(self, *, folder: Path, fault: str, hardened: bool) -> None:
        self._folder = folder
        self._fault = fault
        self._hardened = hardened
        self._server: subprocess.Popen[bytes] | None = None
        self._closing = False

    def version(self) -> str:
        """Of augury."""
        return augury.__version__

    def start(self) -> None:
        """Start platform and, if it is to be killed, storage."""
        redis = self._start_server() if self._hardened or self._fault == "storage" else None
        memory_mb = MEMORY_MB if self._fault == "memory" else 1024
        self._client = Client(
            platform=Embedded(slots=2, sys_path=(str(Path(__file__).parents[2]),)),
            configurations=[Resources(memory_mb=memory_mb)],
            redis=redis,
            observers=(),
            history=False,
        )

    def targets(self) -> dict[str, int]:
        """The supervisor of the embedded platform, and Redis."""
        found = {"coordinator": named("augury.invoke.embedded", self._folder)}
        return found | ({"storage": self._server.pid} if self._server is not None else {})

    def each(self, function: Callable[..., Any], arguments: Sequence[Arguments]) -> list[Any]:
        """Tasks as arguments of tasks."""
        decorated = task(function)
        return [decorated(*one) for one in arguments]

    def result(self, value: Any) -> Any:
        """As `.compute()` does."""
        return self._client.submit(value, detach=False).result()

    def stop(self) -> None:
        """Close the client, then Redis."""
        self._client.close()
        self._closing = True
        if self._server is not None:
            self._server.kill()

    def _start_server(self) -> str:
        socket = self._folder / "redis.sock"
        self._launch(socket)
        threading.Thread(target=self._keep, args=(socket,), daemon=True).start()
        return f"unix://{socket}"

    def _launch(self, socket: Path) -> None:
        program = find_redis_server()
        if program is None:
            raise RuntimeError("there is no Redis server on this machine")
        # A title of its own would overwrite the mark that it inherits.
        options = [
            "--port",
            "0",
            "--unixsocket",
            str(socket),
            "--dir",
            str(self._folder),
            "--save",
            "",
            "--set-proc-title",
            "no",
        ]
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]
        self._server = subprocess.Popen([program, *options, *durable], stdout=subprocess.DEVNULL)
        while not socket.exists():
            time.sleep(0.01)

    def _keep(self, socket: Path) -> None:
        while self._server is not None:
            self._server.wait()
            if self._closing:
                return
            socket.unlink(missing_ok=True)
            self._launch(socket)
