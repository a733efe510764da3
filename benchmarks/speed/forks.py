"""The bare rate of forks, as `invocations` has it measured: nothing but forks, and a round trip to Redis in each child.

client      the parent has imported and rehearsed what workers need, and children use the client that workers use
socket      the same parent; children write the command into a socket by hand
empty       the parent is an interpreter that has imported next to nothing; children do as above
"""

import gc
import importlib
import os
import socket
import sys
import time
from collections.abc import Callable


def rate(way: str, address: str, count: int, alive: int) -> float:
    """How many children a second, so many of them at once."""
    round_trip = by_client if way == "client" else by_hand
    if way != "empty":
        importlib.import_module("augury.worker.entrypoint")
        importlib.import_module("augury.worker.rehearsal").rehearse()
    gc.collect()
    gc.disable()
    gc.freeze()
    began_s = time.perf_counter()
    for number in range(count):
        if number >= alive:
            reap()
        if os.fork() == 0:
            be_child(round_trip, address)
    for _ in range(min(count, alive)):
        reap()
    return count / (time.perf_counter() - began_s)


def be_child(round_trip: Callable[[str], bool], address: str) -> None:
    """One round trip."""
    status = 1
    try:
        status = 0 if round_trip(address) else 1
    finally:
        os._exit(status)


def by_client(address: str) -> bool:
    client = importlib.import_module("augury.storage.redis_client").RedisClient(address)
    return bool(client.command("ECHO", "there") == b"there")


def by_hand(address: str) -> bool:
    path = address.removeprefix("unix://").partition("?")[0]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"*2\r\n$4\r\nECHO\r\n$5\r\nthere\r\n")
        return connection.recv(100).endswith(b"there\r\n")


def reap() -> None:
    _, status = os.wait()
    if status:
        raise RuntimeError(f"a child ended with {status}")


if __name__ == "__main__":
    way, address, count, alive = sys.argv[-4:]
    print(rate(way, address, int(count), int(alive)))
