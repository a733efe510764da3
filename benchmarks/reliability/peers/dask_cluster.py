"""Dask distributed: delayed functions on a local cluster of two single-threaded processes.

Its nannies start workers again, and a task may see three workers die, by default. The hardened one also declares
workers lost that are silent for ten seconds, instead of five minutes.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask
from dask import delayed
from distributed import Client, LocalCluster

from reliability.peers.protocol import LEASE_S, MEMORY_MB, Arguments


class Dask:
    """A `LocalCluster`; where the scheduler is to be killed, processes from the command line, as in production."""

    def __init__(self, *, folder: Path, fault: str, hardened: bool) -> None:
        self._folder = folder
        self._fault = fault
        self._hardened = hardened
        self._processes: list[subprocess.Popen[bytes]] = []

    def version(self) -> str:
        """Of distributed."""
        return version("distributed")

    def start(self) -> None:
        """Start the scheduler and two workers; the dashboard is left out."""
        if self._hardened:
            dask.config.set({"distributed.scheduler.worker-ttl": f"{LEASE_S:g}s"})
        if self._fault == "coordinator":
            self._client = Client(scheduler_file=str(self._start_apart()), timeout=30)
        else:
            memory = f"{MEMORY_MB}MiB" if self._fault == "memory" else "auto"
            self._cluster = LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=memory
            )
            self._client = Client(self._cluster)
        self._client.wait_for_workers(2)

    def targets(self) -> dict[str, int]:
        """The scheduler, if it is a process of its own."""
        return {"coordinator": self._processes[0].pid} if self._processes else {}

    def each(self, function: Callable[..., Any], arguments: Sequence[Arguments]) -> list[Any]:
        """Delayed calls."""
        decorated = delayed(function)
        return [decorated(*one) for one in arguments]

    def result(self, value: Any) -> Any:
        """Compute the graph."""
        return self._client.compute(value).result()

    def stop(self) -> None:
        """Close all."""
        self._client.close()
        if not self._processes:
            self._cluster.close()
        for process in self._processes:
            process.kill()

    def _start_apart(self) -> Path:
        file = self._folder / "scheduler.json"
        command = [sys.executable, "-m", "dask"]
        shared = ["--scheduler-file", str(file), "--no-dashboard"]
        worker = ["worker", *shared, "--nworkers", "2", "--nthreads", "1"]
        for arguments in (["scheduler", *shared, "--port", "0"], worker):
            self._processes.append(
                subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
        return file
