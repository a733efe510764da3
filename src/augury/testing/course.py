"""The course of one run on the virtual platform: from the claims of the client to the last worker that leaves."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, cast

import msgspec

from augury import serde
from augury.config import Resources
from augury.dag.graph import Graph
from augury.errors import RunError, TaskFailed
from augury.plan.hints import PreWarmHint
from augury.plan.model import PlatformModel
from augury.plan.plan import Plan
from augury.storage.memory import MemoryCoordination, MemoryObjects, MemoryStorage
from augury.storage.protocols import CLIENT, Claim, RunEnded, RunSpec, Status, output_key
from augury.testing.clock import VirtualClock
from augury.testing.gateway import Startup, VirtualGateway
from augury.testing.invocation import VirtualInvocation
from augury.testing.spans import Recorder, VirtualRun
from augury.testing.world import Evaluate, World
from augury.worker.policies.registry import Policies
from augury.worker.view import RunView


class Deadlock(RunError):
    """A run on the virtual platform can make no progress; tells what every worker waits for."""


class Course:
    """One run, from the claims of the client to the last worker that leaves."""

    """One run.

    Args:
        model: The platform.
        graph: The workflow.
        plan: Who runs what.
        evaluate: Gives the values of tasks.
        duration_s: How long a task takes on a worker with these resources.
        size_bytes: How large the output of a task is, for a value of so many bytes.
        seed: Draws the order of things that happen at the same moment.
        interruptible: Whether tasks that run in vain can be stopped.
        check_invariants: Whether workers are validated after every event.
    """

    def __init__(
        self,
        model: PlatformModel,
        graph: Graph,
        plan: Plan,
        evaluate: Evaluate,
        duration_s: Callable[[int, Resources], float],
        size_bytes: Callable[[int, int], int],
        *,
        seed: int | None,
        interruptible: bool,
        check_invariants: bool,
    ) -> None:
        self._graph = graph
        self._plan = plan
        self._clock = VirtualClock(None if seed is None else Random(seed))  # noqa: S311 - no secrets
        self._view = RunView(
            graph,
            plan,
            concurrency=model.concurrency,
            inline_bytes=model.inline_bytes,
            start_s=model.start_s,
            run_id="virtual",
        )
        storage = MemoryStorage(clock=self._clock, ttl_s=float("inf"))
        self._coordination: MemoryCoordination = storage.coordination("virtual")
        self._objects: MemoryObjects = storage.objects("virtual")
        self._gateway = self._make_gateway(model)
        self._recorder = Recorder()
        self._alive: dict[VirtualInvocation, Callable[[], None]] = {}
        self._ended: tuple[float, RunEnded] | None = None
        self._world = World(
            clock=self._clock,
            view=self._view,
            policies=Policies(self._view),
            coordination=self._coordination,
            objects=self._objects,
            gateway=self._gateway,
            recorder=self._recorder,
            model=model,
            evaluate=evaluate,
            duration_s=duration_s,
            size_bytes=size_bytes,
            interruptible=interruptible,
            check_invariants=check_invariants,
        )

    def _make_gateway(self, model: PlatformModel) -> VirtualGateway:
        return VirtualGateway(self._clock, model, self._start)

    def run(self) -> VirtualRun:
        """Let the run take place."""
        self._submit()
        self._clock.run()
        if self._ended is None or self._alive:
            raise Deadlock(self._describe())
        makespan_s, ended = self._ended
        if ended.status is not Status.SUCCEEDED:
            raise self._failure(ended)
        result = self._result(self._sink_values(), makespan_s)
        self._coordination.remove()
        self._objects.remove()
        return result

    def _submit(self) -> None:
        """What the client does."""
        claims = self._view.initial_claims()
        self._objects.create()
        planned = [self._view.planned_claim(worker) for worker in self._view.tasks_of]
        self._coordination.create(self._spec(), self._graph.sinks, claims, planned)
        self._coordination.subscribe(CLIENT, self._hear)
        self._gateway.invoke(claims)
        for hint in self._plan.launch:
            if hint.after_s:
                self._clock.after(hint.after_s, partial(self._launch, hint))
            else:
                self._launch(hint)

    def _spec(self) -> RunSpec:
        return RunSpec(
            name="virtual",
            graph=msgspec.msgpack.encode(self._graph),
            program=b"",
            plan=self._plan.to_json().encode(),
            concurrency=self._view.concurrency,
            inline_bytes=self._view.inline_bytes,
            start_s=self._view.start_s,
        )

    def _hear(self) -> None:
        """The client's inbox has something new: is the run over?"""
        if self._ended is None and self._coordination.status() is not Status.RUNNING:
            _, events = self._coordination.read(CLIENT, "0", 0.0)
            ended = next(event for event in events if isinstance(event, RunEnded))
            self._ended = (self._clock(), ended)

    def _start(self, claim: Claim, startup: Startup) -> None:
        invocation = self._embody(claim, startup)
        self._alive[invocation] = self._coordination.subscribe(claim.worker, invocation.wake)
        invocation.begin()

    def _embody(self, claim: Claim, startup: Startup) -> VirtualInvocation:
        return VirtualInvocation(self._world, claim, startup, self._bury)

    def _launch(self, hint: PreWarmHint) -> None:
        if self._ended is None:
            self._gateway.prewarm(hint.resources, hint.count)

    def _bury(self, invocation: VirtualInvocation) -> None:
        self._alive.pop(invocation)()

    def _sink_values(self) -> dict[int, Any]:
        stored = self._coordination.outputs(self._graph.sinks)
        values = {}
        for task in self._graph.sinks:
            data = stored[task].inline
            key = output_key(task)
            values[task] = serde.loads(data if data is not None else self._objects.get([key])[key])
        return values

    def _leftovers(self) -> tuple[int, ...]:
        others = [task for task in range(len(self._graph)) if task not in self._graph.sink_set]
        inline = self._coordination.outputs(others)
        large = self._objects.get([output_key(task) for task in others])
        return tuple(task for task in others if task in inline or output_key(task) in large)

    def _failure(self, ended: RunEnded) -> Exception:
        task, error = serde.loads(ended.failure)
        if task < 0:
            return cast("Exception", error)
        chain = " → ".join(map(self._graph.label, self._graph.chain_to_sink(task)))
        error.__cause__ = TaskFailed(f"{self._graph.label(task)} failed: {error!r} ({chain})")
        return cast("Exception", error)

    def _describe(self) -> str:
        """What everyone waits for, for whoever has to find out why."""
        lines = [f"no progress is possible after {self._clock():g} s of virtual time"]
        lines += [f"  {invocation.describe()}" for invocation in self._alive]
        lines += [f"  {worker} waits for a slot" for worker in self._gateway.queued]
        missing = [self._graph.label(t) for t in range(len(self._graph)) if not self._recorder.executions[t]]
        if missing:
            more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
            lines.append(f"  never run: {', '.join(missing[:10])}{more}")
        return "\n".join(lines)

    def _result(self, values: dict[int, Any], makespan_s: float) -> VirtualRun:
        return VirtualRun(
            result=values,
            values=values,
            makespan_s=makespan_s,
            timeline=tuple(self._recorder.timeline),
            invocations=tuple(self._recorder.invocations),
            prewarms=tuple(self._gateway.prewarms),
            cold_starts=self._gateway.cold_starts,
            max_concurrent=self._gateway.max_concurrent,
            stored=dict(self._recorder.stored),
            executions=dict(self._recorder.executions),
            ran=self._coordination.progress().ran,
            reports=self._recorder.reports,
            leftovers=self._leftovers(),
            faults=self._faults(),
        )

    def _faults(self) -> Mapping[str, int]:
        return {}
