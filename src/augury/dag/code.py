"""How functions and classes reach a worker: by name or by value.

By name is smaller, and the worker imports what the client did; it needs a module that both can find. Where
workers share the client's files that is every importable module; where they do not, it is the installed
packages, and everything that the user wrote travels by value.
"""

import importlib
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

from augury import serde
from augury.dag.modules import find_spec, is_own, module_name, own_modules
from augury.dag.task import Function
from augury.errors import DefinitionError, SerializationError


class FunctionByName(NamedTuple):
    """A function that the worker imports from a module it shares with the client.

    Attributes:
        module: The module's name.
        qualname: The name inside it, with dots.
        decorated: Whether that is bound to an object that holds the function as its `fn`.
    """

    module: str
    qualname: str
    decorated: bool

    def load(self) -> Callable[..., Any]:
        """Import it."""
        found: Any = importlib.import_module(self.module)
        for name in self.qualname.split("."):
            found = getattr(found, name)
        return found.fn if self.decorated else found  # type: ignore[no-any-return]


def encode_function(function: Function, *, shared_files: bool) -> serde.Blob:
    """A function as bytes; large arrays that it takes along are views of their own memory.

    Raises:
        SerializationError: It refers to something that cannot be pickled.
    """
    try:
        return serde.dumps(_by_name(function, shared_files) or function.fn)
    except DefinitionError as error:
        raise SerializationError(f"the function {function.name}: {error}") from error
    except Exception as error:
        raise SerializationError(
            f"the function {function.name} cannot be pickled ({error}); it refers to something that cannot travel, "
            "such as an open file, a lock or a connection: make that inside the task"
        ) from error


def load_function(data: serde.Buffer) -> Callable[..., Any]:
    """The function that `encode_function` made bytes of; raises whatever its loading raises."""
    loaded = serde.loads(data)
    return loaded.load() if isinstance(loaded, FunctionByName) else loaded


def _by_name(function: Function, shared_files: bool) -> FunctionByName | None:
    """How a worker imports a function, if it can be imported there."""
    fn = function.fn
    module_name = getattr(fn, "__module__", None)
    qualname = getattr(fn, "__qualname__", None)
    if not isinstance(module_name, str) or not isinstance(qualname, str):
        return None
    module = sys.modules.get(module_name)
    if module is None or "<" in qualname or not is_importable(module) or not (shared_files or not is_own(module)):
        return None
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    if found is fn:
        return FunctionByName(module_name, qualname, decorated=False)
    if found is not None and (found is function.handle or getattr(found, "fn", None) is fn):
        return FunctionByName(module_name, qualname, decorated=True)
    return None


def modules_to_send(*, shared_files: bool) -> list[ModuleType]:
    """The loaded modules whose functions and classes must travel by value."""
    own = own_modules()
    return [module for module in own if not is_importable(module)] if shared_files else own


def is_importable(module: ModuleType) -> bool:
    """Whether another process with the same search path finds this very file under the module's name."""
    name = module_name(module)
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or getattr(module, "__spec__", None) is None or name == "__main__":
        return False
    return _finds(name, file, tuple(sys.path))


@lru_cache(maxsize=16_384)
def _finds(name: str, file: str, search_path: tuple[str, ...]) -> bool:
    found = find_spec(name)
    return found is not None and found.origin is not None and os.path.realpath(found.origin) == os.path.realpath(file)
