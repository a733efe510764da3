"""A handler for tests: connects to the test that started the platform, and does what it is told there.

Imported by the pre-loaded parent of the platform, never by the test's own process.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from augury.errors import UntrustedData
from augury.invoke.embedded.processes import children
from augury.invoke.gateway import Invocation, InvocationContext, Loss
from augury.trust import process_keyring

_kept: list[Any] = []


def worker_lost(loss: Loss) -> bytes:
    return f"{loss.invocation.worker}: {loss.reason}".encode()


def handle(invocation: Invocation, context: InvocationContext) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["PUPPET_SOCKET"])
        stream = connection.makefile("rw")
        facts = {
            "run": invocation.run_id,
            "worker": invocation.worker,
            "pid": os.getpid(),
            "cold": context.cold,
            "gateway_url": context.gateway_url,
            "memory_group": context.memory_group,
            "began_s": time.time(),
            "received_s": context.received_s,
            "deadline_s": context.deadline_s,
            "context": repr(context),
        }
        _say(stream, facts)
        for line in stream:
            order, *words = line.split()
            if order == "finish":
                return
            _say(stream, ORDERS[order](*words))


def _say(stream: Any, answer: object) -> None:
    stream.write(json.dumps(answer) + "\n")
    stream.flush()


def _raise(text: str) -> None:
    raise RuntimeError(text)


def _signal(number: str) -> None:
    os.kill(os.getpid(), int(number))
    signal.pause()


def _allocate(megabytes: str) -> int:
    block = bytearray(int(megabytes) * 1024 * 1024)
    block[::4096] = b"x" * len(block[::4096])
    _kept.append(block)
    return len(block)


def _try_allocate(megabytes: str) -> str:
    try:
        _allocate(megabytes)
    except MemoryError:
        return "MemoryError"
    return "ok"


def _spawn(session: str) -> int:
    process = subprocess.Popen(["sleep", "1000"], start_new_session=session == "own")
    _kept.append(process)
    return process.pid


def _spawn_orphan() -> int:
    """Start a process in a session of its own, by way of another one that ends."""
    shell = ["sh", "-c", "sleep 1000 >/dev/null & echo $!"]
    return int(subprocess.run(shell, stdout=subprocess.PIPE, check=True, start_new_session=True).stdout)


def _start_daemon() -> int:
    """What the module has started already starts another process."""
    daemon: int = sys.modules["tests.invoke.companion"].start_daemon()
    return daemon


def _join_group() -> int:
    """Go to the process group that the supervisor leads."""
    os.setpgid(0, os.getpgid(os.getppid()))
    return os.getpgrp()


def _burn(cpu_s: str) -> float:
    """How long it takes to use so much processor time."""
    began_s = time.monotonic()
    until_s = time.process_time() + float(cpu_s)
    while time.process_time() < until_s:
        pass
    return time.monotonic() - began_s


def _write(path: str, megabytes: str) -> int:
    with open(path, "wb") as file:
        for _ in range(int(megabytes)):
            file.write(bytes(1024 * 1024))
    return os.stat(path).st_size


def _descriptors() -> list[str]:
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that lists them is closed by now
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(names)


def _refuse(count: str) -> None:
    seal = process_keyring().seal("run")
    for _ in range(int(count)):
        with suppress(UntrustedData):
            seal.check("o1", b"what nobody signed")


def _babble(size: str) -> int:
    """Write nonsense to the worker's own socket: of all sockets here the one that has no name at its other end."""
    for descriptor in range(3, 100):
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
            if not found.getpeername():
                return found.send(b"\xff" * int(size))
    raise AssertionError("there is no such socket")


ORDERS: dict[str, Callable[..., object]] = {
    "raise": _raise,
    "exit": lambda status: os._exit(int(status)),
    "leave": lambda status: sys.exit(int(status)),
    "signal": _signal,
    "allocate": _allocate,
    "try_allocate": _try_allocate,
    "spawn": _spawn,
    "spawn_orphan": _spawn_orphan,
    "start_daemon": _start_daemon,
    "children": lambda: sorted(children()),
    "join_group": _join_group,
    "burn": _burn,
    "write": _write,
    "descriptors": _descriptors,
    "random": lambda: [random.random(), float(np.random.random())],
    "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
    "echo": str,
    "refuse": _refuse,
    "babble": _babble,
}
