"""Guarantees broken on purpose, one at a time: tests that do not notice are no tests.

A mutant is a small change of production code, made for the time of a test.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from augury.run import attaching
from augury.serde import Blob
from augury.storage.memory import MemoryObjects, MemoryStorage
from augury.storage.protocols import Joined, Remains, Report, Status, WorkerSummary
from augury.storage.run_state import RunState
from augury.worker import recovery, state
from augury.worker.memory import Memory
from augury.worker.messages import Leave
from augury.worker.outbox import Outbox
from augury.worker.runner import Runner
from augury.worker.sharing import Gathering
from augury.worker.state import WorkerState

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    """One guarantee, broken.

    Attributes:
        name: What does not hold any more.
        apply: Breaks it.
        test: The test that notices it; if empty, the simulation does.
    """

    name: str
    apply: Callable[[Patch], None]
    test: str = ""

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


MUTANTS: list[Mutant] = []


def mutant(name: str, *, test: str = "") -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def add(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS.append(Mutant(name, apply, test))
        return apply

    return add


# What storage guarantees


@mutant("a completion counts each time it is reported")
def _(patch: Patch) -> None:
    count = RunState._count

    def again(self: RunState, completion: Any, ready: list[Any]) -> bool:
        self.done.discard(completion.task)
        return count(self, completion, ready)

    patch.setattr(RunState, "_count", again)


@mutant("a planned task becomes ready and nobody is told")
def _(patch: Patch) -> None:
    wake = RunState._wake

    def forget(self: RunState, ready: Sequence[Any], counted: Sequence[Any]) -> Any:
        return wake(self, [consumer for consumer in ready if self.workers[consumer.worker] <= 0], counted)

    patch.setattr(RunState, "_wake", forget)


@mutant(
    "a slot is given up although an event waits",
    test="tests/storage/test_coordination.py::TestSuspend::test_nobody_suspends_with_unread_events[memory]",
)
def _(patch: Patch) -> None:
    suspend = RunState.suspend

    def blindly(self: RunState, worker: str, attempt: int, position: int, grace_s: float) -> bool:
        return suspend(self, worker, attempt, 10**9, grace_s)

    patch.setattr(RunState, "suspend", blindly)


@mutant("reports of replaced invocations count")
def _(patch: Patch) -> None:
    report = RunState.report

    def unfenced(self: RunState, told: Report) -> Any:
        return report(self, structs.replace(told, attempt=self.workers[told.worker]))

    patch.setattr(RunState, "report", unfenced)


@mutant("a replaced invocation may end the run")
def _(patch: Patch) -> None:
    fail = RunState.fail

    def unfenced(self: RunState, status: Status, failure: bytes, worker: str = "", attempt: int = 0) -> bool:
        return fail(self, status, failure, worker, self.workers[worker] or attempt)

    patch.setattr(RunState, "fail", unfenced)


@mutant("a replaced invocation that offers its slot may go on")
def _(patch: Patch) -> None:
    suspend = RunState.suspend

    def unfenced(self: RunState, worker: str, attempt: int, *args: Any) -> bool:
        return attempt >= abs(self.workers[worker]) and suspend(self, worker, attempt, *args)

    patch.setattr(RunState, "suspend", unfenced)


@mutant("a second invocation may embody a worker")
def _(patch: Patch) -> None:
    join = RunState.join

    def anyway(self: RunState, worker: str, attempt: int) -> Joined:
        if self.workers[worker] == attempt:
            self.starting.setdefault(worker, self.clock())
        return join(self, worker, attempt)

    patch.setattr(RunState, "join", anyway)


@mutant("an attempt that was replaced may join")
def _(patch: Patch) -> None:
    patch.setattr(RunState, "_has_ended", lambda *_: False)


@mutant(
    "a worker is claimed twice",
    test="tests/storage/test_coordination.py::TestClaims::test_a_worker_claimed_at_creation_is_not_granted_again[memory]",
)
def _(patch: Patch) -> None:
    def may_claim(self: RunState, claim: Any) -> bool:
        self.workers[claim.worker] = 0
        self.claims[claim.worker] = claim
        return True

    patch.setattr(RunState, "_may_claim", may_claim)


@mutant("a flexible task is given to each who reports an input of it")
def _(patch: Patch) -> None:
    count = RunState._count

    def generously(self: RunState, completion: Any, ready: list[Any]) -> bool:
        counted = count(self, completion, ready)
        if counted:
            late = [one for one in completion.consumers if not one.worker and self.counts[one.task] > 1]
            ready += [one for one in late if one not in ready]
        return counted

    patch.setattr(RunState, "_count", generously)


@mutant("an output may be held though others need it")
def _(patch: Patch) -> None:
    patch.setattr(RunState, "_may_be_held", lambda *_: True)


@mutant("the last output wins")
def _(patch: Patch) -> None:
    put = MemoryObjects.put

    def overwrite(self: MemoryObjects, key: str, blob: Blob) -> None:
        self.delete([key])
        put(self, key, blob)

    patch.setattr(MemoryObjects, "put", overwrite)


@mutant("beats do not renew a lease")
def _(patch: Patch) -> None:
    renew = RunState._renew
    patch.setattr(RunState, "_renew", lambda self, _: renew(self, ""))


@mutant("silence is not noticed")
def _(patch: Patch) -> None:
    patch.setattr(RunState, "_silent", lambda _: [])


@mutant("a claimed worker that does not come up is not started again")
def _(patch: Patch) -> None:
    silent = RunState._silent
    patch.setattr(RunState, "_silent", lambda self: [name for name in silent(self) if name not in self.starting])


@mutant("a lost worker is started again under the same attempt")
def _(patch: Patch) -> None:
    expect = RunState._expect

    def same(self: RunState, worker: str, attempt: int) -> tuple[str, int]:
        return expect(self, worker, abs(self.workers[worker]) or attempt)

    patch.setattr(RunState, "_expect", same)


@mutant("who leaves late takes the lease of its successor along")
def _(patch: Patch) -> None:
    leave = RunState.leave

    def carelessly(self: RunState, summary: WorkerSummary) -> None:
        leave(self, summary)
        self.leases.pop(summary.worker, None)

    patch.setattr(RunState, "leave", carelessly)


@mutant("who stands for a lost worker is not told")
def _(patch: Patch) -> None:
    join = RunState.join
    patch.setattr(RunState, "join", lambda self, *args: structs.replace(join(self, *args), restarted=False))


@mutant(
    "there is always hope",
    test="tests/storage/test_leases.py::TestLosing::test_after_too_many_losses_in_a_row_there_is_no_hope[memory]",
)
def _(patch: Patch) -> None:
    replace = RunState._replace

    def hopefully(self: RunState, *args: Any) -> None:
        self.losses.clear()
        replace(self, *args)

    patch.setattr(RunState, "_replace", hopefully)


@mutant(
    "it is not noted who has taken a task",
    test="tests/storage/test_leases.py::TestRemains::test_what_is_stored_and_whose_flexible_tasks_are[memory]",
)
def _(patch: Patch) -> None:
    report = RunState.report
    patch.setattr(RunState, "report", lambda self, told: report(self, structs.replace(told, taken=())))


@mutant(
    "a woken worker gets what the plan says though it needed more",
    test="tests/storage/test_leases.py::TestMemory::test_nor_does_a_slot_that_is_given_up[memory]",
)
def _(patch: Patch) -> None:
    report = RunState.report
    patch.setattr(RunState, "report", lambda self, told: structs.replace(report(self, told), again=()))


@mutant("results are tidied away")
def _(patch: Patch) -> None:
    prune = RunState.prune

    def thoroughly(self: RunState) -> None:
        prune(self)
        if self.status is Status.SUCCEEDED:
            self.outputs.clear()

    patch.setattr(RunState, "prune", thoroughly)


@mutant("a run is not removed")
def _(patch: Patch) -> None:
    patch.setattr(MemoryObjects, "remove", lambda _: None)
    patch.setattr(type(MemoryStorage().coordination("")), "remove", lambda _: None)


# What clients guarantee


@mutant(
    "who attaches unpickles what nobody signed",
    test="tests/test_run_attaching.py::test_what_somebody_changed_in_storage_is_not_unpickled",
)
def _(patch: Patch) -> None:
    patch.setattr(attaching, "check_spec", lambda *_: None)


@mutant(
    "who attaches unpickles what other versions pickled",
    test="tests/test_run_attaching.py::test_what_a_client_of_other_versions_pickled_is_not_unpickled",
)
def _(patch: Patch) -> None:
    patch.setattr(attaching, "check_versions", lambda *_, **__: None)


# What workers guarantee


@mutant("recovery trusts what was counted instead of what is in storage")
def _(patch: Patch) -> None:
    duties = recovery.duties

    def trusting(view: Any, name: str, done: frozenset[int], remains: Remains, told: Any) -> Any:
        return duties(view, name, done, structs.replace(remains, stored=done), told)

    patch.setattr(state, "duties", trusting)


@mutant("recovery does everything again")
def _(patch: Patch) -> None:
    needed = recovery.needed_tasks
    patch.setattr(recovery, "needed_tasks", lambda graph, _: needed(graph, frozenset()))


@mutant(
    "recovery forgets what storage gave",
    test="tests/worker/test_recovery.py::TestFlexible::test_what_storage_gave_to_another_one_is_not_its_own",
)
def _(patch: Patch) -> None:
    owners = recovery._owners
    patch.setattr(recovery, "_owners", lambda remains: owners(structs.replace(remains, grants={})))


@mutant(
    "recovery forgets what was handed on",
    test="tests/worker/test_recovery.py::TestFlexible::test_what_it_was_granted_and_handed_on_is_no_longer_its_own",
)
def _(patch: Patch) -> None:
    owners = recovery._owners
    patch.setattr(recovery, "_owners", lambda remains: owners(structs.replace(remains, claims={})))


@mutant(
    "recovery gives tasks to their second workers",
    test="tests/worker/test_state_recovery.py::TestSecondWorkers::test_a_task_stays_with_its_own_worker",
)
def _(patch: Patch) -> None:
    patch.setattr(recovery, "second_of", lambda _: None)


@mutant(
    "recovery waits for what others do",
    test="tests/worker/test_state_recovery.py::TestDuplicable::test_who_takes_it_does_not_wait_for_it_here",
)
def _(patch: Patch) -> None:
    duties = recovery.duties

    def waiting(view: Any, name: str, done: frozenset[int], remains: Remains, _: Any) -> Any:
        return duties(view, name, done, remains, lambda _: False)

    patch.setattr(state, "duties", waiting)


@mutant(
    "what lost tasks wait for is handed on",
    test="tests/worker/test_state_recovery.py::TestHandingOn::test_a_task_that_lost_ones_wait_for_here_is_not_handed_on",
)
def _(patch: Patch) -> None:
    patch.setattr(WorkerState, "_is_awaited", lambda *_: False)


@mutant(
    "a successor begins to count tries anew",
    test="tests/worker/test_state_handover.py::TestTries::test_the_successor_waits_for_as_long_as_is_left_and_counts_on",
)
def _(patch: Patch) -> None:
    patch.setattr(WorkerState, "_take_up_tries", lambda *_: None)


@mutant("a refused completion is dropped")
def _(patch: Patch) -> None:
    patch.setattr(Outbox, "_report_again", lambda *_: None)


@mutant("values are dropped before they are told")
def _(patch: Patch) -> None:
    init = Memory.__init__
    patch.setattr(Memory, "__init__", lambda self, _, dropped, emit: init(self, lambda _: False, dropped, emit))


@mutant("a slot is given up with outputs that are nowhere else")
def _(patch: Patch) -> None:
    patch.setattr(WorkerState, "needed_later", lambda _: [])


@mutant("a task with several inputs is taken by each who has one of them")
def _(patch: Patch) -> None:
    add = Gathering.add

    def greedily(self: Gathering, consumer: int, task: int, storing: Any) -> bool:
        add(self, consumer, task, storing)
        return True

    patch.setattr(Gathering, "add", greedily)


@mutant(
    "a replaced worker takes back what it stored",
    test="tests/worker/test_runner.py::test_a_replaced_worker_does_not_take_back_what_it_stored",
)
def _(patch: Patch) -> None:
    leave = Runner._leave

    def greedily(self: Runner, command: Leave) -> None:
        status = Status.GONE if command.status is Status.REPLACED else command.status
        leave(self, structs.replace(command, status=status))

    patch.setattr(Runner, "_leave", greedily)
    patch.setattr(Runner, "_take_back", lambda self: self._values.take_back())


@mutant("large outputs are reported before they are stored")
def _(patch: Patch) -> None:
    patch.setattr(Outbox, "_must_store", lambda *_: False)
    patch.setattr(RunState, "_may_be_held", lambda *_: True)
