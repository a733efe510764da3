"""Benchmarks are scripts beside their modules; tests import those as the scripts do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "planning"))
