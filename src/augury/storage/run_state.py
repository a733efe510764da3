"""What a run is, and what each call does to it: the specification of coordination that can be executed.

One run's state, without a word about locks, networks or expiry. `memory.py` makes a storage of it, and the
scripts in `lua/` do the same steps inside Redis; a test gives both the same random calls and compares.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from augury.storage.protocols import (
    CLIENT,
    Completion,
    Consumer,
    Event,
    Joined,
    Outcome,
    Report,
    RunEnded,
    RunSpec,
    Status,
    Stop,
    Stored,
    TaskCompleted,
    TaskReady,
    WorkerLeft,
    WorkerSummary,
)


class RunState:
    """The state of one run.

    Always true: `counts[task]` is the number of tasks in `done` that named it as a consumer; a task is told
    to be ready once, when its count reaches what it needs; a name in `starting` has a positive attempt.

    Attributes:
        workers: Name → attempt; negative while suspended, 0 if it was never claimed.
        left: The name and attempt of each invocation that has left.
        starting: Name → when it was claimed, until it joins.
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
        self.done: set[int] = set()
        self.counts: Counter[int] = Counter()
        self.outputs: dict[int, Stored] = {}
        self.workers: defaultdict[str, int] = defaultdict(int)
        self.starting: dict[str, float] = {}
        self.left: set[tuple[str, int]] = set()
        self.inboxes: defaultdict[str, list[Event]] = defaultdict(list)
        self.fresh: set[str] = set()

    def append(self, inbox: str, event: Event) -> None:
        """Put an event into an inbox."""
        self.inboxes[inbox].append(event)
        self.fresh.add(inbox)

    def claim(self, worker: str) -> tuple[str, int]:
        """The right to start a worker that does not run: its name and attempt."""
        attempt = 1 - self.workers[worker]
        self.workers[worker] = attempt
        self.starting[worker] = self.clock()
        self.invocations += 1
        return worker, attempt

    def join(self, worker: str, attempt: int) -> Joined:
        """A worker has started, unless its attempt is over: then it is told to end at once."""
        if self._has_ended(worker, attempt):
            return Joined(Status.GONE)
        starting = len(self.starting)
        self.workers[worker] = attempt
        self.starting.pop(worker, None)
        return Joined(self.status, frozenset(self.done), self._live(), starting)

    def leave(self, summary: WorkerSummary) -> None:
        """An invocation has ended; the client is told."""
        self.left.add((summary.worker, summary.attempt))
        if self.workers[summary.worker] == summary.attempt:
            # It may have died before it joined: nobody gives a slot up for it.
            self.starting.pop(summary.worker, None)
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
        return True

    def fail(self, status: Status, failure: bytes) -> bool:
        """End the run, and tell everybody; False if it was over."""
        if self.status is not Status.RUNNING:
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
        self.spec = None
        self.done.clear()
        self.counts.clear()
        self.outputs = {task: output for task, output in self.outputs.items() if task in self.sinks}
        for name in [name for name in self.inboxes if name != CLIENT and self._needs_no_inbox(name)]:
            del self.inboxes[name]

    def report(self, report: Report) -> Outcome:
        """Apply a report: outputs published, completions, claims; in this order."""
        if self.status is not Status.RUNNING:
            return Outcome(self.status)
        for published in report.published:
            self.outputs.setdefault(published.task, Stored(published.size_bytes, published.inline))
        ready: list[Consumer] = []
        offered = [one for one in report.completions if not one.held]
        counted = [one for one in offered if self._count(one, ready)]
        store_first, known = self._count_held([one for one in report.completions if one.held], ready)
        mine = tuple(consumer.task for consumer in ready if not consumer.worker)
        self._store(counted, frozenset(mine))
        self._announce(counted)
        started = self._wake([consumer for consumer in ready if consumer.worker], counted)
        if self.sinks and self.sinks_left <= 0:
            self.status = Status.SUCCEEDED
            self.append(CLIENT, RunEnded(Status.SUCCEEDED))
        else:
            started += [self.claim(claim.worker) for claim in report.claims if self.workers[claim.worker] == 0]
        # What was known before ran twice and is done once.
        self.ran += report.ran - known - (len(offered) - len(counted))
        return Outcome(self.status, mine, tuple(started), tuple(store_first), self._live())

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
        """Store outputs, but small ones that nobody but the reporter takes."""
        for completion in counted:
            stays = (
                completion.inline is not None
                and not completion.keep
                and not completion.sink
                and not completion.watchers
                and bool(completion.consumers)
                and all(consumer.task in ready_for_reporter for consumer in completion.consumers)
            )
            if not stays:
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
