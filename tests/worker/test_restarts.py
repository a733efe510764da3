"""Starting workers again, by a gateway that works, fails, or is gone for good."""

from collections.abc import Sequence

import pytest

from augury.config import Resources
from augury.errors import GatewayError, StorageError
from augury.storage.memory import MemoryStorage
from augury.storage.protocols import Care, Claim, Coordination, RunSpec
from augury.worker.restarts import Restarts

ONE, OTHER = (Claim(name, (), Resources()) for name in ("one", "other"))
SPEC = RunSpec(name="r", graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=0, care=Care())


class Scene:
    """A run with two workers that are to be started, a gateway that may be gone, and a clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.takes_s = 0.0
        self.gone = True
        self.taken: list[str] = []
        self.ended: list[GatewayError] = []
        self.run: Coordination = MemoryStorage().coordination("r")
        self.run.create(SPEC, [0], [ONE, OTHER], [])
        self.restarts = self.carer()

    def carer(self) -> Restarts:
        return Restarts(
            self.run,
            invoke=self.invoke,
            give_up=self.ended.append,
            patience_s=30.0,
            lease_s=10.0,
            clock=lambda: self.now_s,
        )

    def invoke(self, claims: Sequence[Claim]) -> None:
        self.now_s += self.takes_s
        if self.gone:
            raise GatewayError("nobody is there")
        self.taken += [claim.worker for claim in claims]

    def start_at(self, now_s: float, *claims: Claim) -> None:
        self.now_s = now_s
        self.restarts.start(claims)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_what_fails_is_left_to_whoever_is_told_next(scene: Scene) -> None:
    scene.start_at(0.0, ONE)
    scene.start_at(29.9, ONE)
    assert scene.ended == []
    scene.gone = False
    scene.start_at(40.0, ONE)
    assert scene.taken == ["one"]


def test_a_gateway_that_is_gone_for_longer_than_patience_lasts_ends_the_run(scene: Scene) -> None:
    scene.start_at(0.0, ONE, OTHER)
    scene.start_at(30.0, OTHER)
    (error,) = scene.ended
    assert str(error) == "lost workers could not be started again for 30 s: nobody is there"


def test_the_time_that_a_start_takes_counts(scene: Scene) -> None:
    scene.takes_s = 30.0
    scene.start_at(0.0, ONE)
    assert len(scene.ended) == 1


def test_outages_that_are_far_apart_do_not_add_up(scene: Scene) -> None:
    scene.takes_s = 2.0
    for now_s in (0.0, 1800.0, 3600.0):
        scene.start_at(now_s, ONE)
    assert scene.ended == []
    scene.start_at(3630.0, ONE)
    (error,) = scene.ended
    assert str(error) == "lost workers could not be started again for 32 s: nobody is there"


def test_a_failure_goes_on_though_somebody_else_was_told_in_between(scene: Scene) -> None:
    scene.start_at(0.0, ONE)
    other = scene.carer()
    for scene.now_s in (10.0, 20.0):
        other.start([ONE])
    assert scene.ended == []
    scene.start_at(40.0, ONE)
    assert len(scene.ended) == 1


def test_after_a_success_patience_begins_anew(scene: Scene) -> None:
    scene.start_at(0.0, ONE)
    scene.gone = False
    scene.start_at(20.0, OTHER)
    scene.gone = True
    scene.start_at(40.0, ONE)
    assert scene.ended == []


def test_a_run_whose_workers_others_can_start_goes_on(scene: Scene) -> None:
    scene.start_at(0.0, ONE)
    scene.run.join("one", 1)  # somebody else was told, and has a way to the gateway
    scene.start_at(60.0, ONE)
    assert scene.ended == []


def test_each_attempt_of_a_worker_has_patience_of_its_own(scene: Scene) -> None:
    scene.start_at(0.0, ONE)
    scene.run.join("one", 1)
    (again,) = (claim for claim in scene.run.beat(lost=scene.run.live()).start if claim.worker == "one")
    scene.start_at(60.0, again)
    assert scene.ended == []
    scene.start_at(90.0, again)
    assert len(scene.ended) == 1


def test_without_storage_nobody_is_given_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise StorageError("Redis is away")

    monkeypatch.setattr(scene.run, "starting", away)
    scene.start_at(0.0, ONE)
    scene.start_at(60.0, ONE)
    assert scene.ended == []
