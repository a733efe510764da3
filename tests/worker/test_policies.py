"""Which policies a run has, who watches what by them, and what becomes of those that misbehave."""

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from augury.config import Resources
from augury.errors import DefinitionError
from augury.plan.hints import OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.worker.advice import Advice
from augury.worker.messages import Alarm, AlarmRang, Fetch, Listen, Prewarm, Run
from augury.worker.policies import Action, Duplicate, FetchEarly, Policies, Policy, PolicyKind, PreWarm, WakeAt, packed
from augury.worker.view import RunView
from tests.worker.shapes import BIG, Core

DUP = TaskDupHint(0.0, 1.0)


def policies_of(deps: list[list[int]], planned: dict[int, int], **plan: Any) -> Policies:
    return Policies(Core(deps, planned=planned, **plan).view)


class TestWatching:
    def test_a_plan_without_hints_has_no_policies_and_nobody_watches(self) -> None:
        policies = policies_of([[], [0]], {0: 0, 1: 1})
        assert not policies
        assert watched(policies, 2) == {}
        assert not policies.is_duplicable(0)

    def test_hints_bring_their_policies(self) -> None:
        hints = {0: (PreWarmHint(BIG), DUP), 1: (PreLoadHint(),)}
        assert list(policies_of([[], [0]], {0: 0, 1: 1}, hints=hints).kinds) == ["pre-warm", "pre-load", "task-dup"]

    def test_pre_loading_watches_the_inputs_from_elsewhere(self) -> None:
        """0, 1, 2 → 3      w0: 0      w1: 1, 3      2 is flexible"""
        policies = policies_of([[], [], [], [0, 1, 2]], {0: 0, 1: 1, 3: 1}, hints={3: (PreLoadHint(),)})
        assert watched(policies, 4) == {0: ("w1",), 2: ("w1",)}
        assert not any(map(policies.is_duplicable, range(4)))

    def test_duplication_watches_the_task_and_what_it_takes(self) -> None:
        """0, 1, 2 → 3 → 4, 5, 6      w0: 0, 3, 6      w1: 1, 4      w2: 5      2 is flexible"""
        planned = {0: 0, 1: 1, 3: 0, 4: 1, 5: 2, 6: 0}
        policies = policies_of([[], [], [], [0, 1, 2], [3], [3], [3]], planned, hints={3: (DUP,)})
        assert watched(policies, 7) == {0: ("w1", "w2"), 1: ("w2",), 2: ("w1", "w2"), 3: ("w0", "w1", "w2")}
        assert [task for task in range(7) if policies.is_duplicable(task)] == [3]
        assert [task for task in range(7) if policies.is_kept_apart(task)] == [0, 1, 2, 3]

    def test_an_input_made_by_the_only_one_who_waits_is_kept_apart_though_nobody_watches_it(self) -> None:
        """0 → 1 → 2      w0: 1      w1: 0, 2"""
        policies = policies_of([[], [0], [1]], {0: 1, 1: 0, 2: 1}, hints={1: (DUP,)})
        assert watched(policies, 3) == {1: ("w0", "w1")}
        assert policies.is_kept_apart(0)

    @pytest.mark.parametrize("planned", [{0: 0}, {1: 1}, {0: 0, 1: 0}, {}])
    def test_without_another_worker_that_waits_for_it_nobody_does(self, planned: dict[int, int]) -> None:
        """0 → 1"""
        assert watched(policies_of([[], [0]], planned, hints={0: (DUP,)}), 2) == {}

    def test_a_user_may_have_a_task_duplicated_if_its_worker_watches_it(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        policies = policies_of([[], [0]], {0: 0, 1: 1}, policies={"all": packed(WatchAll)})
        assert policies.is_duplicable(0)
        assert not policies.is_duplicable(1)

    def test_but_not_if_flexible_tasks_take_its_output(self) -> None:
        """0 → 1, 2      w0: 0      w1: 1"""
        policies = policies_of([[], [0], [0]], {0: 0, 1: 1}, policies={"all": packed(WatchAll)})
        assert not policies.is_duplicable(0)


def watched(policies: Policies, tasks: int) -> dict[int, tuple[str, ...]]:
    """Who watches what."""
    return {task: policies.watchers(task) for task in range(tasks) if policies.watchers(task)}


def watching(watches: Callable[[RunView, int], Any]) -> PolicyKind:
    """A kind of policies that only watch."""
    return cast("PolicyKind", type("Watching", (Policy,), {"watches": staticmethod(watches)}))


class WatchAll(Policy):
    """Every worker watches every task, and fetches what it hears of."""

    def __init__(self, view: RunView, worker: str) -> None:
        pass

    @staticmethod
    def watches(view: RunView, task: int) -> Iterable[str]:
        return view.tasks_of

    def completed(self, task: int, now_s: float) -> Iterable[Action]:
        return [FetchEarly((task,))]


class Clock(Policy):
    """Has an environment pre-warmed every ten seconds, as large as its hint says."""

    def __init__(self, view: RunView, worker: str) -> None:
        self._sizes = [hint.data["memory_mb"] for hint in view.hints_of(0, OwnHint)]

    def began(self, done: frozenset[int], now_s: float) -> Iterable[Action]:
        return [WakeAt(now_s + 10.0)]

    def alarm(self, now_s: float) -> Iterable[Action]:
        return [PreWarm(Resources(memory_mb=self._sizes.pop())), WakeAt(now_s + 10.0)]


class TestOwn:
    def test_a_policy_travels_with_the_plan_and_reads_its_hints(self) -> None:
        hints = {0: (OwnHint("clock", {"memory_mb": 512}),)}
        core = Core([[]], "w0", planned={0: 0}, hints=hints, policies={"clock": packed(Clock)})
        assert core.begin(now_s=5.0) == [Listen(), Run(0, ready_s=5.0), Alarm(15.0)]
        assert core.tell(AlarmRang(), 15.0) == [Prewarm(Resources(memory_mb=512)), Alarm(25.0)]

    def test_one_that_raises_is_dropped_with_its_alarms(self, caplog: pytest.LogCaptureFixture) -> None:
        hints = {0: (OwnHint("clock", {"memory_mb": 512}),)}
        core = Core([[]], "w0", planned={0: 0}, hints=hints, policies={"clock": packed(Clock)})
        core.begin()
        core.tell(AlarmRang(), 10.0)
        assert core.tell(AlarmRang(), 20.0) == []
        assert core.tell(AlarmRang(), 30.0) == []
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "w0 goes on without the policy 'clock': IndexError" in record.getMessage()

    def test_it_hears_what_it_watches(self) -> None:
        """0 → 1      w0: 0      w1: 1"""
        core = Core([[], [0]], "w1", planned={0: 0, 1: 1}, policies={"all": packed(WatchAll)})
        assert core.begin() == [Listen()]
        assert core.hear(0) == [Fetch((0,), early=True)]

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"no pickle", "cannot be used"),
            (packed(cast("PolicyKind", len)), "has no attribute 'watches'"),
            (packed(watching(lambda _, __: None)), "TypeError"),
            (packed(watching(lambda _, __: ["w9"])), "'w9', which is no worker"),
            (packed(watching(lambda _, __: 1 / 0)), "ZeroDivisionError"),
        ],
    )
    def test_one_that_cannot_be_used_is_left_out(
        self, data: bytes, message: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        policies = policies_of([[]], {0: 0}, policies={"odd": data, "fine": packed(WatchAll)})
        assert policies.watchers(0) == ("w0",)
        assert list(policies.kinds) == ["fine"]
        assert message in caplog.text

    def test_one_that_cannot_be_made_is_left_out_there(self, caplog: pytest.LogCaptureFixture) -> None:
        core = Core([[]], "w0", planned={0: 0}, policies={"odd": packed(Unmakeable)})
        assert core.begin() == [Listen(), Run(0)]
        assert "w0 goes without the policy 'odd': KeyError" in caplog.text

    def test_one_may_not_take_the_name_of_a_built_in(self, caplog: pytest.LogCaptureFixture) -> None:
        hints = {0: (PreWarmHint(BIG),)}
        policies = policies_of([[]], {0: 0}, hints=hints, policies={"pre-warm": packed(WatchAll)})
        assert policies.kinds["pre-warm"] is not WatchAll
        assert "choose another" in caplog.text


class Unmakeable(Policy):
    def __init__(self, view: RunView, worker: str) -> None:
        raise KeyError(worker)


class Scripted(Policy):
    """Answers what it is given to."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def waiting(self, now_s: float) -> Any:
        return self._answer


class TestAdvice:
    @pytest.mark.parametrize(
        "answer",
        [
            None,
            7,
            ["start"],
            [PreWarm("large")],  # type: ignore[arg-type]
            [PreWarm(BIG, 0)],
            [PreWarm(BIG, 1, math.nan)],
            [WakeAt(math.inf)],
            [WakeAt("soon")],  # type: ignore[arg-type]
            [FetchEarly((0, 3))],
            [FetchEarly(0)],  # type: ignore[arg-type]
            [Duplicate(-1)],
            [Duplicate(True)],
        ],
    )
    def test_a_policy_that_answers_nonsense_is_dropped(self, answer: Any, caplog: pytest.LogCaptureFixture) -> None:
        advice = Advice("w0", {"bad": Scripted(answer), "good": Scripted([Duplicate(2)])}, tasks=3)
        assert advice.ask("waiting", now_s=0.0) == [Duplicate(2)]
        assert advice.ask("waiting", now_s=0.0) == [Duplicate(2)]
        assert len(caplog.records) == 1

    def test_what_is_for_later_is_kept(self) -> None:
        later = [PreWarm(BIG, 1, 5.0), PreWarm(BIG, 2, 3.0), PreWarm(BIG, 3, 1.0), WakeAt(4.0), WakeAt(4.0)]
        advice = Advice("w0", {"one": Scripted(later)}, tasks=1)
        assert advice.next_s == math.inf
        assert advice.ask("waiting", now_s=2.0) == [PreWarm(BIG, 3, 1.0)]
        assert advice.next_s == 3.0
        assert advice.ring(2.9) == []
        assert advice.ring(3.0) == [PreWarm(BIG, 2, 3.0)]
        assert advice.next_s == 4.0
        assert advice.ring(4.0) == []
        assert advice.at_the_end() == [PreWarm(BIG, 1, 5.0)]

    def test_an_alarm_for_a_moment_that_is_past_rings_soon_and_holds_nobody_up(self) -> None:
        class Hurried(Scripted):
            def alarm(self, now_s: float) -> Iterable[Action]:
                return [WakeAt(0.0)]

        advice = Advice("w0", {"one": Hurried([WakeAt(5.0)])}, tasks=1)
        advice.ask("waiting", now_s=5.0)
        assert advice.next_s == 5.001
        assert advice.ring(6.0) == []
        assert advice.next_s == 6.001

    def test_an_alarm_that_is_asked_for_twice_rings_once(self) -> None:
        rung: list[float] = []

        class Ringing(Scripted):
            def alarm(self, now_s: float) -> Iterable[Action]:
                rung.append(now_s)
                return ()

        advice = Advice("w0", {"one": Ringing([WakeAt(4.0)])}, tasks=1)
        advice.ask("waiting", now_s=0.0)
        advice.ask("waiting", now_s=1.0)
        advice.ring(9.0)
        assert rung == [9.0]


def test_a_class_is_a_kind_of_policies() -> None:
    kind: PolicyKind = WatchAll
    assert list(kind(Core([[]]).view, "w0").completed(3, 0.0)) == [FetchEarly((3,))]


class TestHints:
    @pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
    def test_a_number_of_environments_is_checked(self, count: Any) -> None:
        with pytest.raises(DefinitionError, match=r"PreWarmHint.count must be a whole number"):
            PreWarmHint(BIG, count)

    @pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan, "1", None])
    def test_so_are_times(self, seconds: Any) -> None:
        with pytest.raises(DefinitionError, match=r"PreWarmHint.after_s must be a finite number of seconds"):
            PreWarmHint(BIG, 1, seconds)
        with pytest.raises(DefinitionError, match=r"TaskDupHint.produce_s"):
            TaskDupHint(seconds, 1.0)
        with pytest.raises(DefinitionError, match=r"TaskDupHint.arrives_s"):
            TaskDupHint(1.0, seconds)
