"""Where everybody stood when a run did not end: what a test says that waited for it in vain.

Embedded(handler=HANDLER, sys_path=(ROOT,))      workers that print their stacks when they get `SIGUSR2`
value_of(run, platform)                          the value; or what there is to see of the platform and the run
"""

import faulthandler
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from augury import Run
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.invoke.gateway import Invocation, InvocationContext
from augury.storage.opening import open_storage
from augury.worker import entrypoint
from tests.invoke.stage import wait_until

HANDLER = "tests.embedded.witness:handle"
ROOT = str(Path(__file__).parents[2])

_PATIENCE_S = 60.0
_LOG_BYTES = 60_000


def handle(invocation: Invocation, context: InvocationContext) -> bool:
    faulthandler.register(signal.SIGUSR2, file=2)
    return entrypoint.handle(invocation, context)


def value_of(run: Run[Any], platform: EmbeddedPlatform) -> Any:
    """The value of a run that ends soon."""
    try:
        return run.result(timeout=_PATIENCE_S)
    except TimeoutError as error:
        error.add_note(seen(run, platform))
        raise


def seen(run: Run[Any], platform: EmbeddedPlatform) -> str:
    """What there is to see of a run that goes on, and of its workers."""
    storage = open_storage(platform.storage_config)
    coordination = storage.coordination(run.run_id)
    state = f"{coordination.progress()}\nlive: {coordination.live()}\n{coordination.remains()}"
    storage.close()
    for pid in _witnesses(platform.pid):
        _have_printed(pid, platform._log_path)
    log = platform._log_path.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
    return f"{platform.gateway().status()}\n{state}\n{log}"


def _have_printed(pid: int, log: Path) -> None:
    """Have a worker print the stacks of its threads; that which the signal interrupts comes last."""
    before = log.stat().st_size
    os.kill(pid, signal.SIGUSR2)
    with suppress(AssertionError):  # it is frozen
        wait_until(lambda: b"Current thread" in log.read_bytes()[before:], "a worker prints where it is")


def _witnesses(supervisor: int) -> list[int]:
    """The workers of a platform, all in the session of its supervisor, that would not die of the signal."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(folder.name)) == supervisor and _catches(folder / "status"):
                found.append(int(folder.name))
    return found


def _catches(status: Path) -> bool:
    caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGUSR2 - 1))
