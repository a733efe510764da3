"""Slots are finite, queues are fair, and environments are cold or warm."""

from augury.config import Resources
from augury.storage.protocols import Claim
from augury.testing.clock import VirtualClock
from augury.testing.gateway import Startup, StartupTimes, VirtualGateway


class Platform:
    """A gateway whose invocations end after a while."""

    def __init__(self, slots: int, *, work_s: float = 10.0, times: StartupTimes | None = None) -> None:
        self.clock = VirtualClock()
        self.work_s = work_s
        self.started: list[tuple[str, float, bool]] = []
        self.gateway = VirtualGateway(self.clock, slots, times or StartupTimes(), self.start)

    def start(self, claim: Claim, startup: Startup) -> None:
        self.started.append((claim.worker, self.clock(), startup.cold))
        self.clock.after(self.work_s, lambda: self.gateway.release(claim.resources))

    def invoke_at(self, at_s: float, *workers: str, resources: Resources | None = None) -> None:
        claims = [Claim(worker, (), resources or Resources()) for worker in workers]
        self.clock.after(at_s, lambda: self.gateway.invoke(claims))


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
    platform = Platform(slots=1, times=StartupTimes(cold_s=3.0, warm_s=0.5))
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
    platform = Platform(slots=1, times=StartupTimes(keep_alive_s=60.0))
    platform.invoke_at(0.0, "a")
    platform.invoke_at(70.0, "b")  # a ended at 10: still warm
    platform.invoke_at(141.0, "c")  # b ended at 80: too late
    platform.clock.run()
    assert [cold for _, _, cold in platform.started] == [True, False, True]
