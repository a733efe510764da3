"""What is in modules that are not loaded, or may not be: a function imports them when it is called.

They are not loaded to be looked at. That may take long, and what a module does when it is loaded may depend on what
the function did before.
"""

import sys
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

from augury.dag.bytecode import uses_in
from augury.dag.imports import is_as_loaded
from augury.dag.modules import find_spec, is_pinned
from augury.errors import SerializationError


class Source(NamedTuple):
    """A module as an `import` would find it.

    Attributes:
        content: What makes it different from others: its code, or the bytes of a library; None if there is no such
            module, or its version says enough.
        imports: The modules that its code imports, by their full names; some may be no modules.
        is_pinned: Whether the version of its package says what it does.
    """

    content: CodeType | ModuleType | bytes | None = None
    imports: tuple[str, ...] = ()
    is_pinned: bool = False


def source_of(name: str) -> Source:
    """What an `import` of a module loads, or has loaded; raises what the compiler raises.

    Raises:
        SerializationError: The module is loaded, and its file may have changed since.
    """
    loaded = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else getattr(loaded, "__spec__", None)
    if spec is None:
        return Source(content=loaded)  # none; or one that was made by hand, which counts as it is
    if is_pinned(name, spec.origin):
        return Source(is_pinned=True)
    if spec.origin is None or spec.loader is None:
        return Source()  # nothing but a folder
    source = _read(name, spec)
    if sys.modules.get(name) is not None and not is_as_loaded(name, spec.origin):  # asked for what was read just now
        raise SerializationError(f"the module {name} may have changed since it was loaded")
    return source


def _read(name: str, spec: ModuleSpec) -> Source:
    code = spec.loader.get_code(name) if isinstance(spec.loader, InspectLoader) else None
    if code is None:
        return Source(content=Path(str(spec.origin)).read_bytes())
    package = spec.parent or ""
    found = [part for imported in uses_in(code).imports for part in imported.candidates(package)]
    return Source(content=code, imports=tuple(dict.fromkeys(found)))
