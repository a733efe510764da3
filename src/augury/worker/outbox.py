"""What a worker has to tell storage: completions, outputs that others turned out to need, workers to be started.

    finished ──▶ pending ──▶ (stored, if it is large and must be) ──▶ sent ──▶ counted
                    ▲                                                   │
                    └───────── refused: it must be stored first ◀───────┘

One report is under way at a time, and tells all that can be told when it is sent.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from augury.storage.protocols import Claim, Outcome, Published, Tried
from augury.worker import messages as m
from augury.worker.view import RunView


class Outbox:
    """What waits to be told, is being stored, or is under way.

    Args:
        view: The graph and the plan.
        emit: Takes commands.

    Attributes:
        pending: Finished tasks that are not reported yet.
        published: Outputs that are to be made known after their completion.
        storing: Outputs that are being written.
        unstored: Output made here and not in storage → its size.
        counted: Planned tasks of this worker, and tasks that finished here, whose completion storage has counted.
        claims: Workers to be started, and the outputs that must be stored before.
        taken: Flexible tasks that turned out to be ours, and that storage is to know of.
        tried: Tasks that a successor is to try again.
        sent: The report under way.
    """

    def __init__(self, view: RunView, emit: Callable[[m.Command], None]) -> None:
        self._view = view
        self._emit = emit
        self.pending: dict[int, m.Finished] = {}
        self.published: dict[int, Published] = {}
        self.storing: set[int] = set()
        self.unstored: dict[int, int] = {}
        self.counted: set[int] = set()
        self.claims: list[tuple[set[int], list[Claim]]] = []
        self.taken: dict[int, None] = {}
        self.tried: tuple[Tried, ...] = ()
        self.sent: m.Send | None = None
        self._sent_tasks: dict[int, bool] = {}  # output that it tells of → whether it puts it in storage

    @property
    def busy(self) -> bool:
        """Whether there is something to tell or to store, claims aside."""
        return bool(self.storing or self.sent or self.pending or self.published or self.tried)

    @property
    def unreported(self) -> bool:
        """Whether a report could be sent now that others may wait for."""
        if self.sent is not None:
            return False
        if self.published or not self.storing.issuperset(self.pending):
            return True
        return any(not waits & self.storing for waits, _ in self.claims)

    def holds(self, task: int) -> bool:
        """Whether an output must stay in memory until it is told, stored or published."""
        return task in self.pending or task in self.published or task in self.storing or task in self._sent_tasks

    def forget(self, task: int) -> None:
        """An output is no longer in memory."""
        self.unstored.pop(task, None)

    def with_values(self) -> set[int]:
        """The outputs whose values are needed for what is to be told, stored or published."""
        sinks = self._view.graph.sink_set
        told = {one.task for one in self.pending.values() if one.keep or one.consumers or one.task in sinks}
        return told | self.published.keys() | self.storing

    def withdraw(self, ours: Sequence[int]) -> list[int]:
        """Tasks have turned out to be ours: nobody has to be told of inputs for them.

        Returns:
            The inputs that nobody has to be told of at all.
        """
        deps, mine = self._view.graph.deps, set(ours)
        settled = []
        for dep in {dep for consumer in ours for dep in deps[consumer]}:
            pending = self.pending.get(dep)
            if pending is None:
                continue
            rest = tuple(other for other in pending.consumers if other not in mine)
            if rest or pending.keep or dep in self._view.graph.sink_set:
                self.pending[dep] = msgspec.structs.replace(pending, consumers=rest)
                self.taken |= dict.fromkeys(consumer for consumer in ours if dep in deps[consumer])
            else:
                del self.pending[dep]
                settled.append(dep)
        return settled

    # Storing

    def publish_inputs(self, tasks: Iterable[int]) -> set[int]:
        """Have the inputs of tasks for others put into storage; returns those that are being stored."""
        deps = self._view.graph.deps
        unstored = {dep for task in tasks for dep in deps[task] if dep in self.unstored}
        return {dep for dep in sorted(unstored) if self.put_in_storage(dep)}

    def put_in_storage(self, task: int) -> bool:
        """Have an output that only we hold put into storage; whether it is large, and must be stored first."""
        size = self.unstored[task]
        if task in self.pending:
            self.pending[task] = msgspec.structs.replace(self.pending[task], keep=True)
            if self.pending[task].stored:
                return False
        elif task in self.published or self._sent_tasks.get(task):
            return False
        elif task not in self.counted and task not in self._sent_tasks:
            self.pending[task] = m.Finished(task, size, keep=True)
        elif size <= self._view.inline_bytes:
            self.published[task] = Published(task, size)
        if size <= self._view.inline_bytes:
            return False
        self._store(task)
        return True

    def stored(self, task: int) -> None:
        """A large output is in storage."""
        self.storing.discard(task)
        if task in self.pending:
            self.pending[task] = msgspec.structs.replace(self.pending[task], stored=True)
        else:
            self.published[task] = Published(task, self.unstored[task])

    def _store(self, task: int) -> None:
        if task not in self.storing:
            self.storing.add(task)
            self._emit(m.Store(task))

    def _must_store(self, pending: m.Finished) -> bool:
        if pending.stored or pending.size_bytes <= self._view.inline_bytes:
            return False
        if pending.keep or pending.task in self._view.graph.sink_set:
            return True
        return any(self._view.worker_of[consumer] for consumer in pending.consumers)

    # Reporting

    def collect(self) -> m.Send:
        """A report of all that can be told now; large outputs that storage needs are stored before."""
        completions = []
        for task, pending in list(self.pending.items()):
            if task in self.storing:
                continue
            if self._must_store(pending):
                self._store(task)
                continue
            completions.append(pending)
            del self.pending[task]
        claims = [claim for waits, group in self.claims if not waits & self.storing for claim in group]
        self.claims = [(waits, group) for waits, group in self.claims if waits & self.storing]
        published, self.published = tuple(self.published.values()), {}
        taken: tuple[int, ...] = ()
        if completions and self.taken:
            taken, self.taken = tuple(self.taken), {}
        tried, self.tried = self.tried, ()
        return m.Send(tuple(completions), published, tuple(claims), taken, tried=tried)

    def send(self, report: m.Send) -> None:
        """Have a report sent."""
        self.sent = report
        self._sent_tasks = {one.task: one.stored or one.keep for one in report.completions}
        self._sent_tasks |= dict.fromkeys((one.task for one in report.published), True)
        self._emit(report)

    def answered(self) -> m.Send | None:
        """The report under way was answered; returns it."""
        sent, self.sent = self.sent, None
        self._sent_tasks = {}
        return sent

    def settle(self, sent: m.Send, outcome: Outcome, is_ours: Callable[[int], bool]) -> None:
        """Work out which outputs are in storage now, by the rules of `Completion`; report again what was refused.

        Args:
            sent: The report.
            outcome: What it led to.
            is_ours: Whether a flexible task has turned out to be ours meanwhile.
        """
        refused = set(outcome.store_first)
        ready = set(outcome.ready)
        for finished in sent.completions:
            if finished.task in refused:
                self._report_again(finished, is_ours)
                continue
            self.counted.add(finished.task)
            if self._is_stored(finished, ready):
                self.unstored.pop(finished.task, None)
        for published in sent.published:
            self.unstored.pop(published.task, None)

    def _is_stored(self, finished: m.Finished, ready: set[int]) -> bool:
        """Whether an output is in storage, now that its completion was counted and tasks became ready by that."""
        if finished.keep or finished.stored or finished.task in self._view.graph.sink_set:
            return True
        return not ready.issuperset(finished.consumers)  # what nobody takes is told without a value

    def _report_again(self, finished: m.Finished, is_ours: Callable[[int], bool]) -> None:
        """A held output must be stored first; unless all who take it have turned out to be ours meanwhile."""
        task = finished.task
        rest = tuple(consumer for consumer in finished.consumers if not is_ours(consumer))
        self.taken |= dict.fromkeys(consumer for consumer in finished.consumers if consumer not in rest)
        if not rest:
            return
        stored = self.published.pop(task, None) is not None
        self.pending[task] = msgspec.structs.replace(finished, consumers=rest, keep=True, stored=stored)
        if not stored:
            self._store(task)
