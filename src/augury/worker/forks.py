"""What a task forks is no worker: it ends where the function of the task does, as a fork ends with its program."""

import os
import sys
import traceback
from typing import NoReturn


def end_fork() -> NoReturn:
    """End this process, a fork in which a function has returned or raised; called in its `finally`."""
    error = sys.exc_info()[1]
    status = 0
    if isinstance(error, SystemExit):
        status = _status(error.code)
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _status(code: object) -> int:
    """The exit status that `sys.exit(code)` asks for."""
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1
