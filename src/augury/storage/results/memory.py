"""Outputs kept in the memory of one process: for tests."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from augury.serde import Blob, Buffer
from augury.storage.results.protocol import ENTRY_BYTES


class MemoryResults:
    """Keeps outputs in memory; see `Results`.

    Args:
        most_bytes: How much room there is.
        clock: Seconds.
    """

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # the least recently used first

    def get(self, key: str) -> Buffer | None:
        """See `Results.get`."""
        with self._lock:
            self._expire()
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: str, blob: Blob, expires_s: float) -> None:
        """See `Results.put`."""
        if blob.size_bytes + ENTRY_BYTES > self._most_bytes:
            return
        with self._lock:
            self._expire()
            self._entries[key] = (blob.join(), self._clock() + expires_s)
            self._entries.move_to_end(key)
            while sum(len(data) + ENTRY_BYTES for data, _ in self._entries.values()) > self._most_bytes:
                self._entries.popitem(last=False)

    def clear(self) -> int:
        """See `Results.clear`."""
        with self._lock:
            count = len(self._entries)
            self._entries.clear()
            return count

    def close(self) -> None:
        """Nothing to let go of."""

    def _expire(self) -> None:
        now_s = self._clock()
        for key in [key for key, (_, until_s) in self._entries.items() if until_s <= now_s]:
            del self._entries[key]
