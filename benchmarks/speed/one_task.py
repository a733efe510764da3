"""One task in a fresh process, as `latency` has it done: what `.compute()` takes at first, and from then on.

The clock starts before Augury is imported, so nothing of it may be imported before this module.
"""

import sys
import time

_BEGAN_S = time.perf_counter()

import json  # noqa: E402
from typing import Any  # noqa: E402

from augury import task  # noqa: E402

_IMPORTED_S = time.perf_counter()


@task
def double(number: int) -> int:
    return 2 * number


def compute_once(number: int) -> float:
    began_s = time.perf_counter()
    result = double(number).compute()
    elapsed_s = time.perf_counter() - began_s
    if result != 2 * number:
        raise ValueError(f"double({number}) gave {result}")
    return elapsed_s


def measured(more: int) -> dict[str, Any]:
    """The first call, with and without the import; and as many more."""
    first_s = compute_once(0)
    return {
        "import_s": _IMPORTED_S - _BEGAN_S,
        "first_s": first_s,
        "more_s": [compute_once(number) for number in range(1, more + 1)],
    }


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[-1]))))
