"""What holds for every graph, every plan and every hint, on any platform and in any order of events.

Each test takes random runs of the real core on the virtual platform, whose workers are validated after every event.
`AUGURY_EXAMPLES=20000` makes a campaign of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from augury.config import Resources
from augury.dag.graph import Graph, build_workflow
from augury.plan.hints import PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.plan import Assignment
from augury.testing import VirtualPlatform
from augury.worker.policies import Action, Duplicate, FetchEarly, Policy, PreWarm, WakeAt, packed
from augury.worker.view import RunView
from tests import strategies
from tests.worker.random_runs import EXAMPLES, Case, cases, expected_values, platforms, random_runs


@st.composite
def hinted(draw: st.DrawFn) -> Case:
    """A run of a plan with hints."""
    case = draw(cases())
    platform = replace(case.platform, interruptible=draw(st.booleans()))
    return replace(case, plan=draw(strategies.hinted_plans(case.graph)), platform=platform)


@st.composite
def duplicated(draw: st.DrawFn) -> Case:
    """A run in which few workers run each other's tasks whenever they have nothing else to do."""
    case = draw(cases())
    rng = draw(st.randoms(use_true_random=False))
    workers = draw(st.integers(2, 4))
    resources = [Resources(cpus=rng.choice([1, 1, 2])) for _ in range(workers)]
    flexible = draw(st.sampled_from([0.0, 0.0, 0.2]))
    places = [None if rng.random() < flexible else rng.randrange(workers) for _ in range(len(case.graph))]
    plan = structs.replace(
        case.plan,
        assignments=tuple(Assignment(place, Resources() if place is None else resources[place]) for place in places),
        hints={
            task: (TaskDupHint(0.0, rng.choice([0.0, 0.01, 10.0, 10.0])), *rng.choice([(), (PreLoadHint(),)]))
            for task in range(len(case.graph))
        },
    )
    platform = replace(
        case.platform,
        slots=draw(st.sampled_from([1, 2, 7, 7])),
        latency_s=draw(st.sampled_from([0.0, 0.0005, 0.01, 0.1])),
        interruptible=draw(st.booleans()),
    )
    times = draw(st.sampled_from([(0.0,), (0.02, 1.0), (0.0, 0.02, 0.021, 0.05)]))
    durations_s = {task: rng.choice(times) for task in range(len(case.graph))}
    return replace(case, plan=plan, platform=platform, durations_s=durations_s)


def has(case: Case, task: int, kind: type) -> bool:
    return any(isinstance(hint, kind) for hint in case.plan.hints.get(task, ()))


def check_outcome(case: Case) -> None:
    """What any run comes to, whatever was tried on the way."""
    assert case.run.values == expected_values(case.graph)
    assert case.run.leftovers == ()
    # Where others duplicate tasks, the run may be over before all of them were reported.
    duplicated = any(span.duplicate for span in case.run.timeline)
    assert case.run.ran == len(case.graph) or (duplicated and case.run.ran < len(case.graph))
    assert case.run.max_concurrent <= case.platform.slots


@settings(random_runs, max_examples=EXAMPLES or 600)
@given(hinted())
def test_results_are_right_nothing_is_left_and_every_task_counts_once(case: Case) -> None:
    check_outcome(case)


@settings(random_runs, max_examples=EXAMPLES or 600)
@given(duplicated())
def test_so_they_are_when_workers_run_each_others_tasks(case: Case) -> None:
    check_outcome(case)


@random_runs
@given(st.one_of(hinted(), duplicated()))
def test_only_duplicable_tasks_run_twice_and_only_for_who_waits_for_them(case: Case) -> None:
    graph, run = case.graph, case.run
    for span in run.timeline:
        planned = case.worker_of(span.task)
        assert span.duplicate == (planned is not None and span.worker != f"w{planned}")
        if span.duplicate:
            assert has(case, span.task, TaskDupHint)
            assert any(f"w{case.worker_of(consumer)}" == span.worker for consumer in graph.dependents[span.task])
    for task, count in Counter(span.task for span in run.timeline if not span.duplicate).items():
        assert count == 1, task
    for span in run.timeline:
        assert not span.abandoned or has(case, span.task, TaskDupHint)


@random_runs
@given(st.one_of(hinted(), duplicated()))
def test_planned_tasks_run_on_their_worker_or_were_done_by_another(case: Case) -> None:
    done = {span.task for span in case.run.timeline if not span.abandoned}
    assert done == set(range(len(case.graph)))


@random_runs
@given(st.one_of(hinted(), duplicated()))
def test_no_task_starts_before_its_inputs_are_made(case: Case) -> None:
    made_s = dict.fromkeys(range(len(case.graph)), float("inf"))
    for span in case.run.timeline:
        if not span.abandoned:
            made_s[span.task] = min(made_s[span.task], span.end_s)
    for span in case.run.timeline:
        assert all(made_s[dep] <= span.start_s for dep in case.graph.deps[span.task])


@random_runs
@given(hinted())
def test_an_input_is_fetched_once_however_early(case: Case) -> None:
    planned_only = all(assignment.worker is not None for assignment in case.plan.assignments)
    duplicates = {span.task for span in case.run.timeline if span.duplicate or span.abandoned}
    for invocation in case.run.invocations if planned_only and not duplicates else ():
        assert len(invocation.fetched) == len(set(invocation.fetched))


@random_runs
@given(hinted())
def test_without_hints_of_a_kind_nothing_of_that_kind_happens(case: Case) -> None:
    hints = {type(hint) for some in case.plan.hints.values() for hint in some}
    if PreWarmHint not in hints and not case.plan.launch:
        assert case.run.prewarms == ()
    if TaskDupHint not in hints:
        assert not any(span.duplicate or span.abandoned for span in case.run.timeline)
        assert set(case.run.executions.values()) == {1}


@random_runs
@given(hinted())
def test_a_run_is_the_same_every_time(case: Case) -> None:
    assert replace(case).run == case.run


@settings(random_runs, max_examples=EXAMPLES or 60)
@given(strategies.workflows(), platforms(), st.data())
def test_workflows_of_real_tasks_come_to_what_one_process_would(
    outputs: Any, platform: VirtualPlatform, data: st.DataObject
) -> None:
    plan = data.draw(strategies.hinted_plans(build_workflow(outputs).graph))
    run = platform.run_workflow(outputs, plan=plan)
    assert strategies.same(run.result, strategies.evaluate(outputs))


class Restless(Policy):
    """Asks for anything at any time, sensible or not."""

    def __init__(self, view: RunView, worker: str) -> None:
        self._rng = Random(worker)
        self._graph: Graph = view.graph
        self._resources = [one.resources for one in view.plan.assignments]

    @staticmethod
    def watches(view: RunView, task: int) -> Iterator[str]:
        rng = Random(task)
        return (worker for worker in sorted(view.tasks_of) if rng.random() < 0.4)

    def began(self, done: frozenset[int], now_s: float) -> Iterable[Action]:
        return self._anything(now_s)

    def started(self, task: int, now_s: float) -> Iterable[Action]:
        return self._anything(now_s)

    def finished(self, task: int, now_s: float) -> Iterable[Action]:
        return self._anything(now_s)

    def completed(self, task: int, now_s: float) -> Iterable[Action]:
        return [FetchEarly((task,)), *self._anything(now_s)]

    def waiting(self, now_s: float) -> Iterable[Action]:
        return [] if self._rng.random() < 0.5 else [Duplicate(task) for task in self._some()]

    def alarm(self, now_s: float) -> Iterable[Action]:
        return [] if self._rng.random() < 0.5 else self._anything(now_s)

    def _some(self) -> list[int]:
        return self._rng.sample(range(len(self._graph)), min(len(self._graph), 3))

    def _anything(self, now_s: float) -> list[Action]:
        rng = self._rng
        actions: list[Action] = [
            PreWarm(rng.choice(list(self._resources)), rng.randint(1, 3), now_s + rng.choice([0, 0.2])),
            FetchEarly(tuple(self._some())),
            Duplicate(self._some()[0]),
            WakeAt(now_s + rng.choice([0.0001, 0.01, 1.0])),
        ]
        return [rng.choice(actions)]


@settings(random_runs, max_examples=EXAMPLES or 300)
@given(st.one_of(hinted(), duplicated()))
def test_a_policy_may_ask_for_anything_and_the_result_is_right(case: Case) -> None:
    check_outcome(replace(case, plan=structs.replace(case.plan, policies={"restless": packed(Restless)})))
