"""What tests of the embedded platform share: a stage for puppets, and a look at the system's processes."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from augury.config import Resources
from augury.invoke.embedded.cgroups import open_limits
from augury.invoke.embedded.platform import Embedded, EmbeddedPlatform
from augury.invoke.gateway import Invocation
from augury.storage.opening import open_storage
from augury.storage.protocols import CLIENT, Care, Coordination, Event, RunSpec

PATIENCE_S = 30.0
ROOT = Path(__file__).parents[2]
PUPPETS: dict[str, Any] = {
    "handler": "tests.invoke.puppet:handle",
    "on_loss": "tests.invoke.puppet:worker_lost",
    "rehearsal": "",
    "sys_path": (str(ROOT),),
}
NO_CONTROL_GROUPS = "control groups need root (or a delegated group), and Linux"


def embedded(**settings: Any) -> Embedded:
    return Embedded(**{**PUPPETS, **settings})


def invocation(
    worker: str = "w", run_id: str = "run", attempt: int = 1, stamp: str = "s", cpus: float = 64, memory_mb: int = 256
) -> Invocation:
    return Invocation(run_id, worker, attempt, Resources(cpus, memory_mb), stamp=stamp)


class Puppet:
    """An invocation that runs and waits for orders."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        self._connection = connection
        self._stream = connection.makefile("rw")
        self.facts: dict[str, Any] = json.loads(self._stream.readline())

    @property
    def worker(self) -> str:
        return str(self.facts["worker"])

    @property
    def pid(self) -> int:
        return int(self.facts["pid"])

    @property
    def cold(self) -> bool:
        return bool(self.facts["cold"])

    def order(self, *words: object) -> Any:
        """Give an order and wait for the answer."""
        self.send(*words)
        return json.loads(self._stream.readline())

    def send(self, *words: object) -> None:
        """Give an order that is not answered."""
        self._stream.write(" ".join(map(str, words)) + "\n")
        self._stream.flush()

    def finish(self) -> None:
        self.send("finish")
        assert self._stream.readline() == ""

    def wait_for_the_end(self) -> None:
        with suppress(ConnectionError):
            assert self._stream.readline() == ""

    def close(self) -> None:
        self._stream.close()
        self._connection.close()


class Stage:
    """Where puppets come to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(2048)
        self._puppets: list[Puppet] = []

    def next(self) -> Puppet:
        """Wait for the next invocation to begin."""
        self._listener.settimeout(PATIENCE_S)
        puppet = Puppet(self._listener.accept()[0])
        self._puppets.append(puppet)
        return puppet

    def is_empty(self) -> bool:
        """Whether no invocation has begun that was not met by `next`."""
        self._listener.setblocking(False)
        try:
            self._listener.accept()
        except BlockingIOError:
            return True
        return False

    def close(self) -> None:
        for puppet in self._puppets:
            puppet.close()
        self._listener.close()


@pytest.fixture(name="stage")
def make_stage(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    path = tmp_path_factory.mktemp("s") / "p"
    stage = Stage(path)
    monkeypatch.setenv("PUPPET_SOCKET", str(path))
    yield stage
    stage.close()


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that sends no event, such as the disappearance of a process."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited in vain until {what}"
        time.sleep(0.005)


def settle(platform: EmbeddedPlatform, **expected: int) -> dict[str, Any]:
    """Wait until the platform's status shows these numbers."""
    gateway = platform.gateway()
    wait_until(lambda: expected.items() <= gateway.status().items(), f"the status has {expected}")
    return gateway.status()


def lives(pid: int) -> bool:
    """Whether a process exists that is not a mere zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def zygote_of(platform_pid: int) -> int:
    """The pre-loaded parent: the child of the supervisor that is in its process group; 0 if there is none just now."""
    children = Path(f"/proc/{platform_pid}/task/{platform_pid}/children").read_text().split()
    return next((int(child) for child in children if _is_parent(int(child), platform_pid)), 0)


def _is_parent(pid: int, platform_pid: int) -> bool:
    """Workers, which the supervisor adopts when their parent dies, and Redis have groups of their own."""
    try:
        return lives(pid) and os.getpgid(pid) == os.getpgid(platform_pid)
    except ProcessLookupError:
        return False


def leftovers(platform: EmbeddedPlatform) -> list[str]:
    """What is left of a platform in the file system and among the control groups."""
    folder = Path(platform.storage_config.redis.removeprefix("unix://")).parent
    places = [folder, Path(platform.storage_config.object_dir)]
    return [str(place) for place in places if place.exists()] + groups_of(folder)


def groups_of(folder: Path) -> list[str]:
    """The control groups of the platform with this folder."""
    name = folder.name.removeprefix("augury-")
    # Not `rglob`: groups of other platforms may go while it looks.
    walk = os.walk("/sys/fs/cgroup")
    return [
        os.path.join(folder, found)
        for folder, inner, _ in walk
        for found in inner
        if found == f"augury-platform-{name}"
    ]


@cache
def can_use_groups() -> bool:
    """Whether this system lets us limit memory and processor time."""
    groups = open_limits(f"probe-{os.getpid()}", enforce=True)
    groups.close()
    return all("cgroup v" in note for note in groups.notes)


def begin_run(platform: EmbeddedPlatform, run_id: str = "run", *, joined: Sequence[Invocation] = ()) -> Coordination:
    """A run in the platform's storage, so that losses have somewhere to be told; it does not make good for them."""
    run = open_storage(platform.storage_config).coordination(run_id)
    care = Care(restarts=0)
    spec = RunSpec(name="test", graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=0, care=care)
    run.create(spec, sinks=[0], claims=[])
    for one in joined:
        run.join(one.worker, one.attempt)
    return run


def events_of(run: Coordination, count: int) -> list[Event]:
    """The first events in the client's inbox."""
    cursor, events = "0", list[Event]()
    while len(events) < count:
        cursor, more = run.read(CLIENT, cursor, PATIENCE_S)
        assert more, f"only {events} came"
        events += more
    return events
