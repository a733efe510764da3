"""The course of a run against an adversary: the gateway tells what it sees, and the client looks after the run.

A run has a *bound*: how long it may take at most, given how long its tasks, starts and transfers take, and what
the adversary did. One that takes longer is as good as one that hangs: `Deadlock`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

import msgspec

from augury import serde
from augury.errors import WorkerLost
from augury.plan.model import PlatformModel
from augury.storage.protocols import (
    CLIENT,
    Cause,
    Claim,
    Hopeless,
    Missing,
    RunEnded,
    RunSpec,
    Status,
    Stop,
    WorkerSummary,
    output_key,
)
from augury.testing.adversary import Adversary, Mischief, Mishap
from augury.testing.clock import VirtualClock
from augury.testing.course import Course, Deadlock
from augury.testing.gateway import Startup, VirtualGateway
from augury.testing.invocation import VirtualInvocation
from augury.testing.mortal import MortalInvocation
from augury.testing.spans import VirtualRun
from augury.worker.heart import BEATS, see_to

_SETTLE_S: Final = 5.0
"""How long the client waits, after the end, for workers to leave."""


class AdverseGateway(VirtualGateway):
    """A gateway that may drop what it is asked to start, start it twice, or later than others.

    Args:
        clock: The virtual time.
        model: The platform.
        start: Called when an environment is up.
        enemy: The adversary.
    """

    def __init__(
        self,
        clock: VirtualClock,
        model: PlatformModel,
        start: Callable[[Claim, Startup], None],
        enemy: Mischief,
    ) -> None:
        super().__init__(clock, model, start)
        self._enemy = enemy
        self._attempts: dict[str, int] = {}

    def invoke(self, claims: Sequence[Claim]) -> None:
        """Start workers, as far as the adversary lets them."""
        for claim in claims:
            self._attempts[claim.worker] = max(claim.attempt, self._attempts.get(claim.worker, 0))
            for later_s in self._enemy.starts(claim.worker):
                if later_s:
                    self._clock.after(later_s, partial(super().invoke, (claim,)))
                else:
                    super().invoke((claim,))

    def is_replaced(self, claim: Claim) -> bool:
        """Whether a later attempt of a worker was asked for."""
        return claim.attempt < self._attempts.get(claim.worker, 0)


class AdverseCourse(Course):
    """One run against an adversary.

    Args:
        adversary: Who it is against; the rest as for `Course`.
    """

    def __init__(self, *args: Any, adversary: Adversary, **options: Any) -> None:
        self._adversary = adversary
        self._care = adversary.care
        self._enemy = Mischief(adversary)
        self._read: dict[int, Any] = {}
        self._run: VirtualRun | None = None
        super().__init__(*args, **options)

    def run(self) -> VirtualRun:
        """Let the run take place."""
        self._submit()
        self._clock.after(self._care.lease_s / BEATS, self._look_after)
        self._clock.run()
        if self._ended is None or self._alive:
            raise Deadlock(self._describe())
        self._check_nothing_is_left()
        if self._run is None:
            raise self._failure(self._ended[1])
        return self._run

    def _make_gateway(self, model: PlatformModel) -> VirtualGateway:
        self._asked = AdverseGateway(self._clock, model, self._start, self._enemy)
        return self._asked

    def _spec(self) -> RunSpec:
        return msgspec.structs.replace(super()._spec(), care=self._care)

    def _embody(self, claim: Claim, startup: Startup) -> VirtualInvocation:
        return MortalInvocation(
            self._world,
            claim,
            startup,
            self._bury,
            enemy=self._enemy,
            adversary=self._adversary,
            read=self._read,
            is_replaced=self._asked.is_replaced,
            unheard=self._tell_loss,
            give_up=self._give_up,
        )

    # What the gateway tells

    def _tell_loss(self, claim: Claim, cause: Cause) -> None:
        """The gateway saw an invocation die: it tells the run, and starts what is to be started."""
        beat = self._coordination.beat(lost=[Missing(claim.worker, claim.attempt, cause)])
        self._coordination.leave(
            WorkerSummary(
                worker=claim.worker,
                attempt=claim.attempt,
                cold=True,
                duration_s=0.0,
                memory_mb=claim.resources.memory_mb,
                tasks=0,
            )
        )
        see_to(beat, self._gateway.invoke, self._give_up)

    def _give_up(self, hopeless: Hopeless) -> None:
        inflicted = self._enemy.losses[hopeless.worker]
        never_up = hopeless.cause is Cause.START and self._enemy.count > 0
        if inflicted < hopeless.losses or not (never_up or hopeless.cause in (Cause.LOST, Cause.CUT)):
            raise AssertionError(f"{hopeless.worker} was lost {hopeless.losses} times, and struck {inflicted} times")
        message = f"worker {hopeless.worker} was lost {hopeless.losses} times in a row ({hopeless.cause})"
        self._coordination.fail(Status.FAILED, serde.dumps((-1, WorkerLost(message))).join())

    # The client

    def _look_after(self) -> None:
        if self._ended is not None:
            return
        if self._clock() > self._bound_s():
            raise Deadlock(f"longer than {self._bound_s():g} s: {self._describe()}")
        see_to(self._coordination.beat(), self._gateway.invoke, self._give_up)
        self._clock.after(self._care.lease_s / BEATS + self._enemy.absence_s(), self._look_after)

    def _hear(self) -> None:
        before = self._ended
        super()._hear()
        if before is None and self._ended is not None:
            self._clock.after(_SETTLE_S, self._settle)

    def _settle(self) -> None:
        """Take the result, and remove the run; those who are still there find out."""
        if self._ended is None:
            return
        makespan_s, ended = self._ended
        _, events = self._coordination.read(CLIENT, "0", 0.0)
        endings = sum(isinstance(event, RunEnded) for event in events)
        if endings != 1:
            raise AssertionError(f"the run ended {endings} times")
        if ended.status is Status.SUCCEEDED:
            values = self._sink_values()
            if different := [task for task in values if self._read.get(task, values[task]) != values[task]]:
                raise AssertionError(f"others have read another output of {different}")
            self._run = self._result(values, makespan_s)
        self._coordination.unfollow()
        self._objects.remove()

    def _check_nothing_is_left(self) -> None:
        tasks = range(len(self._graph))
        run = self._coordination
        left: list[object] = [run.spec(), run.outputs(tasks), self._objects.get([output_key(task) for task in tasks])]
        left += [run.read(worker, "0", 0.0)[1] != [Stop(Status.GONE)] for worker in (CLIENT, *self._view.tasks_of)]
        if run.status() is not Status.GONE or any(left):
            raise AssertionError(f"something is left behind: {left}")

    def _faults(self) -> Mapping[str, int]:
        return dict(self._enemy.faults)

    def _bound_s(self) -> float:
        """How long the run may take, after what happened so far.

        At worst everything is done one after the other, and all of it again after each loss. A loss is found when a
        lease has run out, which is twice as long after each one before it; and beats are a part of a lease apart. For a
        worker that does not come up others wait as long again as they have waited, and so they do for one that nobody
        could look after.
        """
        enemy, lease_s = self._enemy, self._care.lease_s
        silent_s = sum(1.5 * lease_s * 2.0**count for count in enemy.setbacks.values())
        losses = enemy.losses.total() + enemy.faults[Mishap.ABSENT]  # nobody looks after losses meanwhile
        again = 2.0 ** max(enemy.setbacks.values(), default=0) if enemy.faults[Mishap.ABSENT] else 1.0
        return (1 + losses) * self._alone_s + again * enemy.inflicted_s + silent_s + 2 * lease_s * (1 + losses)

    @cached_property
    def _alone_s(self) -> float:
        """How long it takes to do everything one after the other."""
        world, model = self._world, self._world.model
        resources = {claim.resources for claim in map(self._view.planned_claim, self._view.tasks_of)}
        resources |= {*(one.resources for one in self._view.plan.assignments), *self._care.larger}
        total_s = 0.0
        for task in range(len(self._graph)):
            info = self._graph.info(task)
            timings = [model.timing_of(one) for one in resources]
            start_s = max(one.cold_start_s + one.crowd_s * len(self._graph) for one in timings)
            size_bytes = world.size_bytes(task, 0)
            slowest = [min(one.bandwidth_bytes_s, one.storing_bytes_s) for one in timings]
            links = zip(timings, slowest, strict=True)
            transfer_s = max(30 * one.latency_s + 4 * size_bytes / bytes_s for one, bytes_s in links)
            run_s = max(world.duration_s(task, one) for one in resources) + info.backoff_s * 2**info.retries
            total_s += start_s + transfer_s + (1 + info.retries) * run_s + 3 * model.start_s + model.flush_s
        return total_s
