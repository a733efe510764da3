"""Reading files into memory: large ones are mapped, which copies nothing.

Python keeps a file open as long as it is mapped. So there are only so many mappings in a process, whoever makes them,
and what comes beyond them is read.
"""

import mmap
import os
import resource
import threading
import weakref
from contextlib import suppress

from augury.serde import Buffer

MAPPED_BYTES = 128 * 1024
"""Smaller files are read: a copy of them costs less than a mapping."""

_mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_lock = threading.Lock()


def read_file(file: int, size: int) -> Buffer:
    """All of a file, in memory that may be written to; the file stays as it is.

    Args:
        file: A descriptor, which may be closed afterwards.
        size: How long the file is.
    """
    pages = _map(file, size, mmap.ACCESS_COPY)
    return _read_all(file, size) if pages is None else pages


def share_file(file: int, size: int) -> Buffer | None:
    """All of a file in the memory that it takes anyway, read-only; None where it would have to be copied."""
    with suppress(OSError):  # there is no room for it in this process
        return _map(file, size, mmap.ACCESS_READ)
    return None


def _map(file: int, size: int, access: int) -> memoryview | None:
    if size < MAPPED_BYTES:
        return None
    with _lock:
        if len(_mapped) >= _mappings_allowed():
            return None
        pages = mmap.mmap(file, size, access=access)
        _mapped.add(pages)
    return memoryview(pages)


def _mappings_allowed() -> int:
    """Half of the files that this process may open: the others are for connections and for users."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit // 2 if limit != resource.RLIM_INFINITY else 1_000_000


def _read_all(file: int, size: int) -> bytes:
    chunks = []
    while size > 0:
        chunk = os.read(file, size)
        if not chunk:
            break
        chunks.append(chunk)
        size -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
