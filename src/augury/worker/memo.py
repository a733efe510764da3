"""Outputs of earlier runs: looked for before a function is called, kept when it was.

Nothing that goes wrong here is told to the user: the function is called then, as if nothing had been kept.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from augury import serde
from augury.dag.digest import value_digest
from augury.errors import StorageError
from augury.storage.results.protocol import Results
from augury.trust.seal import Keyring, Seal

_log = logging.getLogger(__name__)

_KEY_BYTES = 20
_VALUE = "result"


class Recalled(NamedTuple):
    """An output that was found."""

    value: Any


class Memo:
    """Finds and keeps the outputs of one invocation's tasks. Used by all executors.

    Always true: between `find` and `settle` a task is in `_found` if its output was found, and in `_keys` if its
    function is called and its output is to be kept.

    Args:
        results: Where they are kept.
        keyring: What signs them, and checks them before they are loaded.

    Attributes:
        recalled: How many outputs were found.
    """

    def __init__(self, results: Results, keyring: Keyring) -> None:
        self._results = results
        self._keyring = keyring
        self._functions: dict[int, bytes | None] = {}  # by index; None: it has no hash
        self._keys: dict[int, str] = {}
        self._found: set[int] = set()
        self._broken = False
        self._tally = threading.Lock()
        self.recalled = 0

    def find(
        self, task: int, index: int, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Recalled | None:
        """The output of a call that an earlier run made; None if there is none.

        Args:
            task: Which task makes the call.
            index: Of its function, in the graph.
            function: What is called.
            args: With what, before it can change that.
            kwargs: Likewise.
        """
        self._forget(task)  # what is left of an earlier try
        key = self._key(index, function, args, kwargs)
        if key is None or self._broken:
            return None
        recalled = self._read(key)
        if recalled is None:
            self._keys[task] = key
        else:
            self._found.add(task)
        return recalled

    def settle(self, task: int, value: Any, expires_s: float) -> bool:
        """A task has its output: keep it, or count it if it was found; whether it was."""
        key, found = self._keys.get(task), task in self._found
        self._forget(task)
        if found:
            with self._tally:
                self.recalled += 1
        elif key is not None and not self._broken:
            self._write(key, value, expires_s)
        return found

    def _forget(self, task: int) -> None:
        self._keys.pop(task, None)
        self._found.discard(task)

    def _read(self, key: str) -> Recalled | None:
        try:
            data = self._results.get(key)
            if data is None:
                return None
            self._seal(key).check_object(_VALUE, data)
            return Recalled(serde.loads(data, writable=True))
        except Exception as error:  # noqa: BLE001 - see above
            self._note("read", error)
            return None

    def _write(self, key: str, value: Any, expires_s: float) -> None:
        try:
            self._results.put(key, self._seal(key).sign_object(_VALUE, serde.dumps(value)), expires_s)
        except Exception as error:  # noqa: BLE001 - see above
            self._note("kept", error)

    def _seal(self, key: str) -> Seal:
        """What signs the output of one call: that of another one is not taken for it."""
        return self._keyring.seal(f"result/{key}")

    def _key(
        self, index: int, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> str | None:
        """What a call is known by; None if it has something about it that has no hash."""
        if index not in self._functions:
            self._functions[index] = _hash_of(function, "the function", function)
        code = self._functions[index]
        if code is None:
            return None
        values = (tuple(args), list(kwargs.items()))  # a function may ask for the order of keywords
        data = _hash_of(values, "an argument of", function)
        return None if data is None else blake2b(code + data, digest_size=_KEY_BYTES).hexdigest()

    def _note(self, what: str, error: Exception) -> None:
        """Storage that failed once is left alone: it may take its time to fail again."""
        self._broken = self._broken or isinstance(error, StorageError)
        _log.warning("an output of an earlier run cannot be %s: %s", what, error)


def _hash_of(value: Any, what: str, function: Callable[..., Any]) -> bytes | None:
    try:
        return value_digest(value)
    except Exception as error:  # noqa: BLE001 - a user's class may do anything when it is pickled
        _log.info("%s %r has no hash, so its output is not kept: %s", what, function, error)
        return None
