"""A platform that a test plays: its gateway starts nothing, and its storage is in memory."""

import threading
from collections.abc import Sequence
from typing import Any, cast

from augury import GatewayError
from augury.config import Resources
from augury.invoke.gateway import Invocation, Limits
from augury.run import Platform
from augury.storage.memory import MemoryStorage
from augury.trust import process_keyring


class Stage:
    """A gateway that notes what it is asked for, and starts nothing."""

    def __init__(self) -> None:
        self.invoked: list[Invocation] = []
        self.asked: list[tuple[str, object]] = []
        self.prewarmed = threading.Semaphore(0)
        self.refuses = False
        self.gone = False
        self.interrupted = False
        self.stopped: list[str] = []

    def invoke(self, invocations: Sequence[Invocation]) -> None:
        if self.gone:
            raise GatewayError("nobody is there")
        self.invoked += invocations
        self.asked.append(("invoke", len(invocations)))
        if self.interrupted:
            raise KeyboardInterrupt

    def prewarm(self, resources: Resources, count: int) -> None:
        self.asked.append(("prewarm", (resources, count)))
        self.prewarmed.release()
        if self.refuses:
            raise GatewayError("no such configuration")

    def limits(self) -> Limits:
        return Limits(concurrency=4)

    def stop(self, run_id: str) -> None:
        if self.gone:
            raise GatewayError("nobody is there")
        self.stopped.append(run_id)

    def close(self) -> None:
        pass


class PlayedPlatform(Platform):
    """Knows which runs it was to stay for."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.memory = MemoryStorage()
        self.kept: list[str] = []
        gateway = cast("Any", self.stage)
        super().__init__(self.memory, "memory", gateway, Limits(concurrency=4), None, "played", process_keyring())

    def keep(self, run_id: str) -> bool:
        self.kept.append(run_id)
        return True

    def release(self, run_id: str) -> None:
        if run_id in self.kept:
            self.kept.remove(run_id)

    def check_storage(self, run_id: str) -> None:
        """It has but one."""
