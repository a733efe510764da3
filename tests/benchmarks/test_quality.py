"""What the benchmark of plans says: who wins, what is missed, and that bounds are bounds."""

from collections.abc import Sequence
from random import Random

import pytest
from bounds import Bounds, bounds_of
from contenders import output_s, planned, scheduled
from instances import Instance, TracedTask, instance_of, platform
from quality import Outcome, best_variants, judge, main
from shapes import fan_out, layers, tree

from augury.config import Resources
from augury.plan.model import PlatformModel, Timing
from augury.plan.outlook import Outlook
from augury.plan.predictions import FixedPredictions
from tests.plan.graphs import graph_of


def outcome(
    family: str,
    makespan_s: float,
    cost_usd: float = 2.0,
    *,
    variant: str = "",
    factor: float = 1.0,
    start: str = "warm",
) -> Outcome:
    return Outcome(
        workflow="w",
        tasks=10,
        factor=factor,
        start=start,
        family=family,
        variant=variant,
        makespan_s=makespan_s,
        cost_usd=cost_usd,
        bounds=Bounds(makespan_s=10.0, cost_usd=1.0),
        workers=1,
        cold_starts=0,
        planning_s=0.0,
        classic_s=None,
    )


# ── judging ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_family_is_judged_by_its_best_variant() -> None:
    slow_and_cheap = outcome("uniform", 20.0, 1.5, variant="512 MB")
    fast_and_dear = outcome("uniform", 12.0, 3.0, variant="3520 MB")
    assert best_variants([slow_and_cheap, fast_and_dear], "makespan") == {("w", "uniform"): fast_and_dear}
    assert best_variants([slow_and_cheap, fast_and_dear], "cost") == {("w", "uniform"): slow_and_cheap}


@pytest.mark.parametrize(
    ("outcomes", "complaints"),
    [
        ([outcome("auto", 11.0), outcome("heft", 11.0), outcome("auto-cost", 15.0, 1.2)], []),
        ([outcome("auto", 10.5), outcome("heft", 10.4)], ["w x 1 warm: heft  has a makespan of 1.0400 times"]),
        ([outcome("auto-cost", 10.5, 1.3), outcome("wukong", 99.0, 1.2)], ["wukong  has a cost of 1.2000 times"]),
        ([outcome("auto", 11.1)], ["the median of Auto's makespans, warm, is 1.110 times the bound, not 1.10"]),
        ([outcome("auto", 11.1, factor=0.01), outcome("auto", 11.1, start="cold")], []),
        ([outcome("auto", 10.0, start="cold"), outcome("heft", 9.0, start="warm")], []),
    ],
)
def test_goals_are_judged(outcomes: Sequence[Outcome], complaints: Sequence[str]) -> None:
    found = list(judge(outcomes))
    assert len(found) == len(complaints)
    for said, expected in zip(found, complaints, strict=True):
        assert expected in said


def test_what_cannot_be_read_ends_the_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["quality.py", "nowhere.json"])
    assert main() == 2
    assert "nowhere.json cannot be read" in capsys.readouterr().err


# ── contenders ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_large_outputs_are_stored_reported_and_fetched() -> None:
    timing = Timing(latency_s=1.0, bandwidth_bytes_s=10.0)
    outlook = Outlook(
        graph_of((), (0,)),
        FixedPredictions(1.0, {0: 100.0, 1: 5.0}),
        PlatformModel(timing=timing, inline_bytes=50),
    )
    assert output_s(outlook, Resources()) == [1 + 2 * (1 + 10), 1]


def random_instance(seed: int, size: int = 40) -> Instance:
    rng = Random(seed)
    tasks = []
    for task in range(size):
        parents = {rng.randrange(task) for _ in range(rng.randrange(3))} if task else set()
        tasks.append(
            TracedTask(
                program=f"p{rng.randrange(4)}",
                seconds=rng.expovariate(1.0),
                output_bytes=10 ** rng.uniform(2, 8),
                parents=tuple(sorted(parents)),
            )
        )
    return instance_of(f"random {seed}", tasks)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("seed", range(5))
def test_no_plan_beats_the_bounds(seed: int, warm: bool) -> None:
    instance = random_instance(seed)
    outlook = Outlook(instance.graph, instance.predictions(), platform(warm=warm))
    bounds = bounds_of(outlook)
    candidates = [*planned(outlook), *scheduled(outlook)]
    assert {candidate.family for candidate in candidates} >= {"wukong", "uniform", "nonuniform", "heft", "cpop"}
    for candidate in candidates:
        candidate.plan.validate(instance.graph)
        simulation = outlook.simulate(candidate.plan)
        assert simulation.makespan_s >= bounds.makespan_s, candidate.name
        assert simulation.cost_usd >= bounds.cost_usd, candidate.name


# ── shapes ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [2, 3, 7, 8, 301])
def test_shapes_have_the_size_and_the_edges_they_should(size: int) -> None:
    assert len(fan_out(size).graph) == size
    assert fan_out(size).graph.deps[-1] == tuple(range(size - 1))
    whole = tree(size).graph
    assert len(whole) == size - (size + 1) % 2
    assert len(whole.sinks) == 1
    assert {len(deps) for deps in whole.deps} <= {0, 2}
    assert len(layers(size).graph) == size
    assert max(len(deps) for deps in layers(301).graph.deps) == 2
