"""The entry point of an invocation."""

import subprocess
import sys


def test_what_every_worker_needs_is_imported_before_workers_are_forked() -> None:
    code = "import sys, augury.worker.entrypoint; print(sorted({'redis', 'asyncio', 'cloudpickle'} - set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
