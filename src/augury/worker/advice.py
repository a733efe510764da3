"""The policies of one worker, asked for advice; and what is to be done later."""

import heapq
import itertools
import logging
import math
from collections.abc import Mapping
from typing import Any, get_args

from augury.config import Resources, is_whole
from augury.errors import PlanError
from augury.worker.policies.policy import Action, Duplicate, FetchEarly, Policy, PreWarm, WakeAt

_log = logging.getLogger(__name__)

EARLY_S = 1e-6
"""How much too early an alarm may ring, for clocks that count in other steps."""
_LEAST_WAIT_S = 0.001
"""After how long an alarm rings that is set for a moment that is past: a policy that does so again and again must not
keep its worker from everything else."""


class Advice:
    """Asks every policy, and keeps in mind what they want done later.

    Always true: `next_s` is the earliest moment at which something is due. A policy that raised, or answered with
    what is no action, is forgotten with all that it asked for.

    Args:
        worker: Whose policies they are, for messages.
        policies: By name.
        tasks: How many tasks the workflow has.
    """

    def __init__(self, worker: str, policies: Mapping[str, Policy], tasks: int) -> None:
        self._worker = worker
        self._policies = dict(policies)
        self._tasks = tasks
        self._later: list[tuple[float, int, str, PreWarm | None]] = []  # when, in which order, whose; None: its alarm
        self._numbers = itertools.count()

    @property
    def next_s(self) -> float:
        """When something is due; infinite if nothing is."""
        return self._later[0][0] if self._later else math.inf

    def ask(self, question: str, *arguments: Any, now_s: float) -> list[Action]:
        """What the policies want done now, that one of their methods is called."""
        actions: list[Action] = []
        for name in list(self._policies):
            actions += self._ask_one(name, question, arguments, now_s)
        return actions

    def ring(self, now_s: float) -> list[Action]:
        """What is due."""
        actions: list[Action] = []
        due = []  # once: what is asked for meanwhile, though it is for a moment that is past, has to wait for the next
        while self._later and self._later[0][0] <= now_s + EARLY_S:
            due.append(heapq.heappop(self._later))
        for at_s, _, name, action in due:
            if name not in self._policies:
                continue
            if action is None:
                actions += self._ask_one(name, "alarm", (), max(at_s, now_s))
            else:
                actions.append(action)
        return actions

    def at_the_end(self) -> list[PreWarm]:
        """What must not be forgotten though the worker ends."""
        return [action for _, _, name, action in sorted(self._later) if action is not None and name in self._policies]

    def _ask_one(self, name: str, question: str, arguments: tuple[Any, ...], now_s: float) -> list[Action]:
        try:
            answer: list[Action] = list(getattr(self._policies[name], question)(*arguments, now_s))
            for action in answer:
                _check(action, self._tasks)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is the user's code, and the run goes on without it
            _log.warning("worker %s goes on without the policy %r: %r", self._worker, name, error, exc_info=error)
            del self._policies[name]
            return []
        return [action for action in answer if not self._defer(name, action, now_s)]

    def _defer(self, name: str, action: Action, now_s: float) -> bool:
        """Keep what is for later; whether it is."""
        if isinstance(action, WakeAt):
            moment_s = action.at_s if action.at_s > now_s else now_s + _LEAST_WAIT_S
            if all((at_s, owner) != (moment_s, name) or kept is not None for at_s, _, owner, kept in self._later):
                heapq.heappush(self._later, (moment_s, next(self._numbers), name, None))
            return True
        if isinstance(action, PreWarm) and action.at_s > now_s:
            heapq.heappush(self._later, (action.at_s, next(self._numbers), name, action))
            return True
        return False


def _check(action: Action, tasks: int) -> None:
    """Refuse what the core could not carry out."""
    match action:
        case PreWarm(resources, count, at_s):
            good = type(resources) is Resources and is_whole(count, least=1) and _is_moment(at_s)
        case WakeAt(at_s):
            good = _is_moment(at_s)
        case FetchEarly(wanted):
            good = all(_is_task(task, tasks) for task in wanted)
        case Duplicate(task):
            good = _is_task(task, tasks)
        case _:
            good = False
    if not good:
        kinds = ", ".join(kind.__name__ for kind in get_args(Action))
        raise PlanError(f"it answered {action!r}; an answer is a sequence of actions ({kinds}) with sensible values")


def _is_moment(at_s: object) -> bool:
    return isinstance(at_s, int | float) and not isinstance(at_s, bool) and math.isfinite(at_s)


def _is_task(task: object, tasks: int) -> bool:
    return is_whole(task, least=0) and isinstance(task, int) and task < tasks
