"""A handler that knows what its process had loaded when it was forked."""

import sys

from augury.invoke.gateway import Invocation, InvocationContext
from augury.worker import entrypoint

_inherited: set[str] = set()


def handle(invocation: Invocation, context: InvocationContext) -> bool:
    _inherited.update(sys.modules)
    return entrypoint.handle(invocation, context)


def loaded_since() -> list[str]:
    """What this process has loaded by itself, of what every worker needs."""
    common = ("augury", "encodings", "importlib", "redis")
    return sorted(name for name in set(sys.modules) - _inherited if name.partition(".")[0] in common)
