"""What every compared system can do: call functions, some with what others gave, and wait for a result."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

LEASE_S = 10.0
"""How long a worker may be silent, in systems that can be told so."""

MEMORY_MB = 300
"""What a worker may use, where a task asks for more, in systems that can be told so."""

Arguments = tuple[Any, ...]


class Peer(Protocol):
    """A system with two worker processes on this machine, each of which runs one task at a time.

    `hardened` asks for the settings that its documentation recommends against faults, where they are not the default;
    `fault` is what is going to happen, since some faults need another setup.
    """

    def __init__(self, *, folder: Path, fault: str, hardened: bool) -> None: ...

    def version(self) -> str:
        """Of the installed package."""
        ...

    def start(self) -> None:
        """Bring it up."""
        ...

    def targets(self) -> dict[str, int]:
        """Processes other than workers that a fault may strike, by the name of the fault."""
        ...

    def each(self, function: Callable[..., Any], arguments: Sequence[Arguments]) -> list[Any]:
        """Call a function with each of these arguments, which may be what an earlier `each` gave."""
        ...

    def result(self, value: Any) -> Any:
        """Wait for what `each` gave one of."""
        ...

    def stop(self) -> None:
        """Take it down."""
        ...
