"""An invocation at the mercy of an adversary: it beats, freezes, thaws and dies.

Everything that it does is a step, and between two steps it may be struck (`augury.testing.adversary`). While it is
frozen its steps wait, in their order; requests that it sent before are out of its hands. As in production, starting
workers, failing, cleaning up and leaving are done one after the other, once the core has commanded them.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from augury import serde
from augury.errors import StorageError
from augury.storage.protocols import (
    Beat,
    Cause,
    Claim,
    Event,
    Hopeless,
    Joined,
    Missing,
    Report,
    Status,
    TaskReady,
    output_key,
)
from augury.testing.adversary import Adversary, Crash, Freeze, Mischief, Unheard
from augury.testing.clock import Action
from augury.testing.gateway import Startup
from augury.testing.invocation import VirtualInvocation
from augury.testing.world import World
from augury.worker import messages as m
from augury.worker.heart import BEATS, see_to
from augury.worker.patience import Patience

_LEAST_PAUSE_S: Final = 0.01
_IN_TURN: Final = (m.Invoke, m.Fail, m.CleanUp, m.Leave)


class MortalInvocation(VirtualInvocation):
    """One worker at work, for as long as the adversary lets it.

    Args:
        world: What it shares with the others.
        claim: Which worker it is.
        startup: How it was started.
        ended: Called when it has left, or is dead.
        enemy: The adversary.
        adversary: What it may do; and how long the run, and the platform, are patient.
        read: The outputs that any invocation has read from storage: all must read the same.
        is_replaced: Whether a later attempt was asked for: then nothing may count that this one says.
        unheard: Told of its death, if the gateway sees it.
        give_up: Ends the run, for which there is no hope.
    """

    def __init__(
        self,
        world: World,
        claim: Claim,
        startup: Startup,
        ended: Callable[[VirtualInvocation], None],
        *,
        enemy: Mischief,
        adversary: Adversary,
        read: dict[int, Any],
        is_replaced: Callable[[Claim], bool],
        unheard: Unheard,
        give_up: Callable[[Hopeless], None],
    ) -> None:
        super().__init__(world, claim, startup, ended)
        self._enemy = enemy
        self._pause_s = adversary.care.lease_s / BEATS
        self._late_s = adversary.late_s
        self._patience = Patience(world.clock(), world.clock() + adversary.limit_s)
        self._straggling: set[tuple[int, float]] = set()  # tasks, and when they began
        self._begun: set[int] = set()
        self._is_last = self._has_left = False  # the report under way may be the last; it was
        self._read_by_all = read
        self._is_replaced = is_replaced
        self._unheard = unheard
        self._give_up = give_up
        self._holds = 0  # reasons for which steps wait
        self._backlog: deque[Action] = deque()
        self._in_turn: deque[m.Command] = deque()
        self._joined = False
        self._may_arrive = False  # what was sent before its death
        self._found: frozenset[int] = frozenset()  # outputs that were in storage when it stood for a lost one

    # Steps

    def _after(self, delay_s: float, action: Action, *, watch: bool = False) -> None:
        self._world.clock.after(delay_s, partial(self._step, action), watch=watch)

    def _step(self, action: Action) -> None:
        if self._over:
            return
        if self._holds:
            self._backlog.append(action)
            return
        match self._enemy.strike(self.claim, running=bool(self._running)):
            case Crash() as crash:
                self._die(crash)
            case Freeze(for_s):
                self._backlog.appendleft(action)
                self._holds += 1
                self._world.clock.after(for_s, self._go_on)
            case None:
                action()

    def _go_on(self) -> None:
        self._holds -= 1
        while self._backlog and not self._holds:
            self._step(self._backlog.popleft())

    def _die(self, crash: Crash) -> None:
        self._may_arrive = not crash.unsent
        if not self._joined:
            self._world.gateway.joined()
        self._end(suspended=False, keeps_warm=False)
        if crash.told_s < float("inf"):
            told = partial(self._unheard, self.claim, crash.cause)
            self._world.clock.after(crash.told_s, told)
            if self._enemy.told_twice():
                self._world.clock.after(2 * crash.told_s, told)

    # Requests

    def _deliver(self, apply: Callable[[], m.Event | None], delay_s: float, *, watch: bool) -> None:
        passage = self._enemy.passage(self.claim.worker)

        def arrive() -> None:
            if self._over and not self._may_arrive:
                return
            try:
                answer = apply()
            except StorageError:  # the run is gone
                answer = m.StopRequested()
            if answer is not None:
                self._later(self._timing.latency_s / 2 + passage.back_s, answer, watch=watch)

        self._world.clock.after(delay_s + passage.there_s, arrive, watch=watch)

    def _carry_out(self, command: m.Command) -> None:
        if isinstance(command, _IN_TURN):
            self._in_turn.append(command)
            if len(self._in_turn) == 1:
                self._after(0.0, self._take_turns)
        else:
            super()._carry_out(command)

    def _take_turns(self) -> None:
        """Do the next of what is done one after the other."""
        super()._carry_out(self._in_turn.popleft())
        if self._in_turn:
            self._after(self._timing.latency_s, self._take_turns)

    # The beginning

    def _join(self) -> m.Event | None:
        joined = self._world.coordination.join(self.claim.worker, self.claim.attempt)
        self._check_place(joined.status)
        self._after(self._timing.latency_s / 2, partial(self._began, joined))
        return None

    def _began(self, joined: Joined) -> None:
        self._joined = True
        self._world.gateway.joined()
        if joined.status is Status.REPLACED:
            self._end(suspended=False)
        elif joined.status is not Status.RUNNING:
            self._leave(m.Leave(joined.status))
        elif joined.restarted:
            self._request(partial(self._look_for_remains, joined))
        else:
            self._set_out(m.Began(self.claim.tasks, joined.done, joined.live))

    def _look_for_remains(self, joined: Joined) -> None:
        remains = self._world.coordination.remains()
        self._found = remains.stored
        began = m.Began(self.claim.tasks, joined.done, joined.live, remains)
        self._after(self._timing.latency_s / 2, partial(self._set_out, began))

    def _set_out(self, began: m.Began) -> None:
        self._after(self._pause_s, self._beat)
        if self._patience.deadline_s < math.inf:
            self._after(self._patience.soft_s - self._world.clock(), self._wind_down)
            self._world.clock.after(self._patience.deadline_s - self._world.clock(), self._outlast)
        self._tell(began)

    # Beating

    def _beat(self) -> None:
        self._deliver(self._ask_to_live, self._timing.latency_s / 2, watch=False)

    def _ask_to_live(self) -> None:
        beat = self._world.coordination.beat
        answer = beat(self.claim.worker, self.claim.attempt)
        self._check_place(answer.status)
        if self._enemy.repeats():
            answer = beat(self.claim.worker, self.claim.attempt)  # and the first answer is lost
        self._after(self._timing.latency_s / 2, partial(self._lives, answer))

    def _lives(self, beat: Beat) -> None:
        if beat.status is not Status.RUNNING:
            self._tell(m.StopRequested(beat.status))
            return
        self._after(self._pause_s, self._beat)
        see_to(beat, self._world.gateway.invoke, self._give_up)

    def _check_place(self, status: Status) -> None:
        """One invocation embodies a worker: no other one is told that the run goes on with it, or may end it."""
        if status is Status.RUNNING and self._is_replaced(self.claim):
            raise AssertionError(f"{self.claim.worker}: attempt {self.claim.attempt} was replaced, and is heard")

    def _send(self, command: m.Send) -> None:
        self._is_last = command.last
        super()._send(command)

    def _report(self, report: Report) -> m.Event:
        if self._is_last:  # one is under way at a time
            report = msgspec.structs.replace(report, leaving=self._summary(m.Leave()))
        event = super()._report(report)
        if isinstance(event, m.Reported):
            self._check_place(event.outcome.status)
            self._has_left = event.outcome.left
        return event

    # Values

    def _look_up(self, tasks: Sequence[int]) -> m.Event | None:
        event = super()._look_up(tasks)
        self._compare(tasks)
        return event

    def _download(self, tasks: tuple[int, ...], large: tuple[int, ...]) -> m.Event:
        event = super()._download(tasks, large)
        self._compare(large)
        return event

    def _translate(self, event: Event) -> m.Event:
        told = super()._translate(event)
        if isinstance(event, TaskReady):
            self._compare(event.outputs)
        return told

    def _compare(self, tasks: Iterable[int]) -> None:
        """Whoever reads an output from storage reads the same; what was run here, too, may be another one."""
        for task in tasks:
            if task in self._values and task not in self._begun:
                value = self._values[task]
                if self._read_by_all.setdefault(task, value) != value:
                    raise AssertionError(f"{self.claim.worker}: others have read another output of task {task}")

    # Time

    def _tick(self) -> None:
        super()._tick()
        for task, span in list(self._running.items()):
            is_late = self._world.clock() - span.start_s > self._late_s
            if is_late and (task, span.start_s) not in self._straggling:
                self._straggling.add((task, span.start_s))
                inputs = set(self._world.view.graph.deps[task]).intersection(self.state.needed_later())
                self._tell(m.Straggles(task, self._sizes(inputs)))

    def _wind_down(self) -> None:
        """The platform lets nobody go on for ever: hand over in time, as the runner does."""
        self._tell(m.WindDown(self._sizes(self.state.needed_later())))
        if self._over or self.state.over:
            return
        if self._world.clock() >= self._patience.hard_s or self.state.quiet:
            self._tell(m.HandOverDue(self._sizes(self.state.needed_later())))
        self._after(max(self._patience.look_s, _LEAST_PAUSE_S), self._wind_down)

    def _sizes(self, tasks: Iterable[int]) -> dict[int, int]:
        """The sizes of outputs, but for those that tasks may have changed.

        That is every other one that a running task has, unless it began so late that its inputs were put apart.
        """
        early = [task for task, span in self._running.items() if self._patience.had_it_all(span.start_s)]
        given = {dep for task in early for dep in self._world.view.graph.deps[task]}
        return {task: self._size(task) for task in tasks if task % 2 or task not in given}

    def _outlast(self) -> None:
        if not self._over:
            self._enemy.outlasted(self.claim.worker)
            self._die(Crash(math.inf, Cause.LOST, unsent=False))

    # Commands

    def _run_once(self, command: m.Run) -> None:
        if command.task in self._found and not command.duplicate:
            raise AssertionError(f"{self.claim.worker}: task {command.task} is run again, and its output is in storage")
        self._begun.add(command.task)
        self._run(command)

    def _store_somehow(self, command: m.Store) -> None:
        self._store(command)
        if self._enemy.repeats():
            blob = self._blob(command.task)
            self._deliver(partial(self._store_again, command.task, blob), self._timing.latency_s, watch=False)

    def _store_again(self, task: int, blob: serde.Blob) -> None:
        self._world.objects.put(output_key(task), blob)

    def _suspend_alone(self, _: m.Suspend) -> None:
        self._after(0.0, self._ask_alone)

    def _ask_alone(self) -> None:
        """Ask to be suspended; nothing else happens here until the answer has its effect."""
        if self.state.suspending:
            self._holds += 1
            self._deliver(self._ask, self._timing.latency_s / 2, watch=False)

    def _ask(self) -> None:
        ask, cursor = self._world.coordination.suspend, self._cursor or "0"
        granted = ask(self.claim.worker, self.claim.attempt, cursor, self._world.model.start_s)
        if self._enemy.repeats():
            granted = ask(self.claim.worker, self.claim.attempt, cursor, self._world.model.start_s)
        if not granted:  # else it ends, for whichever reason
            self._check_place(self._world.coordination.status())
        self._world.clock.after(self._timing.latency_s / 2, partial(self._answered, granted))

    def _answered(self, granted: bool) -> None:
        if not self._over:
            self._backlog.appendleft(partial(self._tell, m.SuspendAnswered(granted)))
            self._go_on()

    def _hand_over(self, command: m.HandOver) -> None:
        cause = Cause.CUT if command.cut else Cause.HANDOVER
        self._enemy.losses[self.claim.worker] += command.cut  # the platform's doing
        self._deliver(partial(self._ask_for_successor, cause), self._timing.latency_s / 2, watch=False)

    def _ask_for_successor(self, cause: Cause) -> None:
        missing = Missing(self.claim.worker, self.claim.attempt, cause)
        beat = self._world.coordination.beat(self.claim.worker, self.claim.attempt, [missing])
        self._check_place(beat.status)
        self._after(self._timing.latency_s / 2, partial(self._handed_over, beat))

    def _handed_over(self, beat: Beat) -> None:
        for hopeless in beat.hopeless[:1]:
            self._give_up(hopeless)
        self._world.gateway.invoke(beat.start)
        handed_over = any(claim.worker == self.claim.worker for claim in beat.start)
        self._tell(m.HandedOver() if handed_over else m.StopRequested(beat.status))

    def _fail_and_tidy(self, command: m.Fail) -> None:
        if self._world.coordination.fail(Status.FAILED, command.failure, self.claim.worker, self.claim.attempt):
            self._check_place(Status.RUNNING)
            self._clean_up(m.CleanUp())

    def _leave_behind_nothing(self, command: m.Leave) -> None:
        status = self._world.coordination.status()
        if command.status is not Status.REPLACED and status not in (Status.RUNNING, Status.SUCCEEDED):
            self._world.objects.delete(map(output_key, self._stored))
        if self._has_left:
            self._end(suspended=False)
            return
        self._leave(command)
        if self._enemy.repeats():
            self._world.coordination.leave(self._summary(command))

    _EXECUTE: ClassVar[dict[type[m.Command], Callable[[Any, Any], None]]] = {
        **VirtualInvocation._EXECUTE,  # noqa: SLF001 - its own base
        m.Run: _run_once,
        m.Send: _send,
        m.Store: _store_somehow,
        m.Suspend: _suspend_alone,
        m.HandOver: _hand_over,
        m.Fail: _fail_and_tidy,
        m.Leave: _leave_behind_nothing,
    }
