"""How good plans are: simulated makespan and cost beside lower bounds, on the workflows of WfCommons.

    python benchmarks/planning/quality.py                              # ten recipes at 100 and 1,000 tasks
    python benchmarks/planning/quality.py --workflows montage --sizes 100
    python benchmarks/planning/quality.py instance.json ...            # traces in WfFormat

Every workflow is planned with the run times of its traces, minutes to hours, where little but the critical path
matters; and with a hundredth of them, as functions have, where start-ups and transfers matter as much. Each of these
once with all environments cold and once with all warm. Every plan is simulated by the same simulator.

A family of planners is shown by its best variant; the JSON has all. Bounds count computing alone, so nothing may reach
them. Run times at other memory sizes follow laws whose numbers are drawn, see `instances.py`; the JSON has those too.

Exits with 1 if Auto's makespan, warm and as traced, is above 1.10 times the bound in the median of the workflows, or if
any plan beats one of Auto's on what Auto was asked for.
"""

import argparse
import importlib
import json
import os
import platform as machine
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bounds import Bounds, bounds_of
from contenders import Candidate, planned, scheduled
from instances import Instance, platform
from wfformat import read_instance

from augury.errors import AuguryError
from augury.plan.outlook import Outlook

WORKFLOWS = (
    *("montage", "epigenomics", "1000genome", "seismology", "soykb"),
    *("srasearch", "blast", "bwa", "cycles", "rnaseq"),
)
SIZES = (100, 1000)
FACTORS = (1.0, 0.01)
STARTS = ("warm", "cold")
MOST_RATIO = 1.10
SAME = 1 + 1e-9
"""Sums of floats in another order are no worse a plan."""
OUT = Path(__file__).parents[1] / "out"

AUTO = {"auto": "makespan", "auto-cost": "cost"}
"""What each Auto planner was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one plan.

    Attributes:
        workflow: Its name.
        tasks: How many it has.
        factor: What its run times were multiplied by.
        start: "cold" or "warm".
        family: What made the plan.
        variant: What that was told.
        makespan_s: As simulated.
        cost_usd: As simulated.
        bounds: What no plan beats.
        workers: How many invocations there are.
        cold_starts: How many of them start cold.
        planning_s: How long the plan took to make.
        classic_s: How long a classic scheduler thought the run takes.
    """

    workflow: str
    tasks: int
    factor: float
    start: str
    family: str
    variant: str
    makespan_s: float
    cost_usd: float
    bounds: Bounds
    workers: int
    cold_starts: int
    planning_s: float
    classic_s: float | None

    @property
    def makespan_ratio(self) -> float:
        """Makespan beside its bound."""
        return self.makespan_s / self.bounds.makespan_s

    @property
    def cost_ratio(self) -> float:
        """Cost beside its bound."""
        return self.cost_usd / self.bounds.cost_usd

    def ratio(self, objective: str) -> float:
        """The ratio of what is asked for."""
        return self.makespan_ratio if objective == "makespan" else self.cost_ratio


def main() -> int:
    options = parse_options()
    try:
        instances = [read_instance(path) for path in options.paths] or list(recipes(options.workflows, options.sizes))
    except (AuguryError, ModuleNotFoundError) as error:
        say(f"{error}" + ("; it comes with the extra: pip install -e '.[bench]'" if "wfcommons" in str(error) else ""))
        return 2
    outcomes: list[Outcome] = []
    for factor in options.factors:
        for instance in instances:
            outcomes += compare(instance, factor, options.starts)
    for factor in options.factors:
        for start in options.starts:
            print_tables([one for one in outcomes if one.factor == factor and one.start == start], factor, start)
    complaints = list(judge(outcomes))
    print_worst(outcomes)
    print("\n".join(complaints) or "all goals met")
    write(instances, outcomes, complaints, options.json)
    return 1 if complaints else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="instances in WfFormat, instead of recipes")
    parser.add_argument("--workflows", type=listed(str, WORKFLOWS), default=WORKFLOWS, help="separated by commas")
    parser.add_argument("--sizes", type=listed(int), default=SIZES, help="tasks, separated by commas (100,1000)")
    parser.add_argument("--factors", type=listed(float), default=FACTORS, help="for run times (1,0.01)")
    parser.add_argument("--starts", type=listed(str, STARTS), default=STARTS, help="warm, cold or both")
    parser.add_argument("--json", type=Path, help="where the JSON goes (a new file in benchmarks/out)")
    return parser.parse_args()


def listed(kind: Callable[[str], Any], known: Sequence[str] = ()) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        try:
            values = [kind(part) for part in text.split(",")]
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
        for value in values:
            if (known and value not in known) or (not known and value <= 0):
                allowed = f"one of {', '.join(known)}" if known else "a positive number"
                raise argparse.ArgumentTypeError(f"{value!r} is not {allowed}")
        return values

    return parse


def recipes(workflows: Sequence[str], sizes: Sequence[int]) -> Iterator[Instance]:
    """The recipes of WfCommons, which is needed for them alone."""
    make = importlib.import_module("wfcommons_graphs").wfcommons_instance
    for size in sizes:
        for workflow in workflows:
            yield make(workflow, size)


def compare(instance: Instance, factor: float, starts: Sequence[str]) -> Iterator[Outcome]:
    """Plan a workflow in all ways and simulate every plan."""
    scaled = instance.scaled(factor)
    classic: list[Candidate] = []
    for start in starts:
        outlook = Outlook(scaled.graph, scaled.predictions(), platform(warm=start == "warm"), clock=time.perf_counter)
        bounds = bounds_of(outlook)  # also has every run time predicted, before planning is timed
        classic = classic or list(scheduled(outlook))  # start-ups are nothing to them
        began = time.perf_counter()
        for candidate in (*planned(outlook), *classic):
            yield outcome(instance, factor, start, outlook, bounds, candidate)
        say(f"{instance.name:20} x {factor:g} {start}  {time.perf_counter() - began:6.1f} s")


def outcome(
    instance: Instance, factor: float, start: str, outlook: Outlook, bounds: Bounds, candidate: Candidate
) -> Outcome:
    simulation = outlook.simulate(candidate.plan)
    return Outcome(
        workflow=instance.name,
        tasks=len(instance.graph),
        factor=factor,
        start=start,
        family=candidate.family,
        variant=candidate.variant,
        makespan_s=simulation.makespan_s,
        cost_usd=simulation.cost_usd,
        bounds=bounds,
        workers=len(simulation.workers),
        cold_starts=simulation.cold_starts,
        planning_s=candidate.planning_s,
        classic_s=candidate.classic_s,
    )


Best = dict[tuple[str, str], Outcome]
"""The best variant of each family, by workflow and family."""


def best_variants(outcomes: Sequence[Outcome], objective: str) -> Best:
    found: Best = {}
    for one in outcomes:
        key = one.workflow, one.family
        if key not in found or one.ratio(objective) < found[key].ratio(objective):
            found[key] = one
    return found


def print_tables(outcomes: Sequence[Outcome], factor: float, start: str) -> None:
    """What was found with these run times and these starts, a table for each number."""
    times = "run times as traced" if factor == 1 else f"{factor:g} of the run times"
    fastest, cheapest = (best_variants(outcomes, objective) for objective in ("makespan", "cost"))
    print_table(f"makespan / bound; {start}, {times}", fastest, lambda one: f"{one.makespan_ratio:.3f}", middle_ratio)
    print_table(f"cost / bound; {start}, {times}", cheapest, lambda one: f"{one.cost_ratio:.3f}", middle_cost)
    print_table(
        f"cost / bound of the fastest variant; {start}, {times}",
        fastest,
        lambda one: f"{one.cost_ratio:.3f}",
        middle_cost,
    )
    print_table(f"workers of the fastest variant; {start}, {times}", fastest, lambda one: f"{one.workers}")
    print_table(f"planning, in ms, of the fastest variant; {start}, {times}", fastest, planning_ms)


def middle_ratio(outcomes: Sequence[Outcome]) -> str:
    return f"{median(one.makespan_ratio for one in outcomes):.3f}"


def middle_cost(outcomes: Sequence[Outcome]) -> str:
    return f"{median(one.cost_ratio for one in outcomes):.3f}"


def planning_ms(outcome: Outcome) -> str:
    return f"{1000 * outcome.planning_s:.0f}"


def print_table(
    title: str,
    best: Best,
    cell: Callable[[Outcome], str],
    middle: Callable[[Sequence[Outcome]], str] | None = None,
) -> None:
    families = list(dict.fromkeys(family for _, family in best))
    workflows = list(dict.fromkeys(workflow for workflow, _ in best))
    rows = [[workflow, *(cell(best[workflow, family]) for family in families)] for workflow in workflows]
    if middle is not None:
        rows.append(["median", *(middle([best[w, family] for w in workflows]) for family in families)])
    print(f"\n{title}")
    for row in [["", *families], *rows]:
        print(f"{row[0]:20}" + "".join(f"{text:>11}" for text in row[1:]))


def judge(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What does not meet the goals."""
    warm = [one.makespan_ratio for one in outcomes if one.family == "auto" and one.start == "warm" and one.factor == 1]
    if warm and median(warm) > MOST_RATIO:
        yield f"the median of Auto's makespans, warm, is {median(warm):.3f} times the bound, not {MOST_RATIO:.2f}"
    for auto, others in contests(outcomes):
        objective = AUTO[auto.family]
        better = [one for one in others if auto.ratio(objective) > one.ratio(objective) * SAME]
        if better:
            first = min(better, key=lambda one: one.ratio(objective))
            yield (
                f"{auto.workflow} x {auto.factor:g} {auto.start}: {first.family} {first.variant} has a {objective} of "
                f"{first.ratio(objective):.4f} times the bound, {auto.family} one of {auto.ratio(objective):.4f}"
            )


def contests(outcomes: Sequence[Outcome]) -> Iterator[tuple[Outcome, list[Outcome]]]:
    """Each plan of Auto, and all other plans of the same workflow."""
    by_case: dict[tuple[str, float, str], list[Outcome]] = {}
    for one in outcomes:
        by_case.setdefault((one.workflow, one.factor, one.start), []).append(one)
    for case in by_case.values():
        for auto in case:
            if auto.family in AUTO:
                yield auto, [one for one in case if one is not auto]


def print_worst(outcomes: Sequence[Outcome], count: int = 8) -> None:
    """Where Auto is furthest behind the best of the others, or least ahead."""
    for family, objective in AUTO.items():
        behind = []
        for auto, others in contests(outcomes):
            if auto.family == family:
                first = min(others, key=lambda one: one.ratio(objective))
                behind.append((auto.ratio(objective) / first.ratio(objective), auto, first))
        if behind:
            print(f"\n{family}: {objective} beside the best of the others")
        for ratio, auto, first in sorted(behind, key=lambda entry: -entry[0])[:count]:
            case = f"{auto.workflow} x {auto.factor:g} {auto.start}"
            print(f"{case:32}{ratio:9.4f}  ({auto.ratio(objective):.3f} of the bound; {first.family} {first.variant})")


def write(instances: Sequence[Instance], outcomes: Sequence[Outcome], complaints: list[str], path: Path | None) -> None:
    """Everything as JSON."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    laws = {
        info.name: asdict(law)
        for instance in instances
        for info, law in zip(instance.graph.functions, instance.laws, strict=True)
    }
    document = {
        "when": when,
        "machine": {"cpus": os.cpu_count(), "system": machine.system(), "python": machine.python_version()},
        "laws": laws,
        "missed": complaints,
        "outcomes": [asdict(one) for one in outcomes],
    }
    if path is None:
        OUT.mkdir(exist_ok=True)
        path = OUT / f"planning-quality-{when.replace(':', '').replace('+0000', 'Z')}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    say(f"JSON in {path}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
