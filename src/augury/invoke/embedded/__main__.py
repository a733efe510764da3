"""The supervisor's process begins here: `python -m augury.invoke.embedded`, started by `Embedded.start`.

With the number of a socket as its argument it becomes a pre-loaded parent instead: one that stands for another.
"""

import importlib
import os
import signal
import socket
import sys

import msgspec

from augury.invoke.embedded.wire import Settings
from augury.invoke.embedded.zygote import be_zygote, fork_zygote


def main() -> None:
    """Read the settings, fork the pre-loaded parent, and supervise until the client is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = msgspec.json.decode(_read_line(), type=Settings)
    sys.path[:0] = settings.sys_path
    if len(sys.argv) > 1:
        be_zygote(socket.socket(fileno=int(sys.argv[1])), settings)
    for lock in (settings.folder_lock, settings.object_lock):
        os.set_inheritable(lock, False)
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
