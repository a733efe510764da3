"""A wrong setting is refused where it is given, by an error that names it and says what is expected."""

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest

import augury
from augury import (
    Client,
    Constant,
    DefinitionError,
    Embedded,
    Emulation,
    FixedPredictions,
    History,
    LogNormal,
    PlanError,
    PlatformModel,
    Price,
    Resources,
    UniformPlanner,
    WukongPlanner,
    task,
)
from augury.dag.graph import build_workflow
from augury.invoke.gateway import Limits
from augury.metrics.history.history import open_history
from augury.run.platform import check_limits
from augury.settings import warn_of_missing_limits


@task
def double(x: int) -> int:
    return 2 * x


@task(memory_mb=4096)
def heavy(x: int) -> int:
    return x


def odd(value: object) -> Any:
    """A value of a type that the type checker would refuse."""
    return value


class Nameless:
    def plan(self, graph: Any, outlook: Any) -> Any:
        return None


class Lazy(Nameless):
    name = "lazy"


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: double(1).compute(name=odd(5)), DefinitionError, "must be a str that is not empty, not name=5"),
    (lambda: double(1).submit(name=""), DefinitionError, "name of a workflow must be"),
    (lambda: augury.compute(name=odd(5)), DefinitionError, "name of a workflow must be"),
    (lambda: double(1).compute(plan=odd(5)), PlanError, "must be a Plan, .* not plan=5"),
    (lambda: Client().submit(double(1), plan=odd(5)), PlanError, "must be a Plan"),
    (lambda: augury.compute(double(1), plan=odd("x")), PlanError, "must be a Plan"),
    (lambda: task(retry_on=odd("OSError"))(abs), DefinitionError, r"retry_on must be exception .* not \('OSError',\)"),
    (lambda: double(1).plan(planner=odd(5)), DefinitionError, r"plan\(planner=…\) must be an object"),
    (lambda: double(1).plan(planner=Lazy()), PlanError, "planner lazy gave None, which is not a Plan"),
    (lambda: Client(planner=Lazy()).submit(double(1)), PlanError, "planner lazy gave None"),
    (lambda: Client(planner=odd("uniform")), DefinitionError, r"such as UniformPlanner\(\), not 'uniform'"),
    (lambda: Client(planner=odd(UniformPlanner)), DefinitionError, r"Client\(planner=…\)"),
    (lambda: Client(planner=odd(Nameless())), DefinitionError, r"Client\(planner=…\)"),
    (lambda: Client(platform=odd("x")), DefinitionError, r"Client\(platform=…\) must be an Embedded"),
    (lambda: Client(platform=odd(Embedded)), DefinitionError, r"Client\(platform=…\) must be an Embedded"),
    (lambda: Client(observers=odd([5])), DefinitionError, r"Client\(observers=…\).*on_event\(event\).*not \[5\]"),
    (lambda: Client(observers=odd(5)), DefinitionError, r"Client\(observers=…\) must be a list"),
    (lambda: Client(redis=odd(5)), DefinitionError, r"Client\(redis=…\) must be an address"),
    (lambda: Client(redis=""), DefinitionError, r"Client\(redis=…\) must be an address"),
    (lambda: Client(redis="redis://h", gateway=odd(5)), DefinitionError, r"Client\(gateway=…\) must be an address"),
    (lambda: Client(token=odd(5)), DefinitionError, r"Client\(token=…\) must be a str, not int"),
    (lambda: UniformPlanner(odd("x")), PlanError, r"UniformPlanner: resources must be Resources\(.*not 'x'"),
    (lambda: UniformPlanner(max_clustering=odd("a")), PlanError, "UniformPlanner: max_clustering must be a whole"),
    (lambda: WukongPlanner(odd("x")), PlanError, r"WukongPlanner: resources must be Resources\(.*not 'x'"),
    (lambda: Emulation(cold_start=odd("a")), DefinitionError, r"Emulation\.cold_start must be a Constant\(.*not 'a'"),
    (lambda: Emulation(warm_start=odd(1.5)), DefinitionError, r"Emulation\.warm_start must be a Constant\(.*not 1\.5"),
    (lambda: Emulation(seed=odd("a")), DefinitionError, r"Emulation\.seed must be a whole number, not 'a'"),
    (lambda: Emulation(seed=2**64), DefinitionError, r"Emulation\.seed must be a whole number, not more than 9,22"),
    (lambda: Emulation(storage_latency_s=odd("a")), DefinitionError, r"Emulation\.storage_latency_s must be a number"),
    (lambda: Constant(odd("a")), DefinitionError, r"Constant\.seconds must be a number, zero or more, not 'a'"),
    (lambda: LogNormal(odd("a"), 1), DefinitionError, r"LogNormal\.median_s must be a number above 0, not 'a'"),
    (lambda: LogNormal(1, math.inf), DefinitionError, r"LogNormal\.p99_s must be a number above 0, not inf"),
    (lambda: Price(start_billed=odd("a")), DefinitionError, r"Price\.start_billed must be True or False, not 'a'"),
    (lambda: History(odd("a")), DefinitionError, r"History takes a store of records, not 'a': augury\.history\(…\)"),
    (lambda: open_history("/nowhere").load(odd(3)), DefinitionError, "a workflow is named by a str, not by 3"),
    (lambda: open_history("/nowhere").add(odd(3), "r", []), DefinitionError, "a workflow is named by a str, not by 3"),
]

TOO_MUCH = 10**400
TOO_LARGE: list[tuple[Callable[[], Any], str]] = [
    (lambda: Embedded(start_timeout_s=1e12), r"Embedded\.start_timeout_s"),
    (lambda: Embedded(slots=TOO_MUCH), r"Embedded\.slots"),
    (lambda: task(retries=TOO_MUCH)(abs), "retries"),
    (lambda: task(backoff_s=TOO_MUCH)(abs), "backoff_s"),
    (lambda: task(timeout_s=TOO_MUCH)(abs), "timeout_s"),
    (lambda: task(memory_mb=TOO_MUCH)(abs), "memory_mb"),
    (lambda: Client(patience_s=TOO_MUCH), r"Client\(patience_s=…\)"),
    (lambda: Client(lease_s=TOO_MUCH), r"Client\(lease_s=…\)"),
    (lambda: Client(restarts=TOO_MUCH), r"Client\(restarts=…\)"),
    (lambda: Client(late_factor=TOO_MUCH), r"Client\(late_factor=…\)"),
    (lambda: Client(most_memory_mb=TOO_MUCH), r"Client\(most_memory_mb=…\)"),
    (lambda: Client(cache_bytes=TOO_MUCH), r"Client\(cache_bytes=…\)"),
    (lambda: Resources(cpus=TOO_MUCH), r"Resources\.cpus"),
    (lambda: Resources(memory_mb=TOO_MUCH), r"Resources\.memory_mb"),
    (lambda: Emulation(storage_latency_s=TOO_MUCH), r"Emulation\.storage_latency_s"),
    (lambda: Price(step_s=TOO_MUCH), r"Price\.step_s"),
    (lambda: PlatformModel(keep_alive_s=TOO_MUCH), r"PlatformModel\.keep_alive_s"),
    (lambda: UniformPlanner(max_clustering=TOO_MUCH), "UniformPlanner: max_clustering"),
    (lambda: double(1).plan(predictions=FixedPredictions(TOO_MUCH)), r"FixedPredictions\(seconds=…\)"),
]


@pytest.mark.parametrize(("give", "setting"), TOO_LARGE)
def test_a_number_beyond_all_measure_is_refused_with_the_most_there_can_be(
    give: Callable[[], Any], setting: str
) -> None:
    with pytest.raises((DefinitionError, PlanError), match=rf"{setting} must .*, not more than \d"):
        give()


@pytest.mark.parametrize(("give", "error", "text"), WRONG)
def test_a_wrong_option_is_named(give: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        give()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("slots", "a"),
        ("slots", True),
        ("slots", 0),
        ("slots", 1.5),
        ("keep_alive_s", float("nan")),
        ("keep_alive_s", float("inf")),
        ("keep_alive_s", -1),
        ("keep_alive_s", False),
        ("keep_alive_s", None),
        ("max_idle", -1),
        ("max_idle", 0.5),
        ("body_mb", 0),
        ("body_mb", None),
        ("start_timeout_s", -1),
        ("start_timeout_s", "30"),
        ("enforce_limits", 1),
        ("emulation", "aws"),
        ("preload", "pandas"),
        ("preload", (5,)),
        ("sys_path", 5),
        ("handler", "no_function"),
        ("handler", 5),
        ("on_loss", ":f"),
        ("rehearsal", "no_function"),
        ("rehearsal", None),
    ],
)
def test_a_wrong_setting_of_the_embedded_platform_is_named(setting: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=rf"Embedded\.{setting} must be .*, not "):
        Embedded(**{setting: value})


@pytest.mark.parametrize("keep_alive_s", [0, 0.0, 0.5, 60])
def test_workers_may_be_kept_for_any_time_and_for_none(keep_alive_s: float) -> None:
    assert Embedded(keep_alive_s=keep_alive_s, slots=1, max_idle=0).keep_alive_s == keep_alive_s


def test_an_error_shows_no_token() -> None:
    with pytest.raises(DefinitionError) as caught:
        Client(token=odd(b"s3cret"))
    assert "s3cret" not in str(caught.value)


def test_a_token_with_a_line_break_in_it_is_refused_where_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DefinitionError, match=r"Client\(token=…\) must be a token in printable ASCII"):
        Client(token="s3cret\nX: y")
    monkeypatch.setenv("AUGURY_TOKEN", "s3cret\nX: y")
    with pytest.raises(DefinitionError, match="AUGURY_TOKEN must be a token in printable ASCII"):
        Client(redis="redis://h", gateway="http://h")


@pytest.mark.parametrize("given", ["9" * 5000, "9" * 19, "1e9", "many"])
def test_the_room_of_kept_outputs_is_a_number_of_bytes(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_CACHE_BYTES", given)
    with pytest.raises(DefinitionError, match="AUGURY_CACHE_BYTES must be a whole number of bytes"):
        Client()


# Nothing to compute


def test_what_holds_no_task_is_its_own_value() -> None:
    values = [1, {"x": 2}]
    with Client(observers=[]) as client:
        assert client.compute(values) is values
        assert augury.compute() == ()
        assert augury.compute([]) == ([],)


def test_there_is_no_run_of_nothing() -> None:
    with pytest.raises(DefinitionError, match="no task"):
        Client(observers=[]).submit([1, 2])


# What a platform can give


def test_more_memory_than_a_worker_can_have_is_refused() -> None:
    graph = build_workflow(heavy(double(1))).graph
    plan = WukongPlanner(Resources(memory_mb=512)).plan(graph)
    with pytest.raises(PlanError, match=r"heavy\[0\] is to have 4,096 MB and .* can have 4,095 MB at most"):
        check_limits(graph, plan, Limits(concurrency=1, memory_mb=4095))


@pytest.mark.parametrize("memory_mb", [0, 4096])
def test_memory_that_a_worker_can_have_or_that_nobody_knows_is_accepted(memory_mb: int) -> None:
    graph = build_workflow(heavy(1)).graph
    check_limits(graph, WukongPlanner().plan(graph), Limits(concurrency=1, memory_mb=memory_mb))


def test_missing_limits_are_told_once_and_briefly(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_missing_limits.cache_clear()
    with caplog.at_level(logging.INFO, logger="augury"):
        warn_of_missing_limits("CPU (Permission denied)")
        warn_of_missing_limits("CPU (Permission denied)")
    (message,) = caplog.messages
    assert message == (
        "the embedded platform cannot limit its workers' CPU (Permission denied); "
        "Embedded(enforce_limits=False) limits nothing, silently"
    )
