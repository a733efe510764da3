"""A platform in virtual time: whole runs, on the real worker core, in milliseconds.

A workflow runs here as it would on a FaaS platform: workers are claimed, queue for slots, start cold or warm,
run tasks, report, wake each other, give slots up and leave. Only that nothing takes real time: task
durations, storage latencies and cold starts are numbers that a test chooses, and a run is the same every time.
Use it to test a workflow without a platform, a planner without waiting, or to see what a change would bring:

    platform = VirtualPlatform(slots=4, cold_start_s=0.5, latency_s=0.001)
    run = platform.run_workflow(total, duration_s=lambda task: 2.0)
    assert run.result == 42
    assert run.makespan_s < 10

The pieces: `clock` (the heap of what will happen), `gateway` (slots, queue, cold starts), `invocation` (one
worker: the real core, with commands that take virtual time), and the real storage in memory.

What takes how long. Times are those of the worker's configuration; what is not listed takes none.

- *Submission*: at 0 s the client asks for the first workers, and then for what the plan has it pre-warm.
- *Start*: from the moment that a slot is granted, `warm_start_s`, or `cold_start_s` in a new environment. A cold start
  takes `crowd_s` longer for each other start that is under way when its slot is granted, cold, warm or pre-warming;
  one of a worker is under way until its join takes effect.
  Asking the gateway takes no time. Slots are granted in the order of asking, and are free again when a worker leaves.
- *Requests* to storage (join, report, look-up of outputs) take effect after `latency_s / 2` and are answered after
  another `latency_s / 2`. Requests do not slow each other down, nor do tasks that run.
- *Fetch*: one look-up for all outputs that are fetched together, which brings the small ones: `latency_s`. If there are
  large ones, all come at once after `1.5 * latency_s` and the bytes of the large ones over `bandwidth_bytes_s`; a
  worker that downloads already does so first.
- *Store*: a large output takes effect after `latency_s / 2` and its bytes over `upload_bytes_s`, and the core goes
  on `latency_s / 2` later. Small ones ride inside reports, and take no time beside them.
- *Inbox*: `latency_s / 2` after something was put into it, or after it began to listen, a worker reads its inbox, and
  takes everything in at once that is there by then.
- *Tasks* run for `duration_s`, beside each other on the slots of their worker. One that is abandoned ends in that
  moment, and its slot is free.
- *Reports*: a worker without a running task reports at once; one with running tasks `flush_s` after there was
  something to report. One report is under way at a time.
- *Progress*: every `progress_s` a worker with running tasks looks whether others could take tasks over; if tasks are
  queued, every `start_s` (the cold start of the model and `grace_s`), should that be shorter.
- *Patience*: a worker that has been idle for `start_s` while others are starting offers its slot.
- *Pre-warming*: see `gateway`. It is asked for at the very moment that a hint names, holds its slot for a cold start,
  and is billed for it.
- *End*: the run is over when the report of its last sink takes effect.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, cast

from augury import serde
from augury.config import INLINE_BYTES, Resources
from augury.dag.graph import Graph, Workflow, build_workflow
from augury.dag.program import LoadedProgram, encode
from augury.dag.refs import fill
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook, Planner
from augury.plan.plan import Plan
from augury.plan.planners.wukong import WukongPlanner
from augury.testing.adversary import Adversary
from augury.testing.adverse import AdverseCourse
from augury.testing.course import Course, Deadlock
from augury.testing.spans import InvocationSpan, PrewarmSpan, TaskSpan, VirtualRun
from augury.testing.world import Evaluate

__all__ = ["Deadlock", "InvocationSpan", "PrewarmSpan", "TaskSpan", "VirtualPlatform", "VirtualRun"]

Durations = Callable[[int], float] | Callable[[int, Resources], float] | Mapping[int, float] | float
"""How long tasks take: for each the same; by task (those left out take no time); or computed, from the task's id
alone or, if the function takes two arguments, also from what its worker has."""

Sizes = Callable[[int], int] | Mapping[int, int]
"""How large outputs are said to be, by task; those left out are as large as their pickle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualPlatform:
    """A FaaS platform on which time is a number.

    Args:
        slots: How many invocations run at once; further ones queue.
        cold_start_s: How long a new environment takes to start.
        warm_start_s: How long one that ran before takes.
        keep_alive_s: How long an environment stays warm.
        latency_s: One round trip to storage.
        bandwidth_bytes_s: How fast one worker reads and writes large outputs.
        upload_bytes_s: How fast it writes them, if that is not as fast as it reads; 0: it is.
        inline_bytes: Up to which size outputs ride inside reports.
        grace_s: How much longer than a cold start a worker may be starting before those that wait for inputs
            offer their slots.
        flush_s: How long a finished task may go unreported while others run.
        progress_s: How often a worker looks how far it is, and whether others could take over some of its work.
        crowd_s: How much longer a cold start takes for each other start under way.
        timings: Start-ups and storage for configurations that differ from the rest.
        configurations: What workers can be had; the slowest of their starts is how long others are patient.
        warm: How many environments of each configuration are warm at the start; infinite: all that are needed.
        seed: Draws the order of things that happen at the same moment; without it, the order of asking.
        interruptible: Whether tasks that turn out to run in vain, since another worker was faster, can be stopped;
            else they run to their end.
        check_invariants: Validate every worker after every event; for tests of the worker itself.
        adversary: What goes wrong; without it, nothing does.

    Example:
        >>> from augury import task
        >>> @task
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> run = VirtualPlatform(slots=2).run_workflow(double(double(3)), duration_s=60.0)
        >>> run.result, run.makespan_s
        (12, 120.0)
    """

    slots: int = 8
    cold_start_s: float = 0.0
    warm_start_s: float = 0.0
    keep_alive_s: float = float("inf")
    latency_s: float = 0.0
    bandwidth_bytes_s: float = float("inf")
    upload_bytes_s: float = 0.0
    inline_bytes: int = INLINE_BYTES
    grace_s: float = 0.2
    flush_s: float = 0.001
    progress_s: float = 0.25
    crowd_s: float = 0.0
    timings: Mapping[Resources, Timing] = field(default_factory=dict)
    configurations: tuple[Resources, ...] = (Resources(),)
    warm: Mapping[Resources, float] = field(default_factory=dict)
    seed: int | None = None
    interruptible: bool = True
    check_invariants: bool = False
    adversary: Adversary | None = None

    @classmethod
    def of(cls, model: PlatformModel, *, seed: int | None = None, check_invariants: bool = False) -> Self:
        """The platform that a model describes: what is predicted for the one can be run on the other.

        Example:
            >>> from augury.plan.model import PlatformModel, Timing
            >>> VirtualPlatform.of(PlatformModel(timing=Timing(cold_start_s=2.0))).cold_start_s
            2.0
        """
        timing = model.timing
        return cls(
            slots=model.concurrency,
            cold_start_s=timing.cold_start_s,
            warm_start_s=timing.warm_start_s,
            keep_alive_s=model.keep_alive_s,
            latency_s=timing.latency_s,
            bandwidth_bytes_s=timing.bandwidth_bytes_s,
            upload_bytes_s=timing.upload_bytes_s,
            inline_bytes=model.inline_bytes,
            grace_s=model.grace_s,
            flush_s=model.flush_s,
            progress_s=model.progress_s,
            crowd_s=timing.crowd_s,
            timings=model.timings,
            configurations=tuple(model.configurations),
            warm=model.warm,
            seed=seed,
            check_invariants=check_invariants,
        )

    @property
    def model(self) -> PlatformModel:
        """The platform in numbers, for simulations."""
        timing = Timing(
            cold_start_s=self.cold_start_s,
            warm_start_s=self.warm_start_s,
            latency_s=self.latency_s,
            bandwidth_bytes_s=self.bandwidth_bytes_s,
            upload_bytes_s=self.upload_bytes_s,
            crowd_s=self.crowd_s,
        )
        return PlatformModel(
            timing=timing,
            timings=self.timings,
            configurations=self.configurations,
            concurrency=self.slots,
            keep_alive_s=self.keep_alive_s,
            warm=self.warm,
            inline_bytes=self.inline_bytes,
            flush_s=self.flush_s,
            grace_s=self.grace_s,
            progress_s=self.progress_s,
        )

    def run(
        self,
        graph: Graph,
        plan: Plan,
        evaluate: Evaluate,
        *,
        duration_s: Durations = 0.0,
        size_bytes: Sizes | None = None,
    ) -> VirtualRun:
        """Run a graph whose tasks are given by a function.

        Args:
            graph: The workflow.
            plan: Who runs what.
            evaluate: Gives the value of a task, by its id, from the values of its inputs, by theirs. What it
                raises is the task's failure.
            duration_s: How long tasks take: a number, a mapping by task id, or a function of the id, or of the id
                and the resources of the worker.
            size_bytes: How large outputs are said to be, to try out large ones without making them.

        Raises:
            Deadlock: The run can make no progress.
            Exception: What a task raised for good; its cause is a `TaskFailed`.
        """
        plan.validate(graph)
        make = Course if self.adversary is None else partial(AdverseCourse, adversary=self.adversary)
        course = make(
            self.model,
            graph,
            plan,
            evaluate,
            _durations(duration_s),
            _sizes(size_bytes or {}),
            seed=self.seed,
            interruptible=self.interruptible,
            check_invariants=self.check_invariants,
        )
        return course.run()

    def run_workflow(
        self,
        outputs: Any,
        *,
        plan: Plan | Planner | None = None,
        duration_s: Durations = 0.0,
        size_bytes: Sizes | None = None,
    ) -> VirtualRun:
        """Run real tasks, through the same encoding as on a real platform; their functions run in this process.

        Args:
            outputs: Any nesting of tasks, as for `compute`.
            plan: A plan, or what makes one; by default every task is flexible.
            duration_s: How long tasks take, by their id; the time that the functions really take is not seen.
            size_bytes: How large outputs are said to be.

        Returns:
            The run; its `result` has the shape of `outputs`.
        """
        workflow = build_workflow(outputs)
        graph = workflow.graph
        planned = plan if isinstance(plan, Plan) else (plan or WukongPlanner()).plan(graph, Outlook(graph))
        run = self.run(graph, planned, _calls(workflow), duration_s=duration_s, size_bytes=size_bytes)
        result = fill(workflow.template, lambda ref: run.values[ref.task], lambda const: const)
        return replace(run, result=result)


def _durations(given: Durations) -> Callable[[int, Resources], float]:
    if isinstance(given, Mapping):
        return lambda task, _: given.get(task, 0.0)
    if not callable(given):
        return lambda _, __: given
    if _takes_resources(given):
        return cast("Callable[[int, Resources], float]", given)
    by_task = cast("Callable[[int], float]", given)
    return lambda task, _: by_task(task)


def _takes_resources(function: Callable[..., float]) -> bool:
    """Whether a function cannot be called without a second argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of some built-in functions it is not known
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in positional and one.default is one.empty for one in parameters) > 1


def _sizes(given: Sizes) -> Callable[[int, int], int]:
    if isinstance(given, Mapping):
        return given.get
    return lambda task, _: given(task)


def _calls(workflow: Workflow) -> Evaluate:
    """Calls the functions of a workflow after they went through their encoding."""
    program, constants = encode(workflow, shared_files=False)
    loaded = LoadedProgram(workflow.graph, program)

    def constant_data(index: int) -> serde.Buffer:
        return constants[index].join()

    def evaluate(task: int, inputs: Mapping[int, Any]) -> Any:
        args, kwargs = loaded.arguments(task, inputs.__getitem__, lambda index: serde.loads(constant_data(index)))
        return loaded.function(task, constant_data)(*args, **kwargs)

    return evaluate
