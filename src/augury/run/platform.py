"""An open platform, as the runs of a client see it."""

import logging
import socket
import time
from contextlib import suppress

from augury.config import ResultsConfig, public_address
from augury.dag.graph import Graph
from augury.errors import AuguryError, PlanError, PlatformError, StorageError
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.invoke.gateway import Gateway, Limits
from augury.invoke.http_gateway import HttpGateway
from augury.plan.outlook import Outlook
from augury.plan.plan import Plan
from augury.plan.predictions import BY_HAND
from augury.run.places import Place, forget_place, note_place
from augury.storage.protocols import Status, Storage
from augury.trust.seal import Keyring

_log = logging.getLogger(__name__)


class Platform:
    """An open platform: storage, gateway, and what it can do.

    Args:
        storage: Where runs keep their data; `address`: where that is, for messages.
        gateway: What starts workers.
        limits: What it can do.
        embedded: The embedded platform, if it is one; its workers have the storage that it gave us.
        name: How records call it.
        keyring: What runs are signed with; workers must have the same keys.
        object_dir: Where large objects are, if client and workers share memory; by default as `embedded` says.
        owns_storage: Whether its storage ends with it, with everything in it; by default as `embedded` says.
        results: Where outputs are kept for later runs; None: nowhere.
    """

    def __init__(
        self,
        storage: Storage,
        address: str,
        gateway: HttpGateway,
        limits: Limits,
        embedded: EmbeddedPlatform | None,
        name: str,
        keyring: Keyring,
        *,
        object_dir: str = "",
        owns_storage: bool = False,
        results: ResultsConfig | None = None,
    ) -> None:
        self.keyring = keyring
        self.results = results or ResultsConfig()
        self.name = name
        self.storage = storage
        self.gateway: Gateway = gateway
        self.limits = limits
        self.embedded = embedded
        self._address = address
        self._to_check: HttpGateway | None = gateway if embedded is None else None
        self.object_dir = object_dir if embedded is None else embedded.storage_config.object_dir
        self.owns_storage = owns_storage if embedded is None else embedded.owns_storage

    @property
    def alive(self) -> bool:
        """Whether it is still there, as far as that can be seen from here."""
        return self.embedded is None or self.embedded.alive

    @property
    def is_lost(self) -> bool:
        """Whether its own storage is gone, with all that was in it."""
        return self.owns_storage and not (self.alive and _listens(self._address.removeprefix("unix://")))

    @property
    def usable(self) -> bool:
        """Whether it can start another run."""
        return self.embedded is None or self.embedded.usable

    def keep(self, run_id: str) -> bool:
        """A run goes on without this client: have the embedded platform stay for it, and others find it.

        False if nobody could find it; then it ends with this client.
        """
        if self.embedded is None:
            return True
        place = Place(
            run_id=run_id,
            redis=self._address,
            owns_storage=self.owns_storage,
            gateway=self.embedded.url,
            token=self.embedded.token,
            platform=self.name,
            folder=str(self.embedded.folder),
            made_s=time.time(),
        )
        try:
            note_place(place)
        except (OSError, StorageError) as error:
            _log.warning("run %s ends with this client, since no other process could find it: %s", run_id, error)
            return False
        self.embedded.kept.add(run_id)
        return True

    def release(self, run_id: str) -> None:
        """A run that was kept is removed."""
        if self.embedded is not None:
            self.embedded.kept.discard(run_id)
        forget_place(run_id)

    @property
    def deaths(self) -> int:
        """How often it died with all its workers, and another took its place."""
        return 0 if self.embedded is None else self.embedded.deaths

    def check_alive(self) -> None:
        """Make sure that there is somebody who runs workers.

        Raises:
            PlatformError: The embedded platform is gone.
        """
        if not self.alive:
            raise PlatformError("the embedded platform has died, with all its workers; the next run starts a new one")

    def check_storage(self, run_id: str) -> None:
        """Make sure, with the first run, that workers have the same storage: else they would find nothing to do.

        Raises:
            StorageError: They have another.
        """
        if self._to_check is None:
            return
        if self._to_check.run_status(run_id) == Status.GONE:
            raise StorageError(
                f"the workers of {self._to_check!r} use another Redis than {public_address(self._address)}: "
                "give the client the address of theirs"
            )
        self._to_check = None

    def close(self) -> None:
        """Let everything go; the embedded platform ends."""
        self._forget_removed()
        self.gateway.close()
        self.storage.close()
        if self.embedded is not None:
            self.embedded.close()

    def _forget_removed(self) -> None:
        """Runs that somebody else has removed need nothing to stay for them."""
        if self.embedded is None or not self.embedded.kept or not self.owns_storage or self.is_lost:
            return
        with suppress(AuguryError):  # what cannot be asked may still be there
            for run_id in tuple(self.embedded.kept):
                if self.storage.coordination(run_id).status() is Status.GONE:
                    self.release(run_id)


def _listens(path: str) -> bool:
    """Whether there is somebody behind a Unix socket, though perhaps too busy, or we too poor, to be heard."""
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(1.0)
            asking.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except OSError:
        return True
    return True


def check_limits(graph: Graph, plan: Plan, limits: Limits) -> None:
    """Refuse a plan with a worker that the platform cannot give, or with a task that it gives no worker the time for.

    Raises:
        PlanError: Says which task wants what.
    """
    if limits.time_limit_s and plan.outlook is not None:
        _check_time(graph, plan, plan.outlook, limits.time_limit_s)
    for task, assignment in enumerate(plan.assignments if limits.memory_mb else ()):
        wanted_mb = assignment.resources.memory_mb
        if wanted_mb > limits.memory_mb:
            raise PlanError(
                f"{graph.label(task)} is to have {wanted_mb:,} MB and a worker of this platform can have "
                f"{limits.memory_mb:,} MB at most: ask for less, in @task(memory_mb=…) or of the planner"
            )


def _check_time(graph: Graph, plan: Plan, outlook: Outlook, limit_s: float) -> None:
    """Refuse a task that is known to take longer than any invocation may.

    What is merely assumed counts for nothing; and whose output may be kept from an earlier run need not run.
    """
    known = [evidence.n > 0 or evidence.basis == BY_HAND for evidence in outlook.evidence]
    for task, assignment in enumerate(plan.assignments):
        function = graph.function_of[task]
        must_run = known[function] and not graph.functions[function].cache_s
        expected_s = outlook.execution_s(assignment.resources)[task] if must_run else 0.0
        if expected_s > limit_s:
            raise PlanError(
                f"{graph.label(task)} is expected to run for {expected_s:,.4g} s with "
                f"{assignment.resources.memory_mb:,} MB ({outlook.evidence[function].basis}), and this platform ends a "
                f"worker after {limit_s:,g} s: split the task, let it have more, or run it where there is no such limit"
            )
