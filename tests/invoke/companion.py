"""A module that starts a process when it is imported, as some do that talk to another language's runtime."""

import subprocess

_SCRIPT = "read order; sleep 1000 >/dev/null & echo $!"
_launcher = subprocess.Popen(["sh", "-c", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def start_daemon() -> int:
    """Have the process start another one, which stays, and end."""
    return int(_launcher.communicate(b"\n")[0])
