"""One run under attack, from its seed to what came of it."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from augury import Client, Embedded
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer
from augury.testing.faults import injected
from tests.chaos.adversary import (
    CLIENT_KILLED,
    NOTHING,
    PARENT_KILLED,
    PARENT_STOPPED,
    REDIS_KILLED,
    SUPERVISOR_KILLED,
    SUPERVISOR_STOPPED,
    ZOMBIE,
    Attack,
    Watcher,
    plan_attack,
    read_mark,
    send,
)
from tests.chaos.submitter import LEASE_S
from tests.chaos.workloads import PLANNERS, WORKLOADS
from tests.invoke.stage import ROOT, family, zygote_of

_PATIENCE_S = 60.0
_SILENCE_S = 3.0
"""For how long a gateway may be silent, if that is what goes wrong; otherwise nothing is to be given up."""
_SLOTS = 4
KEEPING = {"appendonly": "yes", "appendfsync": "always"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one run.

    Attributes:
        kind: What was done to it; `seed`: what that was chosen by.
        workload: What was run; `planner`: how.
        strikes: How many times something was struck: it may have been over too soon.
        problem: Why it counts as lost; empty if the result was right and nothing was left behind.
        took_s: From asking for it to its value.
        back_s: From the strike to the first instruction of the worker that stands for the struck one; None if none did.
    """

    kind: str
    seed: int
    workload: str
    planner: str
    strikes: int
    problem: str
    took_s: float
    back_s: float | None


@contextmanager
def own_redis() -> Iterator[RedisServer]:
    """A Redis that survives being killed."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, RedisServer(Path(folder), KEEPING) as server:
        yield server


def run_under_attack(kind: str, seed: int, server: RedisServer) -> Outcome:
    """Run a workload that the seed chooses, strike as the seed says, and see what comes of it."""
    rng = Random(seed)
    workload, planner = rng.randrange(len(WORKLOADS)), rng.randrange(len(PLANNERS))
    _, expected = WORKLOADS[workload]()
    run = _attach if kind == CLIENT_KILLED else _compute
    with tempfile.TemporaryDirectory(prefix="chaos-marks-") as folder:
        attack = plan_attack(kind, rng, Path(folder))
        began_s = time.monotonic()
        problem, struck_s = "", None
        with injected(*attack.faults):
            try:
                value, struck_s = run(workload, planner, attack, server)
                problem = "" if value == expected else f"a wrong result: {str(value)[:100]}"
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what the user would have seen
                problem = f"{type(error).__name__}: {error}"
        took_s = time.monotonic() - began_s
        left_behind = _left_behind(server)
        if kind != CLIENT_KILLED:  # who was killed may have come back for the result: it stays until it expires
            problem = problem or left_behind
        return Outcome(
            kind=kind,
            seed=seed,
            workload=WORKLOADS[workload].__name__,
            planner=PLANNERS[planner].name,
            strikes=len(attack.struck()) or int(struck_s is not None),
            problem=problem,
            took_s=took_s,
            back_s=_back_s(attack, struck_s),
        )


def _compute(workload: int, planner: int, attack: Attack, server: RedisServer) -> tuple[Any, float | None]:
    """The value of a run that something happens to; and when that was, if this process did it."""
    tasks, _ = WORKLOADS[workload]()
    with ExitStack() as stack:
        client = stack.enter_context(
            Client(
                platform=Embedded(slots=_SLOTS),
                redis=server.address,
                planner=PLANNERS[planner].make(),
                observers=[],
                history=False,
                lease_s=LEASE_S,
                patience_s=_SILENCE_S if attack.kind == SUPERVISOR_STOPPED else _PATIENCE_S,
            )
        )
        watcher = stack.enter_context(_striking(attack, client, server))
        embedded = client._open().embedded
        assert embedded is not None
        value = client.submit(tasks, detach=False).result(timeout=_PATIENCE_S)
    folders = [folder for folder in (str(embedded.folder), embedded.storage_config.object_dir) if Path(folder).exists()]
    if folders:
        raise AssertionError(f"left behind: {folders}")
    return value, watcher.acted_s if attack.tripwire is not None else None


def _attach(workload: int, planner: int, attack: Attack, server: RedisServer) -> tuple[Any, float | None]:
    """The value of a run whose client is killed, for one that comes later; and when it was killed."""
    command = [sys.executable, "-m", "tests.chaos.submitter", str(workload), str(planner), server.address]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as submitter:
        assert submitter.stdout is not None
        assert attack.tripwire is not None
        run_id = submitter.stdout.readline().strip()
        with Watcher(attack.tripwire, submitter.kill) as watcher:
            # It is killed on the way, or else, if the run never came to where that was to be, at its end.
            impatience = threading.Timer(_PATIENCE_S, submitter.kill)
            impatience.start()
            submitter.stdout.readline()
            impatience.cancel()
            submitter.kill()
    with Client(platform=Embedded(slots=_SLOTS), redis=server.address, observers=[], history=False) as client:
        return client.attach(run_id).result(timeout=_PATIENCE_S), watcher.acted_s


def _striking(attack: Attack, client: Client, server: RedisServer) -> Watcher:
    """What strikes when the tripwire is touched; for zombies, what continues them."""
    if attack.tripwire is not None:
        return Watcher(attack.tripwire, lambda: _STRIKES[attack.kind](client, server))
    if attack.kind == ZOMBIE:
        return Watcher(attack.replaced, lambda: _continue(attack))
    return Watcher(attack.marks / "never", lambda: None)


def _continue(attack: Attack) -> None:
    for struck in attack.struck():
        send(int(struck["pid"]), signal.SIGCONT)


def _supervisor(client: Client) -> int:
    embedded = client._open().embedded
    assert embedded is not None
    return embedded.pid


def _stop(pid: int, supervisor: int) -> None:
    """Stop a process of the platform, and kill all workers, so that it is needed."""
    workers = family(zygote_of(supervisor)) - {zygote_of(supervisor)}
    send(pid, signal.SIGSTOP)
    for worker in workers:
        send(worker, signal.SIGKILL)


def _kill_and_restart(client: Client, server: RedisServer) -> None:
    server.stop()
    server.start()


_STRIKES: dict[str, Callable[[Client, RedisServer], None]] = {
    SUPERVISOR_KILLED: lambda client, _: os.kill(_supervisor(client), signal.SIGKILL),
    PARENT_KILLED: lambda client, _: os.kill(zygote_of(_supervisor(client)), signal.SIGKILL),
    SUPERVISOR_STOPPED: lambda client, _: _stop(_supervisor(client), _supervisor(client)),
    PARENT_STOPPED: lambda client, _: _stop(zygote_of(_supervisor(client)), _supervisor(client)),
    REDIS_KILLED: _kill_and_restart,
}


def _back_s(attack: Attack, struck_s: float | None) -> float | None:
    """How long it took until a worker stood for the one that was struck."""
    if not attack.replaced.exists() or attack.kind in (NOTHING, REDIS_KILLED, CLIENT_KILLED):
        return None  # a worker that gave its slot up is started again, too
    struck: list[dict[str, Any]] = attack.struck()
    at_s = float(struck[0]["at_s"]) if struck else struck_s
    return None if at_s is None else max(0.0, float(read_mark(attack.replaced)["at_s"]) - at_s)


def _left_behind(server: RedisServer) -> str:
    """What a run has left in Redis that was to be removed."""
    redis = RedisClient(server.address)
    try:
        keys = redis.command("KEYS", "*")
        redis.command("FLUSHALL")  # what one run left must not be held against the next
    finally:
        redis.close()
    return f"left behind: {keys[:5]}" if keys else ""
