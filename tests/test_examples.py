"""The examples run, each as a program of its own, and print what stands beside them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_promises(example: Path, tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AUGURY_")}
    environ["AUGURY_STATE_DIR"] = str(tmp_path / "state")
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == example.with_suffix(".txt").read_text()
    assert "Traceback" not in ran.stderr


def test_there_are_examples() -> None:
    assert {"demo", "nested", "retries"} <= {example.stem for example in EXAMPLES}
