"""Telling a run that one of its workers is gone, having it started again, and looking a run up.

The supervisor loads this module only when it has to: storage and its client take longer to import than the
supervisor needs to start.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from augury.config import StorageConfig
from augury.invoke.embedded.zygote import load
from augury.invoke.gateway import Invocation, Loss, LossKind
from augury.storage.opening import open_storage
from augury.storage.protocols import Cause, Claim, Coordination, Missing, Outgrown, Status, Storage, WorkerSummary

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.2

_KNOWN_RUNS: Final = 256

OpenStorage = Callable[[StorageConfig], Storage]

_Answer = TypeVar("_Answer")


def report(
    losses: list[Loss],
    config: StorageConfig,
    on_loss: str,
    open_: OpenStorage = open_storage,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Invocation]:
    """Tell the runs of their losses; blocks. What cannot be told after several attempts is logged.

    Then the lease of the lost worker runs out, or it is asked for again, as if nobody had known.

    Returns:
        What is to be started: the same workers again, and such as the lost ones may have had to start.

    Args:
        losses: What was lost.
        config: Where the runs are.
        on_loss: The name of the function that puts a loss into words for the client.
        open_: How to open the storage.
        sleep: How to wait between attempts.
    """
    describe: Callable[[Loss], bytes] = load(on_loss)
    storage = open_(config)
    try:
        return [one for loss in losses for one in _report_patiently(storage, loss, describe, sleep)]
    finally:
        storage.close()


class Caretaker:
    """Looks after runs for as long as the platform lives: one connection, and one name to call by, for all of it.

    Args:
        config: Where the runs are.
        on_loss: As in `report`.
        open_: How to open the storage.
    """

    def __init__(self, config: StorageConfig, on_loss: str, open_: OpenStorage = open_storage) -> None:
        self._storage = open_(config)
        self._describe: Callable[[Loss], bytes] = load(on_loss)
        self._runs: OrderedDict[str, Coordination] = OrderedDict()

    def vouch(self, computing: Sequence[Invocation]) -> list[Invocation]:
        """Say of workers that they live, since they may not be able to: a call into C may hold the interpreter. Blocks.

        Returns:
            What is to be started: workers of the same runs that were not heard of for too long.
        """
        return [one for invocation in computing for one in self._beat(invocation, invocation.worker)]

    def look_after(self, known: Sequence[Invocation]) -> list[Invocation]:
        """See to the workers of runs without a client, each of which is known by one of its invocations. Blocks.

        Returns:
            What is to be started.
        """
        return [one for invocation in known for one in self._beat(invocation, "")]

    def close(self) -> None:
        """Let the connection go."""
        self._storage.close()

    def _beat(self, invocation: Invocation, worker: str) -> list[Invocation]:
        run = self._run(invocation.run_id)
        beat = run.beat(worker, invocation.attempt if worker else 0)
        for one in beat.hopeless[:1]:
            gone = Invocation(invocation.run_id, one.worker, one.attempt, one.resources)
            kind = LossKind.MEMORY if one.cause is Cause.MEMORY else LossKind.CRASH
            reason = f"was lost {one.losses} times in a row, without a word"
            told = self._describe(Loss(invocation=gone, cold=False, duration_s=0.0, kind=kind, reason=reason))
            run.fail(Status.FAILED, told, one.worker, one.attempt)
        return [_again(claim, invocation) for claim in beat.start]

    def _run(self, run_id: str) -> Coordination:
        """The state of a run, always under the same name: storage remembers the last call of each."""
        if run_id not in self._runs:
            self._runs[run_id] = self._storage.coordination(run_id)
            while len(self._runs) > _KNOWN_RUNS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(run_id)
        return self._runs[run_id]


def status_of(run_id: str, config: StorageConfig, open_: OpenStorage = open_storage) -> str:
    """Where a run stands, as the workers of this platform see it; blocks."""
    storage = open_(config)
    try:
        return str(storage.coordination(run_id).status())
    finally:
        storage.close()


def _report_patiently(
    storage: Storage, loss: Loss, describe: Callable[[Loss], bytes], sleep: Callable[[float], None]
) -> list[Invocation]:
    invocation = loss.invocation

    def restart() -> tuple[Sequence[Claim], bool]:
        return _restart(storage.coordination(invocation.run_id), loss)

    def end(*, hopeless: bool) -> None:
        run = storage.coordination(invocation.run_id)
        # First the account, then the end: a client that sees the run end may stop listening.
        run.leave(_account(loss))
        if hopeless:
            run.fail(Status.FAILED, describe(loss), invocation.worker, invocation.attempt)

    what = f"run {invocation.run_id} was not told of the loss of {invocation.worker}"
    answer = _patiently(restart, what, sleep)
    if answer is None:
        return []  # who leaves has no lease any more, and nobody would miss it
    start, hopeless = answer
    _patiently(lambda: end(hopeless=hopeless), what, sleep)
    return [_again(claim, invocation) for claim in start]


def _patiently(call: Callable[[], _Answer], what: str, sleep: Callable[[float], None]) -> _Answer | None:
    """What storage answers; None, and a line in the log, if it does not after several attempts.

    Whatever else goes wrong with one loss must not take the others with it, nor what is to be started for it.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return call()
        except Exception:
            if attempt == _ATTEMPTS:
                logger.exception("%s", what)
            else:
                sleep(_PAUSE_S)
    return None


def _account(loss: Loss) -> WorkerSummary:
    return WorkerSummary(
        worker=loss.invocation.worker,
        attempt=loss.invocation.attempt,
        cold=loss.cold,
        duration_s=loss.duration_s,
        memory_mb=loss.invocation.resources.memory_mb,
        tasks=0,
        outgrown=_outgrown(loss),
    )


def _restart(run: Coordination, loss: Loss) -> tuple[Sequence[Claim], bool]:
    """The workers to start now that one is lost; and whether there is no hope for that one."""
    invocation = loss.invocation
    if loss.kind is LossKind.STOPPED:
        return (), False
    if loss.kind in (LossKind.PLATFORM, LossKind.TIMEOUT) or loss.overlong >= 0:
        return (), True  # the next one would fare no better
    cause = Cause.MEMORY if loss.kind is LossKind.MEMORY else Cause.LOST
    beat = run.beat(lost=[Missing(invocation.worker, invocation.attempt, cause)])
    return beat.start, any(one.worker == invocation.worker for one in beat.hopeless)


def _again(claim: Claim, lost: Invocation) -> Invocation:
    return msgspec.structs.replace(
        lost, worker=claim.worker, attempt=claim.attempt, resources=claim.resources, tasks=claim.tasks
    )


def _outgrown(loss: Loss) -> tuple[Outgrown, ...]:
    """The tasks that ran when there was not enough memory, for history."""
    if loss.kind is not LossKind.MEMORY:
        return ()
    return tuple(Outgrown(one.task, max(loss.used_mb, loss.had_mb), one.input_bytes) for one in loss.tasks)
