"""What calls cost a real Redis, and how many bytes they move.

Redis serves everybody with one thread, so what counts is for how long that thread is busy with a call: its processor
time, as `INFO cpu` tells it. Calls are made by the real client, through the real scripts, one at a time over a local
TCP socket. A Redis under load serves many connections each time it wakes up: receiving and answering cost less there.
How much less is measured with reports from fifty connections at once, packed before:

    µs under load = script + (alone - script) · (the same of reports under load / of reports alone)

What a report costs depends on what is in it:

    µs = base + a · completions + b · consumers + c · tasks that became ready elsewhere + d · workers to start

by least squares over reports of different makes. What a join costs depends on how many tasks are done (their bitmap is
its answer), what a run's description costs on its size.
"""

import itertools
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import hiredis
import msgspec
import numpy as np

from augury import Client, Embedded, task
from augury.config import Resources, StorageConfig
from augury.storage.keys import RunKeys
from augury.storage.opening import open_storage
from augury.storage.protocols import (
    Claim,
    Completion,
    Consumer,
    Coordination,
    Report,
    RunSpec,
    Status,
    Stop,
    WorkerSummary,
)
from augury.storage.redis import RedisCoordination
from augury.storage.redis_client import Argument, RedisClient, load_scripts
from augury.storage.server import RedisServer

CALLERS = 50
BATCHES = 4
LARGE_BYTES = 16 * 1024**2
_UNREAD = 12
_INLINE = bytes(100)
_SETTLED_S = 0.3
_LOOKS = 2.5
"""An idle second of a listener: it looks, waits, and looks again; to wait is half of a look."""

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one call costs Redis.

    Attributes:
        cpu_us: All that its thread does for it, if it is alone; `script_us`: without receiving and answering.
        to_bytes: What is sent to it, and `from_bytes`: what it answers; with keys, names and the rest of the wire.
    """

    cpu_us: float
    script_us: float
    to_bytes: float = 0.0
    from_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCosts:
    """What was measured.

    Attributes:
        calls: By kind.
        parts: What is added for each part of a call: `completions`, `consumers`, …
        spec_cpu_us_per_mb: What a byte of a run's description costs that a worker fetches, times a million.
        upload_s_per_mb: How long the client takes to upload that.
        unread: What Redis keeps in memory of an answer that is on its way, as a part of its size.
        bytes_per_completion: What a small completion takes of its memory.
        most_clients: How many connections it takes.
        connections: How many a worker holds.
        under_load: What is left of the costs of receiving and answering where many calls come at once.
    """

    calls: Mapping[str, Cost]
    parts: Mapping[str, Cost]
    spec_cpu_us_per_mb: float
    upload_s_per_mb: float
    unread: float
    bytes_per_completion: float
    most_clients: int
    connections: float
    under_load: float

    def busy_us(self, amounts: Mapping[str, int]) -> float:
        """For how many microseconds the thread of Redis is busy with these calls, among many others."""
        prices = {**self.calls, **self.parts}
        return sum(self.loaded_us(cost) * amounts.get(kind, 0) for kind, cost in prices.items())

    def loaded_us(self, cost: Cost) -> float:
        """What a call costs among many others."""
        return cost.script_us + max(0.0, cost.cpu_us - cost.script_us) * self.under_load

    def wire_bytes(self, amounts: Mapping[str, int]) -> float:
        """What these calls move beside what they are about."""
        return sum((cost.to_bytes + cost.from_bytes) * amounts.get(kind, 0) for kind, cost in self.calls.items())


def measure_server(tasks: int, repeat: int = 600) -> ServerCosts:
    """Start a Redis and measure it.

    Args:
        tasks: How many tasks the runs have that its answers are about.
        repeat: How many calls of each kind.
    """
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        with RedisServer(Path(folder) / "redis", {"port": str(port), "bind": "127.0.0.1"}):
            config = StorageConfig(redis=f"redis://127.0.0.1:{port}/0")
            bench = _Bench(config, tasks, repeat)
            calls = bench.calls()
            base, parts, memory_bytes = bench.reports()
            parts["bitmap bytes"] = bench.bitmap(calls["join"])
            under_load = bench.under_load(port)
            spec_us, upload_s = bench.spec()
            most_clients = int(bench.redis.command("CONFIG", "GET", "maxclients")[1])
            unread = unread_answers(bench.redis, port)
            connections = connections_of_a_worker(bench.redis)
            bench.close()
    return ServerCosts(
        calls={"report": base, **calls},
        parts=parts,
        spec_cpu_us_per_mb=spec_us,
        upload_s_per_mb=upload_s,
        unread=unread,
        bytes_per_completion=memory_bytes,
        most_clients=most_clients,
        connections=connections,
        under_load=under_load,
    )


class _Bench:
    """Runs on a real Redis whose calls are measured."""

    def __init__(self, config: StorageConfig, tasks: int, repeat: int) -> None:
        self.redis = RedisClient(config.redis)
        self._storage = open_storage(config)
        self._tasks = tasks
        self._repeat = repeat
        self._runs = itertools.count()

    def close(self) -> None:
        self.redis.close()
        self._storage.close()

    def _run(self, claims: Sequence[str], spec_bytes: int = 0, done: int = 1) -> list[Coordination]:
        """A run as several callers see it; `done`: the number of the last task that is done."""
        run_id = f"limits{next(self._runs)}"
        callers = [self._storage.coordination(run_id) for _ in range(CALLERS)]
        spec = RunSpec(name=run_id, graph=bytes(spec_bytes), program=b"", plan=b"", concurrency=1, inline_bytes=1)
        callers[0].create(spec, [4 * self._tasks], [Claim(name, (), Resources()) for name in claims])
        callers[0].report(Report("", completions=(Completion(done),)))
        return callers

    def _cost(self, act: Callable[[int], object], payload_bytes: Callable[[int], int] = lambda _: 0) -> Cost:
        """Of many calls, the cheapest batch: the machine may be busy. Calls before that bring the script."""
        for call in range(CALLERS):
            act(call)
        batch = self._repeat // BATCHES
        firsts = range(CALLERS, CALLERS + batch * BATCHES, batch)
        costs = [self._batch_cost(act, payload_bytes, range(first, first + batch)) for first in firsts]
        return min(costs, key=lambda cost: cost.cpu_us)

    def _batch_cost(self, act: Callable[[int], object], payload_bytes: Callable[[int], int], numbers: range) -> Cost:
        before = self._told()
        for number in numbers:
            act(number)
        spent = {key: (value - before[key]) / len(numbers) for key, value in self._told().items()}
        return Cost(
            cpu_us=1e6 * spent["cpu"],
            script_us=spent["script"] or 1e6 * spent["cpu"],
            to_bytes=max(0.0, spent["to"] - sum(map(payload_bytes, numbers)) / len(numbers)),
            from_bytes=spent["from"],
        )

    def _told(self) -> dict[str, float]:
        """What Redis tells of itself."""
        return {
            "cpu": sum(_info(self.redis, "cpu", f"used_cpu_{kind}_main_thread") for kind in ("sys", "user")),
            "script": _script_us(self.redis),
            "to": _info(self.redis, "stats", "total_net_input_bytes"),
            "from": _info(self.redis, "stats", "total_net_output_bytes"),
        }

    def calls(self) -> dict[str, Cost]:
        """Of each kind but reports."""
        names = [f"w{number}" for number in range(CALLERS + self._repeat)]
        run = self._run(names)

        def on(number: int) -> Coordination:
            return run[number % CALLERS]

        summary = WorkerSummary(worker="w", attempt=1, cold=True, duration_s=100.0, memory_mb=2048, tasks=100)
        costs = {
            "join": self._cost(lambda n: on(n).join(names[n], 1)),
            "beat": self._cost(lambda n: on(n).beat(names[n], 1)),
            "progress": self._cost(lambda n: on(n).progress()),
            "suspend": self._cost(lambda n: on(n).suspend(names[n], 1, "0", 1e6)),
            "idle look": _times(_LOOKS, self._cost(lambda n: on(n).read(names[n], "0", 0.0))),
        }
        for name in names:
            run[0].post(name, [Stop(Status.RUNNING)])
        costs["read"] = self._cost(lambda n: on(n).read(names[n], "0", 1.0))
        costs["leave"] = self._cost(lambda n: on(n).leave(msgspec.structs.replace(summary, worker=names[n])))
        costs["outputs"] = self._cost(lambda n: on(n).outputs([n]))
        return costs

    def bitmap(self, join: Cost) -> Cost:
        """What each byte of the bitmap of done tasks adds to a join."""
        names = [f"w{number}" for number in range(CALLERS + self._repeat)]
        run = self._run(names, done=self._tasks - 1)
        late = self._cost(lambda n: run[n % CALLERS].join(names[n], 1))
        size_bytes = self._tasks / 8
        return Cost(
            cpu_us=max(0.0, late.cpu_us - join.cpu_us) / size_bytes,
            script_us=max(0.0, late.script_us - join.script_us) / size_bytes,
        )

    def reports(self) -> tuple[Cost, dict[str, Cost], float]:
        """What a report costs without anything in it, what its parts cost, and the memory that a completion takes."""
        makes = ((0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 0, 0), (1, 3, 0, 0), (1, 1, 1, 0), (1, 1, 1, 1), (16, 16, 0, 0))
        before_bytes = _info(self.redis, "memory", "used_memory")
        costs = []
        told = 0
        for make in makes:
            costs.append(self._report_cost(*make))
            told += make[0] * (CALLERS + self._repeat)
        memory_bytes = (_info(self.redis, "memory", "used_memory") - before_bytes) / told
        matrix = np.array([(1, *make) for make in makes], dtype=float)
        solved = {
            name: np.linalg.lstsq(matrix, np.array([getattr(cost, name) for cost in costs]), rcond=None)[0]
            for name in ("cpu_us", "script_us")
        }
        parts = {
            part: Cost(cpu_us=max(0.0, solved["cpu_us"][place]), script_us=max(0.0, solved["script_us"][place]))
            for place, part in enumerate(("completions", "consumers", "woken", "started"), 1)
        }
        base = Cost(
            cpu_us=solved["cpu_us"][0],
            script_us=solved["script_us"][0],
            to_bytes=costs[0].to_bytes,
            from_bytes=costs[0].from_bytes,
        )
        return base, parts, memory_bytes

    def _report_cost(self, completions: int, consumers: int, ready: int, started: int) -> Cost:
        """Of reports of one make."""
        run = self._run(["reporter", "there"])
        takes = consumers // max(1, completions)

        def report(number: int) -> Report:
            first = number * completions
            worker = f"v{number}" if started else "there"
            told = tuple(
                Completion(
                    task,
                    len(_INLINE),
                    _INLINE if takes else None,
                    consumers=tuple(
                        Consumer(self._tasks + takes * task + one, 1 if ready else 9, worker) for one in range(takes)
                    ),
                )
                for task in range(first, first + completions)
            )
            return Report("reporter", completions=told, ran=1)

        return self._cost(lambda n: run[n % CALLERS].report(report(n)), lambda n: len(_encode(report(n))))

    def under_load(self, port: int) -> float:
        """What is left of the costs of receiving and answering reports, if they come from many connections at once."""
        run_id, rounds = f"limits{next(self._runs)}", max(4, self._repeat // CALLERS)
        self._storage.coordination(run_id).create(
            RunSpec(name=run_id, graph=b"", program=b"", plan=b"", concurrency=1, inline_bytes=1), [0], []
        )
        packers = [Packer() for _ in range(CALLERS)]
        callers = [RedisCoordination(cast("RedisClient", packer), run_id, 3600) for packer in packers]
        for number in range(1, 2 * rounds * CALLERS):
            callers[number % CALLERS].report(Report("reporter", completions=(Completion(number),), ran=1))
        packed = [packer.packed for packer in packers]
        alone = self._sent(port, [[one[place] for one in packed] for place in range(1, rounds)], together=False)
        loaded = self._sent(port, [[one[place] for one in packed] for place in range(rounds, 2 * rounds - 1)])
        return min(1.0, (loaded.cpu_us - loaded.script_us) / (alone.cpu_us - alone.script_us))

    def _sent(self, port: int, rounds: list[list[bytes]], *, together: bool = True) -> Cost:
        """What commands cost that are sent on as many connections, all at once or one after another."""
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CALLERS)]
        before = self._told()
        for commands in rounds:
            for one, command in zip(sockets, commands, strict=True):
                one.sendall(command)
                if not together:
                    one.recv(4096)
            for one in sockets if together else ():
                one.recv(4096)
        spent = {key: value - before[key] for key, value in self._told().items()}
        for one in sockets:
            one.close()
        sent = len(rounds) * CALLERS
        return Cost(cpu_us=1e6 * spent["cpu"] / sent, script_us=spent["script"] / sent)

    def spec(self) -> tuple[float, float]:
        """What it costs Redis to give a megabyte of a run's description to a worker, and how long an upload takes."""
        uploads_s = []
        for _ in range(BATCHES):
            began_s = time.perf_counter()
            run = self._run([], LARGE_BYTES)
            uploads_s.append(time.perf_counter() - began_s)
        fetches = 20
        before_s = self._told()["cpu"]
        for number in range(fetches):
            run[number].spec()
        spent_s = self._told()["cpu"] - before_s
        megabytes = LARGE_BYTES / 1e6
        return 1e6 * spent_s / fetches / megabytes, min(uploads_s) / megabytes


def unread_answers(redis: RedisClient, port: int) -> float:
    """How much of a large answer that nobody has read yet is in the memory of Redis, as a part of its size."""
    key = RunKeys.of("unread").spec
    redis.command("SET", key, bytes(LARGE_BYTES))
    before_bytes = _info(redis, "memory", "used_memory")
    waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(_UNREAD)]
    try:
        for one in waiting:
            one.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key.encode()))
        time.sleep(_SETTLED_S)
        kept_bytes = _info(redis, "memory", "used_memory") - before_bytes
    finally:
        for one in waiting:
            one.close()
    redis.command("UNLINK", key)
    return kept_bytes / (_UNREAD * LARGE_BYTES)


class Packer:
    """In the place of a connection: keeps scripts as they would be sent, and answers that nothing came of them."""

    def __init__(self) -> None:
        self.packed: list[bytes] = []

    def script(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> list[object]:
        """Keep it."""
        command: Any = ("EVALSHA", load_scripts()[name].sha, len(keys), *keys, *arguments)
        self.packed.append(hiredis.pack_command(command))
        return [b"running", [], [], [], 1, []]


@task
def wait(duration_s: float) -> None:
    time.sleep(duration_s)


def connections_of_a_worker(redis: RedisClient, few: int = 2, many: int = 6) -> float:
    """How many connections each worker holds: how many more there are with more workers."""
    return (_connections_with(many, redis) - _connections_with(few, redis)) / (many - few)


def _connections_with(workers: int, redis: RedisClient, rounds: int = 7) -> float:
    """How many there are in a run whose workers listen, have reported, and have beaten."""
    with Client(platform=Embedded(slots=workers), redis=redis.url, observers=(), history=False) as client:
        run = client.submit([wait(1.0) for _ in range(rounds * workers)], detach=False)
        time.sleep(rounds - 0.5)
        found = _info(redis, "clients", "connected_clients")
        run.result()
    return found


def _times(factor: float, cost: Cost) -> Cost:
    return Cost(
        cpu_us=factor * cost.cpu_us,
        script_us=factor * cost.script_us,
        to_bytes=factor * cost.to_bytes,
        from_bytes=factor * cost.from_bytes,
    )


def _info(redis: RedisClient, section: str, name: str) -> float:
    lines = redis.command("INFO", section).decode().splitlines()
    return float(next(line.partition(":")[2] for line in lines if line.startswith(f"{name}:")))


def _script_us(redis: RedisClient) -> float:
    """For how long scripts have run, and the commands that nobody sends but those who look into an inbox."""
    lines = redis.command("INFO", "commandstats").decode().splitlines()
    found = dict(line.removeprefix("cmdstat_").split(":", 1) for line in lines if line.startswith("cmdstat_"))
    kinds = ("evalsha", "eval", "xread", "exists")
    return sum(float(found[kind].split("usec=")[1].split(",")[0]) for kind in kinds if kind in found)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
