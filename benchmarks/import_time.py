"""How long `import augury` takes beside `import distributed`, in fresh interpreters, interleaved.

    python benchmarks/import_time.py [repetitions]

Prints JSON: medians in seconds and their ratio.
"""

import json
import statistics
import subprocess
import sys
import time

MODULES = ("augury", "distributed")


def import_s(module: str) -> float:
    """Seconds that a fresh interpreter takes to import a module, less what it takes to do nothing."""
    return _run_s(f"import {module}") - _run_s("pass")


def _run_s(code: str) -> float:
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began_s


def main(repetitions: int) -> None:
    """Measure and print."""
    samples: dict[str, list[float]] = {module: [] for module in MODULES}
    for _ in range(repetitions):
        for module in MODULES:
            samples[module].append(import_s(module))
    medians = {module: statistics.median(times) for module, times in samples.items()}
    ratio = medians["augury"] / medians["distributed"]
    print(json.dumps({"import_s": medians, "ratio": round(ratio, 3), "repetitions": repetitions}, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
