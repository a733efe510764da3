"""A plan carried out, as in figure 6 of the Serverless Dataflows paper: six tasks on three workers of different power.

    worker 1   ┌─ task 1 ─┬──────────▶ task 4 ─┐
               ┊ pre-warm │                    │
    worker 3   └┄┄┄┄┄┄┄┄▶ └─▶ task 3 ──────────┤
                                               ▼ pre-load
    worker 2      task 2 ──────▶ task 5 ─────▶ task 6

Task 1 has an environment started for worker 3 before there is work for it. Worker 2 fetches the outputs of tasks 3
and 4 as soon as they exist, while it still runs tasks 2 and 5. An output is uploaded only if another worker needs it,
or the user: task 6 is on worker 2 because the output of task 5, the largest, is there.
"""

from augury import (
    Assignment,
    FixedPredictions,
    Outlook,
    Plan,
    PlatformModel,
    PreLoadHint,
    PreWarmHint,
    Resources,
    Timing,
    task,
)
from augury.dag.graph import build_workflow
from augury.testing import VirtualPlatform


@task
def task_1(start: int) -> list[int]:
    return [start, start + 1]


@task
def task_2(start: int) -> int:
    return 10 * start


@task
def task_3(pair: list[int]) -> int:
    return sum(pair)


@task
def task_4(pair: list[int]) -> int:
    return max(pair)


@task
def task_5(number: int) -> int:
    return number + 1


@task
def task_6(third: int, fourth: int, fifth: int) -> tuple[int, int, int]:
    return third, fourth, fifth


first = task_1(1)
second = task_2(2)
workflow = task_6(task_3(first), task_4(first), task_5(second))

# The plan, by hand: three workers, the third the most powerful. Ids of tasks count from 0.
SMALL = Resources(cpus=1, memory_mb=512)
MEDIUM = Resources(cpus=2, memory_mb=2048)
LARGE = Resources(cpus=4, memory_mb=4096)
WORKERS = {1: Assignment(1, SMALL), 2: Assignment(2, MEDIUM), 3: Assignment(3, LARGE)}
graph = build_workflow(workflow).graph


def plan_by_hand(*workers, hints=None):
    assignments = tuple(WORKERS[worker] for worker in workers)
    return Plan(fingerprint=graph.fingerprint, planner="by hand", assignments=assignments, hints=hints or {})


plan = plan_by_hand(1, 2, 3, 1, 2, 2, hints={0: (PreWarmHint(LARGE),), 5: (PreLoadHint(),)})

# What is expected of the tasks and of the platform.
SECONDS = {
    "task_1": 2.0,
    "task_2": 5.0,
    "task_3": 1.0,
    "task_4": 1.5,
    "task_5": 2.0,
    "task_6": {512: 3.0, 2048: 1.0, 4096: 0.6},
}
SIZES = {"task_1": 10e6, "task_2": 10e6, "task_3": 20e6, "task_4": 10e6, "task_5": 80e6, "task_6": 1e6}
model = PlatformModel(timing=Timing(cold_start_s=1.0, warm_start_s=0.05, latency_s=0.002, bandwidth_bytes_s=50e6))
outlook = Outlook(graph, FixedPredictions(SECONDS, SIZES), model)
predicted = outlook.simulate(plan)

# Why is task 6 on worker 2?
for worker in WORKERS:
    elsewhere = outlook.simulate(plan_by_hand(1, 2, 3, 1, 2, worker, hints=plan.hints))
    print(f"with task 6 on worker {worker} the run takes {elsewhere.makespan_s:.2f} s")


def execute(chosen):
    """Carry a plan out by real workers, in virtual time."""
    return VirtualPlatform.of(model).run_workflow(
        workflow,
        plan=chosen,
        duration_s=lambda one, resources: outlook.execution_s(resources)[one],
        size_bytes=lambda one: int(outlook.output_bytes[one]),
    )


run = execute(plan)
spans = {span.task: span for span in run.timeline}
print("task  worker  predicted      executed       uploaded")
for one in range(len(graph)):
    times, span = predicted.timeline[one], spans[one]
    size = f"{run.stored[one] / 1e6:.0f} MB" if one in run.stored else "no"
    expected = f"{times.execute_s:.2f} - {times.executed_s:.2f}"
    happened = f"{span.start_s:.2f} - {span.end_s:.2f}"
    print(f"{one + 1:>4}  {span.worker:<6}  {expected}    {happened}    {size}")

# Worker 3 found an environment that had been up since before it was asked for.
third = next(invocation for invocation in run.invocations if invocation.worker == "w3")
(environment,) = run.prewarms
print(f"an environment for worker 3 was made from {environment.start_s:.2f} to {environment.end_s:.2f} s")
print(f"worker 3 was asked for after {third.asked_s:.2f} s and started {'cold' if third.cold else 'warm'}")

# The inputs from other workers were there when task 5 ended; without pre-loading they are fetched then.
second = next(invocation for invocation in run.invocations if invocation.worker == "w2")
fetched = " and ".join(str(one + 1) for one in sorted(second.fetched))
print(f"worker 2 fetched the outputs of tasks {fetched} while it ran tasks 2 and 5")
print(f"task 6 began {spans[5].start_s - spans[4].end_s:.2f} s after task 5 had ended")
unhinted = execute(plan_by_hand(1, 2, 3, 1, 2, 2))
waited = {span.task: span for span in unhinted.timeline}
print(f"without hints it begins {waited[5].start_s - waited[4].end_s:.2f} s after it")
print(f"the run took {run.makespan_s:.2f} s, without hints {unhinted.makespan_s:.2f} s")
print(run.result)
