"""Faults on purpose: what a worker does when it gets to a named point, if somebody asked for it.

    AUGURY_FAULTS="before-report:kill@2,after-store:stop?worker=p*,heartbeat:wait?s=3&attempt=0"

A fault names a point, what happens there and, after `@`, which time that the invocation gets there (the first, unless
told). After `?` it may say which workers are meant (`worker=`, a pattern), which start of them (`attempt=`: the first,
unless told; 0 is each), for how long to wait (`s=`), and `once=`, a file that whoever it strikes creates: as long as
that file exists it strikes nobody.

The environment is read once, when the code of workers is loaded. Without faults, a point costs one comparison.
"""

import fnmatch
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args
from urllib.parse import parse_qsl, urlencode

import msgspec

from augury.errors import DefinitionError, PlatformError
from augury.invoke.gateway import Invocation

VARIABLE: Final = "AUGURY_FAULTS"

FAULT_POINTS: Final[Mapping[str, str]] = {
    "joined": "the invocation has joined its run, and has done nothing yet",
    "task-begun": "a task is about to be called",
    "task-ended": "a task has returned or raised, and nobody knows",
    "before-report": "completions are about to be reported",
    "after-report": "they were counted, and nothing of what follows from it is done",
    "before-store": "a large output is about to be stored",
    "after-store": "it is stored, and nobody knows",
    "before-fetch": "outputs of other workers are about to be fetched",
    "after-fetch": "they are here",
    "before-invoke": "workers that were claimed are about to be started",
    "after-invoke": "the platform has taken them",
    "heartbeat": "the invocation is about to say that it is alive",
    "before-leave": "the invocation is about to say that it ends",
}
"""Where faults can be, and what that moment means."""

Action = Literal["kill", "stop", "exit", "raise", "wait"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that goes wrong, and where.

    Args:
        point: One of `FAULT_POINTS`.
        action: `kill` is SIGKILL, `stop` is SIGSTOP, to the worker itself; `exit` ends its process, `raise` raises a
            PlatformError, `wait` waits.
        nth: Which time that an invocation gets there.
        worker: The workers that are meant, as a pattern.
        attempt: Which start of them; 0 is each.
        wait_s: How long `wait` waits.
        once: A file that does not exist: the first worker that is struck creates it, and no other is.

    Example:
        >>> str(Fault(point="before-report", action="kill", nth=2))
        'before-report:kill@2'
    """

    point: str
    action: Action
    nth: int = 1
    worker: str = "*"
    attempt: int = 1
    wait_s: float = 0.0
    once: str = ""

    def __post_init__(self) -> None:
        if self.point not in FAULT_POINTS:
            raise DefinitionError(f"there is no fault point {self.point!r}; there are {', '.join(FAULT_POINTS)}")
        if self.action not in get_args(Action):
            raise DefinitionError(f"a fault can {', '.join(get_args(Action))}, but not {self.action!r}")
        if self.nth < 1 or self.attempt < 0 or not 0 <= self.wait_s < float("inf"):
            raise DefinitionError(f"@{self.nth}, attempt={self.attempt} and s={self.wait_s} must be counts and seconds")

    def __str__(self) -> str:
        usual = (("worker", "*"), ("attempt", 1), ("once", ""))
        told = {name: getattr(self, name) for name, value in usual if getattr(self, name) != value}
        if self.wait_s:
            told["s"] = self.wait_s
        nth = f"@{self.nth}" if self.nth > 1 else ""
        return f"{self.point}:{self.action}{nth}{'?' if told else ''}{urlencode(told)}"

    def is_meant(self, invocation: Invocation) -> bool:
        """Whether an invocation is one that it strikes."""
        return self.attempt in (0, invocation.attempt) and fnmatch.fnmatchcase(invocation.worker, self.worker)


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Read faults, as in the module's description.

    Raises:
        DefinitionError: Names what cannot be read.
    """
    return tuple(_parse(part.strip()) for part in text.split(",") if part.strip())


def _parse(text: str) -> Fault:
    what, _, options = text.partition("?")
    point, _, rest = what.partition(":")
    action, _, nth = rest.partition("@")
    told = dict(parse_qsl(options, keep_blank_values=True))
    unknown = told.keys() - {"worker", "attempt", "s", "once"}
    if unknown:
        raise DefinitionError(f"{text!r} is no fault: there is no option {unknown.pop()!r}")
    try:
        fields = {"point": point, "action": action, "nth": nth or "1", "wait_s": told.pop("s", "0"), **told}
        return msgspec.convert(fields, Fault, strict=False)
    except (msgspec.ValidationError, DefinitionError) as error:
        raise DefinitionError(f"{text!r} is no fault, as in before-report:kill@2: {error}") from error


class Faults:
    """The faults of one invocation.

    Args:
        faults: What goes wrong.
        invocation: Whom it strikes.
    """

    def __init__(self, faults: Sequence[Fault], invocation: Invocation) -> None:
        self._faults = faults
        self._invocation = invocation
        self._reached: Counter[str] = Counter()

    def reach(self, point: str) -> None:
        """The invocation is at this point."""
        self._reached[point] += 1
        for fault in self._faults:
            if fault.point == point and fault.nth == self._reached[point] and self._is_first(fault):
                self._strike(fault)

    def _is_first(self, fault: Fault) -> bool:
        """Whether nobody was struck by it before; from now on, somebody was."""
        if not fault.once:
            return True
        try:
            descriptor = os.open(fault.once, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        facts = {"pid": os.getpid(), "worker": self._invocation.worker, "at_s": time.time(), "fault": str(fault)}
        os.write(descriptor, json.dumps(facts).encode())
        os.close(descriptor)
        return True

    def _strike(self, fault: Fault) -> None:
        match fault.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "exit":
                os._exit(1)
            case "wait":
                time.sleep(fault.wait_s)
            case "raise":
                raise PlatformError(f"a fault was asked for: {fault}")


def faults_of(faults: Sequence[Fault], invocation: Invocation) -> Faults | None:
    """The faults that may strike an invocation; None if there are none, as usual."""
    meant = [fault for fault in faults if fault.is_meant(invocation)]
    return Faults(meant, invocation) if meant else None
