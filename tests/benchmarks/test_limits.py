"""What the benchmark of limits counts, on workflows that are small enough to count by hand."""

import math
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from limits.bottlenecks import Target, grown, resources, told_only
from limits.counting import Counts, count
from limits.ends import Ends
from limits.server import Cost, ServerCosts
from limits.shapes import SHAPES

KINDS = ("join", "beat", "progress", "suspend", "idle look", "read", "leave", "outputs", "report")


class TestShapes:
    @pytest.mark.parametrize("name", SHAPES)
    def test_every_worker_has_tasks_and_every_task_a_worker(self, name: str) -> None:
        shape = SHAPES[name](400, 4)
        assert len(shape.worker_of) == shape.tasks
        assert set(shape.worker_of) == set(range(4))

    def test_their_edges_are_known(self) -> None:
        """The sum takes all others; the first layer takes nothing; pairs; each but the first of a chain."""
        edges = {name: make(400, 4).edges for name, make in SHAPES.items()}
        assert edges == {"fan-out": 399, "layers": 9 * 40 * 3, "tree": 398, "chains": 4 * 99}


class TestCounting:
    def test_a_planned_fan_out(self) -> None:
        """0, 1 → 4      w0: 0, 1, 4      w1: 2, 3: a report for each of w1's tasks, and one of the sum

        2, 3 ↗
        """
        counted = count(SHAPES["fan-out"](5, 2), planned=True, task_s=0.2)
        assert {kind: counted.total.get(kind, 0) for kind in ("join", "spec", "leave", "outputs")} == {
            "join": 2,
            "spec": 2,
            "leave": 2,
            "outputs": 2,  # the sum's inputs, and what the client asked for
        }
        assert (counted.total["completions"], counted.total["consumers"], counted.total["woken"]) == (3, 2, 1)
        assert (counted.invocations, counted.by_client) == (2, 2)

    def test_chains_of_their_own_tell_nothing_but_their_ends(self) -> None:
        """0 → 1 → 2      w0: 0, 1, 2      w1: 3, 4, 5

        3 → 4 → 5
        """
        counted = count(SHAPES["chains"](6, 2), planned=True, task_s=0.1)
        assert counted.edges == 4
        assert (counted.total["completions"], counted.total["consumers"]) == (2, 0)
        assert counted.total["report"] - counted.total["progress reports"] == 2
        assert "empty reports" not in counted.total

    def test_reports_that_tell_nothing_are_told_apart(self) -> None:
        """A worker with flexible tasks that wait behind another one asks four times a second whether there is room."""
        shape = SHAPES["fan-out"](101, 1)
        assert count(shape, planned=False).total["empty reports"] == pytest.approx(3 * 100, abs=5)
        assert "empty reports" not in count(shape, planned=True).total

    def test_what_lasts_follows_from_how_long_invocations_do(self) -> None:
        """A beat every 2.5 s but for the first pause; a look every second from 0.2 s on."""
        counted = count(SHAPES["chains"](20, 2), planned=True)
        assert counted.makespan_s == pytest.approx(10.25, abs=0.1)
        assert counted.total["beat"] == 2 * 3
        assert counted.total["idle look"] == 2 * 9

    def test_seconds_add_up_to_the_total(self) -> None:
        counted = count(SHAPES["tree"](31, 2), planned=False)
        assert sum(one.get("report", 0) for one in counted.seconds.values()) == counted.total["report"]
        assert counted.peak <= counted.calls

    def test_large_outputs_are_objects(self) -> None:
        """As above: both outputs of w1 are written, and read at once; so is the result, by the client"""
        counted = count(SHAPES["fan-out"](5, 2), planned=True, task_s=0.2, output_bytes=1_000_000)
        assert (counted.total["put"], counted.total["get"]) == (3, 2)
        assert counted.total["bytes to"] > 3_000_000


class TestGrowth:
    def test_what_is_ten_times_as_much_is_linear(self) -> None:
        found = grown(10.0, 100.0, (10, 100), 1000)
        assert found.value == pytest.approx(1000.0)
        assert found.exponent == pytest.approx(1.0)

    def test_what_is_a_hundred_times_as_much_is_quadratic(self) -> None:
        assert grown(1.0, 100.0, (10, 100), 1000).value == pytest.approx(10_000.0)

    def test_what_does_not_grow_stays(self) -> None:
        assert grown(5.0, 5.0, (10, 100), 1000).value == 5.0
        assert grown(0.0, 0.0, (10, 100), 1000).value == 0.0


class TestResources:
    def test_the_scarcest_comes_first_and_says_where_it_is_full(self) -> None:
        """1,000 reports in a second at 100 µs each are a tenth of it; at ten times the size, all of it."""
        found = resources([counts(100, 10), counts(1000, 100)], [ends(100), ends(1000)], costs(), target(10_000))
        assert [one.utilisation for one in found] == sorted((one.utilisation for one in found), reverse=True)
        redis = next(one for one in found if one.name == "Redis, busiest second")
        assert redis.utilisation == pytest.approx(1.0)
        assert redis.full_at == pytest.approx(10_000)
        assert (redis.needed, redis.capacity) == ("10,000 calls/s", "10,000 calls/s")

    def test_a_description_that_all_fetch_grows_with_the_square(self) -> None:
        found = resources([counts(100, 10), counts(1000, 100)], [ends(100), ends(1000)], costs(), target(10_000))
        download = next(one for one in found if one.name == "spec: download by all")
        assert download.exponent == pytest.approx(2.0)
        assert download.utilisation == pytest.approx(10_000 * 1000 / 1.25e9 / 10.0)

    def test_what_never_grows_is_never_full(self) -> None:
        found = resources([counts(100, 10), counts(1000, 100)], [ends(100), ends(1000)], costs(), target(10_000))
        assert next(one for one in found if one.name == "Redis memory, state").full_at == math.inf

    def test_empty_reports_can_be_left_out(self) -> None:
        assert told_only({"report": 5, "empty reports": 3, "join": 1}) == {"report": 2, "join": 1}


def counts(tasks: int, workers: int) -> Counts:
    seconds = {0: {"report": tasks, "bytes to": 0}}
    return Counts(
        shape="fan-out",
        planned=True,
        tasks=tasks,
        workers=workers,
        edges=0,
        total={"report": tasks, "completions": 0},
        seconds=seconds,
        invocations=workers,
        by_client=workers,
        makespan_s=1.0,
    )


def ends(tasks: int) -> Ends:
    return Ends(
        shape="fan-out",
        tasks=tasks,
        workers=tasks // 10,
        define_s=tasks / 1e6,
        build_s=0.0,
        plan_s=0.0,
        encode_s=0.0,
        graph_bytes=tasks,
        program_bytes=0,
        plan_bytes=0,
        decode_s=tasks / 1e6,
        decode_bytes=tasks,
    )


def costs() -> ServerCosts:
    return ServerCosts(
        calls={kind: Cost(cpu_us=100.0, script_us=100.0) for kind in KINDS},
        parts={},
        spec_cpu_us_per_mb=0.0,
        upload_s_per_mb=0.0,
        unread=0.0,
        bytes_per_completion=0.0,
        most_clients=10_000,
        connections=2.0,
        under_load=1.0,
    )


def target(tasks: int) -> Target:
    return Target(tasks=tasks, workers=tasks // 10, task_s=1.0)
