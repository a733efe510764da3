"""How many invocations a second: 10,000 of flexible workers, cold and warm, beside what the machine can do at best.

*The gateway alone.* Each invocation is one call of a handler that makes one round trip to Redis, through the same
client that workers have. Cold, each has a process of its own, which the gateway forks, puts into control groups, hands
the invocation to, and reaps. Beside it stands the bare rate (`forks`): a process with the same modules in memory that
does nothing but fork; each child connects to Redis, makes one round trip with the same client and ends. As many are
alive at once as the gateway has slots, which are those that it has by default. Two more bare rates are shown: children
that write their round trip into a socket by hand; and those of an interpreter that has imported nothing, which no
worker of any use can be forked from.

*The whole.* 10,000 flexible workers of one run, each with one task that returns its number: the run is created, all
are handed to the gateway in one call, and each joins, gets the run, runs its task, reports, and leaves. The clock stops
when the client hears that the run is over; then all outputs are fetched and checked. Warm, after a run that is not
counted.

All rates take turns. Cold rates take a tenth of the invocations for each repetition, since each takes ten milliseconds.
"""

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from augury import Embedded, Plan, Resources, serde, task
from augury.config import INLINE_BYTES
from augury.dag.graph import Workflow, build_workflow
from augury.dag.program import encode
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.invoke.gateway import Invocation
from augury.invoke.http_gateway import HttpGateway
from augury.plan.plan import Assignment
from augury.storage.opening import open_storage
from augury.storage.outputs import read_outputs
from augury.storage.protocols import CLIENT, Coordination, RunEnded, RunSpec, Status, Storage
from augury.storage.redis_client import RedisClient
from augury.storage.signing import sign_spec
from augury.trust.seal import Seal
from augury.worker.view import RunView
from speed.figures import Figure
from speed.measuring import HERE, Effort, check, done_apart, main, open_many_files, ratio, rotated, say

INVOCATIONS = 10_000
COLD_SHARE = 10
SLOTS = Embedded().concurrency
COLD_BAR = 0.6
WARM_BAR = 2000.0
PATIENCE_S = 300.0
COUNTER = "benchmark:invocations"
HANDLER = "speed.round_trip:handle"

Rates = dict[str, list[float]]


@task
def echo(number: int) -> int:
    return number


def measure(effort: Effort) -> Iterator[Figure]:
    """Cold, then warm."""
    open_many_files()
    yield from cold(effort.size(INVOCATIONS // COLD_SHARE, 20), effort.repeat)
    yield from warm(effort.size(INVOCATIONS, 100), effort.repeat)


def cold(invocations: int, repeat: int) -> Iterator[Figure]:
    """What the gateway sustains if it makes an environment for each invocation."""
    alone = Embedded(slots=SLOTS, keep_alive_s=0, handler=HANDLER, sys_path=(str(HERE),))
    with alone.start() as gateway, Embedded(slots=SLOTS, keep_alive_s=0).start() as whole:
        address = gateway.storage_config.redis
        ways: dict[str, Callable[[], float]] = {
            "gateway": lambda: round_trips(gateway, invocations),
            "whole": lambda: workers(whole, invocations),
            "bare": lambda: forks("client", address, invocations),
            "bare, by hand": lambda: forks("socket", address, invocations),
            "bare, empty": lambda: forks("empty", address, invocations),
        }
        rates = taking_turns(ways, repeat)
    bare = f"{median(rates['bare']):,.0f} forks with a round trip a second"
    yield Figure(
        what="cold starts by the gateway: of the bare rate of forks",
        value=ratio(rates["gateway"], rates["bare"]),
        bar=COLD_BAR,
        relation=">=",
        samples=rates,
        note=f"{median(rates['gateway']):,.0f} a second, {bare}",
    )
    for name, what in (("bare, by hand", "with a round trip by hand"), ("bare, empty", "of an empty interpreter")):
        yield Figure(
            what=f"cold starts by the gateway: of forks {what}",
            value=ratio(rates["gateway"], rates[name]),
            note=f"{median(rates[name]):,.0f} a second",
        )
    yield Figure(
        what="cold starts of flexible workers, one task each: of the bare rate",
        value=ratio(rates["whole"], rates["bare"]),
        note=f"{median(rates['whole']):,.0f} a second",
    )


def warm(invocations: int, repeat: int) -> Iterator[Figure]:
    """What the gateway sustains with environments that are there."""
    alone = Embedded(slots=SLOTS, handler=HANDLER, sys_path=(str(HERE),))
    with alone.start() as gateway, Embedded(slots=SLOTS).start() as whole:
        round_trips(gateway, 10 * SLOTS)
        workers(whole, 10 * SLOTS)
        ways: dict[str, Callable[[], float]] = {
            "gateway": lambda: round_trips(gateway, invocations),
            "whole": lambda: workers(whole, invocations),
        }
        rates = taking_turns(ways, repeat)
    yield Figure(
        what=f"warm starts of {invocations:,} flexible workers, one task each",
        value=median(rates["whole"]),
        unit="/s",
        bar=WARM_BAR,
        relation=">=",
        samples=rates,
    )
    yield Figure(what="warm starts by the gateway, one round trip each", value=median(rates["gateway"]), unit="/s")


def taking_turns(ways: dict[str, Callable[[], float]], repeat: int) -> Rates:
    """The rates of each, in an order that changes."""
    rates: Rates = {name: [] for name in ways}
    for turn in range(repeat):
        for name in rotated(list(ways), turn):
            rates[name].append(ways[name]())
            say(f"{turn + 1}/{repeat}  {name:14} {rates[name][-1]:8,.0f} a second")
    return rates


def forks(way: str, address: str, count: int) -> float:
    """The bare rate."""
    return float(done_apart("speed.forks", way, address, count, SLOTS))


# The gateway alone


def round_trips(platform: EmbeddedPlatform, count: int) -> float:
    """How many invocations a second, each of which counts itself."""
    client = RedisClient(platform.storage_config.redis)
    gateway = HttpGateway(platform.url, platform.token)
    client.command("SET", COUNTER, 0)
    run_id = secrets.token_hex(8)
    asked = [Invocation(run_id, f"t{number}", 1, Resources(), tasks=(number,)) for number in range(count)]
    began_s = time.perf_counter()
    gateway.invoke(asked)
    while (done := int(client.command("GET", COUNTER))) < count:
        if time.perf_counter() - began_s > PATIENCE_S:
            raise TimeoutError(f"{done} of {count} invocations were carried out within {PATIENCE_S:.0f} s")
        time.sleep(0.002)
    elapsed_s = time.perf_counter() - began_s
    gateway.close()
    client.close()
    return count / elapsed_s


# Flexible workers


def workers(platform: EmbeddedPlatform, count: int) -> float:
    """How many workers a second, from the start of their run to its end."""
    workflow = build_workflow([echo(number) for number in range(count)])
    storage = open_storage(platform.storage_config)
    run_id = secrets.token_hex(8)
    seal = platform.keyring.seal(run_id, skips_buffers=bool(platform.storage_config.object_dir))
    coordination, objects = storage.coordination(run_id), storage.objects(run_id)
    plan, spec = described(workflow, platform, seal)
    claims = RunView(workflow.graph, plan, concurrency=count, inline_bytes=INLINE_BYTES).initial_claims()
    check("the number of workers", len(claims), count)
    objects.create()
    gateway = HttpGateway(platform.url, platform.token)
    began_s = time.perf_counter()
    coordination.create(spec, workflow.graph.sinks, claims)
    gateway.invoke([Invocation(run_id, claim.worker, 1, claim.resources, tasks=claim.tasks) for claim in claims])
    await_end(coordination)
    elapsed_s = time.perf_counter() - began_s
    check("the run", results(storage, run_id, workflow, seal), list(range(count)))
    coordination.remove()
    objects.remove()
    gateway.close()
    storage.close()
    return count / elapsed_s


def described(workflow: Workflow, platform: EmbeddedPlatform, seal: Seal) -> tuple[Plan, RunSpec]:
    """The run, as a client would upload it, with a worker for each task."""
    graph = workflow.graph
    anywhere = Assignment(None, Resources())
    plan = Plan(fingerprint=graph.fingerprint, planner="none", assignments=(anywhere,) * len(graph))
    program, _ = encode(workflow, shared_files=True)
    spec = RunSpec(
        name="echo",
        graph=graph.encode(),
        program=program.encode(),
        plan=plan.encode(),
        concurrency=len(graph),
        inline_bytes=INLINE_BYTES,
        sys_path=tuple(str(Path(folder or ".").resolve()) for folder in sys.path),
        start_s=platform.limits.start_s,
        object_dir=platform.storage_config.object_dir,
        record=False,
    )
    return plan, sign_spec(spec, seal)


def await_end(coordination: Coordination) -> None:
    """Listen as the client of the run until it is over."""
    cursor, until_s = "0", time.perf_counter() + PATIENCE_S
    while time.perf_counter() < until_s:
        cursor, events = coordination.read(CLIENT, cursor, 1.0)
        for event in events:
            if isinstance(event, RunEnded):
                check("the status of the run", event.status, Status.SUCCEEDED)
                return
    raise TimeoutError(f"the run was not over after {PATIENCE_S:.0f} s")


def results(storage: Storage, run_id: str, workflow: Workflow, seal: Seal) -> list[Any]:
    """What the tasks returned."""
    sinks = workflow.graph.sinks
    found = read_outputs(storage.coordination(run_id), storage.objects(run_id), sinks, seal, workflow.graph.label)
    return [serde.loads(found[sink]) for sink in sinks]


if __name__ == "__main__":
    sys.exit(main(measure))
