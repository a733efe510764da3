"""What happens in a case, line by line: for whoever has to find out why it fails."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from augury.storage.run_state import RunState
from augury.testing.adverse import AdverseGateway
from augury.testing.invocation import VirtualInvocation
from augury.testing.mortal import MortalInvocation
from augury.worker import messages as m

_CALLS = ("join", "remains", "beat", "report", "leave", "suspend", "fail", "prune")


@contextmanager
def aloud() -> Iterator[None]:
    """Write down every call of storage, every start, death and freeze, and every task that runs."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _CALLS:
            patch.setattr(RunState, name, _told(name, getattr(RunState, name)))
        patch.setattr(AdverseGateway, "invoke", _invoked(AdverseGateway.invoke))
        patch.setattr(MortalInvocation, "_die", _noted(MortalInvocation._die))
        patch.setattr(VirtualInvocation, "_run", _noted(VirtualInvocation._run))
        yield


def _say(now_s: float, text: str) -> None:
    sys.stdout.write(f"{now_s:10.4f}  {text}\n")


def _told(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def tell(state: RunState, *args: Any) -> Any:
        answer = call(state, *args)
        if name != "beat" or args[-1] or answer.start or answer.hopeless or answer.status != "running":
            _say(state.clock(), f"{name}{args} → {answer}")
        return answer

    return tell


def _invoked(call: Callable[..., Any]) -> Callable[..., Any]:
    def tell(gateway: AdverseGateway, claims: Any) -> None:
        _say(gateway._clock(), f"invoke {[(one.worker, one.attempt) for one in claims]}")
        call(gateway, claims)

    return tell


def _noted(call: Callable[..., Any]) -> Callable[..., Any]:
    def tell(one: VirtualInvocation, what: Any) -> None:
        shown = f"runs {what.task}" if isinstance(what, m.Run) else what
        _say(one._world.clock(), f"{one.claim.worker} (attempt {one.claim.attempt}): {shown}")
        call(one, what)

    return tell
