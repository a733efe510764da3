"""Numbers that JSON does not know: infinity and NaN, written as words.

Where a number is expected the word alone will do: `"inf"`. In what users put into a hint of their own anything may be
meant, so there numbers are told from texts: `{"float": "inf"}`; and dicts that look like that are wrapped once more:
`{"float": {"float": "inf"}}`.
"""

import math
from typing import Any

_MARK = "float"
_WORDS = ("inf", "-inf", "nan")


def spell_out(value: Any) -> Any:
    """Numbers, texts, lists and dicts with infinity and NaN as words."""
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: spell_out(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [spell_out(part) if type(part) is not int else part for part in value]
    return value


def mark(value: Any) -> Any:
    """The same so that `unmark` can tell numbers from words."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_MARK: str(value)}
    if isinstance(value, dict):
        inner = {key: mark(part) for key, part in value.items()}
        return {_MARK: inner} if set(value) == {_MARK} else inner
    if isinstance(value, list | tuple):
        return [mark(part) for part in value]
    return value


def unmark(value: Any) -> Any:
    """What `mark` was given."""
    if isinstance(value, list):
        return [unmark(part) for part in value]
    if not isinstance(value, dict):
        return value
    meant = value.get(_MARK) if len(value) == 1 else None
    if meant in _WORDS:
        return float(meant)
    inner = meant if isinstance(meant, dict) else value
    return {key: unmark(part) for key, part in inner.items()}
