"""An open platform, as the runs of a client see it."""

from augury.config import public_address
from augury.dag.graph import Graph
from augury.errors import PlanError, StorageError
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.invoke.gateway import Gateway, Limits
from augury.invoke.http_gateway import HttpGateway
from augury.plan.plan import Plan
from augury.storage.protocols import Status, Storage


class Platform:
    """An open platform: storage, gateway, and what it can do.

    Args:
        storage: Where runs keep their data; `address`: where that is, for messages.
        gateway: What starts workers.
        limits: What it can do.
        embedded: The embedded platform, if it is one; its workers have the storage that it gave us.
        name: How records call it.
    """

    def __init__(
        self,
        storage: Storage,
        address: str,
        gateway: HttpGateway,
        limits: Limits,
        embedded: EmbeddedPlatform | None,
        name: str,
    ) -> None:
        self.name = name
        self.storage = storage
        self.gateway: Gateway = gateway
        self.limits = limits
        self.embedded = embedded
        self._address = address
        self._to_check: HttpGateway | None = gateway if embedded is None else None

    @property
    def object_dir(self) -> str:
        """Where large objects are, if client and workers share memory; else empty."""
        return self.embedded.storage_config.object_dir if self.embedded is not None else ""

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
        self.gateway.close()
        self.storage.close()
        if self.embedded is not None:
            self.embedded.close()


def check_limits(graph: Graph, plan: Plan, limits: Limits) -> None:
    """Refuse a plan with a worker that the platform cannot give.

    Raises:
        PlanError: Says which task wants what.
    """
    for task, assignment in enumerate(plan.assignments if limits.memory_mb else ()):
        wanted_mb = assignment.resources.memory_mb
        if wanted_mb > limits.memory_mb:
            raise PlanError(
                f"{graph.label(task)} is to have {wanted_mb:,} MB and a worker of this platform can have "
                f"{limits.memory_mb:,} MB at most: ask for less, in @task(memory_mb=…) or of the planner"
            )
