"""What keeps outputs for later runs."""

from typing import Final, Protocol

from augury.serde import Blob, Buffer

ENTRY_BYTES: Final = 256
"""What an entry takes besides its value, about: very many small ones take room, too."""


class Results(Protocol):
    """Outputs by key, within so many bytes: those that were not asked for longest give way. Thread-safe.

    A key is a hash of what the output was computed from, in hexadecimal digits. Writing it again is allowed and leaves
    a complete value, the first or the second: readers never see a mix. Who reads it has to authenticate it.

    Raises:
        StorageError: It cannot be reached or refuses; the caller goes on without it.
    """

    def get(self, key: str) -> Buffer | None:
        """An output, which counts as used now; None if there is none, or its time is over."""
        ...

    def put(self, key: str, blob: Blob, expires_s: float) -> None:
        """Keep an output for so long at most; one that is larger than all the room is not kept."""
        ...

    def clear(self) -> int:
        """Forget everything; how many outputs there were."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...
