"""Which modules the user wrote, and which are installed."""

import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType


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


def module_name(module: object) -> str:
    """A module's name; empty if it has none."""
    name = getattr(module, "__name__", "") if isinstance(module, ModuleType) else ""
    return name if isinstance(name, str) else ""


@lru_cache(maxsize=16_384)
def _is_installed(file: str) -> bool:
    folders = _installed_folders()
    return file.startswith(folders) or os.path.realpath(file).startswith(folders)


@lru_cache(maxsize=1)
def _installed_folders() -> tuple[str, ...]:
    """Where installed modules are, each with a separator at its end."""
    paths = sysconfig.get_paths()
    places = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    sites = {*site.getsitepackages(), site.getusersitepackages(), paths["purelib"], paths["platlib"]}
    places |= sites
    for folder in sites:
        places.update(_editable_folders(Path(folder)))
    places |= {os.path.realpath(place) for place in places}
    return tuple(place.rstrip(os.sep) + os.sep for place in places)


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
