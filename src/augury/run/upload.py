"""What the client sends along with a run: where code is imported from, and which state it is in."""

import hashlib
import os
import sys
from pathlib import Path

from augury.dag.graph import Graph
from augury.dag.modules import own_modules
from augury.dag.program import LoadedProgram, Program


def user_of_constant(index: int, graph: Graph, program: Program) -> str:
    """What a constant is for, in words."""
    if index in program.functions:
        return f"the function {graph.functions[program.functions.index(index)].name}, with what it refers to"
    loaded = LoadedProgram(graph, program)
    users = (task for task in range(len(graph)) if index in loaded.constants_of(task))
    return f"a large argument of {graph.label(next(users))}"


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
