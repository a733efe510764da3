"""One simulated invocation: what the worker core does with a task, in as few steps as possible.

A mirror of `augury.worker.state`, which is the original: the same queue, the same report at a time, the same rules
of sharing and of giving a slot up. Only that nothing is computed: an event here is a time and a few counters. A test
runs random plans on both and compares. Whoever changes the core changes this too.

Lists indexed by task belong to the whole run (`Run`); a planned task lives on one worker, so they need no owner.
"""

import heapq
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from augury.config import Resources

Run = Any
"""The run that a worker belongs to: `augury.plan.simulate.run.Run`, which knows workers and is not imported by them."""

FETCH_AHEAD = 16
"""How many tasks at most wait for inputs at once; as in the core."""

# What may happen to a worker, in the order of `Worker.HANDLERS`.
JOIN, BEGAN, FINISHED, FETCHED, STORED, APPLIED, REPORTED, FLUSH, READ, TICK, LOOK, ASK, ARRIVED = range(13)
PREWARM, PINGED, ALARM, ABANDONED = range(13, 17)

SIZE, CONSUMERS, IS_STORED, KEEP = range(4)
"""The fields of what waits in an outbox."""


class RankedQueue:
    """Ready tasks: what is next up first, then the lowest rank, and among equals the first in."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = ranks
        self._front: deque[int] = deque()
        self._heap: list[tuple[int, int, int]] = []
        self._number_of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._front) + len(self._heap)

    def __iter__(self) -> Iterator[int]:
        yield from self._front
        yield from (task for _, _, task in sorted(self._heap))

    def append(self, task: int) -> None:
        """Add a task in the order of ranks."""
        number = self._number_of.setdefault(task, len(self._number_of))
        heapq.heappush(self._heap, (self._ranks[task], number, task))

    def appendleft(self, task: int) -> None:
        """Add a task before all others."""
        self._front.appendleft(task)

    def popleft(self) -> int:
        """Take the next task."""
        return self._front.popleft() if self._front else heapq.heappop(self._heap)[2]

    def drop(self, tasks: set[int]) -> None:
        """Forget tasks."""
        self._front = deque(task for task in self._front if task not in tasks)
        self._heap = [entry for entry in self._heap if entry[2] not in tasks]
        heapq.heapify(self._heap)


class Worker:
    """One invocation of a worker, as the simulator sees it."""

    # Most workers never need most of this: what is not set on one is as it stands here.
    generation = 0
    cause = -1  # the task whose completion had it started; -1: the client did
    cold = over = listening = reading = flushing = urgent = flush = suspending = asked = watching = False
    asked_s = granted_s = start_s = join_s = end_s = 0.0
    busy_s = fetched_bytes = stored_bytes = timed_s = running_s = 0.0
    downloaded_s = 0.0  # when the downloads that were asked for are done
    remaining = foreign = running = ran = done = timed = 0
    sent: tuple[Any, ...] | None = None
    live = 1
    idle_since = -1.0
    tick_s = math.inf  # when the worker looks next how far it is
    ticked = -1.0  # the last such moment that is on the heap
    uses: dict[int, int]
    unstored: dict[int, float]
    gathered: dict[int, int]
    spared: dict[int, list[int]]
    claims: Sequence[tuple[set[int], list[list[int]], int]] = ()
    counted: set[int]
    sent_tasks: dict[int, bool]
    since: dict[int, float]

    def __init__(self, run: Run, index: int, tasks: Sequence[int], resources: Resources, attempt: int = 1) -> None:
        self.run = run
        self.index = index  # of a planned worker; -1 for a flexible one
        self.tasks = tasks
        self.resources = resources
        self.attempt = attempt
        self.slots: int
        self.latency: float
        self.bandwidth: float
        self.upload: float
        self.execution_s: Sequence[float]
        self.slots, self.latency, self.bandwidth, self.upload, self.execution_s = run.abilities(resources)
        self.queue: deque[int] | RankedQueue = RankedQueue(run.ranks) if run.ranks and index >= 0 else deque()
        self.blocked: dict[int, set[int]] = {}
        self.fetching: set[int] = set()
        self.values: set[int] = set()
        self.outbox: dict[int, list[Any]] = {}
        self.storing: set[int] = set()
        self.publish: dict[int, float] = {}
        self.inbox: list[tuple[int, Sequence[int]]] = []
        if run.tracks_uses:
            self.uses = {}
            self.unstored = {}
            self.gathered = {}
            self.spared = {}
            self.counted = set()
            self.sent_tasks = {}
            self.since = {}

    # What happens

    def join(self, now: float) -> None:
        """The environment is up and asked to join; the answer will tell what is done."""
        self.join_s = now
        self.live = self.run.joined(self)
        self.run.after(self.latency / 2, BEGAN, self)

    def began(self, now: float) -> None:
        """The run let us in: count what each planned task waits for."""
        run = self.run
        if self.index < 0:
            for task in self.tasks:
                self._enqueue(task, now)
            self.advance(now)
            return
        join_s, needs, waits = self.join_s, run.needs, run.waits
        ready_at, deps = run.ready_at_s, run.graph.deps
        begun_before = self.attempt > 1 or run.hints is not None  # by an earlier attempt, or by others
        for task in self.tasks:
            if begun_before and run.counted_s[task] <= join_s:
                self.counted.add(task)
                run.waits[task] = run.awaits[task] = 0
                continue
            self.remaining += 1
            foreign = needs[task] and ready_at[task] > join_s
            if begun_before:
                local = sum(run.worker_of[dep] == self.index and run.counted_s[dep] > join_s for dep in deps[task])
            else:
                local = len(deps[task]) - needs[task]
            if run.tracks_uses:
                self._use(deps[task])
            run.awaits[task] = 1 if foreign else 0
            if foreign:
                self.foreign += 1
            if local or foreign:
                waits[task] = local + (1 if foreign else 0)
            else:
                waits[task] = 0
                self.queue.append(task)
                run.ready_s[task] = now
        if self._has_to_listen():
            self.listening = True
            self.wake()
        self._note_began(now)
        self.advance(now)

    def _has_to_listen(self) -> bool:
        return self.foreign > 0

    def _note_began(self, now: float) -> None:
        """For workers that heed hints; `_note_started`, `_note_finished`, `_is_watched` and `_look_for_more` too."""

    def _note_started(self, task: int, now: float) -> None:
        pass

    def _note_finished(self, task: int, now: float) -> None:
        pass

    def _is_watched(self, task: int) -> bool:
        return False

    def _look_for_more(self, now: float) -> None:
        pass

    def wake(self) -> None:
        """Something was put into the inbox."""
        if self.listening and not self.reading and not self.over:
            self.reading = True
            self.run.after(self.latency / 2, READ, self)

    def arrived(self, now: float, event: tuple[int, Sequence[int]]) -> None:
        """An event is put into the inbox."""
        self.inbox.append(event)
        self.wake()

    def read(self, now: float) -> None:
        """What is in the inbox arrives."""
        self.reading = False
        inbox, self.inbox = self.inbox, []
        for task, received in inbox:
            if self.over:
                return
            self._ready(task, received, now)
            self.advance(now)

    def _ready(self, task: int, received: Sequence[int], now: float) -> None:
        """A planned task has every input that others produce; some come with the news."""
        run = self.run
        if received:
            self.values.update(received)
            for dep in received:
                self.fetched_bytes += run.size[dep]
                if run.tracks_uses:
                    self._drop_if_unused(dep)
        if run.awaits[task] and run.worker_of[task] == self.index:
            run.awaits[task] = 0
            self.foreign -= 1
            self._count_down(task, now)

    def _count_down(self, task: int, now: float) -> None:
        waits = self.run.waits
        waits[task] -= 1
        if not waits[task]:
            self.queue.append(task)
            self.run.ready_s[task] = now

    def fetched(self, now: float, arrived: Sequence[int]) -> None:
        """Outputs of other workers are in memory now."""
        self.fetching.difference_update(arrived)
        self.values.update(arrived)
        unblocked = []
        for task, missing in self.blocked.items():
            missing.difference_update(arrived)
            if not missing:
                unblocked.append(task)
        for task in reversed(unblocked):
            del self.blocked[task]
            if isinstance(self.queue, RankedQueue):
                self.queue.append(task)
            else:
                self.queue.appendleft(task)
        self.advance(now)

    def finished(self, now: float, task: int) -> None:
        """A task returned."""
        run = self.run
        self.running -= 1
        self.ran += 1
        self.done += 1
        mine = run.worker_of[task]
        worker_of = run.worker_of
        self.values.add(task)
        if mine == self.index or mine < 0:
            run.executed_s[task] = now
            if mine >= 0:
                self.remaining -= 1
        counted: list[int] = []
        if run.has_flexible:
            self._finished_among_flexible(task, mine, counted, now)
        else:
            for consumer in run.graph.dependents[task]:
                if worker_of[consumer] != mine:
                    counted.append(consumer)
                elif mine == self.index and run.waits[consumer]:
                    self._count_down(consumer, now)
            watched = run.hints is not None and self._is_watched(task)
            if counted or watched or run.is_sink[task]:
                self.outbox[task] = [run.size[task], counted, False, watched]
            if run.tracks_uses:
                self.unstored[task] = run.size[task] if counted or watched or run.is_sink[task] else 0.0
                self._release(run.graph.deps[task])
                self._drop_if_unused(task)
        if run.hints is not None:
            self._note_finished(task, now)
        self.advance(now)

    def stored(self, now: float, task: int) -> None:
        """A large output is an object in storage now."""
        self.storing.discard(task)
        if task in self.outbox:
            self.outbox[task][IS_STORED] = True
        else:
            self.publish[task] = self.unstored[task]
        self.urgent = True
        self.advance(now)

    def flush_due(self, now: float) -> None:
        """What was finished has waited long enough."""
        self.flushing = False
        if self.running and self._is_unreported():
            self._flush_now(now)

    def tick(self, now: float) -> None:
        """A busy worker looks how far it is."""
        if now == self.tick_s:
            self.tick_s = math.inf
            if self.running:
                self._flush_now(now)

    def catch_up(self, now: float) -> None:
        """Go through the moments since the last event at which the worker looked how far it was, to no effect."""
        if now > self.tick_s:
            if self.running:
                pause_s = self.run.progress_s
                missed = math.ceil((now - self.tick_s) / pause_s)
                self.tick_s += missed * pause_s
                if self.run.has_flexible:
                    self.running_s = self.tick_s - pause_s - min(self.since.values())
            else:
                self.tick_s = math.inf

    def _watch_progress(self, now: float) -> None:
        """Have a busy worker look round now and then; moments at which it would find nothing to do are left out."""
        if not self.running:
            return
        run = self.run
        if self.tick_s == math.inf:
            is_queued = self.queue and run.has_flexible
            self.tick_s = now + (min(run.progress_s, run.busy_progress_s) if is_queued else run.progress_s)
        if (self.ran or (self.queue and run.has_flexible)) and self.ticked != self.tick_s:
            self.ticked = self.tick_s
            run.at(self.tick_s, TICK, self)

    def _flush_now(self, now: float) -> None:
        self.urgent = self.flush = True
        if self.run.has_flexible:
            self.running_s = now - min(self.since.values())
            self._hand_on()
        self.advance(now)

    # Reports

    def _is_unreported(self) -> bool:
        if self.sent is not None:
            return False
        if self.publish or (self.outbox and not (self.storing and self.storing.issuperset(self.outbox))):
            return True
        return any(not waits & self.storing for waits, _, _ in self.claims) if self.claims else False

    def _report(self) -> None:
        run = self.run
        self.urgent = False
        flush, self.flush = self.flush, False
        storing = len(self.storing)
        completions = []
        for task, pending in list(self.outbox.items()):
            if task in self.storing:
                continue
            if self._must_store(task, pending):
                self._store(task, pending[SIZE])
                continue
            completions.append((task, pending))
            del self.outbox[task]
        claims: list[tuple[list[int], int]] = []
        if self.claims:
            claims = [(g, n) for waits, group, n in self.claims if not waits & self.storing for g in group]
            self.claims = tuple([entry for entry in self.claims if entry[0] & self.storing])
        published, self.publish = self.publish, {}
        if len(self.storing) > storing:
            flush = False  # it is reported soon
        if completions or published or claims or (flush and (self.ran or self._asks_for_room())):
            self.sent = (completions, published, claims)
            if run.tracks_uses:
                self.sent_tasks = {task: bool(p[IS_STORED] or p[KEEP]) for task, p in completions}
                self.sent_tasks |= dict.fromkeys(published, True)
            self.ran = 0
            run.after(self.latency / 2, APPLIED, self)

    def _must_store(self, task: int, pending: list[Any]) -> bool:
        run = self.run
        if pending[IS_STORED] or pending[SIZE] <= run.inline_bytes:
            return False
        worker_of = run.worker_of
        return bool(pending[KEEP] or run.is_sink[task] or any(worker_of[c] >= 0 for c in pending[CONSUMERS]))

    def _store(self, task: int, size_bytes: float) -> None:
        if task not in self.storing:
            self.storing.add(task)
            self.stored_bytes += size_bytes
            arrival_s = self.run.now + (self.latency / 2 + size_bytes / self.upload)
            self.run.at(arrival_s + self.latency / 2, STORED, self, task)

    def applied(self, now: float) -> None:
        """The report reached storage."""
        if self.sent is None:
            return
        completions, published, claims = self.sent
        outcome = self.run.apply(self, completions, published, claims, now)
        self.run.after(self.latency / 2, REPORTED, self, outcome)

    def reported(self, now: float, outcome: tuple[Any, ...]) -> None:
        """The report was answered."""
        run = self.run
        ready, started, store_first, live, over = outcome
        sent, self.sent = self.sent, None
        if sent is None:
            return
        completions, published, _ = sent
        if run.tracks_uses:
            self.sent_tasks = {}
            self.live = live + sum(len(group) for _, group, _ in self.claims)
            self._note_stored(completions, published, ready, store_first)
        if started:
            run.invoke(started, now)
        if ready:
            self._adopt(ready, now)
        if run.has_flexible:
            self._hand_on()
        if run.tracks_uses:
            self._let_go(completions, published)
        if over:
            self._leave(now)
        else:
            self.advance(now)

    def _let_go(self, completions: Sequence[tuple[int, list[Any]]], published: Iterable[int]) -> None:
        """Outputs that were told of may be forgotten, and what was spared for whoever takes them."""
        for task, _ in completions:
            if task not in self.outbox:
                self._release(self.spared.pop(task, ()))
            self._drop_if_unused(task)
        for task in published:
            self._drop_if_unused(task)

    def _note_stored(
        self,
        completions: Sequence[tuple[int, list[Any]]],
        published: Iterable[int],
        ready: Sequence[int],
        refused: set[int],
    ) -> None:
        for task, pending in completions:
            if task in refused:
                self._report_again(task, pending)
                continue
            self.counted.add(task)
            consumers = pending[CONSUMERS]
            if pending[KEEP] or pending[IS_STORED] or not consumers or not set(ready).issuperset(consumers):
                self.unstored.pop(task, None)
        for task in published:
            self.unstored.pop(task, None)

    def _report_again(self, task: int, pending: list[Any]) -> None:
        rest = [consumer for consumer in pending[CONSUMERS] if not self._is_gathered(consumer)]
        if not rest:
            return
        stored = self.publish.pop(task, None) is not None
        self.outbox[task] = [pending[SIZE], rest, stored, True]
        if not stored:
            self._store(task, pending[SIZE])

    # Flexible tasks

    def _finished_among_flexible(self, task: int, mine: int, counted: list[int], now: float) -> None:
        run = self.run
        self.timed += 1
        self.timed_s += now - self.since.pop(task)
        self.running_s = 0.0
        ours, gathered = self._sort_consumers(task, mine, counted, now)
        watched = run.hints is not None and self._is_watched(task)
        size = run.size[task] if watched or self._leaves(task) else 0.0
        self.unstored[task] = size
        if counted or watched or run.is_sink[task]:
            self.outbox[task] = [size, counted, False, watched]
        settled = self._withdraw(gathered) if gathered else ()
        if ours or gathered:
            self._adopt(sorted(ours + gathered), now)
        self._spare_inputs(task, counted)
        for dep in settled:
            self._release(self.spared.pop(dep, ()))
        self._release(run.graph.deps[task])
        self._drop_if_unused(task)

    def _sort_consumers(self, task: int, mine: int, counted: list[int], now: float) -> tuple[list[int], list[int]]:
        """The flexible consumers that are ours: by their only input, or by all; the others are `counted` in storage."""
        run = self.run
        deps, worker_of = run.graph.deps, run.worker_of
        duplicable = run.hints is not None and task in run.hints.owners_watch
        ours: list[int] = []
        gathered: list[int] = []
        for consumer in run.graph.dependents[task]:
            worker = worker_of[consumer]
            if worker >= 0:
                if worker != mine:
                    counted.append(consumer)
                elif mine == self.index and run.waits[consumer]:
                    self._count_down(consumer, now)
            elif duplicable:
                counted.append(consumer)
            elif len(deps[consumer]) == 1:
                ours.append(consumer)
            elif self._gather(consumer):
                gathered.append(consumer)
            else:
                counted.append(consumer)
        return ours, gathered

    def _leaves(self, task: int) -> bool:
        run = self.run
        if run.is_sink[task]:
            return True
        worker_of = run.worker_of
        consumers = run.graph.dependents[task]
        mine = worker_of[task]
        if mine >= 0 and all(worker_of[consumer] == mine for consumer in consumers):
            return False
        first = consumers[0]
        if len(consumers) > 1 or worker_of[first] >= 0 or len(run.graph.deps[first]) > 1:
            return True
        return not self.resources.covers(run.resources_of[first])

    def _gather(self, consumer: int) -> bool:
        run = self.run
        deps = run.graph.deps[consumer]
        have = self.gathered.get(consumer)
        if have is None:
            have = bisect_right(run.count_times.get(consumer, ()), self.join_s)
        self.gathered[consumer] = have = have + 1
        if have == len(deps) and not self.storing.isdisjoint(deps):
            self.gathered[consumer] = have = 0
        return have == len(deps)

    def _is_gathered(self, consumer: int) -> bool:
        return self.gathered.get(consumer) == len(self.run.graph.deps[consumer])

    def _withdraw(self, gathered: Sequence[int]) -> list[int]:
        run = self.run
        ours = set(gathered)
        settled = []
        for dep in {dep for consumer in gathered for dep in run.graph.deps[consumer]}:
            pending = self.outbox.get(dep)
            if pending is None:
                continue
            rest = [other for other in pending[CONSUMERS] if other not in ours]
            if rest or pending[KEEP] or run.is_sink[dep]:
                pending[CONSUMERS] = rest
            else:
                del self.outbox[dep]
                settled.append(dep)
        return settled

    def _spare_inputs(self, task: int, counted: Sequence[int]) -> None:
        run = self.run
        mine = set(run.graph.deps[task])
        if not mine:
            return
        flexible = [consumer for consumer in counted if run.worker_of[consumer] < 0]
        shared = {dep for consumer in flexible for dep in run.graph.deps[consumer] if dep in mine}
        if shared:
            self.spared[task] = list(shared)
            self._use(shared)

    def _enqueue(self, task: int, now: float, *, next_up: bool = False) -> None:
        self._use(self.run.graph.deps[task])
        self.run.ready_s[task] = now
        if next_up:
            self.queue.appendleft(task)
        else:
            self.queue.append(task)

    def _adopt(self, ready: Sequence[int], now: float) -> None:
        mine, surplus = self._share(ready)
        for task in reversed(mine):
            self._enqueue(task, now, next_up=True)
        if surplus:
            groups = self.run.group(surplus, self._groups(len(ready)) - 1 or 1)
            self._claim(surplus, groups, 0)

    def _claim(self, tasks: Sequence[int], groups: list[list[int]], generation: int) -> None:
        waits = self._publish_inputs(tasks)
        self.claims = (*self.claims, (waits, groups, generation))
        self.live += len(groups)
        self.urgent = True

    def _share(self, ready: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        resources_of = self.run.resources_of
        covers = self.resources.covers
        fitting = [task for task in ready if resources_of[task] is self.resources or covers(resources_of[task])]
        count = -(-len(ready) // self._groups(len(ready)))
        free = self.slots - self.running - len(self.queue) - len(self.blocked)
        mine = fitting[: max(count, free)]
        kept = set(mine)
        return mine, [task for task in ready if task not in kept]

    def _groups(self, count: int) -> int:
        concurrency: int = self.run.spread
        room = concurrency - self.live
        if room > 0:
            return min(count, room + 1)
        return max(1, min(count // concurrency, concurrency))

    def _has_backlog(self) -> bool:
        if not (self.queue and self.running):
            return False
        pace_s = max(self.running_s, self.timed_s / self.timed if self.timed else 0.0)
        return bool(pace_s * len(self.queue) > self.run.patience_s * self.slots)

    def _asks_for_room(self) -> bool:
        run = self.run
        return run.has_flexible and self._has_backlog() and any(run.worker_of[task] < 0 for task in self.queue)

    def _hand_on(self) -> None:
        room = self.run.platform.concurrency - self.live
        if room <= 0 or not self._has_backlog():
            return
        run = self.run
        flexible = [task for task in self.queue if run.worker_of[task] < 0 and self._may_leave(task)]
        others = min(room, -(-len(flexible) // self.slots))
        each = -(-(len(flexible) + self.slots) // (others + 1))
        given = flexible[max(0, each - self.slots) :]
        if not given:
            return
        self._forget(set(given))
        self._claim(given, run.group(given, others), self.generation + 1)
        for task in given:
            self._release(run.graph.deps[task])

    def _forget(self, tasks: set[int]) -> None:
        if isinstance(self.queue, RankedQueue):
            self.queue.drop(tasks)
        else:
            self.queue = deque(task for task in self.queue if task not in tasks)

    def _may_leave(self, task: int) -> bool:
        return all(dep not in self.unstored or self._leaves(dep) for dep in self.run.graph.deps[task])

    def _publish_inputs(self, tasks: Sequence[int]) -> set[int]:
        deps = self.run.graph.deps
        unstored = {dep for task in tasks for dep in deps[task] if dep in self.unstored}
        return {dep for dep in sorted(unstored) if self._put_in_storage(dep)}

    def _put_in_storage(self, task: int) -> bool:
        size = self.unstored[task]
        small = size <= self.run.inline_bytes
        if task in self.outbox:
            self.outbox[task][KEEP] = True
            if self.outbox[task][IS_STORED]:
                return False
        elif task in self.publish or self.sent_tasks.get(task):
            return False
        elif task not in self.counted and task not in self.sent_tasks:
            self.outbox[task] = [size, [], False, True]
        elif small:
            self.publish[task] = size
        if small:
            return False
        self._store(task, size)
        return True

    # Giving the slot up

    def look(self, now: float) -> None:
        """If we have waited for long and others cannot start, offer them our slot."""
        self.watching = False
        if self.over:
            return
        start_s = self.run.patience_s
        waited_s = 0.0 if self.idle_since < 0 else now - self.idle_since
        if waited_s >= start_s * 0.999 and self.run.starting:
            self._waited_long(now)
        else:
            self._watch_idleness(now)

    def _waited_long(self, now: float) -> None:
        if self._is_idle() and self.remaining and not self.suspending:
            run = self.run
            self.suspending = True
            needed = [task for task in self.unstored if task in self.uses]
            for task in needed:
                self.unstored[task] = run.size[task]
            for task in self.tasks:
                if run.executed_s[task] <= now and task not in self.counted:
                    self.outbox[task] = [self.unstored.get(task, 0.0), [], False, False]
            for task in needed:
                self._put_in_storage(task)
            self.urgent = True
        self.advance(now)

    def ask(self, now: float) -> None:
        """The request to give the slot up reaches storage."""
        if self.over or not self.asked:
            return
        granted = not self.inbox and self.run.somebody_waits(now)
        self.suspending = self.asked = False
        if granted:
            self._leave(now, suspended=True)
        else:
            self.advance(now)

    def _watch_idleness(self, now: float) -> None:
        if not self.run.may_lack_slots:
            return  # nobody will want ours
        if not (self.listening and self._is_idle()):
            self.idle_since = -1.0
            return
        if self.idle_since < 0:
            self.idle_since = now
        if not self.watching:
            self.watching = True
            self.run.watch(self.run.patience_s, LOOK, self)

    def _is_idle(self) -> bool:
        return not (
            self.running or self.queue or self.blocked or self.storing or self.sent or self.outbox or self.publish
        )

    # Going on

    def advance(self, now: float) -> None:
        """After every event: run what can run, tell what must be told, end when there is nothing left."""
        if self.queue:
            self._start_tasks(now)
        if self.run.hints is not None:
            self._look_for_more(now)
        if self.sent is None and (self.outbox or self.urgent or self.publish or self.claims):
            self._report_or_wait()
        run = self.run
        if run.is_tight:
            self._advance_among_many(now)
        elif self.running:
            self._watch_progress(now)
        elif not (self.remaining or self.outbox or self.sent or self.storing):
            self._leave(now)

    def _report_or_wait(self) -> None:
        """Report at once if nothing runs, and else soon: more may be finished by then."""
        if self.urgent or (not self.running and self._is_unreported()):
            self._report()
        if not self.flushing and self.sent is None and self._is_unreported():
            self.flushing = True
            self.run.after(self.run.flush_s, FLUSH, self)

    def _advance_among_many(self, now: float) -> None:
        """The same where tasks are flexible, or slots are few."""
        if self.suspending and (self.running or self.blocked):
            self.suspending = self.asked = False
        if self._is_idle():
            if self.suspending and not self.asked:
                self.asked = True
                self.run.watch(self.latency / 2, ASK, self)
            elif not self.remaining and not self.claims:
                self._leave(now)
                return
        self._watch_idleness(now)
        self._watch_progress(now)

    def _start_tasks(self, now: float) -> None:
        run = self.run
        queue, values, blocked = self.queue, self.values, self.blocked
        missing: list[int] = []
        while queue and self.running < self.slots and len(blocked) < FETCH_AHEAD:
            task = queue.popleft()
            if run.start_s[task] < 0:  # else it is its turn again: its inputs have come
                run.start_s[task] = now
            if run.needs[task] or self.attempt > 1 or run.hints is not None:
                lacking = {dep for dep in run.graph.deps[task] if dep not in values}
                if lacking:
                    blocked[task] = lacking
                    missing += lacking - self.fetching
                    self.fetching |= lacking
                    continue
            self.running += 1
            duration_s = self.execution_s[task]
            self.busy_s += duration_s
            run.execute_s[task] = now
            run.place[task] = self
            if run.has_flexible:
                self.since[task] = now
            run.after(duration_s, FINISHED, self, task)
            if run.hints is not None:
                self._note_started(task, now)
        if missing:
            self.fetch(missing)

    def fetch(self, tasks: Sequence[int]) -> None:
        """Bring outputs of other workers into memory: small ones in one round trip, large ones in one more."""
        size, inline_bytes = self.run.size, self.run.inline_bytes
        total = large = 0.0
        for task in tasks:
            total += size[task]
            if size[task] > inline_bytes:
                large += size[task]
        self.fetched_bytes += total
        arrival_s = self.run.now + self.latency / 2
        if large:  # downloads take turns
            arrival_s = max(arrival_s + self.latency / 2, self.downloaded_s) + large / self.bandwidth
            self.downloaded_s = arrival_s
        self.run.at(arrival_s + self.latency / 2, FETCHED, self, tasks)

    def _use(self, deps: Iterable[int]) -> None:
        uses = self.uses
        for dep in deps:
            uses[dep] = uses.get(dep, 0) + 1

    def _release(self, deps: Iterable[int]) -> None:
        uses = self.uses
        for dep in deps:
            uses[dep] -= 1
            if not uses[dep]:
                del uses[dep]
                self._drop_if_unused(dep)

    def _drop_if_unused(self, task: int) -> None:
        if task in self.uses or task not in self.values:
            return
        if task in self.outbox or task in self.publish or task in self.storing or task in self.sent_tasks:
            return
        self.values.discard(task)
        self.unstored.pop(task, None)

    def _leave(self, now: float, *, suspended: bool = False) -> None:
        self.over = True
        self.end_s = now
        self.run.left(self, now, suspended)
