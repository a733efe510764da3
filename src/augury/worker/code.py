"""What a worker process keeps of a run between invocations: its view and its program, decoded once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from augury.config import PATIENCE_S, ResultsConfig
from augury.dag.flat import unpack_times
from augury.dag.graph import Graph
from augury.dag.program import LoadedProgram, Program
from augury.errors import UntrustedData
from augury.plan.plan import Plan
from augury.storage.protocols import Care, RunSpec
from augury.storage.signing import check_spec
from augury.trust.seal import Keyring, Seal
from augury.versions import check_versions
from augury.worker.policies.registry import Policies
from augury.worker.view import RunView

_KEPT_RUNS = 4
_MANY_WORKERS = 8


class RunCode(NamedTuple):
    """A run as a worker process knows it; see `RunSpec` for what is taken from there."""

    view: RunView
    policies: Policies
    program: LoadedProgram
    constants: int
    object_dir: str
    sys_path: tuple[str, ...]
    record: bool
    seal: Seal
    care: Care
    late_s: Sequence[float]
    results: ResultsConfig = ResultsConfig()

    @property
    def patience_s(self) -> float:
        """How long this worker tries to start others: even if the user has little patience, a platform may recover."""
        return max(PATIENCE_S, self.care.patience_s)


class RunCache:
    """The runs that this process saw last.

    Args:
        importing: Entered while functions are loaded, which may import modules of the user's.
    """

    def __init__(self, importing: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._importing = importing
        self._runs: OrderedDict[str, RunCode] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, run_id: str) -> RunCode | None:
        """The run, if it is known here."""
        with self._lock:
            if run_id in self._runs:
                self._runs.move_to_end(run_id)
            return self._runs.get(run_id)

    def add(self, run_id: str, spec: RunSpec, keyring: Keyring) -> RunCode:
        """Check, decode and keep a run.

        Raises:
            VersionMismatch: Its client has versions that do not go with ours.
            UntrustedData: It does not come from a client with a key of the deployment.
        """
        seal = keyring.seal(run_id, skips_buffers=bool(spec.object_dir))
        try:
            check_spec(spec, seal)
        except UntrustedData:
            check_versions(spec.versions, essential=True)  # another version may sign in another way: then say that
            raise
        check_versions(spec.versions)
        plan = Plan.decode(spec.plan)
        graph = Graph.decode(spec.graph, piecemeal=_is_shared(plan, spec.concurrency))
        program = Program.decode(spec.program)
        plan.check_shape(graph)  # what each task is given its client has looked at, which signed it
        view = RunView(
            graph,
            plan,
            concurrency=spec.concurrency,
            inline_bytes=spec.inline_bytes,
            start_s=spec.start_s,
            run_id=run_id,
        )
        loaded = LoadedProgram(graph, program, self._importing)
        code = RunCode(
            view,
            Policies(view),
            loaded,
            len(program.constants),
            spec.object_dir,
            spec.sys_path,
            spec.record,
            seal,
            spec.care,
            unpack_times(spec.late_s),
            spec.results,
        )
        with self._lock:
            self._runs[run_id] = code
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)
        return code


def _is_shared(plan: Plan, concurrency: int) -> bool:
    """Whether so many workers take part in a run that each looks at a small part of it."""
    workers = plan.places().workers
    return (concurrency if 0 in workers else len(workers)) >= _MANY_WORKERS
