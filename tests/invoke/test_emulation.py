"""The arithmetic of an imitated cloud, with clocks that nobody waits for."""

import math
from random import Random
from statistics import median

import pytest

from augury.config import Resources, StorageConfig
from augury.errors import DefinitionError
from augury.invoke.embedded.emulation import (
    Constant,
    EmulatedCoordination,
    EmulatedObjects,
    EmulatedStorage,
    Emulation,
    LogNormal,
)
from augury.invoke.embedded.room import worker_storage
from augury.invoke.gateway import InvocationContext
from augury.serde import Blob
from augury.storage.memory import MemoryStorage
from augury.storage.protocols import Completion, Report, RunSpec, Status

CLOUD = Emulation(storage_latency_s=0.01, bandwidth_mb_s_per_gb=100, bandwidth_cap_mb_s=150)


def test_a_constant_start_is_constant() -> None:
    assert Constant(0.2).sample_s(Random(1)) == 0.2


def test_half_of_the_samples_lie_below_the_median_and_one_in_a_hundred_above_p99() -> None:
    rng = Random(7)
    samples = sorted(LogNormal(median_s=0.15, p99_s=0.4).sample_s(rng) for _ in range(20_000))
    assert median(samples) == pytest.approx(0.15, rel=0.02)
    assert samples[int(0.99 * len(samples))] == pytest.approx(0.4, rel=0.05)


def test_the_same_seed_gives_the_same_starts() -> None:
    emulation = Emulation(cold_start=LogNormal(0.1, 0.3), warm_start=Constant(0.01))

    def starts(seed: int) -> list[float]:
        rng = Random(seed)
        return [emulation.start_delay_s(cold, rng) for cold in (True, False, True)]

    assert starts(1) == starts(1) != starts(2)
    assert starts(1)[1] == 0.01


@pytest.mark.parametrize(("memory_mb", "expected"), [(512, 50.0), (1024, 100.0), (1536, 150.0), (10_240, 150.0)])
def test_bandwidth_grows_with_memory_up_to_a_cap(memory_mb: int, expected: float) -> None:
    assert CLOUD.bandwidth_mb_s(memory_mb) == expected


def test_without_limits_bandwidth_is_infinite_and_transfers_take_no_time() -> None:
    assert Emulation().bandwidth_mb_s(512) == math.inf
    assert Emulation().transfer_delay_s(10**9, 512) == 0.0


def test_a_cap_alone_limits_every_size() -> None:
    assert Emulation(bandwidth_cap_mb_s=75).bandwidth_mb_s(128) == 75


def test_a_transfer_takes_a_latency_and_its_bytes() -> None:
    assert CLOUD.transfer_delay_s(size_bytes=5_000_000, memory_mb=512) == pytest.approx(0.01 + 0.1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(-1),
        lambda: Constant(math.inf),
        lambda: LogNormal(0, 1),
        lambda: LogNormal(2, 1),
        lambda: Emulation(storage_latency_s=-1),
        lambda: Emulation(bandwidth_cap_mb_s=math.nan),
    ],
)
def test_senseless_settings_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(DefinitionError):
        make()


def test_objects_take_their_time_both_ways_and_arrive_unchanged() -> None:
    slept: list[float] = []
    objects = EmulatedObjects(MemoryStorage().objects("run"), CLOUD, 1024, slept.append)
    objects.create()
    objects.put("o1", Blob([b"x" * 1_000_000]))
    objects.put("o2", Blob([b"y" * 2_000_000]))
    found = objects.get(["o1", "o2", "o3"])
    objects.delete(["o1"])
    assert {key: len(value) for key, value in found.items()} == {"o1": 1_000_000, "o2": 2_000_000}
    assert slept == pytest.approx([0.01, 0.01 + 0.01, 0.01 + 0.02, 0.01 + 0.03, 0.01])


def test_each_call_of_the_coordination_takes_a_latency() -> None:
    slept: list[float] = []
    run = EmulatedCoordination(MemoryStorage().coordination("run"), CLOUD, 1024, slept.append)
    spec = RunSpec(name="n", graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=0)
    run.create(spec, [0], [])
    assert run.spec() == spec
    run.join("w", 1)
    run.progress()
    run.read("w", "0", 0.0)
    run.post("w", [])
    run.suspend("w", 1, "0", 0.0)
    assert run.status() is Status.RUNNING
    assert run.objects_stored() == []
    assert run.fail(Status.CANCELLED, b"")
    run.prune()
    run.remove()
    assert slept == pytest.approx([0.01] * 12)


def test_small_outputs_in_reports_take_their_time_too() -> None:
    slept: list[float] = []
    run = EmulatedCoordination(MemoryStorage().coordination("run"), CLOUD, 1024, slept.append)
    run.create(RunSpec(name="n", graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=0), [0], [])
    output = b"x" * 100_000
    run.report(Report("w", completions=(Completion(0, len(output), output, sink=True),)))
    assert run.outputs([0])[0].inline == output
    assert slept == pytest.approx([0.01, 0.01 + 0.001, 0.01 + 0.001])


def test_no_delay_is_no_sleep() -> None:
    slept: list[float] = []
    storage = EmulatedStorage(MemoryStorage(), Emulation(), Resources(), slept.append)
    storage.coordination("run").status()
    storage.objects("run").get([])
    assert slept == []


def test_a_worker_reaches_its_storage_as_its_context_says() -> None:
    storage = MemoryStorage()
    context = InvocationContext(
        cold=True, received_s=0.0, granted_s=0.0, storage=StorageConfig(redis="unix:///x"), gateway_url="", token="t"
    )
    assert worker_storage(storage, context, Resources()) is storage
    emulated = InvocationContext(
        cold=True,
        received_s=0.0,
        granted_s=0.0,
        storage=context.storage,
        gateway_url="",
        token="t",
        emulation=Emulation(),
    )
    assert isinstance(worker_storage(storage, emulated, Resources()), EmulatedStorage)
    assert "'t'" not in repr(context)
