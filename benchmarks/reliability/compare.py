"""The same workloads, killed in the same way, on Augury, Dask distributed, Ray and Lithops.

    python benchmarks/reliability/compare.py --systems augury,dask --cases fan-out:kill-one,tree:kill-each

Each experiment is a process of its own, which brings a system up with two workers, warms it up and runs one workload;
one experiment at a time. If, after the fault, nothing happens for a minute (no task begins, no result, no error), it
counts as hanging. Every process that it left is killed afterwards. The JSON goes to `benchmarks/out/`, the table to
standard output.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from reliability.experiment import PEERS  # noqa: E402 - a script beside its package
from reliability.marks import MARK, kill_all  # noqa: E402
from reliability.striking import notes_in, strike  # noqa: E402
from reliability.table import table  # noqa: E402

START_S = 60.0
STILL_S = 60.0
"""How long nothing may happen before a run counts as hanging."""

LONGEST_S = 240.0
OUT = HERE.parent / "out"
CASES = (
    "fan-out:none",
    "fan-out:kill-one",
    "fan-out:kill-each",
    "fan-out:stop",
    "fan-out:coordinator",
    "fan-out:storage",
    "poison:poison",
    "greed:memory",
    "chain:none",
    "chain:kill-one",
    "chain:kill-each",
    "tree:none",
    "tree:kill-one",
    "tree:kill-each",
)


def main() -> None:
    options = parse_options()
    rows = []
    for case in options.cases.split(","):
        workload, _, fault = case.partition(":")
        for system in options.systems.split(","):
            row = experiment(system, workload, fault, hardened=options.hardened)
            say(json.dumps(row))
            rows.append(row)
    OUT.mkdir(exist_ok=True)
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    (OUT / f"reliability-{when}.json").write_text(json.dumps(rows, indent=2) + "\n")
    print(table(rows))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default=",".join(PEERS), help="names, separated by commas")
    parser.add_argument("--cases", default=",".join(CASES), help="WORKLOAD:FAULT, separated by commas")
    parser.add_argument("--hardened", action="store_true", help="with the settings that are recommended against faults")
    return parser.parse_args()


def experiment(system: str, workload: str, fault: str, *, hardened: bool) -> dict[str, Any]:
    """Run one, and say what came of it."""
    with tempfile.TemporaryDirectory(prefix="rel-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        arguments = [system, workload, fault, "hardened" if hardened else "default", name]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "reliability.experiment", *arguments],
                env=os.environ | {MARK: name, "PYTHONPATH": search_path()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            outcome = observe(process, folder, workload, fault)
        finally:
            kill_all(folder)
            process.wait()
        return {"system": system, "workload": workload, "fault": fault, "hardened": hardened} | outcome


def search_path() -> str:
    return os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))


def observe(process: "subprocess.Popen[bytes]", folder: Path, workload: str, fault: str) -> dict[str, Any]:
    """Wait for the beginning, strike, wait for the end."""
    if not appears(process, folder / "targets.json", START_S):
        return {"kind": "not started", "message": (folder / "log").read_text(errors="replace")[-2000:]}
    targets = json.loads((folder / "targets.json").read_text())
    if fault in ("coordinator", "storage") and fault not in targets:
        return {"kind": "n/a", "message": "there is none apart from the client"}
    began_s = time.monotonic()
    until_s = began_s + LONGEST_S
    ended = folder / "outcome.json"
    struck = strike(
        fault,
        workload,
        folder,
        targets,
        lambda: not ended.exists() and process.poll() is None and time.monotonic() < until_s,
    )
    struck_s = time.monotonic() - began_s
    if ends(process, ended, until_s):
        outcome: dict[str, Any] = json.loads(ended.read_text())
    else:
        gone = process.poll()
        outcome = {"kind": "hang" if gone is None else "died", "elapsed_s": time.monotonic() - began_s}
        outcome["message"] = (folder / "log").read_text(errors="replace")[-2000:]
    times = Counter(note.task for note in notes_in(folder))
    counted = {"struck": struck, "struck_s": struck_s, "tasks": len(times), "again": times.total() - len(times)}
    return outcome | counted


def appears(process: "subprocess.Popen[bytes]", path: Path, timeout_s: float) -> bool:
    """Wait for a file of a process; False if that ends or takes too long."""
    until_s = time.monotonic() + timeout_s
    while not path.exists():
        if process.poll() is not None or time.monotonic() > until_s:
            return path.exists()
        time.sleep(0.005)
    return True


def ends(process: "subprocess.Popen[bytes]", outcome: Path, until_s: float) -> bool:
    """Wait for the outcome for as long as tasks begin, and a while after; False if there is none."""
    begun = -1
    while begun < (now := len(notes_in(outcome.parent))) and time.monotonic() < until_s:
        begun = now
        if appears(process, outcome, STILL_S):
            return True
    return False


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
