"""A large array from one worker to another: how fast, beside what the machine can do.

On one host: a task makes 1 GiB of numbers and another one, which an explicit plan puts on another worker, takes them.
The time is from right before the first task returns to the first line of the second, by the clock of the machine,
which both see. So it has everything in it that a user waits for: keeping the array, telling the other worker, and
giving it the array. That one may be mapped, and then costs something when it is read: a further figure adds what
reading all of it takes longer than reading an array of one's own. Beside it, in the same minute, memcpy: one thread
copies as much into memory that was used before, which is what the bar is relative to, and into memory that is new, for
which the system has to find pages.

Through Redis, for platforms whose workers share no memory: a value of 256 MiB is put and got by Augury's storage, and
by redis-py with SET and GET, over the same kind of socket to the same server. Augury's side has everything in it that
a worker does: turning the array into bytes, signing them, sending, receiving, checking the signature, and making an
array of them; redis-py has bytes, and gives bytes. Another figure leaves signing and checking out.

What arrives is checked. All of it takes turns; ratios of medians count. A repetition takes ten seconds.
"""

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from augury import Client, Embedded, Resources, serde, task
from augury.config import StorageConfig
from augury.dag.graph import build_workflow
from augury.plan.plan import Assignment, Plan
from augury.storage.opening import open_storage
from augury.storage.protocols import Objects
from augury.storage.server import RedisServer
from augury.trust.seal import Keyring, Seal
from speed.figures import Figure
from speed.measuring import Effort, check, main, ratio, rotated, say, timed

Numbers = NDArray[np.float64]

HOST_NUMBERS = 2**27
REDIS_NUMBERS = 2**25
NUMBER_BYTES = 8
WORKER = Resources(memory_mb=4096)
HOST_BAR = 0.5
REDIS_BAR = 0.8
KEY = "o0"

Times = dict[str, list[float]]


def measure(effort: Effort) -> Iterator[Figure]:
    """On one host, then through Redis."""
    yield from on_host(effort.size(HOST_NUMBERS, 2**17), effort.repeat)
    yield from through_redis(effort.size(REDIS_NUMBERS, 2**17), effort.repeat)


def keep(times: Times, found: dict[str, float], repetition: int, repeat: int) -> None:
    """Note the seconds of a repetition; the first one warms up, and is only told."""
    if repetition:
        for name, elapsed_s in found.items():
            times[name].append(elapsed_s)
    say(f"{repetition}/{repeat}  " + ", ".join(f"{name} {elapsed_s:.3f} s" for name, elapsed_s in found.items()))


# ── on one host ────────────────────────────────────────────────────────────────────────────────────────────────


@task
def produce(count: int) -> tuple[Numbers, int, float]:
    numbers = np.random.default_rng(1).random(count)
    return numbers, os.getpid(), time.monotonic()


@task
def consume(sent: tuple[Numbers, int, float]) -> dict[str, Any]:
    received_s = time.monotonic()
    numbers, producer, sent_s = sent
    read_s, found = timed(lambda: bits_of(numbers))
    own = numbers.copy()
    own_s, _ = timed(lambda: bits_of(own))
    return {
        "transfer": received_s - sent_s,
        "reading": read_s - own_s,
        "bits": found,
        "workers": len({producer, os.getpid()}),
    }


def bits_of(numbers: Numbers) -> int:
    """The sum of the bits, as whole numbers: the same in whatever order it is made."""
    return int(numbers.view(np.uint64).sum())


def on_host(count: int, repeat: int) -> Iterator[Figure]:
    expected = bits_of(np.random.default_rng(1).random(count))
    times: Times = {"transfer": [], "with reading": [], "memcpy": [], "memcpy to new memory": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        Client(platform=Embedded(slots=2), history=folder, observers=()) as client,
    ):
        for repetition in range(repeat + 1):
            found = {**memcpy_times(count), **handed_over(client, count, expected)}
            keep(times, found, repetition, repeat)
    yield from host_figures(count * NUMBER_BYTES, times)


def handed_over(client: Client, count: int, expected: int) -> dict[str, float]:
    """The seconds that an array is under way from one worker to the other."""
    workflow = consume(produce(count))
    found = client.compute(workflow, plan=apart(workflow))
    check("the sum of what arrived", found["bits"], expected)
    check("the number of workers", found["workers"], 2)
    return {"transfer": found["transfer"], "with reading": found["transfer"] + found["reading"]}


def apart(workflow: Any) -> Plan:
    """A plan with a worker for each task."""
    graph = build_workflow(workflow).graph
    assignments = tuple(Assignment(worker=worker, resources=WORKER) for worker in range(len(graph)))
    return Plan(fingerprint=graph.fingerprint, planner="by hand", assignments=assignments, graph=graph)


def memcpy_times(count: int) -> dict[str, float]:
    """The seconds that one thread needs to copy as much."""
    source = np.ones(count)
    new = np.empty(count)
    new_s, _ = timed(lambda: np.copyto(new, source))
    again_s, _ = timed(lambda: np.copyto(new, source))
    return {"memcpy": again_s, "memcpy to new memory": new_s}


def host_figures(size_bytes: int, times: Times) -> Iterator[Figure]:
    what = f"{size_of(size_bytes)} to another worker"
    copied = f"memcpy {speed_of(size_bytes, times['memcpy'])}"
    samples = {f"{name}_s": seconds for name, seconds in times.items()}
    yield Figure(
        what=f"{what}: of the speed of memcpy",
        value=ratio(times["memcpy"], times["transfer"]),
        bar=HOST_BAR,
        relation=">=",
        samples=samples,
        note=f"{speed_of(size_bytes, times['transfer'])}, {copied}",
    )
    yield Figure(
        what=f"{what}: of memcpy to new memory",
        value=ratio(times["memcpy to new memory"], times["transfer"]),
        note=f"memcpy to new memory {speed_of(size_bytes, times['memcpy to new memory'])}",
    )
    yield Figure(
        what=f"{what}, and read there: of the speed of memcpy",
        value=ratio(times["memcpy"], times["with reading"]),
        note=speed_of(size_bytes, times["with reading"]),
    )


# ── through Redis ──────────────────────────────────────────────────────────────────────────────────────────────


def through_redis(count: int, repeat: int) -> Iterator[Figure]:
    numbers = np.random.default_rng(2).random(count)
    raw = numbers.tobytes()
    seal = Keyring([secrets.token_hex(32)]).seal("bench")
    times: Times = {"augury": [], "augury, unsigned": [], "redis-py": []}
    with tempfile.TemporaryDirectory() as folder, RedisServer(folder) as server:
        storage = open_storage(StorageConfig(redis=server.address))
        objects = storage.objects("bench")
        peer = redis.Redis(unix_socket_path=str(server.socket_path))
        ways: dict[str, Callable[[], float]] = {
            "augury": lambda: by_augury(objects, numbers, seal),
            "augury, unsigned": lambda: by_augury(objects, numbers, None),
            "redis-py": lambda: by_redis_py(peer, raw),
        }
        for repetition in range(repeat + 1):
            found = {}
            for name in rotated(list(ways), repetition):
                peer.flushdb()  # at once: what is freed in the background would slow down who comes next
                objects.create()
                found[name] = ways[name]()
            keep(times, found, repetition, repeat)
        storage.close()
        peer.close()
    yield from redis_figures(len(raw), times)


def by_augury(objects: Objects, numbers: Numbers, seal: Seal | None) -> float:
    """The seconds that an array needs to storage and back, as workers send and fetch it."""
    elapsed_s, found = timed(lambda: there_and_back(objects, numbers, seal))
    check("the array from storage", np.array_equal(found, numbers), True)
    return elapsed_s


def there_and_back(objects: Objects, numbers: Numbers, seal: Seal | None) -> Any:
    blob = serde.dumps(numbers)
    objects.put(KEY, blob if seal is None else seal.sign_object(KEY, blob))
    data = objects.get([KEY])[KEY]
    if seal is not None:
        seal.check_object(KEY, data)
    return serde.loads(data)


def by_redis_py(peer: "redis.Redis", raw: bytes) -> float:
    """The seconds that as many bytes need to the same server and back."""

    def there_and_back() -> Any:
        peer.set(KEY, raw)
        return peer.get(KEY)

    elapsed_s, found = timed(there_and_back)
    check("the bytes from Redis", found == raw, True)
    return elapsed_s


def redis_figures(size_bytes: int, times: Times) -> Iterator[Figure]:
    what = f"{size_of(size_bytes)} through Redis"
    for name, label, bar in (("augury", what, REDIS_BAR), ("augury, unsigned", f"{what}, unsigned", None)):
        yield Figure(
            what=f"{label}: of the speed of redis-py",
            value=ratio(times["redis-py"], times[name]),
            bar=bar,
            relation=">=",
            samples={f"{name}_s": times[name], "redis-py_s": times["redis-py"]},
            note=f"{speed_of(size_bytes, times[name])}, redis-py {speed_of(size_bytes, times['redis-py'])}, both ways",
        )


def size_of(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.0f} MiB"


def speed_of(size_bytes: int, seconds: list[float]) -> str:
    return f"{size_bytes / median(seconds) / 1e9:.2f} GB/s"


if __name__ == "__main__":
    sys.exit(main(measure))
