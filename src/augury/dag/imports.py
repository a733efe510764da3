"""Whether the file of a module that is loaded is still what was loaded.

A module does not remember what its file was like, and what is there now may have the times of an older one: a folder
or a link that was put in its place has. So files are looked at before modules are loaded from them, in processes that
watch imports. A module is vouched for as long as another look finds the same; one that was loaded before, or by other
means than an `import`, never is.
"""

import os
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NamedTuple

from augury.dag.modules import find_in

_CLOCK_STEP_NS = 20_000_000
"""By how much the times of files may be behind the clock."""


class _Look(NamedTuple):
    """Which file was found under a name, and when it last changed.

    That is not the time that programs may give it, which copying and unpacking do.
    """

    device: int
    inode: int
    changed_ns: int


class _Watch:
    """Looks at the files of modules before they are loaded; all else is left to those who find modules anyway.

    Always true: `_looks` holds no file that could have changed after the look and show the same.
    """

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the others find."""
        spec = find_in(fullname, path, target, besides=self)
        now_ns = time.time_ns()
        look = _look_at(spec.origin) if spec is not None and spec.has_location else None
        if fullname in sys.modules:  # asked for last: a module that is not there now is loaded after the look
            return spec
        if look is not None and look.changed_ns < now_ns - _CLOCK_STEP_NS:
            self._looks[fullname] = look
        else:
            self._looks.pop(fullname, None)
        return spec

    def vouches_for(self, name: str, file: str) -> bool:
        look = self._looks.get(name)
        return look is not None and look == _look_at(file)


_watch = _Watch()


def watch_imports() -> None:
    """Look at the files of modules that this process, and those forked from it, load from now on."""
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)


def is_as_loaded(name: str, file: str) -> bool:
    """Whether a module that is loaded certainly is what its file says now."""
    return _watch.vouches_for(name, file)


def _look_at(file: str | None) -> _Look | None:
    try:
        found = os.stat(file or "")
    except OSError:  # it is inside an archive
        return None
    return _Look(found.st_dev, found.st_ino, found.st_ctime_ns)
