"""From what was counted and measured to what a run of any size comes up against.

A quantity is known at two sizes, one ten times the other, with equally many tasks for each worker. It is taken to grow
as a power of the size:

    exponent = log(large / small) / log(10)            1: with the tasks; 2: with tasks × workers; 0: not at all
    at the target = large · (target / large size) ^ exponent

Each resource has a *utilisation*: what the run needs of it, as a part of what there is. Where something takes time
once, such as a download, that is set beside the time for which each worker has work. Above 1 the resource, not the
work, decides how long a run takes; the highest is the bottleneck. Where it was 1 follows from the exponent.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from limits.counting import Amounts, Counts, calls_in
from limits.ends import Ends
from limits.server import ServerCosts

NETWORK_BYTES_S = 10e9 / 8
INVOKE_S = 0.05
ENVIRONMENTS_S = 1000 / 10
WORKER_BYTES = 2048 * 1024**2
SPEC_BYTES = 511 * 1024**2
REDIS_BYTES = 64e9

COUNTED = "counted in virtual time × measured on a real Redis, extrapolated"
MEASURED = "measured, extrapolated"
FACTS = "counted × published facts of AWS Lambda"
NETWORK = "measured size, extrapolated × 10 Gbit/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A run that is too large to be tried.

    Attributes:
        tasks: How many; on how many `workers`; each of which takes `task_s`.
    """

    tasks: int
    workers: int
    task_s: float

    @property
    def work_s(self) -> float:
        """For how long each worker has work."""
        return self.tasks * self.task_s / self.workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A quantity at the target.

    Attributes:
        value: How much; `exponent`: how it grows with the size of the run.
    """

    value: float
    exponent: float

    def times(self, factor: float, exponent: float = 0.0) -> "Grown":
        """Multiplied by what grows, too."""
        return Grown(value=self.value * factor, exponent=self.exponent + exponent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What a run needs of one thing.

    Attributes:
        utilisation: What is needed, as a part of what there is; `exponent`: how that grows.
        full_at: With how many tasks it would be 1.
        basis: Where the numbers come from.
    """

    name: str
    needed: str
    capacity: str
    utilisation: float
    exponent: float
    full_at: float
    basis: str


def grown(small: float, large: float, sizes: tuple[int, int], tasks: int) -> Grown:
    """What two sizes say of a third one."""
    if small <= 0 or large <= 0:
        return Grown(value=large, exponent=0.0)
    exponent = math.log(large / small) / math.log(sizes[1] / sizes[0])
    return Grown(value=large * (tasks / sizes[1]) ** exponent, exponent=exponent)


def resources(counts: Sequence[Counts], ends: Sequence[Ends], costs: ServerCosts, target: Target) -> list[Resource]:
    """What a run of the target's size needs, the scarcest first.

    Args:
        counts: Of the case at two sizes, the smaller one first; likewise `ends`.
        ends: Of its shape.
        costs: Of Redis.
        target: The size.
    """
    found = [
        *_of_redis(counts, costs, target),
        *_of_spec(ends, costs, target),
        *_of_ends(ends, costs, target),
        *_of_platform(counts, costs, target),
    ]
    placed = [replace(one, full_at=one.full_at * target.tasks) for one in found]
    return sorted(placed, key=lambda resource: -resource.utilisation)


def _of_redis(counts: Sequence[Counts], costs: ServerCosts, target: Target) -> list[Resource]:
    busy = _between(counts, target, lambda one: max(costs.busy_us(amounts) for amounts in _without_spec(one)) / 1e6)
    needed = _between(
        counts, target, lambda one: max(costs.busy_us(told_only(amounts)) for amounts in _without_spec(one)) / 1e6
    )
    calls = _between(counts, target, lambda one: max(map(calls_in, _without_spec(one))))
    told = _between(counts, target, lambda one: max(calls_in(told_only(amounts)) for amounts in _without_spec(one)))
    moved = _between(counts, target, lambda one: max(_moved_bytes(amounts, costs) for amounts in _without_spec(one)))
    kept = _between(counts, target, lambda one: one.total["completions"]).times(costs.bytes_per_completion)
    return [
        _rate("Redis, busiest second", calls, busy, "calls/s", COUNTED),
        _rate("… without empty reports", told, needed, "calls/s", COUNTED),
        _part("network of Redis, busiest s", moved, NETWORK_BYTES_S, lambda one: f"{one / 1e6:,.0f} MB/s", COUNTED),
        _part("Redis memory, state", kept, REDIS_BYTES, _gigabytes, COUNTED + "; 64 GB are assumed"),
    ]


def _of_spec(ends: Sequence[Ends], costs: ServerCosts, target: Target) -> list[Resource]:
    spec = _between(ends, target, lambda one: one.spec_bytes)
    fetched = spec.times(target.workers, 1.0)
    sent_s = fetched.times(costs.spec_cpu_us_per_mb / 1e12)
    waiting = fetched.times(costs.unread)
    return [
        _part("spec: download by all", fetched.times(1 / NETWORK_BYTES_S), target.work_s, _seconds, NETWORK),
        _part("spec: Redis sends it", sent_s, target.work_s, _seconds, MEASURED),
        _part("spec: answers under way", waiting, REDIS_BYTES, _gigabytes, MEASURED + "; 64 GB are assumed"),
        _part("spec: size", spec, SPEC_BYTES, lambda one: f"{one / 1e6:,.0f} MB", MEASURED),
    ]


def _of_ends(ends: Sequence[Ends], costs: ServerCosts, target: Target) -> list[Resource]:
    client_s = _between(ends, target, lambda one: one.client_s + one.spec_bytes / 1e6 * costs.upload_s_per_mb)
    return [
        _part("client: define to upload", client_s, target.work_s, _seconds, MEASURED),
        _part(
            "worker: decode the spec",
            _between(ends, target, lambda one: one.decode_s),
            target.work_s,
            _seconds,
            MEASURED,
        ),
        _part(
            "worker: memory of the spec",
            _between(ends, target, lambda one: one.decode_bytes),
            WORKER_BYTES,
            lambda one: f"{one / 1024**2:,.0f} MB",
            MEASURED,
        ),
    ]


def _of_platform(counts: Sequence[Counts], costs: ServerCosts, target: Target) -> list[Resource]:
    invoked = _between(counts, target, lambda one: one.by_client)
    started = _between(counts, target, lambda one: one.invocations)
    connections = started.times(costs.connections)
    return [
        _part("client: invokes one by one", invoked.times(INVOKE_S), target.work_s, _seconds, FACTS),
        _part("platform: environments", started.times(1 / ENVIRONMENTS_S), target.work_s, _seconds, FACTS),
        _part(
            "Redis connections",
            connections,
            costs.most_clients,
            lambda one: f"{one:,.0f}",
            "measured, with Redis' default of maxclients",
        ),
    ]


def _between(pair: Sequence[Counts] | Sequence[Ends], target: Target, quantity: Callable[..., float]) -> Grown:
    small, large = pair
    return grown(quantity(small), quantity(large), (small.tasks, large.tasks), target.tasks)


def _without_spec(counts: Counts) -> list[Amounts]:
    """What each second asked for; the run's description is a resource of its own."""
    return [Amounts({kind: n for kind, n in one.items() if kind != "spec"}) for one in counts.seconds.values()]


def told_only(amounts: Mapping[str, int]) -> Amounts:
    """What is left if nobody reports that there is nothing to report."""
    left = Amounts(amounts)
    left["report"] -= left.pop("empty reports", 0)
    return left


def _moved_bytes(amounts: Mapping[str, int], costs: ServerCosts) -> float:
    return amounts.get("bytes to", 0) + amounts.get("bytes from", 0) + costs.wire_bytes(amounts)


def _rate(name: str, calls: Grown, busy: Grown, unit: str, basis: str) -> Resource:
    capacity = calls.value / busy.value
    return _resource(name, f"{calls.value:,.0f} {unit}", f"{capacity:,.0f} {unit}", busy, basis)


def _part(name: str, needed: Grown, capacity: float, show: Callable[[float], str], basis: str) -> Resource:
    return _resource(name, show(needed.value), show(capacity), needed.times(1 / capacity), basis)


def _resource(name: str, needed: str, capacity: str, used: Grown, basis: str) -> Resource:
    return Resource(
        name=name,
        needed=needed,
        capacity=capacity,
        utilisation=used.value,
        exponent=used.exponent,
        full_at=used.value ** (-1 / used.exponent) if used.exponent > 0 and used.value > 0 else math.inf,
        basis=basis,
    )


def _seconds(value: float) -> str:
    return f"{value:,.1f} s"


def _gigabytes(value: float) -> str:
    return f"{value / 1e9:,.1f} GB"
