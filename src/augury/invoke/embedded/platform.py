"""The client's side of the embedded platform: settings, and a handle on the running processes."""

import atexit
import hashlib
import logging
import os
import secrets
import select
import shutil
import site
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from augury.config import StorageConfig, is_positive, is_whole
from augury.errors import DefinitionError, PlatformError
from augury.invoke.embedded.cgroups import sweep_groups
from augury.invoke.embedded.cloud import Emulation
from augury.invoke.embedded.folders import make_platform_folder, sweep_folders
from augury.invoke.embedded.wire import NotReady, Ready, Settings
from augury.invoke.gateway import Limits
from augury.invoke.http_gateway import HttpGateway

logger = logging.getLogger(__name__)

_SLOTS_PER_PROCESSOR: Final = 4
_FEWEST_SLOTS: Final = 8
_CLOSE_TIMEOUT_S: Final = 15.0
_LOG_TAIL_BYTES: Final = 4000
_MIB: Final = 1024 * 1024


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """A FaaS platform on this machine, with nothing to set up: worker processes, and a Redis of its own.

    Args:
        slots: How many workers run at once; by default four per processor, and at least 8.
        keep_alive_s: How long a worker that has nothing to do is kept warm; 0 makes every start a cold one.
        max_idle: How many such workers are kept at most; by default as many as there are slots.
        enforce_limits: Whether workers are held to their CPU and memory, as far as the system allows;
            `EmbeddedPlatform.notes` says how far that is.
        emulation: A cloud to imitate.
        preload: Modules that the workers' common parent imports, so that no worker has to: `("pandas",)`.
        sys_path: Folders to import `handler` and `preload` from, besides where Python looks anyway.
        handler: What a worker calls for each invocation, as `module:function`.
        on_loss: What puts the loss of a worker into words for the client, as `module:function`.
        body_mb: The largest request that the platform takes.
        start_timeout_s: How long the platform may take to start.

    Example:
        >>> Embedded(slots=32, keep_alive_s=300).concurrency
        32
    """

    slots: int | None = None
    keep_alive_s: float = 60.0
    max_idle: int | None = None
    enforce_limits: bool = True
    emulation: Emulation | None = None
    preload: tuple[str, ...] = ()
    sys_path: tuple[str, ...] = ()
    handler: str = "augury.worker.entrypoint:handle"
    on_loss: str = "augury.worker.failure:worker_lost"
    body_mb: int = 64
    start_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        whole_of_1 = "a whole number, at least 1"
        self._check("slots", whole_of_1, self.slots is None or is_whole(self.slots, least=1))
        self._check("max_idle", "a whole number, at least 0", self.max_idle is None or is_whole(self.max_idle, least=0))
        self._check("body_mb", whole_of_1, is_whole(self.body_mb, least=1))
        for name in ("keep_alive_s", "start_timeout_s"):
            value = getattr(self, name)
            is_zero = value == 0 and not isinstance(value, bool)
            self._check(name, "a number of seconds, at least 0", is_zero or is_positive(value))
        self._check("enforce_limits", "True or False", isinstance(self.enforce_limits, bool))
        self._check("emulation", "an Emulation", isinstance(self.emulation, Emulation | None))
        for name in ("preload", "sys_path"):
            self._check(name, "a tuple of str", _are_strings(getattr(self, name)))
        for name in ("handler", "on_loss"):
            value = getattr(self, name)
            self._check(name, "`module:function`", isinstance(value, str) and all(value.partition(":")[::2]))

    def _check(self, name: str, expected: str, fits: bool) -> None:
        if not fits:
            raise DefinitionError(f"Embedded.{name} must be {expected}, not {getattr(self, name)!r}")

    @property
    def concurrency(self) -> int:
        """How many workers run at once."""
        return self.slots or max(_FEWEST_SLOTS, _SLOTS_PER_PROCESSOR * (os.cpu_count() or 1))

    @property
    def platform_name(self) -> str:
        """How records call it: what was measured in an imitated cloud says nothing of another one."""
        if self.emulation is None:
            return "embedded"
        imitated = hashlib.blake2b(msgspec.json.encode(self.emulation), digest_size=4).hexdigest()
        return f"embedded/{imitated}"

    def start(self, redis: str | None = None) -> "EmbeddedPlatform":
        """Start the platform and wait until it is ready.

        Args:
            redis: The address of a Redis server to use, instead of one that the platform starts for itself.

        Raises:
            PlatformError: It does not start; holds the reason and the end of its log.
        """
        return EmbeddedPlatform(self, redis or "")


def _are_strings(values: object) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(value, str) for value in values)


class EmbeddedPlatform:
    """A running embedded platform; made by `Embedded.start`. Thread-safe.

    It ends with `close`, with the context manager, or with the client's process, however that ends. In a fork
    of the client it is a mere view: its gateway works, and closing it does nothing.

    Attributes:
        storage_config: Where runs keep their data.
        limits: What it can do.
        notes: Which limits are enforced, how, and which are not and why.
        unlimited: What was to be limited and is not, and why, in a few words; mostly empty.
        url: Where its gateway listens.
        token: What to show there.
        pid: Of the supervisor.
    """

    def __init__(self, settings: Embedded, redis: str = "") -> None:
        self.token = secrets.token_urlsafe(32)
        self._owner = os.getpid()
        self._lock = Lock()
        try:
            self._folder, lock = make_platform_folder()
        except OSError as error:
            raise PlatformError(f"the embedded platform gets no folder for its files: {error}") from error
        try:
            self._process = self._spawn(settings, redis, lock)
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise PlatformError(f"the embedded platform's process cannot be started: {error}") from error
        finally:
            os.close(lock)
        _running.add(self)
        try:
            ready = self._await_ready(settings.start_timeout_s)
        except BaseException:
            self.close()
            raise
        self.pid = self._process.pid
        self.url = ready.url
        self._gateway = HttpGateway(ready.url, self.token)
        self.limits: Limits = ready.limits
        self.notes: tuple[str, ...] = ready.notes
        self.unlimited: str = ready.unlimited
        self.storage_config = StorageConfig(redis=ready.redis, object_dir=ready.object_dir)

    def __repr__(self) -> str:
        return f"EmbeddedPlatform({getattr(self, 'url', 'starting')!r})"

    @property
    def alive(self) -> bool:
        """Whether its supervisor runs."""
        return self._process.poll() is None

    def gateway(self) -> HttpGateway:
        """The gateway to the platform, shared by all who ask; closed with it."""
        return self._gateway

    def close(self) -> None:
        """End the platform with all its workers, and remove everything that it made; does nothing the second time."""
        if self._owner != os.getpid():
            return
        with self._lock:
            if self not in _running:
                return
            _running.discard(self)
            self._hang_up()
            if hasattr(self, "_gateway"):
                self._gateway.close()
            try:
                self._process.wait(_CLOSE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                logger.warning("the embedded platform takes too long to end, and is killed")
                self._process.kill()
                self._process.wait()
            if self._process.returncode != 0:
                # It could not clean up behind itself: what it left is not locked any more.
                shutil.rmtree(self._folder, ignore_errors=True)
                sweep_folders()
                sweep_groups()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _spawn(self, settings: Embedded, redis: str, lock: int) -> "subprocess.Popen[bytes]":
        told = Settings(
            token=self.token,
            redis=redis,
            folder=str(self._folder),
            folder_lock=lock,
            slots=settings.concurrency,
            max_idle=settings.concurrency if settings.max_idle is None else settings.max_idle,
            keep_alive_s=settings.keep_alive_s,
            enforce_limits=settings.enforce_limits,
            emulation=settings.emulation,
            handler=settings.handler,
            on_loss=settings.on_loss,
            preload=settings.preload,
            sys_path=settings.sys_path,
            body_bytes=settings.body_mb * _MIB,
        )
        with self._log_path.open("ab") as log:
            process = subprocess.Popen(
                # -P: the folder that the client happens to be in must not shadow any module.
                [sys.executable, "-P", "-m", "augury.invoke.embedded"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
                pass_fds=(lock,),
                env=_environment(),
            )
        # Short enough for the pipe to hold it, whether or not anybody reads.
        with suppress(BrokenPipeError):
            _pipe(process.stdin).write(msgspec.json.encode(told) + b"\n")
        return process

    @property
    def _log_path(self) -> Path:
        return self._folder / "platform.log"

    def _await_ready(self, timeout_s: float) -> Ready:
        line = self._read_line(time.monotonic() + timeout_s)
        if line is None:
            raise PlatformError(f"the embedded platform did not start within {timeout_s:g} s{self._log_tail()}")
        try:
            answer = msgspec.json.decode(line, type=Ready | NotReady)
        except msgspec.MsgspecError:
            raise PlatformError(f"the embedded platform ended while it started{self._log_tail()}") from None
        if isinstance(answer, NotReady):
            raise PlatformError(f"the embedded platform cannot start: {answer.error.strip()}{self._log_tail()}")
        return answer

    def _read_line(self, deadline_s: float) -> bytes | None:
        """The line that the supervisor answers with; what there is of it if it ended; None if it takes too long."""
        pipe = _pipe(self._process.stdout)
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([pipe], [], [], max(0.0, deadline_s - time.monotonic()))
            if not readable:
                return None
            data = os.read(pipe.fileno(), 65536)
            if not data:
                break
            line += data
        return line

    def _log_tail(self) -> str:
        with suppress(OSError):
            tail = self._log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()
            if tail:
                return f"\nIts log ends with:\n{tail}"
        return ""

    def _hang_up(self) -> None:
        """Close our ends of the pipes; the end of its input is what ends the supervisor."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _forget(self) -> None:
        """In a fork of the client: let go of the pipes, so that they do not outlive the client."""
        self._hang_up()
        self._process.returncode = 0  # not our child, so there is nothing to wait for


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise PlatformError("the embedded platform has no pipe to its supervisor")
    return pipe


def _environment() -> dict[str, str]:
    """The client's environment, so that the supervisor finds Augury wherever the client found it."""
    environment = dict(os.environ)
    home = str(Path(__file__).parents[3])
    if home not in (*site.getsitepackages(), site.getusersitepackages()):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (home, environment.get("PYTHONPATH"))))
    return environment


_running: set[EmbeddedPlatform] = set()
"""Platforms that were not closed yet; they live until then, whether or not anybody else remembers them."""


def _close_all() -> None:
    for platform in tuple(_running):
        platform.close()


def _forget_all() -> None:
    for platform in tuple(_running):
        platform._forget()  # noqa: SLF001 - of this module
    _running.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
