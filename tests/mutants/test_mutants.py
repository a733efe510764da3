"""Each guarantee is broken on purpose, and some test notices: the simulation, or the one that is named."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.plugin import VARIABLE
from tests.simulation.cases import Tally, examine

SEEDS = 400
ROOT = Path(__file__).parents[2]
BY_SIMULATION = [mutant for mutant in MUTANTS if not mutant.test]
BY_NAME = [mutant for mutant in MUTANTS if mutant.test]


def first_failure(seeds: int) -> int | None:
    """The first seed whose case fails."""
    tally = Tally()
    for seed in range(seeds):
        try:
            examine(seed, tally)
        except Exception:  # noqa: BLE001 - a broken guarantee may show as anything
            return seed
    return None


@pytest.mark.parametrize("mutant", BY_SIMULATION, ids=str)
def test_the_simulation_notices(mutant: Mutant) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        assert first_failure(SEEDS) is not None


@pytest.mark.parametrize("mutant", BY_NAME, ids=str)
def test_a_named_test_notices(mutant: Mutant) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.mutants.plugin",
        mutant.test,
    ]
    paths = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    told = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, VARIABLE: str(mutant)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1, told.stdout + told.stderr  # it ran, and failed


def test_the_document_tells_how_many_there_are() -> None:
    section = (ROOT / "docs" / "reliability.md").read_text().partition("## Mutants")[2].partition("\n## ")[0]
    told = re.search(r"breaks (\d+) guarantees.* (\d+) by the simulation,.* and\s(\d+), which need", section, re.DOTALL)
    assert told is not None
    assert tuple(map(int, told.groups())) == (len(MUTANTS), len(BY_SIMULATION), len(BY_NAME))


def test_there_are_enough_of_them_and_no_two_of_a_name() -> None:
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS) >= 20
