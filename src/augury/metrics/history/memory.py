"""Records in the memory of this process: for tests, and for clients that keep nothing beyond themselves."""

import threading
from collections.abc import Iterable, Sequence

from augury.metrics.history.store import MOST_WORKFLOWS, Change, Entry, Index, encode_document, in_order
from augury.metrics.records import Records


class MemoryStore:
    """Keeps records as long as it lives. Thread-safe.

    Args:
        most_workflows: How many workflows it keeps; those that were not updated for longest give way.

    Example:
        >>> store = MemoryStore()
        >>> store.update("etl", lambda records: Records(workflow="etl", runs=1))
        >>> store.load(["etl", "other"])["etl"].runs
        1
    """

    def __init__(self, *, most_workflows: int = MOST_WORKFLOWS) -> None:
        self._most_workflows = most_workflows
        self._documents: dict[str, tuple[Records, Entry]] = {}  # the one updated last stands last
        self._index = Index()
        self._lock = threading.RLock()  # a change may read from the store

    @property
    def address(self) -> str:
        """Where it is."""
        return "memory"

    def load(self, workflows: Sequence[str]) -> dict[str, Records]:
        """The records of those of these workflows that have any."""
        with self._lock:
            return {name: self._documents[name][0] for name in workflows if name in self._documents}

    def update(self, workflow: str, change: Change, subjects: Sequence[str] = ()) -> None:
        """Change the records of a workflow."""
        with self._lock:
            before, _ = self._documents.get(workflow, (None, None))
            after = change(before)
            if after is None:
                return
            entry = Entry.of(after, size_bytes=len(encode_document(after)))
            self._documents.pop(workflow, None)
            self._documents[workflow] = after, entry
            while len(self._documents) > self._most_workflows:
                del self._documents[next(iter(self._documents))]
            self._index = self._index.with_known(subjects, workflow)

    def recall(self, subjects: Sequence[str]) -> dict[str, str]:
        """The workflow that learned last of each of these subjects."""
        with self._lock:
            return self._index.recall(subjects)

    def list(self) -> list[Entry]:
        """All workflows, the one updated last first."""
        with self._lock:
            return in_order(entry for _, entry in self._documents.values())

    def remove(self, workflows: Iterable[str]) -> int:
        """Forget workflows; how many of them there were."""
        with self._lock:
            return sum(self._documents.pop(workflow, None) is not None for workflow in workflows)

    def close(self) -> None:
        """Nothing to let go of."""
