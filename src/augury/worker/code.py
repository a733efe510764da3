"""What a worker process keeps of a run between invocations: its view and its program, decoded once."""

import threading
from collections import OrderedDict
from typing import NamedTuple

from augury.dag.graph import Graph
from augury.dag.program import LoadedProgram, Program
from augury.plan.plan import Plan
from augury.storage.protocols import RunSpec
from augury.worker.policies.registry import Policies
from augury.worker.view import RunView

_KEPT_RUNS = 4


class RunCode(NamedTuple):
    """A run as a worker process knows it; see `RunSpec` for what is taken from there."""

    view: RunView
    policies: Policies
    program: LoadedProgram
    constants: int
    object_dir: str
    sys_path: tuple[str, ...]
    record: bool


class RunCache:
    """The runs that this process saw last."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, RunCode] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, run_id: str) -> RunCode | None:
        """The run, if it is known here."""
        with self._lock:
            if run_id in self._runs:
                self._runs.move_to_end(run_id)
            return self._runs.get(run_id)

    def add(self, run_id: str, spec: RunSpec) -> RunCode:
        """Decode a run and keep it."""
        graph = Graph.decode(spec.graph)
        program = Program.decode(spec.program)
        plan = Plan.decode(spec.plan)
        plan.validate(graph)
        view = RunView(graph, plan, concurrency=spec.concurrency, inline_bytes=spec.inline_bytes, start_s=spec.start_s)
        loaded = LoadedProgram(graph, program)
        code = RunCode(
            view, Policies(view), loaded, len(program.constants), spec.object_dir, spec.sys_path, spec.record
        )
        with self._lock:
            self._runs[run_id] = code
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)
        return code
