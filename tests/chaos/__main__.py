"""Many runs under attack, and a table of what they survived: `python -m tests.chaos --runs 200 --seed 0`."""

import argparse
import statistics
import sys
import time
from collections.abc import Iterable, Sequence

from tests.chaos.adversary import KINDS
from tests.chaos.runs import Outcome, own_redis, run_under_attack


def main() -> int:
    """Run, print, and say whether everything was survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how many runs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow")
    parser.add_argument("--kind", choices=KINDS, action="append", help="what goes wrong; may be given several times")
    arguments = parser.parse_args()
    kinds = arguments.kind or KINDS
    began_s = time.monotonic()
    outcomes = []
    with own_redis() as server:
        for number in range(arguments.runs):
            outcome = run_under_attack(kinds[number % len(kinds)], arguments.seed + number, server)
            outcomes.append(outcome)
            if outcome.problem:
                _say(f"seed {outcome.seed}, {outcome.kind}, {outcome.workload}, {outcome.planner}: {outcome.problem}")
    _say("\n".join(_table(outcomes, kinds)))
    _say(f"{len(outcomes)} runs in {time.monotonic() - began_s:.0f} s")
    return int(any(outcome.problem for outcome in outcomes))


def _table(outcomes: Sequence[Outcome], kinds: Iterable[str]) -> Iterable[str]:
    yield "| what went wrong | runs | struck | survived | back after (median / p95 / max) | run took (median / max) |"
    yield "|---|---|---|---|---|---|"
    for kind in kinds:
        own = [outcome for outcome in outcomes if outcome.kind == kind]
        if own:
            back_s = sorted(outcome.back_s for outcome in own if outcome.back_s is not None)
            took_s = sorted(outcome.took_s for outcome in own)
            survived = sum(not outcome.problem for outcome in own)
            yield (
                f"| {kind} | {len(own)} | {sum(outcome.strikes for outcome in own)} | {survived} | "
                f"{_spread(back_s)} | {statistics.median(took_s):.2f} / {took_s[-1]:.2f} s |"
            )


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "–"
    p95 = seconds[min(len(seconds) - 1, round(0.95 * (len(seconds) - 1)))]
    return f"{statistics.median(seconds):.2f} / {p95:.2f} / {seconds[-1]:.2f} s"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
