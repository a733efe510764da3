"""The pre-loaded parent: imports once what all workers need, then forks them in milliseconds.

It is single-threaded, and does nothing but wait for two things: requests of the supervisor (fork a worker that
talks through this socket; kill that worker) and deaths of its children, which it reports. When the supervisor is
gone, it reads the end of its control socket, kills all that descends from it, and ends.

What a worker or an imported module had started, and whose parent died, becomes its child. It is reaped here, but lives
until all end: nobody can tell any more whether the one that it came from is gone.

Before the first fork all objects are moved out of the garbage collector's sight (`gc.freeze`): a collection in a
worker would otherwise write to, and so copy, nearly every page that it shares with its parent.
"""

import gc
import importlib
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

import msgspec

from augury.dag.imports import watch_imports
from augury.invoke.embedded.processes import adopt_orphans, end_children, kill_group, kill_with_group
from augury.invoke.embedded.wire import (
    FORK,
    REQUEST,
    Exited,
    Forked,
    FromParent,
    ParentBroken,
    ParentReady,
    Refused,
    Settings,
    frame,
)
from augury.invoke.embedded.worker_loop import Handle, become_worker

logger = logging.getLogger(__name__)

_ALONE_S: Final = 5.0
"""How long threads of the rehearsal may take to end: those that keep an eye on a busy machine."""
_LOOK_S: Final = 0.001


def load(name: str) -> Callable[..., Any]:
    """The function behind a name such as `package.module:function`."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def fork_zygote(settings: Settings) -> tuple[int, socket.socket]:
    """Fork the pre-loaded parent; returns its process id and the supervisor's end of the control socket.

    To be called while there is only one thread, and no event loop.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.close(settings.folder_lock)
        os.close(settings.object_lock)
        be_zygote(theirs, settings)
    theirs.close()
    return pid, ours


def spawn_zygote(settings: Settings) -> tuple[int, socket.socket]:
    """Start a pre-loaded parent as `fork_zygote` does, from a process that has threads: as a program of its own.

    Raises:
        OSError: The system gives no process.
    """
    ours, theirs = socket.socketpair()
    told, teller = os.pipe()
    with theirs, open(told, "rb"), open(teller, "wb") as pipe:
        theirs.set_inheritable(True)
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "augury.invoke.embedded", str(theirs.fileno())],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, told, 0)],
        )
        pipe.write(msgspec.json.encode(settings) + b"\n")  # short enough for the pipe to hold it
    return pid, ours


def be_zygote(control: socket.socket, settings: Settings) -> NoReturn:
    """Be the pre-loaded parent until the supervisor is gone; never returns."""
    status = 1
    try:
        control.set_inheritable(False)
        _run(control, settings)
        status = 0
    except Exception:
        logger.exception("the pre-loaded parent fails")
    finally:  # nothing may return into the supervisor's code
        os._exit(status)


def _run(control: socket.socket, settings: Settings) -> None:
    _detach()
    adopt_orphans()
    watch_imports()
    try:
        for module in settings.preload:
            importlib.import_module(module)
        load(settings.on_loss)
        handle = load(settings.handler)
    except Exception as error:
        logger.exception("the worker's code cannot be imported")
        control.sendall(frame(ParentBroken(f"{type(error).__name__}: {error}")))
        return
    _rehearse(settings)
    gc.collect()
    gc.disable()
    gc.freeze()
    control.sendall(frame(ParentReady()))
    _Zygote(control, handle).serve()


def _rehearse(settings: Settings) -> None:
    """Do what workers then need not do; what goes wrong here goes wrong there, if it matters."""
    try:
        if settings.rehearsal:
            load(settings.rehearsal)()
    except Exception:
        logger.exception("the rehearsal of workers fails, and they start more slowly")
    until_s = time.monotonic() + _ALONE_S
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < until_s:
        time.sleep(_LOOK_S)  # no thread is to run while workers are forked


def _detach() -> None:
    """Let go of what belongs to the supervisor: the client's pipes and its signals."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Zygote:
    """The loop of the pre-loaded parent, and the workers that it has."""

    def __init__(self, control: socket.socket, handle: Handle) -> None:
        self._control = control
        self._handle = handle
        self._pid = os.getpid()
        self._pids: dict[int, int] = {}
        self._workers: dict[int, int] = {}
        self._wakeup, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Fork, kill, reap and report until the supervisor is gone."""
        self._wakeup.setblocking(False)
        self._waker.setblocking(False)
        signal.signal(signal.SIGCHLD, _wake)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        try:
            while self._step():
                pass
        finally:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            end_children(known=self._workers)

    def _step(self) -> bool:
        for key, _ in self._selector.select():
            if key.fileobj is self._wakeup:
                with suppress(BlockingIOError):
                    self._wakeup.recv(4096)
                self._reap()
            elif not self._obey():
                return False
        return True

    def _obey(self) -> bool:
        """Carry out one request; false when the supervisor is gone."""
        try:
            request, descriptors, _, _ = socket.recv_fds(self._control, REQUEST.size, 1)
        except ConnectionError:
            return False
        if len(request) < REQUEST.size:
            return False
        operation, worker = REQUEST.unpack(request)
        if operation == FORK:
            self._fork(worker, socket.socket(fileno=descriptors[0]))
        elif worker in self._pids:
            kill_with_group(self._pids[worker])
        return True

    def _fork(self, worker: int, connection: socket.socket) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            connection.close()
            self._report(Refused(worker, f"the system starts no more processes: {error.strerror}"))
            return
        if pid == 0:
            self._be_worker(connection)
        connection.close()
        with suppress(OSError):
            os.setpgid(pid, pid)  # in both processes, so that it is done whoever comes first
        self._pids[worker] = pid
        self._workers[pid] = worker
        self._report(Forked(worker, pid))

    def _be_worker(self, connection: socket.socket) -> None:
        """The forked process; never returns."""
        status = 1
        try:
            os.setpgid(0, 0)
            self._selector.close()
            for inherited in (self._control, self._wakeup, self._waker):
                inherited.close()
            become_worker(connection, self._handle, self._pid)
            status = 0
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self._workers.pop(pid, None)
            if worker is not None:
                kill_group(pid)  # subprocesses that it left behind
                del self._pids[worker]
                self._report(Exited(worker, status, usage.ru_maxrss // 1024))

    def _report(self, message: FromParent) -> None:
        # If the supervisor is gone, the next read of the control socket says so.
        with suppress(ConnectionError):
            self._control.sendall(frame(message))


def _wake(_number: int, _frame: object) -> None:
    """Nothing: the signal's number in the wake-up socket is what counts."""
