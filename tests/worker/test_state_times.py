"""What the core tells of time: when a task became ready, and how long its inputs took to come.

The core reads no clock. What time it is comes with the events.
"""

from augury.worker.messages import Began, Command, Event, Fetched, InputsReady, Run, TaskFinished, TaskRaised
from augury.worker.state import WorkerState
from augury.worker.view import RunView
from tests.worker.shapes import graph_of, plan_of


def new_state(deps: list[list[int]], name: str, planned: dict[int, int] | None = None, retries: int = 0) -> WorkerState:
    graph = graph_of(deps, retries=retries)
    plan = plan_of(graph, planned)
    return WorkerState(RunView(graph, plan, concurrency=4, inline_bytes=100), name, plan.assignments[0].resources)


def runs(state: WorkerState, event: Event, now_s: float) -> list[Run]:
    commands: list[Command] = state.handle(event, now_s)
    return [command for command in commands if isinstance(command, Run)]


def test_a_task_that_waits_for_a_slot_became_ready_when_the_worker_began() -> None:
    state = new_state([[], []], "t0")
    assert runs(state, Began((0, 1)), 5.0) == [Run(0, 1, 5.0)]
    assert runs(state, TaskFinished(0), 9.0) == [Run(1, 1, 5.0)]


def test_a_local_consumer_becomes_ready_with_its_last_input() -> None:
    """0, 1 → 2      w0: all of them"""
    state = new_state([[], [], [0, 1]], "w0", {0: 0, 1: 0, 2: 0})
    runs(state, Began(), 1.0)
    runs(state, TaskFinished(0), 2.0)
    assert runs(state, TaskFinished(1), 4.0) == [Run(2, 1, 4.0)]


def test_the_time_that_inputs_take_to_come_is_told_apart() -> None:
    """0 → 1      w0: 0      w1: 1"""
    state = new_state([[], [0]], "w1", {0: 0, 1: 1})
    runs(state, Began(), 1.0)
    assert runs(state, InputsReady(1), 3.0) == []
    assert runs(state, Fetched((0,)), 7.5) == [Run(1, 1, 3.0, 4.5)]


def test_a_task_whose_inputs_came_early_still_waits_for_its_turn() -> None:
    """0 → 1, 2      w0: 0      w1: 1, 2; they run one after the other"""
    state = new_state([[], [0], [0]], "w1", {0: 0, 1: 1, 2: 1})
    runs(state, Began(), 1.0)
    runs(state, InputsReady(1), 2.0)
    runs(state, InputsReady(2), 2.0)
    assert runs(state, Fetched((0,)), 3.0) == [Run(1, 1, 2.0, 1.0)]
    assert runs(state, TaskFinished(1), 8.0) == [Run(2, 1, 2.0, 1.0)]


def test_another_try_is_ready_when_the_last_one_failed() -> None:
    state = new_state([[]], "t0", retries=1)
    runs(state, Began((0,)), 1.0)
    assert runs(state, TaskRaised(0, b"", retryable=True), 6.0) == [Run(0, 2, 6.0)]
