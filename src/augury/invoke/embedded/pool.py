"""Which invocation runs on which worker, and which workers stay: decisions only, no I/O and no clock.

    submit ─▶ queue ─▶ start_next ─▶ busy ──finish──▶ idle ──expire, evict──▶ retired
                          ▲  │cold: a new worker        │
                          │  └── lose, drop_run         │
                          └────────── warm ◀────────────┘

Invariants:

- At most `slots` workers are busy; a queued invocation starts as soon as a slot is free, first come first served.
- A worker is either busy or idle or forgotten; a forgotten number never comes back.
- An idle worker is reused only for the same resources, and only for the code that it has seen; one that was
  pre-warmed has seen none and fits any. Among those that fit, the last used is taken, so that the others
  may expire.
- At most `max_idle` workers are idle; beyond that the least recently used are retired.
- A pre-warmed worker takes no slot while it starts, and nobody waits for it: an invocation that comes before it is up
  starts a worker of its own, unless another one is idle. As many are made as are missing among those that wait already,
  fresh ones and such as have seen the code that was submitted last, and those that start; of these there are at most
  `max_idle`, too.
- An invocation that is queued, runs, or came to its end, is not taken a second time. One whose worker was lost is: its
  run may not have been told, and asks again.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from augury.config import Resources
from augury.invoke.gateway import Invocation

_REMEMBERED: Final = 65_536
"""How many invocations are remembered, to ignore one that is sent twice; and how many stopped runs."""

_Invoked = tuple[str, str, int]
"""A run, a worker of it and an attempt."""

Key = tuple[Resources, str | None]
"""What an idle worker fits: resources, and the stamp of the code that it has seen, or None for none."""

_Name = TypeVar("_Name")
_Fact = TypeVar("_Fact")


class Job(msgspec.Struct, frozen=True):
    """An invocation and when it was received, in seconds since the epoch."""

    invocation: Invocation
    received_s: float


class Start(msgspec.Struct, frozen=True):
    """A decision: this worker runs this invocation; if `cold` it has to be made first."""

    worker: int
    job: Job
    cold: bool


class _Idle(msgspec.Struct, frozen=True):
    key: Key
    since_s: float


class Counters(msgspec.Struct):
    """What happened so far."""

    invocations: int = 0
    cold_starts: int = 0
    warm_starts: int = 0
    prewarmed: int = 0


class Pool:
    """The queue, the slots and the warm workers of one platform.

    Args:
        slots: How many invocations run at once.
        keep_alive_s: How long an idle worker is kept; 0 keeps none.
        max_idle: How many idle workers are kept at most.
    """

    def __init__(self, slots: int, keep_alive_s: float, max_idle: int) -> None:
        self.slots = slots
        self.counters = Counters()
        self._keep_alive_s = keep_alive_s
        self._max_idle = max_idle
        self._numbers = 0
        self._stamp = ""  # of the code that was submitted last
        self._queue: OrderedDict[_Invoked, Job] = OrderedDict()
        self._busy: dict[int, Start] = {}
        self._worker_of: dict[_Invoked, int] = {}  # the same the other way round: it is asked for every invocation
        self._idle: OrderedDict[int, _Idle] = OrderedDict()
        self._by_key: dict[Key, dict[int, None]] = {}
        self._warming: dict[int, Resources] = {}  # pre-warmed workers that are not up yet
        self._accepted: OrderedDict[_Invoked, None] = OrderedDict()
        self._runs: OrderedDict[str, None] = OrderedDict()
        self._stopped: OrderedDict[str, None] = OrderedDict()
        self._detached: OrderedDict[str, Invocation] = OrderedDict()

    @property
    def queued(self) -> int:
        """How many invocations wait for a slot."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """How many slots are taken."""
        return len(self._busy)

    @property
    def idle(self) -> int:
        """How many warm workers wait."""
        return len(self._idle)

    def runs(self) -> tuple[set[str], set[str]]:
        """The runs that are remembered: those that end with the client, and those that are detached."""
        detached = set(self._detached)
        return set(self._runs) - detached, detached

    def detached(self) -> dict[str, Invocation]:
        """The detached runs that are remembered, each with the invocation of it that came last."""
        return dict(self._detached)

    def running_as(self, invocation: Invocation) -> int | None:
        """The worker that runs this very invocation."""
        return self._worker_of.get(_name(invocation))

    def has_ended(self, invocation: Invocation) -> bool:
        """Whether an invocation came to its end, so that it will not be taken again."""
        name = _name(invocation)
        if name not in self._accepted or invocation.run_id in self._stopped:
            return False
        return name not in self._queue and name not in self._worker_of

    def submit(self, invocations: Sequence[Invocation], received_s: float) -> None:
        """Queue invocations; those that were submitted before, or whose run was stopped, are ignored."""
        for invocation in invocations:
            name = _name(invocation)
            if name in self._accepted or invocation.run_id in self._stopped:
                continue
            _remember(self._accepted, name, None)
            _remember(self._runs, invocation.run_id, None)
            if invocation.detached:
                _remember(self._detached, invocation.run_id, invocation)
            self._stamp = invocation.stamp
            self.counters.invocations += 1
            self._queue[name] = Job(invocation, received_s)

    def start_next(self) -> Start | None:
        """Give the next invocation a worker, if one waits and a slot is free."""
        if not self._queue or len(self._busy) >= self.slots:
            return None
        name, job = self._queue.popitem(last=False)
        worker = self._take_idle(job.invocation)
        start = Start(self._new_number() if worker is None else worker, job, cold=worker is None)
        self._busy[start.worker] = start
        self._worker_of[name] = start.worker
        if start.cold:
            self.counters.cold_starts += 1
        else:
            self.counters.warm_starts += 1
        return start

    def finish(self, worker: int, now_s: float, *, spent: bool = False) -> list[int]:
        """A worker has done its invocation and waits, unless it is spent; returns workers to retire, perhaps itself."""
        start = self._free(worker)
        if start is None:
            return []  # its run was stopped, and its death is on the way
        if spent or self._keep_alive_s <= 0:
            return [worker]
        invocation = start.job.invocation
        return self._rest(worker, (invocation.resources, invocation.stamp), now_s)

    def prewarm(self, resources: Resources, count: int) -> list[int]:
        """The workers to make so that `count` wait that the next invocations fit; each is to be handed to `warmed`."""
        if self._keep_alive_s <= 0:
            return []
        waiting = sum(len(self._by_key.get((resources, stamp), ())) for stamp in (None, self._stamp))
        waiting += sum(one == resources for one in self._warming.values())
        missing = min(min(count, self._max_idle) - waiting, self._max_idle - len(self._warming))
        made = [self._new_number() for _ in range(missing)]
        self._warming |= dict.fromkeys(made, resources)
        self.counters.prewarmed += len(made)
        return made

    def warmed(self, worker: int, resources: Resources, now_s: float) -> list[int]:
        """A pre-warmed worker waits; returns workers to retire."""
        self._warming.pop(worker, None)
        return self._rest(worker, (resources, None), now_s)

    def lose(self, worker: int) -> Start | None:
        """Forget a worker that is gone, or going; returns what it was busy with, which may come again."""
        self._warming.pop(worker, None)
        idle = self._idle.pop(worker, None)
        if idle is not None:
            self._unlist(worker, idle.key)
        start = self._free(worker)
        if start is not None:
            self._accepted.pop(_name(start.job.invocation), None)
        return start

    def busy_with(self, worker: int) -> Start | None:
        """What a worker runs."""
        return self._busy.get(worker)

    def requeue(self, job: Job) -> None:
        """Put an invocation that never began at the head of the queue."""
        name = _name(job.invocation)
        _remember(self._accepted, name, None)
        self._queue[name] = job
        self._queue.move_to_end(name, last=False)

    def drop_run(self, run_id: str) -> tuple[int, list[Start]]:
        """Stop a run: forget its queued invocations (how many) and free the slots of its running ones (which)."""
        _remember(self._stopped, run_id, None)
        dropped = [name for name, job in self._queue.items() if job.invocation.run_id == run_id]
        for name in dropped:
            del self._queue[name]
        killed = [start for start in self._busy.values() if start.job.invocation.run_id == run_id]
        for start in killed:
            self._free(start.worker)
        return len(dropped), killed

    def drop_workers(self) -> list[Start]:
        """Forget all workers, because they are gone; returns what they ran. What is queued stays."""
        running = list(self._busy.values())
        for start in running:
            self._free(start.worker)
            self._accepted.pop(_name(start.job.invocation), None)
        for forgotten in (self._idle, self._by_key, self._warming):
            forgotten.clear()
        return running

    def older_than(self, invocation: Invocation) -> list[Start]:
        """Forget the running invocations of earlier attempts of the same worker, and free their slots; returns them."""
        found = [
            start
            for start in self._busy.values()
            if start.job.invocation.run_id == invocation.run_id
            and start.job.invocation.worker == invocation.worker
            and start.job.invocation.attempt < invocation.attempt
        ]
        for start in found:
            self._free(start.worker)
        return found

    def drop_all(self) -> tuple[list[Job], list[Start]]:
        """Forget everything, because no worker can be had any more; returns what was queued and what ran."""
        queued, running = list(self._queue.values()), self.drop_workers()
        self._queue.clear()
        return queued, running

    def expire(self, now_s: float) -> list[int]:
        """Forget idle workers whose time is over; they are to be retired."""
        expired = []
        for worker, idle in self._idle.items():
            if now_s - idle.since_s < self._keep_alive_s:
                break  # in the order in which they became idle, so all others are younger
            expired.append(worker)
        for worker in expired:
            self.lose(worker)
        return expired

    def next_expiry_s(self) -> float | None:
        """When the oldest idle worker expires."""
        for idle in self._idle.values():
            return idle.since_s + self._keep_alive_s
        return None

    def _new_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _free(self, worker: int) -> Start | None:
        """Free the slot of a worker; returns what it was busy with."""
        start = self._busy.pop(worker, None)
        if start is not None:
            self._worker_of.pop(_name(start.job.invocation), None)
        return start

    def _take_idle(self, invocation: Invocation) -> int | None:
        keys: tuple[Key, ...] = ((invocation.resources, invocation.stamp), (invocation.resources, None))
        for key in keys:
            listed = self._by_key.get(key)
            if listed:
                worker = next(reversed(listed))
                del self._idle[worker]
                self._unlist(worker, key)
                return worker
        return None

    def _rest(self, worker: int, key: Key, now_s: float) -> list[int]:
        self._idle[worker] = _Idle(key, now_s)
        self._by_key.setdefault(key, {})[worker] = None
        evicted = []
        while len(self._idle) > self._max_idle:
            evicted.append(next(iter(self._idle)))
            self.lose(evicted[-1])
        return evicted

    def _unlist(self, worker: int, key: Key) -> None:
        listed = self._by_key[key]
        del listed[worker]
        if not listed:
            del self._by_key[key]


def _name(invocation: Invocation) -> _Invoked:
    return invocation.run_id, invocation.worker, invocation.attempt


def _remember(memory: OrderedDict[_Name, _Fact], name: _Name, fact: _Fact) -> None:
    memory[name] = fact
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)
