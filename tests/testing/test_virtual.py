"""Whole runs in virtual time: what they come to, how long they take, what they cost, and how they fail."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from augury.config import Resources
from augury.errors import PlanError, TaskFailed
from augury.plan.hints import Hint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.model import PlatformModel, Timing
from augury.plan.plan import Plan
from augury.plan.planners.uniform import UniformPlanner
from augury.storage.memory import MemoryCoordination
from augury.testing import Deadlock, VirtualPlatform
from augury.worker.retries import pause_s
from tests.strategies import call, evaluate, large_array, number, same
from tests.worker.shapes import BIG, graph_of, plan_of

CHAIN = graph_of([[], [0], [1]])
FAN_OUT = graph_of([[], *[[0]] * 6])


def count(task: int, inputs: Mapping[int, Any]) -> int:
    """How many tasks lead to this one."""
    return 1 + sum(map(int, inputs.values()))


class TestTime:
    def test_a_chain_takes_the_sum_of_its_tasks(self) -> None:
        run = VirtualPlatform().run(CHAIN, plan_of(CHAIN), count, duration_s=2.0)
        assert run.values == {2: 3}
        assert run.makespan_s == 6.0
        assert [(span.task, span.start_s, span.end_s) for span in run.timeline] == [
            (0, 0.0, 2.0),
            (1, 2.0, 4.0),
            (2, 4.0, 6.0),
        ]

    def test_durations_may_differ_by_task(self) -> None:
        run = VirtualPlatform().run(CHAIN, plan_of(CHAIN), count, duration_s={0: 5.0, 2: 1.0})
        assert run.makespan_s == 6.0
        run = VirtualPlatform().run(CHAIN, plan_of(CHAIN), count, duration_s=lambda task: 10.0**task)
        assert run.makespan_s == 111.0

    def test_a_fan_out_is_shared_by_the_slots_there_are(self) -> None:
        """0 → 1 … 6: on three slots two tasks each"""
        run = VirtualPlatform(slots=3).run(FAN_OUT, plan_of(FAN_OUT), count, duration_s=1.0)
        assert run.makespan_s == 3.0
        assert run.max_concurrent == 3

    def test_on_one_slot_a_fan_out_stays_with_one_invocation(self) -> None:
        """0 → 1 … 6"""
        run = VirtualPlatform(slots=1).run(FAN_OUT, plan_of(FAN_OUT), count)
        assert len(run.invocations) == 1

    def test_a_cold_start_delays_and_a_warm_one_delays_less(self) -> None:
        """0 → 1      w0: 0      w1: 1, which finds the environment of w0 if there is one slot"""
        graph = graph_of([[], [0]])
        platform = VirtualPlatform(slots=1, cold_start_s=3.0, warm_start_s=0.5)
        run = platform.run(graph, plan_of(graph, {0: 0, 1: 1}), count, duration_s=1.0)
        assert run.makespan_s == 3.0 + 1.0 + 0.5 + 1.0
        assert run.cold_starts == 1

    def test_storage_takes_round_trips(self) -> None:
        """0 → 1      w0: 0      w1: 1: join, run, report; start; join, listen, run, report"""
        graph = graph_of([[], [0]])
        run = VirtualPlatform(latency_s=0.1).run(graph, plan_of(graph, {0: 0, 1: 1}), count, duration_s=1.0)
        first_s = 0.1 + 1.0 + 0.1
        second_s = 0.1 + 0.1 + 1.0 + 0.05  # the fetch is a round trip; the run is over when the report arrives
        assert run.makespan_s == pytest.approx(first_s + second_s)

    def test_large_outputs_take_their_time(self) -> None:
        """0 → 1      w0: 0      w1: 1: written and read at 100 MB/s"""
        graph = graph_of([[], [0]])
        platform = VirtualPlatform(bandwidth_bytes_s=100e6)
        run = platform.run(graph, plan_of(graph, {0: 0, 1: 1}), count, size_bytes={0: 200_000_000})
        assert run.makespan_s == pytest.approx(4.0)
        assert run.stored == {0: 200_000_000, 1: run.stored[1]}
        assert run.stored_bytes == 200_000_000 + run.stored[1]

    def test_two_cpus_run_two_tasks(self) -> None:
        """0, 1 → 2      w0: all of them"""
        graph = graph_of([[], [], [0, 1]])
        together = dict.fromkeys(range(3), 0)
        plan = plan_of(graph, together)
        assert VirtualPlatform().run(graph, plan, count, duration_s=1.0).makespan_s == 3.0
        plan = plan_of(graph, together, dict.fromkeys(range(3), Resources(cpus=2)))
        assert VirtualPlatform().run(graph, plan, count, duration_s=1.0).makespan_s == 2.0


class TestModel:
    def test_a_platform_is_made_of_a_model_and_gives_it_back(self) -> None:
        model = PlatformModel(
            timing=Timing(cold_start_s=2.0, warm_start_s=0.1, latency_s=0.01, bandwidth_bytes_s=1e6, crowd_s=0.5),
            timings={BIG: Timing(latency_s=0.5)},
            concurrency=3,
            keep_alive_s=60.0,
            warm={BIG: 2},
            inline_bytes=10,
            flush_s=0.2,
            grace_s=0.3,
            progress_s=0.4,
        )
        assert VirtualPlatform.of(model).model == model
        platform = VirtualPlatform.of(model, seed=7, check_invariants=True)
        assert (platform.seed, platform.check_invariants) == (7, True)

    def test_configurations_have_their_own_latency_and_bandwidth(self) -> None:
        """0 → 1      w0: 0      w1: 1, which is twice as large, nearer and faster"""
        graph = graph_of([[], [0]])
        near = Timing(cold_start_s=0.0, warm_start_s=0.0, latency_s=0.01, bandwidth_bytes_s=400.0)
        platform = VirtualPlatform(latency_s=0.1, bandwidth_bytes_s=100.0, inline_bytes=10, timings={BIG: near})
        plan = plan_of(graph, {0: 0, 1: 1}, {1: BIG})
        run = platform.run(graph, plan, count, size_bytes={0: 400, 1: 1})
        first_s = 0.1 + (4.0 + 0.1) + 0.1  # join; store; report
        second_s = 0.01 + (1.0 + 0.015) + 0.005  # join; fetch; the report arrives
        assert run.makespan_s == pytest.approx(first_s + second_s)

    def test_durations_may_depend_on_what_the_worker_has(self) -> None:
        """0 → 1      w0: 0      w1: 1, which is twice as large"""
        graph = graph_of([[], [0]])
        plan = plan_of(graph, {0: 0, 1: 1}, {1: BIG})
        run = VirtualPlatform().run(
            graph, plan, count, duration_s=lambda task, resources: (task + 1) * 4096 / resources.memory_mb
        )
        assert [(span.task, span.end_s - span.start_s) for span in run.timeline] == [(0, 2.0), (1, 2.0)]

    @pytest.mark.parametrize("pause_s", [0.0, float("inf")])
    def test_time_goes_on_however_short_or_long_pauses_are(self, pause_s: float) -> None:
        """0, 1 → 2      w0: 0      w1: 1, 2"""
        graph = graph_of([[], [], [0, 1]])
        platform = VirtualPlatform(flush_s=pause_s, progress_s=pause_s, grace_s=pause_s)
        run = platform.run(graph, plan_of(graph, {0: 0, 1: 1, 2: 1}), count, duration_s={0: 3.0, 2: 3.0})
        assert run.makespan_s == 6.0

    def test_the_client_pre_warms_what_the_plan_says(self) -> None:
        """0 → 1      w0: 0      w1: 1, which finds a warm environment"""
        graph = graph_of([[], [0]])
        hints = (PreWarmHint(BIG), PreWarmHint(BIG, 2, after_s=2.0))
        plan = structs.replace(plan_of(graph, {0: 0, 1: 1}, {1: BIG}), launch=hints)
        run = VirtualPlatform(cold_start_s=1.0).run(graph, plan, count, duration_s=5.0)
        assert [(span.start_s, span.end_s) for span in run.prewarms] == [(0.0, 1.0), (2.0, 3.0)]
        assert run.makespan_s == 1.0 + 5.0 + 5.0
        assert run.cold_starts == 1


class TestHints:
    """
    0 ───┐
         ├─ 2      w0: 0      w1: 1, 2
    1 ───┘
    """

    GRAPH = graph_of([[], [], [0, 1]])
    PLAN = plan_of(GRAPH, {0: 0, 1: 1, 2: 1})

    def hinted(self, task: int, hint: Hint) -> Plan:
        return structs.replace(self.PLAN, hints={task: (hint,)})

    def test_a_pre_warmed_environment_saves_a_cold_start(self) -> None:
        """0 → 1      w0: 0      w1: 1, which is larger"""
        graph = graph_of([[], [0]])
        plan = plan_of(graph, {0: 0, 1: 1}, {1: BIG})
        platform = VirtualPlatform(cold_start_s=2.0, warm_start_s=0.5)
        assert platform.run(graph, plan, count, duration_s=5.0).makespan_s == 2.0 + 5.0 + 2.0 + 5.0
        plan = structs.replace(plan, hints={0: (PreWarmHint(BIG, after_s=1.0),)})
        run = platform.run(graph, plan, count, duration_s=5.0)
        assert run.makespan_s == 2.0 + 5.0 + 0.5 + 5.0
        assert [(span.resources, span.start_s, span.end_s) for span in run.prewarms] == [(BIG, 3.0, 5.0)]

    def test_a_pre_loaded_input_comes_while_another_task_runs(self) -> None:
        platform = VirtualPlatform(bandwidth_bytes_s=100.0, inline_bytes=10)
        times: dict[str, Any] = {"duration_s": {1: 10.0, 2: 1.0}, "size_bytes": {0: 300, 1: 1, 2: 1}}
        assert platform.run(self.GRAPH, self.PLAN, count, **times).makespan_s == 10.0 + 3.0 + 1.0
        run = platform.run(self.GRAPH, self.hinted(2, PreLoadHint()), count, **times)
        assert run.makespan_s == 10.0 + 1.0  # 0 was stored by 3 s, and here by 6 s
        assert [span.fetched for span in run.invocations if span.worker == "w1"] == [(0,)]

    def test_a_worker_that_waits_runs_the_task_too_and_the_slower_one_stops(self) -> None:
        """It takes 9 s on w0, and 3 s on w1, which is larger"""
        plan = plan_of(self.GRAPH, {0: 0, 1: 1, 2: 1}, {1: BIG, 2: BIG})
        plan = structs.replace(plan, hints={0: (TaskDupHint(produce_s=3.0, arrives_s=9.0),)})

        def duration_s(task: int, resources: Resources) -> float:
            return {0: 18432.0 / resources.memory_mb, 1: 1.0, 2: 1.0}[task]

        run = VirtualPlatform().run(self.GRAPH, plan, count, duration_s=duration_s)
        assert run.values == {2: 3}
        assert [(s.task, s.worker, s.end_s, s.duplicate, s.abandoned) for s in run.timeline] == [
            (1, "w1", 1.0, False, False),
            (0, "w1", 5.5, True, False),
            (0, "w0", 5.5, False, True),
            (2, "w1", 6.5, False, False),
        ]
        assert (run.makespan_s, run.ran, run.executions) == (6.5, 3, {0: 2, 1: 1, 2: 1})

    def test_what_cannot_be_stopped_runs_to_its_end(self) -> None:
        plan = self.hinted(0, TaskDupHint(produce_s=0.0, arrives_s=0.0))
        durations_s = iter([9.0, 1.0])
        run = VirtualPlatform(interruptible=False).run(
            self.GRAPH, plan, count, duration_s=lambda task: next(durations_s) if task == 0 else 0.0
        )
        assert run.makespan_s == 1.0
        assert [(s.worker, s.end_s, s.abandoned) for s in run.timeline if s.task == 0] == [
            ("w1", 1.0, False),
            ("w0", 9.0, True),
        ]

    def test_ranks_decide_which_of_the_ready_tasks_goes_first(self) -> None:
        """0 → 1, 2, 3      all on w0"""
        graph = graph_of([[], [0], [0], [0]])
        plan = structs.replace(plan_of(graph, dict.fromkeys(range(4), 0)), ranks=(0, 3, 1, 2))
        run = VirtualPlatform().run(graph, plan, count, duration_s=1.0)
        assert [span.task for span in run.timeline] == [0, 2, 3, 1]


class TestSlots:
    #   0 ─┐
    #      ├─ 2      w0: 0, 2      w1: 1
    #   1 ─┘
    GRAPH = graph_of([[], [], [0, 1]])
    PLAN = plan_of(GRAPH, {0: 0, 1: 1, 2: 0})

    def test_a_worker_that_waits_gives_its_slot_to_one_that_cannot_start(self) -> None:
        run = VirtualPlatform(slots=1, grace_s=0.5).run(self.GRAPH, self.PLAN, count)
        assert run.values == {2: 3}
        assert run.executions == {0: 1, 1: 1, 2: 1}
        assert [(span.worker, span.attempt, span.suspended) for span in run.invocations] == [
            ("w0", 1, True),
            ("w1", 1, False),
            ("w0", 2, False),
        ]
        assert run.makespan_s == 0.5

    def test_with_slots_for_all_nobody_gives_one_up(self) -> None:
        run = VirtualPlatform(slots=2).run(self.GRAPH, self.PLAN, count, duration_s={1: 100.0})
        assert [span.suspended for span in run.invocations] == [False, False]

    def test_a_run_that_can_make_no_progress_says_what_everyone_waits_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(MemoryCoordination, "suspend", lambda *_: False)
        with pytest.raises(Deadlock) as raised:
            VirtualPlatform(slots=1).run(self.GRAPH, self.PLAN, count)
        assert "w0 (attempt 1) waits for inputs of f[2]" in str(raised.value)
        assert "w1 waits for a slot" in str(raised.value)
        assert "never run: f[1], f[2]" in str(raised.value)

    def test_a_wake_up_that_is_lost_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(MemoryCoordination, "read", lambda _, __, cursor, ___: (cursor, []))
        with pytest.raises(Deadlock, match=r"waits for inputs of f\[2\]"):
            VirtualPlatform(slots=2).run(self.GRAPH, self.PLAN, count, duration_s=1.0)


class TestFailures:
    @staticmethod
    def failing(times: int) -> Any:
        """Task 1 raises so many times."""
        left = [times]

        def evaluate_or_raise(task: int, inputs: Mapping[int, Any]) -> int:
            if task == 1 and left[0]:
                left[0] -= 1
                raise ZeroDivisionError("one divided by none")
            return count(task, inputs)

        return evaluate_or_raise

    def test_the_exception_of_a_task_is_raised_with_the_story_behind_it(self) -> None:
        with pytest.raises(ZeroDivisionError, match="one divided by none") as raised:
            VirtualPlatform().run(CHAIN, plan_of(CHAIN), self.failing(1))
        assert isinstance(raised.value.__cause__, TaskFailed)
        assert "f[1] failed" in str(raised.value.__cause__)
        assert "f[1] → f[2]" in str(raised.value.__cause__)

    def test_retries_are_executions(self) -> None:
        graph = graph_of(CHAIN.deps, retries=2)
        run = VirtualPlatform().run(graph, plan_of(graph), self.failing(2), duration_s=1.0)
        assert run.values == {2: 3}
        assert run.executions == {0: 1, 1: 3, 2: 1}
        assert run.makespan_s == 5.0

    def test_a_task_waits_longer_and_longer_for_its_next_try(self) -> None:
        graph = graph_of(CHAIN.deps, retries=2, backoff_s=10.0)
        run = VirtualPlatform().run(graph, plan_of(graph), self.failing(2), duration_s=1.0)
        assert run.executions == {0: 1, 1: 3, 2: 1}
        pauses = [pause_s(graph.info(1), "virtual", 1, tries) for tries in (1, 2)]
        assert run.makespan_s == pytest.approx(5.0 + sum(pauses))

    def test_other_tasks_run_while_one_waits_for_its_next_try(self) -> None:
        """0 → 1 → 2, and 0 → 3 → 4, all on w0; 1 fails once"""
        graph = graph_of([[], [0], [1], [0], [3]], retries=1, backoff_s=10.0)
        run = VirtualPlatform().run(graph, plan_of(graph, dict.fromkeys(range(5), 0)), self.failing(1), duration_s=1.0)
        assert [span.task for span in run.timeline] == [0, 1, 3, 4, 1, 2]
        assert run.makespan_s == pytest.approx(4.0 + pause_s(graph.info(1), "virtual", 1, 1))

    def test_only_exceptions_that_are_worth_it_are_tried_again(self) -> None:
        graph = graph_of(CHAIN.deps, retries=2)
        functions = (structs.replace(graph.functions[0], retry_on=("builtins.OSError",)),)
        choosy = structs.replace(graph, functions=functions)
        with pytest.raises(ZeroDivisionError):
            VirtualPlatform().run(choosy, plan_of(choosy), self.failing(1))

    def test_workers_that_wait_are_stopped(self) -> None:
        """0 → 1 → 2      w0: 0, 2      w1: 1"""
        with pytest.raises(ZeroDivisionError):
            VirtualPlatform().run(CHAIN, plan_of(CHAIN, {0: 0, 1: 1, 2: 0}), self.failing(1))

    def test_a_plan_for_another_workflow_is_refused(self) -> None:
        with pytest.raises(PlanError):
            VirtualPlatform().run(CHAIN, plan_of(FAN_OUT), count)


class TestOrder:
    def test_a_seed_gives_the_same_run_again(self) -> None:
        platform = VirtualPlatform(slots=3, seed=7)
        assert platform.run(FAN_OUT, plan_of(FAN_OUT), count) == platform.run(FAN_OUT, plan_of(FAN_OUT), count)

    def test_seeds_give_different_interleavings(self) -> None:
        runs = [VirtualPlatform(slots=3, seed=seed).run(FAN_OUT, plan_of(FAN_OUT), count) for seed in range(10)]
        orders = {tuple(span.task for span in run.timeline) for run in runs}
        assert len(orders) > 1


class TestWorkflows:
    def test_real_tasks_run_and_the_result_has_the_shape_that_was_asked_for(self) -> None:
        first = call(number, 1)
        outputs = {"all": [call(number, first, 2), call(large_array, first)], "first": first}
        run = VirtualPlatform(slots=2).run_workflow(outputs, duration_s=60.0)
        assert same(run.result, evaluate(outputs))
        assert run.makespan_s == 120.0

    def test_a_planner_may_be_given(self) -> None:
        leaves = [call(number, index) for index in range(8)]
        run = VirtualPlatform().run_workflow(call(number, leaves), plan=UniformPlanner(max_clustering=4))
        assert {span.worker for span in run.invocations} == {"w0", "w1"}

    def test_large_constants_arrive(self) -> None:
        outputs = call(number, b"x" * 1_000_000)
        assert same(VirtualPlatform().run_workflow(outputs).result, evaluate(outputs))


def test_platforms_are_values() -> None:
    platform = VirtualPlatform(slots=3)
    assert replace(platform, slots=4) == VirtualPlatform(slots=4)
