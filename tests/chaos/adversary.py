"""What goes wrong, when, and to whom: chosen by a seed, and set off by what happens in the run.

Workers are struck at fault points, by themselves. For everything else a *tripwire* is laid: a fault that only leaves
a file when the first worker gets to some point for the nth time; whoever waits for that file strikes then. So a seed
stands for a moment in the course of the run, not for one on a clock.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, Self

from augury.testing.faults import FAULT_POINTS, Fault

_POLL_S = 0.002
_WRITTEN_S = 30.0
_WORKER_POINTS = tuple(point for point in FAULT_POINTS if point not in ("heartbeat", "before-leave"))

NOTHING = "nothing"
WORKER_KILLED = "worker killed"
WORKERS_KILLED = "three workers killed"
WORKER_STOPPED = "worker stopped"
ZOMBIE = "worker stopped, continued after its successor began"
SUPERVISOR_KILLED = "gateway killed"
PARENT_KILLED = "pre-loaded parent killed"
SUPERVISOR_STOPPED = "gateway stopped, workers killed"
PARENT_STOPPED = "pre-loaded parent stopped, workers killed"
REDIS_KILLED = "Redis killed, and restarted"
CLIENT_KILLED = "client killed, run attached to"
KINDS = (
    NOTHING,
    *(WORKER_KILLED, WORKERS_KILLED, WORKER_STOPPED, ZOMBIE),
    *(SUPERVISOR_KILLED, PARENT_KILLED, SUPERVISOR_STOPPED, PARENT_STOPPED, REDIS_KILLED, CLIENT_KILLED),
)
SLOW_KINDS = (SUPERVISOR_STOPPED, PARENT_STOPPED)
"""Those that take seconds to be noticed."""


@dataclass(frozen=True, slots=True)
class Attack:
    """What is done to one run.

    Attributes:
        kind: What.
        faults: What strikes workers.
        tripwire: The file that says that it is time to strike something else; None if nothing else is struck.
        marks: Where faults and tripwires leave their files.
    """

    kind: str
    faults: tuple[Fault, ...]
    marks: Path
    tripwire: Path | None = None

    @property
    def replaced(self) -> Path:
        """The file that a second attempt of some worker leaves when it begins."""
        return self.marks / "replaced"

    def struck(self) -> list[dict[str, Any]]:
        """What has been struck: each with the process, the worker and when."""
        return [read_mark(path) for path in sorted(self.marks.glob("strike-*"))]


def plan_attack(kind: str, rng: Random, marks: Path) -> Attack:
    """Choose when and whom to strike."""
    if kind == NOTHING:
        return Attack(kind, (), marks)
    replaced = Fault(point="joined", action="wait", attempt=2, once=str(marks / "replaced"))
    if kind in (WORKER_KILLED, WORKERS_KILLED, WORKER_STOPPED, ZOMBIE):
        action: Literal["kill", "stop"] = "kill" if kind in (WORKER_KILLED, WORKERS_KILLED) else "stop"
        points = [rng.choice(_WORKER_POINTS) for _ in range(3 if kind == WORKERS_KILLED else 1)]
        strikes = [
            Fault(point=point, action=action, nth=_draw_nth(point, rng), once=f"{marks}/strike-{number}")
            for number, point in enumerate(points)
        ]
        return Attack(kind, (*strikes, replaced), marks)
    point = rng.choice(("task-begun", "task-ended", "before-report", "after-report"))
    wire = Fault(point=point, action="wait", nth=_draw_nth(point, rng), attempt=0, once=str(marks / "tripwire"))
    return Attack(kind, (wire, replaced), marks, tripwire=marks / "tripwire")


def _draw_nth(point: str, rng: Random) -> int:
    """Which time it strikes: none that hardly any invocation comes to."""
    if point in ("task-begun", "task-ended"):
        return rng.randint(1, 3)
    return rng.randint(1, 2) if point in ("before-report", "after-report") else 1


def read_mark(path: Path) -> dict[str, Any]:
    """What a fault has left in its file; it may still be writing."""
    deadline_s = time.monotonic() + _WRITTEN_S
    while True:
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except json.JSONDecodeError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_POLL_S)
        else:
            return found


@dataclass(slots=True)
class Watcher:
    """Waits for a file, in a thread of its own, and then does something; until it is ended.

    Attributes:
        path: The file.
        act: What to do.
        acted_s: When it was done; None if it was not.
    """

    path: Path
    act: Callable[[], None]
    acted_s: float | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(default_factory=threading.Thread)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_POLL_S):
            if self.path.exists():
                self.acted_s = time.time()
                self.act()
                return


def send(pid: int, number: signal.Signals) -> None:
    """A signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
