"""Annotations that are text, and what the names in them stand for: who reads them at run time gets to that, too."""

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, ForwardRef, get_args


def names_in_annotations(annotations: object, names: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The names in annotations that are text, `"Inner"` or `list["Inner"]`, with what they stand for.

    Args:
        annotations: What `__annotations__` holds.
        names: What there is where they were written; names that it lacks are left out.
    """
    found = dict.fromkeys(
        name
        for annotation in (annotations.values() if isinstance(annotations, Mapping) else ())
        for text in _texts(annotation)
        for name in _names(text)
    )
    return [(name, names[name]) for name in found if name in names]


def _texts(annotation: Any) -> Iterator[str]:
    if isinstance(annotation, str):
        yield annotation
    elif isinstance(annotation, ForwardRef):
        yield annotation.__forward_arg__
    else:
        for argument in get_args(annotation):
            yield from _texts(argument)


@lru_cache(maxsize=16_384)
def _names(text: str) -> tuple[str, ...]:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    nodes = list(ast.walk(tree))
    inner = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    return (*names, *(name for part in inner if part != text for name in _names(part)))
