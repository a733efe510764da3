"""The supervisor's process: its HTTP service, and the order in which things start and end.

Whatever ends the process - the end of its standard input, SIGTERM, an error - everything that it began is undone
on the way out: workers, control groups, Redis, folders.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec

from augury.config import Resources, StorageConfig
from augury.errors import DefinitionError, PlatformError, StorageError
from augury.invoke.embedded.cgroups import Groups, machine_memory_mb, open_limits, sweep_groups
from augury.invoke.embedded.descriptors import raise_file_limit, share_out
from augury.invoke.embedded.folders import remove_folder, sweep_folders
from augury.invoke.embedded.processes import adopt_orphans
from augury.invoke.embedded.supervisor import Supervisor
from augury.invoke.embedded.wire import END, NotReady, Ready, Settings
from augury.invoke.gateway import Invocation, Limits
from augury.invoke.http import HttpError, HttpServer, Request, Response, ServerLimits, bearer
from augury.storage.server import RedisServer

logger = logging.getLogger(__name__)

_LOG_BYTES: Final = 16 * 1024 * 1024
_LOG_CHECK_S: Final = 5.0


_START_S: Final = 0.03
"""How long a worker takes to start here, at most, while there is room."""


class Prewarm(msgspec.Struct, frozen=True):
    """The body of `POST /prewarm`."""

    resources: Resources
    count: int


_INVOCATIONS: Final = msgspec.msgpack.Decoder(list[Invocation])
_PREWARM: Final = msgspec.msgpack.Decoder(Prewarm)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, DefinitionError)


class Service:
    """The routes of the platform."""

    def __init__(self, supervisor: Supervisor, limits: Limits) -> None:
        self._supervisor = supervisor
        self._limits = limits

    async def answer(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            HttpError: The request is refused.
        """
        if request.path.startswith("/stop/"):
            _demand(request, "POST")
            dropped, killed = self._supervisor.stop(unquote(request.path.removeprefix("/stop/")))
            return Response.json({"dropped": dropped, "killed": killed})
        if request.path.startswith("/runs/"):
            _demand(request, "GET")
            return await self._run_status(unquote(request.path.removeprefix("/runs/")))
        match request.path:
            case "/invoke":
                _demand(request, "POST")
                return self._invoke(request.body)
            case "/prewarm":
                _demand(request, "POST")
                return self._prewarm(request.body)
            case "/limits":
                _demand(request, "GET")
                return Response.json(self._limits)
            case "/status":
                _demand(request, "GET")
                return Response.json(self._supervisor.counts())
        raise HttpError(HTTPStatus.NOT_FOUND, "there is nothing here")

    async def _run_status(self, run_id: str) -> Response:
        try:
            return Response.json({"status": await self._supervisor.status_of(run_id)})
        except StorageError as error:
            raise HttpError(HTTPStatus.BAD_GATEWAY, str(error)) from None

    def _invoke(self, body: bytes) -> Response:
        self._check_health()
        try:
            invocations = _INVOCATIONS.decode(body)
        except _UNREADABLE as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"not a list of invocations: {error}") from None
        self._supervisor.invoke(invocations)
        return Response(status=HTTPStatus.ACCEPTED)

    def _prewarm(self, body: bytes) -> Response:
        self._check_health()
        try:
            wanted = _PREWARM.decode(body)
        except _UNREADABLE as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"not a request to pre-warm: {error}") from None
        self._supervisor.prewarm(wanted.resources, wanted.count)
        return Response(status=HTTPStatus.ACCEPTED)

    def _check_health(self) -> None:
        if self._supervisor.broken:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"{self._supervisor.broken}; start the platform anew")


def _demand(request: Request, method: str) -> None:
    if request.method != method:
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"use {method}", (("Allow", method),))


def serve(settings: Settings, zygote: int, control: socket.socket) -> None:
    """Be the supervisor until the client is gone; the pre-loaded parent was forked before."""
    adopt_orphans()
    files = raise_file_limit()
    share = share_out(files, settings.slots, settings.max_idle)
    if share.slots < settings.slots:
        logger.warning("only %d workers run at once, not %d: %d files may be open", share.slots, settings.slots, files)
    settings = msgspec.structs.replace(settings, slots=share.slots, max_idle=share.max_idle)
    accepted = ServerLimits(body_bytes=settings.body_bytes, connections=share.connections)
    folder = Path(settings.folder)
    with contextlib.ExitStack() as stack:
        stack.callback(remove_folder, folder)
        stack.callback(remove_folder, Path(settings.object_dir))
        address = settings.redis or _start_redis(folder, stack)
        # Not under the name that an earlier one had which died: its groups may still be there.
        later = f".{settings.generation}" if settings.generation else ""
        groups = open_limits(folder.name.removeprefix("augury-") + later, settings.enforce_limits)
        stack.callback(groups.close)
        storage = StorageConfig(
            redis=address,
            object_dir=settings.object_dir,
            patience_s=settings.patience_s,
            timeout_s=settings.redis_timeout_s,
        )
        asyncio.run(_serve(settings, accepted, storage, groups, zygote, control))


def _start_redis(folder: Path, stack: contextlib.ExitStack) -> str:
    """The address of a Redis server of our own, which is stopped with the stack."""
    try:
        return stack.enter_context(RedisServer(folder, on_death=_end_without_redis)).address
    except PlatformError as error:
        _tell_client(NotReady(error=str(error)))
        raise


def _end_without_redis() -> None:
    """With its own Redis everything is gone that the platform's runs had: it ends, and the next run gets a new one."""
    logger.error("the platform's Redis died")
    os.kill(os.getpid(), signal.SIGTERM)


async def _serve(
    settings: Settings,
    accepted: ServerLimits,
    storage: StorageConfig,
    groups: Groups,
    zygote: int,
    control: socket.socket,
) -> None:
    end, gone = asyncio.Event(), asyncio.Event()
    _watch_for_the_end(end, gone)
    supervisor = Supervisor(settings, storage, groups, zygote, control)
    imitated_s = settings.emulation.cold_start.high_s if settings.emulation else 0.0
    limits = Limits(
        concurrency=settings.slots,
        shares_files=True,
        start_s=_START_S + imitated_s,
        # What workers have unless told otherwise must do on a small machine too: hardly any task uses all of it.
        memory_mb=machine_memory_mb(),
        time_limit_s=settings.time_limit_s,
    )
    service = Service(supervisor, limits)
    server = HttpServer(service.answer, accepted, bearer(settings.token))
    try:
        await server.start(port=settings.port)
        supervisor.gateway_url = server.url
        await _first_of(supervisor.ready, end, gone)
        if supervisor.broken:
            _tell_client(NotReady(error=supervisor.broken))
            return
        ready = Ready(
            url=server.url,
            redis=storage.redis,
            object_dir=storage.object_dir,
            limits=limits,
            notes=groups.notes,
            unlimited=groups.unlimited,
        )
        client = _tell_client(ready)
        supervisor.on_break = lambda what: _tell(client, NotReady(error=what))
        threading.Thread(target=_sweep, name="sweeper", daemon=True).start()
        _trim_log()
        supervisor.sweep_now_and_then()
        await _first_of(end, gone)
        if not end.is_set():
            await _go_on(supervisor, settings, end)
    finally:
        await server.close()
        supervisor.close()


async def _go_on(supervisor: Supervisor, settings: Settings, end: asyncio.Event) -> None:
    """The client is gone: end what was only for it, and stay for what is detached."""
    bound, detached = supervisor.runs()
    if bound and (detached or settings.redis):  # with a Redis of our own and nothing else, they simply end with us
        await _first_of(asyncio.ensure_future(supervisor.cancel_runs(bound)), end)
    if detached and not end.is_set():
        lingering = asyncio.ensure_future(supervisor.linger(settings.linger_s, settings.detached_s))
        await _first_of(lingering, end)


async def _first_of(*awaited: "asyncio.Future[None] | asyncio.Event") -> None:
    """Wait until one of these is there; the others are not waited for any more."""
    futures = [asyncio.ensure_future(one.wait() if isinstance(one, asyncio.Event) else one) for one in awaited]
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for future, one in zip(futures, awaited, strict=True):
        if isinstance(one, asyncio.Event):
            future.cancel()


def _watch_for_the_end(end: asyncio.Event, gone: asyncio.Event) -> None:
    """Set `end` when the client says that this is the end, or at SIGTERM; `gone` when it is gone without a word."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        said = os.read(0, 4096)
        if END in said:
            end.set()
        elif not said:
            loop.remove_reader(0)
            gone.set()

    loop.add_reader(0, read)
    loop.add_signal_handler(signal.SIGTERM, end.set)


def _tell_client(message: Ready | NotReady) -> int:
    """Send the one line that the client waits for, and let go of standard output; returns another way to the client."""
    client = os.dup(1)
    os.dup2(2, 1)
    _tell(client, message)
    return client


def _tell(client: int, message: Ready | NotReady) -> None:
    # A client that is gone by now is noticed at the other end.
    with contextlib.suppress(BrokenPipeError):
        os.write(client, msgspec.json.encode(message) + b"\n")


def _sweep() -> None:
    """Remove what platforms left behind that were killed; nobody waits for it."""
    try:
        sweep_folders()
        sweep_groups()
    except OSError:
        logger.exception("leftovers of earlier platforms could not be removed")


def _trim_log() -> None:
    """Empty the log whenever it has grown too large; it is opened for appending, so writers do not notice."""
    if os.fstat(2).st_size > _LOG_BYTES:
        os.ftruncate(2, 0)
    asyncio.get_running_loop().call_later(_LOG_CHECK_S, _trim_log)
