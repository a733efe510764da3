"""What the supervisor tells runs, and asks of them: in a thread of its own, since storage may take its time.

What that takes is imported only when it is needed: storage and its client take longer to load than the supervisor
needs to start.
"""

import asyncio
import importlib
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from augury.config import StorageConfig
from augury.invoke.gateway import Invocation, Loss, LossKind

logger = logging.getLogger(__name__)

VOUCH_S: Final = 0.5
"""How often it is said of workers with long tasks that they live, if they compute."""
_SWEEP_S: Final = 600.0
"""How often objects of runs that are gone are looked for."""
_LOOK_S: Final = 1.0
"""How often a platform without a client looks whether its runs are over."""


class Messenger:
    """The supervisor's way to the runs; lives on the event loop that is running when it is made.

    Args:
        storage: Where the runs are.
        on_loss: The name of the function that puts a loss into words for the client.
        invoke: Takes what is to be started for workers that were lost.

    Attributes:
        lost: How many losses were told.
    """

    def __init__(self, storage: StorageConfig, on_loss: str, invoke: Callable[[Sequence[Invocation]], None]) -> None:
        self.lost = 0
        self._storage = storage
        self._on_loss = on_loss
        self._invoke = invoke
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="losses")
        self._untold: list[Loss] = []
        self._kept: Any = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._vouched_s = 0.0
        self._vouching: Future[list[Invocation]] = Future()
        self._vouching.set_result([])

    def tell(self, loss: Loss) -> None:
        """Have the run told of a loss; losses of the same moment go together."""
        if loss.kind is not LossKind.STOPPED:
            self.lost += 1
            logger.error("%s of run %s %s", loss.invocation.worker, loss.invocation.run_id, loss.reason)
        if not self._untold:
            self._loop.call_soon(self._tell_all)
        self._untold.append(loss)

    def vouch(self, computing: Sequence[Invocation], now_s: float) -> None:
        """Say of workers with long tasks that they live: a call that holds the interpreter keeps them from it."""
        if now_s - self._vouched_s >= VOUCH_S and self._vouching.done():
            self._vouched_s = now_s
            self._vouching = self._thread.submit(self._vouch_for, computing)
            self._vouching.add_done_callback(self._start_again)

    async def status_of(self, run_id: str) -> str:
        """Where a run stands, as the workers here see it."""
        status: str = await self._loop.run_in_executor(self._thread, _losses().status_of, run_id, self._storage)
        return status

    async def cancel(self, run_ids: Collection[str], most_s: float) -> None:
        """End runs whose client is gone; not if storage is away for longer than that."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cancel")  # the other one may have much to tell
        cancelling = self._loop.run_in_executor(thread, _lingering().cancel, run_ids, self._storage)
        await asyncio.wait([cancelling], timeout=most_s)
        thread.shutdown(wait=False)

    async def linger(self, detached: Mapping[str, Invocation], linger_s: float, most_s: float) -> None:
        """Stay for as long as detached runs need, and then for as long as their results are kept.

        Args:
            detached: For each of them some invocation, which others are like.
            linger_s: How long results are kept.
            most_s: How long it stays at most.
        """
        await self._loop.run_in_executor(self._thread, _lingering().part, list(detached), self._storage)
        stay = _lingering().Stay(self._loop.time(), linger_s=linger_s, most_s=most_s)
        while True:
            statuses = await self._loop.run_in_executor(self._thread, self._look_at, detached)
            if not stay.goes_on(statuses, self._loop.time()):
                return
            going_on = [detached[run_id] for run_id, status in (statuses or {}).items() if status == "running"]
            self._thread.submit(self._look_after, going_on).add_done_callback(self._start_again)
            await asyncio.sleep(_LOOK_S)

    def sweep_now_and_then(self) -> None:
        """From now on, remove the objects of runs that are gone."""
        self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)

    def close(self) -> None:
        """Tell nobody anything any more; does not wait for what is under way."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _tell_all(self) -> None:
        losses, self._untold = self._untold, []
        told = self._thread.submit(_report, losses, self._storage, self._on_loss)
        told.add_done_callback(self._start_again)

    def _start_again(self, told: "Future[list[Invocation]]") -> None:
        """The runs know of their losses: start what stands for them. Not on the event loop."""
        if not told.cancelled() and told.result():
            with suppress(RuntimeError):  # the loop is closed, and the platform with it
                self._loop.call_soon_threadsafe(self._invoke, told.result())

    def _caretaker(self) -> Any:
        """What looks after runs; made when it is first needed, and used in the messenger's thread alone."""
        if self._kept is None:
            self._kept = _losses().Caretaker(self._storage, self._on_loss)
        return self._kept

    def _vouch_for(self, computing: Sequence[Invocation]) -> list[Invocation]:
        try:
            start: list[Invocation] = self._caretaker().vouch(computing)
        except Exception:
            logger.exception("nobody was told that %d workers live", len(computing))
            return []
        return start

    def _look_at(self, detached: Mapping[str, Invocation]) -> Mapping[str, str] | None:
        """Where runs stand; None if storage does not say."""
        try:
            statuses: Mapping[str, str] = _lingering().statuses_of(detached, self._storage)
        except Exception:
            logger.exception("the runs that go on cannot be looked at")
            return None
        return statuses

    def _look_after(self, known: Sequence[Invocation]) -> list[Invocation]:
        """Nobody else beats for runs whose client is gone and whose workers are all silent."""
        try:
            start: list[Invocation] = self._caretaker().look_after(known)
        except Exception:
            logger.exception("nobody looks after %d runs", len(known))
            return []
        return start

    def _sweep(self) -> None:
        self._thread.submit(_swept, self._storage)
        self.sweep_now_and_then()


def _losses() -> ModuleType:
    return importlib.import_module("augury.invoke.embedded.losses")


def _lingering() -> ModuleType:
    return importlib.import_module("augury.invoke.embedded.lingering")


def _swept(storage: StorageConfig) -> None:
    leftovers = importlib.import_module("augury.invoke.embedded.leftovers")
    for run_id in leftovers.sweep_objects(Path(storage.object_dir), storage, time.time()):
        logger.info("removed what run %s had left", run_id)


def _report(losses: list[Loss], storage: StorageConfig, on_loss: str) -> list[Invocation]:
    try:
        start: list[Invocation] = _losses().report(losses, storage, on_loss)
    except Exception:
        logger.exception("%d losses could not be reported", len(losses))
        return []
    return start
