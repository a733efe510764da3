"""A plan as text: who runs what, when, at what price, and what that rests on."""

from typing import Any

import msgspec
import pytest

from augury.config import Resources
from augury.plan.hints import OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.model import PlatformModel, Timing
from augury.plan.plan import Plan
from augury.plan.show.table import MOST_LINES, interval
from augury.predict.sla import SLA, Percentile
from tests.plan.showing import LARGE, SMALL, Measured, fan, from_text, named_graph, planned

#  load[0] ─▶ resize[0] ─┐
#                        ├▶ total[0]      loads of 1 s and 2 s, resizes of 1 s, a total of 0.5 s; outputs of 1 MB
#  load[1] ─▶ resize[1] ─┘
PAIR = named_graph(("load", ()), ("load", ()), ("resize", [0]), ("resize", [1]), ("total", [2, 3]))


def pair(**options: Any) -> Plan:
    times = {"load[0]": 1.0, "load[1]": 2.0, "resize": 1.0, "total": 0.5}
    return planned(PAIR, [0, 1, 0, 1, 0], times, 1e6, **options)


def test_a_plan_is_a_table_of_workers_then_totals_the_critical_path_and_evidence() -> None:
    assert str(pair()).splitlines() == [
        "plan of by hand: 5 tasks on 2 workers, 7.00 s predicted",
        "  worker  resources      tasks                         start  from–to      busy",
        "  w0      512 MB, 1 CPU  load[0], resize[0], total[0]  cold   0.00–7.00 s   38%",
        "  w1      512 MB, 1 CPU  load[1], resize[1]            cold   0.00–4.50 s   75%",
        "  makespan       7.00 s",
        "  cost           $0.0057",
        "  GB-seconds     5.8",
        "  requests       2, 2 cold starts",
        "  moved          3.0 MB",
        "  critical path  load[1] 0.50–2.50 s → resize[1] 2.50–3.50 s → total[0] 5.50–6.00 s",
        "  evidence       load    given by hand",
        "                 resize  given by hand",
        "                 total   given by hand",
    ]


def test_a_plan_is_represented_by_one_line() -> None:
    assert repr(pair()) == "<plan of by hand: 5 tasks on 2 workers, 7.00 s predicted>"
    assert repr(msgspec.structs.replace(pair(), predicted=None)) == "<plan of by hand: 5 tasks on 2 workers>"


def test_a_plan_whose_tasks_any_worker_may_run_says_so() -> None:
    plan = planned(named_graph(("load", ())), [None])
    assert repr(plan) == "<plan of by hand: 1 task on 1 worker, flexible, 1.50 s predicted>"
    assert "  t0      512 MB, 1 CPU  load[0]  cold " in str(plan)


def test_hints_are_counted_by_worker() -> None:
    hints = {
        0: (PreWarmHint(SMALL), TaskDupHint(0.0, 1.0)),
        1: (PreLoadHint(),),
        3: (PreLoadHint(), OwnHint("compress")),
    }
    lines = str(pair(hints=hints, policies={"compress": b""})).splitlines()
    assert "  load[0], resize[0], total[0]  pre-warm, task-dup      cold " in lines[2]
    assert "  load[1], resize[1]            compress, pre-load × 2  cold " in lines[3]


def test_what_is_pre_warmed_at_launch_is_told() -> None:
    plan = pair(launch=(PreWarmHint(SMALL, 3), PreWarmHint(LARGE, 1)))
    assert "  at launch      4 environments pre-warmed" in str(plan).splitlines()


# ── many workers ───────────────────────────────────────────────────────────────────────────────────────────────


def test_many_workers_that_are_alike_share_a_line() -> None:
    lines = str(fan(40, per_worker=2)).splitlines()
    assert lines[1:4] == [
        "  worker       resources      tasks               start  from–to      busy",
        "  w0           512 MB, 1 CPU  load × 2, total[0]  cold   0.00–3.50 s  100%",
        "  w1…w19 (19)  512 MB, 1 CPU  each load × 2       cold   0.00–2.50 s  100%",
    ]


def test_workers_with_other_resources_have_a_line_of_their_own() -> None:
    graph = named_graph(*[("load", ())] * 20)
    plan = planned(graph, range(20), resources={7: LARGE})
    assert [line.split()[0] for line in str(plan).splitlines()[2:4]] == ["w0…w19", "w7"]


def test_workers_beyond_a_screenful_are_counted() -> None:
    # Each worker has one more task than the one before, so that no two are alike.
    owners = [worker for worker in range(40) for _ in range(worker + 1)]
    plan = planned(named_graph(*[("load", ())] * len(owners)), owners)
    lines = str(plan).splitlines()
    assert lines[2 + MOST_LINES] == f"  … and {40 - MOST_LINES} more workers"


def test_a_worker_of_very_many_functions_fits_its_line() -> None:
    graph = named_graph(*[(f"function_with_a_long_name_{number}", ()) for number in range(30)])
    lines = str(planned(graph, [0] * 30)).splitlines()
    assert max(map(len, lines)) < 120
    assert "  … and 18 more functions" in "\n".join(lines)


# ── the critical path ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_critical_path_is_shortened_in_the_middle() -> None:
    #  step[0] ─▶ step[1] ─▶ … ─▶ step[99]
    graph = named_graph(*[("step", [task - 1] if task else []) for task in range(100)])
    text = " ".join(str(planned(graph, [0] * 100)).split())
    assert "step[3] 3.50–4.50 s → … 92 more … → step[96] 96.50–97.50 s" in text
    assert "step[99] 99.50–100.50 s" in text


def test_lines_break_between_tasks_of_the_path() -> None:
    graph = named_graph(*[("step", [task - 1] if task else []) for task in range(9)])
    lines = str(planned(graph, [0] * 9)).splitlines()
    path = lines[lines.index("  moved          0 B") + 1 : -1]
    assert len(path) > 1
    assert all(line.endswith((" s →", " s")) for line in path)
    assert max(map(len, path)) <= 104


# ── intervals and evidence ─────────────────────────────────────────────────────────────────────────────────────


def test_predictions_that_know_how_much_tasks_vary_give_an_interval() -> None:
    plan = planned(named_graph(("load", ())), [0], predictions=Measured(2.0))
    assert "  makespan       2.50 s (1.50–3.50 s from p10 to p90)" in str(plan).splitlines()
    assert "  cost           $0.0013 ($0.00075–$0.0018 from p10 to p90)" in str(plan).splitlines()
    assert "  evidence       load  24 measurements: same function, 24 runs" in str(plan).splitlines()


def test_predictions_of_one_number_give_none() -> None:
    assert interval(pair()) is None


def test_a_plan_from_text_has_no_interval() -> None:
    assert interval(from_text(planned(named_graph(("load", ())), [0], predictions=Measured(2.0)))) is None


@pytest.mark.parametrize(
    ("sla", "told"), [("median", "1.50 s"), ("average", "1.50 s on average"), (Percentile(95), "1.50 s at p95")]
)
def test_a_prediction_says_which_run_it_speaks_of(sla: SLA, told: str) -> None:
    plan = planned(named_graph(("load", ())), [0], sla=sla)
    assert f"  makespan       {told}" in str(plan).splitlines()


# ── plans that know less ───────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_from_text_calls_tasks_by_their_numbers_and_keeps_what_was_predicted() -> None:
    assert str(from_text(pair())).splitlines() == [
        "plan of by hand: 5 tasks on 2 workers, 7.00 s predicted",
        "  worker  resources      tasks    start  from–to      busy",
        "  w0      512 MB, 1 CPU  3 tasks  cold   0.00–7.00 s   38%",
        "  w1      512 MB, 1 CPU  2 tasks  cold   0.00–4.50 s   75%",
        "  makespan       7.00 s",
        "  cost           $0.0057",
        "  GB-seconds     5.8",
        "  requests       2, 2 cold starts",
        "  moved          3.0 MB",
        "  critical path  task 1 0.50–2.50 s → task 3 2.50–3.50 s → task 4 5.50–6.00 s",
    ]


def test_a_plan_without_any_prediction_says_what_it_assigns() -> None:
    plan = msgspec.structs.replace(pair(), predicted=None, outlook=None)
    assert str(plan).splitlines() == [
        "plan of by hand: 5 tasks on 2 workers",
        "  worker  resources      tasks",
        "  w0      512 MB, 1 CPU  load[0], resize[0], total[0]",
        "  w1      512 MB, 1 CPU  load[1], resize[1]",
    ]


def test_a_plan_that_was_not_simulated_yet_is_when_it_is_printed() -> None:
    assert str(msgspec.structs.replace(pair(), predicted=None)) == str(pair())


def test_a_plan_that_cannot_be_carried_out_can_be_printed() -> None:
    short = msgspec.structs.replace(pair(), predicted=None, assignments=pair().assignments[:3])
    assert str(short).splitlines()[0] == "plan of by hand: 3 tasks on 2 workers"


def test_a_prediction_that_speaks_of_other_tasks_is_left_out() -> None:
    plan = from_text(pair())
    edited = msgspec.structs.replace(plan, assignments=(*plan.assignments, plan.assignments[0]))
    assert "makespan" not in str(edited)


@pytest.mark.parametrize("cpus", [0.29, 1.0, 5.79])
def test_resources_are_told_with_the_digits_that_matter(cpus: float) -> None:
    plan = planned(named_graph(("load", ())), [0], resources={0: Resources(cpus=cpus, memory_mb=1769)})
    assert f"1,769 MB, {cpus:g} CPU{'' if cpus == 1 else 's'}" in str(plan)


def test_times_of_a_short_run_are_told_in_milliseconds() -> None:
    instant = PlatformModel(timing=Timing(cold_start_s=0.0, latency_s=0.0), flush_s=0.0)
    quick = planned(named_graph(("load", ())), [0], 0.004, platform=instant)
    assert "  makespan       4.0 ms" in str(quick).splitlines()


def test_names_that_would_move_the_cursor_do_not() -> None:
    plan = planned(named_graph(("a\x1b[2Jb\n", ())), [0])
    assert "\x1b" not in str(plan)
    assert len(str(plan).splitlines()) == len(str(planned(named_graph(("load", ())), [0])).splitlines())
