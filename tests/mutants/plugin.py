"""Breaks one guarantee, by the name in AUGURY_MUTANT, for a whole run of pytest: `-p tests.mutants.plugin`."""

import os

import pytest

from tests.mutants.mutants import MUTANTS

VARIABLE = "AUGURY_MUTANT"


def pytest_configure() -> None:
    (chosen,) = [mutant for mutant in MUTANTS if str(mutant) == os.environ[VARIABLE]]
    chosen.apply(pytest.MonkeyPatch())
