"""Tells how much was tried."""

import pytest

from tests.fuzz.mutations import TALLY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line, if there was any fuzzing."""
    if TALLY["inputs"]:
        terminalreporter.write_line(f"fuzzing: {TALLY['inputs']:,} inputs, of which {TALLY['read']:,} could be read")
