"""File systems in memory with large pages: an array is written to them, and mapped, at the speed of memory.

Shared memory has pages of 4 KiB unless the system says otherwise. To get and map them costs several times as much as to
copy what is written to them. Whoever may mount file systems can have one of his own whose files have pages of 2 MiB, as
far as they are that large; others go without.
"""

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

_NOSUID: Final = 2
_NODEV: Final = 4
_NOEXEC: Final = 8
_DETACH: Final = 2
"""Let go at once, and for good when nobody uses it any more: what is mapped stays readable."""

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def mount_memory(folder: Path) -> bool:
    """Have an empty folder be a file system in memory of its own, that only this user can enter; False if we may not.

    It takes as much as the file system that the folder is in: each platform as much, where they shared that before.
    """
    if _libc is None:
        return False
    room = os.statvfs(folder)
    options = f"mode=700,huge=within_size,size={room.f_blocks * room.f_frsize}"
    flags = ctypes.c_ulong(_NOSUID | _NODEV | _NOEXEC)
    return _libc.mount(b"augury", os.fsencode(folder), b"tmpfs", flags, options.encode()) == 0  # type: ignore[no-any-return]


def unmount(folder: Path) -> None:
    """Let go of what `mount_memory` made, with all that is in it; does nothing if there is none."""
    if _libc is not None and os.path.ismount(folder):
        _libc.umount2(os.fsencode(folder), _DETACH)
