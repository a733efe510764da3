"""One invocation on the virtual platform: the real worker core, whose commands take virtual time.

What the production runner does with threads and sockets, this does with a heap of happenings: every command
is answered later, by an event, and never at once. Values live in a dict of the invocation and nowhere else,
so a core that forgets a value too early, or runs a task too soon, is found out.

A request to storage takes effect half a round trip after it was sent, and its answer takes the other half.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, ClassVar

from augury import serde
from augury.storage.protocols import (
    Claim,
    Completion,
    Consumer,
    Event,
    Published,
    Report,
    Status,
    Stop,
    TaskCompleted,
    TaskReady,
    WorkerSummary,
    output_key,
)
from augury.testing.clock import Action
from augury.testing.gateway import Startup
from augury.testing.spans import InvocationSpan, TaskSpan
from augury.testing.world import World
from augury.worker import messages as m
from augury.worker.retries import is_worth_retrying
from augury.worker.state import WorkerState

_LEAST_PAUSE_S = 0.001
"""How often a worker looks around at most: if it took no time, time would not go on."""


class VirtualInvocation:
    """One worker at work, from the moment its environment is up.

    Args:
        world: What it shares with the others.
        claim: Which worker it is.
        startup: How it was started.
        ended: Called when it has left.
    """

    def __init__(
        self, world: World, claim: Claim, startup: Startup, ended: Callable[["VirtualInvocation"], None]
    ) -> None:
        self.claim = claim
        self.state = WorkerState(world.view, claim.worker, claim.resources, world.policies)
        self._world = world
        self._timing = world.model.timing_of(claim.resources)
        self._startup = startup
        self._ended = ended
        self._start_s = world.clock()
        self._over = False
        self._values: dict[int, Any] = {}
        self._blobs: dict[int, serde.Blob] = {}
        self._cursor: str | None = None  # None: it does not listen
        self._reading = False
        self._idle_since: float | None = None
        self._watching = False
        self._flushing = False
        self._ticking = False
        self._running: dict[int, TaskSpan] = {}  # as far as it is known
        self._ran: list[int] = []
        self._downloaded_s = 0.0  # when the downloads that were asked for are done
        self._fetched: list[int] = []
        self._stored: list[int] = []
        self._offers = 0

    def begin(self) -> None:
        """Join the run."""
        self._request(self._join)

    def wake(self) -> None:
        """Something was put into the inbox of this worker."""
        if self._cursor is None or self._reading or self._over:
            return
        self._reading = True
        self._after(self._timing.latency_s / 2, self._read)

    def describe(self) -> str:
        """What it does or waits for, in words."""
        label = self._world.view.graph.label
        who = f"{self.claim.worker} (attempt {self.claim.attempt})"
        if not self.state.idle:
            return f"{who} has work under way that nobody does"
        awaited = [label(task) for task in self.state.awaited]
        return f"{who} waits for inputs of {', '.join(awaited[:10]) or 'nothing'}"

    # Events

    def _tell(self, event: m.Event) -> None:
        if self._over:
            return
        for command in self.state.handle(event, self._world.clock()):
            self._carry_out(command)
        if self._over:
            return
        if self._world.check_invariants:
            self.state.validate()
        self._watch_idleness()
        self._watch_outbox()
        self._watch_progress()

    def _carry_out(self, command: m.Command) -> None:
        self._EXECUTE[type(command)](self, command)

    def _after(self, delay_s: float, action: Action, *, watch: bool = False) -> None:
        """Do something later."""
        self._world.clock.after(delay_s, action, watch=watch)

    def _later(self, delay_s: float, event: m.Event, *, watch: bool = False) -> None:
        self._after(delay_s, partial(self._tell, event), watch=watch)

    def _request(
        self,
        apply: Callable[[], m.Event | None],
        *,
        size_bytes: int = 0,
        takes_turns: bool = False,
        watch: bool = False,
    ) -> None:
        """Have storage do something, and the core told of the answer; downloads take turns."""
        timing = self._timing
        delay_s = timing.latency_s / 2 + size_bytes / timing.storing_bytes_s
        if takes_turns:
            now_s = self._world.clock()
            self._downloaded_s = max(now_s + timing.latency_s / 2, self._downloaded_s)
            self._downloaded_s += size_bytes / timing.bandwidth_bytes_s
            delay_s = self._downloaded_s - now_s
        self._deliver(apply, delay_s, watch=watch)

    def _deliver(self, apply: Callable[[], m.Event | None], delay_s: float, *, watch: bool) -> None:
        """Have a request reach storage later."""

        def arrive() -> None:
            if self._over:
                return
            answer = apply()
            if answer is not None:
                self._later(self._timing.latency_s / 2, answer, watch=watch)

        self._world.clock.after(delay_s, arrive, watch=watch)

    def _join(self) -> m.Event | None:
        self._world.gateway.joined()
        joined = self._world.coordination.join(self.claim.worker, self.claim.attempt)
        if joined.status is Status.REPLACED:
            self._end(suspended=False)
            return None
        if joined.status is not Status.RUNNING:
            self._leave(m.Leave(joined.status))
            return None
        remains = self._world.coordination.remains() if joined.restarted else None
        return m.Began(self.claim.tasks, joined.done, joined.live, remains)

    def _read(self) -> None:
        self._reading = False
        if self._over or self._cursor is None:
            return
        self._cursor, events = self._world.coordination.read(self.claim.worker, self._cursor, 0.0)
        for kind, group in groupby(events, type):
            if kind is TaskCompleted:
                self._tell(self._hear_completions(group))
            else:
                for event in group:
                    self._tell(self._translate(event))

    def _hear_completions(self, events: Iterable[Any]) -> m.Event:
        small = {event.task: event.inline for event in events}
        wanted = {task: data for task, data in small.items() if data is not None and self.state.wants(task)}
        if not self._over:
            self._values |= {task: serde.loads(data) for task, data in wanted.items()}
        return m.TasksCompleted(tuple(small), tuple(wanted))

    def _translate(self, event: Event) -> m.Event:
        if isinstance(event, Stop):
            return m.StopRequested()
        if not isinstance(event, TaskReady):
            raise TypeError(f"{self.claim.worker}: nobody sends {event!r} to a worker")
        if not self._over:
            self._values |= {dep: serde.loads(data) for dep, data in event.outputs.items()}
        return m.InputsReady(event.task, tuple(event.outputs))

    # The runner's own timers

    def _watch_outbox(self) -> None:
        flush_s = self._world.model.flush_s
        if self.state.unreported and not self._flushing and flush_s < math.inf:
            self._flushing = True
            self._after(flush_s, self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self.state.unreported and self._running:
            self._tell(m.FlushDue(self._running_s))

    def _watch_progress(self) -> None:
        if self._running and not self._ticking:
            self._ticking = True
            model = self._world.model
            pause_s = min(model.progress_s, model.start_s) if self.state.queued else model.progress_s
            if pause_s < math.inf:
                self._after(max(pause_s, _LEAST_PAUSE_S), self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if self._running:
            self._tell(m.FlushDue(self._running_s))

    @property
    def _running_s(self) -> float:
        """How long the longest of the running tasks has run."""
        return self._world.clock() - min(span.start_s for span in self._running.values())

    def _watch_idleness(self) -> None:
        if self._cursor is None or not self.state.idle:
            self._idle_since = None
            return
        if self._idle_since is None:
            self._idle_since = self._world.clock()
        if not self._watching and self._world.model.start_s < math.inf:
            self._watching = True
            pause_s = max(self._world.model.start_s, _LEAST_PAUSE_S)
            self._after(pause_s, self._look_around, watch=True)

    def _look_around(self) -> None:
        """If we have waited for long and others cannot start, offer them our slot."""
        self._watching = False
        if self._over:
            return
        waited_s = 0.0 if self._idle_since is None else self._world.clock() - self._idle_since
        if waited_s >= self._world.model.start_s * 0.999 and self._world.coordination.progress().starting:
            self._offers += 1
            self._tell(m.WaitedLong({task: self._size(task) for task in self.state.needed_later()}))
        else:
            self._watch_idleness()

    # Values

    def _blob(self, task: int) -> serde.Blob:
        if task not in self._blobs:
            self._blobs[task] = serde.dumps(self._value(task))
        return self._blobs[task]

    def _size(self, task: int) -> int:
        return self._world.size_bytes(task, self._blob(task).size_bytes)

    def _value(self, task: int) -> Any:
        if task not in self._values:
            raise AssertionError(f"{self.claim.worker}: the output of task {task} is used and not in memory")
        return self._values[task]

    def _small(self, task: int, size_bytes: int, *, wanted: bool) -> bytes | None:
        return self._blob(task).join() if wanted and size_bytes <= self._world.view.inline_bytes else None

    # Commands

    def _run(self, command: m.Run) -> None:
        task = command.task
        inputs = {dep: self._value(dep) for dep in self._world.view.graph.deps[task]}
        begun = TaskSpan(
            task=task,
            worker=self.claim.worker,
            attempt=self.claim.attempt,
            ready_s=command.ready_s,
            start_s=self._world.clock(),
            end_s=math.inf,
            duplicate=command.duplicate,
        )
        self._running[task] = begun
        self._world.recorder.executions[task] += 1

        def end() -> None:
            running = self._running.get(task)
            if not self._over and running is not None and running.start_s == begun.start_s:
                self._record(task)
                self._tell(self._evaluate(task, inputs, self._world.clock() - begun.start_s))

        self._after(self._world.duration_s(task, self.claim.resources), end)

    def _record(self, task: int) -> None:
        """A task has ended."""
        self._world.recorder.timeline.append(replace(self._running.pop(task), end_s=self._world.clock()))

    def _abandon(self, command: m.Abandon) -> None:
        task = command.task
        self._running[task] = replace(self._running[task], abandoned=True)
        if self._world.interruptible:
            self._record(task)
            self._later(0.0, m.TaskAbandoned(task))

    def _evaluate(self, task: int, inputs: Mapping[int, Any], duration_s: float) -> m.Event:
        try:
            self._values[task] = self._world.evaluate(task, inputs)
        except Exception as error:  # noqa: BLE001 - whatever a task raises is its failure, not ours
            retryable = is_worth_retrying(error, self._world.view.graph.info(task))
            return m.TaskRaised(task, serde.dumps((task, error)).join(), retryable)
        self._blobs.pop(task, None)
        self._ran.append(task)
        return m.TaskFinished(task, self._size(task) if self.state.leaves(task) else 0, duration_s)

    def _fetch(self, command: m.Fetch) -> None:
        if here := [task for task in command.tasks if task in self._values]:
            raise AssertionError(f"{self.claim.worker}: fetches {here}, which it has in memory")
        self._fetched += command.tasks
        self._request(partial(self._look_up, command.tasks))

    def _look_up(self, tasks: Sequence[int]) -> m.Event | None:
        found = self._world.coordination.outputs(tasks)
        if len(found) < len(tasks) and (over := self._is_over()):
            return over
        if len(found) < len(tasks):
            raise AssertionError(f"{self.claim.worker}: fetches {set(tasks) - set(found)}, which nobody has stored")
        for task, stored in found.items():
            if stored.inline is not None:
                self._values[task] = serde.loads(stored.inline)
        large = {task: stored.size_bytes for task, stored in found.items() if stored.inline is None}
        if not large:
            return m.Fetched(tuple(tasks))
        download = partial(self._download, tuple(tasks), tuple(large))
        self._request(download, size_bytes=sum(large.values()), takes_turns=True)
        return None

    def _is_over(self) -> m.Event | None:
        """Others have done all that we wanted outputs for, or nobody wants them any more."""
        status = self._world.coordination.status()
        return None if status is Status.RUNNING else m.StopRequested(status)

    def _download(self, tasks: tuple[int, ...], large: tuple[int, ...]) -> m.Event:
        found = self._world.objects.get([output_key(task) for task in large])
        if len(found) < len(large) and (over := self._is_over()):
            return over
        for task in large:
            self._values[task] = serde.loads(found[output_key(task)])
        return m.Fetched(tasks)

    def _store(self, command: m.Store) -> None:
        self._stored.append(command.task)
        blob = self._blob(command.task)

        def put() -> m.Event:
            self._world.objects.put(output_key(command.task), blob)
            return m.OutputStored(command.task)

        self._request(put, size_bytes=self._size(command.task))

    def _send(self, command: m.Send) -> None:
        report = Report(
            self.claim.worker,
            tuple(self._published(entry) for entry in command.published),
            tuple(self._completion(entry) for entry in command.completions),
            command.claims,
            command.ran,
            self.claim.attempt,
            command.taken,
            command.tried,
        )
        self._world.recorder.reports += 1
        self._request(partial(self._report, report))

    def _completion(self, finished: m.Finished) -> Completion:
        view = self._world.view
        sink = finished.task in view.graph.sink_set
        wanted = finished.keep or sink or bool(finished.consumers)
        inline = self._small(finished.task, finished.size_bytes, wanted=wanted)
        return Completion(
            finished.task,
            finished.size_bytes,
            inline,
            held=wanted and inline is None and not finished.stored,
            keep=finished.keep,
            sink=sink,
            consumers=tuple(Consumer(task, view.needs[task], view.worker_of[task]) for task in finished.consumers),
            watchers=finished.watchers,
        )

    def _published(self, published: Published) -> Published:
        inline = self._small(published.task, published.size_bytes, wanted=True)
        return Published(published.task, published.size_bytes, inline)

    def _report(self, report: Report) -> m.Event:
        outcome = self._world.coordination.report(report)
        told = [completion.task for completion in report.completions]
        told += [published.task for published in report.published]
        for task, stored in self._world.coordination.outputs(told).items():
            self._world.recorder.stored.setdefault(task, stored.size_bytes)
        return m.Reported(outcome)

    def _invoke(self, command: m.Invoke) -> None:
        self._world.gateway.invoke(command.claims)

    def _prewarm(self, command: m.Prewarm) -> None:
        self._world.gateway.prewarm(command.resources, command.count)

    def _alarm(self, command: m.Alarm) -> None:
        self._later(max(0.0, command.at_s - self._world.clock()), m.AlarmRang())

    def _listen(self, _: m.Listen) -> None:
        if self._cursor is None:
            self._cursor = "0"
            self.wake()

    def _suspend(self, _: m.Suspend) -> None:
        self._request(self._ask_to_suspend, watch=True)

    def _ask_to_suspend(self) -> None:
        """Ask and answer in one step, as `WorkerState.suspending` demands."""
        if self.state.suspending:
            ask, cursor = self._world.coordination.suspend, self._cursor or "0"
            granted = ask(self.claim.worker, self.claim.attempt, cursor, self._world.model.start_s)
            self._tell(m.SuspendAnswered(granted))

    def _discard(self, command: m.Discard) -> None:
        for task in command.tasks:
            del self._values[task]
            self._blobs.pop(task, None)

    def _fail(self, command: m.Fail) -> None:
        self._world.coordination.fail(Status.FAILED, command.failure)

    def _clean_up(self, _: m.CleanUp) -> None:
        sinks = self._world.view.graph.sink_set
        # What was written here after somebody else had cleaned up is in no list.
        written = {*self._world.coordination.objects_stored(), *self._stored}
        stale = [task for task in written if task not in sinks]
        self._world.objects.delete(map(output_key, stale))
        self._world.coordination.prune()

    def _leave(self, command: m.Leave) -> None:
        self._world.coordination.leave(self._summary(command))
        self._end(suspended=command.suspended)

    def _end(self, *, suspended: bool, keeps_warm: bool = True) -> None:
        """Be no more, without another word to storage."""
        self._over = True
        span = InvocationSpan(
            worker=self.claim.worker,
            attempt=self.claim.attempt,
            resources=self.claim.resources,
            cold=self._startup.cold,
            asked_s=self._startup.asked_s,
            granted_s=self._startup.granted_s,
            start_s=self._start_s,
            end_s=self._world.clock(),
            tasks=tuple(self._ran),
            fetched=tuple(self._fetched),
            stored=tuple(self._stored),
            offers=self._offers,
            suspended=suspended,
        )
        self._world.recorder.invocations.append(span)
        self._ended(self)
        self._world.gateway.release(self.claim.resources, keeps_warm=keeps_warm)

    def _summary(self, command: m.Leave) -> WorkerSummary:
        return WorkerSummary(
            worker=self.claim.worker,
            attempt=self.claim.attempt,
            cold=self._startup.cold,
            duration_s=self._world.clock() - self._start_s,
            memory_mb=self.claim.resources.memory_mb,
            tasks=len(self._ran),
            suspended=command.suspended,
        )

    _EXECUTE: ClassVar[dict[type[m.Command], Callable[[Any, Any], None]]] = {
        m.Run: _run,
        m.Fetch: _fetch,
        m.Store: _store,
        m.Send: _send,
        m.Invoke: _invoke,
        m.Abandon: _abandon,
        m.Prewarm: _prewarm,
        m.Alarm: _alarm,
        m.Listen: _listen,
        m.Suspend: _suspend,
        m.Discard: _discard,
        m.Fail: _fail,
        m.CleanUp: _clean_up,
        m.Leave: _leave,
    }
