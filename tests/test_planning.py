"""What a client does before a run: from history to a plan, without starting anything."""

import logging
import math
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from augury import (
    Client,
    Constant,
    DefinitionError,
    Embedded,
    Emulation,
    FixedPredictions,
    History,
    LogNormal,
    Percentile,
    Plan,
    PlanError,
    PlatformModel,
    PredictionsProvider,
    PreLoadHint,
    PreWarmHint,
    Resources,
    RunReport,
    StorageError,
    Task,
    Timing,
    UniformPlanner,
    WukongPlanner,
    task,
)
from augury import planning as module
from augury.dag.graph import Graph, build_workflow
from augury.dag.task import TaskNode
from augury.invoke.gateway import Limits
from augury.metrics.history.memory import MemoryStore
from augury.metrics.records import MemoryExcess, Record, Records, Startup, TaskRun, series_of
from augury.plan.outlook import Outlook
from augury.planning import Planning, Question, Site, embedded_site, gateway_site

HERE = Resources()
STRONG = Resources(2, 4096)


@task
def load(x: int) -> int:
    return x


@task
def merge(parts: list[int]) -> int:
    return sum(parts)


def fan_in(width: int = 4) -> Task[int]:
    """`width` loads, and a merge of what they give."""
    return merge([load(index) for index in range(width)])


def version(function: Any) -> str:
    return cast("TaskNode[Any]", function(0)).function.version()


def run(function: Any, execution_s: float, platform: str = "embedded") -> TaskRun:
    return TaskRun(
        function=version(function),
        name=function.fn.__name__,
        resources=HERE,
        platform=platform,
        execution_s=execution_s,
        input_bytes=100.0,
        output_bytes=200.0,
    )


def runs(load_s: float = 5.0, merge_s: float = 3.0, count: int = 40) -> list[Record]:
    return [*[run(load, load_s)] * count, *[run(merge, merge_s)] * count]


class Shelf:
    """A history that a test fills."""

    def __init__(self) -> None:
        self.history = History(MemoryStore())
        self._runs = 0

    def add(self, records: Iterable[Record], workflow: str = "w") -> None:
        self._runs += 1
        self.history.add(workflow, f"run {self._runs}", series_of(records), now_s=float(self._runs))


class Counting(UniformPlanner):
    """Counts how often it is asked."""

    asked = 0

    def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
        self.asked += 1
        return super().plan(graph, outlook)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def client(shelf: Shelf, **settings: Any) -> Client:
    return Client(observers=[], history=shelf.history, **settings)


def makespan_s(plan: Plan) -> float:
    assert plan.predicted is not None
    return plan.predicted.makespan_s


# What plans rest on


def test_planning_starts_nothing(shelf: Shelf) -> None:
    with client(shelf, platform=Embedded(start_timeout_s=0)) as hopeless:
        assert fan_in().plan() == hopeless.plan(fan_in())
        assert hopeless._platform is None


def test_without_history_there_are_priors(shelf: Shelf) -> None:
    plan = client(shelf).plan(fan_in(1), UniformPlanner())
    assert [one.n for one in plan.outlook.evidence] == [0, 0]
    assert makespan_s(plan) == pytest.approx(0.2 + 0.015, abs=0.005)


def test_history_says_how_long_tasks_take(shelf: Shelf) -> None:
    shelf.add(runs(load_s=5.0, merge_s=3.0))
    plan = client(shelf).plan(fan_in(1), UniformPlanner(), name="w")
    assert [one.n for one in plan.outlook.evidence] == [40, 40]
    assert makespan_s(plan) == pytest.approx(8.0, rel=0.02)


def test_a_workflow_without_a_name_is_known_by_its_functions(shelf: Shelf) -> None:
    shelf.add(runs(load_s=5.0, merge_s=3.0), workflow="another")
    assert makespan_s(client(shelf).plan(fan_in(1), UniformPlanner())) == pytest.approx(8.0, rel=0.02)


def test_start_ups_are_those_of_the_platform(shelf: Shelf) -> None:
    cold = Startup(state="cold", resources=HERE, platform="embedded", duration_s=2.5)
    shelf.add([*runs(), *[cold] * 20])
    plan = client(shelf).plan(fan_in(1), UniformPlanner(), name="w")
    assert makespan_s(plan) == pytest.approx(10.5, rel=0.02)
    assert plan.outlook.platform.concurrency == Embedded().concurrency


def test_the_sla_of_the_client_holds_unless_another_is_asked_for(shelf: Shelf) -> None:
    spread = [run(load, 1.0 + 0.1 * place) for place in range(40)] + [run(merge, 1.0)] * 40
    shelf.add(spread)
    careful = client(shelf, sla=Percentile(95))
    p95, median = careful.plan(fan_in(1), name="w"), careful.plan(fan_in(1), name="w", sla="median")
    assert (p95.outlook.sla, median.outlook.sla) == (Percentile(95), "median")
    assert makespan_s(p95) > makespan_s(median) + 1


def test_short_work_is_predicted_at_a_glance_and_long_work_by_laws(shelf: Shelf) -> None:
    shelf.add(runs(load_s=0.001, merge_s=0.002), workflow="short")
    shelf.add(runs(load_s=0.1, merge_s=0.002), workflow="long")
    short = client(shelf).plan(fan_in(), name="short")
    long = client(shelf).plan(fan_in(40), name="long")
    assert short.outlook.evidence[0].basis == "median of the last 32 runs"
    assert long.outlook.evidence[0].basis.startswith("same function")


def test_history_says_how_much_of_it_computes_and_the_platform_on_how_many_processors(shelf: Shelf) -> None:
    busy = [msgspec.structs.replace(run(load, 4.0), cpu_s=1.0), msgspec.structs.replace(run(merge, 3.0), cpu_s=0.0)]
    shelf.add(busy * 20)
    outlook = client(shelf).plan(fan_in(1), name="w").outlook
    assert outlook.cpu_share == pytest.approx([0.25, 0.0])
    assert outlook.platform.processors == os.cpu_count()


def test_configurations_of_the_client_are_those_of_the_platform(shelf: Shelf) -> None:
    plan = client(shelf, configurations=[STRONG, HERE]).plan(fan_in())
    assert plan.outlook.platform.configurations == (HERE, STRONG)


# By hand


def test_predictions_by_hand_take_the_place_of_history(shelf: Shelf) -> None:
    shelf.add(runs())
    free = PlatformModel(timing=Timing(cold_start_s=0.0, latency_s=0.0))
    plan = client(shelf).plan(fan_in(1), UniformPlanner(), predictions=FixedPredictions(60.0), platform=free, name="w")
    assert makespan_s(plan) == pytest.approx(120.0, abs=0.1)


def test_a_provider_of_ones_own_is_asked(shelf: Shelf) -> None:
    own = PredictionsProvider(Records(workflow="w").with_series(series_of(runs(load_s=7.0, merge_s=1.0))))
    assert makespan_s(fan_in(1).plan(UniformPlanner(), predictions=own)) == pytest.approx(8.0, rel=0.02)


def test_a_platform_by_hand_takes_the_place_of_the_own() -> None:
    slow = PlatformModel(timing=Timing(cold_start_s=100.0))
    assert makespan_s(fan_in(1).plan(platform=slow)) > 100


WRONG: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: load(1).plan(predictions=cast("Any", 5)),
        r"plan\(predictions=…\) must be FixedPredictions\(…\), .* not 5",
    ),
    (lambda: load(1).plan(predictions=cast("Any", FixedPredictions)), r"plan\(predictions=…\) must be"),
    (lambda: load(1).plan(platform=cast("Any", "aws")), r"plan\(platform=…\) must be a PlatformModel\(…\), not 'aws'"),
    (lambda: load(1).plan(sla=cast("Any", "p95")), "unknown SLA 'p95'"),
    (lambda: load(1).plan(name=""), "the name of a workflow must be"),
    (lambda: load(1).plan(cast("Any", "fast")), r"plan\(planner=…\) must be an object with a name and a plan\("),
    (lambda: Client(sla=cast("Any", 95)), "unknown SLA 95"),
    (lambda: Client(configurations=[]), r"Client\(configurations=…\) must be a list of Resources"),
    (lambda: Client(configurations=cast("Any", 512)), r"Client\(configurations=…\) must be a list of Resources"),
    (lambda: Client(configurations=cast("Any", [512])), r"Client\(configurations=…\) must be .* not \[512\]"),
]


@pytest.mark.parametrize(("give", "text"), WRONG)
def test_a_wrong_option_is_named(give: Callable[[], Any], text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        give()


# Optimizations that tasks demand


class Noting:
    name = "noting"

    def __init__(self) -> None:
        self.forced: list[Sequence[int]] = []

    def assign(self, plan: Plan, outlook: Outlook, forced: Sequence[int]) -> Plan:
        self.forced.append(forced)
        return plan


def test_what_a_function_demands_reaches_the_optimization(shelf: Shelf) -> None:
    noting = Noting()

    @task(optimizations=[noting])
    def special(x: int) -> int:
        return x

    client(shelf).plan(merge([load(1), special(2), special(3)]))
    assert noting.forced == [[1, 2]]


# Using plans again


def test_a_plan_is_used_again_while_nothing_moved(shelf: Shelf) -> None:
    shelf.add(runs())
    planner = Counting()
    again = client(shelf, planner=planner)
    first = again.plan(fan_in(), name="w")
    shelf.add([*[run(load, 5.1)] * 4, *[run(merge, 3.0)] * 4])
    second = again.plan(fan_in(), name="w")
    assert planner.asked == 1
    assert second == first
    assert second.graph is not first.graph, "it is the workflow that was asked for"


def test_another_plan_is_made_when_history_moved(shelf: Shelf) -> None:
    shelf.add(runs(load_s=5.0))
    planner = Counting()
    again = client(shelf, planner=planner)
    before = again.plan(fan_in(1), name="w")
    shelf.add(runs(load_s=9.0))
    after = again.plan(fan_in(1), name="w")
    assert planner.asked == 2
    assert makespan_s(after) > makespan_s(before) + 3


def test_a_function_that_ran_out_of_memory_gets_more_in_the_next_plan(shelf: Shelf) -> None:
    shelf.add(runs())
    planner = Counting(Resources(1, 512))
    again = client(shelf, planner=planner)
    assert {one.resources.memory_mb for one in again.plan(fan_in(), name="w").assignments} == {512}
    killed = MemoryExcess(
        function=version(merge), name="merge", resources=Resources(1, 512), platform="embedded", used_mb=512.0
    )
    shelf.add([*runs(), killed])
    assert {one.resources.memory_mb for one in again.plan(fan_in(), name="w").assignments} == {640}
    again.plan(fan_in(), name="w")
    assert planner.asked == 2
    modest = client(shelf, planner=planner, most_memory_mb=600)
    assert {one.resources.memory_mb for one in modest.plan(fan_in(), name="w").assignments} == {600}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "v"},
        {"sla": "average"},
        {"planner": Counting(max_clustering=3)},
        {"outputs": fan_in(5)},
        {"outputs": merge([load(index) for index in ("x" * 9000, 1, 2, 3)])},
    ],
    ids=["name", "sla", "planner", "structure", "arguments"],
)
def test_another_question_gets_another_plan(shelf: Shelf, change: dict[str, Any]) -> None:
    planner = Counting()
    again = client(shelf)
    usual: dict[str, Any] = {"outputs": fan_in(), "name": "w", "planner": planner}
    first = again.plan(**usual)
    assert again.plan(**usual) == first
    again.plan(**{**usual, **change})
    assert planner.asked + change.get("planner", Counting()).asked == 2


def test_memory_that_is_demanded_later_is_seen(shelf: Shelf) -> None:
    again = client(shelf, planner=UniformPlanner(Resources(1, 512)))

    def plan(memory_mb: int) -> Plan:
        return again.plan(task(memory_mb=memory_mb)(load.fn)(1))

    assert plan(600).assignments[0].resources.memory_mb == 600
    assert plan(700).assignments[0].resources.memory_mb == 700


def test_planners_with_equal_settings_are_the_same(shelf: Shelf) -> None:
    class Settled(Counting):
        def __init__(self, settings: Any) -> None:
            super().__init__()
            self.settings = settings

    again = client(shelf)
    one, same, other, fickle, odd = Settled(1), Settled(1), Settled(2), Settled(None), Settled([])
    for planner in (one, same, other, fickle, fickle, odd, odd):
        again.plan(fan_in(), planner)
    assert [planner.asked for planner in (one, same, other, fickle, odd)] == [1, 0, 1, 2, 2]


def test_questions_by_hand_are_not_remembered(shelf: Shelf) -> None:
    again = client(shelf)
    long, short = (again.plan(fan_in(), predictions=FixedPredictions(seconds)) for seconds in (60.0, 1.0))
    assert makespan_s(long) > 50 > makespan_s(short)


def test_a_plan_that_is_remembered_holds_no_arguments(shelf: Shelf) -> None:
    class Argument:
        alive = 0

        def __init__(self) -> None:
            Argument.alive += 1

        def __del__(self) -> None:
            Argument.alive -= 1

    again = client(shelf)
    again.plan(load(Argument()))
    assert len(again._planning._plans) == 1
    assert Argument.alive == 0


# History that cannot be read


class Unreadable(MemoryStore):
    """A store that is out of order."""

    reads = 0

    @property
    def address(self) -> str:
        return "nowhere"

    def load(self, workflows: Sequence[str]) -> dict[str, Records]:
        self.reads += 1
        raise StorageError("the disk is gone")


def test_a_history_that_cannot_be_read_is_told_once_and_planning_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_troubled", set())
    store = Unreadable()
    for _ in range(2):
        broken = Client(observers=[], history=History(store))
        assert broken.plan(fan_in()).outlook.evidence[0].n == 0
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "planning without what earlier runs taught: the disk is gone"
    ]


def question(outputs: Any = None, planner: Any = None, **options: Any) -> Question:
    workflow = build_workflow(fan_in() if outputs is None else outputs)
    return Question(workflow=workflow, kept_as="w", planner=planner or WukongPlanner(), **options)


SITE = Site(name="here", concurrency=4, start_s=1.0, keep_alive_s=60.0)


def test_a_history_that_cannot_be_read_is_left_alone_for_a_while() -> None:
    store, now_s = Unreadable(), [100.0]
    planning = Planning(History(store), clock=lambda: now_s[0])
    reads = []
    for now_s[0] in (100.0, 110.0, 129.0, 131.0, 140.0):
        planning.plan(question(fan_in()), SITE)
        reads.append(store.reads)
    assert reads == [1, 1, 1, 2, 2]


def test_nothing_is_read_that_nobody_asks_for() -> None:
    store = Unreadable()
    Planning(History(store)).plan(question(predictions=FixedPredictions(1.0), platform=PlatformModel()), SITE)
    assert store.reads == 0


# Where it runs


def test_the_embedded_platform_is_known_before_it_starts() -> None:
    settings = Embedded(slots=3, keep_alive_s=7)
    site = embedded_site(settings, None, [HERE])
    assert (site.name, site.concurrency, site.keep_alive_s) == ("embedded", 3, 7)
    assert site.processors == os.cpu_count()
    assert site.start_s == embedded_site(settings, Limits(concurrency=3, start_s=0.03), [HERE]).start_s
    assert site.assumed is not None
    assert site.assumed(HERE).cold_start_s < 0.1


def test_an_imitated_cloud_is_as_slow_as_it_is_made() -> None:
    cloud = Emulation(
        cold_start=LogNormal(median_s=0.5, p99_s=2.0),
        warm_start=Constant(0.1),
        storage_latency_s=0.01,
        bandwidth_mb_s_per_gb=10,
    )
    site = embedded_site(Embedded(emulation=cloud), None, [HERE])
    assert site.start_s == pytest.approx(2.03)
    assert site.assumed is not None
    timing = site.assumed(Resources(1, 2048))
    assert timing.cold_start_s == pytest.approx(0.515)
    assert timing.warm_start_s == pytest.approx(0.102)
    assert timing.latency_s == pytest.approx(0.0103)
    assert timing.bandwidth_bytes_s == pytest.approx(20e6)


def test_a_gateway_is_not_asked_for_a_plan() -> None:
    far = Client(redis="redis://127.0.0.1:1/0", gateway="http://127.0.0.1:1", history=False, observers=[])
    assert far.plan(fan_in()).outlook.platform.concurrency == 1000
    told = gateway_site("there", Limits(concurrency=7, start_s=3.0), [HERE])
    assert (told.name, told.concurrency, told.start_s, told.assumed) == ("there", 7, 3.0, None)
    assert told.processors == math.inf


# Which environments are warm


def report(cold_starts: int) -> RunReport:
    return RunReport(
        run_id="r",
        name="w",
        status="succeeded",
        tasks=5,
        ran=5,
        workers=5,
        invocations=5,
        cold_starts=cold_starts,
        makespan_s=1.0,
        gb_seconds=1.0,
        stored_bytes=0,
    )


class Fickle(WukongPlanner):
    """One that is asked each time."""

    settings: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.settings = None


class Clocked:
    """Planning at a time that a test chooses."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.planning = Planning(None, clock=lambda: self.now_s)

    def plan(self, planner: Any = None) -> Plan:
        return self.planning.plan(question(planner=planner or Fickle()), SITE)

    def warm(self) -> dict[Resources, float]:
        return dict(self.plan().outlook.platform.warm)


def test_before_the_first_run_nothing_is_warm() -> None:
    assert Clocked().warm() == {}


def test_cold_starts_leave_warm_environments_for_a_while() -> None:
    clocked = Clocked()
    clocked.planning.note_end(clocked.plan(), report(cold_starts=2), SITE)
    assert clocked.warm() == {HERE: 2}
    clocked.now_s += 59
    clocked.planning.note_end(clocked.plan(), report(cold_starts=1), SITE)
    assert clocked.warm() == {HERE: 3}, "the third was made while two were in use"
    clocked.now_s += 59
    assert clocked.warm() == {HERE: 3}
    clocked.now_s += 2
    assert clocked.warm() == {}


def test_no_more_are_warm_than_run_at_once() -> None:
    clocked = Clocked()
    clocked.planning.note_end(clocked.plan(), report(cold_starts=9), SITE)
    assert clocked.warm() == {HERE: 4}


def test_plans_are_made_anew_when_many_more_are_warm() -> None:
    clocked, planner = Clocked(), Counting()
    asked = []
    for cold_starts in (0, 1, 0, 1, 1, 1):  # 0, 1, 1, 2, 3, 4 are warm then
        clocked.planning.note_end(clocked.plan(), report(cold_starts), SITE)
        clocked.plan(planner)
        asked.append(planner.asked)
    assert asked == [1, 2, 2, 3, 3, 4]


def test_of_several_configurations_each_worker_had_an_environment() -> None:
    class Two(WukongPlanner):
        def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
            found = UniformPlanner(HERE, max_clustering=1).plan(graph)
            strong = UniformPlanner(STRONG, max_clustering=1).plan(graph)
            assignments = (*found.assignments[:3], *strong.assignments[3:])
            return Plan(
                fingerprint=graph.fingerprint, planner="two", assignments=assignments[:-1] + found.assignments[-1:]
            )

    clocked = Clocked()
    clocked.planning.note_end(clocked.plan(Two()), report(cold_starts=4), SITE)
    assert clocked.warm() == {HERE: 3, STRONG: 1}


def test_environments_that_were_pre_warmed_are_warm_too() -> None:
    clocked = Clocked()
    plan = msgspec.structs.replace(
        clocked.plan(), launch=(PreWarmHint(STRONG, 2),), hints={0: (PreWarmHint(STRONG), PreLoadHint())}
    )
    clocked.planning.note_end(plan, report(cold_starts=1), SITE)
    assert clocked.warm() == {HERE: 1, STRONG: 3}


# What it costs


TINY = """
import sys, augury

@augury.task
def double(x: int) -> int:
    return 2 * x

first = double(double(1)).plan()
augury.history().add(first.fingerprint, "run", augury.metrics.records.series_of([
    augury.metrics.records.TaskRun(
        function=augury.dag.version.code_version(double.fn), name="double", resources=augury.Resources(),
        platform="embedded", execution_s=0.001, output_bytes=50.0)] * 9))
second = double(double(1)).plan()
print(first.outlook.evidence[0].n, second.outlook.evidence[0].n, "numpy" in sys.modules)
"""


def test_neither_a_first_run_nor_a_short_one_needs_numpy(tmp_path: Any) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TINY],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"AUGURY_STATE_DIR": str(tmp_path), "PATH": ""},
    )
    assert ran.stdout == "0 9 False\n", ran.stderr


def test_something_else_may_start_while_modules_load(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sys", SimpleNamespace(modules={}))  # as if NumPy was not loaded yet
    shelf.add(runs(load_s=0.001, merge_s=0.001), workflow="short")
    shelf.add(runs(), workflow="w")
    started: list[str] = []
    for name in ("short", "w"):
        asked = Question(workflow=build_workflow(fan_in()), kept_as=name, planner=WukongPlanner())
        Planning(shelf.history).plan(asked, SITE, lambda: started.append("platform"))
        started.append(name)
    assert started == ["short", "platform", "w"]


def test_a_plan_that_does_not_fit_is_refused_before_anything_starts(shelf: Shelf) -> None:
    class Stubborn(UniformPlanner):
        def plan(self, graph: Graph, outlook: Outlook | None = None) -> Plan:
            return WukongPlanner().plan(build_workflow(load(1)).graph)

    planning = client(shelf, planner=Stubborn())
    with pytest.raises(PlanError, match="made for another workflow"):
        planning.submit(fan_in())
    assert planning._platform is None


def test_a_fork_waits_until_what_fits_laws_is_loaded() -> None:
    """A module that another thread has half loaded would stay so for ever in the child."""
    loading, about_to_fork = threading.Event(), threading.Event()
    loaded: list[bool] = []

    def load() -> None:
        with module._loading:
            loading.set()
            about_to_fork.wait(10)
            loaded.append(True)

    thread = threading.Thread(target=load)
    thread.start()
    assert loading.wait(10)
    about_to_fork.set()
    child = os.fork()
    if child == 0:
        os._exit(0 if loaded else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


class TestGettingReady:
    """What fits laws is loaded while a run goes on that takes long."""

    @pytest.fixture
    def loads(self, monkeypatch: pytest.MonkeyPatch) -> "queue.SimpleQueue[str]":
        found: queue.SimpleQueue[str] = queue.SimpleQueue()
        monkeypatch.setattr(module, "_LAWS", "augury.predict.not_loaded_yet")
        monkeypatch.setattr(module, "_load_laws", lambda: found.put("loaded"))
        return found

    def test_a_run_that_takes_long(self, loads: "queue.SimpleQueue[str]", monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_LONG_S", 0.0)
        Planning(History(MemoryStore())).get_ready(Future())
        assert loads.get(timeout=10) == "loaded"

    def test_after_a_short_one_the_next_may_take_long(
        self, loads: "queue.SimpleQueue[str]", monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planning, short = Planning(History(MemoryStore())), Future[Any]()
        planning.get_ready(short)
        short.set_result(None)
        monkeypatch.setattr(module, "_LONG_S", 0.0)
        planning.get_ready(Future())
        assert loads.get(timeout=10) == "loaded"
        assert loads.empty()
