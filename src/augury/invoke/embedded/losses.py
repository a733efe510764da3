"""Telling a run that one of its workers is gone, and looking a run up.

The supervisor loads this module only when it has to: storage and its client take longer to import than the
supervisor needs to start.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from augury.config import StorageConfig
from augury.errors import StorageError
from augury.invoke.embedded.pool import Loss
from augury.invoke.embedded.zygote import load
from augury.invoke.gateway import Invocation
from augury.storage.opening import open_storage
from augury.storage.protocols import Status, Storage, WorkerSummary

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.2

OpenStorage = Callable[[StorageConfig], Storage]


def report(
    losses: list[Loss],
    config: StorageConfig,
    on_loss: str,
    open_: OpenStorage = open_storage,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Tell the runs of their losses; blocks. What cannot be told after several attempts is logged.

    Args:
        losses: What was lost.
        config: Where the runs are.
        on_loss: The name of the function that puts a loss into words for the client.
        open_: How to open the storage.
        sleep: How to wait between attempts.
    """
    describe: Callable[[Invocation, str], bytes] = load(on_loss)
    storage = open_(config)
    try:
        for loss in losses:
            _report_patiently(storage, loss, describe, sleep)
    finally:
        storage.close()


def status_of(run_id: str, config: StorageConfig, open_: OpenStorage = open_storage) -> str:
    """Where a run stands, as the workers of this platform see it; blocks."""
    storage = open_(config)
    try:
        return str(storage.coordination(run_id).status())
    finally:
        storage.close()


def _report_patiently(
    storage: Storage, loss: Loss, describe: Callable[[Invocation, str], bytes], sleep: Callable[[float], None]
) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _report_one(storage, loss, describe)
        except StorageError:
            if attempt == _ATTEMPTS:
                logger.exception(
                    "run %s was not told of the loss of %s", loss.invocation.run_id, loss.invocation.worker
                )
                return
            sleep(_PAUSE_S)
        else:
            return


def _report_one(storage: Storage, loss: Loss, describe: Callable[[Invocation, str], bytes]) -> None:
    invocation = loss.invocation
    run = storage.coordination(invocation.run_id)
    # First the account, then the end: a client that sees the run end may stop listening.
    run.leave(
        WorkerSummary(
            worker=invocation.worker,
            attempt=invocation.attempt,
            cold=loss.cold,
            duration_s=loss.duration_s,
            memory_mb=invocation.resources.memory_mb,
            tasks=0,
        )
    )
    if loss.reason:
        run.fail(Status.FAILED, describe(invocation, loss.reason))
