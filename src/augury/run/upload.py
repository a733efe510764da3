"""What the client sends along with a run: where code is imported from, and which state it is in."""

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from augury import serde
from augury.dag.graph import Graph
from augury.dag.modules import installed_packages, own_modules
from augury.dag.program import LoadedProgram, Program
from augury.errors import SerializationError
from augury.serde import Blob
from augury.versions import essential_versions, packages_named, versions_of

_LOOKED_AT_BYTES = 1024 * 1024


def user_of_constant(index: int, graph: Graph, program: Program) -> str:
    """What a constant is for, in words."""
    if index in program.functions:
        return f"the function {graph.functions[program.functions.index(index)].name}, with what it refers to"
    loaded = LoadedProgram(graph, program)
    users = (task for task in range(len(graph)) if index in loaded.constants_of(task))
    return f"a large argument of {graph.label(next(users))}"


def client_versions(program: Program, constants: Sequence[Blob], *, shared_files: bool) -> dict[str, str]:
    """The versions that workers must have too; where they share our files, they share what is installed as well."""
    if shared_files:
        return essential_versions()
    data = [memoryview(part)[:_LOOKED_AT_BYTES] for blob in constants for part in blob.parts[:2]]
    data.append(memoryview(program.encode()))
    return versions_of(packages_named(data, installed_packages())) | essential_versions()


def encode_template(template: Any) -> bytes:
    """What the user asked for, as bytes, for clients that attach to the run.

    Raises:
        SerializationError: Something in it cannot be pickled.
    """
    try:
        return serde.dumps(template).join()
    except Exception as error:
        raise SerializationError(
            f"what was asked for holds a value that cannot be stored with the run ({error!r}): ask for tasks alone, or "
            "have the run end with this client: submit(…, detach=False)"
        ) from error


def import_folders() -> tuple[str, ...]:
    """Where the user's modules are imported from, for workers that share the client's files."""
    return tuple(str(Path(folder or ".").resolve()) for folder in sys.path)


def code_stamp() -> str:
    """Changes when a module of the user's changes, so that no warm worker runs what it imported before."""
    digest = hashlib.blake2b("\0".join(import_folders()).encode(), digest_size=8)
    for file in sorted(str(module.__file__) for module in own_modules()):
        try:
            digest.update(f"{file}:{os.stat(file).st_mtime_ns};".encode())
        except OSError:
            digest.update(f"{file}:gone;".encode())
    return digest.hexdigest()
