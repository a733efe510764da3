"""One embedded platform for all tests of a module, and a way to run scripts as users do."""

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from augury import Client, Embedded
from augury.storage.server import RedisServer

Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(platform=Embedded(slots=4, linger_s=0), observers=[]) as client:
        yield client


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Write a script to a folder of its own and run it in a fresh interpreter."""

    def run(
        source: str, *, name: str = "script.py", timeout: float = 60, **environ: str
    ) -> "subprocess.CompletedProcess[str]":
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return subprocess.run(
            [sys.executable, str(path)],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            env={**os.environ, "AUGURY_PROGRESS": "off", **environ},
            check=False,
        )

    return run


@pytest.fixture
def redis_with_password(tmp_path: Path) -> Iterator[tuple[str, int, str]]:
    """A Redis as a user may run it: on a TCP port, with a password."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"port": str(port), "bind": "127.0.0.1", "requirepass": "s3cret/@:"}
    with RedisServer(tmp_path / "redis", options):
        yield "127.0.0.1", port, "s3cret/@:"
