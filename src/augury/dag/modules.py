"""Which modules the user wrote, and which are installed."""

import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from augury.versions import versions_of


def own_modules() -> list[ModuleType]:
    """The loaded modules that the user wrote: neither the standard library nor installed packages, nor Augury.

    `__main__` is not among them, because it travels by value anyway.
    """
    return [module for name, module in list(sys.modules.items()) if name == module_name(module) and is_own(module)]


def is_own(module: ModuleType) -> bool:
    """Whether the user wrote a module."""
    name = module_name(module)
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or name == "__main__" or name.partition(".")[0] == "augury":
        return False
    return not _is_installed(file)


def may_change(module: ModuleType) -> bool:
    """Whether the code of a module may change and its version not."""
    return not is_pinned(module_name(module), getattr(module, "__file__", None))


def is_pinned(name: str, file: object) -> bool:
    """Whether a version says what a module does.

    That is not so for a package that was installed in place (`pip install -e`), nor for a file that somebody only put
    where packages are, though they are no modules of the user's.

    Args:
        name: The module's name.
        file: Where it was loaded from, if it was a file.
    """
    package = name.partition(".")[0]
    if name == "__main__":
        return False
    if package == "augury":
        return True
    is_standard = package in sys.stdlib_module_names
    if isinstance(file, str) and os.path.isabs(file):
        return _is_in(file, _version_folders()) and (is_standard or _has_version(package))
    return is_standard  # built in, or frozen


def find_spec(name: str) -> ModuleSpec | None:
    """Search for a module as an `import` would, but load nothing, and without regard to what is loaded already."""
    found: ModuleSpec | None = None
    folders: Sequence[str] | None = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        if depth > 1 and folders is None:
            return None  # what it would be in is no package
        found = find_in(".".join(parts[:depth]), folders)
        if found is None:
            return None
        folders = found.submodule_search_locations
    return found


def find_in(
    name: str, folders: Sequence[str] | None, target: ModuleType | None = None, besides: object = None
) -> ModuleSpec | None:
    """Ask those whom an `import` asks for one module.

    Args:
        name: Its full name.
        folders: Where the package that it is in looks for modules; None if it is in none.
        target: What is loaded again.
        besides: Who asks, if it is one of them.
    """
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None) if finder is not besides else None
        found = find(name, folders, target) if find else None
        if isinstance(found, ModuleSpec):
            return found
    return None


def installed_packages() -> set[str]:
    """The packages that are loaded and were installed: neither the user's own, nor the standard library, nor Augury."""
    loaded = list(sys.modules.items())
    tops = {name for name, module in loaded if "." not in name and name == module_name(module) and not is_own(module)}
    return tops - sys.stdlib_module_names - {"augury", "__main__"}


def module_name(module: object) -> str:
    """A module's name; empty if it has none."""
    name = getattr(module, "__name__", "") if isinstance(module, ModuleType) else ""
    return name if isinstance(name, str) else ""


def _is_installed(file: str) -> bool:
    return _is_in(file, _installed_folders())


@lru_cache(maxsize=1024)
def _has_version(package: str) -> bool:
    return _normalized(package) in _distributions() or bool(versions_of([package]))


@lru_cache(maxsize=1)
def _distributions() -> frozenset[str]:
    """What is installed, as far as the names of folders tell: who knows it better takes long to load."""
    found = (path for folder in _site_folders() for path in Path(folder).glob("*.dist-info"))
    return frozenset(_normalized(path.name.partition("-")[0]) for path in found)


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


@lru_cache(maxsize=16_384)
def _is_in(file: str, folders: tuple[str, ...]) -> bool:
    return file.startswith(folders) or os.path.realpath(file).startswith(folders)


@lru_cache(maxsize=1)
def _installed_folders() -> tuple[str, ...]:
    """Where installed modules are, also those that were installed in place; each with a separator at its end."""
    in_place = {place for folder in _site_folders() for place in _editable_folders(Path(folder))}
    return (*_version_folders(), *_with_separators(in_place))


@lru_cache(maxsize=1)
def _version_folders() -> tuple[str, ...]:
    """Where the standard library and installed packages are copied to."""
    paths = sysconfig.get_paths()
    return _with_separators({paths["stdlib"], paths["platstdlib"], *_site_folders()})


def _site_folders() -> set[str]:
    paths = sysconfig.get_paths()
    return {*site.getsitepackages(), site.getusersitepackages(), paths["purelib"], paths["platlib"]}


def _with_separators(places: set[str]) -> tuple[str, ...]:
    """Folders and what they are links to."""
    real = places | {os.path.realpath(place) for place in places}
    return tuple(place.rstrip(os.sep) + os.sep for place in sorted(real))


def _editable_folders(site_folder: Path) -> Iterator[str]:
    """Where packages are that were installed in place: a `.pth` file names the folder, or a finder maps names."""
    for file in sorted(site_folder.glob("*.pth")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield os.path.join(site_folder, line.strip())
    for name, module in list(sys.modules.items()):
        mapping = getattr(module, "MAPPING", None) if name.startswith("__editable__") else None
        if isinstance(mapping, dict):
            yield from (str(place) for place in mapping.values())
