"""Many seeds, one after the other, until one fails: then it says how to play that one again.

python -m tests.simulation.soak --seeds 100000 --first 0
"""

import argparse
import sys
import time
import traceback
from contextlib import nullcontext

from tests.simulation.cases import Tally, examine
from tests.simulation.telling import aloud

_EVERY_S = 10.0


def main() -> int:
    """Go through the seeds; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100_000, help="how many")
    parser.add_argument("--tell", action="store_true", help="write down everything that happens")
    options = parser.parse_args()
    with aloud() if options.tell else nullcontext():
        return _soak(range(options.first, options.first + options.seeds))


def _soak(seeds: range) -> int:
    tally = Tally()
    began_s = said_s = time.monotonic()
    for seed in seeds:
        try:
            examine(seed, tally)
        except KeyboardInterrupt:
            break
        except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
            traceback.print_exc()
            sys.stderr.write(
                f"\nseed {seed} fails. To play it again:\n\n"
                f"    python -m tests.simulation.soak --first {seed} --seeds 1 --tell\n"
            )
            return 1
        if time.monotonic() - said_s > _EVERY_S:
            said_s = time.monotonic()
            sys.stdout.write(_summary(tally, said_s - began_s) + "\n")
    sys.stdout.write(_summary(tally, time.monotonic() - began_s) + "\n")
    for kind, count in tally.faults.most_common():
        sys.stdout.write(f"  {count:>9,} × {kind}\n")
    return 0


def _summary(tally: Tally, elapsed_s: float) -> str:
    return (
        f"{tally.seeds:,} seeds in {elapsed_s:.1f} s ({tally.seeds / elapsed_s:.0f} per second): "
        f"{tally.faults.total():,} faults, {tally.tasks:,} tasks executed {tally.executions:,} times, "
        f"{tally.failed:,} runs failed, and had to"
    )


if __name__ == "__main__":
    sys.exit(main())
