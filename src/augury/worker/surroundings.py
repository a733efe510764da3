"""What tasks may change of the process that they run in, and putting it back before another invocation begins.

A process that is kept warm runs tasks of one run after another. What one of them sets for the whole process, and
does not set back, would change what the others come to: `signal(SIGCHLD, SIG_IGN)` makes every subprocess succeed. So
what belongs to the system is as the first invocation found it, whenever another one begins. It is compared first: to
look at all of it takes 25 µs, without the enums of `signal`, and there is rarely anything to do.

What modules set when they are imported is theirs, and has to stay: a module that stays imported never sets it again.
Of what belongs to the system, that which changes while functions are loaded is therefore taken as found; unless the
function of a task runs meanwhile, on another task slot, since nobody can tell whose change it is then. What belongs
to the interpreter (the precision of decimals, the recursion limit, …) is set by modules more often than by tasks, and
also by modules that tasks import: it is left alone, like all else that is in modules.
"""

import _signal  # type: ignore[import-not-found]  # no stub
import logging
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

_log = logging.getLogger(__name__)

_ENVIRONMENT: Final = os.environ
_STATUS_BYTES: Final = 256
"""So many bytes from the start on the system tells the umask."""
_REALTIME: Final = 32
"""The first of the signals that nothing means anything by."""


class Surroundings:
    """The surroundings of tasks as they are when this is made: in a process in which none has run yet."""

    def __init__(self) -> None:
        self._found = [facet.read() for facet in _FACETS]

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Take what changes meanwhile as found: user code is imported. Not if the function of a task runs meanwhile."""
        load = _Load()
        before = [facet.read() for facet in _FACETS]
        try:
            yield
        finally:
            after = [facet.read() for facet in _FACETS]
            if load.end():
                for index, facet in enumerate(_FACETS):
                    if facet.is_adopted and after[index] != before[index]:
                        self._found[index] = after[index]

    def put_back(self) -> None:
        """Undo what tasks did to them, as far as the system lets us; none runs."""
        _calls.clear()
        for facet, found in zip(_FACETS, self._found, strict=True):
            if facet.read() != found:
                try:
                    facet.write(found)
                except (OSError, ValueError) as error:
                    _log.warning("a task has changed the %s, and that cannot be undone: %s", facet.name, error)


def reseed() -> None:
    """Give what comes now random numbers of its own, whatever was seeded before, in this process or its parent."""
    random.seed(int.from_bytes(os.urandom(16), "big"))
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(int.from_bytes(os.urandom(4), "big"))


_calls: set[int] = set()
"""Threads that call the function of a task."""
_loads: "list[_Load]" = []
"""Functions that are being loaded."""


class _Load:
    """A function is being loaded from now on."""

    def __init__(self) -> None:
        self.is_alone = True
        _loads.append(self)
        if _calls:  # in this order: who begins a call looks the other way round
            self.is_alone = False

    def end(self) -> bool:
        """Whether no function of a task ran meanwhile."""
        _loads.remove(self)
        return self.is_alone


class _Calling:
    """While it is entered, this thread calls the function of a task."""

    def __enter__(self) -> None:
        _calls.add(threading.get_ident())
        if _loads:
            for load in tuple(_loads):
                load.is_alone = False

    def __exit__(self, *_: object) -> None:
        _calls.discard(threading.get_ident())


calling: Final = _Calling()


class _Facet(NamedTuple):
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    is_adopted: bool = True
    """Whether modules may set it for good."""


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # removed under the user's feet
        return "/"


def _environment() -> Mapping[bytes, bytes] | None:
    """As it is kept: to decode and encode each variable would take longer than to look at all the rest.

    None if there is something else under its name, which is never as found.
    """
    return dict(_ENVIRONMENT._data) if os.environ is _ENVIRONMENT else None  # type: ignore[attr-defined]  # noqa: SLF001


def _set_environment(found: Mapping[bytes, bytes]) -> None:
    os.environ = _ENVIRONMENT  # noqa: B003 - it is the one that was there before
    os.environb.clear()
    os.environb.update(found)
    time.tzset()


def _umask() -> int:
    try:
        status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            said = os.read(status, _STATUS_BYTES)
        finally:
            os.close(status)
        return int(said.partition(b"\nUmask:")[2].split(maxsplit=1)[0], 8)
    except (OSError, ValueError, IndexError):
        pass
    mask = os.umask(0o077)  # where nobody tells, to ask is to set; other threads may write files meanwhile
    os.umask(mask)
    return mask


def _set_handler(number: int, found: Any) -> None:
    if found is not None:  # else a library's own, of which Python knows nothing
        signal.signal(number, found)


def _set_timer(timer: int, found: tuple[float, float]) -> None:
    signal.setitimer(timer, *found)


def _signal_facets() -> list[_Facet]:
    # The first two cannot be caught, and the third is the runner's.
    others = {signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR1}
    return [
        _Facet(
            f"handler of {number!r}",
            partial(_signal.getsignal, number),
            partial(_set_handler, number),
            is_adopted=number != signal.SIGALRM,  # while tasks run, it is the runner's, with its timer
        )
        for number in sorted(signal.valid_signals() - others)
        if number < _REALTIME
    ]


def _timer_facets() -> list[_Facet]:
    return [
        _Facet(
            name,
            partial(signal.getitimer, timer),
            partial(_set_timer, timer),
            is_adopted=timer != signal.ITIMER_REAL,
        )
        for name, timer in vars(signal).items()
        if name.startswith("ITIMER_")
    ]


def _limit_facets() -> list[_Facet]:
    limits = {number: name for name, number in vars(resource).items() if name.startswith("RLIMIT_")}
    return [
        _Facet(name, partial(resource.getrlimit, limit), partial(resource.setrlimit, limit))
        for limit, name in limits.items()
    ]


def _processor_facets() -> list[_Facet]:
    facets = [_Facet("priority", partial(os.getpriority, _PROCESS, 0), partial(os.setpriority, _PROCESS, 0))]
    if sys.platform == "linux":
        facets.append(_Facet("processors", partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0)))
    return facets


_PROCESS: Final = os.PRIO_PROCESS
_FACETS: Final = (
    _Facet("working folder", _folder, os.chdir),
    _Facet("environment", _environment, _set_environment),
    _Facet("umask", _umask, os.umask),
    *_signal_facets(),
    _Facet(
        "signals that are blocked",
        lambda: _signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        partial(signal.pthread_sigmask, signal.SIG_SETMASK),
    ),
    *_timer_facets(),
    *_limit_facets(),
    *_processor_facets(),
)
