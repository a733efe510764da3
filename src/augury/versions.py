"""Which versions client and workers have, and whether they understand each other.

Pickles of functions and classes are read by name against what is installed at the other end, so a run is refused at its
start if that differs where it matters: Python by its minor version; Augury and cloudpickle exactly, since their formats
are their own; other packages by their first two numbers, the third being for corrections.
"""

import importlib
import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache

import cloudpickle
import msgspec

from augury.errors import VersionMismatch

VERSION = "0.1.0"

_EXACT = frozenset({"augury", "cloudpickle"})
_TOLD = 12


def essential_versions() -> dict[str, str]:
    """What every run depends on, here."""
    return {
        "Python": ".".join(map(str, sys.version_info[:2])),
        "augury": VERSION,
        "cloudpickle": cloudpickle.__version__,
        "msgspec": msgspec.__version__,
    }


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """The versions that are installed here of those packages that are."""
    found = {package: _installed(package) for package in packages}
    return {package: version for package, version in found.items() if version}


def packages_named(data: Iterable[memoryview], packages: Iterable[str]) -> set[str]:
    """Those packages whose modules pickles name: what stands in a string's place, alone or before a dot."""
    names = sorted(packages)
    if not names:
        return set()
    listed = b"|".join(re.escape(name.encode()) for name in names)
    named = re.compile(rb"\x8c.(" + listed + rb")(?=[.\x94])", re.DOTALL)
    return {match.decode() for part in data for match in named.findall(part)}


def check_versions(client: Mapping[str, str], *, essential: bool = False, attaching: bool = False) -> None:
    """Refuse a run whose client has other versions than this worker, or than this client, which attaches to it.

    Args:
        client: What `essential_versions` and `versions_of` gave there.
        essential: Whether to look at nothing but what every run depends on.
        attaching: Whether this is a client.

    Raises:
        VersionMismatch: Names each difference.
    """
    here = essential_versions()
    place = "here" if attaching else "on the worker"
    differences = []
    for name, theirs in sorted(client.items()):
        if essential and name not in here:
            continue
        ours = here.get(name) or _installed(name)
        if _relevant(name, theirs) != _relevant(name, ours):
            differences.append(f"{name} {theirs} on the client and {ours or 'none'} {place}")
    if differences:
        more = [f"{len(differences) - _TOLD} more"] if len(differences) > _TOLD else []
        told = "; ".join(differences[:_TOLD] + more)
        if attaching:
            raise VersionMismatch(f"the client that started the run has other versions: {told}. Attach with the same")
        raise VersionMismatch(f"client and workers differ in versions: {told}. Install the same where workers run")


def _relevant(name: str, version: str) -> str:
    return version if name in _EXACT else ".".join(version.split(".")[:2])


@lru_cache(maxsize=1024)
def _installed(package: str) -> str:
    """The version of an installed package, by the name that it is imported under; empty if there is none.

    Several share some names, such as `google`: then there are as many versions.
    """
    metadata = importlib.import_module("importlib.metadata")  # it takes long to load, and most runs need it not
    try:
        return str(metadata.version(package))
    except (metadata.PackageNotFoundError, ValueError):
        return ", ".join(dict.fromkeys(str(metadata.version(name)) for name in _distributions().get(package, ())))


@lru_cache(maxsize=1)
def _distributions() -> Mapping[str, list[str]]:
    """Which installed distributions hold a package; reads all that is installed."""
    return importlib.import_module("importlib.metadata").packages_distributions()  # type: ignore[no-any-return]
