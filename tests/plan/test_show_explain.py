"""Why a task stands where it stands, and what would happen elsewhere."""

import math
from typing import Any

import msgspec
import pytest

from augury import AutoPlanner, PlanError, PlatformModel, task
from augury.dag.graph import build_workflow
from augury.plan.hints import OwnHint, PreLoadHint, PreWarmHint
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.predictions import FixedPredictions
from augury.plan.show.slack import slack_s
from augury.plan.timeline import Simulation
from tests.plan.showing import LARGE, SMALL, STILL, Measured, from_text, named_graph, planned

#  load[0] ─▶ resize[0] ─┐
#                        ├▶ total[0]      loads of 1 s and 2 s, resizes of 1 s, a total of 0.5 s; outputs of 1 MB,
#  load[1] ─▶ resize[1] ─┘                which take 1 s to be written and 1 s to be read
PAIR = named_graph(("load", ()), ("load", ()), ("resize", [0]), ("resize", [1]), ("total", [2, 3]))


def pair(**options: Any) -> Plan:
    times = {"load[0]": 1.0, "load[1]": 2.0, "resize": 1.0, "total": 0.5}
    return planned(PAIR, [0, 1, 0, 1, 0], times, 1e6, **options)


def test_everything_about_a_task_is_told() -> None:
    assert str(pair().explain("total[0]")).splitlines() == [
        "total[0] on w0 (512 MB, 1 CPU), with load[0], resize[0]",
        "  inputs     resize[0] (1.0 MB), resize[1] (1.0 MB); 1.0 MB from its own worker, 1.0 MB through storage",
        "  ready      4.50 s, after resize[1]",
        "  downloads  1.00 s, until 5.50 s",
        "  executes   500 ms, until 6.00 s",
        "  uploads    1.00 s, until 7.00 s",
        "  slack      none: it is on the critical path",
        "  evidence   given by hand",
        "  elsewhere  alone on a worker of its own: +1.00 s, +$0",
        "             on w1 with resize[1]: -1.00 s, -$0.0010",
        "             all of w0 with 1,024 MB, 1 CPU: +0 s, +$0.0035",
    ]


def test_the_same_can_be_read_as_data() -> None:
    told = pair().explain("total[0]")
    assert (told.task, told.label, told.worker, told.flexible, told.resources) == (4, "total[0]", "w0", False, SMALL)
    assert told.beside == (0, 2)
    assert told.inputs is not None
    assert [(one.task, one.size_bytes, one.here) for one in told.inputs] == [(2, 1e6, True), (3, 1e6, False)]
    assert (told.local_bytes, told.stored_bytes) == (1e6, 1e6)
    assert told.times is not None
    assert (told.times.ready_s, told.times.execute_s, told.times.executed_s, told.times.end_s) == (4.5, 5.5, 6.0, 7.0)
    assert (told.waits_for, told.follows, told.critical, told.slack_s) == ("resize[1]", "", True, 0.0)
    assert (told.evidence, told.measurements) == ("given by hand", 0)
    assert [(one.what, one.makespan_s) for one in told.elsewhere] == [
        ("alone on a worker of its own", 1.0),
        ("on w1 with resize[1]", -1.0),
        ("all of w0 with 1,024 MB, 1 CPU", 0.0),
    ]
    assert told.elsewhere[1].simulation.makespan_s == 6.0


def test_what_a_prediction_rests_on_is_told() -> None:
    told = planned(named_graph(("load", ())), [0], predictions=Measured(2.0)).explain(0)
    assert (told.evidence, told.measurements) == ("24 measurements: same function, 24 runs", 24)


def test_a_task_that_queues_says_behind_whom() -> None:
    #  load[0], load[1], load[2], all on one worker
    plan = planned(named_graph(*[("load", ())] * 3), [0, 0, 0])
    told = plan.explain("load[2]")
    assert told.follows == "load[1]"
    assert "  queues     2.00 s, until 2.50 s, behind load[1]" in str(told).splitlines()


def test_a_task_alone_on_its_worker_is_not_moved_to_another_one_of_its_own() -> None:
    told = planned(named_graph(("load", ())), [0]).explain(0)
    assert [one.what for one in told.elsewhere] == ["its worker with 1,024 MB, 1 CPU"]
    assert str(told).startswith("load[0] on w0 (512 MB, 1 CPU), alone\n")


def test_the_configurations_next_to_its_own_are_tried() -> None:
    graph = named_graph(("load", ()))
    middle = planned(graph, [0], resources={0: msgspec.structs.replace(SMALL, memory_mb=1024)})
    assert [one.what for one in middle.explain(0).elsewhere] == [
        "its worker with 512 MB, 1 CPU",
        "its worker with 2,048 MB, 2 CPUs",
    ]


def test_a_configuration_or_worker_with_too_little_memory_is_not_tried() -> None:
    #  load ─▶ heavy      which needs 1,500 MB
    graph = named_graph(("load", ()), ("heavy", [0]))
    needy = FixedPredictions(1.0, peak_mb={"heavy": 1500})
    plan = planned(graph, [0, 1], resources={1: LARGE}, predictions=needy)
    assert [one.what for one in plan.explain("heavy[0]").elsewhere] == []


def test_at_most_three_owners_of_inputs_are_tried_those_of_the_largest() -> None:
    #  five loads on five workers ─▶ total on a sixth
    graph = named_graph(*[("load", ())] * 5, ("total", range(5)))
    plan = planned(graph, range(6), output_bytes=lambda task: 1e5 * (task + 1))
    tried = [one.what for one in plan.explain("total[0]").elsewhere if one.what.startswith("on w")]
    assert tried == ["on w4 with load[4]", "on w3 with load[3]", "on w2 with load[2]"]


def test_a_task_that_any_worker_may_run_says_where_it_is_expected() -> None:
    told = planned(named_graph(("load", ()), ("total", [0])), [None, None]).explain("total[0]")
    assert str(told).startswith("total[0] on t0 (512 MB, 1 CPU), which workers choose, with load[0]\n")
    assert told.flexible
    assert [one.what for one in told.elsewhere] == ["alone on a worker of its own", "its worker with 1,024 MB, 1 CPU"]


# ── hints ──────────────────────────────────────────────────────────────────────────────────────────────────────


class HalfASecond(Outlook):
    """A simulator on which each pre-warming saves half a second, and costs a hundredth of a dollar."""

    def simulate(self, plan: Plan) -> Simulation:
        run = super().simulate(msgspec.structs.replace(plan, hints={}))
        warmed = sum(isinstance(hint, PreWarmHint) for hints in plan.hints.values() for hint in hints)
        return msgspec.structs.replace(
            run, makespan_s=run.makespan_s - 0.5 * warmed, cost_usd=run.cost_usd + 0.01 * warmed
        )


def test_each_hint_is_told_with_what_it_saves() -> None:
    hints = {0: (PreWarmHint(SMALL), OwnHint("compress")), 1: (PreWarmHint(SMALL),)}
    plan = pair(hints=hints, policies={"compress": b""})
    told = msgspec.structs.replace(plan, outlook=HalfASecond(PAIR, platform=STILL)).explain("load[0]")
    assert told.hints == hints[0]
    assert [(one.makespan_s, one.cost_usd) for one in told.without_hints] == [(0.5, pytest.approx(-0.01)), (0.0, 0.0)]
    lines = str(told).splitlines()
    assert "  hint       pre-warm: saves 500 ms, costs $0.010" in lines
    assert "             compress: changes nothing" in lines


def test_hints_of_a_plan_from_text_are_named() -> None:
    lines = str(from_text(pair(hints={0: (PreLoadHint(),)})).explain(0)).splitlines()
    assert lines[-1] == "  hint       pre-load"


# ── which task ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_is_given_by_number_label_or_itself() -> None:
    @task
    def load(number: int) -> int:
        return number

    @task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    loads = [load(number) for number in range(3)]
    graph = build_workflow(total(loads)).graph
    plan = planned(graph, [0, 0, 0, 0])
    assert plan.explain(1).label == plan.explain("load[1]").label == plan.explain(loads[1]).label == "load[1]"
    with pytest.raises(PlanError, match=r"<task load, not run yet> is not a task of the workflow"):
        plan.explain(load(7))
    with pytest.raises(PlanError, match="is not a task of the workflow"):
        from_text(plan).explain(loads[1])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (5, r"the plan has no task=5: give a number from 0 to 4, a label such as 'load\[0\]', or the task itself"),
        (-1, "the plan has no task=-1"),
        (True, "the plan has no task=True"),
        (None, "the plan has no task=None"),
        ("load[2]", r"the workflow has no task='load\[2\]'; its tasks of load are load\[0\] to load\[1\]"),
        ("load", r"labels look like 'load\[0\]', and its functions are load, resize, total"),
        ("lode[0]", r"the workflow has no task='lode\[0\]'; labels look like"),
        ("load[x]", r"its tasks of load are"),
    ],
)
def test_a_task_that_is_not_there_is_refused(task: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        pair().explain(task)


# ── plans that know less ───────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_from_text_says_what_it_can() -> None:
    assert str(from_text(pair()).explain(4)).splitlines() == [
        "task 4 on w0 (512 MB, 1 CPU), with 2 tasks",
        "  inputs     not known: the plan was read from text",
        "  ready      4.50 s",
        "  downloads  1.00 s, until 5.50 s",
        "  executes   500 ms, until 6.00 s",
        "  uploads    1.00 s, until 7.00 s",
        "  slack      none: it is on the critical path",
        "  evidence   not known: the plan was read from text",
    ]
    with pytest.raises(PlanError, match=r"does not know labels: give the number of task='total\[0\]'"):
        from_text(pair()).explain("total[0]")


def test_a_plan_without_prediction_says_where_and_what() -> None:
    plan = msgspec.structs.replace(pair(), predicted=None, outlook=None)
    told = plan.explain("total[0]")
    assert str(told).splitlines()[:2] == [
        "total[0] on w0 (512 MB, 1 CPU), with load[0], resize[0]",
        "  inputs     resize[0], resize[1]; 1 from its own worker, 1 through storage",
    ]
    assert (told.times, told.slack_s, told.elsewhere) == (None, None, ())
    assert math.isnan(told.local_bytes)
    flexible = planned(named_graph(("load", ())), [None])
    unpredicted = msgspec.structs.replace(flexible, predicted=None, outlook=None)
    assert str(unpredicted.explain(0)).startswith("load[0] on any worker (512 MB, 1 CPU), alone")


# ── slack ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_slack_is_how_much_later_a_task_could_end() -> None:
    #  short (1 s) ─┐
    #               ├▶ total      each on a worker of its own: the short one could take 2 s longer
    #  long  (3 s) ─┘
    graph = named_graph(("short", ()), ("long", ()), ("total", [0, 1]))
    plan = planned(graph, [0, 1, 2], {"short": 1.0, "long": 3.0, "total": 1.0})
    assert plan.predicted is not None
    assert slack_s(graph, plan.predicted) == [2.0, 0.0, 0.0]
    assert "  slack      2.00 s until it would hold up the run" in str(plan.explain("short[0]")).splitlines()


def test_slack_passes_along_a_chain_and_through_places() -> None:
    #  a (1 s) ─▶ b (1 s) ─┐
    #                      ├▶ total      the worker of a and b runs c between them
    #  long (6 s) ─────────┘
    graph = named_graph(("a", ()), ("b", [0]), ("long", ()), ("c", ()), ("total", [1, 2]))
    plan = planned(graph, [0, 0, 1, 0, 1], {"long": 6.0, "a": 1.0, "b": 1.0, "c": 1.0, "total": 1.0})
    assert plan.predicted is not None
    assert slack_s(graph, plan.predicted) == [3.0, 3.0, 0.0, 3.0, 0.0]


def test_tasks_that_take_no_time_have_their_slack_too() -> None:
    graph = named_graph(*[("quick", ())] * 4, ("long", ()), ("total", range(5)))
    plan = planned(graph, [0, 0, 0, 0, 1, 1], {"long": 2.0})
    assert plan.predicted is not None
    assert slack_s(graph, plan.predicted)[:4] == [2.0, 2.0, 2.0, 2.0]


def test_alternatives_know_the_workflow_too() -> None:
    @task
    def square(x: int) -> int:
        return x * x

    plan = square(square(2)).plan(AutoPlanner(), predictions=FixedPredictions(10.0), platform=PlatformModel())
    found = plan.pareto()
    assert found
    for one in found:
        assert one.explain("square[1]").task == 1
        assert "square" in str(one)
