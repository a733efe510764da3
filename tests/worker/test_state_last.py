"""A report that may be the last: nothing is left to do after it, as far as one can tell."""

from collections.abc import Sequence

from augury.plan.hints import TaskDupHint
from augury.storage.protocols import Outcome, Status
from augury.worker import messages as m
from tests.worker.shapes import Core


def finished(core: Core, *tasks: int) -> bool:
    """Whether the report after these tasks may be the last."""
    for task in tasks:
        core.finish(task)
    return core.was_last


def fan_in(inputs: int) -> Sequence[Sequence[int]]:
    """0 … n-1 ──▶ n"""
    return [*[[]] * inputs, list(range(inputs))]


def test_the_report_of_a_flexible_worker_that_has_nothing_else_to_do_is() -> None:
    core = Core([[]], sinks=[0])
    core.begin(0)
    assert finished(core, 0)


def test_who_has_left_with_it_does_nothing_more() -> None:
    core = Core([[], []], sinks=[0, 1])
    core.begin(0)
    core.finish(0)
    assert core.tell(m.Reported(Outcome(Status.RUNNING, left=True))) == [m.Discard((0,)), m.Leave(Status.RUNNING)]
    assert core.state.over


def test_who_has_not_leaves_as_always() -> None:
    core = Core([[], []], sinks=[0, 1])
    core.begin(0)
    core.finish(0)
    assert core.tell(m.Reported(Outcome(Status.RUNNING))) == [m.Discard((0,)), m.Leave(Status.RUNNING)]


def test_not_while_tasks_wait_here() -> None:
    core = Core([[], []], sinks=[0, 1])
    core.begin(0, 1)
    core.finish(0)
    core.tell(m.FlushDue(0.0))
    assert not core.was_last
    core.answer()
    assert finished(core, 1)


def test_not_while_planned_tasks_wait_for_others() -> None:
    """0 ──▶ 2 ◀── 1; w0: 0, 2   w1: 1"""
    core = Core([[], [], [0, 1]], "w0", planned={0: 0, 1: 1, 2: 0})
    core.begin()
    core.finish(0)
    assert not core.was_last


def test_the_report_of_a_planned_worker_is_whoever_goes_on() -> None:
    """0 ──▶ 1; w0: 0   w1: 1"""
    core = Core([[], [0]], "w0", planned={0: 0, 1: 1})
    core.begin()
    assert finished(core, 0)


def test_not_if_it_may_well_make_a_task_ready_that_is_ours_then() -> None:
    core = Core(fan_in(3))
    core.begin(0)
    assert not finished(core, 0)


def test_if_that_is_unlikely() -> None:
    core = Core(fan_in(4))
    core.begin(0)
    assert finished(core, 0)


def test_not_with_claims() -> None:
    core = Core([[], [0], [0]])
    core.begin(0)
    assert not finished(core, 0), "somebody else is asked to go on with one of the two"


def test_not_with_hints_that_are_acted_on_at_the_end() -> None:
    """0 ──▶ 1; w0: 0   w1: 1, which w0 may run too"""
    core = Core([[], [0]], "w0", planned={0: 0, 1: 1}, hints={1: (TaskDupHint(produce_s=0.0, arrives_s=1.0),)})
    core.begin()
    assert not finished(core, 0)


def test_not_while_an_output_is_being_stored() -> None:
    """0 ──▶ 2 and 1 ──▶ 2; w0: 0, 1   w1: 2; the output of 0 is large"""
    core = Core([[], [], [0, 1]], "w0", planned={0: 0, 1: 0, 2: 1})
    core.begin()
    core.finish(0, size_bytes=10**6)
    core.finish(1)
    assert not core.was_last
