"""What holds for every graph, plan, platform and order of events when tasks fail and are tried again.

Each test takes random runs of the real core on the virtual platform, whose workers are validated after every event.
`AUGURY_EXAMPLES=20000` makes a campaign of them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from augury.testing import VirtualRun
from augury.worker.retries import pause_s
from tests import strategies
from tests.worker.random_runs import EXAMPLES, Case, cases, evaluate, expected_values, random_runs

RETRIES = 3


class Flaw(Exception):
    """What a task raises here."""


@dataclass(frozen=True)
class Flaky:
    """A run whose tasks fail at first.

    Attributes:
        case: The run.
        failures: How many of the first executions of each task fail.
    """

    case: Case
    failures: Mapping[int, int]

    def run(self) -> VirtualRun:
        seen: Counter[int] = Counter()

        def fail_at_first(task: int, inputs: Mapping[int, Any]) -> int:
            seen[task] += 1
            if seen[task] <= self.failures[task]:
                raise Flaw(task)
            return evaluate(task, inputs)

        case = self.case
        return case.platform.run(
            case.graph, case.plan, fail_at_first, duration_s=case.durations_s, size_bytes=case.sizes_bytes
        )


@st.composite
def flaky(draw: st.DrawFn, *, most: int = RETRIES, hinted: bool = False) -> Flaky:
    case = draw(cases())
    backoff_s = draw(st.sampled_from([0.0, 0.0005, 0.05, 30.0]))
    function = structs.replace(case.graph.functions[0], retries=RETRIES, backoff_s=backoff_s)
    graph = structs.replace(case.graph, functions=(function,))
    if hinted:
        platform = replace(case.platform, interruptible=draw(st.booleans()))
        case = replace(case, plan=draw(strategies.hinted_plans(graph)), platform=platform)
    rng = Random(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.1, 0.5, 1.0]))
    failures = {task: rng.randint(0, most) if rng.random() < share else 0 for task in range(len(graph))}
    return Flaky(replace(case, graph=graph), failures)


@random_runs
@given(flaky())
def test_every_task_is_tried_until_it_succeeds_and_no_more(flaky: Flaky) -> None:
    run = flaky.run()
    assert run.values == expected_values(flaky.case.graph)
    assert run.executions == {task: failures + 1 for task, failures in flaky.failures.items()}
    assert run.leftovers == ()
    assert run.ran == len(flaky.case.graph)


@random_runs
@given(flaky())
def test_tries_of_a_task_are_on_one_worker_and_as_far_apart_as_they_must_be(flaky: Flaky) -> None:
    run, graph = flaky.run(), flaky.case.graph
    for task in range(len(graph)):
        spans = sorted((span for span in run.timeline if span.task == task), key=lambda span: span.start_s)
        assert len({(span.worker, span.attempt) for span in spans}) == 1
        for tries, (span, after) in enumerate(pairwise(spans), start=1):
            assert after.start_s - span.end_s >= pause_s(graph.info(task), "virtual", task, tries) - 1e-5


@settings(random_runs, max_examples=EXAMPLES or 300)
@given(flaky(hinted=True))
def test_hints_change_nothing_of_it(flaky: Flaky) -> None:
    run = flaky.run()
    assert run.values == expected_values(flaky.case.graph)
    assert run.leftovers == ()


@random_runs
@given(flaky(most=RETRIES + 1))
def test_a_task_that_fails_too_often_fails_the_run(flaky: Flaky) -> None:
    if max(flaky.failures.values()) <= RETRIES:
        assert flaky.run().values == expected_values(flaky.case.graph)
        return
    with pytest.raises(Flaw) as raised:
        flaky.run()
    assert flaky.failures[raised.value.args[0]] > RETRIES
