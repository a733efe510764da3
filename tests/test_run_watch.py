"""What the client does for a run, on a platform that a test plays."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from augury import GatewayError, RunCancelled, SerializationError, StorageError, task
from augury.config import Resources
from augury.dag.graph import Graph, Workflow, build_workflow
from augury.metrics.history.history import History
from augury.metrics.history.memory import MemoryStore
from augury.metrics.records import SCHEMA, Batch, Span, pack_spans
from augury.observation import RunEvent, RunFinished, RunStarted
from augury.plan.hints import PreWarmHint
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.planners.wukong import WukongPlanner
from augury.plan.predictions import Evidence, FixedPredictions
from augury.run import RunWatch
from augury.run import parting as parting_module
from augury.run import watch as watch_module
from augury.run.parting import Parting
from augury.storage.protocols import CLIENT, Care, Claim, Recorded, Status, WorkerSummary
from tests.played import PlayedPlatform

SMALL, LARGE = Resources(memory_mb=512), Resources(memory_mb=1024)
PATIENCE_S = 30.0


@task
def load(number: int) -> int:
    return number


class Watcher:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def on_event(self, event: RunEvent) -> None:
        self.events.append(event)


class Played:
    """One run of a workflow of one task, whose workers a test plays."""

    def __init__(
        self,
        plan: Plan,
        workflow: Workflow,
        history: History | None = None,
        *,
        care: Care | None = None,
        detached: bool = False,
    ) -> None:
        self.platform = PlayedPlatform()
        self.stage = self.platform.stage
        self.storage = self.platform.memory
        self.watcher = Watcher()
        self.plan = plan
        self.watch = RunWatch(
            "r1",
            "daily",
            workflow,
            self.platform,
            [self.watcher],
            history=history,
            kept_as="daily",
            started_s=0.0,
            detached=detached,
            care=care or Care(),
        )
        self.coordination = self.storage.coordination("r1")

    def start(self) -> None:
        self.watch.start(self.plan)

    def cancel(self) -> None:
        assert self.watch.cancel()
        with pytest.raises(RunCancelled):
            self.watch.value.result(PATIENCE_S)
        self.watch.settled.result(PATIENCE_S)

    def prewarming(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "augury-prewarm-r1"]


def workflow() -> Workflow:
    return build_workflow(load(1))


def plan_of(flow: Workflow, **fields: Any) -> Plan:
    outlook = Outlook(flow.graph, FixedPredictions(1.0))
    plan = WukongPlanner(SMALL).plan(flow.graph, outlook)
    return msgspec.structs.replace(plan, graph=flow.graph, outlook=outlook, predicted=outlook.simulate(plan), **fields)


def played(history: History | None = None, *, detached: bool = False, **fields: Any) -> Played:
    flow = workflow()
    return Played(plan_of(flow, **fields), flow, history, detached=detached)


def test_environments_are_pre_warmed_right_after_the_first_workers_were_asked_for() -> None:
    run = played(launch=(PreWarmHint(LARGE, 3), PreWarmHint(SMALL, 1)))
    run.start()
    assert all(run.stage.prewarmed.acquire(timeout=PATIENCE_S) for _ in range(2))
    assert run.stage.asked == [("invoke", 1), ("prewarm", (LARGE, 3)), ("prewarm", (SMALL, 1))]
    run.cancel()


def test_a_plan_without_launch_pre_warms_nothing() -> None:
    run = played()
    run.start()
    assert run.prewarming() == []
    run.cancel()
    assert run.stage.asked == [("invoke", 1)]


def test_a_platform_that_refuses_to_pre_warm_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    run = played(launch=(PreWarmHint(LARGE, 3), PreWarmHint(SMALL, 1)))
    run.stage.refuses = True
    with caplog.at_level(logging.WARNING):
        run.start()
        for thread in run.prewarming():
            thread.join(PATIENCE_S)
    assert len(run.stage.asked) == 3
    assert "run r1 goes on without pre-warmed environments: no such configuration" in caplog.text
    assert run.watch.status() == Status.RUNNING
    run.cancel()


@pytest.mark.parametrize("after_s", [3600.0, 1e12])
def test_what_is_due_later_is_not_pre_warmed_once_the_run_is_over(after_s: float) -> None:
    run = played(launch=(PreWarmHint(LARGE, 1, after_s=after_s),))
    run.start()
    threads = run.prewarming()
    assert len(threads) == 1
    run.cancel()
    threads[0].join(PATIENCE_S)
    assert not threads[0].is_alive()
    assert run.stage.asked == [("invoke", 1)]


def test_pre_warmed_environments_are_paid_for() -> None:
    run = played(launch=(PreWarmHint(LARGE, 3),))
    run.start()
    for thread in run.prewarming():
        thread.join(PATIENCE_S)
    run.cancel()
    price = run.plan.outlook.platform.price
    assert run.watch.settled.result(0).cost_usd == pytest.approx(4 * price.usd_per_request)


def test_spans_reach_the_report_whether_a_worker_sent_them_before_its_end_or_with_it() -> None:
    flow = build_workflow([load(1), load(2)])
    run = Played(plan_of(flow), flow, History(MemoryStore()))
    run.start()
    began_s = run.watch._submitted_at_s
    run.coordination.post(CLIENT, [Recorded(Batch(SCHEMA, (), pack_spans([Span(0, began_s + 0.5, 1.5)])).encode())])
    last = Batch(SCHEMA, (), pack_spans([Span(1, began_s + 1.0, 2.0)])).encode()
    run.coordination.leave(
        WorkerSummary(worker="t0", attempt=1, cold=True, duration_s=4.0, memory_mb=512, tasks=2, records=last)
    )
    run.cancel()
    compared = run.watch.settled.result(0).comparison
    assert (compared.task, compared.actual_s) == ((0, 1), (1.5, 2.0))
    assert compared.actual_start_s == pytest.approx((0.5, 1.0), abs=1e-5)


class Secretive(FixedPredictions):
    """Predictions that do not say what they rest on."""

    def evidence(self, graph: Graph) -> Sequence[Evidence]:
        raise RuntimeError("none of your business")


def test_predictions_that_fail_cost_the_comparison_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    run = played()
    outlook = Outlook(run.plan.outlook.graph, Secretive(1.0))
    run.plan = msgspec.structs.replace(run.plan, outlook=outlook)
    with caplog.at_level(logging.WARNING):
        run.start()
        run.cancel()
    report = run.watch.settled.result(0)
    assert (report.status, report.predicted_s) == ("cancelled", None)
    assert "run r1 cannot be compared with its plan: none of your business" in caplog.text


def test_observers_get_the_report_with_the_prediction() -> None:
    run = played()
    run.start()
    run.cancel()
    finished = run.watcher.events[-1]
    assert isinstance(finished, RunFinished)
    assert finished.report == run.watch.settled.result(0)
    assert finished.report.predicted_s == run.plan.predicted.makespan_s if run.plan.predicted else False


def test_a_run_whose_workers_nobody_can_start_again_ends_with_what_the_gateway_said() -> None:
    flow = workflow()
    run = Played(plan_of(flow), flow, care=Care(lease_s=0.2, patience_s=0.1))
    run.start()
    run.stage.gone = True  # and the worker that was asked for does not come up
    with pytest.raises(GatewayError, match=r"lost workers could not be started again for .* s: nobody is there"):
        run.watch.value.result(PATIENCE_S)
    run.watch.settled.result(PATIENCE_S)
    assert run.coordination.status() is Status.GONE  # the run is tidied up, though nobody frees slots


def test_who_waits_learns_that_there_is_no_hope_though_storage_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = workflow()
    run = Played(plan_of(flow), flow, care=Care(lease_s=0.2, patience_s=0.1))

    def be_away(*_: object) -> None:
        raise StorageError("Redis takes no more connections")

    run.start()
    monkeypatch.setattr(run.watch._coordination, "fail", be_away)
    run.stage.gone = True
    with pytest.raises(GatewayError, match="nobody is there"):
        run.watch.value.result(PATIENCE_S)
    run.watch.settled.result(PATIENCE_S)


def test_what_a_storage_that_is_away_costs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run, back, asked = played(), threading.Event(), threading.Event()

    def be_away(*_: object) -> None:
        raise StorageError("Redis is away")

    def answer_late(**_: bool) -> bool:
        asked.set()
        back.wait()
        return False

    monkeypatch.setattr(run.watch._coordination, "create", be_away)
    monkeypatch.setattr(run.watch._coordination, "unfollow", answer_late)
    with pytest.raises(StorageError, match="Redis is away"):
        run.start()
    assert asked.wait(PATIENCE_S), "what there may be of the run is removed, but nobody waits for that"
    back.set()


def test_workers_that_the_gateway_took_before_it_refused_are_stopped_and_nobody_waits_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, back, asked = played(), threading.Event(), threading.Event()

    def take_some(*_: object) -> None:
        raise GatewayError("the gateway took 5 of 10 workers and no more")

    def stop_late(run_id: str) -> None:
        asked.set()
        back.wait()

    monkeypatch.setattr(run.stage, "invoke", take_some)
    monkeypatch.setattr(run.stage, "stop", stop_late)
    with pytest.raises(GatewayError, match="5 of 10"):
        run.start()
    assert run.coordination.status() is Status.GONE
    assert asked.wait(PATIENCE_S)
    back.set()


def test_who_presses_ctrl_c_does_not_wait_for_a_storage_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    run, back, asked = played(), threading.Event(), threading.Event()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def answer_late(*_: object) -> bool:
        asked.set()
        back.wait()
        return False

    monkeypatch.setattr(watch_module, "_SETTLE_S", 0.0)
    monkeypatch.setattr(run.watch._coordination, "create", interrupt)
    monkeypatch.setattr(run.watch._coordination, "fail", answer_late)
    with pytest.raises(KeyboardInterrupt):
        run.start()
    assert asked.wait(PATIENCE_S), "what there may be of the run is removed all the same"
    back.set()


class Interrupting(Watcher):
    """An observer during whose work the user presses Ctrl-C."""

    def on_event(self, event: RunEvent) -> None:
        if isinstance(event, RunStarted):
            raise KeyboardInterrupt


@pytest.mark.parametrize("detached", [False, True])
class TestTakenBack:
    """Who starts a run and gets an error has no run: it does not go on, and nothing stays for it."""

    def check(self, run: Played) -> None:
        assert run.coordination.status() is Status.GONE
        assert run.platform.kept == []

    def test_the_gateway_refuses(self, *, detached: bool) -> None:
        run = played(detached=detached)
        run.stage.gone = True
        with pytest.raises(GatewayError):
            run.start()
        self.check(run)

    def test_ctrl_c_when_the_gateway_has_taken_the_workers(self, *, detached: bool) -> None:
        run = played(detached=detached)
        run.stage.interrupted = True
        with pytest.raises(KeyboardInterrupt):
            run.start()
        self.check(run)
        assert run.stage.stopped == ["r1"]

    def test_ctrl_c_before_anybody_watches(self, *, detached: bool) -> None:
        run = played(detached=detached)
        run.watch._observers = [Interrupting()]
        with pytest.raises(KeyboardInterrupt):
            run.start()
        self.check(run)
        assert run.stage.stopped == ["r1"]

    def test_ctrl_c_when_somebody_watches(self, monkeypatch: pytest.MonkeyPatch, *, detached: bool) -> None:
        run = played(detached=detached)
        thread = run.watch._thread
        start = thread.start

        def start_and_be_interrupted() -> None:
            start()
            raise KeyboardInterrupt

        monkeypatch.setattr(thread, "start", start_and_be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.start()
        with pytest.raises(RunCancelled):
            run.watch.value.result(PATIENCE_S)
        run.watch.settled.result(PATIENCE_S)
        self.check(run)

    def test_nobody_can_watch(self, monkeypatch: pytest.MonkeyPatch, *, detached: bool) -> None:
        run = played(detached=detached)

        def refuse() -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(run.watch._thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            run.start()
        self.check(run)


def test_nothing_stays_for_a_run_whose_outputs_cannot_be_stored() -> None:
    flow = build_workflow([load(1), threading.Lock()])
    run = Played(plan_of(flow), flow, detached=True)
    with pytest.raises(SerializationError, match="what was asked for holds a value that cannot be stored"):
        run.start()
    assert run.platform.kept == []


def test_a_client_that_is_closed_while_it_tidies_up_follows_the_run_no_more_and_that_once() -> None:
    run = played(detached=True)
    run.start()
    assert all(run.coordination.follow() for _ in range(2))
    parting = Parting("r1", run.platform, run.coordination, run.storage.objects("r1"), detached=True)
    parting.follows_another()
    parting.leave()
    parting.tidy()
    assert not run.coordination.unfollow(creator=True), "the other one follows it still"
    run.cancel()


def test_who_has_a_value_is_not_held_up_by_a_storage_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    back = threading.Event()
    run = played(detached=True)
    run.start()
    parting = Parting("r1", run.platform, run.coordination, run.storage.objects("r1"), detached=True)
    monkeypatch.setattr(Parting, "part", lambda parting: back.wait())
    parting.tidy()
    parting.take_beside()
    back.set()
    run.cancel()


def test_who_leaves_while_another_thread_parts_waits_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = threading.Event()
    run = played(detached=True)
    run.start()
    parting = Parting("r1", run.platform, run.coordination, run.storage.objects("r1"), detached=True)
    part = parting.part

    def wait_and_part() -> None:
        parts.wait()
        part()

    def start_and_wait(futures: Sequence[Future[None]]) -> None:
        parts.set()
        futures[0].result(PATIENCE_S)

    monkeypatch.setattr(parting, "part", wait_and_part)
    monkeypatch.setattr(parting_module, "wait", start_and_wait)
    parting.arrive(cancelled=False)
    parting.tidy()
    parting.take_beside()
    parting.leave()
    assert parting.done.done()
    run.watch.settled.result(PATIENCE_S)


def test_who_waits_for_the_report_learns_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    run = played()

    def fail() -> None:
        raise MemoryError("there is no room for anything")

    run.start()
    monkeypatch.setattr(run.watch._harvest, "keep", fail)
    assert run.watch.cancel()
    with pytest.raises(MemoryError, match="no room"):
        run.watch.settled.result(PATIENCE_S)


def test_workers_that_cannot_be_started_again_are_told_of_only_while_the_run_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = played()
    run.start()
    run.stage.gone = True
    lost = [Claim("t0", (0,), SMALL, attempt=2)]
    run.watch._restarts.start(lost)
    run.cancel()
    run.watch._restarts.start(lost)
    assert [one.message for one in caplog.records if "could not start again" in one.message] == [
        "could not start again t0 (attempt 2): nobody is there"
    ]


def test_who_aborts_a_run_does_not_wait_long_for_a_storage_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    back, answered = threading.Event(), threading.Semaphore(0)
    run = played()
    run.start()
    fail = run.watch._coordination.fail

    def answer_late(*arguments: Any) -> bool:
        assert back.wait(PATIENCE_S)
        answered.release()
        return fail(*arguments)

    monkeypatch.setattr(run.watch._coordination, "fail", answer_late)
    monkeypatch.setattr(watch_module, "_ABORT_S", 0.01)
    for _ in range(2):
        run.watch.abort()
    assert not run.watch.value.done()
    back.set()
    with pytest.raises(RunCancelled):
        run.watch.value.result(PATIENCE_S)
    run.watch.settled.result(PATIENCE_S)
    assert answered.acquire(timeout=PATIENCE_S)
    assert not answered.acquire(blocking=False)  # whoever says it twice is not told twice
