"""The supervisor's process begins here: `python -m augury.invoke.embedded`, started by `Embedded.start`."""

import importlib
import os
import signal
import sys

import msgspec

from augury.invoke.embedded.wire import Settings
from augury.invoke.embedded.zygote import fork_zygote


def main() -> None:
    """Read the settings, fork the pre-loaded parent, and supervise until the client is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = msgspec.json.decode(_read_line(), type=Settings)
    os.set_inheritable(settings.folder_lock, False)
    sys.path[:0] = settings.sys_path
    # The pre-loaded parent imports what workers need while this process imports what it needs itself.
    zygote, control = fork_zygote(settings)
    importlib.import_module("augury.invoke.embedded.service").serve(settings, zygote, control)
    sys.stderr.flush()
    os._exit(0)  # a thread may still try to tell a run of a loss, in a Redis that is gone: nobody waits for that


def _read_line() -> bytes:
    """The first line of standard input; byte-exact, for what follows is nobody's but the event loop's."""
    line = bytearray()
    while not line.endswith(b"\n"):
        data = os.read(0, 65536)
        if not data:
            sys.exit(0)  # the client went away before it told us anything
        line += data
    return bytes(line)


if __name__ == "__main__":
    main()
