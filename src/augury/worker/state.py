"""The worker core: events in, commands out; no I/O, no clock (what time it is comes with the events).

One `WorkerState` is one invocation of one worker. The runner tells it what happened and carries out what
it answers, so the same core works in production, in virtual time and in fault tests:

    for command in state.handle(TaskFinished(task=7)):
        runner.execute(command)

The life of a task here, and of its output:

    waits ──inputs done──▶ queue ──▶ (blocked while inputs are fetched) ──▶ running ──▶ finished
                             ▲                                                 │          │
                             └────── paused, if it is to be tried again ◀──────┘          │
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

A worker that stands for a lost one does what was lost and is still needed (`augury.worker.recovery`); then flexible
tasks, too, may wait here for others. From there on it is like any other, but that it leaves alone what others have or
nobody needs.

A task that takes much longer than expected is run by a second worker too, which is claimed for it as soon as the
platform has room. Both report it alike, as with duplicates (see below), and each tells the other. What comes first
counts.

What optimizations ask for is decided by policies (`augury.worker.policies`) and done here. A plan without hints has
none of them, and nothing of what follows happens:

- *Watching.* Completions that others watch are reported with their names, whoever takes the output.
- *Fetching early.* Outputs that tasks here wait for are fetched before those are ready; they are not fetched twice.
- *Duplicates.* A planned task that its own worker watches may be run by another worker too, if planned tasks there
  wait for it. Both report it alike, so that storage counts it once; for that its flexible consumers are all counted
  in storage. Who hears that the other was faster forgets the task, or has it stopped (it is *abandoned*) and
  ignores what it still says; the output comes from storage. So the life of a duplicate is

      (inputs are fetched) ──▶ ready ──▶ running ──▶ finished, or spoiled if it failed
                └───────────────┴──────────┴── heard of, or of no use any more: dropped
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

import msgspec

from augury.config import Resources
from augury.storage.protocols import Claim, Outcome, Status, Tried
from augury.worker import messages as m
from augury.worker.advice import EARLY_S, Advice
from augury.worker.duplicates import Duplicates
from augury.worker.memory import Memory
from augury.worker.outbox import Outbox
from augury.worker.policies.policy import Action, Duplicate, FetchEarly, PreWarm
from augury.worker.policies.registry import Policies
from augury.worker.ready import RankedQueue, ReadyQueue
from augury.worker.recovery import Duties, duties
from augury.worker.retries import Pauses, pause_s
from augury.worker.sharing import Gathering, Pace, handed_on, shares
from augury.worker.view import RunView, generation_of, second_name, second_of

_UNLIKELY = 0.25
"""What may be tried though it has to be given up with this probability."""
FETCH_AHEAD = 16
"""How many tasks at most wait for inputs at once: their inputs come in one round trip, and sit in memory."""


class WorkerState:
    """What one invocation knows and has to do.

    Invariants, checked by `validate`:
        - a task is in at most one of: waiting, queue, blocked, running, paused until its next try, and duplicates that
          do not run yet;
        - an output has as many uses as there are tasks in these places that take it, and reasons to spare it;
        - what is abandoned runs; a duplicate is a task of another worker that something here takes and that is not
          known to be complete, unless it is abandoned;
        - an output that is to be told with its value, stored or published is in memory until that is answered;
        - a value is in memory only while something here uses it, or it waits to be told, stored or published, or is
          being fetched too;
        - after `Leave` nothing is handled any more.

    Args:
        view: The graph and the plan.
        name: Which worker this is.
        resources: What it has.
        policies: What optimizations have workers do; worked out if it is not given.
    """

    def __init__(self, view: RunView, name: str, resources: Resources, policies: Policies | None = None) -> None:
        policies = Policies(view) if policies is None else policies
        self.view = view
        self.name = name
        self.resources = resources
        self.over = False
        self._deps = view.graph.deps
        self._dependents = view.graph.dependents
        self._planned = view.planned_for(name)
        self._remaining: set[int] = set()
        self._waits: dict[int, int] = {}  # planned task → local inputs to come, plus one for all foreign ones
        self._foreign: set[int] = set()  # planned tasks that wait for foreign inputs
        self._queue = RankedQueue(view.plan.ranks) if view.plan.ranks and self._planned else ReadyQueue()
        self._blocked: dict[int, set[int]] = {}  # task → its inputs under way
        self._now_s = 0.0  # when the event that is being handled happened
        self._ready_s: dict[int, float] = {}  # task that is queued or blocked → when it became ready
        self._blocked_s: dict[int, float] = {}  # task that was blocked → since when; once its inputs came, for how long
        self._running: set[int] = set()
        self._tries: dict[int, int] = {}
        self._pauses = Pauses()  # tasks that raised and are to be tried again
        self._done: AbstractSet[int] = frozenset()  # what storage had counted when we began
        self._outbox = Outbox(view, self._emit)
        self._memory = Memory(self._outbox.holds, self._outbox.forget, self._emit)
        self._spared: dict[int, list[int]] = {}  # unreported task → inputs of it that its consumers take too
        self._gathering = Gathering(view.graph.deps)
        self._urgent = False
        self._flush = False  # the runner asked for a report, be it only of how many tasks ran
        self._live = 1
        self._ran = 0
        self._pace = Pace()
        self._suspending = False  # what we hold is on its way into storage; then we ask
        self._asked = False  # `Suspend` was commanded, and nothing has come since that makes it pointless
        self._policies = policies if policies else None
        self._advice = Advice(name, policies.of(name), len(view.graph)) if policies else None
        self._alarm_s = math.inf  # for when the runner was asked to ring
        self._heard: set[int] = set()  # tasks that others completed since we began, or that we completed for them
        self._dups = Duplicates()
        self._abandoned: set[int] = set()  # tasks that run in vain
        second = second_of(name)
        self._second_for = -1 if second is None else second[0]  # the task that another worker runs too
        self._shared: dict[int, str] = {} if second is None else {second[0]: second[1]}  # task → who else runs it
        self._late: set[int] = set()  # tasks that take too long, and for which there was no room for a second worker
        self._winding_down = False  # no more tasks are started
        self._handing_over = False  # what we hold is on its way into storage; then a successor is asked for
        self._handed = False  # and was
        self._cut = False  # tasks were still running then
        self._duties: Duties | None = None  # of a worker that stands for a lost one
        self._commands: list[m.Command] = []

    # What the runner asks

    def leaves(self, task: int) -> bool:
        """Whether the output of a task may have to leave this worker, so that its size matters."""
        return task in self._shared or self._leaves_alone(task)

    def may_stay(self, task: int) -> bool:
        """Whether the output of a task leaves only since a second worker runs the task too: that one can do without."""
        return task in self._shared and task != self._second_for and not self._leaves_alone(task)

    def _leaves_alone(self, task: int) -> bool:
        """Whether the output of a task that no second worker runs may have to leave."""
        if task in self.view.graph.sink_set or (self._policies and self._policies.watchers(task)):
            return True
        worker_of = self.view.worker_of
        if worker_of[task] and all(worker_of[consumer] == worker_of[task] for consumer in self._dependents[task]):
            return False
        consumers = self._dependents[task]
        if len(consumers) > 1 or worker_of[consumers[0]] or len(self._deps[consumers[0]]) > 1:
            return True
        return not self.resources.covers(self.view.resources_of[consumers[0]])

    def wants(self, task: int) -> bool:
        """Whether something here waits for the output of a task, and it is not here."""
        return self._memory.lacks(task)

    @property
    def unreported(self) -> bool:
        """Whether a report could be sent now that others may wait for."""
        return self._outbox.unreported

    @property
    def idle(self) -> bool:
        """Whether the worker can do nothing until an event from outside comes."""
        return not (self._running or self._queue or self._blocked or self._pauses or self._outbox.busy or self._dups)

    @property
    def live(self) -> int:
        """How many invocations of the run there are, as far as we were told."""
        return self._live

    @property
    def queued(self) -> bool:
        """Whether tasks wait here behind running ones that others may be able to run; may be asked at any time."""
        return bool(self._queue) and not self.view.is_planned

    @property
    def quiet(self) -> bool:
        """Whether nothing runs and nothing is under way to storage."""
        return not (self._running or self._outbox.busy)

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
        return [task for task in self._outbox.unstored if task in self._memory.uses]

    def unstored_inputs(self, task: int) -> list[int]:
        """The inputs of a task that runs here that exist only in this worker's memory."""
        return [dep for dep in self._deps[task] if dep in self._outbox.unstored]

    # What happens

    def _emit(self, command: m.Command) -> None:
        self._commands.append(command)

    def handle(self, event: m.Event, now_s: float = 0.0) -> list[m.Command]:
        """Take an event in, which happened now; say what must be done."""
        if self.over:
            return []
        self._now_s = now_s
        self._commands = []
        self._HANDLERS[type(event)](self, event)
        if not self.over:
            self._advance()
        if self._advice is not None and not self.over:
            self._set_alarm(self._advice.next_s)
        if self._pauses and not self.over:
            self._set_alarm(self._pauses.next_s)
        commands, self._commands = self._commands, []
        return commands

    def _began(self, event: m.Began) -> None:
        self._live = event.live
        # What is left was asked for later: what is in storage by then has been counted.
        self._done = event.done if event.remains is None else event.done | event.remains.stored
        self._gathering.begin(self._done)
        if event.remains is not None:
            self._begin_again(
                duties(self.view, self.name, self._done, event.remains, self._is_duplicable), event.remains.tried
            )
        else:
            for task in event.tasks:
                self._enqueue(task)
            self._outbox.counted = {task for task in self._planned if task in event.done}
            self._remaining = set(self._planned) - self._outbox.counted
            for task in self._planned:
                if task in self._remaining:
                    self._expect(task, event.done)
        if self._foreign or self._shared or self._hears_of_own_tasks():
            self._commands.append(m.Listen())
        if self._advice is not None:
            self._advise("began", frozenset(self._done))

    def _begin_again(self, found: Duties, tried_before: Iterable[Tried]) -> None:
        """Stand for an attempt that was lost."""
        self._duties = found
        self._shared |= found.shared
        self._outbox.counted = {task for task in (*self._planned, *found.tasks) if task in self._done}
        self._remaining = set(found.tasks.intersection(self._planned))
        for task in sorted(found.tasks):
            self._expect(task, self._done)
        for tried in tried_before:
            if tried.task in found.tasks:
                self._take_up_tries(tried)

    def _take_up_tries(self, tried: Tried) -> None:
        """Try a task again that another attempt of this worker has tried, when it is time for that."""
        self._tries[tried.task] = tried.tries
        if tried.pause_s > 0 and tried.task in self._ready_s:
            del self._ready_s[tried.task]
            self._queue.drop((tried.task,))
            self._pauses.add(tried.task, self._now_s + tried.pause_s)

    def _expect(self, task: int, done: AbstractSet[int]) -> None:
        """Count what a task waits for: a planned one, or one that was lost."""
        deps = self._deps[task]
        planned = self.view.worker_of[task] == self.name
        here = self._remaining if planned or self._duties is None else self._duties.tasks
        local = sum(dep in here for dep in deps)
        foreign = planned and any(dep not in done and self.view.worker_of[dep] != self.name for dep in deps)
        self._memory.use(deps)
        if foreign:
            self._foreign.add(task)
        if local + foreign:
            self._waits[task] = local + foreign
        else:
            self._queue.append(task)
            self._ready_s[task] = self._now_s

    def _inputs_ready(self, event: m.InputsReady) -> None:
        for dep in event.received:
            self._memory.values.add(dep)
            self._memory.drop_if_unused(dep)
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
        self._memory.use(self._deps[task])
        self._ready_s[task] = self._now_s
        if next_up:
            self._queue.appendleft(task)
        else:
            self._queue.append(task)

    def _fetched(self, event: m.Fetched) -> None:
        arrived = set(event.tasks)
        for task in self._dups.arrived(arrived):
            self._blocked_s[task] = self._now_s - self._blocked_s[task]
        unblocked = []
        for task, missing in self._blocked.items():
            missing -= arrived
            if not missing:
                unblocked.append(task)
        for task in reversed(unblocked):
            del self._blocked[task]
            self._blocked_s[task] = self._now_s - self._blocked_s[task]
            if self.view.worker_of[task]:
                self._queue.put_back(task)
            else:
                self._queue.appendleft(task)
        self._memory.fetched(event.tasks)

    def _fetch_failed(self, event: m.FetchFailed) -> None:
        """A task of ours cannot do without; what another worker does too is left to that one."""
        arrived = self._memory.values.intersection(event.tasks)  # in another way
        self._memory.fetch_failed(event.tasks)
        self._fetched(m.Fetched(tuple(sorted(arrived))))
        failed = set(event.tasks) - arrived
        for task in [task for task, lacking in self._dups.fetching.items() if lacking & failed]:
            self._dups.spoiled.add(task)
            self._drop_duplicate(task)
        if self._blocked.get(self._second_for, set()) & failed:
            self._dups.spoiled.add(self._second_for)
            self._forget(self._second_for)
        blocked = [task for task, lacking in self._blocked.items() if lacking & failed]
        if blocked:
            self._commands.append(m.Fail(blocked[0], event.failure))
            self._leave(Status.FAILED)

    def _finished(self, event: m.TaskFinished) -> None:
        task = event.task
        if task in self._abandoned:
            self._finished_in_vain(task)
            return
        if event.stays:
            del self._shared[task]  # the second worker fares no better, or does it in vain
        self._running.discard(task)
        self._ran += not self._is_duplicable(task)
        self._pace.add(event.duration_s)
        self._memory.values.add(task)
        self._remaining.discard(task)
        ours, gathered, counted = self._sort_consumers(task)
        self._outbox.unstored[task] = event.size_bytes
        watchers = self._others_watching(task) if self._policies or self._shared else ()
        if counted or watchers or task in self.view.graph.sink_set:
            told = m.Finished(task, event.size_bytes, tuple(counted), keep=bool(watchers), watchers=watchers)
            self._outbox.pending[task] = told
            self._outbox.taken |= dict.fromkeys(gathered)
            if self._duties is not None:
                self._outbox.taken |= dict.fromkeys(sorted(self._duties.taken.intersection(self._dependents[task])))
        settled = self._outbox.withdraw(gathered) if gathered else ()
        if ours or gathered:
            self._adopt(sorted(ours + gathered))
        self._spare_inputs(task, counted)
        for dep in settled:
            self._memory.release(self._spared.pop(dep, ()))
        self._memory.release(self._deps[task])
        self._memory.drop_if_unused(task)
        if self._advice is not None:
            self._note_finished(task)

    def _sort_consumers(self, task: int) -> tuple[list[int], list[int], list[int]]:
        """Count a finished task for its consumers here.

        Returns:
            The flexible ones that are ours, since it is their only input, or since all their inputs finished here; and
            those that storage counts for.
        """
        ours: list[int] = []
        gathered: list[int] = []
        counted: list[int] = []
        worker_of = self.view.worker_of
        duplicable = self._is_duplicable(task)
        for consumer in self._dependents[task]:
            worker = worker_of[consumer]
            if self._duties is not None and not worker and self._is_settled(consumer, self._duties):
                continue
            if worker:
                if worker != worker_of[task]:
                    counted.append(consumer)
                elif consumer in self._waits:
                    self._count_down(consumer)
            elif duplicable:
                counted.append(consumer)
            elif len(self._deps[consumer]) == 1:
                ours.append(consumer)
            elif self._gathering.add(consumer, task, self._outbox.storing):
                gathered.append(consumer)
            else:
                counted.append(consumer)
        # What was lost and is done again was told of, if anybody was to be told.
        return ours, gathered, [] if self._duties is not None and task in self._done else counted

    def _is_settled(self, consumer: int, found: Duties) -> bool:
        """Whether a flexible consumer needs nothing more of us: counted for here, with others, or not needed."""
        if consumer in self._waits:
            self._count_down(consumer)
            return True
        return consumer in found.tasks or consumer in found.others or consumer not in found.needed

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
            self._memory.use(shared)

    def _raised(self, event: m.TaskRaised) -> None:
        if event.task in self._abandoned:
            self._end_in_vain(event.task)
            return
        if event.task in self._dups or event.task == self._second_for:
            self._dups.spoiled.add(event.task)  # its own worker may have more luck, and its failure counts
            self._end_in_vain(event.task)
            return
        tries = self._tries.get(event.task, 1)
        info = self.view.graph.info(event.task)
        if event.retryable and tries <= info.retries:
            self._tries[event.task] = tries + 1
            self._running.discard(event.task)
            self._late.discard(event.task)
            self._pauses.add(event.task, self._now_s + pause_s(info, self.view.run_id, event.task, tries))
            self._resume(self._now_s)
            return
        self._commands.append(m.Fail(event.task, event.failure))
        self._leave(Status.FAILED)

    def _resume(self, until_s: float) -> None:
        """Queue the tasks that have waited long enough for their next try; their inputs are still here."""
        for task in reversed(self._pauses.take_due(until_s)):
            self._ready_s[task] = self._now_s
            if self.view.worker_of[task]:
                self._queue.put_back(task)
            else:
                self._queue.appendleft(task)

    def _stored(self, event: m.OutputStored) -> None:
        self._outbox.stored(event.task)
        self._urgent = True

    def _flush_due(self, event: m.FlushDue) -> None:
        self._urgent = self._flush = True
        self._pace.running_s = event.running_s
        self._share_late()
        self._hand_on()

    def _stop(self, event: m.StopRequested) -> None:
        if event.status is Status.SUCCEEDED:
            self._commands.append(m.CleanUp())
        self._leave(event.status)

    # Reports

    def _report(self) -> None:
        """Send what can be told now."""
        self._urgent = False
        flush, self._flush = self._flush, False
        storing = len(self._outbox.storing)
        report = self._outbox.collect()
        if self._policies or self._shared:
            # What two workers may run is told to have run with its completion: storage knows if it has counted that.
            self._ran += sum(self._is_duplicable(finished.task) for finished in report.completions)
        tells = report.completions or report.published or report.claims or report.tried
        if len(self._outbox.storing) > storing:
            # What is about to be stored is reported soon, with how many tasks ran: an empty report would delay it.
            flush = False
        if tells or (flush and (self._ran or self._late or self._asks_for_room())):
            self._outbox.send(msgspec.structs.replace(report, ran=self._ran, last=self._is_last(report)))
            self._ran = 0

    def _is_last(self, report: m.Send) -> bool:
        """Whether nothing is left to do after a report, as far as one can tell.

        If it completes inputs of flexible tasks, one of these may become ready by it, and is ours then. It is unlikely
        for a task with many inputs that ours is its last.
        """
        if self._remaining or self._queue or self._running or self._blocked or self._pauses or self._winding_down:
            return False
        if self._advice is not None or self._shared or self._dups or self._suspending or report.claims or report.tried:
            return False
        outbox = self._outbox
        if outbox.pending or outbox.storing or outbox.published or outbox.claims:
            return False
        flexible = [one for done in report.completions for one in done.consumers if not self.view.worker_of[one]]
        return not flexible or sum(1 / self.view.needs[one] for one in flexible) <= _UNLIKELY

    def _reported(self, event: m.Reported) -> None:
        sent = self._outbox.answered()
        outcome = event.outcome
        if sent is None or outcome.status not in (Status.RUNNING, Status.SUCCEEDED):
            self._leave(outcome.status)
            return
        self._live = outcome.live + sum(len(group) for _, group in self._outbox.claims)
        self._outbox.settle(sent, outcome, self._gathering.is_complete)
        if outcome.started:
            self._invoke(sent, outcome)
        if outcome.ready:
            self._adopt(list(outcome.ready))
        self._share_late()
        self._hand_on()
        for finished in sent.completions:
            if finished.task not in self._outbox.pending:
                self._memory.release(self._spared.pop(finished.task, ()))
            self._memory.drop_if_unused(finished.task)
        for published in sent.published:
            self._memory.drop_if_unused(published.task)
        if outcome.status is Status.SUCCEEDED:
            self._commands.append(m.CleanUp())
            self._leave(outcome.status)
        elif outcome.left:
            self._leave(Status.RUNNING)

    def _invoke(self, sent: m.Send, outcome: Outcome) -> None:
        asked = {claim.worker: claim for claim in (*sent.claims, *outcome.again)}
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
        groups = self.view.group(surplus, self._shares(len(ready)) - 1 or 1)
        self._claim(surplus, [self.view.flexible_claim(group) for group in groups])

    def _share(self, ready: Sequence[int]) -> tuple[list[int], list[int]]:
        """What of the ready tasks we go on with, and what is for others."""
        fitting = [task for task in ready if self.resources.covers(self.view.resources_of[task])]
        count = -(-len(ready) // self._shares(len(ready)))
        free = self.resources.task_slots - len(self._running) - len(self._queue) - len(self._blocked)
        mine = fitting[: max(count, free)]
        kept = set(mine)
        return mine, [task for task in ready if task not in kept]

    def _shares(self, tasks: int) -> int:
        return shares(tasks, self.view.spread - self._live, self.view.spread)

    def _claim(self, tasks: Sequence[int], claims: list[Claim]) -> None:
        """Have workers started for tasks, once their inputs are in storage."""
        self._outbox.claims.append((self._outbox.publish_inputs(tasks), claims))
        self._live += len(claims)
        self._urgent = True

    def _has_backlog(self) -> bool:
        """Whether what is queued here would take longer than a worker takes to start."""
        if not (self._queue and self._running):
            return False
        return self._pace.task_s * len(self._queue) > self.view.start_s * self.resources.task_slots

    def _asks_for_room(self) -> bool:
        """Whether something is queued, and will be for long, that others could run if there is room for them."""
        return self.queued and self._has_backlog() and any(not self.view.worker_of[task] for task in self._queue)

    def _hand_on(self) -> None:
        """Give others a share of the flexible tasks that are queued here, if there is room for more workers."""
        room = self.view.concurrency - self._live
        if room <= 0 or not self._has_backlog():
            return
        flexible = [task for task in self._queue if not self.view.worker_of[task] and self._may_leave(task)]
        kept, others = handed_on(len(flexible), self.resources.task_slots, room)
        given = flexible[kept:]
        if not given:
            return
        self._queue.drop(set(given))
        groups = self.view.group(given, others)
        generation = generation_of(self.name) + 1
        self._claim(given, [self.view.flexible_claim(group, generation) for group in groups])
        for task in given:
            del self._ready_s[task]
            self._memory.release(self._deps[task])

    def _may_leave(self, task: int) -> bool:
        """Whether a queued task can be run elsewhere: not while its tries are counted here, or tasks wait here for it.

        Of inputs that were to stay here not even the size is known.
        """
        if task in self._tries or (self._duties is not None and self._is_awaited(task)):
            return False
        return all(dep not in self._outbox.unstored or self.leaves(dep) for dep in self._deps[task])

    def _is_awaited(self, task: int) -> bool:
        """Whether a flexible task that was lost waits here for another one, so that nobody counts for it elsewhere."""
        return any(not self.view.worker_of[other] and other in self._waits for other in self._dependents[task])

    # What policies ask for

    def _advise(self, question: str, *arguments: Any) -> None:
        """Ask the policies what to do now, and do it."""
        if self._advice is not None:
            self._carry_out(self._advice.ask(question, *arguments, now_s=self._now_s))

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case PreWarm(resources, count):
                    self._commands.append(m.Prewarm(resources, count))
                case FetchEarly(tasks):
                    self._fetch_early(tasks)
                case Duplicate(task):
                    self._duplicate(task)

    def _set_alarm(self, next_s: float) -> None:
        if next_s < self._alarm_s:
            self._alarm_s = next_s
            self._commands.append(m.Alarm(next_s))

    def _rang(self, _: m.AlarmRang) -> None:
        if self._now_s + EARLY_S < self._alarm_s:
            return  # it is one that was replaced
        self._alarm_s = math.inf
        self._resume(self._now_s + EARLY_S)
        if self._advice is not None:
            self._carry_out(self._advice.ring(self._now_s))

    def _is_duplicable(self, task: int) -> bool:
        return task in self._shared or (self._policies is not None and self._policies.is_duplicable(task))

    def _hears_of_own_tasks(self) -> bool:
        """Whether others may do planned tasks of ours, or the user's policies may watch anything."""
        if self._policies is None or not self._planned:
            return False
        return self._policies.has_own or any(map(self._policies.is_duplicable, self._remaining))

    def _others_watching(self, task: int) -> tuple[str, ...]:
        watchers = self._policies.watchers(task) if self._policies else ()
        others = tuple(worker for worker in watchers if worker != self.name)
        return (*others, self._shared[task]) if task in self._shared else others

    def _note_finished(self, task: int) -> None:
        if task in self._dups:
            self._dups.discard(task)
            self._heard.add(task)
        self._advise("finished", task)

    def _fetch_early(self, tasks: Iterable[int]) -> None:
        """Fetch what tasks here wait for, as far as it is known to be in storage."""
        wanted = [task for task in tasks if self._memory.lacks(task)]
        stored = [task for task in wanted if task in self._heard or (task in self._done and self._comes_here(task))]
        self._memory.fetch(stored, early=True)

    def _comes_here(self, task: int) -> bool:
        """Whether another worker's output goes to a planned task here, so that it was stored when it was counted."""
        worker_of = self.view.worker_of
        takers = (worker_of[consumer] for consumer in self._dependents[task])
        return worker_of[task] != self.name and self.name in takers

    def _completed(self, event: m.TasksCompleted) -> None:
        """Others have completed tasks: some may be inputs here, some our own, and some duplicates."""
        self._memory.values.update(event.received)
        fresh = [task for task in event.tasks if task not in self._heard]
        for task in fresh:
            self._heard.add(task)
            if task in self._dups:
                self._drop_duplicate(task)
            elif task in self._remaining:
                self._leave_to_others(task)
            elif task in self._shared:
                self._leave_to_second(task)
        for task in event.received:
            self._memory.drop_if_unused(task)
        for task in fresh:
            self._advise("completed", task)

    def _leave_to_others(self, task: int) -> None:
        """Another worker has done a planned task of ours: forget it, and go on with those that take its output."""
        self._remaining.discard(task)
        self._outbox.counted.add(task)
        if task in self._running:
            self._abandon(task)
        else:
            self._forget(task)
        for consumer in self._dependents[task]:
            if consumer in self._waits and self.view.worker_of[consumer] == self.name:
                self._count_down(consumer)

    def _leave_to_second(self, task: int) -> None:
        """A task that two workers run was completed by the other one, who goes on with what takes its output."""
        if task in self._running:
            self._abandon(task)
        elif self._is_waiting(task):
            self._forget(task)

    def _forget(self, task: int) -> None:
        """Take a task out of where it waits for its turn."""
        if self._waits.pop(task, None) is not None:
            self._foreign.discard(task)
        elif self._blocked.pop(task, None) is None and not self._pauses.drop(task):
            self._queue.drop((task,))
        self._ready_s.pop(task, None)
        self._blocked_s.pop(task, None)
        self._memory.release(self._deps[task])

    def _was_abandoned(self, event: m.TaskAbandoned) -> None:
        self._end_in_vain(event.task)

    def _abandon(self, task: int) -> None:
        """Have a task stopped; once, though there may be two reasons for it."""
        if task not in self._abandoned:
            self._abandoned.add(task)
            self._commands.append(m.Abandon(task))

    def _end_in_vain(self, task: int) -> None:
        """What ran does not count."""
        self._running.discard(task)
        self._abandoned.discard(task)
        self._dups.discard(task)
        self._pace.running_s = 0.0
        self._memory.release(self._deps[task])

    def _finished_in_vain(self, task: int) -> None:
        """It could not be stopped; the runner holds an output that nobody takes."""
        self._end_in_vain(task)
        if task not in self._memory.values and task not in self._memory.fetching:
            self._commands.append(m.Discard((task,)))

    def _straggles(self, event: m.Straggles) -> None:
        """A task takes much longer than expected: have a second worker run it too, once there is room for one."""
        unstored = self._outbox.unstored
        if any(dep in unstored and dep not in event.sizes for dep in self._deps[event.task]):
            return
        unstored |= {dep: size for dep, size in event.sizes.items() if dep in unstored}
        self._late.add(event.task)
        self._share_late()
        if self._late:  # the room that we know of may be what it was long ago: ask
            self._urgent = self._flush = True

    def _share_late(self) -> None:
        """Claim second workers for late tasks, as far as there is room; forget those that need none."""
        if not self._late:
            return
        self._late = set(filter(self._may_share, self._late))
        for task in sorted(self._late)[: max(0, self.view.concurrency - self._live)]:
            self._late.discard(task)
            second = second_name(task, self.name)
            self._shared[task] = second
            self._commands.append(m.Listen())
            self._claim([task], [Claim(second, (task,), self.view.resources_of[task])])

    def _may_share(self, task: int) -> bool:
        """Whether a second worker for a task would be of use, and could be told apart from the first."""
        if task not in self._running or task in self._abandoned or self._is_duplicable(task) or self._winding_down:
            return False
        # If it was counted, and lost, nobody would hear who is first.
        return task not in self._done and (self._duties is None or not self._is_awaited(task))

    # Duplicates

    def _look_for_more(self) -> None:
        """Drop duplicates that nothing here waits for any more; if there is room, ask whether to begin one."""
        for task in [task for task in self._dups if task not in self._memory.uses and task not in self._abandoned]:
            self._drop_duplicate(task)
        if not self._queue and self._room() > 0:
            self._advise("waiting")
        self._start_duplicates()

    def _room(self) -> int:
        """How many task slots neither run something nor are about to."""
        return self.resources.task_slots - len(self._running) - len(self._blocked) - self._dups.pending

    def _duplicate(self, task: int) -> None:
        """Run a task of another worker too, if that is of use and possible."""
        if not self._may_duplicate(task):
            return
        deps = self._deps[task]
        self._memory.use(deps)
        self._ready_s[task] = self._blocked_s[task] = self._now_s
        lacking = self._memory.missing(deps)
        self._dups.begin(task, lacking)
        self._memory.fetch(sorted(lacking))
        if not lacking:
            self._blocked_s[task] = 0.0

    def _may_duplicate(self, task: int) -> bool:
        if not self._is_duplicable(task) or self.view.worker_of[task] == self.name:
            return False
        if task in self._heard or task in self._done or task in self._dups or task in self._dups.spoiled:
            return False
        if self._queue or self._room() <= 0 or task in self._memory.values or task in self._memory.fetching:
            return False
        if not any(consumer in self._waits for consumer in self._dependents[task]):
            return False
        least_mb = self.view.graph.info(task).memory_mb or 0
        return least_mb <= self.resources.memory_mb and all(self._is_at_hand(dep, task) for dep in self._deps[task])

    def _is_at_hand(self, dep: int, task: int) -> bool:
        """Whether an input of a task of another worker is in memory here, or in storage for certain."""
        if dep in self._memory.values or dep in self._heard:
            return True
        # From one worker to another, so that it was stored for it. Of an input that the task's own worker made,
        # that is known only by hearing of it.
        crossed = self.view.worker_of[dep] != self.view.worker_of[task]
        return crossed and (dep in self._done or dep in self._outbox.counted)

    def _start_duplicates(self) -> None:
        """Tasks of our own go first."""
        while self._dups.ready and not self._queue and len(self._running) < self.resources.task_slots:
            task = self._dups.start()
            self._running.add(task)
            ready_s, fetch_s = self._ready_s.pop(task), self._blocked_s.pop(task)
            self._commands.append(m.Run(task, self._tries.get(task, 1), ready_s, fetch_s, duplicate=True))

    def _drop_duplicate(self, task: int) -> None:
        """Its output is there, or nothing here needs it any more."""
        if task in self._running:
            self._abandon(task)
            return
        self._dups.discard(task)
        del self._ready_s[task], self._blocked_s[task]
        self._memory.release(self._deps[task])

    # Giving the slot up

    def _waited_long(self, event: m.WaitedLong) -> None:
        """Others cannot start while we wait: put what our later tasks need into storage, then ask to end.

        Tasks whose consumers are all here were never reported; they are now, so that the next attempt
        does not repeat them.
        """
        if not self.idle or not self._remaining or self._suspending:
            return
        self._suspending = True
        self._store_all(event.sizes)

    def _store_all(self, sizes: Mapping[int, int]) -> None:
        """Put into storage what the next attempt needs, as far as its size is known."""
        outbox = self._outbox
        outbox.unstored |= {task: size for task, size in sizes.items() if task in outbox.unstored}
        for task in self._planned:
            if not (task in self._remaining or task in outbox.counted or outbox.holds(task)):
                outbox.pending[task] = m.Finished(task, outbox.unstored.get(task, 0))
        for task in self.needed_later():
            if task in sizes:
                outbox.put_in_storage(task)
        self._urgent = True

    # Handing over

    def _wind_down(self, event: m.WindDown) -> None:
        self._winding_down = True
        if event.sizes and not self._handing_over:
            self._store_all(event.sizes)

    def _hand_over_due(self, event: m.HandOverDue) -> None:
        """The platform's patience is at its end: what still runs is begun anew by the successor."""
        left = self._running or self._queue or self._blocked or self._waits or self._pauses or self._outbox.claims
        if self._handing_over or not (left or self._remaining):
            return
        self._winding_down = self._handing_over = True
        cut = sorted(self._running - self._abandoned)
        self._cut = bool(cut)
        pauses_s = {task: due_s - self._now_s for due_s, task in self._pauses.due()}
        tried = [task for task in sorted(self._tries) if task in self._running or self._is_waiting(task)]
        self._outbox.tried = tuple(Tried(task, self._tries[task], pauses_s.get(task, 0.0)) for task in tried)
        for task in cut:
            self._abandon(task)
        self._store_all(event.sizes)

    def _is_waiting(self, task: int) -> bool:
        """Whether a task is ready and waits for its turn, or for its next try."""
        return task in self._ready_s or task in self._pauses

    def _hand_over_if_stored(self) -> None:
        """Ask for a successor, once what we hold is in storage."""
        stored = not (self._outbox.busy or self._outbox.claims) and self._running <= self._abandoned
        if stored and not self._handed:
            self._handed = True
            self._commands.append(m.HandOver(self._cut))

    def _handed_over(self, _: m.HandedOver) -> None:
        self._leave(Status.RUNNING, suspended=True)

    def _suspend_answered(self, event: m.SuspendAnswered) -> None:
        self._suspending = self._asked = False
        if event.granted:
            self._leave(Status.RUNNING, suspended=True)

    # Going on

    def _advance(self) -> None:
        """After every event: run what can run, tell what must be told, end when there is nothing left."""
        if not self._winding_down:
            self._start_tasks()
            if self._advice is not None:
                self._look_for_more()
        if self._running or self._blocked or self._dups or self._queue or self._winding_down:
            self._suspending = self._asked = False
        if self._outbox.sent is None and (self._urgent or (not self._running and self._outbox.unreported)):
            self._report()
        if self._handing_over:
            self._hand_over_if_stored()
            return
        if not self.idle:
            return
        if self._suspending and not self._asked:
            self._asked = True
            self._commands.append(m.Suspend())
        elif not self._remaining and not self._outbox.claims:
            self._leave(Status.RUNNING)

    def _start_tasks(self) -> None:
        """Fill the task slots; fetch what the next tasks lack, for many of them at once."""
        missing: list[int] = []
        values = self._memory.values
        slots = self.resources.task_slots
        while self._queue and len(self._running) < slots and len(self._blocked) < FETCH_AHEAD:
            task = self._queue.popleft()
            lacking = {dep for dep in self._deps[task] if dep not in values}
            if not lacking:
                self._running.add(task)
                ready_s, fetch_s = self._ready_s.pop(task), self._blocked_s.pop(task, 0.0)
                self._commands.append(m.Run(task, self._tries.get(task, 1), ready_s, fetch_s))
                if self._advice is not None and task not in self._tries:
                    self._advise("started", task)
                continue
            self._blocked[task] = lacking
            self._blocked_s[task] = self._now_s
            missing += sorted(lacking)
        if missing:
            self._memory.fetch(missing)

    def _leave(self, status: Status, *, suspended: bool = False) -> None:
        self.over = True
        if self._advice is not None and status is Status.RUNNING:
            self._carry_out(self._advice.at_the_end())
        self._commands.append(m.Leave(status, suspended))

    def validate(self) -> None:
        """Check the invariants; for tests.

        Raises:
            AssertionError: One does not hold.
        """
        places: list[Iterable[int]] = [self._waits, self._queue, self._blocked, self._running]
        places += [self._pauses, self._dups.fetching, self._dups.ready]
        everywhere = [task for place in places for task in place]
        if len(everywhere) != len(set(everywhere)):
            raise AssertionError(f"{self.name}: a task is in two places: {sorted(everywhere)}")
        uses = Counter(dep for task in everywhere for dep in self._deps[task])
        uses.update(dep for deps in self._spared.values() for dep in deps)
        memory, outbox = self._memory, self._outbox
        if uses != memory.uses and not self.over:
            raise AssertionError(f"{self.name}: uses are {memory.uses} and should be {dict(uses)}")
        self._validate_duplicates()
        pending = outbox.with_values()
        if not memory.values >= pending:
            raise AssertionError(f"{self.name}: outputs without values: {pending - memory.values}")
        stray = {task for task in memory.values - memory.fetching if task not in memory.uses and not outbox.holds(task)}
        if stray and not self.over:
            raise AssertionError(f"{self.name}: values that nothing needs: {stray}")

    def _validate_duplicates(self) -> None:
        if not self._abandoned <= self._running:
            raise AssertionError(f"{self.name}: abandoned and not running: {self._abandoned - self._running}")
        for task in set(self._dups) - self._abandoned:
            known = task in self._heard or task in self._done
            if self.view.worker_of[task] == self.name or known or (task not in self._memory.uses and not self.over):
                raise AssertionError(f"{self.name}: there is no reason to duplicate {task}")
        if not self._dups.running <= self._running:
            raise AssertionError(f"{self.name}: duplicates that do not run: {self._dups.running - self._running}")

    _HANDLERS: ClassVar[dict[type[m.Event], Callable[[Any, Any], None]]] = {
        m.Began: _began,
        m.TaskFinished: _finished,
        m.TaskRaised: _raised,
        m.Fetched: _fetched,
        m.FetchFailed: _fetch_failed,
        m.OutputStored: _stored,
        m.Reported: _reported,
        m.FlushDue: _flush_due,
        m.InputsReady: _inputs_ready,
        m.TasksCompleted: _completed,
        m.AlarmRang: _rang,
        m.TaskAbandoned: _was_abandoned,
        m.WaitedLong: _waited_long,
        m.Straggles: _straggles,
        m.WindDown: _wind_down,
        m.HandOverDue: _hand_over_due,
        m.HandedOver: _handed_over,
        m.SuspendAnswered: _suspend_answered,
        m.StopRequested: _stop,
    }


def _common(ascending: Sequence[int], others: Sequence[int]) -> list[int]:
    """What two ascending sequences have in common; cheap if they do not overlap, as between layers of a graph."""
    if not ascending or not others or ascending[-1] < others[0] or others[-1] < ascending[0]:
        return []
    return [task for task in ascending if others[bisect_left(others, task) % len(others)] == task]
