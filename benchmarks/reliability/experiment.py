"""One experiment, in a process of its own: bring a system up, run a workload, write down what the user gets.

    python -m reliability.experiment SYSTEM WORKLOAD FAULT HARDENED FOLDER

`targets.json` in the folder tells when it begins and what can be struck besides workers; `outcome.json` how it ended.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from reliability.peers.protocol import Peer
from reliability.workloads import EXPECTED, WORKLOADS

PEERS = {
    "augury": ("reliability.peers.augury_engine", "Augury"),
    "dask": ("reliability.peers.dask_cluster", "Dask"),
    "ray": ("reliability.peers.ray_cluster", "Ray"),
    "lithops": ("reliability.peers.lithops_local", "Lithops"),
}
WARM_UP_TASKS = 4


def main() -> None:
    system, workload, fault, hardened, folder = sys.argv[1:]
    module, name = PEERS[system]
    peer: Peer = getattr(importlib.import_module(module), name)(
        folder=Path(folder), fault=fault, hardened=hardened == "hardened"
    )
    peer.start()
    warm_up(peer)
    put(Path(folder) / "targets.json", peer.targets() | {"client": os.getpid()})
    outcome = run(peer, workload, folder)
    put(Path(folder) / "outcome.json", outcome | {"version": peer.version()})
    peer.stop()


def warm_up(peer: Peer) -> None:
    """Have every worker do something; all at once, since Lithops drops what nobody waits for."""
    values = peer.each(asleep, [(index,) for index in range(WARM_UP_TASKS)])
    peer.result(peer.each(together, [tuple(values)])[0])


def asleep(index: int) -> int:
    time.sleep(0.1)
    return index


def together(*indices: int) -> int:
    return len(indices)


def run(peer: Peer, workload: str, folder: str) -> dict[str, Any]:
    start_s = time.monotonic()
    try:
        result = WORKLOADS[workload](peer, folder)
    except Exception as error:  # noqa: BLE001 - whatever the user gets is what we are here for
        message = f"{type(error).__name__}: {error}"
        return {"kind": "error", "elapsed_s": time.monotonic() - start_s, "message": message}
    kind = "right" if result == EXPECTED[workload] else "wrong"
    return {"kind": kind, "elapsed_s": time.monotonic() - start_s, "message": ""}


def put(path: Path, document: dict[str, Any]) -> None:
    """Write a file that is never seen half."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document))
    part.replace(path)


if __name__ == "__main__":
    main()
