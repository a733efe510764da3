"""Slots are finite, queues are fair, and environments are cold or warm."""

import math
from typing import Any

from augury.config import Resources
from augury.plan.model import PlatformModel, Timing
from augury.storage.protocols import Claim
from augury.testing.clock import VirtualClock
from augury.testing.gateway import Startup, VirtualGateway
from augury.testing.spans import PrewarmSpan


class Platform:
    """A gateway whose invocations end after a while."""

    def __init__(
        self, slots: int, *, work_s: float = 10.0, cold_s: float = 0.0, crowd_s: float = 0.0, **model: Any
    ) -> None:
        self.clock = VirtualClock()
        self.work_s = work_s
        self.started: list[tuple[str, float, bool]] = []
        timing = Timing(cold_start_s=cold_s, warm_start_s=0.5 if cold_s else 0.0, crowd_s=crowd_s)
        self.gateway = VirtualGateway(self.clock, PlatformModel(timing=timing, concurrency=slots, **model), self.start)

    def start(self, claim: Claim, startup: Startup) -> None:
        self.gateway.joined()
        self.started.append((claim.worker, self.clock(), startup.cold))
        self.clock.after(self.work_s, lambda: self.gateway.release(claim.resources))

    def invoke_at(self, at_s: float, *workers: str, resources: Resources | None = None) -> None:
        claims = [Claim(worker, (), resources or Resources()) for worker in workers]
        self.clock.after(at_s, lambda: self.gateway.invoke(claims))

    def prewarm_at(self, at_s: float, count: int) -> None:
        self.clock.after(at_s, lambda: self.gateway.prewarm(Resources(), count))


def test_what_finds_no_slot_waits_in_line() -> None:
    platform = Platform(slots=2)
    platform.invoke_at(0.0, "a", "b", "c", "d")
    platform.invoke_at(1.0, "e")
    platform.clock.run()
    assert [(worker, at_s) for worker, at_s, _ in platform.started] == [
        ("a", 0.0),
        ("b", 0.0),
        ("c", 10.0),
        ("d", 10.0),
        ("e", 20.0),
    ]
    assert platform.gateway.max_concurrent == 2


def test_the_queue_can_be_looked_at() -> None:
    platform = Platform(slots=1)
    platform.gateway.invoke([Claim(name, (), Resources()) for name in "abc"])
    assert platform.gateway.queued == ["b", "c"]


def test_a_used_environment_starts_warm() -> None:
    platform = Platform(slots=1, cold_s=3.0)
    platform.invoke_at(0.0, "a", "b")
    platform.clock.run()
    assert platform.started == [("a", 3.0, True), ("b", 13.5, False)]
    assert platform.gateway.cold_starts == 1


def test_an_environment_with_other_resources_is_of_no_use() -> None:
    platform = Platform(slots=1)
    platform.invoke_at(0.0, "a")
    platform.invoke_at(20.0, "b", resources=Resources(memory_mb=2 * Resources().memory_mb))
    platform.clock.run()
    assert [cold for _, _, cold in platform.started] == [True, True]


def test_environments_grow_cold() -> None:
    platform = Platform(slots=1, keep_alive_s=60.0)
    platform.invoke_at(0.0, "a")
    platform.invoke_at(70.0, "b")  # a ended at 10: still warm
    platform.invoke_at(141.0, "c")  # b ended at 80: too late
    platform.clock.run()
    assert [cold for _, _, cold in platform.started] == [True, False, True]


def test_configurations_start_at_their_own_pace() -> None:
    large = Resources(memory_mb=2 * Resources().memory_mb)
    platform = Platform(slots=2, cold_s=3.0, timings={large: Timing(cold_start_s=1.0)})
    platform.invoke_at(0.0, "a")
    platform.invoke_at(0.0, "b", resources=large)
    platform.clock.run()
    assert platform.started == [("b", 1.0, True), ("a", 3.0, True)]


def test_environments_may_be_warm_before_anything_ran() -> None:
    platform = Platform(slots=3, cold_s=3.0, warm={Resources(): 2})
    platform.invoke_at(0.0, "a", "b", "c")
    platform.clock.run()
    assert platform.started == [("a", 0.5, False), ("b", 0.5, False), ("c", 3.0, True)]


def test_all_that_are_needed_may_be_warm() -> None:
    platform = Platform(slots=3, cold_s=3.0, warm={Resources(): math.inf})
    platform.invoke_at(0.0, "a", "b", "c")
    platform.prewarm_at(0.0, 5)
    platform.clock.run()
    assert [cold for _, _, cold in platform.started] == [False, False, False]
    assert platform.gateway.prewarms == []


def test_starts_that_crowd_each_other_take_longer() -> None:
    platform = Platform(slots=9, cold_s=3.0, crowd_s=0.1)
    platform.invoke_at(0.0, "a", "b", "c")
    platform.invoke_at(3.05, "d")  # a is up; b and c are not
    platform.clock.run()
    assert [(worker, round(at_s, 9)) for worker, at_s, _ in platform.started] == [
        ("a", 3.0),
        ("b", 3.1),
        ("c", 3.2),
        ("d", 6.25),
    ]


class TestPrewarming:
    def test_a_prewarmed_environment_starts_the_next_worker_warm(self) -> None:
        platform = Platform(slots=1, cold_s=3.0)
        platform.prewarm_at(0.0, 1)
        platform.invoke_at(5.0, "a")
        platform.clock.run()
        assert platform.started == [("a", 5.5, False)]
        assert platform.gateway.cold_starts == 0
        assert platform.gateway.prewarms == [PrewarmSpan(resources=Resources(), start_s=0.0, end_s=3.0)]

    def test_a_worker_does_not_wait_for_one_that_is_being_made(self) -> None:
        platform = Platform(slots=2, cold_s=3.0)
        platform.prewarm_at(0.0, 1)
        platform.invoke_at(1.0, "a")
        platform.clock.run()
        assert platform.started == [("a", 4.0, True)]

    def test_it_takes_a_slot_meanwhile(self) -> None:
        platform = Platform(slots=1, cold_s=3.0)
        platform.prewarm_at(0.0, 1)
        platform.invoke_at(1.0, "a")
        platform.clock.run()
        assert platform.started == [("a", 3.5, False)]
        assert platform.gateway.max_concurrent == 1

    def test_without_a_free_slot_nothing_is_made(self) -> None:
        platform = Platform(slots=2, cold_s=3.0)
        platform.invoke_at(0.0, "a")
        platform.prewarm_at(1.0, 2)
        platform.prewarm_at(2.0, 1)
        platform.clock.run()
        assert [span.start_s for span in platform.gateway.prewarms] == [1.0]

    def test_what_is_warm_and_free_is_not_made_again(self) -> None:
        platform = Platform(slots=9, cold_s=3.0, keep_alive_s=60.0, warm={Resources(): 1})
        platform.prewarm_at(1.0, 3)
        platform.prewarm_at(60.5, 3)  # the first has grown cold
        platform.clock.run()
        assert [span.start_s for span in platform.gateway.prewarms] == [1.0, 1.0, 60.5]

    def test_it_crowds_other_starts(self) -> None:
        platform = Platform(slots=9, cold_s=3.0, crowd_s=0.1)
        platform.prewarm_at(0.0, 2)
        platform.invoke_at(1.0, "a")
        platform.clock.run()
        assert [(worker, round(at_s, 9)) for worker, at_s, _ in platform.started] == [("a", 4.2)]
        assert [round(span.end_s, 9) for span in platform.gateway.prewarms] == [3.0, 3.1]
