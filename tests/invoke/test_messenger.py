"""What the supervisor asks of runs."""

import asyncio
import threading
from collections.abc import Iterable

import pytest

from augury.config import StorageConfig
from augury.errors import StorageError
from augury.invoke.embedded import lingering
from augury.invoke.embedded import messenger as messenger_module
from augury.invoke.embedded.messenger import Messenger
from tests.invoke.stage import invocation

PATIENCE_S = 60.0
CONFIG = StorageConfig(redis="unix:///nowhere")


def linger(answers: Iterable[dict[str, str] | Exception], most_s: float, patch: pytest.MonkeyPatch) -> None:
    """Stay for one detached run, with such answers of storage, one after the other."""
    left = iter(answers)

    def statuses_of(*_: object) -> dict[str, str]:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> None:
        messenger = Messenger(CONFIG, "", lambda _: None)
        await messenger.linger({"run": invocation("w")}, 0.0, most_s)
        messenger.close()

    patch.setattr(messenger_module, "_LOOK_S", 0.0)
    patch.setattr(lingering, "part", lambda *_: None)
    patch.setattr(lingering, "statuses_of", statuses_of)
    patch.setattr(Messenger, "_look_after", lambda *_: [])
    asyncio.run(main())
    assert next(left, None) is None


def test_a_platform_stays_while_storage_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    away = StorageError("nobody is there")
    linger([away, {"run": "running"}, away, away, {"run": "gone"}], 1000.0, monkeypatch)


def test_it_does_not_wait_for_storage_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    linger([StorageError("nobody is there")], 0.0, monkeypatch)


def test_runs_are_cancelled_though_much_else_is_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told, cancelled = threading.Event(), list[object]()
    monkeypatch.setattr(messenger_module, "_swept", lambda _: told.wait(PATIENCE_S))
    monkeypatch.setattr(lingering, "cancel", lambda runs, _: cancelled.extend(runs))

    async def main() -> None:
        messenger = Messenger(CONFIG, "", lambda _: None)
        messenger._sweep()
        await messenger.cancel(["run"], PATIENCE_S)
        messenger.close()

    asyncio.run(main())
    told.set()
    assert cancelled == ["run"]


def test_nobody_waits_for_a_storage_that_is_away_to_cancel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    back, ended = threading.Event(), list[bool]()
    monkeypatch.setattr(lingering, "cancel", lambda *_: ended.append(back.wait(PATIENCE_S)))

    async def main() -> None:
        messenger = Messenger(CONFIG, "", lambda _: None)
        await messenger.cancel(["run"], 0.01)
        messenger.close()

    asyncio.run(main())
    assert ended == []
    back.set()
