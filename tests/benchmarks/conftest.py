"""Benchmarks are scripts beside their modules; tests import those as the scripts do."""

import sys
from pathlib import Path

_BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path += [str(_BENCHMARKS / "planning"), str(_BENCHMARKS)]
