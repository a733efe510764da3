"""The client's side of the embedded platform: settings, and a handle on the running processes."""

import atexit
import hashlib
import io
import logging
import os
import secrets
import select
import signal
import site
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Final, Self
from urllib.parse import urlsplit

import msgspec

from augury.backoff import Backoff
from augury.config import PATIENCE_S, StorageConfig, but_not, is_number, is_whole
from augury.errors import DefinitionError, PlatformError
from augury.invoke.embedded.cgroups import sweep_groups
from augury.invoke.embedded.cloud import Emulation
from augury.invoke.embedded.folders import (
    make_object_folder,
    make_platform_folder,
    remove_folder,
    sweep_folders,
)
from augury.invoke.embedded.silence import Silence
from augury.invoke.embedded.wire import END, NotReady, Ready, Settings
from augury.invoke.gateway import Limits
from augury.invoke.http_gateway import HttpGateway, timeout_within
from augury.trust.seal import Keyring
from augury.trust.sources import KEY_FILE_VARIABLE, KEY_VARIABLE, TOKEN_VARIABLE, client_keyring

logger = logging.getLogger(__name__)

_SLOTS_PER_PROCESSOR: Final = 4
_FEWEST_SLOTS: Final = 8
_CLOSE_TIMEOUT_S: Final = 15.0
_PATIENCE_S: Final = 2.0
_OWN_PATIENCE_S: Final = 1.0
_OWN_TIMEOUT_S: Final = 20.0
"""How long its own Redis may take for an answer: it is there, and whatever holds it up here will pass."""
_REVIVAL_S: Final = 15.0
"""How long it may take until another supervisor is in the place of one that died."""
_PROBES: Final = 4
"""How often a supervisor is asked whether it is there, in the time for which it may be silent; at least."""
_LEAST_SILENCE_S: Final = 3.0
_LONGEST_PROBE_S: Final = 10.0
_MOST_REVIVALS: Final = 3
_REVIVALS_S: Final = 60.0
_LOG_TAIL_BYTES: Final = 4000
_MIB: Final = 1024 * 1024
_SECRETS: Final = frozenset({KEY_VARIABLE, KEY_FILE_VARIABLE, TOKEN_VARIABLE})
"""Variables that tasks, and whoever lists processes, have no use for: workers get these over private sockets."""
_THREADS: Final = "OMP_NUM_THREADS"
_THREADS_TOO: Final = ("BLIS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""How many threads libraries compute with: else as many as the machine has processors, in each worker."""
_MALLOC: Final = "GLIBC_TUNABLES"
_LARGE_PAGES: Final = "glibc.malloc.hugetlb"
_ARRAYS: Final = f"{_LARGE_PAGES}=1:glibc.malloc.mmap_threshold=16777216:glibc.malloc.trim_threshold=16777216"
"""How glibc gets memory: in pages of 2 MiB, since to get them in pages of 4 KiB takes a sixth of the time in which
arrays of 26 MB are made and taken apart (QR). With these, arrays of 16 MiB and more are given back when they are freed,
and of what smaller ones leave up to 16 MiB are kept."""


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """A FaaS platform on this machine, with nothing to set up: worker processes, and a Redis of its own.

    Args:
        slots: How many workers run at once; by default four per processor, and at least 8. Fewer run where this
            process may not open five files for each of them (`ulimit -n`).
        keep_alive_s: How long a worker that has nothing to do is kept warm; 0 makes every start a cold one.
        max_idle: How many such workers are kept at most; by default as many as there are slots.
        enforce_limits: Whether workers are held to their CPU and memory, as far as the system allows;
            `EmbeddedPlatform.notes` says how far that is.
        emulation: A cloud to imitate.
        preload: Modules that the workers' common parent imports, so that no worker has to: `("pandas",)`.
        sys_path: Folders to import `handler` and `preload` from, besides where Python looks anyway.
        handler: What a worker calls for each invocation, as `module:function`.
        on_loss: What puts the loss of a worker into words for the client, as `module:function`.
        rehearsal: What the workers' common parent calls before it forks the first of them, so that none has to do what
            is only done once, as `module:function`; empty: nothing.
        time_limit_s: How long an invocation may take; then its worker is killed, as a cloud does. 0 is for ever.
        linger_s: How long the results of detached runs are kept, once the client is gone and all of them are over.
        detached_s: How long detached runs may go on without a client.
        body_mb: The largest request that the platform takes.
        start_timeout_s: How long the platform may take to start, with all that `preload` imports.

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
    rehearsal: str = "augury.worker.rehearsal:rehearse"
    time_limit_s: float = 0.0
    linger_s: float = 900.0
    detached_s: float = 24 * 3600.0
    body_mb: int = 64
    start_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        whole_of_1 = "a whole number, at least 1"
        self._check("slots", whole_of_1, self.slots is None or is_whole(self.slots, least=1))
        self._check("max_idle", "a whole number, at least 0", self.max_idle is None or is_whole(self.max_idle, least=0))
        self._check("body_mb", whole_of_1, is_whole(self.body_mb, least=1))
        for name in ("keep_alive_s", "linger_s", "detached_s", "start_timeout_s", "time_limit_s"):
            self._check(name, "a number of seconds, at least 0", is_number(getattr(self, name)))
        self._check("enforce_limits", "True or False", isinstance(self.enforce_limits, bool))
        self._check("emulation", "an Emulation", isinstance(self.emulation, Emulation | None))
        for name in ("preload", "sys_path"):
            self._check(name, "a tuple of str", _are_strings(getattr(self, name)))
        for name in ("handler", "on_loss", "rehearsal"):
            value = getattr(self, name)
            is_none = name == "rehearsal" and value == ""
            named = isinstance(value, str) and all(value.partition(":")[::2])
            self._check(name, "`module:function`", is_none or named)

    def _check(self, name: str, expected: str, fits: bool) -> None:
        if not fits:
            raise DefinitionError(f"Embedded.{name} must be {expected}, {but_not(getattr(self, name))}")

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

    def start(
        self, redis: str | None = None, keyring: Keyring | None = None, patience_s: float = PATIENCE_S
    ) -> "EmbeddedPlatform":
        """Start the platform and wait until it is ready.

        Args:
            redis: The address of a Redis server to use, instead of one that the platform starts for itself.
            keyring: The keys that workers check and sign with; by default those of the environment, or the user's.
            patience_s: How long that server may be away, before a run fails.

        Raises:
            PlatformError: It does not start; holds the reason and the end of its log.
        """
        return EmbeddedPlatform(self, redis or "", keyring or client_keyring(), patience_s)


def _are_strings(values: object) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(value, str) for value in values)


class EmbeddedPlatform:
    """A running embedded platform; made by `Embedded.start`. Thread-safe.

    It ends with `close`, with the context manager, or with the client's process, however that ends. In a fork
    of the client it is a mere view: its gateway works, and closing it does nothing.

    If its supervisor dies, all workers die with it. Unless it had a Redis of its own, which then is gone too,
    another one is started in its place: under the same address, with the same folders. A supervisor that answers
    nothing for as long as patience lasts, because it is stopped, say, is killed, and so counts as dead.

    Attributes:
        storage_config: Where runs keep their data.
        owns_storage: Whether that is a Redis of its own, which ends with it.
        kept: The detached runs that it must not end with its client for.
        limits: What it can do.
        notes: Which limits are enforced, how, and which are not and why.
        unlimited: What was to be limited and is not, and why, in a few words; mostly empty.
        url: Where its gateway listens.
        token: What to show there.
        keyring: What its workers check and sign with.
        pid: Of the supervisor.
        deaths: How many supervisors have died and were replaced.
    """

    def __init__(self, settings: Embedded, redis: str, keyring: Keyring, patience_s: float = PATIENCE_S) -> None:
        self._silence_s = max(_LEAST_SILENCE_S, patience_s)
        timeout_s = timeout_within(patience_s)
        # Its own Redis keeps nothing on disk: there is nothing to wait for when that has died.
        patience_s = patience_s if redis else _OWN_PATIENCE_S
        self._redis_timeout_s = None if redis else _OWN_TIMEOUT_S
        self.owns_storage = not redis
        self.token = secrets.token_urlsafe(32)
        self.keyring = keyring
        self.kept: set[str] = set()
        self.deaths = 0
        self._settings, self._redis, self._patience_s = settings, redis, patience_s
        self._owner = os.getpid()
        self._lock = Lock()
        self._given_up = False
        self._closed = threading.Event()
        self._log: IO[bytes] = io.BytesIO()  # kept open: the supervisor removes the file when it ends
        self._make_folders()
        try:
            self._process = self._spawn()
        except OSError as error:
            self._remove_folders()
            raise PlatformError(f"the embedded platform's process cannot be started: {error}") from error
        _running.add(self)
        try:
            ready = self._await_ready(settings.start_timeout_s)
        except BaseException:
            self.close()
            raise
        self.pid = self._process.pid
        self.url = ready.url
        if redis:
            threading.Thread(target=self._keep, name="augury-platform-keeper", daemon=True).start()
        threading.Thread(target=self._listen, name="augury-platform-listener", daemon=True).start()
        # On the same machine: if it does not answer soon, nobody is about to start it again.
        gateway_s = _REVIVAL_S if redis else _PATIENCE_S
        self._gateway = HttpGateway(ready.url, self.token, timeout_s, backoff=Backoff(patience_s=gateway_s))
        self.limits: Limits = ready.limits
        self.notes: tuple[str, ...] = ready.notes
        self.unlimited: str = ready.unlimited
        self.storage_config = StorageConfig(
            redis=ready.redis,
            object_dir=ready.object_dir,
            patience_s=patience_s,
            timeout_s=self._redis_timeout_s,
        )

    def __repr__(self) -> str:
        return f"EmbeddedPlatform({getattr(self, 'url', 'starting')!r})"

    @property
    def folder(self) -> Path:
        """Where its files are; it goes with the platform."""
        return self._folder

    @property
    def alive(self) -> bool:
        """Whether its supervisor runs, or another one is about to; in a fork of the client it is none of ours."""
        return not self._given_up if self._redis else self._process.poll() is None

    @property
    def usable(self) -> bool:
        """Whether it can start workers, as far as it has told; one that cannot is no good for another run."""
        return self.alive and not self._has_word()

    def _has_word(self) -> bool:
        """Whether the supervisor has said anything since it was ready: that can only be that it is not any more."""
        poll = select.poll()
        try:
            poll.register(_pipe(self._process.stdout), select.POLLIN)
        except ValueError:
            return False  # the pipe is closed: another one is about to take its place
        return any(found & select.POLLIN for _, found in poll.poll(0))  # the mere end of the pipe is something else

    def gateway(self) -> HttpGateway:
        """The gateway to the platform, shared by all who ask; closed with it."""
        return self._gateway

    def close(self) -> None:
        """End the platform with all its workers, and remove everything that it made; does nothing the second time.

        If there are detached runs that are `kept`, it is only let go, and ends when they need it no more.
        """
        if self._owner != os.getpid():
            return
        with self._lock:
            if self not in _running:
                return
            _running.discard(self)
            self._closed.set()
            kept = sorted(self.kept)  # other threads still release runs
            stays = bool(kept) and self._process.poll() is None
            if not stays:
                with suppress(OSError, ValueError):  # it may be gone
                    _pipe(self._process.stdin).write(END)
            self._hang_up()
            if hasattr(self, "_gateway"):
                self._gateway.close()
            self._close_locks()
            if stays:
                # It ends by itself, when its runs are over and their results no longer kept.
                logger.warning(
                    "the embedded platform (process %d) stays for runs that go on without this client: %s; "
                    "augury.attach(…) follows them, and submit(…, detach=False) starts runs that end with it",
                    self.pid,
                    ", ".join(kept),
                )
                with suppress(RuntimeError):  # no more threads, as when this process ends: then nobody has to wait
                    threading.Thread(target=self._process.wait, name="augury-platform-end", daemon=True).start()
                return
            self._continue()
            try:
                self._process.wait(_CLOSE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                logger.warning("the embedded platform takes too long to end, and is killed")
                self._kill()
                self._process.wait()
            if self._process.returncode != 0:
                # It could not clean up behind itself: what it left is not locked any more.
                self._remove_folders()
                sweep_folders()
            if self._process.returncode != 0 or self.deaths:
                sweep_groups()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _keep(self) -> None:
        """Start another supervisor whenever one dies, until the platform is closed; the life of a thread."""
        deaths_s: list[float] = []
        while True:
            self._process.wait()
            self._continue()  # a pre-loaded parent that is stopped does not see that it is alone
            with self._lock:
                deaths_s = [at_s for at_s in deaths_s if at_s > time.monotonic() - _REVIVALS_S]
                deaths_s.append(time.monotonic())
                if self not in _running:
                    return
                logger.warning("the embedded platform died; another takes its place%s", self._log_tail())
                if len(deaths_s) > _MOST_REVIVALS or not self._revive():
                    self._given_up = True
                    return

    def _listen(self) -> None:
        """Kill a supervisor that is silent for too long, until the platform is closed; the life of a thread."""
        pause_s = min(_LONGEST_PROBE_S, self._silence_s / _PROBES)
        gateway = HttpGateway(self.url, self.token, pause_s)
        process, silence = self._process, Silence(self._silence_s)
        asked_s = time.monotonic()
        while not self._closed.wait(max(0.0, asked_s + pause_s - time.monotonic())):
            with self._lock:  # not while another one takes its place
                if process is not self._process:
                    process, silence = self._process, Silence(self._silence_s)
            asked_s = time.monotonic()
            if not gateway.is_silent():
                silence.ends()
            elif silence.lasts(asked_s, time.monotonic()):
                self._end_silent(process)
                silence.ends()
        gateway.close()

    def _end_silent(self, process: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            if process is self._process and self in _running and process.poll() is None:
                logger.warning(
                    "the embedded platform (process %d) has answered nothing for %.3g s, and is killed",
                    process.pid,
                    self._silence_s,
                )
                self._kill()

    def _kill(self) -> None:
        self._process.kill()
        self._continue()

    def _continue(self) -> None:
        """Let processes go on that are stopped: the supervisor, and its child, which ends when that is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGCONT)

    def _revive(self) -> bool:
        """Start another supervisor under the same address; whether it runs."""
        self._hang_up()
        self.deaths += 1
        try:
            self._process = self._spawn(port=urlsplit(self.url).port or 0)
            self._await_ready(self._settings.start_timeout_s)
        except (OSError, PlatformError):
            logger.exception("no other embedded platform can be started")
            return False
        self.pid = self._process.pid
        return True

    def _make_folders(self) -> None:
        """Make the folders, locked by this process and by the supervisor: they stay while one of the two lives."""
        try:
            self._folder, folder_lock = make_platform_folder()
        except OSError as error:
            raise PlatformError(f"the embedded platform gets no folder for its files: {error}") from error
        self._locks = [folder_lock]
        try:
            self._object_dir, object_lock = make_object_folder(self._folder)
        except OSError as error:
            self._object_dir = self._folder
            self._remove_folders()
            raise PlatformError(f"the embedded platform gets no folder for large objects: {error}") from error
        self._locks.append(object_lock)

    def _remove_folders(self) -> None:
        self._close_locks()
        for folder in (self._object_dir, self._folder):
            remove_folder(folder)

    def _close_locks(self) -> None:
        locks, self._locks = self._locks, []
        for lock in locks:
            os.close(lock)

    def _spawn(self, port: int = 0) -> "subprocess.Popen[bytes]":
        settings, (folder_lock, object_lock) = self._settings, self._locks
        told = Settings(
            token=self.token,
            keys=self.keyring.keys,
            redis=self._redis,
            patience_s=self._patience_s,
            redis_timeout_s=self._redis_timeout_s,
            port=port,
            generation=self.deaths,
            linger_s=settings.linger_s,
            detached_s=settings.detached_s,
            folder=str(self._folder),
            folder_lock=folder_lock,
            object_dir=str(self._object_dir),
            object_lock=object_lock,
            slots=settings.concurrency,
            max_idle=settings.concurrency if settings.max_idle is None else settings.max_idle,
            keep_alive_s=settings.keep_alive_s,
            enforce_limits=settings.enforce_limits,
            emulation=settings.emulation,
            handler=settings.handler,
            on_loss=settings.on_loss,
            rehearsal=settings.rehearsal,
            preload=settings.preload,
            sys_path=settings.sys_path,
            body_bytes=settings.body_mb * _MIB,
            start_timeout_s=settings.start_timeout_s,
            time_limit_s=settings.time_limit_s,
        )
        self._log.close()
        self._log = self._log_path.open("a+b")
        with self._log_path.open("ab") as log:
            process = subprocess.Popen(
                # -P: the folder that the client happens to be in must not shadow any module.
                [sys.executable, "-P", "-m", "augury.invoke.embedded"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
                pass_fds=(folder_lock, object_lock),
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
        with suppress(OSError, ValueError):  # it is closed
            size = os.fstat(self._log.fileno()).st_size
            data = os.pread(self._log.fileno(), _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES))
            tail = data.decode("utf-8", "replace").strip()
            if tail:
                return f"\nIts log ends with:\n{tail}"
        return ""

    def _hang_up(self) -> None:
        """Close our ends of the pipes and the log; the end of its input is what ends the supervisor."""
        self._log.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _forget(self) -> None:
        """In a fork of the client: let go of pipes and locks, so that they do not outlive the client."""
        self._hang_up()
        self._close_locks()
        self._process.returncode = 0  # not our child, so there is nothing to wait for
        self._given_up = True  # it does not stay for our runs, nor end with us: they need one of their own


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise PlatformError("the embedded platform has no pipe to its supervisor")
    return pipe


def _environment() -> dict[str, str]:
    """The client's environment, so that the supervisor finds Augury wherever the client found it; without secrets.

    A worker runs a task for each of its virtual CPUs, so libraries compute with one thread, and memory comes in large
    pages, unless the client says otherwise.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    threads = environment.setdefault(_THREADS, "1")
    for name in _THREADS_TOO:
        environment.setdefault(name, threads)
    malloc = environment.get(_MALLOC, "")
    if _LARGE_PAGES not in malloc:
        environment[_MALLOC] = ":".join(filter(None, (_ARRAYS, malloc)))  # the last one counts
    home = str(Path(__file__).parents[3])
    if home not in (*site.getsitepackages(), site.getusersitepackages()):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (home, environment.get("PYTHONPATH"))))
    return environment


_running: set[EmbeddedPlatform] = set()
"""Platforms that were not closed yet; they live until then, whether or not anybody else remembers them."""


def _close_all() -> None:
    with ExitStack() as closing:  # closes the others, too, if one of them is interrupted
        for platform in tuple(_running):
            closing.callback(platform.close)


def _forget_all() -> None:
    for platform in tuple(_running):
        platform._forget()  # noqa: SLF001 - of this module
    _running.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
