"""What a run is, and what each call does to it: the specification of coordination that can be executed.

One run's state, without a word about locks, networks or expiry. `memory.py` makes a storage of it, and the
scripts in `lua/` do the same steps inside Redis; a test gives both the same random calls and compares.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import msgspec

from augury.config import Resources
from augury.storage.protocols import (
    CLIENT,
    NEVER_UP_S,
    Beat,
    Cause,
    Claim,
    Completion,
    Consumer,
    Event,
    Hopeless,
    Joined,
    Missing,
    Outcome,
    Remains,
    Report,
    RunEnded,
    RunSpec,
    Status,
    Stop,
    Stored,
    TaskCompleted,
    TaskReady,
    Tried,
    WorkerLeft,
    WorkerMissed,
    WorkerSummary,
)

STARTED_AGAIN = 64
"""How many workers that have not come up are started again at once."""


class RunState:
    """The state of one run.

    Always true: `counts[task]` is the number of tasks in `done` that named it as a consumer; a task is told
    to be ready once, when its count reaches what it needs; a name in `starting` has a positive attempt.

    Attributes:
        workers: Name → attempt; negative while suspended, 0 if it was never claimed.
        left: The name and attempt of each invocation that has left, or was lost.
        starting: Name → when it was claimed, until it joins.
        leases: Name → until when it need not be heard of: those that are claimed and have neither left nor given their
            slot up.
        claims: Name → what it was claimed with, or will be if it is planned.
        grants: Flexible task → the worker that a report made it ready for, or that has taken it.
        losses: Name → losses in a row without progress.
        tried: Task → which try of it is the next, and when.
        restarted: Name → the first attempt that stood for a lost one; all later ones lack what that had in memory.
        beat_s: When somebody beat last; `renewed_s`: when all leases began anew last, since nobody could.
        fresh: Inboxes that got an event and whose subscribers were not told yet.
    """

    def __init__(self, spec: RunSpec, sinks: Sequence[int], clock: Callable[[], float]) -> None:
        self.clock = clock
        self.expires_s = 0.0
        self.spec: RunSpec | None = spec
        self.status = Status.RUNNING
        self.sinks = frozenset(sinks)
        self.sinks_left = len(self.sinks)
        self.ran = 0
        self.invocations = 0
        self.followed_by_creator = True
        self.followers = 0
        self.is_taken = False
        self.done: set[int] = set()
        self.counts: Counter[int] = Counter()
        self.outputs: dict[int, Stored] = {}
        self.workers: defaultdict[str, int] = defaultdict(int)
        self.starting: dict[str, float] = {}
        self.left: set[tuple[str, int]] = set()
        self.leases: dict[str, float] = {}
        self.claims: dict[str, Claim] = {}
        self.grants: dict[int, str] = {}
        self.losses: Counter[str] = Counter()
        self.tried: dict[int, tuple[int, float]] = {}
        self.restarted: dict[str, int] = {}
        self.beat_s = clock()
        self.renewed_s = -math.inf
        self.care = spec.care
        self.client_until_s = math.inf
        self._hear_client()
        self.inboxes: defaultdict[str, list[Event]] = defaultdict(list)
        self.fresh: set[str] = set()

    def unfollow(self, *, creator: bool, keep: bool) -> bool:
        """A client follows the run no more; whether the run is still needed."""
        self.is_taken |= not keep
        if creator:
            self.followed_by_creator = False
        else:
            self.followers = max(0, self.followers - 1)
        return self.followed_by_creator or self.followers > 0 or not self.is_taken

    def append(self, inbox: str, event: Event) -> None:
        """Put an event into an inbox."""
        self.inboxes[inbox].append(event)
        self.fresh.add(inbox)

    def begin(self, claims: Sequence[Claim], planned: Sequence[Claim]) -> None:
        """Claim the first workers."""
        self.claims |= {claim.worker: claim for claim in planned}
        for claim in claims:
            if self._may_claim(claim):
                self.claim(claim.worker)

    def claim(self, worker: str) -> tuple[str, int]:
        """The right to start a worker that does not run: its name and attempt."""
        return self._expect(worker, 1 - self.workers[worker])

    def _expect(self, worker: str, attempt: int) -> tuple[str, int]:
        self.workers[worker] = attempt
        self.starting[worker] = self.clock()
        self.leases[worker] = self.clock() + self.care.lease_s
        self.invocations += 1
        return worker, attempt

    def join(self, worker: str, attempt: int) -> Joined:
        """A worker has started, unless its attempt is over, or embodied: then it is told to end at once."""
        embodied = attempt == self.workers[worker] and worker not in self.starting
        if embodied or self._has_ended(worker, attempt):
            return Joined(Status.REPLACED)
        if not self._stood_still():  # else the next beat sees to that: the client may be about to
            self._cancel_orphan()
        starting = len(self.starting)
        self.workers[worker] = attempt
        self.starting.pop(worker, None)
        self.leases[worker] = self.clock() + self._lease_s(worker)
        restarted = attempt >= self.restarted.get(worker, attempt + 1)
        return Joined(self.status, frozenset(self.done), self._live(), starting, restarted)

    def remains(self) -> Remains:
        """Which outputs are in storage, and whose flexible tasks are."""
        claims = {name: claim.tasks for name, claim in self.claims.items() if claim.tasks}
        tried = (Tried(task, tries, due_s - self.clock()) for task, (tries, due_s) in sorted(self.tried.items()))
        return Remains(frozenset(self.outputs), dict(self.grants), claims, tuple(tried))

    def beat(self, worker: str, attempt: int, lost: Sequence[Missing]) -> Beat:
        """Renew a lease; see to those that have run out, and to those that are said to be lost."""
        if self.status is not Status.RUNNING:
            return Beat(self.status)
        if worker == CLIENT:
            worker = ""
            self._hear_client()
        elif worker and self.workers[worker] != attempt:
            return Beat(Status.REPLACED)
        self._renew(worker)
        if self._cancel_orphan():
            return Beat(self.status)
        start: list[Claim] = []
        hopeless: list[Hopeless] = []
        silent = self._silent()
        for one in lost:
            if self.workers[one.worker] == one.attempt and one.worker in self.leases:
                self._replace(one, start, hopeless)
        for name in silent:
            if name not in self.starting and self.leases.get(name, math.inf) <= self.clock():
                self._replace(Missing(name, self.workers[name]), start, hopeless)
        replaced = {claim.worker for claim in start}
        told = any(one.cause is Cause.LOST for one in lost)
        late = {name for name in silent if name in self.starting}.union(self._claimed_first() if told else ())
        for name in sorted(late - replaced):
            self._start_late(name, start, hopeless)
        return Beat(self.status, tuple(start), tuple(hopeless))

    def _hear_client(self) -> None:
        """The client is there; if the run ends with it, it may be silent for some time now."""
        self.client_until_s = self.clock() + (self.care.client_s or math.inf)

    def _cancel_orphan(self) -> bool:
        """End a run that was to end with its client, if that is silent for too long."""
        return self.clock() > self.client_until_s and self.fail(Status.CANCELLED, b"")

    def _renew(self, worker: str) -> None:
        """Somebody beats, a worker if it has a name."""
        now_s = self.clock()
        if self._stood_still():
            self._renew_all(now_s)
        self.beat_s = now_s
        if worker in self.leases:  # else it has left, or gave its slot up
            self.leases[worker] = now_s + self._lease_s(worker)

    def _stood_still(self) -> bool:
        """Whether nobody could beat for a while: storage was away, or every machine slept."""
        return self.clock() - self.beat_s > self.care.lease_s / 2

    def _renew_all(self, now_s: float) -> None:
        """Nobody could beat, and those who come back now may all be alive.

        After half a lease: their last beats may have been a part of a lease earlier, so that leases run
        out before a whole one is over. But once only for each worker that is not heard of between two such times: who
        is dead must be found, even if whoever still beats does so rarely. The same goes for the client.
        """
        for name, until_s in self.leases.items():
            lease_s = self._lease_s(name)
            if until_s > self.renewed_s + lease_s:
                self.leases[name] = max(until_s, now_s + lease_s)
        if self.client_until_s > self.renewed_s + self.care.client_s:
            self.client_until_s = max(self.client_until_s, now_s + self.care.client_s)
        self.renewed_s = now_s

    def _silent(self) -> list[str]:
        """Some of those whose leases have run out, the longest ago first."""
        now_s = self.clock()
        silent = sorted((until_s, name) for name, until_s in self.leases.items() if until_s <= now_s)
        return [name for _, name in silent[:STARTED_AGAIN]]

    def _start_late(self, name: str, start: list[Claim], hopeless: list[Hopeless]) -> None:
        """Have a worker invoked again that has not come up, or find that it never will."""
        waited_s = self.clock() - self.starting[name]
        # Twice as long as it has waited: a platform may be slow, or full.
        self.leases[name] = self.clock() + max(self.care.lease_s, waited_s)
        claim = self._claim_of(name)
        if waited_s > NEVER_UP_S and self.leases.keys() == self.starting.keys():
            hopeless.append(Hopeless(name, claim.attempt, 0, claim.resources, Cause.START))
        else:
            start.append(claim)

    def _claimed_first(self) -> list[str]:
        """The workers that have not come up, those that were claimed first in front."""
        return sorted(self.starting, key=lambda name: (self.starting[name], name))[:STARTED_AGAIN]

    def _replace(self, loss: Missing, start: list[Claim], hopeless: list[Hopeless]) -> None:
        """Claim a lost worker again, or find that there is no hope."""
        name, larger = loss.worker, None
        claim = self._claim_of(name)
        if loss.cause is Cause.MEMORY and name in self.claims:
            larger = self._larger(claim.resources)
        if loss.cause in (Cause.LOST, Cause.CUT):
            self.losses[name] += 1
        in_vain = self.losses[name] > self.care.restarts or (loss.cause is Cause.MEMORY and larger is None)
        if in_vain and "/" in name and name not in self.grants.values():
            # A second worker for a task that another one still runs; had it been first, more would be its own.
            self.left.add((name, loss.attempt))
            del self.leases[name]
            self.starting.pop(name, None)
            return
        if in_vain:
            # Who is told may be lost, too, before it has ended the run.
            self.leases[name] = self.clock() + self._lease_s(name)
            losses = self.losses[name]
            hopeless.append(Hopeless(name, loss.attempt, losses, claim.resources, loss.cause))
            return
        if larger is not None:
            self.claims[name] = msgspec.structs.replace(claim, resources=larger, attempt=1)
        self.left.add((name, loss.attempt))
        self.restarted.setdefault(*self._expect(name, loss.attempt + 1))
        self.append(CLIENT, WorkerMissed(name, loss.attempt, loss.cause))
        start.append(self._claim_of(name))

    def _larger(self, had: Resources) -> Resources | None:
        """The next larger memory, with the CPUs that go with it, but not fewer than before."""
        larger = (Resources(max(one.cpus, had.cpus), one.memory_mb) for one in self.care.larger)
        return next((one for one in larger if one.memory_mb > had.memory_mb), None)

    def _claim_of(self, worker: str) -> Claim:
        """What it takes to start a worker under its present attempt."""
        claim = self.claims.get(worker) or Claim(worker, (), Resources())
        return msgspec.structs.replace(claim, attempt=self.workers[worker])

    def _lease_s(self, worker: str) -> float:
        return self.care.lease_s * 2.0 ** self.losses[worker]

    def leave(self, summary: WorkerSummary) -> None:
        """An invocation has ended; the client is told."""
        self.left.add((summary.worker, summary.attempt))
        if self.workers[summary.worker] == summary.attempt:
            # It may have died before it joined: nobody gives a slot up for it.
            self.starting.pop(summary.worker, None)
            self.leases.pop(summary.worker, None)
        self.append(CLIENT, WorkerLeft(summary))

    def suspend(self, worker: str, attempt: int, position: int, grace_s: float) -> bool:
        """Whether a worker must end: now that it may give its slot up, or because its attempt is over."""
        if self._has_ended(worker, attempt):
            return True
        if self.status is not Status.RUNNING or self.workers[worker] != attempt:
            return False
        someone_waits = any(since_s <= self.clock() - grace_s for since_s in self.starting.values())
        if not someone_waits or len(self.inboxes[worker]) > position:
            return False
        self.workers[worker] = -attempt
        self.leases.pop(worker, None)
        return True

    def fail(self, status: Status, failure: bytes, worker: str = "", attempt: int = 0) -> bool:
        """End the run, and tell everybody; False if it was over, or the invocation is not the one that counts."""
        if self.status is not Status.RUNNING or (worker and self.workers[worker] not in (0, attempt)):
            return False
        self.status = status
        self.append(CLIENT, RunEnded(status, failure))
        for worker, attempt in self.workers.items():
            if attempt != 0:
                self.append(worker, Stop(status))
        return True

    def prune(self) -> None:
        """Drop what nobody needs once the run is over."""
        if self.status is Status.RUNNING:
            return
        self.done.clear()
        self.counts.clear()
        for care in (self.leases, self.claims, self.grants, self.losses, self.tried):
            care.clear()
        self.outputs = {task: output for task, output in self.outputs.items() if task in self.sinks}
        for name in [name for name in self.inboxes if name != CLIENT and self._needs_no_inbox(name)]:
            del self.inboxes[name]

    def report(self, report: Report) -> Outcome:
        """Apply a report: outputs published, completions, claims; in this order."""
        if self.status is not Status.RUNNING:
            return Outcome(self.status)
        if self.workers[report.worker] not in (0, report.attempt):
            return Outcome(Status.REPLACED)
        for published in report.published:
            self.outputs.setdefault(published.task, Stored(published.size_bytes, published.inline))
        self.tried |= {one.task: (one.tries, self.clock() + one.pause_s) for one in report.tried}
        ready: list[Consumer] = []
        done = len(self.done)
        offered = [one for one in report.completions if not one.held]
        counted = [one for one in offered if self._count(one, ready)]
        store_first, known = self._count_held([one for one in report.completions if one.held], ready)
        mine = tuple(consumer.task for consumer in ready if not consumer.worker)
        self.grants |= dict.fromkeys((*report.taken, *mine), report.worker)
        self._store(counted, frozenset(mine))
        self._announce(counted)
        started = self._wake([consumer for consumer in ready if consumer.worker], counted)
        if self.sinks and self.sinks_left <= 0:
            self.status = Status.SUCCEEDED
            self.append(CLIENT, RunEnded(Status.SUCCEEDED))
        else:
            started += [self.claim(claim.worker) for claim in report.claims if self._may_claim(claim)]
        if len(self.done) > done:
            self.losses.pop(report.worker, None)
        # What was known before ran twice and is done once.
        self.ran += report.ran - known - (len(offered) - len(counted))
        again = tuple(self._claim_of(worker) for worker, _ in started if worker in self.restarted)
        leaves = report.leaving is not None and self.status is Status.RUNNING and not (mine or started or store_first)
        if report.leaving is not None and leaves:
            self.leave(report.leaving)
        return Outcome(self.status, mine, tuple(started), tuple(store_first), self._live(), again, leaves)

    def _may_claim(self, claim: Claim) -> bool:
        """Whether nobody has claimed a worker; from now on it is known what it was claimed with."""
        fresh = self.workers[claim.worker] == 0
        if fresh:
            self.claims[claim.worker] = claim
        return fresh

    def _live(self) -> int:
        return max(0, self.invocations - len(self.left))

    def _has_ended(self, worker: str, attempt: int) -> bool:
        """Whether a later attempt has taken over, or this one gave its slot up."""
        current = self.workers[worker]
        return attempt < abs(current) or attempt == -current

    def _needs_no_inbox(self, worker: str) -> bool:
        """Whether the last invocation of a worker has left, or there was none; after a failure nobody may miss it."""
        attempt = abs(self.workers[worker])
        return self.status is Status.SUCCEEDED and (attempt == 0 or (worker, attempt) in self.left)

    def _count(self, completion: Completion, ready: list[Consumer]) -> bool:
        """Count a completion, once; adds the consumers that became ready."""
        if completion.task in self.done:
            return False
        self.done.add(completion.task)
        self.sinks_left -= completion.sink
        for consumer in completion.consumers:
            self.counts[consumer.task] += 1
            if self.counts[consumer.task] == consumer.needs:
                ready.append(consumer)
        return True

    def _count_held(self, completions: Sequence[Completion], ready: list[Consumer]) -> tuple[list[int], int]:
        """Count those held outputs that nobody but the reporter will ask for.

        Returns:
            The others; and how many were counted before.
        """
        refused: dict[int, None] = {}
        known = 0
        for completion in completions:
            if completion.task in self.done:
                known += 1
            elif completion.task in refused:
                continue
            elif self._may_be_held(completion):
                self._count(completion, ready)
            else:
                refused[completion.task] = None
        return list(refused), known

    def _may_be_held(self, completion: Completion) -> bool:
        return not (completion.keep or completion.sink or completion.watchers) and all(
            not consumer.worker and self.counts[consumer.task] + 1 == consumer.needs
            for consumer in completion.consumers
        )

    def _store(self, counted: Sequence[Completion], ready_for_reporter: frozenset[int]) -> None:
        """Store outputs, but those that nobody takes, and small ones that nobody but the reporter takes."""
        for completion in counted:
            wanted = completion.keep or completion.sink or bool(completion.watchers)
            if completion.inline is None:
                wanted = wanted or bool(completion.consumers)  # else there is none, or it does not matter
            elif not all(consumer.task in ready_for_reporter for consumer in completion.consumers):
                wanted = True
            if wanted or (completion.inline is not None and not completion.consumers):
                self.outputs.setdefault(completion.task, Stored(completion.size_bytes, completion.inline))

    def _announce(self, counted: Sequence[Completion]) -> None:
        """Tell those who watch them of completions."""
        for completion in counted:
            for worker in completion.watchers:
                self.append(worker, TaskCompleted(completion.task, completion.size_bytes, completion.inline))

    def _wake(self, ready: Sequence[Consumer], counted: Sequence[Completion]) -> list[tuple[str, int]]:
        """Tell workers which tasks of theirs are ready; claims those workers that do not run."""
        inputs: dict[int, dict[int, bytes]] = {consumer.task: {} for consumer in ready}
        for completion in counted:
            if completion.inline is not None:
                for consumer in completion.consumers:
                    inputs.get(consumer.task, {})[completion.task] = completion.inline
        started = []
        for consumer in ready:
            self.append(consumer.worker, TaskReady(consumer.task, inputs[consumer.task]))
            if self.workers[consumer.worker] <= 0:
                started.append(self.claim(consumer.worker))
        return started
