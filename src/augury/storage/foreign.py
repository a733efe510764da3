"""What others may have written into the storage: read, or refused in words."""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import msgspec

from augury.errors import DefinitionError, StorageError

_UNREADABLE: Final = (
    msgspec.MsgspecError,
    ValueError,  # UnicodeDecodeError too
    TypeError,
    LookupError,
    OverflowError,
    RecursionError,
    DefinitionError,
)

_Given = ParamSpec("_Given")
_Read = TypeVar("_Read")


def guarded(what: str) -> Callable[[Callable[_Given, _Read]], Callable[_Given, _Read]]:
    """Have a function that reads bytes from storage say what it found there, if that is not what was written."""

    def guard(read: Callable[_Given, _Read]) -> Callable[_Given, _Read]:
        def guarded_read(*args: _Given.args, **kwargs: _Given.kwargs) -> _Read:
            try:
                return read(*args, **kwargs)
            except _UNREADABLE as error:
                raise StorageError(
                    f"{what} in storage is damaged, or was written by somebody else ({error}): "
                    "check who can write there, and that client and workers have the same version"
                ) from error

        return guarded_read

    return guard
