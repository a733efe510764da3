"""How long somebody waits for one task: in a fresh process with nothing running, and with the platform up.

Each process is a fresh interpreter that calls `.compute()` once, on the embedded platform with everything as it is by
default; the clock starts right before that, and for another figure before the import of Augury. Two processes go
first, so that files are in memory and there is a history, as on any machine where Augury was used before.

With the platform up, the same task is computed again and again in one process, with another argument each time; a few
first ones are not counted. Results are checked. Medians count.

Takes a second for each fresh process, and there are four for each repetition.
"""

import sys
from collections.abc import Iterator
from statistics import median
from typing import Any

from speed.figures import Figure
from speed.measuring import Effort, done_apart, main, say

FRESH_BAR_S = 0.8
WARM_BAR_S = 0.015
WARM_CALLS = 100
WARMING_CALLS = 10
PROCESSES = 4


def measure(effort: Effort) -> Iterator[Figure]:
    """Fresh processes, then one that lives."""
    for _ in range(2):
        one_task(0)
    fresh = [one_task(0) for _ in range(effort.size(PROCESSES * effort.repeat, 3))]
    first_s = [found["first_s"] for found in fresh]
    with_import_s = [found["first_s"] + found["import_s"] for found in fresh]
    yield Figure(
        what="one task, fresh process",
        value=median(first_s),
        unit="s",
        bar=FRESH_BAR_S,
        samples={"compute_s": first_s},
        note=f"{len(fresh)} processes, {min(first_s):.2f} to {max(first_s):.2f} s",
    )
    yield Figure(
        what="one task, fresh process, with the import of Augury",
        value=median(with_import_s),
        unit="s",
        samples={"import and compute_s": with_import_s},
    )
    warm_s = one_task(WARMING_CALLS + effort.size(WARM_CALLS, 10))["more_s"][WARMING_CALLS:]
    yield Figure(
        what="one task, platform up",
        value=median(warm_s),
        unit="s",
        bar=WARM_BAR_S,
        samples={"compute_s": warm_s},
        note=f"{len(warm_s)} calls, {min(warm_s) * 1e3:.1f} to {max(warm_s) * 1e3:.1f} ms",
    )


def one_task(more: int) -> Any:
    """What a fresh process measured that calls it once, and as many times more."""
    found = done_apart("speed.one_task", more)
    say(f"first {found['first_s']:.3f} s, import {found['import_s']:.3f} s, {more} more")
    return found


if __name__ == "__main__":
    sys.exit(main(measure))
