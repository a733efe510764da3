"""What a workflow costs at both ends: the client that defines and uploads it, and each worker that begins.

    client     define ─▶ build ─▶ plan ─▶ encode ─▶ upload
                                                       │  spec: graph + program + plan
    worker                                             └─▶ fetch ─▶ decode ─▶ view ─▶ first task

Every worker fetches and decodes the whole description of a run, whatever its share of the tasks: tasks × workers.
Processor times, each worker in a process of its own; memory is what the resident set of that process grows by.
"""

import gc
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from augury import Planner, UniformPlanner, task
from augury.config import INLINE_BYTES, Resources
from augury.dag.graph import Graph, build_workflow
from augury.dag.program import LoadedProgram, Program, encode
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.worker import messages as m
from augury.worker.policies.registry import Policies
from augury.worker.state import WorkerState
from augury.worker.view import RunView
from limits.shapes import SHAPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What was measured of one workflow.

    Attributes:
        define_s: To call the functions; `build_s`: to make the graph; `plan_s`: to plan; `encode_s`: to encode it all.
        graph_bytes: Of the description that workers get; likewise `program_bytes` and `plan_bytes`.
        decode_s: How long a worker takes from these bytes to its first task; `decode_bytes`: its memory for that.
    """

    shape: str
    tasks: int
    workers: int
    define_s: float
    build_s: float
    plan_s: float
    encode_s: float
    graph_bytes: int
    program_bytes: int
    plan_bytes: int
    decode_s: float
    decode_bytes: int

    @property
    def spec_bytes(self) -> int:
        """All that each worker fetches."""
        return self.graph_bytes + self.program_bytes + self.plan_bytes

    @property
    def client_s(self) -> float:
        """All that the client does before it uploads."""
        return self.define_s + self.build_s + self.plan_s + self.encode_s


@task
def step(number: int, *inputs: int) -> int:
    return number + len(inputs)


def measure_ends(shape_name: str, tasks: int, workers: int) -> Ends:
    """Both ends, for a workflow whose plan names each worker."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_measure_client, shape_name, tasks, workers).result()


def _measure_client(shape_name: str, tasks: int, workers: int) -> Ends:
    shape = SHAPES[shape_name](tasks, workers)
    took_s: dict[str, float] = {}
    gc.collect()
    gc.freeze()
    with _timed(took_s, "define"):
        asked = shape.calls(step)
    with _timed(took_s, "build"):
        workflow = build_workflow(asked)
    graph = workflow.graph
    planner: Planner = UniformPlanner()
    with _timed(took_s, "plan"):
        planner.plan(graph, Outlook(graph))
    with _timed(took_s, "encode"):
        program, _ = encode(workflow, shared_files=False)
        encoded = graph.encode(), program.encode(), shape.plan(graph, planned=True).encode()
    del workflow, asked, program
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        decode_s, decode_bytes = process.submit(begin_worker, *encoded).result()
    return Ends(
        shape=shape_name,
        tasks=shape.tasks,
        workers=workers,
        define_s=took_s["define"],
        build_s=took_s["build"],
        plan_s=took_s["plan"],
        encode_s=took_s["encode"],
        graph_bytes=len(encoded[0]),
        program_bytes=len(encoded[1]),
        plan_bytes=len(encoded[2]),
        decode_s=decode_s,
        decode_bytes=decode_bytes,
    )


def begin_worker(graph_bytes: bytes, program_bytes: bytes, plan_bytes: bytes) -> tuple[float, int]:
    """What a worker does in a new environment before its first task; seconds, and bytes of memory."""
    gc.collect()
    before_bytes, began_s = _resident_bytes(), time.process_time()
    graph = Graph.decode(graph_bytes)
    program = Program.decode(program_bytes)
    plan = Plan.decode(plan_bytes)
    plan.validate(graph)
    view = RunView(graph, plan, concurrency=1, inline_bytes=INLINE_BYTES)
    loaded = LoadedProgram(graph, program)
    state = WorkerState(view, "w0", Resources(), Policies(view))
    commands = state.handle(m.Began((), frozenset(), 1))
    first = next(command.task for command in commands if isinstance(command, m.Run))
    loaded.arguments(first, lambda dep: dep, lambda index: index)
    # For the first report, and for whoever takes the output.
    assert view.needs[first] <= len(graph.deps[first])
    assert view.copied[first] in (True, False)
    return time.process_time() - began_s, _resident_bytes() - before_bytes


@contextmanager
def _timed(took_s: dict[str, float], name: str) -> Iterator[None]:
    began_s = time.process_time()
    yield
    took_s[name] = time.process_time() - began_s


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
