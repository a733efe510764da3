"""The worker core: events in, commands out; no I/O, no clock (what time it is comes with the events).

One `WorkerState` is one invocation of one worker. The runner tells it what happened and carries out what
it answers, so the same core works in production, in virtual time and in fault tests:

    for command in state.handle(TaskFinished(task=7)):
        runner.execute(command)

The life of a task here, and of its output:

    waits ──inputs done──▶ queue ──▶ (blocked while inputs are fetched) ──▶ running ──▶ finished
                                                                                          │
      all consumers are here ─────────────── nothing is told to anyone ◀──────────────────┤
      somebody else may need it ──▶ outbox ──▶ (stored, if large) ──▶ reported ◀──────────┘

How consumers of a finished task are treated:

- planned for this worker: counted here;
- planned for another worker: reported; the storage counts, wakes that worker, and says if it must be started;
- flexible with this task as its only input: ours. We go on with a share of them and claim workers for the rest;
- flexible with several inputs: if each of them finished here or was done before we began, it is ours, and
  since the last one is never reported for it, nobody else's; else it is reported, and whoever's report makes
  it ready goes on with it.

Reports are not sent task by task: what finished waits in the outbox until there is nothing to run or the
runner says `FlushDue`, and one report is under way at a time. So many short tasks share a round trip.

Flexible tasks that wait here behind a running one are handed on as soon as the platform has room again and
they would take longer than a worker takes to start: work that turns out uneven, or long, spreads by itself.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import msgspec

from augury.config import Resources
from augury.storage.protocols import Claim, Outcome, Published, Status
from augury.worker import messages as m
from augury.worker.view import RunView, generation_of

FETCH_AHEAD = 16
"""How many tasks at most wait for inputs at once: their inputs come in one round trip, and sit in memory."""


class WorkerState:
    """What one invocation knows and has to do.

    Invariants, checked by `validate`:
        - a task is in at most one of: waiting, queue, blocked, running;
        - an output that is to be told with its value, stored or published is in memory until that is answered;
        - a value is in memory only while something here uses it, or it waits to be told, stored or published;
        - after `Leave` nothing is handled any more.
    """

    def __init__(self, view: RunView, name: str, resources: Resources) -> None:
        self.view = view
        self.name = name
        self.resources = resources
        self.over = False
        self._deps = view.graph.deps
        self._dependents = view.graph.dependents
        self._planned = view.tasks_of.get(name, [])
        self._remaining: set[int] = set()
        self._waits: dict[int, int] = {}  # planned task → local inputs to come, plus one for all foreign ones
        self._foreign: set[int] = set()  # planned tasks that wait for foreign inputs
        self._queue: deque[int] = deque()
        self._blocked: dict[int, set[int]] = {}  # task → its inputs under way
        self._now_s = 0.0  # when the event that is being handled happened
        self._ready_s: dict[int, float] = {}  # task that is queued or blocked → when it became ready
        self._blocked_s: dict[int, float] = {}  # task that was blocked → since when; once its inputs came, for how long
        self._fetching: set[int] = set()
        self._running: set[int] = set()
        self._tries: dict[int, int] = {}
        self._values: set[int] = set()
        self._uses: dict[int, int] = {}  # output → tasks here that will take it, and reasons to expect more
        self._spared: dict[int, list[int]] = {}  # unreported task → inputs of it that its consumers take too
        self._unstored: dict[int, int] = {}  # output made here and not in storage → its size
        self._outbox: dict[int, m.Finished] = {}
        self._done: frozenset[int] = frozenset()  # what storage had counted when we began
        self._gathered: dict[int, int] = {}  # flexible task → inputs that finished here or were done before
        self._publish: dict[int, Published] = {}
        self._storing: set[int] = set()
        self._claims: list[tuple[set[int], list[Claim]]] = []  # claims, and the outputs they wait for
        self._counted: set[int] = set()  # tasks finished here whose completion storage has counted
        self._sent: m.Send | None = None
        self._sent_tasks: dict[
            int, bool
        ] = {}  # output that the report under way tells of → whether it puts it in storage
        self._urgent = False
        self._flush = False  # the runner asked for a report, be it only of how many tasks ran
        self._live = 1
        self._ran = 0
        self._timed = 0  # tasks that ran here
        self._timed_s = 0.0  # how long they ran together
        self._running_s = 0.0  # how long the present ones run, as far as we know
        self._suspending = False  # what we hold is on its way into storage; then we ask
        self._asked = False  # `Suspend` was commanded, and nothing has come since that makes it pointless
        self._commands: list[m.Command] = []

    # What the runner asks

    def leaves(self, task: int) -> bool:
        """Whether the output of a task may have to leave this worker, so that its size matters."""
        if task in self.view.graph.sink_set:
            return True
        worker_of = self.view.worker_of
        if worker_of[task] and all(worker_of[consumer] == worker_of[task] for consumer in self._dependents[task]):
            return False
        consumers = self._dependents[task]
        if len(consumers) > 1 or worker_of[consumers[0]] or len(self._deps[consumers[0]]) > 1:
            return True
        return not self.resources.covers(self.view.resources_of[consumers[0]])

    @property
    def unreported(self) -> bool:
        """Whether a report could be sent now that others may wait for."""
        if self._sent is not None:
            return False
        tellable = self._publish or not self._storing.issuperset(self._outbox)
        return bool(tellable) or any(not waits & self._storing for waits, _ in self._claims)

    @property
    def idle(self) -> bool:
        """Whether the worker can do nothing until an event from outside comes."""
        return not (
            self._running
            or self._queue
            or self._blocked
            or self._storing
            or self._sent
            or self._outbox
            or self._publish
        )

    @property
    def queued(self) -> bool:
        """Whether tasks wait here behind running ones."""
        return bool(self._queue)

    @property
    def suspending(self) -> bool:
        """Whether `Suspend` still holds: nothing has come since.

        Who carries it out looks here first, and lets nothing happen between the question and its answer: a
        wake-up that the core has taken in is not seen by storage as one that came too late.
        """
        return self._asked

    @property
    def awaited(self) -> list[int]:
        """The planned tasks here that wait for outputs of other workers; ascending."""
        return sorted(self._foreign)

    def needed_later(self) -> list[int]:
        """The outputs that exist only in this worker's memory and that its later tasks take."""
        return [task for task in self._unstored if task in self._uses]

    # What happens

    def handle(self, event: m.Event, now_s: float = 0.0) -> list[m.Command]:
        """Take an event in, which happened now; say what must be done."""
        if self.over:
            return []
        self._now_s = now_s
        self._commands = []
        self._HANDLERS[type(event)](self, event)
        if not self.over:
            self._advance()
        commands, self._commands = self._commands, []
        return commands

    def _began(self, event: m.Began) -> None:
        self._live = event.live
        self._done = event.done
        for task in event.tasks:
            self._enqueue(task)
        self._counted = set(event.done.intersection(self._planned))
        self._remaining = set(self._planned) - self._counted
        for task in self._planned:
            if task in self._remaining:
                self._expect(task, event.done)
        if self._foreign:
            self._commands.append(m.Listen())

    def _expect(self, task: int, done: frozenset[int]) -> None:
        """Count what a planned task waits for."""
        deps = self._deps[task]
        local = sum(dep in self._remaining for dep in deps)
        foreign = any(dep not in done and self.view.worker_of[dep] != self.name for dep in deps)
        self._use(deps)
        if foreign:
            self._foreign.add(task)
        if local + foreign:
            self._waits[task] = local + foreign
        else:
            self._queue.append(task)
            self._ready_s[task] = self._now_s

    def _inputs_ready(self, event: m.InputsReady) -> None:
        for dep in event.received:
            self._values.add(dep)
            self._drop_if_unused(dep)
        if event.task in self._foreign:
            self._foreign.discard(event.task)
            self._count_down(event.task)

    def _count_down(self, task: int) -> None:
        self._waits[task] -= 1
        if not self._waits[task]:
            del self._waits[task]
            self._queue.append(task)
            self._ready_s[task] = self._now_s

    def _enqueue(self, task: int, *, next_up: bool = False) -> None:
        """A flexible task is ours and ready."""
        self._use(self._deps[task])
        self._ready_s[task] = self._now_s
        if next_up:
            self._queue.appendleft(task)
        else:
            self._queue.append(task)

    def _fetched(self, event: m.Fetched) -> None:
        arrived = set(event.tasks)
        self._fetching -= arrived
        self._values |= arrived
        unblocked = []
        for task, missing in self._blocked.items():
            missing -= arrived
            if not missing:
                unblocked.append(task)
        for task in reversed(unblocked):
            del self._blocked[task]
            self._blocked_s[task] = self._now_s - self._blocked_s[task]
            self._queue.appendleft(task)

    def _finished(self, event: m.TaskFinished) -> None:
        task = event.task
        self._running.discard(task)
        self._ran += 1
        self._timed += 1
        self._timed_s += event.duration_s
        self._running_s = 0.0
        self._values.add(task)
        self._remaining.discard(task)
        ours: list[int] = []
        gathered: list[int] = []
        counted: list[int] = []
        for consumer in self._dependents[task]:
            worker = self.view.worker_of[consumer]
            if worker:
                if worker != self.view.worker_of[task]:
                    counted.append(consumer)
                elif consumer in self._waits:
                    self._count_down(consumer)
            elif len(self._deps[consumer]) == 1:
                ours.append(consumer)
            elif self._gather(consumer, task):
                gathered.append(consumer)
            else:
                counted.append(consumer)
        self._unstored[task] = event.size_bytes
        if counted or task in self.view.graph.sink_set:
            self._outbox[task] = m.Finished(task, event.size_bytes, tuple(counted))
        settled = self._withdraw(gathered)
        if ours or gathered:
            self._adopt(sorted(ours + gathered))
        self._spare_inputs(task, counted)
        for dep in settled:
            self._release(self._spared.pop(dep, ()))
        self._release(self._deps[task])
        self._drop_if_unused(task)

    def _spare_inputs(self, task: int, counted: Sequence[int]) -> None:
        """Keep inputs that a flexible consumer takes too: if the report brings it to us, they are here.

            data ──▶ step 1 ──▶ step 2 ──▶ …      every step takes `data`; without this,
              └─────────┴──────────┴──────▶ …      every step would fetch it again

        They are let go when the report is answered.
        """
        deps = self._deps[task]
        flexible = [consumer for consumer in counted if not self.view.worker_of[consumer]]
        shared = {dep for consumer in flexible for dep in _common(deps, self._deps[consumer])}
        if shared:
            self._spared[task] = list(shared)
            self._use(shared)

    def _gather(self, consumer: int, task: int) -> bool:
        """One more input of a flexible task has finished here; whether the task is ours by that."""
        if task in self._done:  # run again: others were told of it, and may have gone on
            return False
        if consumer not in self._gathered:
            self._gathered[consumer] = sum(dep in self._done for dep in self._deps[consumer]) if self._done else 0
        self._gathered[consumer] += 1
        if self._is_gathered(consumer) and not self._storing.isdisjoint(self._deps[consumer]):
            # An input of it is being written for it. If we went on at once, the run might be over before, and
            # the object left behind.
            self._gathered[consumer] = 0
        return self._is_gathered(consumer)

    def _is_gathered(self, consumer: int) -> bool:
        return self._gathered.get(consumer) == len(self._deps[consumer])

    def _withdraw(self, gathered: Sequence[int]) -> list[int]:
        """These flexible tasks are ours: nobody has to be told of them.

        Returns:
            The inputs that have left the outbox.
        """
        ours = set(gathered)
        settled = []
        for dep in {dep for consumer in gathered for dep in self._deps[consumer]}:
            pending = self._outbox.get(dep)
            if pending is None:
                continue
            rest = tuple(other for other in pending.consumers if other not in ours)
            if rest or pending.keep or dep in self.view.graph.sink_set:
                self._outbox[dep] = msgspec.structs.replace(pending, consumers=rest)
            else:
                del self._outbox[dep]
                settled.append(dep)
        return settled

    def _raised(self, event: m.TaskRaised) -> None:
        tries = self._tries.get(event.task, 1)
        if event.retryable and tries <= self.view.graph.info(event.task).retries:
            self._tries[event.task] = tries + 1
            self._commands.append(m.Run(event.task, tries + 1, self._now_s))
            return
        self._commands.append(m.Fail(event.task, event.failure))
        self._leave(Status.FAILED)

    def _stored(self, event: m.OutputStored) -> None:
        task = event.task
        self._storing.discard(task)
        if task in self._outbox:
            self._outbox[task] = msgspec.structs.replace(self._outbox[task], stored=True)
        else:
            self._publish[task] = Published(task, self._unstored[task])
        self._urgent = True

    def _flush_due(self, event: m.FlushDue) -> None:
        self._urgent = self._flush = True
        self._running_s = event.running_s
        self._hand_on()

    def _stop(self, _: m.StopRequested) -> None:
        self._leave(Status.GONE)

    # Reports

    def _report(self) -> None:
        """Send what can be told now; large outputs that storage needs are stored before."""
        self._urgent = False
        flush, self._flush = self._flush, False
        completions = []
        for task, pending in list(self._outbox.items()):
            if task in self._storing:
                continue
            if self._must_store(pending):
                self._store(task)
                continue
            completions.append(pending)
            del self._outbox[task]
        claims = [claim for waits, group in self._claims if not waits & self._storing for claim in group]
        self._claims = [(waits, group) for waits, group in self._claims if waits & self._storing]
        published = tuple(self._publish.values())
        self._publish = {}
        if completions or published or claims or (flush and (self._ran or self._has_backlog())):
            self._sent = m.Send(tuple(completions), published, tuple(claims), self._ran)
            self._sent_tasks = {f.task: f.stored or f.keep for f in completions}
            self._sent_tasks |= dict.fromkeys((p.task for p in published), True)
            self._ran = 0
            self._commands.append(self._sent)

    def _must_store(self, pending: m.Finished) -> bool:
        if pending.stored or pending.size_bytes <= self.view.inline_bytes:
            return False
        sink = pending.task in self.view.graph.sink_set
        return pending.keep or sink or any(self.view.worker_of[consumer] for consumer in pending.consumers)

    def _store(self, task: int) -> None:
        if task not in self._storing:
            self._storing.add(task)
            self._commands.append(m.Store(task))

    def _reported(self, event: m.Reported) -> None:
        sent, self._sent = self._sent, None
        self._sent_tasks = {}
        outcome = event.outcome
        if sent is None or outcome.status not in (Status.RUNNING, Status.SUCCEEDED):
            self._leave(outcome.status)
            return
        self._live = outcome.live + sum(len(group) for _, group in self._claims)
        self._note_stored(sent, outcome)
        if outcome.started:
            self._invoke(sent, outcome)
        if outcome.ready:
            self._adopt(list(outcome.ready))
        self._hand_on()
        for finished in sent.completions:
            if finished.task not in self._outbox:
                self._release(self._spared.pop(finished.task, ()))
            self._drop_if_unused(finished.task)
        for published in sent.published:
            self._drop_if_unused(published.task)
        if outcome.status is Status.SUCCEEDED:
            self._commands.append(m.CleanUp())
            self._leave(outcome.status)

    def _note_stored(self, sent: m.Send, outcome: Outcome) -> None:
        """Work out which outputs are in storage now, by the rules of `Completion`."""
        refused = set(outcome.store_first)
        ready = set(outcome.ready)
        for finished in sent.completions:
            if finished.task in refused:
                self._report_again(finished)
                continue
            self._counted.add(finished.task)
            if finished.keep or finished.stored or not finished.consumers or not ready.issuperset(finished.consumers):
                self._unstored.pop(finished.task, None)
        for published in sent.published:
            self._unstored.pop(published.task, None)

    def _report_again(self, finished: m.Finished) -> None:
        """A held output must be stored first; unless all who take it have turned out to be ours meanwhile."""
        task = finished.task
        rest = tuple(consumer for consumer in finished.consumers if not self._is_gathered(consumer))
        if not rest:
            return
        stored = self._publish.pop(task, None) is not None
        self._outbox[task] = msgspec.structs.replace(finished, consumers=rest, keep=True, stored=stored)
        if not stored:
            self._store(task)

    def _invoke(self, sent: m.Send, outcome: Outcome) -> None:
        asked = {claim.worker: claim for claim in sent.claims}
        claims = []
        for worker, attempt in outcome.started:
            claim = asked.get(worker) or self.view.planned_claim(worker)
            claims.append(msgspec.structs.replace(claim, attempt=attempt))
        self._commands.append(m.Invoke(tuple(claims)))

    # Flexible tasks

    def _adopt(self, ready: Sequence[int]) -> None:
        """Flexible tasks became ready and are ours: go on with a share of them, claim workers for the others."""
        mine, surplus = self._share(ready)
        for task in reversed(mine):
            self._enqueue(task, next_up=True)
        if not surplus:
            return
        groups = self.view.group(surplus, self._groups(len(ready)) - 1 or 1)
        waits = self._publish_inputs(surplus)
        self._claims.append((waits, [self.view.flexible_claim(group) for group in groups]))
        self._live += len(groups)
        self._urgent = True

    def _share(self, ready: Sequence[int]) -> tuple[list[int], list[int]]:
        """What of the ready tasks we go on with, and what is for others."""
        fitting = [task for task in ready if self.resources.covers(self.view.resources_of[task])]
        count = -(-len(ready) // self._groups(len(ready)))
        free = self.resources.task_slots - len(self._running) - len(self._queue) - len(self._blocked)
        mine = fitting[: max(count, free)]
        kept = set(mine)
        return mine, [task for task in ready if task not in kept]

    def _groups(self, count: int) -> int:
        """Into how many shares, ours included, so many ready tasks are split.

        As many as the platform has room for. If it has none, few tasks stay with us rather than queue for
        a worker each; many are split all the same, for whoever ends first.
        """
        room = self.view.concurrency - self._live
        if room > 0:
            return min(count, room + 1)
        return max(1, min(count // self.view.concurrency, self.view.concurrency))

    def _has_backlog(self) -> bool:
        """Whether what is queued here would take longer than a worker takes to start."""
        if not (self._queue and self._running):
            return False
        pace_s = max(self._running_s, self._timed_s / self._timed if self._timed else 0.0)
        return pace_s * len(self._queue) > self.view.start_s * self.resources.task_slots

    def _hand_on(self) -> None:
        """Give others a share of the flexible tasks that are queued here, if there is room for more workers."""
        room = self.view.concurrency - self._live
        if room <= 0 or not self._has_backlog():
            return
        flexible = [task for task in self._queue if not self.view.worker_of[task] and self._may_leave(task)]
        workers = 1 + min(room, len(flexible))
        given = flexible[(len(flexible) + workers) // workers - 1 :]
        if not given:
            return
        gone = set(given)
        self._queue = deque(task for task in self._queue if task not in gone)
        groups = self.view.group(given, workers - 1)
        waits = self._publish_inputs(given)
        generation = generation_of(self.name) + 1
        self._claims.append((waits, [self.view.flexible_claim(group, generation) for group in groups]))
        self._live += len(groups)
        self._urgent = True
        for task in given:
            del self._ready_s[task]
            self._release(self._deps[task])

    def _may_leave(self, task: int) -> bool:
        """Whether a queued task can be run elsewhere: of inputs that were to stay here not even the size is known."""
        return all(dep not in self._unstored or self.leaves(dep) for dep in self._deps[task])

    def _publish_inputs(self, tasks: Sequence[int]) -> set[int]:
        """Have the inputs of tasks for others put into storage; returns those that are being stored."""
        unstored = {dep for task in tasks for dep in self._deps[task] if dep in self._unstored}
        return {dep for dep in sorted(unstored) if self._put_in_storage(dep)}

    def _put_in_storage(self, task: int) -> bool:
        """Have an output that only we hold put into storage; whether it is large, and must be stored first."""
        size = self._unstored[task]
        if task in self._outbox:
            self._outbox[task] = msgspec.structs.replace(self._outbox[task], keep=True)
            if self._outbox[task].stored:
                return False
        elif task in self._publish or self._sent_tasks.get(task):
            return False
        elif task not in self._counted and task not in self._sent_tasks:
            self._outbox[task] = m.Finished(task, size, keep=True)
        elif size <= self.view.inline_bytes:
            self._publish[task] = Published(task, size)
        if size <= self.view.inline_bytes:
            return False
        self._store(task)
        return True

    # Giving the slot up

    def _waited_long(self, event: m.WaitedLong) -> None:
        """Others cannot start while we wait: put what our later tasks need into storage, then ask to end.

        Tasks whose consumers are all here were never reported; they are now, so that the next attempt
        does not repeat them.
        """
        if not self.idle or not self._remaining or self._suspending:
            return
        self._suspending = True
        self._unstored |= {task: size for task, size in event.sizes.items() if task in self._unstored}
        for task in self._planned:
            if task not in self._remaining and task not in self._counted:
                self._outbox[task] = m.Finished(task, self._unstored.get(task, 0))
        for task in self.needed_later():
            self._put_in_storage(task)
        self._urgent = True

    def _suspend_answered(self, event: m.SuspendAnswered) -> None:
        self._suspending = self._asked = False
        if event.granted:
            self._leave(Status.RUNNING, suspended=True)

    # Going on

    def _advance(self) -> None:
        """After every event: run what can run, tell what must be told, end when there is nothing left."""
        self._start_tasks()
        if self._running or self._blocked:
            self._suspending = self._asked = False
        if self._sent is None and (self._urgent or (not self._running and self.unreported)):
            self._report()
        if not self.idle:
            return
        if self._suspending and not self._asked:
            self._asked = True
            self._commands.append(m.Suspend())
        elif not self._remaining and not self._claims:
            self._leave(Status.RUNNING)

    def _start_tasks(self) -> None:
        """Fill the task slots; fetch what the next tasks lack, for many of them at once."""
        missing: dict[int, None] = {}
        slots = self.resources.task_slots
        while self._queue and len(self._running) < slots and len(self._blocked) < FETCH_AHEAD:
            task = self._queue.popleft()
            lacking = {dep for dep in self._deps[task] if dep not in self._values}
            if not lacking:
                self._running.add(task)
                ready_s, fetch_s = self._ready_s.pop(task), self._blocked_s.pop(task, 0.0)
                self._commands.append(m.Run(task, self._tries.get(task, 1), ready_s, fetch_s))
                continue
            self._blocked[task] = lacking
            self._blocked_s[task] = self._now_s
            missing.update(dict.fromkeys(sorted(lacking - self._fetching)))
        if missing:
            self._fetching.update(missing)
            self._commands.append(m.Fetch(tuple(missing)))

    def _use(self, deps: Iterable[int]) -> None:
        for dep in deps:
            self._uses[dep] = self._uses.get(dep, 0) + 1

    def _release(self, deps: Iterable[int]) -> None:
        for dep in deps:
            self._uses[dep] -= 1
            if not self._uses[dep]:
                del self._uses[dep]
                self._drop_if_unused(dep)

    def _drop_if_unused(self, task: int) -> None:
        """Forget a value that nothing here will take and that nobody else can miss."""
        if task in self._uses or task not in self._values:
            return
        if task in self._outbox or task in self._publish or task in self._storing or task in self._sent_tasks:
            return
        self._values.discard(task)
        self._unstored.pop(task, None)
        self._commands.append(m.Discard((task,)))

    def _leave(self, status: Status, *, suspended: bool = False) -> None:
        self.over = True
        self._commands.append(m.Leave(status, suspended))

    def validate(self) -> None:
        """Check the invariants; for tests.

        Raises:
            AssertionError: One does not hold.
        """
        places: list[Iterable[int]] = [self._waits, self._queue, self._blocked, self._running]
        everywhere = [task for place in places for task in place]
        if len(everywhere) != len(set(everywhere)):
            raise AssertionError(f"{self.name}: a task is in two places: {sorted(everywhere)}")
        told = {f.task for f in self._outbox.values() if f.keep or f.consumers or f.task in self.view.graph.sink_set}
        pending = told | set(self._publish) | self._storing
        if not self._values >= pending:
            raise AssertionError(f"{self.name}: outputs without values: {pending - self._values}")
        stray = {v for v in self._values if v not in self._uses} - pending - set(self._sent_tasks) - set(self._outbox)
        if stray and not self.over:
            raise AssertionError(f"{self.name}: values that nothing needs: {stray}")

    _HANDLERS: ClassVar[dict[type[m.Event], Callable[[Any, Any], None]]] = {
        m.Began: _began,
        m.TaskFinished: _finished,
        m.TaskRaised: _raised,
        m.Fetched: _fetched,
        m.OutputStored: _stored,
        m.Reported: _reported,
        m.FlushDue: _flush_due,
        m.InputsReady: _inputs_ready,
        m.WaitedLong: _waited_long,
        m.SuspendAnswered: _suspend_answered,
        m.StopRequested: _stop,
    }


def _common(ascending: Sequence[int], others: Sequence[int]) -> list[int]:
    """What two ascending sequences have in common; cheap if they do not overlap, as between layers of a graph."""
    if not ascending or not others or ascending[-1] < others[0] or others[-1] < ascending[0]:
        return []
    return [task for task in ascending if others[bisect_left(others, task) % len(others)] == task]
